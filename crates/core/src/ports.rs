//! What the engine needs of the outside, as traits. Adapters implement them in
//! `agents` and `sources`; the binary introduces them to the engine.

use crate::entity::{PullKey, RepoName};
use crate::ids::{ProjectId, ThreadId, TurnId};
use crate::snapshot::{AdoptAsk, Author, Beats, Found, Pull, Ticket};
use crate::threads::{Ask, AskReply, Can, ContextUse, ModelName, Permission, Tokens};
use crate::tickets::{TicketAsk, TicketWrite};
use crate::trouble::Trouble;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed answer of a port.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// The same, where the outside can fail.
pub type Try<'a, T> = Soon<'a, Result<T, Trouble>>;

/// A service of the outside that is logged in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    Linear,
    #[serde(rename = "github")]
    GitHub,
}

impl Service {
    pub const ALL: [Service; 2] = [Service::Linear, Service::GitHub];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Service::Linear => "Linear",
            Service::GitHub => "GitHub",
        }
    }

    /// Its name on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Service::Linear => "linear",
            Service::GitHub => "github",
        }
    }
}

/// What a service grants, and what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    pub service: Service,
    /// The service's own name of it: `core`, `graphql`, `requests`.
    pub name: String,
    /// 0 where the service has not said.
    pub limit: u64,
    pub remaining: u64,
    /// When it is full again.
    pub reset: Option<Timestamp>,
    /// Requests of this server within the last hour that count.
    pub asked: u64,
    /// Those that did not, because nothing had changed.
    pub unchanged: u64,
}

/// Tickets that are looked for: everything that is named has to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TicketSearch {
    /// Words that all stand in title or description, in any case.
    pub text: String,
    /// A team's key.
    pub team: Option<String>,
    /// A state's name; without one, what is not over.
    pub state: Option<String>,
    /// `me`, `nobody`, or somebody's name or address.
    pub assignee: Option<String>,
    /// Also what is over.
    pub over: bool,
    /// At most 100.
    pub limit: u32,
}

/// A ticket in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketLine {
    pub key: String,
    pub title: String,
    pub url: String,
    pub team: String,
    pub state: String,
    pub assignee: Option<String>,
    /// 0 none, 1 urgent, 2 high, 3 medium, 4 low.
    pub priority: u8,
    pub updated: Option<Timestamp>,
}

/// Where tickets live (Linear).
pub trait Tickets: Send + Sync {
    /// This server's own account.
    fn viewer(&self) -> Try<'_, Author>;
    /// Reads one ticket with its comments and links, by its id or its key.
    fn ticket<'a>(&'a self, uuid: &'a str) -> Try<'a, Ticket>;
    /// Labelled tickets of the teams that are assigned to this account.
    fn adoptable<'a>(&'a self, ask: &'a AdoptAsk) -> Try<'a, Vec<Found>>;
    /// Looks for tickets, the one that changed last first. A name that is of nothing is
    /// refused with what there is.
    fn search<'a>(&'a self, ask: &'a TicketSearch) -> Try<'a, Vec<TicketLine>>;
    /// A question in the service's own language that changes nothing; others are refused.
    fn query<'a>(&'a self, query: &'a str, variables: &'a serde_json::Value) -> Try<'a, serde_json::Value>;
    /// Finds what the names of a change mean. A name of nothing is refused with what
    /// there is. `id` is a fresh UUID for what the change makes.
    fn resolve<'a>(&'a self, ask: &'a TicketAsk, id: &'a str) -> Try<'a, TicketWrite>;
    /// Carries a change out; answers the address of what was written. Never repeated by itself.
    fn write<'a>(&'a self, write: &'a TicketWrite) -> Try<'a, String>;
    /// One line each of these tickets, for comparing. One that is gone has a line that says so.
    fn beats<'a>(&'a self, uuids: &'a [String]) -> Try<'a, Beats>;
    /// Whether something may be asked in the background now: a share of what the service
    /// grants is kept free for its owner.
    fn room(&self) -> Result<(), Trouble>;
    /// How the service's quotas stand, as far as it has said.
    fn quotas(&self) -> Vec<Quota>;
    /// Whether a change has been carried out already, and its address.
    fn written<'a>(&'a self, write: &'a TicketWrite) -> Try<'a, Option<String>>;
}

/// Where pull requests live (GitHub).
pub trait Pulls: Send + Sync {
    /// This server's own account.
    fn viewer(&self) -> Try<'_, Author>;
    /// Reads one pull with its checks, reviews and comments.
    fn pull<'a>(&'a self, key: &'a PullKey) -> Try<'a, Pull>;
    /// Pulls, open or not, whose head is this branch of the repo itself.
    fn of_branch<'a>(&'a self, repo: &'a RepoName, branch: &'a str) -> Try<'a, Vec<PullKey>>;
    /// One line each of these pulls, and of branches whose pulls are not known, for
    /// comparing. One that is gone has a line that says so.
    fn beats<'a>(&'a self, pulls: &'a [PullKey], branches: &'a [(RepoName, String)]) -> Try<'a, Beats>;
    /// Whether something may be asked in the background now: a share of what the service
    /// grants is kept free for its owner.
    fn room(&self) -> Result<(), Trouble>;
    /// How the service's quotas stand, as far as it has said.
    fn quotas(&self) -> Vec<Quota>;
    /// Squash-merges the pull at exactly this head; answers the merge commit.
    /// `Refused` when the head moved or the host does not merge it.
    fn merge<'a>(&'a self, key: &'a PullKey, head_sha: &'a str, title: &'a str) -> Try<'a, String>;
    /// Adds a comment; answers its id. Never repeated by itself.
    fn comment<'a>(&'a self, key: &'a PullKey, body: &'a str) -> Try<'a, String>;
}

/// What a webhook says, once its signature is known to be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Unique per delivery and hook; the same for a redelivery.
    pub delivery: String,
    /// linear or github; github-log where it was fetched and did not come by itself.
    pub source: String,
    /// The event's own words, such as `Issue update` or `check_run completed`.
    pub what: String,
    pub about: About,
    /// Signed rightly, but older than the sender's window allows.
    pub stale: bool,
}

/// What a ring names. It is never believed, only looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    Ticket {
        uuid: String,
        key: String,
        team: String,
    },
    Pull {
        pull: PullKey,
        branch: Option<String>,
    },
    /// A head that belongs to some pull.
    Head {
        repo: RepoName,
        sha: String,
        branch: Option<String>,
    },
    /// A push to a branch.
    Push {
        repo: RepoName,
        branch: String,
    },
    /// Verified, and of a kind that concerns nothing here.
    Nothing,
}

/// Why a webhook is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRing {
    #[error("the signature is missing or wrong")]
    Signature,
    #[error("the body is not what this hook sends: {0}")]
    Body(String),
}

/// Turns a webhook into a ring. The signature is checked over the raw bytes
/// before anything is parsed.
pub trait Doorbell: Send + Sync {
    /// `headers` have lower-case names. `now_ms` is Unix time in milliseconds.
    fn verify(&self, headers: &BTreeMap<String, String>, raw: &[u8], now_ms: i64) -> Result<Ring, BadRing>;
}

/// What one turn needs.
#[derive(Clone, Debug)]
pub struct TurnJob {
    pub project: ProjectId,
    pub thread: ThreadId,
    pub turn: TurnId,
    /// The agent's own session id, where one is to be resumed.
    pub session: Option<String>,
    /// That session is another thread's: it is forked, and left as it is.
    pub forks: bool,
    /// Which agent to start, with which model and level.
    pub model: ModelName,
    pub permission: Permission,
    pub cwd: PathBuf,
    /// The worktree that has to stand at `cwd`: made again if it is lost.
    pub worktree: Option<(RepoSpec, String)>,
    /// Resolved anew for this turn; not part of the transcript.
    pub context: String,
    pub prompt: String,
    /// Instead of a prompt: the agent is to make its context smaller.
    pub compacts: bool,
}

/// What an agent does during a turn, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEvent {
    /// The agent's first word after the prompt: it has it. Sent once.
    Confirmed {
        session: String,
        can: Can,
    },
    Text {
        text: String,
    },
    ToolCall {
        id: String,
        title: String,
    },
    ToolResult {
        id: String,
        ok: bool,
        text: String,
    },
    Usage(Tokens),
    /// How full its context is now.
    Context(ContextUse),
    /// It made its context smaller, asked or by itself.
    Compacted {
        before: Option<u64>,
        after: Option<u64>,
    },
    /// It waits for [`Agents::answer`].
    Asks(Box<Ask>),
    /// It does not wait any more.
    Unasks {
        key: String,
    },
}

/// How a turn ended, by the protocol's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    Finished,
    Cancelled,
    /// The agent or its provider failed.
    Failed {
        says: String,
    },
    /// The provider takes no more for now; until when, if it said so.
    Limited {
        says: String,
        until: Option<Timestamp>,
    },
}

/// What became of a message for a live turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steered {
    /// The agent has it.
    Taken,
    /// It has not and will not.
    NotTaken,
    /// It was handed over, and nobody knows.
    Unknown,
}

/// Takes what an agent does. Called from the agent's task; must not block long.
pub trait TurnSink: Send + Sync {
    fn take(&self, thread: &ThreadId, turn: &TurnId, event: TurnEvent);
}

/// An agent that can be started, or could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// The provider part of a model's name.
    pub provider: String,
    /// How it is spoken with: `stream-json` or `acp`.
    pub protocol: String,
    /// The command that starts it, where it was found.
    pub command: Option<String>,
    pub version: Option<String>,
    /// Why it cannot be started, and how to install it.
    pub missing: Option<String>,
}

/// Agents as processes.
pub trait Agents: Send + Sync {
    /// Starts or reuses the thread's process and runs one turn to its end. One
    /// prompt may have several results: the turn ends when the agent has
    /// nothing of ours left to work on.
    fn turn<'a>(&'a self, job: TurnJob, sink: Arc<dyn TurnSink>) -> Soon<'a, TurnEnd>;
    /// Puts a message into the thread's live turn. Answers once the agent has
    /// it, or once it is sure that it has not; never after the turn's end.
    fn steer<'a>(&'a self, thread: &'a ThreadId, turn: &'a TurnId, text: String) -> Soon<'a, Steered>;
    /// Answers what the agent asked under this key; says whether it still waited.
    fn answer<'a>(&'a self, thread: &'a ThreadId, key: &'a str, reply: &'a AskReply) -> Soon<'a, bool>;
    /// Ends the process of a thread that is idle; its session goes on later.
    fn release<'a>(&'a self, thread: &'a ThreadId) -> Soon<'a, ()>;
    /// Ends everything the thread runs, within 5 seconds.
    fn stop<'a>(&'a self, thread: &'a ThreadId) -> Soon<'a, ()>;
    /// Ends what an earlier run of the daemon on this directory left behind;
    /// answers how many processes there were.
    fn end_strays(&self) -> Soon<'_, usize>;
    /// The agents that are set up or known, with what is installed of them.
    fn known(&self) -> Soon<'_, Vec<AgentInfo>>;
}

/// A project's repository on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoSpec {
    pub project: ProjectId,
    pub name: RepoName,
    /// What `git clone` takes.
    pub remote: String,
    /// The branch that work starts from, where it is not the default one.
    #[serde(default)]
    pub base: Option<String>,
}

/// `.bb` as it stands at the remote's default branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BbFiles {
    pub commit: String,
    /// Path below `.bb/` → text.
    pub files: BTreeMap<String, String>,
}

/// What became of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    Gone,
    /// It held work that is nowhere else, so it was kept: where, and what.
    MovedAside {
        path: PathBuf,
        why: String,
    },
}

/// The git side of a project.
pub trait Repo: Send + Sync {
    /// Takes away locks that a git which was killed has left in the repositories here;
    /// answers how many.
    fn unlock(&self) -> Soon<'_, usize>;
    /// Clones the checkout if it is not there; answers its path.
    fn checkout<'a>(&'a self, spec: &'a RepoSpec) -> Try<'a, PathBuf>;
    /// Fetches and reads `.bb` at the default branch's tip, never from a working copy.
    fn read_bb<'a>(&'a self, spec: &'a RepoSpec) -> Try<'a, BbFiles>;
    /// A worktree of its own branch for the thread, from the default branch's
    /// tip; the one that is there already is answered as it is.
    fn add_worktree<'a>(&'a self, spec: &'a RepoSpec, thread: &'a ThreadId, branch: &'a str) -> Try<'a, PathBuf>;
    /// Bytes on disk below each of these paths; what cannot be read counts nothing.
    fn disk(&self, paths: Vec<PathBuf>) -> Soon<'_, BTreeMap<PathBuf, u64>>;
    /// Removes the thread's worktree and its local branch, unless that would lose work.
    fn remove_worktree<'a>(&'a self, spec: &'a RepoSpec, thread: &'a ThreadId, branch: &'a str) -> Try<'a, Removed>;
}
