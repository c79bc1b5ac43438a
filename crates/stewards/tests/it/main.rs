//! The real binary, the twin over HTTP, real git, agents as real processes.

mod commands;
mod demo;
mod doors;
mod kills;
mod rig;
