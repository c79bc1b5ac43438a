//! Scenarios, kills and storms over the real heart and store.

mod bus;
mod bus_storms;
mod claims;
mod host_storms;
mod hosts;
mod kills;
mod projects;
mod reading;
mod rules;
mod scenarios;
mod storms;
mod tidy;
