//! The twin over HTTP, as its users meet it.

mod pulls;
mod tickets;
mod world;
