//! What is known and how it is decided.
//!
//! Everything here is pure: no clock, no I/O, no await, no randomness. An
//! [`Event`](machine::Event) meets the [`World`](machine::World) at a
//! [`Moment`](moment::Moment) in [`machine::decide`], which answers with facts
//! and effects or with a [`Refusal`](refusal::Refusal). [`machine::apply`] is
//! the only way the world changes, and [`machine::plan`] looks over all of it
//! and only sends further events.

pub mod bus;
pub mod config;
pub mod entity;
pub mod ids;
pub mod machine;
pub mod moment;
pub mod ports;
pub mod projects;
pub mod refusal;
pub mod snapshot;
pub mod stewards;
pub mod text;
pub mod threads;
pub mod tickets;
pub mod trouble;

/// A length of time in milliseconds. Never negative where it is a setting.
pub type Millis = i64;
