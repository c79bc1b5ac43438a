//! The only scheduler. A synchronous heart that tests drive by hand, and a thin
//! shell around it that gives it time, a thread of its own and executors for
//! effects.

mod heart;
mod passes;
mod perform;
mod shell;

pub use heart::{Decider, Heart, Recovered, Started, Step, Tick};
pub use passes::{Passes, secret};
pub use perform::{Ports, perform, probe};
pub use shell::{Engine, EngineError, Line, Published};
