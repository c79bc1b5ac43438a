//! One thread: what it is, what waits for it, and what it says.

use super::draw::{Page, Region};
use super::parts::{self, heading, status};
use super::transcript::{self, Lines, tokens};
use maud::{Markup, html};
use stewards_core::machine::World;
use stewards_core::stewards::{self, ThreadRow};
use stewards_core::threads::{EnvironmentState, Thread};
use stewards_store::MessageRow;

/// A thread with its nearest ones.
pub(super) struct Around {
    pub(super) row: ThreadRow,
    pub(super) parent: Option<ThreadRow>,
    pub(super) children: Vec<ThreadRow>,
    /// Where it works, if there is something to say of it.
    pub(super) place: Option<String>,
}

pub(super) fn draw(world: &World, thread: &Thread, messages: &[MessageRow], lines: &Lines) -> Page {
    let row = |t: &Thread| stewards::thread_row(world, t);
    let around = Around {
        row: row(thread),
        parent: thread.parent.as_ref().and_then(|p| world.threads.get(p)).map(row),
        children: world.threads.values().filter(|t| t.parent.as_ref() == Some(&thread.id)).map(row).collect(),
        place: place(&thread.environment.state),
    };
    let live = thread.turn.as_ref().map(|t| t.id.as_str());
    regions(&around, messages, lines, live)
}

fn place(state: &EnvironmentState) -> Option<String> {
    Some(match state {
        EnvironmentState::Unmade => return None,
        EnvironmentState::Making => "being made".to_owned(),
        EnvironmentState::Ready { path } => path.display().to_string(),
        EnvironmentState::Failed { says } => format!("could not be made: {says}"),
        EnvironmentState::Removing => "being removed".to_owned(),
        EnvironmentState::Removed => "removed".to_owned(),
        EnvironmentState::MovedAside { path, why } => format!("kept at {}: {why}", path.display()),
    })
}

pub(super) fn regions(around: &Around, messages: &[MessageRow], lines: &Lines, live: Option<&str>) -> Page {
    let waiting: Vec<&MessageRow> = messages.iter().filter(|m| m.turn.is_none()).collect();
    let mut regions = vec![
        Region::new("head", "head", head(around)),
        Region::new("family", "", family(around)),
        Region::new("waiting", "", queue(&waiting)),
        Region::new("transcript", "", intro(lines, live)),
    ];
    regions.extend(transcript::regions(&lines.all, messages, live));
    Page { title: format!("{} {} · Stewards", around.row.role.word(), around.row.id), regions }
}

fn head(around: &Around) -> Markup {
    let t = &around.row;
    html! {
        h1 { span { strong.key { (t.role.word()) " " (t.id) } " " (t.title) } }
        p.about {
            (status(t.status))
            @if t.archived { span { "archived" } }
            @if let Some(key) = &t.key { a href=(parts::effort_path(key)) { (key) } }
            span { "project " (t.project) }
        }
        @if let Some(error) = &t.error { p.problem { "Its last turn failed: " (error) } }
        dl.facts {
            div { dt { "Model" } dd { (t.model) } }
            div { dt { "Turns" } dd { (t.turns) } }
            div { dt { "Tokens" } dd { (tokens(t.tokens)) } }
            @if let Some(branch) = &t.branch { div { dt { "Branch" } dd { code { (branch) } } } }
            @if let Some(place) = &around.place { div { dt { "Works in" } dd { code { (place) } } } }
        }
    }
}

fn family(around: &Around) -> Markup {
    html! {
        @if let Some(parent) = &around.parent {
            (heading("Parent", 0))
            ul.threads { li { (parts::thread(parent)) } }
        }
        @if !around.children.is_empty() {
            (heading("Children", around.children.len()))
            ul.threads { @for c in &around.children { li { (parts::thread(c)) } } }
        }
    }
}

fn queue(waiting: &[&MessageRow]) -> Markup {
    html! {
        @if !waiting.is_empty() {
            (heading("Messages without a turn", waiting.len()))
            @for m in waiting { (transcript::message(m)) }
        }
    }
}

fn intro(lines: &Lines, live: Option<&str>) -> Markup {
    html! {
        (heading("Transcript", 0))
        @if lines.shortened { p.small { "Only the newest part is shown." } }
        @if lines.all.is_empty() && live.is_none() { p.none { "It has not said anything." } }
    }
}
