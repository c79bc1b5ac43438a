//! One effort: where it stands, what its gates say, and its story.

use super::board::path_of;
use super::draw::{Page, Region};
use super::parts::{self, Form, glyph, heading, outward, when};
use jiff::Timestamp;
use maud::{Markup, html};
use stewards_core::machine::World;
use stewards_core::moment::Moment;
use stewards_core::stewards::{self, Binding, Detail, PullRow, ReadyItem};
use stewards_core::threads::Role;
use stewards_store::{Reader, StoreError};

/// Lines of a story that are shown; `stewards explain` tells all.
const STORY: usize = 300;

/// What happened, newest first: when, and a sentence.
pub(super) fn story(reader: &Reader, world: &World, binding: &Binding) -> Result<Vec<(Timestamp, String)>, StoreError> {
    let told = reader.story(world, binding)?.into_iter().rev().take(STORY);
    let own = |about: &str| about == binding.key;
    Ok(told.map(|t| (t.at, if own(&t.about) { t.line } else { format!("{}: {}", t.about, t.line) })).collect())
}

pub(super) fn draw(world: &World, now: &Moment, binding: &Binding, story: &[(Timestamp, String)], form: &Form) -> Page {
    let detail = stewards::detail(world, binding, now);
    let title = format!("{} {}", detail.row.key, detail.row.title);
    let form = Form { page: path_of(world, binding), ..form.clone() };
    Page { regions: regions(&detail, story, &form), title: format!("{title} · Stewards"), lists: &[] }
}

pub(super) fn regions(detail: &Detail, story: &[(Timestamp, String)], form: &Form) -> Vec<Region> {
    vec![
        Region::new("head", "head", head(detail)),
        Region::new("needs", "attention", needs(detail, form)),
        Region::new("record", "", record(detail)),
        Region::new("pulls", "", pulls(&detail.pulls)),
        Region::new("ready", "", ready(detail)),
        Region::new("threads", "", threads(detail)),
        Region::new("notes", "", notes(&detail.notes_pending)),
        Region::new("story", "", told(story)),
    ]
}

fn head(detail: &Detail) -> Markup {
    let row = &detail.row;
    html! {
        h1 { (glyph(row.glyph)) span { strong.key { (row.key) } " " (row.title) } }
        p.about {
            span { (row.kind) }
            @if let Some(phase) = &row.phase { span.phase { (phase) } }
            span { (row.phrase) }
        }
        p.about {
            span { "project " (row.project) }
            @if let Some(steward) = &row.steward { a href=(parts::thread_path(steward)) { "its steward" } }
            @if !row.url.is_empty() { span { (outward(&row.url, "where it lives")) } }
        }
        @if let Some(trouble) = &detail.trouble { p.problem { "Cannot be read: " (trouble) } }
    }
}

fn needs(detail: &Detail, form: &Form) -> Markup {
    html! {
        @if !detail.row.needs.is_empty() {
            (heading("Needs you", detail.row.needs.len()))
            (parts::needs(&detail.row.needs, form))
        }
    }
}

fn record(detail: &Detail) -> Markup {
    html! {
        (heading("Status", 0))
        @match &detail.report {
            None => p.none { "No report yet." },
            Some(r) => {
                p.summary { (r.summary) }
                dl.facts {
                    div { dt { "Next" } dd { (r.next_action) } }
                    @if let Some(actor) = &detail.row.actor { div { dt { "Acts next" } dd { (actor) } } }
                    @if let Some(phase) = &r.phase { div { dt { "Phase" } dd { (phase) } } }
                    @if let Some(wait) = &r.waiting_on { div { dt { "Waits for" } dd { (wait) } } }
                    @if let Some(follow) = &r.follow_through { div { dt { "Kept open for" } dd { (follow) } } }
                    @if r.no_more_pulls { div { dt { "Pulls" } dd { "no more will be opened" } } }
                }
            }
        }
    }
}

fn ready(detail: &Detail) -> Markup {
    html! {
        @if !detail.ready.is_empty() {
            (heading("Ready gate", 0))
            p.small { @if detail.leave { "Workers may start." } @else { "Workers may not start yet." } }
            ol.checks { @for item in &detail.ready { (check(item)) } }
        }
    }
}

pub(super) fn check(item: &ReadyItem) -> Markup {
    html! {
        li class=(if item.met { "met" } else { "open" }) {
            span.tick role="img" aria-label=(if item.met { "met" } else { "open" }) {}
            span { (item.text) }
        }
    }
}

fn pulls(all: &[PullRow]) -> Markup {
    html! {
        @if !all.is_empty() {
            (heading("Pull requests", 0))
            ul.pulls { @for p in all { (pull(p)) } }
        }
    }
}

pub(super) fn pull(p: &PullRow) -> Markup {
    let (l, gate) = (&p.linked, &p.gate);
    html! {
        li.pull id={ "pull-" (l.key.to_string()) } {
            p.name { strong { (outward(&l.url, &l.key.to_string())) } " " span.title { (l.title) } }
            p.about {
                span.phase { (format!("{:?}", l.state).to_lowercase()) }
                span { "checks " (gate.checks) }
                span { "lane " (gate.lane) }
                @if !l.branch.is_empty() { code { (l.branch) } }
                @if let Some(by) = &l.by { a href=(parts::thread_path(by.as_str())) { (by.as_str()) } }
            }
            @if let Some(sha) = &l.merge_sha {
                p.verdict.met { "Merged as " code { (sha.chars().take(7).collect::<String>()) } "." }
            } @else if gate.met {
                p.verdict.met { "Its gate is met" @if let Some(by) = &gate.approval { ": " (by) } "." }
            } @else {
                p.verdict { "Its gate is not met:" }
                ul.unmet { @for why in &gate.unmet { li { (why) } } }
            }
        }
    }
}

fn threads(detail: &Detail) -> Markup {
    let working = detail.threads.iter().filter(|t| !t.archived && t.role != Role::Steward).count();
    html! {
        @if !detail.threads.is_empty() {
            (heading("Threads", 0))
            @if working > 0 { p.small { (working) " in flight besides the steward" } }
            (parts::tree(&detail.threads))
        }
    }
}

fn notes(pending: &[String]) -> Markup {
    html! {
        @if !pending.is_empty() {
            (heading("The next wake tells", pending.len()))
            ul.notes { @for note in pending { li { (note) } } }
        }
    }
}

fn told(story: &[(Timestamp, String)]) -> Markup {
    html! {
        (heading("Story", 0))
        p.small { "Newest first." @if story.len() >= STORY { " Older lines: " code { "stewards explain" } } }
        ol.story reversed {
            @for (at, line) in story { li { (when(*at, "%m-%d %H:%M:%S")) span { (line) } } }
        }
    }
}
