//! The small parts that pages are made of. Each takes a view of core and draws
//! it; none decides anything.

use super::place::Place;
use jiff::Timestamp;
use maud::{Markup, html};
use stewards_core::refusal::Refusal;
use stewards_core::stewards::{Glyph, NeedRow, ProjectRow, Row};
use stewards_core::threads::ThreadRow;

/// What the forms of a page carry, and what was just refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Form {
    pub(super) csrf: String,
    pub(super) page: String,
    /// The item whose press was refused.
    pub(super) refused: Option<(String, Refusal)>,
}

pub(super) fn glyph(glyph: Glyph) -> Markup {
    let (class, words) = match glyph {
        Glyph::You => ("you", "needs you"),
        Glyph::Blocked => ("blocked", "blocked"),
        Glyph::Running => ("running", "running"),
        Glyph::Quiet => ("quiet", "quiet"),
    };
    html! { span class={ "glyph " (class) } role="img" aria-label=(words) title=(words) {} }
}

/// A thread's status with its word.
pub(super) fn status(word: &str) -> Markup {
    html! { (mark(word)) span.status { (word) } }
}

/// The word always stands near it, so the mark itself is silent.
fn mark(word: &str) -> Markup {
    let class = match word {
        "starting" | "active" => "running",
        "error" => "blocked",
        _ => "quiet",
    };
    html! { span class={ "glyph small " (class) } aria-hidden="true" {} }
}

/// A link out of the page: only to the web, whatever the other side wrote.
pub(super) fn outward(url: &str, text: &str) -> Markup {
    let web = url.starts_with("https://") || url.starts_with("http://");
    html! {
        @if web { a href=(url) rel="noopener noreferrer" target="_blank" { (text) span.out aria-hidden="true" { "\u{a0}↗" } } }
        @else { (text) }
    }
}

pub(super) fn effort_path(key: &str) -> String {
    Place::Effort(key.to_owned()).path()
}

pub(super) fn thread_path(id: &str) -> String {
    Place::Thread(id.to_owned()).path()
}

pub(super) fn when(at: Timestamp, format: &str) -> Markup {
    html! { time datetime=(at.strftime("%FT%TZ")) title=(at.strftime("%F %T UTC")) { (at.strftime(format)) } }
}

/// A region's heading with its count in quiet print.
pub(super) fn heading(text: &str, count: usize) -> Markup {
    html! { h2 { (text) @if count > 0 { " " span.count { (count) } } } }
}

/// Something only the person can do: what, where, and the button or why not.
pub(super) fn need(need: &NeedRow, form: &Form) -> Markup {
    let refused = form.refused.as_ref().filter(|(id, _)| *id == need.id).map(|(_, refusal)| refusal);
    html! {
        li.need id=(need.id) {
            p.says { (glyph(Glyph::You)) span { (need.text) } }
            p.where {
                @if let Some(key) = &need.effort { a href=(effort_path(key)) { (key) } }
                @if let Some(thread) = &need.thread { a href=(thread_path(thread)) { (thread) } }
                @if let (Some(link), Some(pull)) = (&need.link, &need.pull) { (outward(link, pull)) }
            }
            @if let Some(word) = need.button {
                form.press method="post" action="/press" {
                    input type="hidden" name="need" value=(need.id);
                    input type="hidden" name="csrf" value=(form.csrf);
                    input type="hidden" name="page" value=(form.page);
                    button type="submit" aria-label={ (word) ": " (need.pull.as_deref().unwrap_or(&need.text)) } { (word) }
                }
            }
            @if !need.choices.is_empty() {
                form.press method="post" action="/press" {
                    input type="hidden" name="need" value=(need.id);
                    input type="hidden" name="csrf" value=(form.csrf);
                    input type="hidden" name="page" value=(form.page);
                    @for choice in &need.choices {
                        button type="submit" name="choice" value=(choice) { (choice) }
                    }
                }
            }
            @if let Some(why) = &need.why_not { p.why { "Not yet: " (why) "." } }
            div.refusal role="alert" hidden[refused.is_none()] {
                p { "Refused: " span.says { @if let Some(r) = refused { (r.says) } } }
                p.hint { @if let Some(r) = refused { (r.hint) } }
            }
            p.command { span.or { "or run " } code { (need.command) } }
        }
    }
}

pub(super) fn needs(needs: &[NeedRow], form: &Form) -> Markup {
    html! { ul.needs { @for n in needs { (need(n, form)) } } }
}

/// An effort in a list, in two lines, with its threads below it.
pub(super) fn effort(row: &Row, path: &str, threads: &[ThreadRow]) -> Markup {
    html! {
        li.effort id={ "effort-" (row.key) } {
            (glyph(row.glyph))
            div.lines {
                p.name { a href=(path) { strong { (row.key) } " " span.title { (row.title) } } }
                p.about {
                    span { (row.kind) }
                    @if let Some(phase) = &row.phase { span.phase { (phase) } }
                    span { (row.phrase) }
                    @if row.notes > 0 { span { (row.notes) @if row.notes == 1 { " note" } @else { " notes" } } }
                }
                @if !threads.is_empty() { (tree(threads)) }
            }
        }
    }
}

/// Threads below their parents; those whose parent is not listed come first.
pub(super) fn tree(all: &[ThreadRow]) -> Markup {
    let listed = |id: &str| all.iter().any(|t| t.id == id);
    let roots: Vec<&ThreadRow> = all.iter().filter(|t| !t.parent.as_deref().is_some_and(listed)).collect();
    branches(&roots, all, 0)
}

/// Four levels exist; a ring among parents could not go deeper than eight.
fn branches(these: &[&ThreadRow], all: &[ThreadRow], depth: u8) -> Markup {
    html! {
        ul.threads {
            @for t in these {
                li {
                    (thread(t))
                    @let below: Vec<&ThreadRow> = all.iter().filter(|c| c.parent.as_deref() == Some(t.id.as_str())).collect();
                    @if !below.is_empty() && depth < 8 { (branches(&below, all, depth + 1)) }
                }
            }
        }
    }
}

pub(super) fn thread(t: &ThreadRow) -> Markup {
    html! {
        p.thread {
            (mark(t.status))
            a href=(thread_path(&t.id)) { (t.role.word()) " " (t.id) }
            span { (t.status) }
            span { (t.title) }
            @if t.queued > 0 { span { (t.queued) " waiting" } }
            @if t.asks > 0 { span.bad { "asks you" } }
            @if let Some(error) = &t.error { span.bad { (error) } }
        }
    }
}

pub(super) fn project(p: &ProjectRow) -> Markup {
    html! {
        li.project id={ "project-" (p.id) } {
            p.name {
                strong { (p.name) }
                span class={ "switch " @if p.on { "on" } @else { "off" } } { @if p.on { "on" } @else { "off" } }
                span.repo { (p.repo) }
                span { (p.efforts) @if p.efforts == 1 { " effort" } @else { " efforts" } }
                @if let Some(steward) = &p.steward { a href=(thread_path(steward)) { "project steward" } }
            }
            @for problem in &p.problems { p.problem { (problem) } }
        }
    }
}
