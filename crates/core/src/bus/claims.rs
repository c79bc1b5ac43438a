//! The claims book: who holds what, until when.

use super::refs::claim_key;
use crate::Millis;
use crate::entity::RepoName;
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome, Rows, Subject};
use crate::moment::{Deadline, Moment};
use crate::refusal::Refusal;
use crate::threads::{Parcel, SendMode, Sender, deliver};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub const DEFAULT_TTL: Millis = 30 * 60_000;
pub const MAX_TTL: Millis = 4 * 3_600_000;

/// One claim.
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
    pub ttl: Millis,
    pub expires: Deadline,
    /// Rises with every change of holder.
    pub epoch: u64,
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

/// All claims by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsBook {
    pub held: Rows<String, Claim>,
    /// The newest bus message's number; 0 before the first.
    pub last_message: u64,
    /// The highest epoch ever given.
    pub epoch: u64,
}

impl ClaimsBook {
    pub fn live(&self, key: &str, now: &Moment) -> Option<&Claim> {
        self.held.get(&key.to_owned()).filter(|c| c.live(now))
    }
}

/// `30m` or `2h`; more than zero and at most four hours.
pub fn parse_ttl(text: &str) -> Result<Millis, Refusal> {
    let bad = || {
        Refusal::usage(
            "bad_ttl",
            format!("`{text}` is not a time to live"),
            "write it as 30m or 2h, more than zero and at most 4h",
        )
    };
    let text = text.trim();
    let unit = match text.chars().last() {
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        _ => return Err(bad()),
    };
    let n: i64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    n.checked_mul(unit).filter(|ttl| (1..=MAX_TTL).contains(ttl)).ok_or_else(bad)
}

fn who(caller: &Caller) -> Option<ThreadId> {
    match caller {
        Caller::Person => None,
        Caller::Thread(id) => Some(id.clone()),
    }
}

/// The first holder wins; a live claim of somebody else is busy. An expired one
/// is taken over, and whoever held it is told.
pub fn claim(
    out: &mut Outcome,
    caller: &Caller,
    home: &RepoName,
    resource: &str,
    reason: &str,
    ttl: Millis,
) -> Result<(), Refusal> {
    let reason = crate::text::one_line(reason);
    if reason.is_empty() {
        return Err(Refusal::usage("no_reason", "a claim needs a reason", "add --reason '<why you hold it>'"));
    }
    let key = claim_key(resource, home)?;
    let holder = who(caller);
    let before = out.world.claims.held.get(&key).cloned();
    if let Some(held) = before.as_ref().filter(|c| c.live(&out.now) && c.holder != holder) {
        return Err(Refusal::busy(
            "busy",
            format!("{key} is held by {} until {}: {}", held.holder_name(), held.expires.wall, held.reason),
            "wait for its release, or ask the holder",
        ));
    }
    let taken_over = before.as_ref().is_none_or(|c| c.holder != holder || !c.live(&out.now));
    let displaced = before.filter(|c| c.holder != holder).and_then(|c| c.holder);
    let epoch = if taken_over { out.world.claims.epoch + 1 } else { out.world.claims.epoch };
    let claim = Claim {
        key: key.clone(),
        spelled: resource.to_owned(),
        holder,
        reason: crate::text::cut(&reason, 200),
        since: out.now.wall,
        ttl,
        expires: out.now.after(ttl),
        epoch,
    };
    out.say(format!("held {key} until {} (epoch {epoch})", claim.expires.wall));
    out.id("key", &key);
    let now_held_by = claim.holder_name();
    out.fact(Subject::Claims, Fact::ClaimTaken { claim, displaced: displaced.clone() });
    if let Some(lost) = displaced {
        let text = format!("[bus] your claim on {key} expired and is now held by {now_held_by}; stop acting on it");
        let parcel = Parcel { from: Sender::System, cause: "bus", text, wake: false, bus: None };
        // The one who lost it may be archived by now; then there is nobody to tell.
        let _ = deliver(out, &lost, SendMode::Auto, parcel);
    }
    Ok(())
}

/// Only the holder releases, unless forced with a reason; then the holder is told.
pub fn release(
    out: &mut Outcome,
    caller: &Caller,
    home: &RepoName,
    resource: &str,
    force: Option<&str>,
) -> Result<(), Refusal> {
    let key = claim_key(resource, home)?;
    let Some(held) = out.world.claims.held.get(&key).cloned() else {
        return Err(Refusal::not_met(
            "not_held",
            format!("nobody holds {key}"),
            "see what is held: stewards bus claims",
        ));
    };
    let mine = held.holder == who(caller);
    if !mine && force.is_none_or(|why| why.trim().is_empty()) {
        return Err(Refusal::not_met(
            "not_yours",
            format!("{key} is held by {} until {}", held.holder_name(), held.expires.wall),
            format!("ask for it, or: stewards bus release {} --force --reason '<why>'", crate::text::shell(resource)),
        ));
    }
    let why = force.map_or_else(|| "released".to_owned(), crate::text::one_line);
    out.fact(Subject::Claims, Fact::ClaimReleased { key: key.clone(), why: why.clone() });
    out.say(format!("released {key}"));
    if let (false, Some(holder)) = (mine, held.holder) {
        let text = format!("[bus] your claim on {key} was taken from you: {why}");
        let parcel = Parcel { from: Sender::System, cause: "bus", text, wake: false, bus: None };
        let _ = deliver(out, &holder, SendMode::QueueIfActive, parcel);
    }
    Ok(())
}

/// A thread that is archived holds nothing any more.
pub fn release_all(out: &mut Outcome, thread: &ThreadId) {
    let keys: Vec<String> =
        out.world.claims.held.values().filter(|c| c.holder.as_ref() == Some(thread)).map(|c| c.key.clone()).collect();
    for key in keys {
        out.fact(Subject::Claims, Fact::ClaimReleased { key, why: "its thread was archived".into() });
    }
}
