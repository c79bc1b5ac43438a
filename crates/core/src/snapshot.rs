//! What a look saw. A ring carries no truth; a snapshot always does.

use crate::entity::{PullKey, RepoName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who wrote or did something. Nobody (a deleted account) is a ghost and is
/// never equal to the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The login or account id that the source compares by.
    pub login: String,
    /// As people read it.
    pub name: String,
    pub bot: bool,
    /// This server's own account.
    pub me: bool,
}

impl Author {
    pub fn ghost() -> Author {
        Author { login: String::new(), name: "ghost".into(), bot: false, me: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// The source's id, unique within the source.
    pub id: String,
    pub author: Author,
    pub body: String,
    pub at: Timestamp,
    pub edited: Option<Timestamp>,
}

/// A comment on a line of a pull's difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inline {
    pub comment: Comment,
    pub path: String,
    /// As it was when the comment was written, where the line is gone.
    pub line: Option<u64>,
    /// The head that it was written on.
    pub commit: String,
}

/// A file that a pull changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    /// added, removed, modified, renamed, copied, changed or unchanged.
    pub status: String,
    /// What it was called before, where it was renamed.
    pub from: Option<String>,
}

/// Parts of a snapshot that may be unreadable while the rest is read.
pub const INLINE: &str = "comments on lines";
pub const FILES: &str = "files";
pub const COMMENTS: &str = "comments";
pub const LINKS: &str = "links";

/// A state of a ticket's team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketState {
    /// As the team calls it.
    pub name: String,
    /// triage, backlog, unstarted, started, completed, canceled or duplicate.
    pub category: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub uuid: String,
    /// `DEMO-1`.
    pub identifier: String,
    pub url: String,
    pub title: String,
    pub description: String,
    /// The team's key.
    pub team: String,
    pub state: TicketState,
    pub labels: Vec<String>,
    /// Of labels that stand in a group: the group's name by the label's.
    #[serde(default)]
    pub groups: BTreeMap<String, String>,
    pub assignee: Option<Author>,
    /// The agent that works on it for its assignee.
    #[serde(default)]
    pub delegate: Option<Author>,
    /// The key of the ticket that this one is a part of.
    #[serde(default)]
    pub parent: Option<String>,
    /// Keys of tickets that are not over and have to be before this one.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// 0 none, 1 urgent, 2 high, 3 medium, 4 low.
    pub priority: u8,
    pub trashed: bool,
    /// When the service says that it changed last.
    #[serde(default)]
    pub updated: Option<Timestamp>,
    /// Oldest first.
    pub comments: Vec<Comment>,
    /// Addresses attached to the ticket, pull requests among them.
    pub links: Vec<String>,
    /// Parts that could not be read; what was known of them stays.
    #[serde(default)]
    pub unread: Vec<String>,
}

/// Whether a pull could be merged, as far as the host has computed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mergeable {
    Yes,
    No,
    /// Being computed: neither yes nor no.
    Computing,
}

/// The roll-up of all checks of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rollup {
    /// The head has none (yet).
    None,
    Pending,
    Green,
    Red,
    /// The login may not read them.
    Unreadable,
}

impl Rollup {
    pub fn settled(self) -> bool {
        matches!(self, Rollup::Green | Rollup::Red)
    }

    pub fn word(self) -> &'static str {
        match self {
            Rollup::None => "none",
            Rollup::Pending => "pending",
            Rollup::Green => "green",
            Rollup::Red => "red",
            Rollup::Unreadable => "unreadable",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// The conclusion in the host's lower-case word, or the status while it runs.
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub id: String,
    pub author: Author,
    /// approved, changes_requested, commented, dismissed.
    pub verdict: String,
    /// The head that it judged.
    pub commit: String,
    pub body: String,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullState {
    Open,
    Closed,
    Merged,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    pub key: PullKey,
    pub url: String,
    pub title: String,
    pub body: String,
    pub author: Author,
    pub state: PullState,
    pub draft: bool,
    pub labels: Vec<String>,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub mergeable: Mergeable,
    /// Only once merged: before that the host's value is a throw-away test commit.
    pub merge_sha: Option<String>,
    /// When the service says that it changed last.
    #[serde(default)]
    pub updated: Option<Timestamp>,
    pub rollup: Rollup,
    pub checks: Vec<Check>,
    /// Oldest first, without pending ones.
    pub reviews: Vec<Review>,
    /// Oldest first.
    pub comments: Vec<Comment>,
    /// Whose review is asked for: logins, and teams as `@slug`. Who has reviewed is not
    /// in it any more.
    #[serde(default)]
    pub requested: Vec<String>,
    /// Comments on lines, oldest first.
    #[serde(default)]
    pub inline: Vec<Inline>,
    /// The first three hundred.
    #[serde(default)]
    pub files: Vec<ChangedFile>,
    /// How many it changes, read or not.
    #[serde(default)]
    pub changed_files: u64,
    /// Issues that its description says it closes: `owner/name#7`.
    #[serde(default)]
    pub closes: Vec<String>,
    /// Parts that could not be read; what was known of them stays.
    #[serde(default)]
    pub unread: Vec<String>,
}

/// One line about an entity, for comparing: another one means that a look would see
/// something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Everything but what follows, as one text.
    pub what: String,
    /// For a pull, unless it is just being computed.
    pub merges: Option<bool>,
    /// When the service says that it changed last.
    pub updated: Option<Timestamp>,
}

impl Beat {
    /// Of something that is not there.
    pub fn gone() -> Beat {
        Beat { what: "gone".into(), ..Beat::default() }
    }

    /// A push to the base makes every pull be computed anew: that alone is no difference.
    pub fn differs(&self, before: &Beat) -> bool {
        let merges = matches!((self.merges, before.merges), (Some(now), Some(then)) if now != then);
        merges || self.what != before.what || self.updated > before.updated
    }
}

/// Beats by the keys of [`crate::stewards::key`].
pub type Beats = BTreeMap<String, Beat>;

/// Everything one look saw of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub ticket: Option<Ticket>,
    /// The linked pulls, by key.
    pub pulls: Vec<Pull>,
}

impl Pull {
    /// Whether there are files that were not read: what a path says is not known then.
    pub fn files_cut(&self) -> bool {
        self.unread.iter().any(|u| u == FILES) || self.changed_files > self.files.len() as u64
    }
}

impl Snapshot {
    /// What could not be read now stays as it was seen before.
    pub fn keep_from(&mut self, before: &Snapshot) {
        if let (Some(now), Some(then)) = (&mut self.ticket, &before.ticket) {
            for part in now.unread.clone() {
                match part.as_str() {
                    COMMENTS => now.comments = then.comments.clone(),
                    LINKS => now.links = then.links.clone(),
                    _ => {}
                }
            }
        }
        for now in &mut self.pulls {
            let Some(then) = before.pulls.iter().find(|p| p.key == now.key) else { continue };
            for part in now.unread.clone() {
                match part.as_str() {
                    INLINE => now.inline = then.inline.clone(),
                    FILES => now.files = then.files.clone(),
                    _ => {}
                }
            }
        }
    }

    pub fn pull(&self, key: &PullKey) -> Option<&Pull> {
        self.pulls.iter().find(|p| &p.key == key)
    }

    /// Every time a key was or will be read, the same snapshot has the same bytes.
    pub fn body(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a look has to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookAsk {
    pub entity: crate::entity::Entity,
    /// Pulls known to be linked.
    pub pulls: Vec<PullKey>,
    /// Branches of the binding's workers: a pull from one of these is linked,
    /// even if nobody told us of it.
    pub branches: Vec<(RepoName, String)>,
}

/// What may be adopted in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptAsk {
    pub label: String,
    /// Keys of the listed teams.
    pub teams: Vec<String>,
}

/// A candidate that a sweep found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub entity: crate::entity::Entity,
    /// As people read it: `DEMO-1`.
    pub key: String,
}
