//! The gate of a pull request: one verdict for page, wake, command and merge.

use super::binding::{Binding, NeedKind};
use super::marks::{Marker, is_signed, parse_marker};
use crate::entity::PullKey;
use crate::ids::ThreadId;
use crate::machine::World;
use crate::snapshot::{Mergeable, Pull, PullState, Rollup};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is kept of a linked pull between looks: all that its gate needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedPull {
    pub key: PullKey,
    pub url: String,
    pub title: String,
    pub branch: String,
    /// Empty until the first look.
    pub head_sha: String,
    pub state: PullState,
    pub draft: bool,
    pub mergeable: Mergeable,
    pub rollup: Rollup,
    pub marker: Option<Marker>,
    /// Who asked for changes by a review and has not taken it back.
    #[serde(default)]
    pub objections: Vec<String>,
    /// The head that the owner approved, by a review.
    pub owner_approved: Option<String>,
    pub merge_sha: Option<String>,
    /// The worker that it belongs to; none for a foreign pull.
    pub by: Option<ThreadId>,
}

impl LinkedPull {
    /// Known only by name so far.
    pub fn named(key: PullKey, branch: &str, by: Option<ThreadId>) -> LinkedPull {
        LinkedPull {
            key,
            url: String::new(),
            title: String::new(),
            branch: branch.to_owned(),
            head_sha: String::new(),
            state: PullState::Open,
            draft: false,
            mergeable: Mergeable::Computing,
            rollup: Rollup::None,
            marker: None,
            objections: Vec::new(),
            owner_approved: None,
            merge_sha: None,
            by,
        }
    }

    /// As a look or a fresh read saw it. A marker counts only in a comment that
    /// this account posted and a thread signed: nobody else can write one.
    pub fn read(pull: &Pull, by: Option<ThreadId>) -> LinkedPull {
        let marker = pull
            .comments
            .iter()
            .rev()
            .filter(|c| c.author.me && is_signed(&c.body))
            .find_map(|c| parse_marker(&c.body));
        let owner_approved = pull
            .reviews
            .iter()
            .rev()
            .find(|r| r.author.me && r.verdict != "commented" && !is_signed(&r.body))
            .filter(|r| r.verdict == "approved")
            .map(|r| r.commit.clone());
        LinkedPull {
            key: pull.key.clone(),
            url: pull.url.clone(),
            title: pull.title.clone(),
            branch: pull.head_branch.clone(),
            head_sha: pull.head_sha.clone(),
            state: pull.state,
            draft: pull.draft,
            mergeable: pull.mergeable,
            rollup: pull.rollup,
            marker,
            objections: objections(pull),
            owner_approved,
            merge_sha: pull.merge_sha.clone(),
            by,
        }
    }

    pub fn lane(&self) -> &str {
        self.marker.as_ref().map_or("reviewed", |m| m.lane.as_str())
    }
}

/// Each reviewer's newest verdict counts; a later comment does not take it back,
/// and a push does not either.
fn objections(pull: &Pull) -> Vec<String> {
    let mut newest: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for review in pull.reviews.iter().filter(|r| !r.author.me && r.verdict != "commented") {
        newest.insert(&review.author.login, (&review.verdict, &review.author.name));
    }
    let asks = newest.values().filter(|(verdict, _)| *verdict == "changes_requested");
    asks.map(|(_, name)| crate::text::one_line(name)).collect()
}

/// Whether a pull may be merged, and if not, every reason why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub pull: PullKey,
    pub met: bool,
    /// Sentences without a full stop; empty when met.
    pub unmet: Vec<String>,
    pub lane: String,
    pub head_sha: String,
    pub marker: Option<Marker>,
    /// The approval found and what it is bound to.
    pub approval: Option<String>,
    pub checks: String,
    /// Open items of the binding, but for the pull's own Merge item.
    pub open_items: Vec<String>,
}

/// Why a pull that was judged good at `head_sha` is so no longer, as read now.
/// Asked before a merge is tried again.
pub fn no_longer_mergeable(pull: &Pull, head_sha: &str) -> Option<String> {
    let read = LinkedPull::read(pull, None);
    let reviewed = read.marker.as_ref().is_some_and(|m| m.approved && m.sha == head_sha);
    let good = read.state == PullState::Open && !read.draft && read.head_sha == head_sha && reviewed;
    let said = good && read.rollup == Rollup::Green && read.objections.is_empty();
    (!said).then(|| "it changed since it was judged; judge and press again".to_owned())
}

/// Judges a pull as it was read. An unknown is never a yes.
pub fn gate(world: &World, binding: &Binding, pull: &LinkedPull) -> Verdict {
    let mut unmet: Vec<String> = Vec::new();
    match pull.state {
        PullState::Open if pull.draft => unmet.push("it is a draft".into()),
        PullState::Open => {}
        PullState::Closed => unmet.push("it is closed".into()),
        PullState::Merged => unmet.push("it is merged already".into()),
    }
    let lane = pull.lane().to_owned();
    match &pull.marker {
        None => unmet.push("no reviewer has judged it yet".into()),
        Some(m) if !m.approved => unmet.push("the newest review asks for changes".into()),
        Some(m) if m.sha != pull.head_sha => {
            unmet.push(format!("the review is of {} and the head is {}", short(&m.sha), short(&pull.head_sha)));
        }
        Some(_) => {}
    }
    for name in &pull.objections {
        unmet.push(format!("{name} asks for changes"));
    }
    let approval = match lane.as_str() {
        "owner-reviewed" => match &pull.owner_approved {
            Some(sha) if *sha == pull.head_sha => Some(format!("the owner's review of {}", short(sha))),
            Some(sha) => {
                unmet.push(format!("the owner approved {} and the head is {}", short(sha), short(&pull.head_sha)));
                None
            }
            None => {
                unmet.push("its lane wants the owner's approval".into());
                None
            }
        },
        _ => pull.marker.as_ref().filter(|m| m.approved).map(|m| format!("the reviewer's marker at {}", short(&m.sha))),
    };
    match pull.rollup {
        Rollup::Green => {}
        Rollup::None => unmet.push("no check has reported for this head".into()),
        Rollup::Pending => unmet.push("checks are still running".into()),
        Rollup::Red => unmet.push("checks failed".into()),
        Rollup::Unreadable => unmet.push("the checks cannot be read".into()),
    }
    match pull.mergeable {
        Mergeable::Yes => {}
        Mergeable::No if pull.state == PullState::Open => unmet.push("it conflicts with its base".into()),
        Mergeable::Computing if pull.state == PullState::Open => {
            unmet.push("whether it merges is still being computed".into())
        }
        _ => {}
    }
    for worker in world.workers_in_flight(&binding.id) {
        if Some(&worker.id) != pull.by.as_ref() {
            unmet.push(format!("another worker, {}, is in flight", worker.id));
        } else if worker.status.busy() || !worker.queue.is_empty() {
            unmet.push(format!("its worker {} is still at work", worker.id));
        }
    }
    let open_items: Vec<String> = world
        .open_needs(&binding.id)
        .filter(|n| !matches!(&n.kind, NeedKind::Merge { pull: p } if *p == pull.key))
        .map(|n| format!("{} {}", n.id, n.text))
        .collect();
    if !open_items.is_empty() {
        unmet.push(format!("{} other item(s) wait for the person", open_items.len()));
    }
    Verdict {
        pull: pull.key.clone(),
        met: unmet.is_empty(),
        unmet,
        lane,
        head_sha: pull.head_sha.clone(),
        marker: pull.marker.clone(),
        approval,
        checks: pull.rollup.word().to_owned(),
        open_items,
    }
}

pub(super) fn short(sha: &str) -> &str {
    if sha.is_empty() { "nothing yet" } else { sha.get(..7).unwrap_or(sha) }
}
