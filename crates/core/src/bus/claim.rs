//! Taking, renewing and giving back what is held.

use super::claims::{Claim, DEFAULT_TTL, DEFAULT_WAIT, MAX_CLAIMS, MAX_HOLD, parse_ttl};
use super::refs::claim_key;
use super::wait::{join, settle, tell};
use crate::Millis;
use crate::entity::RepoName;
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome, Subject};
use crate::moment::Deadline;
use crate::refusal::Refusal;
use crate::text::{cut, one_line, shell};
use crate::threads::SendMode;
use serde::{Deserialize, Serialize};

/// Characters of a reason.
pub const REASON_CAP: usize = 200;

/// What is to be held, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClaimAsk {
    pub resources: Vec<String>,
    pub reason: String,
    /// `30m` or `2h`; 30 minutes by default, at most 4 hours.
    pub ttl: Option<String>,
    /// To stand in line for it, where somebody else holds it.
    pub wait: bool,
    /// For how long, at most 4 hours; 2 hours by default.
    pub max_wait: Option<String>,
}

impl ClaimAsk {
    pub fn of(resource: &str, reason: &str) -> ClaimAsk {
        ClaimAsk { resources: vec![resource.to_owned()], reason: reason.to_owned(), ..ClaimAsk::default() }
    }
}

pub(super) fn who(caller: &Caller) -> Option<&ThreadId> {
    match caller {
        Caller::Person => None,
        Caller::Thread(id) => Some(id),
    }
}

pub(super) fn reason_of(text: &str) -> Result<String, Refusal> {
    let reason = one_line(text);
    let long = reason.chars().count();
    if reason.is_empty() {
        return Err(Refusal::usage("no_reason", "a claim needs a reason", "add --reason '<why you hold it>'"));
    }
    if long > REASON_CAP {
        let says = format!("the reason has {long} characters and may have {REASON_CAP}");
        return Err(Refusal::usage("reason_too_long", says, "say it shorter"));
    }
    Ok(reason)
}

/// First holder wins. A live claim of somebody else is busy, and so is what others
/// stand in line for; the holder is told once that it is wanted. What has expired is
/// taken over, and whoever held it is told.
pub fn claim(out: &mut Outcome, caller: &Caller, home: &RepoName, ask: &ClaimAsk) -> Result<(), Refusal> {
    let reason = reason_of(&ask.reason)?;
    let ttl = ask.ttl.as_deref().map_or(Ok(DEFAULT_TTL), parse_ttl)?;
    let patience = ask.max_wait.as_deref().map_or(Ok(DEFAULT_WAIT), parse_ttl)?;
    if ask.max_wait.is_some() && !ask.wait {
        return Err(Refusal::usage("no_wait", "--max-wait says how long to wait", "add --wait"));
    }
    let mut wanted: Vec<(String, String)> = Vec::new();
    for spelled in &ask.resources {
        let key = claim_key(spelled, home)?;
        if !wanted.iter().any(|(k, _)| *k == key) {
            wanted.push((key, one_line(spelled)));
        }
    }
    let [first, rest @ ..] = wanted.as_slice() else {
        return Err(Refusal::usage("no_resource", "nothing is named to be claimed", "name one, such as pr:7"));
    };
    settle(out);
    let me = who(caller);
    for (key, _) in &wanted {
        if let Some(refusal) = contended(out, me, key) {
            return Err(refusal);
        }
    }
    let blocked: Vec<&(String, String)> = wanted.iter().filter(|(key, _)| ahead(out, me, key).is_some()).collect();
    if let Some((key, spelled)) = blocked.first() {
        let says = ahead(out, me, key).unwrap_or_default();
        if !rest.is_empty() {
            let says = format!("{says}; nothing of the {} was claimed", wanted.len());
            return busy(out, caller, key, Refusal::busy("busy", says, "claim them when it is free"));
        }
        if ask.wait {
            return join(out, caller, (key, spelled), &reason, ttl, patience);
        }
        let hint = format!("stand in line: stewards bus claim {} --reason '<why>' --wait", shell(spelled));
        return busy(out, caller, key, Refusal::busy("busy", says, hint));
    }
    let of_mine = out.world.claims.held.values().filter(|c| c.holder.as_ref() == me && c.live(&out.now)).count();
    if me.is_some() && of_mine + wanted.len() > MAX_CLAIMS {
        let says = format!("a thread holds at most {MAX_CLAIMS} resources");
        return Err(Refusal::not_met("too_many", says, "release some: stewards bus claims --mine"));
    }
    for (key, spelled) in std::iter::once(first).chain(rest) {
        take(out, me, key, spelled, &reason, ttl);
    }
    Ok(())
}

/// One resource for a caller of ours, without a place in line.
pub fn claim_one(
    out: &mut Outcome,
    caller: &Caller,
    home: &RepoName,
    resource: &str,
    why: &str,
) -> Result<(), Refusal> {
    claim(out, caller, home, &ClaimAsk::of(resource, why))?;
    out.refused.take().map_or(Ok(()), Err)
}

/// The holder keeps what it has to the end that it has, while others wait for it.
fn contended(out: &Outcome, me: Option<&ThreadId>, key: &str) -> Option<Refusal> {
    let held = out.world.claims.live(key, &out.now)?;
    let waits = out.world.claims.line(key).find(|w| Some(&w.who) != me)?;
    (held.holder.as_ref() == me && !held.granted).then(|| {
        let says = format!("{key} is yours until {} and no longer: {} waits for it", held.expires.wall, waits.who);
        Refusal::busy("contended", says, format!("release it when you are done: stewards bus release {}", shell(key)))
    })
}

/// Who is before `me`, in words.
fn ahead(out: &Outcome, me: Option<&ThreadId>, key: &str) -> Option<String> {
    let book = &out.world.claims;
    let other = book.in_the_way(key, &out.now).find(|c| c.holder.as_ref() != me);
    if let Some(held) = other {
        let same = if held.key == key { String::new() } else { format!(" ({} lies in it)", one_of(&held.key, key)) };
        return Some(format!(
            "{} is held by {} until {}{same}: {}",
            held.key,
            held.holder_name(),
            held.expires.wall,
            held.reason
        ));
    }
    if book.live(key, &out.now).is_some() {
        return None;
    }
    let head = book.line(key).find(|w| Some(&w.who) != me)?;
    Some(format!("{key} goes to {}, who waits for it: {}", head.who, head.reason))
}

/// The narrower of the two.
fn one_of<'a>(one: &'a str, other: &'a str) -> &'a str {
    if one.len() > other.len() { one } else { other }
}

/// Told to the holder the first time that this thread wants it.
fn busy(out: &mut Outcome, caller: &Caller, key: &str, refusal: Refusal) -> Result<(), Refusal> {
    want(out, caller, key, "");
    match out.facts.is_empty() {
        true => Err(refusal),
        false => {
            out.refused = Some(refusal);
            Ok(())
        }
    }
}

/// Tells whoever is in the way, once for each holding.
pub(super) fn want(out: &mut Outcome, caller: &Caller, key: &str, how: &str) {
    let Some(me) = who(caller) else { return };
    let way = out.world.claims.in_the_way(key, &out.now).filter(|c| c.holder.as_ref() != Some(me));
    let untold: Vec<Claim> = way.filter(|c| !c.wanted_by.contains(me)).cloned().collect();
    for held in untold {
        out.fact(Subject::Claims, Fact::ClaimWanted { key: held.key.clone(), by: me.clone() });
        let says = format!("{me} wants {}, which you hold{how}. You keep it until {}", held.key, held.expires.wall);
        let hint = format!("release it as soon as you can: stewards bus release {}", shell(&held.key));
        tell(out, held.holder.as_ref(), &format!("{says}; {hint}"), SendMode::Auto);
    }
}

/// Writes the claim down. What expired under somebody else is displaced, and told.
fn take(out: &mut Outcome, me: Option<&ThreadId>, key: &str, spelled: &str, reason: &str, asked: Millis) {
    let before = out.world.claims.held.get(&key.to_owned()).cloned();
    let mine = before.as_ref().filter(|c| c.holder.as_ref() == me && c.live(&out.now));
    let epoch = mine.map_or(out.world.claims.given.epoch + 1, |c| c.epoch);
    let ends = mine.map_or_else(|| out.now.after(MAX_HOLD), |c| c.ends.clone());
    // What was waited for is held for as long as was asked then, and no longer.
    let ttl = mine.filter(|c| c.granted).map_or(asked, |c| asked.min(c.ttl));
    let claim = Claim {
        key: key.to_owned(),
        spelled: spelled.to_owned(),
        holder: me.cloned(),
        reason: reason.to_owned(),
        since: mine.map_or(out.now.wall, |c| c.since),
        ttl,
        expires: earlier(out.now.after(ttl), &ends),
        ends,
        warned: mine.is_some_and(|c| c.warned),
        epoch,
        granted: false,
        wanted_by: mine.map(|c| c.wanted_by.clone()).unwrap_or_default(),
    };
    let displaced = before.filter(|c| c.holder.as_ref() != me).and_then(|c| c.holder);
    out.say(format!("held {key} until {} (epoch {epoch})", claim.expires.wall));
    out.id("key", key);
    out.id("epoch", epoch);
    let now_held_by = claim.holder_name();
    out.fact(Subject::Claims, Fact::ClaimTaken { claim: Box::new(claim), displaced: displaced.clone() });
    let lost = format!("your claim on {key} expired and is now held by {now_held_by}; stop acting on it");
    tell(out, displaced.as_ref(), &lost, SendMode::Auto);
}

fn earlier(one: Deadline, other: &Deadline) -> Deadline {
    if one.wall <= other.wall { one } else { other.clone() }
}

/// The live holder's claim lasts its time to live from now on, but never beyond the
/// end of its holding, and not while somebody waits for it.
pub fn heartbeat(out: &mut Outcome, caller: &Caller, home: &RepoName, resource: &str) -> Result<(), Refusal> {
    let key = claim_key(resource, home)?;
    settle(out);
    let me = who(caller);
    let Some(held) = out.world.claims.held.get(&key).cloned() else { return Err(not_held(&key)) };
    if held.holder.as_ref() != me {
        let says = format!("{key} is held by {} until {}", held.holder_name(), held.expires.wall);
        return Err(Refusal::not_met("not_yours", says, "only its holder renews it"));
    }
    if !held.live(&out.now) {
        let hint = format!("claim it again: stewards bus claim {} --reason '<why>'", shell(resource));
        return Err(Refusal::not_met("expired", format!("your claim on {key} has expired"), hint));
    }
    if let Some(refusal) = contended(out, me, &key) {
        return Err(refusal);
    }
    if held.granted {
        let hint = format!("stewards bus claim {} --reason '<why>'", shell(resource));
        return Err(Refusal::not_met("not_confirmed", format!("{key} was granted to you: confirm it first"), hint));
    }
    let expires = earlier(out.now.after(held.ttl), &held.ends);
    let last = if expires == held.ends { ", and no longer: a holding has an end" } else { "" };
    out.say(format!("held {key} until {}{last} (epoch {})", expires.wall, held.epoch));
    out.id("key", &key);
    out.id("epoch", held.epoch);
    out.fact(Subject::Claims, Fact::ClaimRenewed { key, expires });
    Ok(())
}

fn not_held(key: &str) -> Refusal {
    Refusal::not_met("not_held", format!("nobody holds {key}"), "see what is held: stewards bus claims")
}

/// Only the holder gives it back, unless it has expired or somebody forces it with a
/// reason, which the holder is told. Who stands in line for it leaves the line.
pub fn release(
    out: &mut Outcome,
    caller: &Caller,
    home: &RepoName,
    resource: &str,
    force: Option<&str>,
) -> Result<(), Refusal> {
    let key = claim_key(resource, home)?;
    settle(out);
    let me = who(caller);
    let held = out.world.claims.held.get(&key).cloned();
    let mine = held.as_ref().is_some_and(|c| c.holder.as_ref() == me);
    let place = out.world.claims.waiters.values().find(|w| w.key == key && Some(&w.who) == me).map(|w| w.seq);
    if let (Some(seq), false, None) = (place, mine, force) {
        out.fact(Subject::Claims, Fact::ClaimUnawaited { seq, key: key.clone(), why: "left".into() });
        out.say(format!("you do not wait for {key} any more"));
        settle(out);
        return Ok(());
    }
    let Some(held) = held else { return Err(not_held(&key)) };
    let why = match force {
        _ if mine || !held.live(&out.now) => "released".to_owned(),
        Some(why) => cut(&reason_of(why)?, REASON_CAP),
        None => {
            let says = format!("{key} is held by {} until {}", held.holder_name(), held.expires.wall);
            let hint = format!("ask for it, or: stewards bus release {} --force --reason '<why>'", shell(resource));
            return Err(Refusal::not_met("not_yours", says, hint));
        }
    };
    out.fact(Subject::Claims, Fact::ClaimReleased { key: key.clone(), why: why.clone() });
    out.say(format!("released {key}"));
    if !mine {
        let by = me.map_or("the owner".to_owned(), ToString::to_string);
        let lost = match held.live(&out.now) {
            true => format!("your claim on {key} was taken from you by {by}: {why}; stop acting on it"),
            false => format!("your claim on {key} expired and was cleared away by {by}"),
        };
        tell(out, held.holder.as_ref(), &lost, SendMode::Auto);
    }
    settle(out);
    Ok(())
}

/// A thread that is archived holds nothing any more and waits for nothing.
pub fn release_all(out: &mut Outcome, thread: &ThreadId) {
    let book = &out.world.claims;
    let keys: Vec<String> =
        book.held.values().filter(|c| c.holder.as_ref() == Some(thread)).map(|c| c.key.clone()).collect();
    let places: Vec<(u64, String)> =
        book.waiters.values().filter(|w| w.who == *thread).map(|w| (w.seq, w.key.clone())).collect();
    for (seq, key) in places {
        out.fact(Subject::Claims, Fact::ClaimUnawaited { seq, key, why: "its thread was archived".into() });
    }
    for key in keys {
        out.fact(Subject::Claims, Fact::ClaimReleased { key, why: "its thread was archived".into() });
    }
    settle(out);
}
