//! The twin over HTTP, as its users meet it.

mod faults;
mod gh;
mod pulls;
mod renames;
mod tickets;
mod world;
