//! What is to be done outside, after the commit that decided it.

use super::Subject;
use crate::entity::{PullKey, RepoName};
use crate::ids::{BindingId, EffectId, ProjectId, ThreadId, TurnId};
use crate::ports::{BbFiles, Removed, RepoSpec, Steered, TurnEnd};
use crate::snapshot::{AdoptAsk, Beats, Found, LookAsk, Snapshot};
use crate::threads::{AskReply, ContextUse, Tokens};
use crate::tickets::TicketWrite;
use crate::trouble::Trouble;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A write to the outside that must happen once. Each has a probe by which it
/// is known, after a crash, whether it already happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// Probe: is the pull merged?
    Merge { pull: PullKey, head_sha: String, title: String },
    /// Probe: is a comment with this marker there?
    Comment { pull: PullKey, marker: String, body: String },
}

/// A closed list. All but `Turn`, `Steer` and the writes may simply be run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Checkout {
        spec: RepoSpec,
    },
    ReadBb {
        spec: RepoSpec,
    },
    FindAdoptable {
        project: ProjectId,
        ask: AdoptAsk,
    },
    Look {
        binding: BindingId,
        ask: LookAsk,
    },
    /// One line each, for comparing.
    PollTickets {
        uuids: Vec<String>,
    },
    PollPulls {
        pulls: Vec<PullKey>,
        branches: Vec<(RepoName, String)>,
    },
    MakeEnvironment {
        thread: ThreadId,
        spec: RepoSpec,
        branch: String,
    },
    RemoveEnvironment {
        thread: ThreadId,
        spec: RepoSpec,
        branch: String,
    },
    /// How much disk each of these worktrees takes.
    Measure {
        places: BTreeMap<ThreadId, PathBuf>,
    },
    /// Probe: none is needed. A turn that was started and has no end was cut.
    Turn {
        thread: ThreadId,
        turn: TurnId,
    },
    /// Probe: none is possible. One that was started and has no answer is unknown.
    Steer {
        thread: ThreadId,
        turn: TurnId,
    },
    /// Gives an agent the answer that it waits for.
    Answer {
        thread: ThreadId,
        key: String,
        reply: AskReply,
    },
    Stop {
        thread: ThreadId,
    },
    /// Ends the process of an idle agent.
    Release {
        thread: ThreadId,
    },
    Write {
        binding: BindingId,
        write: Write,
    },
    /// What a thread changes of a ticket. Probe: is it there, or so, already?
    WriteTicket {
        thread: ThreadId,
        write: Box<TicketWrite>,
    },
}

impl Effect {
    /// What it is, for people.
    pub fn name(&self) -> String {
        match self {
            Effect::Checkout { spec } => format!("checkout:{}", spec.project),
            Effect::ReadBb { spec } => format!("read-bb:{}", spec.project),
            Effect::FindAdoptable { project, .. } => format!("find:{project}"),
            Effect::Look { binding, .. } => format!("look:{binding}"),
            Effect::PollTickets { .. } => "poll:linear".into(),
            Effect::PollPulls { .. } => "poll:github".into(),
            Effect::MakeEnvironment { thread, .. } => format!("make:{thread}"),
            Effect::RemoveEnvironment { thread, .. } => format!("remove:{thread}"),
            Effect::Measure { .. } => "measure".to_owned(),
            Effect::Turn { turn, .. } => format!("turn:{turn}"),
            Effect::Steer { thread, turn } => format!("steer:{thread}:{turn}"),
            Effect::Answer { thread, key, .. } => format!("answer:{thread}:{key}"),
            Effect::Stop { thread } => format!("stop:{thread}"),
            Effect::Release { thread } => format!("release:{thread}"),
            Effect::Write { write: Write::Merge { pull, .. }, .. } => format!("merge:{pull}"),
            Effect::Write { write: Write::Comment { marker, .. }, .. } => format!("comment:{marker}"),
            Effect::WriteTicket { thread, write } => format!("ticket:{thread}:{}", write.digest()),
        }
    }

    /// Two unfinished effects never share this: a second one is the first one.
    /// A look is always its own, because its binding waits for that one, and a
    /// read of `.bb`, because one in the air may be of before the push.
    pub fn key(&self, id: &EffectId) -> String {
        match self {
            Effect::Look { .. } | Effect::ReadBb { .. } => id.to_string(),
            other => other.name(),
        }
    }

    pub fn subject(&self) -> Subject {
        match self {
            Effect::Checkout { spec } | Effect::ReadBb { spec } => Subject::Project(spec.project.clone()),
            Effect::FindAdoptable { project, .. } => Subject::Project(project.clone()),
            Effect::Measure { .. } | Effect::PollTickets { .. } | Effect::PollPulls { .. } => Subject::Host,
            Effect::Look { binding, .. } | Effect::Write { binding, .. } => Subject::Binding(binding.clone()),
            Effect::MakeEnvironment { thread, .. }
            | Effect::RemoveEnvironment { thread, .. }
            | Effect::Turn { thread, .. }
            | Effect::Steer { thread, .. }
            | Effect::Answer { thread, .. }
            | Effect::Stop { thread }
            | Effect::Release { thread }
            | Effect::WriteTicket { thread, .. } => Subject::Thread(thread.clone()),
        }
    }

    /// Whether running it again after a crash does no harm. The others are
    /// probed first.
    pub fn repeatable(&self) -> bool {
        !matches!(self, Effect::Turn { .. } | Effect::Steer { .. } | Effect::Write { .. } | Effect::WriteTicket { .. })
    }
}

/// What came of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Checkout(Result<PathBuf, Trouble>),
    Bb(Result<BbFiles, Trouble>),
    Adoptable(Result<Vec<Found>, Trouble>),
    Look(Box<Result<Snapshot, Trouble>>),
    Polled(Result<Beats, Trouble>),
    EnvironmentMade(Result<PathBuf, Trouble>),
    EnvironmentRemoved(Result<Removed, Trouble>),
    /// Bytes.
    Measured(BTreeMap<ThreadId, u64>),
    TurnEnded {
        end: TurnEnd,
        tokens: Tokens,
        context: Option<ContextUse>,
        last_words: String,
    },
    /// The daemon died during the turn.
    TurnCut,
    Steered(Steered),
    /// Whether an agent was there to hear it.
    Replied(bool),
    Stopped,
    Released,
    /// The merge commit, the comment's id, or where a ticket was changed.
    Written(Result<String, Trouble>),
}
