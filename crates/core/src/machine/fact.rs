//! What became true. Append-only; the rows are the fold of these.

use super::Settings;
use crate::bus::{BusMessage, Claim, Given, Waiter};
use crate::config::Config;
use crate::entity::{Entity, PullKey, RepoName};
use crate::ids::{AskId, BindingId, EffectId, MessageId, ProjectId, ThreadId, TurnId};
use crate::moment::Deadline;
use crate::ports::{Service, TurnEnd};
use crate::snapshot::Beat;
use crate::stewards::{EndReason, LinkedPull, NeedKind, News, Report};
use crate::threads::{
    Can, ChangeState, ContextUse, Environment, EnvironmentState, Limit, ModelName, Notice, Pending, Permission, Queued,
    Remembered, Role, TicketChange, Tokens, Update,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    // The host.
    RunBegan {
        run: u64,
        settings: Settings,
    },
    DeliveryTaken {
        delivery: String,
        source: String,
        what: String,
    },
    /// A service is asked what has changed, if there is anything to ask for.
    PollBegan {
        service: Service,
        next: Deadline,
        running: bool,
    },
    PollEnded {
        service: Service,
        /// Something had changed that no webhook told of, though they did come.
        missed: bool,
        trouble: Option<String>,
        /// Not to be asked before.
        again: Option<Deadline>,
    },
    /// Every agent at once, or on again.
    AllStopped {
        on: bool,
    },
    ProviderLimited {
        provider: String,
        limit: Limit,
    },
    LimitLifted {
        provider: String,
    },
    /// The worktrees' disk is measured, and again at `next`.
    MeasureBegan {
        next: Deadline,
    },
    /// Verified and of no concern here, or seen before.
    RingIgnored {
        what: String,
        why: String,
    },
    /// Somebody was refused; changes no row.
    Refused {
        code: String,
        says: String,
    },
    /// An effect failed and was given up; changes no row.
    EffectFailed {
        id: EffectId,
        key: String,
        says: String,
    },

    // Projects.
    ProjectAdded {
        name: String,
        repo: RepoName,
        remote: String,
    },
    /// With its threads and bindings.
    ProjectDeleted,
    SwitchedOn,
    SwitchedOff,
    CheckoutReady {
        path: PathBuf,
    },
    ProjectStewardNamed {
        thread: ThreadId,
    },
    ConfigRead {
        config: Box<Config>,
    },
    ConfigUnreadable {
        says: String,
    },
    SweepBegan {
        next: Deadline,
    },
    SweepEnded {
        found: usize,
        trouble: Option<String>,
    },

    // Bindings.
    CandidateSeen {
        project: ProjectId,
        entity: Entity,
        key: String,
    },
    /// Its project was deleted.
    BindingPurged,
    CandidateDropped {
        why: String,
    },
    /// `opens` is set by the first ring of a window and lasts until the look.
    RingJoined {
        why: String,
        closes: Deadline,
    },
    LookBegan {
        effect: EffectId,
    },
    /// The look could not be made; what is known stays.
    LookFailed {
        says: String,
        again: Deadline,
    },
    Observed {
        snapshot: String,
        title: String,
        url: String,
        key: String,
        state: Option<String>,
        pulls: Vec<LinkedPull>,
        /// A poll has seen a newer state than this answer.
        #[serde(default)]
        behind: bool,
        /// When it is looked at again whatever is heard.
        #[serde(default)]
        full_look: Option<Deadline>,
    },
    /// Something was still being computed: it is looked at again then.
    /// What a poll said of an entity, where it differs.
    BeatIs {
        key: String,
        beat: Beat,
    },
    /// A thread of its own is setting this state; nothing, where that failed.
    StateIsSet {
        state: Option<String>,
    },
    LookAgain {
        at: Deadline,
    },
    Adopted {
        steward: ThreadId,
    },
    Learned {
        news: Vec<News>,
    },
    Woken {
        causes: Vec<String>,
    },
    /// The wake's turn ended: what it carried was told.
    WakeDone,
    /// The wake's turn was cut or failed: what it carried is news again.
    WakeCut {
        cause: String,
    },
    Reported {
        report: Report,
        ready: Vec<String>,
    },
    LeaveGiven,
    PullLinked {
        pull: PullKey,
        branch: String,
        by: Option<ThreadId>,
    },
    EndingBegan {
        reason: EndReason,
    },
    EndingTakenBack,
    Ended {
        reason: EndReason,
    },
    MergeBegan {
        pull: PullKey,
        head_sha: String,
        by: String,
    },
    MergeDone {
        pull: PullKey,
        merge_sha: String,
    },
    MergeFailed {
        pull: PullKey,
        says: String,
    },
    Commented {
        pull: PullKey,
        marker: String,
    },

    // Threads.
    ThreadCreated {
        project: ProjectId,
        title: String,
        role: Role,
        parent: Option<ThreadId>,
        owner: Option<ThreadId>,
        binding: Option<BindingId>,
        model: ModelName,
        environment: Environment,
        /// A session of another thread's agent.
        forks: Option<String>,
        permission: Permission,
        notify_parent: bool,
        hidden: bool,
    },
    MessageAccepted {
        message: Queued,
    },
    EnvironmentIs {
        state: EnvironmentState,
    },
    TurnBegan {
        turn: TurnId,
        messages: Vec<MessageId>,
        causes: Vec<String>,
        /// The agent is to make its context smaller; there are no messages.
        compacts: bool,
    },
    TurnConfirmed {
        turn: TurnId,
        session: String,
        can: Can,
    },
    TurnEnded {
        turn: TurnId,
        end: TurnEnd,
        tokens: Tokens,
        context: Option<ContextUse>,
        last_words: String,
    },
    /// Messages are on their way into the live turn.
    Steering {
        turn: TurnId,
        messages: Vec<MessageId>,
    },
    /// The agent took them.
    Steered {
        turn: TurnId,
        messages: Vec<MessageId>,
    },
    /// It did not: they wait for the turn's end.
    SteeredBack {
        messages: Vec<MessageId>,
    },
    /// They are not sent again: the thread is archived by now (`known`), or
    /// nobody knows whether the agent took them.
    SteerLost {
        messages: Vec<MessageId>,
        known: bool,
    },
    AgentAsked {
        pending: Box<Pending>,
    },
    /// It was answered at once, without the person.
    AskPassed {
        fingerprint: String,
        title: String,
        by: String,
    },
    AskSettled {
        ask: AskId,
        how: String,
        /// The answer, where its agent is gone.
        remember: Option<Remembered>,
    },
    /// The daemon died during it. `unknown` were handed over and not confirmed.
    TurnCut {
        turn: TurnId,
        unknown: Vec<MessageId>,
    },
    Stopping,
    Stopped,
    /// `failed` are messages that it will not take any more.
    Archived {
        failed: Vec<MessageId>,
    },
    Unarchived,
    Deleted,
    Updated {
        update: Update,
    },
    /// What waits for it waits on until the next message.
    Held,
    /// A message that waited was taken back.
    MessageDropped {
        message: MessageId,
    },
    /// The thread has read them before they were delivered: in its live turn, or so far
    /// as to answer them.
    MessagesRead {
        turn: Option<TurnId>,
        messages: Vec<MessageId>,
    },
    /// Its idle agent's process is ended.
    Released,
    Noticed {
        notice: Notice,
        by: Deadline,
    },
    NoticesTold,
    /// It wrote on a pull, through our `gh`.
    Wrote {
        pull: PullKey,
        what: String,
    },
    /// It changes a ticket.
    TicketChangeBegan {
        change: Box<TicketChange>,
    },
    TicketChangeEnded {
        digest: String,
        state: ChangeState,
    },
    /// A person had it try again after failures.
    Retried,
    /// Its live turn has reported.
    ReportTaken,

    // The bus and the claims book.
    BusSent {
        message: BusMessage,
    },
    /// A message that owed an answer gets none.
    OwedClosed {
        message: u64,
        why: String,
    },
    /// Old messages and the history of old claims are forgotten: what was before, and
    /// messages up to this number. What is owed an answer or waits is kept.
    BusForgotten {
        before: Timestamp,
        up_to: u64,
        /// The numbers given so far, for what is forgotten may have been the newest.
        given: Given,
    },
    ClaimTaken {
        claim: Box<Claim>,
        displaced: Option<ThreadId>,
    },
    ClaimRenewed {
        key: String,
        expires: Deadline,
    },
    /// Its holder was told that somebody wants it.
    ClaimWanted {
        key: String,
        by: ThreadId,
    },
    /// Its holder was told that its holding ends soon.
    ClaimWarned {
        key: String,
    },
    /// Somebody stands in line.
    ClaimAwaited {
        waiter: Box<Waiter>,
    },
    /// And does so no longer.
    ClaimUnawaited {
        seq: u64,
        key: String,
        why: String,
    },
    ClaimReleased {
        key: String,
        why: String,
    },

    // Needs.
    NeedFiled {
        project: ProjectId,
        binding: Option<BindingId>,
        kind: NeedKind,
        text: String,
    },
    NeedClosed {
        how: String,
    },
}

impl Fact {
    /// The resource whose history it belongs to.
    pub fn claims(&self) -> Option<&str> {
        match self {
            Fact::ClaimTaken { claim, .. } => Some(&claim.key),
            Fact::ClaimAwaited { waiter } => Some(&waiter.key),
            Fact::ClaimReleased { key, .. }
            | Fact::ClaimRenewed { key, .. }
            | Fact::ClaimWanted { key, .. }
            | Fact::ClaimWarned { key }
            | Fact::ClaimUnawaited { key, .. } => Some(key),
            _ => None,
        }
    }
}
