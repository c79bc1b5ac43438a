//! The real binary, the twin over HTTP, real git, agents as real processes.

mod commands;
mod demo;
mod doors;
mod host;
mod kills;
mod rig;
