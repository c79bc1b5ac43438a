//! The real binary, the twin over HTTP, real git, agents as real processes.

mod bus;
mod commands;
mod demo;
mod doors;
mod home;
mod host;
mod kills;
mod logins;
mod proxies;
mod rig;
mod services;
