//! The records of the pretend world and the fold that builds them.
//!
//! An event carries a whole record as it stands after the change, so the fold
//! is an insert and a journal line can be read on its own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A person, known to both services by the same login.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct User {
    pub login: String,
    pub name: String,
    pub email: String,
    /// True for the one user who owns both tokens.
    pub me: bool,
    /// Linear's id, UUID-shaped.
    pub uuid: String,
    /// GitHub's numeric id.
    pub id: u64,
}

/// One column of a team's board.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Column {
    pub id: String,
    pub name: String,
    /// triage, backlog, unstarted, started, completed, canceled or duplicate.
    pub kind: String,
    pub position: f64,
}

/// A Linear team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Team {
    pub id: String,
    pub key: String,
    pub name: String,
    pub states: Vec<Column>,
    /// The number that the next ticket takes.
    pub next_number: u64,
    pub created_at: Timestamp,
}

impl Team {
    /// The first column of a kind, in board order.
    pub fn first(&self, kind: &str) -> Option<&Column> {
        self.states.iter().find(|s| s.kind == kind)
    }
}

/// A Linear label; it belongs to one team, or to everybody.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Label {
    pub id: String,
    /// Key of the team.
    pub team: Option<String>,
    pub name: String,
    /// It holds other labels and is put on nothing.
    #[serde(default)]
    pub group: bool,
    /// The group that it stands in.
    #[serde(default)]
    pub parent: Option<String>,
    pub created_at: Timestamp,
}

/// A Linear issue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ticket {
    pub id: String,
    /// Key of the team.
    pub team: String,
    pub number: u64,
    pub title: String,
    pub description: Option<String>,
    pub priority: i32,
    pub state_id: String,
    /// Linear id of the assignee.
    pub assignee: Option<String>,
    /// Linear id of the creator.
    pub creator: Option<String>,
    pub labels: Vec<String>,
    pub parent: Option<String>,
    /// Linear id of the agent that works on it.
    #[serde(default)]
    pub delegate: Option<String>,
    /// Ids of tickets that block it.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    pub previous_identifiers: Vec<String>,
    pub trashed: bool,
    pub archived_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Ticket {
    /// Team key and number, as `DEMO-1`.
    pub fn identifier(&self) -> String {
        format!("{}-{}", self.team, self.number)
    }
}

/// A comment on a Linear issue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    pub id: String,
    pub ticket: String,
    pub body: String,
    /// Linear id of the author; none for a bot.
    pub user: Option<String>,
    pub parent: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub edited_at: Option<Timestamp>,
}

/// A link hung on a Linear issue; (ticket, url) is unique.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attachment {
    pub id: String,
    pub ticket: String,
    pub title: String,
    pub url: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A GitHub repository and the refs the journal knows of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Repo {
    pub id: u64,
    pub owner: String,
    pub name: String,
    pub default_branch: String,
    /// Full ref name to object id.
    pub refs: BTreeMap<String, String>,
    pub next_number: u64,
    /// Label name to id.
    pub labels: BTreeMap<String, u64>,
    pub created_at: Timestamp,
    pub pushed_at: Timestamp,
}

impl Repo {
    /// `owner/name`.
    pub fn full(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The tip of a branch.
    pub fn branch(&self, name: &str) -> Option<&String> {
        self.refs.get(&format!("refs/heads/{name}"))
    }
}

/// What the diff of a pull amounts to.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Stats {
    pub commits: u64,
    pub additions: u64,
    pub deletions: u64,
    pub changed_files: u64,
}

/// A pull request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pull {
    pub id: u64,
    /// `owner/name`.
    pub repo: String,
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    /// Login of the author.
    pub user: String,
    pub open: bool,
    pub draft: bool,
    pub head_ref: String,
    pub head_sha: String,
    pub base_ref: String,
    pub base_sha: String,
    pub labels: Vec<String>,
    /// Logins whose review is asked for.
    #[serde(default)]
    pub requested: Vec<String>,
    pub stats: Stats,
    /// None until a read computes it.
    pub mergeable: Option<bool>,
    /// The test merge while open, the real commit once merged.
    pub merge_commit_sha: Option<String>,
    /// A merge whose commit exists but whose ref update is not yet confirmed.
    pub merging: Option<String>,
    pub merged: bool,
    pub merged_by: Option<String>,
    pub merged_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    /// How often this pull was merged; more than one is a fault of the twin.
    pub merges: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A comment in the conversation of a pull.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PullComment {
    pub id: u64,
    pub repo: String,
    pub number: u64,
    pub user: String,
    pub body: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A review of a pull.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Review {
    pub id: u64,
    pub repo: String,
    pub number: u64,
    pub user: String,
    pub body: String,
    /// APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED or PENDING.
    pub state: String,
    pub commit_id: String,
    pub submitted_at: Option<Timestamp>,
}

/// A comment on a line of a pull's difference.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LineComment {
    pub id: u64,
    pub repo: String,
    pub number: u64,
    pub user: String,
    pub body: String,
    pub path: String,
    pub line: u64,
    pub commit_id: String,
    pub created_at: Timestamp,
}

/// One run of the pretend CI on one commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckRun {
    pub id: u64,
    pub suite: u64,
    pub repo: String,
    pub name: String,
    pub head_sha: String,
    pub head_branch: String,
    /// queued, in_progress or completed.
    pub status: String,
    pub conclusion: Option<String>,
    pub summary: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// One change of the world. Unknown fields are ignored when read back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Event {
    User(User),
    Team(Team),
    Label(Label),
    Ticket(Ticket),
    Note(Note),
    Attachment(Attachment),
    Repo(Repo),
    Pull(Box<Pull>),
    PullComment(PullComment),
    Review(Review),
    LineComment(LineComment),
    CheckRun(CheckRun),
    /// A caller's idempotency key and the id it made.
    Key {
        key: String,
        id: String,
    },
    Mute(bool),
    /// A repository has another full name.
    Renamed {
        from: String,
        to: String,
    },
    /// One webhook attempt and whether it was answered with success.
    Delivery {
        service: String,
        event: String,
        ok: bool,
    },
}

/// How many webhooks went out, and how many of them failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deliveries {
    pub sent: u64,
    pub failed: u64,
}

/// Everything, as the fold over the journal leaves it.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The id counter; every journal line records it.
    pub next: u64,
    pub users: BTreeMap<String, User>,
    pub teams: BTreeMap<String, Team>,
    pub labels: BTreeMap<String, Label>,
    pub tickets: BTreeMap<String, Ticket>,
    pub notes: BTreeMap<String, Note>,
    pub attachments: BTreeMap<String, Attachment>,
    pub repos: BTreeMap<String, Repo>,
    pub pulls: BTreeMap<(String, u64), Pull>,
    pub pull_comments: BTreeMap<u64, PullComment>,
    pub reviews: BTreeMap<u64, Review>,
    pub line_comments: BTreeMap<u64, LineComment>,
    pub check_runs: BTreeMap<u64, CheckRun>,
    pub keys: BTreeMap<String, String>,
    /// Names that repositories had, and their ids.
    pub renamed: BTreeMap<String, u64>,
    pub muted: bool,
    pub deliveries: BTreeMap<String, Deliveries>,
}

impl State {
    /// Folds one event in.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::User(u) => {
                if u.me {
                    for other in self.users.values_mut() {
                        other.me = false;
                    }
                }
                self.users.insert(u.login.clone(), u);
            }
            Event::Team(t) => drop(self.teams.insert(t.key.clone(), t)),
            Event::Label(l) => drop(self.labels.insert(l.id.clone(), l)),
            Event::Ticket(t) => drop(self.tickets.insert(t.id.clone(), t)),
            Event::Note(n) => drop(self.notes.insert(n.id.clone(), n)),
            Event::Attachment(a) => drop(self.attachments.insert(a.id.clone(), a)),
            Event::Repo(r) => drop(self.repos.insert(r.full(), r)),
            Event::Pull(p) => drop(self.pulls.insert((p.repo.clone(), p.number), *p)),
            Event::PullComment(c) => drop(self.pull_comments.insert(c.id, c)),
            Event::LineComment(c) => drop(self.line_comments.insert(c.id, c)),
            Event::Review(r) => drop(self.reviews.insert(r.id, r)),
            Event::CheckRun(c) => drop(self.check_runs.insert(c.id, c)),
            Event::Key { key, id } => drop(self.keys.insert(key, id)),
            Event::Mute(m) => self.muted = m,
            Event::Renamed { from, to } => self.rename(&from, &to),
            Event::Delivery { service, ok, .. } => {
                let count = self.deliveries.entry(service).or_default();
                if ok {
                    count.sent += 1;
                } else {
                    count.failed += 1;
                }
            }
        }
    }

    /// Everything under a repository's old name goes to its new one, which may be one that
    /// another had before.
    fn rename(&mut self, from: &str, to: &str) {
        let (Some(mut repo), Some((owner, name))) = (self.repos.remove(from), to.split_once('/')) else { return };
        (repo.owner, repo.name) = (owner.to_owned(), name.to_owned());
        self.renamed.remove(to);
        self.renamed.insert(from.to_owned(), repo.id);
        self.repos.insert(to.to_owned(), repo);
        let numbers: Vec<u64> = self.pulls.keys().filter(|(r, _)| r == from).map(|(_, n)| *n).collect();
        for number in numbers {
            if let Some(mut pull) = self.pulls.remove(&(from.to_owned(), number)) {
                pull.repo = to.to_owned();
                self.pulls.insert((to.to_owned(), number), pull);
            }
        }
        let named = self.pull_comments.values_mut().map(|c| &mut c.repo);
        let named = named.chain(self.reviews.values_mut().map(|r| &mut r.repo));
        let named = named.chain(self.line_comments.values_mut().map(|c| &mut c.repo));
        for repo in named.chain(self.check_runs.values_mut().map(|c| &mut c.repo)).filter(|r| *r == from) {
            *repo = to.to_owned();
        }
    }

    /// The owner of both tokens. Before a demo names one, a plain stand-in.
    pub fn me(&self) -> User {
        self.users.values().find(|u| u.me).cloned().unwrap_or_else(|| User {
            login: "owner".into(),
            name: "Owner".into(),
            email: "owner@example.com".into(),
            me: true,
            uuid: uuid_from("user", 0),
            id: 1,
        })
    }

    /// A user by login, or a stand-in when the world does not know it.
    pub fn user(&self, login: &str) -> User {
        let me = self.me();
        if me.login == login {
            return me;
        }
        self.users.get(login).cloned().unwrap_or_else(|| User {
            login: login.into(),
            name: login.into(),
            email: format!("{login}@example.com"),
            me: false,
            uuid: uuid_from(login, 0),
            id: 0,
        })
    }

    /// A user by Linear id.
    pub fn user_by_uuid(&self, id: &str) -> Option<User> {
        let me = self.me();
        if me.uuid == id {
            return Some(me);
        }
        self.users.values().find(|u| u.uuid == id).cloned()
    }

    /// A ticket by id, identifier or an identifier it had before a move.
    pub fn ticket(&self, id: &str) -> Option<&Ticket> {
        self.tickets.get(id).or_else(|| {
            self.tickets.values().find(|t| {
                t.identifier().eq_ignore_ascii_case(id)
                    || t.previous_identifiers.iter().any(|p| p.eq_ignore_ascii_case(id))
            })
        })
    }

    /// The column a ticket stands in.
    pub fn column(&self, ticket: &Ticket) -> Option<&Column> {
        self.teams.get(&ticket.team)?.states.iter().find(|s| s.id == ticket.state_id)
    }

    /// The comments of a pull, oldest first.
    pub fn comments_of<'a>(&'a self, repo: &'a str, number: u64) -> impl Iterator<Item = &'a PullComment> {
        self.pull_comments.values().filter(move |c| c.repo == repo && c.number == number)
    }

    /// The reviews of a pull, oldest first.
    pub fn reviews_of<'a>(&'a self, repo: &'a str, number: u64) -> impl Iterator<Item = &'a Review> {
        self.reviews.values().filter(move |c| c.repo == repo && c.number == number)
    }

    /// The check runs on a commit.
    pub fn runs_of<'a>(&'a self, repo: &'a str, sha: &'a str) -> impl Iterator<Item = &'a CheckRun> {
        self.check_runs.values().filter(move |c| c.repo == repo && c.head_sha == sha)
    }
}

/// A stable id in the shape of a UUID v4, derived by hash so that a replay makes the same one.
pub fn uuid_from(kind: &str, n: u64) -> String {
    let hash = Sha256::digest(format!("stewards-twin/{kind}/{n}").as_bytes());
    let mut b = [0u8; 16];
    b.copy_from_slice(&hash[..16]);
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    let h = hex::encode(b);
    format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}
