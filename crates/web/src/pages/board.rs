//! The board: what needs the person first, then what is going on.

use super::draw::{Page, Region};
use super::parts::{self, Form, heading};
use maud::{Markup, html};
use stewards_core::machine::World;
use stewards_core::moment::Moment;
use stewards_core::stewards::{self, Binding, NeedRow, ProjectRow, Row};
use stewards_core::threads::{Role, ThreadRow, thread_row};

/// Ended efforts that are still listed.
const RECENT: usize = 20;

/// An effort of the list, with the address that leads to it and not to another
/// one of the same key.
pub(super) struct Listed {
    pub(super) row: Row,
    pub(super) path: String,
    pub(super) threads: Vec<ThreadRow>,
}

pub(super) fn path_of(world: &World, binding: &Binding) -> String {
    let plain = world.binding_by_key(&binding.key).is_some_and(|b| b.id == binding.id);
    parts::effort_path(if plain { &binding.key } else { binding.id.as_str() })
}

pub(super) fn draw(world: &World, now: &Moment, form: &Form) -> Page {
    let mut open: Vec<Listed> = Vec::new();
    let mut ended: Vec<_> = Vec::new();
    for binding in world.bindings.values() {
        match &binding.ended {
            None => {
                let detail = stewards::detail(world, binding, now);
                let threads = detail.threads.into_iter().filter(|t| !t.archived).collect();
                open.push(Listed { row: detail.row, path: path_of(world, binding), threads });
            }
            Some((_, at)) => ended.push((*at, binding)),
        }
    }
    open.sort_by(|a, b| a.row.key.cmp(&b.row.key));
    ended.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let ended: Vec<Listed> = ended
        .into_iter()
        .take(RECENT)
        .map(|(_, b)| Listed { row: stewards::row(world, b), path: path_of(world, b), threads: Vec::new() })
        .collect();
    let loose: Vec<ThreadRow> = world
        .threads
        .values()
        .filter(|t| t.role == Role::Plain && t.live() && !t.hidden)
        .map(|t| thread_row(world, t, now))
        .collect();
    let needs = stewards::needs(world);
    let title = if needs.is_empty() { "Stewards".to_owned() } else { format!("({}) Stewards", needs.len()) };
    let regions = vec![
        Region::new("needs", "attention", attention(&needs, form, &title)),
        Region::new("flight", "", flight(&open)),
        Region::new("threads", "", alone(&loose)),
        Region::new("ended", "", recently(&ended)),
        Region::new("projects", "", projects(&stewards::project_rows(world))),
    ];
    Page { title, regions, lists: &[] }
}

/// Threads that belong to no effort.
pub(super) fn alone(threads: &[ThreadRow]) -> Markup {
    html! {
        @if !threads.is_empty() {
            (heading("Threads", threads.len()))
            (parts::tree(threads))
        }
    }
}

pub(super) fn attention(needs: &[NeedRow], form: &Form, title: &str) -> Markup {
    html! {
        h1.unseen data-title=(title) { "Board" }
        (heading("Needs you", needs.len()))
        @if needs.is_empty() { p.none { "Nothing. The stewards are on their own." } }
        @else { (parts::needs(needs, form)) }
    }
}

pub(super) fn flight(open: &[Listed]) -> Markup {
    html! {
        (heading("In flight", open.len()))
        @if open.is_empty() { p.none { "No effort is in flight." } }
        @else { ul.efforts { @for e in open { (parts::effort(&e.row, &e.path, &e.threads)) } } }
    }
}

pub(super) fn recently(ended: &[Listed]) -> Markup {
    html! {
        (heading("Recently ended", 0))
        @if ended.is_empty() { p.none { "Nothing has ended yet." } }
        @else { ul.efforts.past { @for e in ended { (parts::effort(&e.row, &e.path, &[])) } } }
    }
}

pub(super) fn projects(all: &[ProjectRow]) -> Markup {
    html! {
        (heading("Projects", 0))
        @if all.is_empty() {
            p.none { "No project yet: " code { "stewards project add" } " adds one." }
        } @else { ul.projects { @for p in all { (parts::project(p)) } } }
    }
}
