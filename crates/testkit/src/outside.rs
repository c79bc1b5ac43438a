//! The pretend outside: tickets, pulls, worktrees, and what happened to them.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use stewards_core::config::{Starting, starting_files};
use stewards_core::entity::{Entity, PullKey, RepoName};
use stewards_core::machine::{Answer, Effect, Write};
use stewards_core::ports::{BbFiles, Removed, Steered};
use stewards_core::snapshot::*;
use stewards_core::stewards::parse_marker;
use stewards_core::trouble::Trouble;

pub const REPO: &str = "acme/shop";
pub const TEAM: &str = "DEMO";

/// What every worktree takes.
pub const GIGABYTE: u64 = 1_000_000_000;

/// Everything out there.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    pub tickets: BTreeMap<String, Ticket>,
    pub pulls: BTreeMap<PullKey, Pull>,
    pub worktrees: BTreeSet<String>,
    /// No worktree can be made.
    pub no_places: bool,
    /// Times that a merge went through, by pull. More than one is the end.
    pub merges: BTreeMap<PullKey, u32>,
    /// What must never be; read by the checks.
    pub sins: Vec<String>,
    /// `.bb` below its directory.
    pub bb: BTreeMap<String, String>,
    pub bb_commit: u64,
    next: u64,
}

pub(crate) fn me() -> Author {
    Author { login: "me".into(), name: "Me".into(), bot: false, me: true }
}

impl Outside {
    pub fn new() -> Outside {
        let starting = Starting { team: TEAM, steward: "scripted", worker: "scripted", reviewer: "scripted" };
        Outside { bb: starting_files(&starting), bb_commit: 1, ..Outside::default() }
    }

    pub(crate) fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A labelled ticket, assigned to this account.
    pub fn ticket(&mut self) -> String {
        let n = self.tickets.len() + 1;
        let uuid = format!("00000000-0000-4000-8000-{n:012}");
        let ticket = Ticket {
            uuid: uuid.clone(),
            identifier: format!("{TEAM}-{n}"),
            url: format!("https://linear.example/{TEAM}-{n}"),
            title: "Say hello rightly".into(),
            description: "In `greeting.txt` replace `Helo` with `Hello`.".into(),
            team: TEAM.into(),
            state: state("Todo", "unstarted"),
            labels: vec!["bb-managed".into()],
            assignee: Some(me()),
            priority: 2,
            ..Ticket::default()
        };
        self.tickets.insert(uuid.clone(), ticket);
        uuid
    }

    pub fn set_state(&mut self, uuid: &str, name: &str, category: &str) {
        if let Some(ticket) = self.tickets.get_mut(uuid) {
            ticket.state = state(name, category);
        }
    }

    pub fn comment_on_ticket(&mut self, uuid: &str, author: Author, body: &str) {
        let id = self.id().to_string();
        if let Some(ticket) = self.tickets.get_mut(uuid) {
            ticket.comments.push(comment(id, author, body));
        }
    }

    /// Opens a pull for a branch and links it to the ticket, as Linear's own
    /// integration does.
    pub fn open_pull(&mut self, uuid: &str, branch: &str) -> PullKey {
        let number = self.id();
        let key = PullKey { repo: RepoName(REPO.into()), number };
        let pull = Pull {
            key: key.clone(),
            url: format!("https://github.example/{REPO}/pull/{number}"),
            title: "Say hello rightly".into(),
            body: String::new(),
            author: me(),
            state: PullState::Open,
            draft: false,
            labels: Vec::new(),
            head_branch: branch.into(),
            head_sha: sha(number * 1_000),
            base_branch: "main".into(),
            mergeable: Mergeable::Yes,
            updated: None,
            merge_sha: None,
            rollup: Rollup::Pending,
            checks: Vec::new(),
            reviews: Vec::new(),
            comments: Vec::new(),
            requested: Vec::new(),
            inline: Vec::new(),
            files: Vec::new(),
            changed_files: 0,
            closes: Vec::new(),
            unread: Vec::new(),
        };
        if let Some(ticket) = self.tickets.get_mut(uuid) {
            ticket.links.push(pull.url.clone());
            if ticket.state.category == "unstarted" {
                ticket.state = state("In Progress", "started");
            }
        }
        self.pulls.insert(key.clone(), pull);
        key
    }

    /// A push: a new head without checks or review.
    pub fn push(&mut self, key: &PullKey) {
        let n = self.id();
        if let Some(pull) = self.pulls.get_mut(key).filter(|p| p.state == PullState::Open) {
            pull.head_sha = sha(key.number * 1_000 + n);
            pull.rollup = Rollup::Pending;
            pull.mergeable = Mergeable::Computing;
        }
    }

    pub fn checks_finish(&mut self, key: &PullKey) {
        if let Some(pull) = self.pulls.get_mut(key) {
            pull.rollup = Rollup::Green;
            pull.mergeable = Mergeable::Yes;
        }
    }

    /// A signed review comment with its machine line, for the head as it is.
    pub fn review(&mut self, key: &PullKey, who: &str) {
        let id = self.id().to_string();
        if let Some(pull) = self.pulls.get_mut(key) {
            let line = format!("<!-- bb-review lane=reviewed verdict=approved sha={} -->\nFine.", pull.head_sha);
            pull.comments.push(comment(id, me(), &stewards_core::stewards::sign(&line, who, None)));
        }
    }

    pub fn reviewed(&self, key: &PullKey) -> bool {
        self.pulls.get(key).is_some_and(|p| {
            p.comments.iter().filter_map(|c| parse_marker(&c.body)).any(|m| m.approved && m.sha == p.head_sha)
        })
    }

    /// Reads, as an effect's look leaves.
    pub fn read(&mut self, effect: &Effect) -> Answer {
        match effect {
            Effect::Checkout { .. } => Answer::Checkout(Ok(PathBuf::from("/checkout"))),
            Effect::ReadBb { .. } => {
                Answer::Bb(Ok(BbFiles { commit: format!("{:040}", self.bb_commit), files: self.bb.clone() }))
            }
            Effect::FindAdoptable { ask, .. } => Answer::Adoptable(Ok(self.adoptable(ask))),
            Effect::Look { ask, .. } => Answer::Look(Box::new(self.look(ask))),
            Effect::PollTickets { uuids } => Answer::Polled(Ok(self.ticket_beats(uuids))),
            Effect::PollPulls { pulls, branches } => Answer::Polled(Ok(self.pull_beats(pulls, branches))),
            Effect::MakeEnvironment { .. } if self.no_places => {
                let says = "the setup script failed".to_owned();
                Answer::EnvironmentMade(Err(Trouble::Refused { says }))
            }
            Effect::MakeEnvironment { thread, .. } => {
                self.worktrees.insert(thread.to_string());
                Answer::EnvironmentMade(Ok(PathBuf::from(format!("/worktrees/{thread}"))))
            }
            Effect::RemoveEnvironment { thread, .. } => {
                self.worktrees.remove(thread.as_str());
                Answer::EnvironmentRemoved(Ok(Removed::Gone))
            }
            Effect::Measure { places } => Answer::Measured(places.keys().map(|t| (t.clone(), GIGABYTE)).collect()),
            Effect::Stop { .. } => Answer::Stopped,
            Effect::Release { .. } => Answer::Released,
            // The simulation answers these itself.
            Effect::Turn { .. } => Answer::TurnCut,
            Effect::Steer { .. } => Answer::Steered(Steered::NotTaken),
            Effect::Answer { .. } => Answer::Replied(false),
            Effect::Write { write, .. } => Answer::Written(self.write(write, true)),
            Effect::WriteTicket { .. } => {
                Answer::Written(Err(Trouble::Refused { says: "the simulation does it".into() }))
            }
        }
    }

    fn adoptable(&self, ask: &AdoptAsk) -> Vec<Found> {
        self.tickets
            .values()
            .filter(|t| ask.teams.contains(&t.team) && t.labels.contains(&ask.label))
            .filter(|t| t.assignee.as_ref().is_some_and(|a| a.me) && t.state.category != "completed")
            .map(|t| Found { entity: Entity::Ticket { uuid: t.uuid.clone() }, key: t.identifier.clone() })
            .collect()
    }

    pub fn look(&self, ask: &LookAsk) -> Result<Snapshot, Trouble> {
        let Entity::Ticket { uuid } = &ask.entity else { return Err(Trouble::Gone { says: "no ticket".into() }) };
        let Some(ticket) = self.tickets.get(uuid) else { return Err(Trouble::Gone { says: "no ticket".into() }) };
        let pulls = self
            .pulls
            .values()
            .filter(|p| {
                ask.pulls.contains(&p.key)
                    || ask.branches.iter().any(|(_, b)| *b == p.head_branch)
                    || (ticket.links.contains(&p.url) && !ask.branches.is_empty())
            })
            .cloned()
            .collect();
        Ok(Snapshot { ticket: Some(ticket.clone()), pulls })
    }

    /// A write really happens. `guarded`: the host compares the head, as it does.
    pub fn write(&mut self, write: &Write, guarded: bool) -> Result<String, Trouble> {
        match write {
            Write::Comment { pull, body, marker } => {
                let id = self.id().to_string();
                let Some(row) = self.pulls.get_mut(pull) else { return Err(Trouble::Gone { says: "no pull".into() }) };
                row.comments.push(comment(id.clone(), me(), body));
                let same = row.comments.iter().filter(|c| c.body.contains(&format!(" {marker} -->"))).count();
                if same > 1 {
                    self.sins.push(format!("the comment {marker} stands {same} times"));
                }
                Ok(id)
            }
            Write::Merge { pull, head_sha, .. } => {
                let read = self.reviewed(pull);
                let Some(row) = self.pulls.get_mut(pull) else { return Err(Trouble::Gone { says: "no pull".into() }) };
                if row.state == PullState::Merged {
                    self.sins.push(format!("{pull} was merged and is merged again"));
                    return Err(Trouble::Refused { says: "already merged".into() });
                }
                if guarded && row.head_sha != *head_sha {
                    return Err(Trouble::Refused { says: "the head was modified".into() });
                }
                if !read || row.rollup != Rollup::Green {
                    self.sins.push(format!("{pull} was merged unread"));
                }
                row.state = PullState::Merged;
                row.merge_sha = Some(sha(pull.number * 1_000 + 999));
                *self.merges.entry(pull.clone()).or_default() += 1;
                let url = row.url.clone();
                for ticket in self.tickets.values_mut().filter(|t| t.links.contains(&url)) {
                    ticket.state = state("Done", "completed");
                }
                Ok(sha(pull.number * 1_000 + 999))
            }
        }
    }

    /// What a probe finds.
    pub fn probe(&self, write: &Write) -> Option<String> {
        match write {
            Write::Merge { pull, .. } => self.pulls.get(pull).and_then(|p| p.merge_sha.clone()),
            Write::Comment { pull, marker, .. } => {
                let ours = format!(" {marker} -->");
                self.pulls.get(pull)?.comments.iter().find(|c| c.body.contains(&ours)).map(|c| c.id.clone())
            }
        }
    }
}

fn state(name: &str, category: &str) -> TicketState {
    TicketState { name: name.into(), category: category.into() }
}

fn sha(n: u64) -> String {
    format!("{n:040x}")
}

pub(crate) fn comment(id: String, author: Author, body: &str) -> Comment {
    Comment { id, author, body: body.into(), at: Timestamp::UNIX_EPOCH, edited: None }
}
