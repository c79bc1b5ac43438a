//! The machine: an event meets the world and leaves facts and effects.

mod apply;
mod apply_thread;
mod decide;
mod effect;
mod event;
mod fact;
mod outcome;
mod plan;
mod rows;
mod world;

pub use apply::apply;
pub use decide::decide;
pub use effect::{Answer, Effect, Write};
pub use event::{Caller, Event};
pub use fact::Fact;
pub use outcome::{Fate, How, Outcome, Receipt, Reply};
pub use plan::{next_deadline, plan};
pub use rows::Rows;
pub use world::{Host, Project, Sent, Settings, Subject, View, World};
