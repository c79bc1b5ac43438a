//! Coding agents as child processes, and the git side of projects.
//!
//! [`AcpAgents`] drives agents over the Agent Client Protocol and owns every
//! process that they start; [`GitRepos`] owns checkouts and worktrees;
//! [`processes`] finds and ends processes by the marker in their environment.

mod acp;
mod child;
mod connection;
mod git;
mod git_run;
mod live;
pub mod processes;
mod setup;
mod slot;
mod worktrees;

pub use acp::AcpAgents;
pub use git::GitRepos;
pub use setup::{MARK, McpEndpoint, Provider, Setup, THREAD};
