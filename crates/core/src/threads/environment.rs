//! Where a thread works, and what becomes of that place.

use crate::ports::RepoSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a thread works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub kind: EnvironmentKind,
    pub state: EnvironmentState,
}

impl Environment {
    pub fn unmade(kind: EnvironmentKind) -> Environment {
        Environment { kind, state: EnvironmentState::Unmade }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// The project's own checkout, shared.
    Checkout,
    /// A git worktree with a branch of its own.
    Worktree {
        branch: String,
        /// A further repository of the project, rather than its primary one.
        repo: Option<Box<RepoSpec>>,
    },
    /// A directory that somebody else made and looks after.
    Directory { path: PathBuf },
}

impl EnvironmentKind {
    pub fn word(&self) -> &'static str {
        match self {
            EnvironmentKind::Checkout => "checkout",
            EnvironmentKind::Worktree { .. } => "worktree",
            EnvironmentKind::Directory { .. } => "directory",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentState {
    /// Nothing was made yet: that happens with the first message.
    Unmade,
    Making,
    Ready {
        path: PathBuf,
    },
    /// Could not be made; said on the thread.
    Failed {
        says: String,
    },
    Removing,
    /// Gone, and made again with the next message.
    Removed,
    /// Kept, because it held work that is nowhere else; the next message brings it back.
    MovedAside {
        path: PathBuf,
        why: String,
    },
}

impl EnvironmentState {
    pub fn word(&self) -> &'static str {
        match self {
            EnvironmentState::Unmade => "unmade",
            EnvironmentState::Making => "making",
            EnvironmentState::Ready { .. } => "ready",
            EnvironmentState::Failed { .. } => "failed",
            EnvironmentState::Removing => "removing",
            EnvironmentState::Removed => "removed",
            EnvironmentState::MovedAside { .. } => "moved aside",
        }
    }
}
