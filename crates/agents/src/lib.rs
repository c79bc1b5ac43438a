//! Coding agents as child processes, and the git side of projects.
//!
//! [`Runners`] drives agents, each in its own protocol, and owns every process
//! that they start; [`GitRepos`] owns checkouts and worktrees; [`processes`] finds
//! and ends processes by the marker in their environment.

mod acp;
mod child;
mod claude;
mod git;
mod git_run;
mod known;
mod live;
mod locks;
pub mod processes;
mod runners;
mod scripts;
mod setup;
mod slot;
mod wire;
mod worktrees;

pub use git::{GitRepos, origin};
pub use git_run::Credentials;
pub use known::{found, known};
pub use runners::Runners;
pub use setup::{MARK, McpEndpoint, Protocol, Provider, Setup, THREAD};
