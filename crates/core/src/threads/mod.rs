//! The host: threads, their turns, messages and environments.

mod ask;
mod deliver;
mod environment;
mod environments;
mod fork;
mod limit;
mod lineage;
mod message;
mod model_name;
mod room;
mod rows;
mod spawn;
mod steer;
mod stop;
mod tickets;
mod turns;

pub(crate) use ask::SETTLED;
pub use ask::{
    Ask, AskOption, AskReply, Means, Pending, Remembered, Settled, agent_asked, agent_unasked, answer_asked,
};
pub(crate) use deliver::waits_for;
pub use deliver::{Parcel, begin_turn, deliver, drop_message, known, told, unknown, writable};
pub use environment::{Environment, EnvironmentKind, EnvironmentState};
pub use environments::{environment_due, environment_made, environment_removed, measure_due, measured};
pub(crate) use environments::{measure_is_due, of_no_use};
pub use fork::fork;
pub use limit::{Limit, limit_in, zone};
pub use lineage::{Notice, archive, delete, notices_due, notify, unarchive, update};
pub(crate) use lineage::{discard, put_away};
pub use message::{Queued, SendMode, Sender};
pub use model_name::{LEVELS, ModelName};
pub(crate) use room::capped;
pub use room::{Why, can_begin, hindrance, next_change};
pub use rows::{EnvironmentRow, ThreadRow, environment_rows, thread_row, thread_rows};
pub use spawn::{EnvironmentAsk, SpawnAsk, create_steward, spawn};
pub use steer::{begin_steer, can_steer, steered};
pub use stop::{released, stop, stop_all, stop_asked, stopped};
pub(crate) use tickets::remember;
pub use tickets::{CHANGE_PATIENCE, ChangeState, TicketChange, ticket_written, write_ticket};
pub use turns::{
    Ended, MAX_FAILURES, compact, compact_asked, retry, retry_asked, steer_text, turn_confirmed, turn_cut, turn_ended,
    turn_job,
};
pub(crate) use turns::{compaction_is_due, try_again};

use crate::ids::{BindingId, ProjectId, ThreadId, TurnId};
use crate::moment::{Deadline, Moment};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    ProjectSteward,
    Steward,
    Worker,
    Reviewer,
    /// A thread that a person or another such thread started; it belongs to no effort.
    Plain,
}

impl Role {
    /// From 1 (project steward) to 4 (reviewer). A plain thread stands where its parents put it.
    pub fn depth(self) -> Option<u8> {
        match self {
            Role::ProjectSteward => Some(1),
            Role::Steward => Some(2),
            Role::Worker => Some(3),
            Role::Reviewer => Some(4),
            Role::Plain => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Role::ProjectSteward => "project steward",
            Role::Steward => "steward",
            Role::Worker => "worker",
            Role::Reviewer => "reviewer",
            Role::Plain => "thread",
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

/// What a thread's agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Everything: what the agent asks for is allowed.
    #[default]
    Full,
    /// Changes of files; the person is asked for the rest.
    AcceptEdits,
    /// Nothing: the person is asked.
    Ask,
}

impl Permission {
    pub fn word(self) -> &'static str {
        match self {
            Permission::Full => "full",
            Permission::AcceptEdits => "accept-edits",
            Permission::Ask => "ask",
        }
    }
}

/// How an agent takes a message while it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// Not at all: the message waits here for the turn's end.
    #[default]
    Queue,
    /// With its next step; what it does goes on.
    Inject,
    /// At once; what it was saying is broken off.
    Preempt,
}

/// What a thread's agent can do, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Can {
    pub steer: Steering,
    pub compact: bool,
    /// A conversation of its can be gone on with twice.
    pub fork: bool,
}

/// How full an agent's context is, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextUse {
    pub used: u64,
    /// How much fits, where the agent says it.
    pub window: Option<u64>,
}

/// What is to be changed of a thread; what is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Update {
    pub title: Option<String>,
    pub permission: Option<Permission>,
    /// Whether its parent hears of its ended turns.
    pub notify: Option<bool>,
    pub read: Option<bool>,
    /// Per name, for other programs; a null takes one away.
    pub metadata: BTreeMap<String, serde_json::Value>,
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

/// A live turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub causes: Vec<String>,
    /// What began it and what was steered into it, whole: needed until the turn has ended.
    pub messages: Vec<Queued>,
    /// The agent has shown that it has them.
    pub confirmed: bool,
    pub began: Timestamp,
    /// A report was taken during this turn.
    pub reported: bool,
    /// It has no messages: the agent makes its context smaller.
    pub compacts: bool,
}

/// A turn that failed and may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTurn {
    pub turn: TurnId,
    pub messages: Vec<Queued>,
    /// The agent had them.
    pub confirmed: bool,
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
    /// Its parent hears of its ended turns.
    pub notify_parent: bool,
    pub hidden: bool,
    pub permission: Permission,
    /// Per namespace.
    pub metadata: BTreeMap<String, serde_json::Value>,
    pub environment: Environment,
    pub status: Status,
    pub turn: Option<Turn>,
    /// In order. The store keeps it beside the row, for it may grow while the row stays.
    #[serde(skip)]
    pub queue: Vec<Arc<Queued>>,
    /// On their way into the live turn; whether the agent took them is not known yet.
    pub steering: Vec<Queued>,
    /// What its agent asked and waits for, oldest first.
    pub asks: Vec<Pending>,
    /// The asks that were settled last, so that a late answer can be explained.
    pub settled: Vec<Settled>,
    /// Answers to asks whose agent was gone by then: given when it asks the same again.
    pub remembered: Vec<Remembered>,
    pub session: Option<String>,
    /// The session of another thread that its first turn forks.
    pub forks: Option<String>,
    pub can: Can,
    /// As it was after the last turn that said so.
    pub context: Option<ContextUse>,
    /// The number of turns when its context was compacted last.
    pub compacted: u64,
    pub turns: u64,
    pub tokens: Tokens,
    /// The end of what it last said, at most 4,000 characters.
    pub last_words: String,
    /// Why it stands in `error`.
    pub error: Option<String>,
    /// What a retry is about.
    pub failed: Option<FailedTurn>,
    /// It may need the person.
    pub unread: bool,
    pub created: Timestamp,
    pub archived: Option<Timestamp>,
    /// Its transcript and messages are gone; this line stays.
    pub deleted: Option<Timestamp>,
    /// After a failed turn it rests until then.
    pub rest: Option<Deadline>,
    /// Failed turns in a row.
    pub failures: u32,
    /// The turns that count against the hour's cap, by when each stops counting.
    pub recent: Vec<Deadline>,
    /// It was stopped by hand: what waited then waits on until somebody writes to it.
    pub held: bool,
    /// Its agent's process runs idle and is released then.
    pub warm: Option<Deadline>,
    /// Its worktree is removed then.
    pub remove_by: Option<Deadline>,
    /// What its children did, told together at `notices_by`.
    pub notices: Vec<Notice>,
    pub notices_by: Option<Deadline>,
    /// What it changed of tickets lately, oldest first.
    #[serde(default)]
    pub changes: Vec<TicketChange>,
}

impl Thread {
    /// A worker is in flight from its spawn until it is archived, idle times included.
    pub fn in_flight(&self) -> bool {
        self.archived.is_none() && self.status != Status::Stopping
    }

    /// Neither archived nor deleted.
    pub fn live(&self) -> bool {
        self.archived.is_none() && self.deleted.is_none()
    }

    /// It rests after a failure.
    pub fn resting(&self, now: &Moment) -> bool {
        self.rest.as_ref().is_some_and(|d| !d.due(now))
    }

    pub fn branch(&self) -> Option<&str> {
        match &self.environment.kind {
            EnvironmentKind::Worktree { branch, .. } => Some(branch),
            EnvironmentKind::Checkout | EnvironmentKind::Directory { .. } => None,
        }
    }
}
