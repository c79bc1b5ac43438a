//! The host: threads, their turns, messages and environments.

mod deliver;
mod spawn;
mod turns;

pub use deliver::{Parcel, begin_turn, can_begin, deliver, writable};
pub use spawn::{SpawnAsk, create_steward, spawn};
pub use turns::{
    MAX_FAILURES, environment_made, environment_removed, retry, stop, stopped, turn_cut, turn_ended, turn_job,
};

use crate::ids::{BindingId, MessageId, ProjectId, ThreadId, TurnId};
use crate::moment::{Deadline, Moment};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// What a thread is for. Four levels and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    ProjectSteward,
    Steward,
    Worker,
    Reviewer,
}

impl Role {
    /// From 1 (project steward) to 4 (reviewer).
    pub fn depth(self) -> u8 {
        match self {
            Role::ProjectSteward => 1,
            Role::Steward => 2,
            Role::Worker => 3,
            Role::Reviewer => 4,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Role::ProjectSteward => "project steward",
            Role::Steward => "steward",
            Role::Worker => "worker",
            Role::Reviewer => "reviewer",
        }
    }
}

/// Where a thread stands. Changed only from a state that allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Never had a turn; no process, no session.
    Pending,
    /// A turn was begun and its agent has not answered yet.
    Starting,
    /// The agent works.
    Active,
    Idle,
    /// Being ended.
    Stopping,
    /// The last turn failed.
    Error,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Starting => "starting",
            Status::Active => "active",
            Status::Idle => "idle",
            Status::Stopping => "stopping",
            Status::Error => "error",
        }
    }

    /// A turn is live.
    pub fn busy(self) -> bool {
        matches!(self, Status::Starting | Status::Active)
    }
}

/// `provider/model/level`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ModelName {
    pub provider: String,
    /// May be empty (the provider's default) and may hold slashes.
    pub model: String,
    pub level: Option<String>,
}

/// The last part of a model's name is its level only if it is one of these.
pub const LEVELS: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];

impl ModelName {
    /// The first part is the provider (`claude` means `claude-code`), a last part
    /// that is a known level word is the level, and all between is the model.
    pub fn parse(text: &str) -> Result<ModelName, String> {
        let mut parts: Vec<&str> = text.trim().split('/').collect();
        if parts.iter().any(|p| p.trim().is_empty()) {
            return Err(format!("`{text}` is not provider/model/level"));
        }
        let provider = match parts.remove(0) {
            "claude" => "claude-code".to_owned(),
            other => other.to_owned(),
        };
        let level = match parts.last() {
            Some(last) if LEVELS.contains(last) => Some(parts.remove(parts.len() - 1).to_owned()),
            _ => None,
        };
        Ok(ModelName { provider, model: parts.join("/"), level })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if !self.model.is_empty() {
            write!(f, "/{}", self.model)?;
        }
        if let Some(level) = &self.level {
            write!(f, "/{level}")?;
        }
        Ok(())
    }
}

impl From<ModelName> for String {
    fn from(m: ModelName) -> String {
        m.to_string()
    }
}

impl TryFrom<String> for ModelName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        ModelName::parse(&text)
    }
}

/// Tokens counted or, where the agent does not count, estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    /// At least one part is an estimate.
    pub estimated: bool,
}

impl Tokens {
    pub fn add(&mut self, more: Tokens) {
        self.input += more.input;
        self.output += more.output;
        self.estimated |= more.estimated;
    }
}

/// Where a thread works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub kind: EnvironmentKind,
    pub state: EnvironmentState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// The project's own checkout, shared.
    Checkout,
    /// A git worktree with a branch of its own.
    Worktree { branch: String },
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
    Removed,
    /// Kept, because it held work that is nowhere else.
    MovedAside {
        path: PathBuf,
        why: String,
    },
}

/// How a message may reach a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendMode {
    /// Only if the thread is not at work.
    Start,
    /// Steers a live turn where the agent can, else waits for its end; starts an idle thread.
    Auto,
    /// Only into a live turn.
    Steer,
    /// Into a live turn, else starts one.
    SteerIfActive,
    /// Waits for the end of a live turn; starts an idle thread.
    QueueIfActive,
}

/// Who a message is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The owner, from page or command line.
    Person,
    Thread {
        id: ThreadId,
    },
    /// The system itself: a wake, a first prompt, a line after a cut turn.
    System,
}

/// A message that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub id: MessageId,
    pub from: Sender,
    /// prompt, wake, message, bus or resume: what the turn is counted under.
    pub cause: String,
    pub text: String,
    /// A wake is a level, not a message: when a crash cuts its turn it is made anew.
    pub wake: bool,
    pub at: Timestamp,
    /// The bus message that it carries.
    pub bus: Option<u64>,
}

/// A live turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub causes: Vec<String>,
    /// What began it, whole: needed until the turn has ended.
    pub messages: Vec<Queued>,
    /// The agent has shown that it has them.
    pub confirmed: bool,
    pub began: Timestamp,
    /// A report was taken during this turn.
    pub reported: bool,
}

/// One agent thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub id: ThreadId,
    pub project: ProjectId,
    pub title: String,
    pub role: Role,
    pub parent: Option<ThreadId>,
    /// Archived with it; never changes.
    pub owner: Option<ThreadId>,
    /// The binding it works for.
    pub binding: Option<BindingId>,
    pub model: ModelName,
    /// A parent hears of this thread's ended turns.
    pub notify_parent: bool,
    pub hidden: bool,
    /// full: tools run without asking.
    pub permission: String,
    /// Per namespace.
    pub metadata: BTreeMap<String, serde_json::Value>,
    pub environment: Environment,
    pub status: Status,
    pub turn: Option<Turn>,
    pub queue: Vec<Queued>,
    pub session: Option<String>,
    pub turns: u64,
    pub tokens: Tokens,
    /// The end of what it last said, at most 4,000 characters.
    pub last_words: String,
    /// Why it stands in `error`.
    pub error: Option<String>,
    /// It may need the person.
    pub unread: bool,
    pub created: Timestamp,
    pub archived: Option<Timestamp>,
    /// After a failed turn it rests until then.
    pub rest: Option<Deadline>,
    /// Failed turns in a row.
    pub failures: u32,
}

impl Thread {
    /// A worker is in flight from its spawn until it is archived, idle times included.
    pub fn in_flight(&self) -> bool {
        self.archived.is_none() && self.status != Status::Stopping
    }

    /// It rests after a failure.
    pub fn resting(&self, now: &Moment) -> bool {
        self.rest.as_ref().is_some_and(|d| !d.due(now))
    }

    pub fn branch(&self) -> Option<&str> {
        match &self.environment.kind {
            EnvironmentKind::Worktree { branch } => Some(branch),
            EnvironmentKind::Checkout => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_is_provider_then_model_then_a_known_level() {
        let m = ModelName::parse("claude/opus/high").unwrap();
        assert_eq!((m.provider.as_str(), m.model.as_str(), m.level.as_deref()), ("claude-code", "opus", Some("high")));
        let m = ModelName::parse("pi/fireworks/accounts/fireworks/models/kimi").unwrap();
        assert_eq!((m.model.as_str(), m.level), ("fireworks/accounts/fireworks/models/kimi", None));
        assert_eq!(ModelName::parse("scripted").unwrap().to_string(), "scripted");
        assert!(ModelName::parse("a//b").is_err());
    }
}
