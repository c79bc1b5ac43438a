//! What changed between two looks, and whether it wakes.

use super::binding::{Binding, News};
use super::gate::{LinkedPull, short};
use super::marks::{headline, is_signed, parse_marker};
use crate::config::{Playbook, Stage};
use crate::machine::World;
use crate::snapshot::{Comment, Inline, Pull, PullState, Rollup, Snapshot};
use crate::text::{cut, one_line};
use jiff::Timestamp;

/// One difference between what was observed last and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub cause: &'static str,
    pub line: String,
    pub wakes: bool,
}

impl Change {
    pub fn news(self, at: Timestamp) -> News {
        News { cause: self.cause.to_owned(), line: self.line, wakes: self.wakes, at }
    }
}

/// Compares two snapshots. With no earlier one there is nothing to compare: the
/// adoption itself is the news.
pub fn changes(
    world: &World,
    binding: &Binding,
    playbook: Option<&Playbook>,
    before: &Snapshot,
    after: &Snapshot,
) -> Vec<Change> {
    let mut all = Vec::new();
    let mut add = |cause, wakes: bool, line: String| all.push(Change { cause, wakes, line });
    let skip: &[String] = playbook.map_or(&[], |p| p.skip_authors.as_slice());
    let at_work = world.workers_in_flight(&binding.id).next().is_some();
    if let (Some(old), Some(new)) = (&before.ticket, &after.ticket) {
        if old.state.name != new.state.name {
            let stage = |s: &str| playbook.and_then(|p| p.stage_of(s));
            let between = |s: Option<Stage>| matches!(s, Some(Stage::Build | Stage::Review));
            let own = at_work
                && between(stage(&new.state.name))
                && (between(stage(&old.state.name)) || stage(&old.state.name) == Some(Stage::Spec));
            let named = binding
                .report
                .as_ref()
                .and_then(|r| r.phase.as_deref())
                .is_some_and(|p| p.eq_ignore_ascii_case(&new.state.name));
            let ours = binding.sets.as_deref() == Some(new.state.name.as_str());
            let terminal = playbook.is_some_and(|p| p.is_terminal(&new.state.name));
            let foretold = named && terminal;
            add(
                "phase",
                !own && !ours && !foretold,
                format!("the state went from {} to {}", old.state.name, new.state.name),
            );
        }
        if old.title != new.title || old.description != new.description {
            add("spec", true, "the title or description was edited".into());
        }
        for change in comments("the ticket", &old.comments, &new.comments, skip, false) {
            add("comment", change.1, change.0);
        }
    }
    for new in &after.pulls {
        let linked = binding.pull(&new.key);
        let own = is_own(world, binding, linked, new);
        // Its worker is in flight: what happens on its own pull is its business.
        let quiet = own && at_work;
        let Some(old) = before.pull(&new.key) else {
            add("pull", !own, format!("{} was linked: {}", new.key, one_line(&new.title)));
            continue;
        };
        if old.head_sha != new.head_sha {
            add(
                "push",
                !quiet,
                format!("{} got a push: {} to {}", new.key, short(&old.head_sha), short(&new.head_sha)),
            );
        }
        if new.rollup.settled() && (old.rollup != new.rollup || old.head_sha != new.head_sha) {
            // Checks of a merged pull are nobody's business any more.
            let wakes = !quiet && new.state == PullState::Open;
            add(
                "checks",
                wakes,
                format!("checks of {} at {} are {}", new.key, short(&new.head_sha), new.rollup.word()),
            );
        }
        if old.rollup != Rollup::Unreadable && new.rollup == Rollup::Unreadable {
            add("checks", false, format!("the checks of {} cannot be read", new.key));
        }
        if old.state != new.state {
            match new.state {
                PullState::Merged => {
                    let ours = linked.is_some_and(|l| l.merge_sha.is_some()) || binding.merging.is_some();
                    add("pull", !ours && !quiet, format!("{} was merged", new.key));
                }
                PullState::Closed => add("pull", true, format!("{} was closed without a merge", new.key)),
                PullState::Open => add("pull", true, format!("{} was reopened", new.key)),
            }
        }
        let lane = linked.map_or("reviewed", LinkedPull::lane);
        for comment in new_comments(&old.comments, &new.comments) {
            let marker =
                Some(comment).filter(|c| c.author.me && is_signed(&c.body)).and_then(|c| parse_marker(&c.body));
            match marker {
                Some(m) => {
                    let said = if m.approved { "approves" } else { "asks for changes" };
                    add(
                        "review",
                        m.lane != lane,
                        format!("the reviewer {said} {} at {} in lane {}", new.key, short(&m.sha), m.lane),
                    );
                }
                None => {
                    let (line, wakes) = comment_line(&format!("{}", new.key), comment, skip);
                    add("comment", wakes && !(quiet && comment.author.me), line);
                }
            }
        }
        for inline in new.inline.iter() {
            let known = |old: &Inline| old.comment.id == inline.comment.id && old.comment.body == inline.comment.body;
            if old.inline.iter().any(known) {
                continue;
            }
            let line = inline.line.map(|n| format!(":{n}")).unwrap_or_default();
            let place = format!("{} at {}{line}", new.key, one_line(&inline.path));
            let (line, wakes) = comment_line(&place, &inline.comment, skip);
            add("comment", wakes && !(quiet && inline.comment.author.me), line);
        }
        for review in new.reviews.iter().filter(|r| !old.reviews.contains(r)) {
            let wakes = !review.author.bot && !is_signed(&review.body) && !skips(skip, &review.author.login);
            add("review", wakes, format!("{} reviewed {}: {}", review.author.name, new.key, review.verdict));
        }
    }
    all
}

fn is_own(world: &World, binding: &Binding, linked: Option<&LinkedPull>, pull: &Pull) -> bool {
    linked.is_some_and(|l| l.by.is_some())
        || world
            .threads
            .values()
            .any(|t| t.binding.as_ref() == Some(&binding.id) && t.branch() == Some(pull.head_branch.as_str()))
}

fn skips(skip: &[String], login: &str) -> bool {
    skip.iter().any(|s| s.eq_ignore_ascii_case(login))
}

/// New ones, and old ones whose text is another now.
fn new_comments<'a>(before: &'a [Comment], after: &'a [Comment]) -> impl Iterator<Item = &'a Comment> {
    after.iter().filter(|c| !before.iter().any(|b| b.id == c.id && b.body == c.body))
}

fn comments(place: &str, before: &[Comment], after: &[Comment], skip: &[String], quiet: bool) -> Vec<(String, bool)> {
    new_comments(before, after)
        .map(|c| comment_line(place, c, skip))
        .map(|(line, wakes)| (line, wakes && !quiet))
        .collect()
}

/// A human's unsigned comment wakes; ours, a bot's and a skipped author's do not.
fn comment_line(place: &str, comment: &Comment, skip: &[String]) -> (String, bool) {
    let signed = is_signed(&comment.body);
    let wakes = !signed && !comment.author.bot && !skips(skip, &comment.author.login);
    let who = if signed { "one of our threads".to_owned() } else { one_line(&comment.author.name) };
    (format!("{who} commented on {place}: \"{}\"", cut(&headline(&comment.body), 100)), wakes)
}
