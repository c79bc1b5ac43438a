//! The bus: what it carries, what is owed, what is held.

use super::draw::{Page, Region};
use super::parts::{heading, thread_path, when};
use maud::{Markup, html};
use stewards_core::bus::{ClaimRow, OWNER, OwedRow, claim_rows, owed_rows};
use stewards_core::ids::ThreadId;
use stewards_core::machine::World;
use stewards_core::moment::Moment;
use stewards_core::text::lasting;
use stewards_store::{BusRow, BusStats, Reader, StoreError};

/// Messages that are listed.
const RECENT: u32 = 30;

/// What stands in the file.
pub(super) struct Kept {
    pub(super) stats: BusStats,
    pub(super) undelivered: Vec<BusRow>,
    /// Oldest first.
    pub(super) recent: Vec<BusRow>,
}

pub(super) fn kept(reader: &Reader) -> Result<Kept, StoreError> {
    let filter = stewards_store::BusFilter { limit: RECENT, ..Default::default() };
    Ok(Kept {
        stats: reader.bus_stats(i64::MIN)?,
        undelivered: reader.bus_undelivered(RECENT)?,
        recent: reader.bus_log(&filter)?,
    })
}

pub(super) fn draw(world: &World, now: &Moment, kept: &Kept) -> Page {
    Page {
        title: "Bus · Stewards".into(),
        regions: regions(&owed_rows(world), &claim_rows(world, now), kept),
        lists: &[],
    }
}

pub(super) fn regions(owed: &[OwedRow], claims: &[ClaimRow], kept: &Kept) -> Vec<Region> {
    vec![
        Region::new("bus-numbers", "", numbers(&kept.stats)),
        Region::new("bus-owed", "", unanswered(owed)),
        Region::new("bus-claims", "", held(claims)),
        Region::new("bus-undelivered", "", messages("Not delivered", &kept.undelivered, "Everything was delivered.")),
        Region::new("bus-recent", "", messages("Messages", &kept.recent, "Nothing was sent yet.")),
    ]
}

fn numbers(stats: &BusStats) -> Markup {
    html! {
        h1 { "Bus" }
        dl.facts {
            div {
                dt { "Messages" }
                dd { (stats.messages) @if stats.messages > 0 { (format!(", {:.1} % of them notes", stats.note_share * 100.0)) } }
            }
            div {
                dt { "Kinds" }
                dd {
                    @for (n, kind) in stats.kinds.iter().filter(|k| k.messages > 0).enumerate() {
                        @if n > 0 { ", " } (kind.messages) " " (kind.kind)
                    }
                }
            }
            div {
                dt { "Answers" }
                dd {
                    (stats.answers)
                    @if let Some(ms) = stats.median_ms_to_answer { ", within " (lasting(ms)) " at the median" }
                }
            }
            div {
                dt { "Busiest" }
                dd {
                    @for (n, sender) in stats.senders.iter().take(5).enumerate() {
                        @if n > 0 { ", " } (whom(&sender.sender)) " " (sender.messages)
                    }
                }
            }
        }
    }
}

/// A thread with its page, or the owner.
fn whom(name: &str) -> Markup {
    html! { @if name == OWNER { "the owner" } @else { a href=(thread_path(name)) { (name) } } }
}

/// `from` is nothing where the owner sent it.
fn head(seq: u64, kind: &str, from: Option<&ThreadId>, to: &ThreadId, fields: &[(String, String)]) -> Markup {
    html! {
        strong { "#" (seq) " " (kind) } " " (whom(from.map_or(OWNER, ThreadId::as_str))) " → " (whom(to.as_str()))
        @for (name, value) in fields { " " span.out { (name) ": " } (value) }
    }
}

fn unanswered(all: &[OwedRow]) -> Markup {
    html! {
        (heading("Owed an answer", all.len()))
        @if all.is_empty() { p.none { "Nothing is owed an answer." } }
        @else { ul.story { @for m in all {
            li {
                (when(m.at, "%b %d %H:%M"))
                span { (head(m.seq, &m.kind, m.from.as_ref(), &m.to, &m.fields)) }
            }
        } } }
    }
}

fn held(all: &[ClaimRow]) -> Markup {
    html! {
        (heading("Held", all.len()))
        @if all.is_empty() { p.none { "Nothing is held." } }
        @else { ul.story { @for c in all {
            li {
                (when(c.since, "%b %d %H:%M"))
                span {
                    strong { (c.key) } " " (whom(c.holder.as_ref().map_or(OWNER, ThreadId::as_str))) ": " (c.reason) " "
                    span.out {
                        @if c.stale { "expired" } @else if c.granted { "granted until " (when(c.expires, "%H:%M")) }
                        @else { "until " (when(c.expires, "%H:%M")) }
                        @if !c.waiters.is_empty() { ", " (c.waiters.len()) " waiting" }
                    }
                }
            }
        } } }
    }
}

fn messages(title: &str, all: &[BusRow], none: &str) -> Markup {
    html! {
        (heading(title, 0))
        @if all.is_empty() { p.none { (none) } }
        @else { ul.story { @for row in all.iter().rev() {
            @let m = &row.message;
            li {
                (when(m.at, "%b %d %H:%M"))
                span {
                    (head(m.seq, &m.kind, m.from.as_ref(), &m.to, &m.fields))
                    @if let Some(body) = &m.body { " " (body) }
                    " " span.out { (row.state.as_deref().unwrap_or("logged")) }
                }
            }
        } } }
    }
}
