//! The claims book: who holds what until when, and who waits for it.

use super::forget::Given;
use super::send::BusMessage;
use crate::Millis;
use crate::ids::ThreadId;
use crate::machine::{Rows, World};
use crate::moment::{Deadline, Moment};
use crate::refusal::Refusal;
use crate::text::shell;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub const DEFAULT_TTL: Millis = 30 * 60_000;
pub const MAX_TTL: Millis = 4 * 3_600_000;
/// Renewed as often as may be, one holding ends after so long.
pub const MAX_HOLD: Millis = 24 * 3_600_000;
/// The holder is told so long before that.
pub const WARNED: Millis = 30 * 60_000;
/// A grant that its waiter does not confirm ends after so long.
pub const PICKUP: Millis = 10 * 60_000;
pub const DEFAULT_WAIT: Millis = 2 * 3_600_000;
/// Claims that one thread holds, and places in line that it has.
pub const MAX_CLAIMS: usize = 100;
pub const MAX_WAITS: usize = 20;

/// One claim.
///
/// Its times are elapsed time within a run of the daemon and wall time across runs:
/// a step of the clock moves nothing while the daemon runs, a machine that sleeps
/// stops the time of its claims, and a restart counts what the wall clock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The complete key, such as `pr:acme/shop#7`.
    pub key: String,
    /// As the holder wrote it.
    pub spelled: String,
    /// A thread, or nobody: then the owner holds it.
    pub holder: Option<ThreadId>,
    pub reason: String,
    pub since: Timestamp,
    /// What a heartbeat adds to now.
    pub ttl: Millis,
    pub expires: Deadline,
    /// No heartbeat goes beyond this.
    pub ends: Deadline,
    /// The holder was told that it ends.
    pub warned: bool,
    /// Rises with every change of holder.
    pub epoch: u64,
    /// Given to whoever waited, who has not confirmed it yet.
    pub granted: bool,
    /// Who wanted it since, and was told of to the holder.
    pub wanted_by: Vec<ThreadId>,
}

impl Claim {
    /// At the instant of expiry it is no longer held.
    pub fn live(&self, now: &Moment) -> bool {
        !self.expires.passed(now)
    }

    pub fn holder_name(&self) -> String {
        self.holder.as_ref().map_or_else(|| "the owner".to_owned(), ToString::to_string)
    }
}

/// A place in line for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The line is in this order.
    pub seq: u64,
    pub key: String,
    pub spelled: String,
    pub who: ThreadId,
    pub reason: String,
    pub ttl: Millis,
    pub since: Timestamp,
    pub gives_up: Deadline,
}

/// All claims by key, all who wait by their place, and what is owed an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsBook {
    pub held: Rows<String, Claim>,
    pub waiters: Rows<u64, Waiter>,
    /// Messages that owe an answer and have none, by their number.
    pub owed: Rows<u64, BusMessage>,
    pub given: Given,
}

impl ClaimsBook {
    pub fn live(&self, key: &str, now: &Moment) -> Option<&Claim> {
        self.held.get(&key.to_owned()).filter(|c| c.live(now))
    }

    /// Live claims that a claim on `key` would collide with, its own among them.
    pub fn in_the_way<'a>(&'a self, key: &'a str, now: &'a Moment) -> Box<dyn Iterator<Item = &'a Claim> + 'a> {
        match key.starts_with("path:") {
            false => Box::new(self.live(key, now).into_iter()),
            true => Box::new(self.held.values().filter(move |c| overlap(&c.key, key) && c.live(now))),
        }
    }

    /// Who waits for `key`, or for what it collides with, in order.
    pub fn line<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Waiter> + 'a {
        self.waiters.values().filter(move |w| overlap(&w.key, key))
    }
}

/// A directory and what lies below it are one thing, by whole segments.
pub fn overlap(one: &str, other: &str) -> bool {
    let below = |short: &str, long: &str| {
        short.starts_with("path:") && long.strip_prefix(short).is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || below(one, other) || below(other, one)
}

/// `30m` or `2h`; more than zero and at most four hours.
pub fn parse_ttl(text: &str) -> Result<Millis, Refusal> {
    let bad = || {
        let hint = "write it as 30m or 2h, more than zero and at most 4h";
        Refusal::usage("bad_ttl", format!("`{text}` is not a length of time"), hint)
    };
    let text = text.trim();
    let unit = match text.chars().last() {
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        _ => return Err(bad()),
    };
    let digits = &text[..text.len() - 1];
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let n: i64 = digits.parse().map_err(|_| bad())?;
    n.checked_mul(unit).filter(|ttl| (1..=MAX_TTL).contains(ttl)).ok_or_else(bad)
}

/// One claim in a list, with who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimRow {
    pub key: String,
    pub spelled: String,
    /// Nothing where the owner holds it.
    pub holder: Option<ThreadId>,
    pub reason: String,
    pub since: Timestamp,
    pub expires: Timestamp,
    /// It has expired, and nobody took it since.
    pub stale: bool,
    pub epoch: u64,
    /// Given to one that waited and has yet to confirm it.
    pub granted: bool,
    pub waiters: Vec<WaiterRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaiterRow {
    pub thread: ThreadId,
    pub spelled: String,
    pub reason: String,
    pub since: Timestamp,
    pub gives_up: Timestamp,
}

/// All claims by key.
pub fn claim_rows(world: &World, now: &Moment) -> Vec<ClaimRow> {
    let waits = |key: &str| {
        let line = world.claims.waiters.values().filter(|w| w.key == key);
        line.map(|w| WaiterRow {
            thread: w.who.clone(),
            spelled: w.spelled.clone(),
            reason: w.reason.clone(),
            since: w.since,
            gives_up: w.gives_up.wall,
        })
        .collect()
    };
    let row = |c: &Claim| ClaimRow {
        key: c.key.clone(),
        spelled: c.spelled.clone(),
        holder: c.holder.clone(),
        reason: c.reason.clone(),
        since: c.since,
        expires: c.expires.wall,
        stale: !c.live(now),
        epoch: c.epoch,
        granted: c.granted,
        waiters: waits(&c.key),
    };
    world.claims.held.values().map(row).collect()
}

/// Whether a resource is still held in this epoch, for whoever is about to act on
/// it: the holder of a claim that was taken over meanwhile learns it here.
pub fn check_epoch(world: &World, now: &Moment, key: &str, epoch: u64) -> Result<Claim, Refusal> {
    let lost = |says: String| {
        let hint = format!("stop acting on it; to have it again: stewards bus claim {} --reason '<why>'", shell(key));
        Refusal::not_met("lost", says, hint)
    };
    match world.claims.live(key, now) {
        Some(held) if held.epoch == epoch => Ok(held.clone()),
        Some(held) => Err(lost(format!("{key} is in epoch {} and held by {}", held.epoch, held.holder_name()))),
        None => Err(lost(format!("nobody holds {key} any more"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_collides_with_what_lies_below_it_by_whole_segments() {
        for (one, other, so) in [
            ("path:a/b:src", "path:a/b:src/x.rs", true),
            ("path:a/b:src/x.rs", "path:a/b:src", true),
            ("path:a/b:src", "path:a/b:srcs", false),
            ("path:a/b:src", "path:a/c:src/x.rs", false),
            ("pr:a/b#1", "pr:a/b#1", true),
            ("branch:a/b:x", "branch:a/b:x/y", false),
        ] {
            assert_eq!(overlap(one, other), so, "{one} and {other}");
        }
    }

    #[test]
    fn a_time_to_live_is_strict() {
        for (text, ms) in [("30m", 1_800_000), (" 4h ", MAX_TTL), ("240m", MAX_TTL), ("1m", 60_000)] {
            assert_eq!(parse_ttl(text), Ok(ms), "{text}");
        }
        for text in ["", "0m", "5h", "241m", "-1h", "+5m", "1.5h", "30", "m", "30s", "٣m", "99999999999999999999h"] {
            assert_eq!(parse_ttl(text).unwrap_err().code, "bad_ttl", "{text}");
        }
    }
}
