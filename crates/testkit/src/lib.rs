//! Scenarios and storms on a simulated clock.
//!
//! A [`Sim`] is the engine's synchronous heart over the real store, with a
//! pretend outside that is as stale and as rude as the real one: it is read
//! when a look leaves and answers later. Everything follows from the seed.

mod agents;
mod checks;
mod host;
mod outside;
mod plants;
mod polls;
mod rng;
mod sim;
mod weather;
mod writes;

pub use outside::{GIGABYTE, Outside, REPO, TEAM};
pub use plants::Plant;
pub use rng::Rng;
pub use sim::Sim;
pub use weather::Weather;

/// Milliseconds in a second and in a minute.
pub const SECOND: i64 = 1_000;
pub const MINUTE: i64 = 60 * SECOND;
