//! Agents and git as they really are: child processes, and repositories on disk.

mod acp;
mod git;
mod processes;
