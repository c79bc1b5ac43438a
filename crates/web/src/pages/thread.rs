//! One thread: what it is, what waits for it, and what it says.

use super::draw::{Page, Region};
use super::parts::{self, Form, heading, status};
use super::transcript::{self, Lines, tokens};
use maud::{Markup, html};
use stewards_core::machine::World;
use stewards_core::moment::Moment;
use stewards_core::stewards::{self, NeedRow};
use stewards_core::threads::{Can, ContextUse, EnvironmentState, Steering, Thread, ThreadRow, thread_row};
use stewards_store::MessageRow;

/// A thread with its nearest ones.
pub(super) struct Around {
    pub(super) row: ThreadRow,
    pub(super) parent: Option<ThreadRow>,
    pub(super) children: Vec<ThreadRow>,
    /// Where it works, if there is something to say of it.
    pub(super) place: Option<String>,
    /// What its agent asks.
    pub(super) asks: Vec<NeedRow>,
    /// How its agent takes a message while it works.
    pub(super) can: Can,
    pub(super) failed: bool,
}

pub(super) fn draw(
    world: &World,
    now: &Moment,
    thread: &Thread,
    messages: &[MessageRow],
    lines: &Lines,
    form: &Form,
) -> Page {
    let row = |t: &Thread| thread_row(world, t, now);
    let around = Around {
        row: row(thread),
        parent: thread.parent.as_ref().and_then(|p| world.threads.get(p)).map(row),
        children: world.threads.values().filter(|t| t.parent.as_ref() == Some(&thread.id)).map(row).collect(),
        place: place(&thread.environment.state),
        asks: stewards::ask_rows(world, Some(&thread.id)),
        can: thread.can,
        failed: thread.failed.is_some() || matches!(thread.environment.state, EnvironmentState::Failed { .. }),
    };
    let live = thread.turn.as_ref().map(|t| t.id.as_str());
    regions(&around, messages, lines, live, form)
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

pub(super) fn regions(
    around: &Around,
    messages: &[MessageRow],
    lines: &Lines,
    live: Option<&str>,
    form: &Form,
) -> Page {
    let waiting: Vec<&MessageRow> = messages.iter().filter(|m| m.turn.is_none()).collect();
    let mut regions = vec![
        Region::new("head", "head", head(around)),
        Region::new("asks", "attention", asks(around, form)),
        Region::new("family", "", family(around)),
        Region::new("waiting", "", queue(&waiting)),
        Region::new("transcript", "", intro(lines, live)),
    ];
    regions.extend(transcript::regions(&lines.all, messages, live));
    regions.push(Region::listed("composer".into(), "", "foot", composer(around, form)));
    Page {
        title: format!("{} {} · Stewards", around.row.role.word(), around.row.id),
        regions,
        lists: &[transcript::LIST, "foot"],
    }
}

fn head(around: &Around) -> Markup {
    let t = &around.row;
    html! {
        h1 { span { strong.key { (t.role.word()) " " (t.id) } " " (t.title) } }
        p.about {
            (status(t.status))
            @if let Some(key) = &t.key { a href=(parts::effort_path(key)) { (key) } }
            span { "project " (t.project) }
        }
        @if let Some(error) = &t.error { p.problem { "It failed: " (error) } }
        @if let Some(waits) = &t.waits { p.problem { "What is sent to it waits: " (waits) } }
        dl.facts {
            div { dt { "Model" } dd { (t.model) } }
            div { dt { "Turns" } dd { (t.turns) } }
            div { dt { "Tokens" } dd { (tokens(t.tokens)) } }
            div { dt { "Context" } dd { (context(t.context)) } }
            div { dt { "May do" } dd { (t.permission.word()) } }
            @if let Some(branch) = &t.branch { div { dt { "Branch" } dd { code { (branch) } } } }
            @if let Some(place) = &around.place { div { dt { "Works in" } dd { code { (place) } } } }
        }
    }
}

/// How full its context is, or that nobody knows.
fn context(of: Option<ContextUse>) -> Markup {
    html! {
        @match of {
            None => "unknown",
            Some(ContextUse { used, window: None }) => { (transcript::grouped(used)) " tokens" },
            Some(ContextUse { used, window: Some(window) }) => {
                (transcript::grouped(used)) " of " (transcript::grouped(window)) " tokens (" (used * 100 / window.max(1)) " %)"
            }
        }
    }
}

fn asks(around: &Around, form: &Form) -> Markup {
    html! {
        @if !around.asks.is_empty() {
            (heading("Asks you", around.asks.len()))
            (parts::needs(&around.asks, form))
        }
    }
}

/// Writes to the thread, and stops it. Without a script it is a form like any other.
fn composer(around: &Around, form: &Form) -> Markup {
    let t = &around.row;
    let busy = matches!(t.status, "starting" | "active");
    let steers = around.can.steer != Steering::Queue;
    html! {
        h2.unseen { "Write to it" }
        form.press.composer method="post" action="/write" {
            input type="hidden" name="thread" value=(t.id);
            input type="hidden" name="csrf" value=(form.csrf);
            input type="hidden" name="page" value=(form.page);
            textarea name="text" rows="3" aria-label={ "Message to " (t.id) } placeholder={ "Message to " (t.id) } {}
            div.buttons {
                @if !busy {
                    button type="submit" name="how" value="send" {
                        @if t.archived { "Bring back and send" } @else { "Send" }
                    }
                } @else {
                    @if steers { button type="submit" name="how" value="steer" { "Send into this turn" } }
                    button.second type="submit" name="how" value="queue" { "Send after this turn" }
                    button.second type="submit" name="how" value="stop" { "Stop" }
                }
                @if around.failed && !busy { button.second type="submit" name="how" value="retry" { "Try again" } }
                @if around.can.compact && t.status == "idle" {
                    button.second type="submit" name="how" value="compact" { "Compact" }
                }
            }
            div.refusal role="alert" hidden {
                p { "Refused: " span.says {} }
                p.hint {}
            }
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
