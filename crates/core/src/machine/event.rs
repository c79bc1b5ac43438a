//! Everything that can happen.

use super::{Answer, Effect, Settings, Subject};
use crate::bus::{ClaimAsk, Draft};
use crate::entity::{PullKey, RepoName};
use crate::ids::{AskId, BindingId, EffectId, MessageId, NeedId, ProjectId, ThreadId, TurnId};
use crate::ports::{Ring, Service};
use crate::refusal::Refusal;
use crate::snapshot::Pull;
use crate::stewards::Report;
use crate::threads::{Ask, Can, SendMode, SpawnAsk, Update};
use crate::tickets::TicketWrite;
use serde::{Deserialize, Serialize};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The owner of this server.
    Person,
    Thread(ThreadId),
}

impl Caller {
    /// Refuses what only the owner does: `only the owner <does>, not <thread>`.
    pub fn person_only(&self, does: &str, hint: &str) -> Result<(), Refusal> {
        match self {
            Caller::Person => Ok(()),
            Caller::Thread(id) => {
                Err(Refusal::not_met("person_only", format!("only the owner {does}, not {id}"), hint))
            }
        }
    }
}

/// One thing that happened or is asked for. A closed list: this is the only way in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The daemon started on this directory.
    RunBegan {
        settings: Settings,
    },
    ProjectAdded {
        name: String,
        repo: RepoName,
        remote: String,
    },
    Switched {
        project: ProjectId,
        on: bool,
    },
    ProjectDeleted {
        caller: Caller,
        project: ProjectId,
        yes: bool,
    },
    SweepDue {
        project: ProjectId,
    },
    /// It is time to ask a service what has changed.
    PollDue {
        service: Service,
    },
    /// A webhook, verified.
    Rang(Ring),
    LookDue {
        binding: BindingId,
    },
    /// The steward has news that wakes and nothing keeps it from a turn.
    WakeDue {
        binding: BindingId,
    },
    /// The ready gate is met and nothing stands against starting workers.
    LeaveDue {
        binding: BindingId,
    },
    /// The gate of a pull is met and a person merges here.
    MergeItemDue {
        binding: BindingId,
        pull: PullKey,
    },
    /// Its pull was merged or closed, or its binding ended.
    ItemMoot {
        need: NeedId,
    },
    /// A thread with queued messages can take a turn.
    TurnDue {
        thread: ThreadId,
    },
    /// Answer of a started effect.
    Answered {
        id: EffectId,
        effect: Effect,
        answer: Answer,
        attempts: u32,
    },
    /// The agent has shown that it has the turn's messages.
    TurnConfirmed {
        thread: ThreadId,
        turn: TurnId,
        session: String,
        can: Can,
    },
    /// Something waits to go into a live turn.
    SteerDue {
        thread: ThreadId,
    },
    NoticesDue {
        thread: ThreadId,
    },
    /// Its agent has been idle for long.
    ReleaseDue {
        thread: ThreadId,
    },
    CompactionDue {
        thread: ThreadId,
    },
    /// The grace of an archived thread's worktree is over, or an idle one was of no
    /// use for long.
    EnvironmentDue {
        thread: ThreadId,
    },
    /// It is time to look how much disk the worktrees take.
    MeasureDue,
    /// It has messages and had its turns of this hour.
    CapItemDue {
        thread: ThreadId,
    },
    /// The agent waits for an answer.
    AgentAsked {
        thread: ThreadId,
        turn: TurnId,
        ask: Box<Ask>,
    },
    /// The agent waits for it no longer.
    AgentUnasked {
        thread: ThreadId,
        key: String,
    },
    Reported {
        caller: Caller,
        report: Report,
    },
    Spawned {
        caller: Caller,
        ask: Box<SpawnAsk>,
    },
    Told {
        caller: Caller,
        to: ThreadId,
        text: String,
        mode: SendMode,
        /// From the page: an archived thread is brought back.
        revive: bool,
    },
    Stopped {
        caller: Caller,
        thread: ThreadId,
    },
    AllStopped {
        caller: Caller,
        on: bool,
    },
    Archived {
        caller: Caller,
        thread: ThreadId,
        /// More than the thread itself may go with it.
        yes: bool,
    },
    Unarchived {
        caller: Caller,
        thread: ThreadId,
    },
    Deleted {
        caller: Caller,
        thread: ThreadId,
        yes: bool,
    },
    Retried {
        caller: Caller,
        thread: ThreadId,
    },
    Compacted {
        caller: Caller,
        thread: ThreadId,
    },
    Forked {
        caller: Caller,
        thread: ThreadId,
        title: Option<String>,
        prompt: String,
    },
    Updated {
        caller: Caller,
        thread: ThreadId,
        update: Update,
    },
    /// A message that waits is taken back.
    MessageDropped {
        caller: Caller,
        message: MessageId,
    },
    AskAnswered {
        caller: Caller,
        ask: AskId,
        choice: String,
    },
    /// Our `gh` opened a pull for this thread.
    PullOpened {
        caller: Caller,
        pull: PullKey,
        branch: String,
    },
    /// Our `gh` wrote something else on a pull for this thread.
    Wrote {
        caller: Caller,
        pull: PullKey,
        what: String,
    },
    /// A thread changes a ticket; every name is found.
    TicketWriteAsked {
        caller: Caller,
        write: Box<TicketWrite>,
    },
    BusSent {
        caller: Caller,
        draft: Draft,
    },
    Claimed {
        caller: Caller,
        ask: ClaimAsk,
    },
    Heartbeat {
        caller: Caller,
        resource: String,
    },
    /// Whoever asked needs no answer any more.
    Withdrawn {
        caller: Caller,
        message: u64,
    },
    /// Time has brought something about in the claims book.
    ClaimsDue,
    /// Old messages are to be forgotten.
    ForgetDue,
    /// A thread was shown these messages of the bus, by number.
    BusRead {
        caller: Caller,
        messages: Vec<u64>,
    },
    /// A message that did not arrive is delivered again.
    BusRetried {
        caller: Caller,
        message: u64,
    },
    Released {
        caller: Caller,
        resource: String,
        force: Option<String>,
    },
    /// A press of Merge, with the pull as it was read for this press.
    MergePressed {
        caller: Caller,
        pull: PullKey,
        fresh: Box<Pull>,
    },
    /// A person says that an item is done.
    NeedDone {
        caller: Caller,
        need: NeedId,
    },
}

impl Event {
    /// The subject whose stream it is told on when it is refused, and under
    /// which it is recorded.
    pub fn subject(&self) -> Subject {
        let of = |caller: &Caller| match caller {
            Caller::Person => Subject::Host,
            Caller::Thread(id) => Subject::Thread(id.clone()),
        };
        match self {
            Event::RunBegan { .. }
            | Event::ProjectAdded { .. }
            | Event::Rang(_)
            | Event::MeasureDue
            | Event::PollDue { .. } => Subject::Host,
            Event::Switched { project, .. } | Event::SweepDue { project } => Subject::Project(project.clone()),
            Event::LookDue { binding }
            | Event::WakeDue { binding }
            | Event::LeaveDue { binding }
            | Event::MergeItemDue { binding, .. } => Subject::Binding(binding.clone()),
            Event::ClaimsDue | Event::ForgetDue => Subject::Claims,
            Event::ItemMoot { need } => Subject::Need(need.clone()),
            Event::TurnDue { thread }
            | Event::TurnConfirmed { thread, .. }
            | Event::SteerDue { thread }
            | Event::NoticesDue { thread }
            | Event::ReleaseDue { thread }
            | Event::CompactionDue { thread }
            | Event::EnvironmentDue { thread }
            | Event::CapItemDue { thread }
            | Event::AgentAsked { thread, .. }
            | Event::AgentUnasked { thread, .. } => Subject::Thread(thread.clone()),
            Event::Answered { effect, .. } => effect.subject(),
            Event::Reported { caller, .. }
            | Event::Spawned { caller, .. }
            | Event::Told { caller, .. }
            | Event::Stopped { caller, .. }
            | Event::AllStopped { caller, .. }
            | Event::Archived { caller, .. }
            | Event::Unarchived { caller, .. }
            | Event::Deleted { caller, .. }
            | Event::ProjectDeleted { caller, .. }
            | Event::Retried { caller, .. }
            | Event::Compacted { caller, .. }
            | Event::Forked { caller, .. }
            | Event::Updated { caller, .. }
            | Event::MessageDropped { caller, .. }
            | Event::AskAnswered { caller, .. }
            | Event::PullOpened { caller, .. }
            | Event::Wrote { caller, .. }
            | Event::TicketWriteAsked { caller, .. }
            | Event::BusSent { caller, .. }
            | Event::Claimed { caller, .. }
            | Event::Heartbeat { caller, .. }
            | Event::Withdrawn { caller, .. }
            | Event::BusRead { caller, .. }
            | Event::BusRetried { caller, .. }
            | Event::Released { caller, .. }
            | Event::MergePressed { caller, .. }
            | Event::NeedDone { caller, .. } => of(caller),
        }
    }

    /// Whose last observed snapshot the decision wants to see.
    pub fn compares(&self) -> Option<&BindingId> {
        match self {
            Event::WakeDue { binding } | Event::Answered { effect: Effect::Look { binding, .. }, .. } => Some(binding),
            _ => None,
        }
    }

    /// The body for the journal. A snapshot is kept once by its content, so it
    /// stands here by its hash.
    pub fn journal(&self) -> serde_json::Value {
        if let Event::Answered { id, effect, answer: Answer::Look(result), attempts } = self
            && let Ok(snapshot) = result.as_ref()
        {
            let hash = crate::text::hash(&snapshot.body());
            return serde_json::json!({ "answered": { "id": id, "effect": effect, "snapshot": hash, "attempts": attempts } });
        }
        // What differs in a poll is kept by the facts that follow from it.
        if let Event::Answered { id, effect, answer: Answer::Polled(Ok(beats)), attempts } = self {
            let (poll, lines) = (effect.name(), beats.len());
            return serde_json::json!({ "polled": { "id": id, "effect": poll, "lines": lines, "attempts": attempts } });
        }
        serde_json::to_value(self).unwrap_or_default()
    }
}
