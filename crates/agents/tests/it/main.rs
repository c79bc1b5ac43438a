//! Agents and git as they really are: child processes, and repositories on disk.

mod acp;
mod claude;
mod git;
mod processes;
mod real;
mod rig;
