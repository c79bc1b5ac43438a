//! All that is known, as rows that are the fold of the facts.

use super::{Caller, Rows};
use crate::Millis;
use crate::bus::{BusMessage, ClaimsBook};
use crate::config::Config;
use crate::entity::{PullKey, RepoName};
use crate::ids::{BindingId, NeedId, ProjectId, ThreadId};
use crate::moment::Deadline;
use crate::ports::{RepoSpec, Service};
use crate::snapshot::Snapshot;
use crate::stewards::{Binding, Need, Poll};
use crate::threads::{EnvironmentKind, Limit, Permission, Role, Thread};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Whose row and stream of facts something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    Host,
    Project(ProjectId),
    Thread(ThreadId),
    Binding(BindingId),
    /// All claims and the bus's messages.
    Claims,
    Need(NeedId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Host => f.write_str("host"),
            Subject::Claims => f.write_str("claims"),
            Subject::Project(id) => id.fmt(f),
            Subject::Thread(id) => id.fmt(f),
            Subject::Binding(id) => id.fmt(f),
            Subject::Need(id) => id.fmt(f),
        }
    }
}

impl From<Subject> for String {
    fn from(s: Subject) -> String {
        s.to_string()
    }
}

impl TryFrom<String> for Subject {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let prefix = text.split('_').next().unwrap_or("");
        Ok(match prefix {
            "host" => Subject::Host,
            "claims" => Subject::Claims,
            ProjectId::PREFIX => Subject::Project(ProjectId(text)),
            ThreadId::PREFIX => Subject::Thread(ThreadId(text)),
            BindingId::PREFIX => Subject::Binding(BindingId(text)),
            NeedId::PREFIX => Subject::Need(NeedId(text)),
            _ => return Err(format!("`{text}` is no subject")),
        })
    }
}

/// What a server may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// From an entity's first ring to its look.
    pub debounce: Millis,
    /// Between two sweeps of a project.
    pub sweep: Millis,
    /// Between two polls of a service whose webhooks do not reach this machine.
    pub poll: Millis,
    /// Turns that one thread may begin within an hour; 0 for no cap.
    pub turns_per_hour: u32,
    /// Turns that may be live at once, and of one project.
    pub max_live: u32,
    pub max_live_project: u32,
    /// The process of an agent that was idle for so long is ended.
    pub idle_release: Millis,
    /// An archived thread's worktree is removed after so long.
    pub grace: Millis,
    /// So is the worktree of a thread that was idle for so long; 0 for never. It is
    /// made again with the next message.
    pub retention: Millis,
    /// Worktrees may take so many bytes of disk together: beyond that those of idle
    /// threads go, the least recently used first; 0 for no limit.
    pub worktrees_max: u64,
    /// Bus messages that one thread may send within a minute; 0 for no limit.
    pub bus_per_minute: u32,
    /// Messages of the bus and the history of claims are kept for so long, at least three
    /// days, and at most so many messages; 0 for ever, and for any number.
    pub bus_keep: Millis,
    pub bus_keep_messages: u64,
    /// A context of so many tokens is compacted after the turn; 0 for never.
    pub compact_at: u64,
    /// Agents that can be started. Empty where that is not known.
    pub providers: Vec<String>,
    /// The model of a plain thread, where none is named.
    pub model: String,
    /// What threads may do without asking, where nothing else is said.
    pub permission: Permission,
    /// The zone of times of day without one, as `Europe/Berlin`.
    pub zone: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            debounce: 5_000,
            sweep: 30 * 60_000,
            poll: 60_000,
            turns_per_hour: 30,
            max_live: 12,
            max_live_project: 8,
            idle_release: 30 * 60_000,
            grace: 5 * 60_000,
            retention: 30 * 86_400_000,
            worktrees_max: 50_000_000_000,
            bus_per_minute: 60,
            bus_keep: 30 * 86_400_000,
            bus_keep_messages: 100_000,
            compact_at: 120_000,
            providers: Vec::new(),
            model: "claude-code".into(),
            permission: Permission::Full,
            zone: "UTC".into(),
        }
    }
}

/// This daemon on this directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The run that began last.
    pub run: u64,
    pub settings: Settings,
    /// Every agent is stopped, until the owner lets them go on.
    pub stopped: bool,
    /// Providers that take no turns for now.
    pub limits: BTreeMap<String, Limit>,
    /// What is known of each service's doorbell.
    #[serde(default)]
    pub polls: BTreeMap<Service, Poll>,
    /// When the worktrees' disk is measured again.
    pub measure: Option<Deadline>,
}

/// One project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// The primary repository: it holds `.bb`.
    pub repo: RepoName,
    pub remote: String,
    pub created: Timestamp,
    /// What it had is gone; this line stays, so that worktrees of its threads can be removed.
    pub deleted: Option<Timestamp>,
    /// The switch: off until somebody turns it on here.
    pub on: bool,
    pub checkout: Option<PathBuf>,
    pub config: Config,
    /// Why the configuration could not be read last time, and since when.
    pub unread: Option<String>,
    pub steward: Option<ThreadId>,
    pub next_sweep: Option<Deadline>,
    /// A search for adoptable entities is in the air.
    pub sweeping: bool,
    /// When the last one ended, well or not.
    pub swept: Option<Timestamp>,
    /// One line while the last sweep failed.
    pub trouble: Option<String>,
}

impl Project {
    pub fn spec(&self) -> RepoSpec {
        RepoSpec { project: self.id.clone(), name: self.repo.clone(), remote: self.remote.clone(), base: None }
    }

    /// Its primary repository, or a further one of that name.
    pub fn spec_of(&self, name: &RepoName) -> Option<RepoSpec> {
        if self.repo == *name {
            return Some(self.spec());
        }
        let found = self.config.repos.iter().find(|r| r.name == *name)?;
        let (name, remote, base) = (found.name.clone(), found.remote.clone(), found.base.clone());
        Some(RepoSpec { project: self.id.clone(), name, remote, base })
    }
}

/// Every row that is in memory. Transcripts, snapshots and settled messages
/// stay in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub host: Host,
    pub projects: Rows<ProjectId, Project>,
    pub threads: Rows<ThreadId, Thread>,
    pub bindings: Rows<BindingId, Binding>,
    pub claims: ClaimsBook,
    pub needs: Rows<NeedId, Need>,
}

impl World {
    /// Projects that were not deleted.
    pub fn live_projects(&self) -> impl Iterator<Item = &Project> {
        self.projects.values().filter(|p| p.deleted.is_none())
    }

    /// The repository that the caller works on: what a bare `pr:7` means. For the owner
    /// that of `other`, else the first project's.
    pub fn home(&self, caller: &Caller, other: Option<&ThreadId>) -> RepoName {
        let thread = match caller {
            Caller::Thread(id) => Some(id),
            Caller::Person => other,
        };
        let works = thread.and_then(|t| self.threads.get(t)).and_then(|t| self.spec_of(t));
        let found = works.map(|spec| spec.name).or_else(|| Some(self.live_projects().next()?.repo.clone()));
        found.unwrap_or_else(|| RepoName("no/project".into()))
    }

    /// The repository that a thread's worktree is of; elsewhere its project's primary one.
    pub fn spec_of(&self, thread: &Thread) -> Option<RepoSpec> {
        match &thread.environment.kind {
            EnvironmentKind::Worktree { repo: Some(kept), .. } => Some(kept.as_ref().clone()),
            _ => self.projects.get(&thread.project).map(Project::spec),
        }
    }

    pub fn project_of_team(&self, team: &str) -> Option<&Project> {
        self.projects.values().find(|p| {
            p.on && p.config.project.as_ref().is_some_and(|f| f.teams.iter().any(|t| t.eq_ignore_ascii_case(team)))
        })
    }

    /// The binding with a steward for this key: `DEMO-1`, a pull linked to it, or its id.
    pub fn binding_by_key(&self, key: &str) -> Option<&Binding> {
        let pull = PullKey::parse(key);
        let fits = |b: &&Binding| {
            b.key.eq_ignore_ascii_case(key)
                || b.id.as_str() == key
                || pull.as_ref().is_some_and(|p| b.pull(p).is_some())
        };
        // An open effort comes before one that ended under the same name.
        self.bindings.values().filter(fits).min_by_key(|b| b.ended.is_some())
    }

    pub fn binding_of_pull(&self, key: &PullKey) -> Option<&Binding> {
        self.bindings.values().filter(|b| b.pull(key).is_some()).min_by_key(|b| b.ended.is_some())
    }

    /// Threads that work for a binding, oldest first; archived ones too.
    pub fn threads_of<'a>(&'a self, binding: &'a BindingId, role: Role) -> impl Iterator<Item = &'a Thread> + 'a {
        self.threads.values().filter(move |t| t.role == role && t.binding.as_ref() == Some(binding))
    }

    pub fn workers_in_flight<'a>(&'a self, binding: &'a BindingId) -> impl Iterator<Item = &'a Thread> + 'a {
        self.threads_of(binding, Role::Worker).filter(|t| t.in_flight())
    }

    pub fn open_needs<'a>(&'a self, binding: &'a BindingId) -> impl Iterator<Item = &'a Need> + 'a {
        self.needs.values().filter(move |n| n.closed.is_none() && n.binding.as_ref() == Some(binding))
    }

    /// A thread and everything whose lifecycle it owns, itself first.
    pub fn owned_by(&self, thread: &ThreadId) -> Vec<ThreadId> {
        self.closure(thread, |t, owner| t.owner.as_ref() == Some(owner))
    }

    /// A thread, those below it, those below them, and so on; itself first.
    pub(crate) fn closure(&self, of: &ThreadId, below: impl Fn(&Thread, &ThreadId) -> bool) -> Vec<ThreadId> {
        let mut all = vec![of.clone()];
        let mut at = 0;
        while let Some(above) = all.get(at).cloned() {
            let next = self.threads.values().filter(|t| below(t, &above) && !all.contains(&t.id));
            let next: Vec<ThreadId> = next.map(|t| t.id.clone()).collect();
            all.extend(next);
            at += 1;
        }
        all
    }
}

/// What the sender of a bus message has sent before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Under the same key of its own: to whom, as which number.
    pub same: BTreeMap<ThreadId, u64>,
    /// Within the last minute.
    pub recent: u32,
    /// The message that is asked about, with how far it has come: queued, handed,
    /// consumed, dropped, unknown or failed; nothing where its thread is gone.
    pub message: Option<(BusMessage, Option<String>)>,
}

/// What a decision may look at.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub world: &'a World,
    /// The snapshot last observed of the binding that the event is about.
    pub seen: Option<&'a Snapshot>,
    /// This webhook delivery was taken before.
    pub delivered: bool,
    /// What the sender of a bus message has sent before.
    pub sent: Sent,
}
