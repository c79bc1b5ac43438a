//! The line for what is held: first come, first served.

use super::claim::{want, who};
use super::claims::{Claim, MAX_HOLD, MAX_WAITS, PICKUP, WARNED, Waiter, overlap};
use crate::Millis;
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome, Subject, World};
use crate::moment::{Deadline, Moment};
use crate::refusal::Refusal;
use crate::text::shell;
use crate::threads::{Parcel, SendMode, deliver, writable};
use std::collections::BTreeSet;

/// A notice of the bus itself, which nobody can send. Answers whether it was taken:
/// a thread that was archived meanwhile is told nothing.
pub(super) fn tell(out: &mut Outcome, whom: Option<&ThreadId>, text: &str, mode: SendMode) -> bool {
    let Some(whom) = whom else { return false };
    let parcel = Parcel::system("bus", format!("[bus] {text}."));
    // The caller hears what became of its own request, not of this.
    let reply = out.reply.clone();
    let taken = deliver(out, whom, mode, parcel).is_ok();
    out.reply = reply;
    taken
}

/// Takes a place in line, or keeps the one that is there.
pub(super) fn join(
    out: &mut Outcome,
    caller: &Caller,
    (key, spelled): (&str, &str),
    reason: &str,
    ttl: Millis,
    patience: Millis,
) -> Result<(), Refusal> {
    let Some(me) = who(caller) else {
        let says = "only a thread stands in line: nobody could tell you when it is your turn";
        return Err(Refusal::not_met("no_line", says, "see when it is free: stewards bus claims"));
    };
    if !out.world.claims.waiters.values().any(|w| w.key == key && w.who == *me) {
        if let Some(other) = waits_for_me(&out.world, me, key, &out.now) {
            let says = format!("{other} has {key} and waits for what you hold: neither would ever get it");
            return Err(Refusal::not_met("deadlock", says, "release what it waits for: stewards bus claims --mine"));
        }
        let places = out.world.claims.waiters.values().filter(|w| w.who == *me).count();
        if places >= MAX_WAITS {
            let says = format!("a thread stands in at most {MAX_WAITS} lines");
            return Err(Refusal::not_met("too_many", says, "leave one: stewards bus release <resource>"));
        }
        let waiter = Waiter {
            seq: out.world.claims.given.waiter + 1,
            key: key.to_owned(),
            spelled: spelled.to_owned(),
            who: me.clone(),
            reason: reason.to_owned(),
            ttl,
            since: out.now.wall,
            gives_up: out.now.after(patience),
        };
        out.fact(Subject::Claims, Fact::ClaimAwaited { waiter: Box::new(waiter) });
        want(out, caller, key, &format!(" and waits for it: {reason}"));
    }
    let line: Vec<&Waiter> = out.world.claims.line(key).collect();
    let place = line.iter().position(|w| w.who == *me && w.key == key).unwrap_or(0) + 1;
    let until = line.get(place - 1).map_or_else(String::new, |w| w.gives_up.wall.to_string());
    let says = format!("{key} is not free yet: you are number {place} in line, until {until}");
    let hint = format!("you are told when it is yours; to leave the line: stewards bus release {}", shell(spelled));
    out.refused = Some(Refusal::busy("waiting", says, hint));
    Ok(())
}

/// Somebody who is before `me` for `key`, and who waits, perhaps by way of others,
/// for something that `me` holds.
fn waits_for_me(world: &World, me: &ThreadId, key: &str, now: &Moment) -> Option<ThreadId> {
    let before = |key: &str| -> Vec<ThreadId> {
        let holders = world.claims.in_the_way(key, now).filter_map(|c| c.holder.clone());
        holders.chain(world.claims.line(key).map(|w| w.who.clone())).filter(|t| t != me).collect()
    };
    let first = before(key);
    for start in &first {
        let mut seen = BTreeSet::from([start.clone()]);
        let mut open = vec![start.clone()];
        while let Some(one) = open.pop() {
            for waits in world.claims.waiters.values().filter(|w| w.who == one) {
                let mine = world.claims.in_the_way(&waits.key, now).any(|c| c.holder.as_ref() == Some(me));
                if mine {
                    return Some(start.clone());
                }
                open.extend(before(&waits.key).into_iter().filter(|t| seen.insert(t.clone())));
            }
        }
    }
    None
}

/// Whose turn it is: free, and nobody before it in a line that it collides with.
fn next<'a>(world: &'a World, now: &Moment) -> Option<&'a Waiter> {
    let book = &world.claims;
    book.waiters.values().find(|w| {
        let free = book.in_the_way(&w.key, now).all(|c| c.holder.as_ref() == Some(&w.who) && c.key != w.key);
        free && !book.waiters.values().any(|b| b.seq < w.seq && b.who != w.who && overlap(&b.key, &w.key))
    })
}

/// Everything that time has brought about: who waited too long leaves, what is free
/// goes to whoever waits, and a holding that soon ends is said.
pub fn settle(out: &mut Outcome) {
    let late: Vec<Waiter> =
        out.world.claims.waiters.values().filter(|w| w.gives_up.passed(&out.now)).cloned().collect();
    for waiter in late {
        out.fact(Subject::Claims, leaves(&waiter, "it waited too long"));
        let again = format!("stewards bus claim {} --reason '<why>' --wait", shell(&waiter.spelled));
        let text = format!("{} did not become free, and you wait for it no longer; once more: {again}", waiter.key);
        tell(out, Some(&waiter.who), &text, SendMode::QueueIfActive);
    }
    while let Some(waiter) = next(&out.world, &out.now).cloned() {
        grant(out, &waiter);
    }
    let old: Vec<String> =
        out.world.claims.held.values().filter(|c| forgotten(c, &out.now)).map(|c| c.key.clone()).collect();
    for key in old {
        out.fact(Subject::Claims, Fact::ClaimReleased { key, why: "it expired long ago".into() });
    }
    let soon: Vec<Claim> = out.world.claims.held.values().filter(|c| to_warn(c, &out.now)).cloned().collect();
    for held in soon {
        out.fact(Subject::Claims, Fact::ClaimWarned { key: held.key.clone() });
        let text = format!(
            "your claim on {} ends at {}, however often you renew it: finish, or release it and claim it anew",
            held.key, held.ends.wall
        );
        tell(out, held.holder.as_ref(), &text, SendMode::Auto);
    }
}

/// It expired a day ago, and nobody wanted it since.
fn forgotten(claim: &Claim, now: &Moment) -> bool {
    claim.expires.left(now) <= -MAX_HOLD
}

fn to_warn(claim: &Claim, now: &Moment) -> bool {
    !claim.warned && claim.live(now) && claim.ends.left(now) <= WARNED
}

fn grant(out: &mut Outcome, waiter: &Waiter) {
    if writable(&out.world, &waiter.who).is_err() {
        out.fact(Subject::Claims, leaves(waiter, "it takes no messages"));
        return;
    }
    let before = out.world.claims.held.get(&waiter.key).cloned();
    let lost = before.and_then(|c| c.holder).filter(|h| *h != waiter.who);
    let claim = Claim {
        key: waiter.key.clone(),
        spelled: waiter.spelled.clone(),
        holder: Some(waiter.who.clone()),
        reason: waiter.reason.clone(),
        since: out.now.wall,
        ttl: waiter.ttl,
        expires: out.now.after(waiter.ttl.min(PICKUP)),
        ends: out.now.after(MAX_HOLD),
        warned: false,
        epoch: out.world.claims.given.epoch + 1,
        granted: true,
        wanted_by: Vec::new(),
    };
    let (key, epoch, until) = (claim.key.clone(), claim.epoch, claim.expires.wall);
    out.fact(Subject::Claims, leaves(waiter, "granted"));
    out.fact(Subject::Claims, Fact::ClaimTaken { claim: Box::new(claim), displaced: lost.clone() });
    let gone = format!("your claim on {key} expired and is now held by {}; stop acting on it", waiter.who);
    tell(out, lost.as_ref(), &gone, SendMode::Auto);
    let text = format!(
        "{key} is yours until {until} (epoch {epoch}), as you waited for. Confirm it to keep it longer: stewards bus claim \
         {spelled} --reason '<why>'. If you need it no more: stewards bus release {spelled}",
        spelled = shell(&waiter.spelled)
    );
    tell(out, Some(&waiter.who), &text, SendMode::Auto);
}

fn leaves(waiter: &Waiter, why: &str) -> Fact {
    Fact::ClaimUnawaited { seq: waiter.seq, key: waiter.key.clone(), why: why.to_owned() }
}

/// Something for [`settle`] to do.
pub fn settling_is_due(world: &World, now: &Moment) -> bool {
    let book = &world.claims;
    book.waiters.values().any(|w| w.gives_up.passed(now))
        || next(world, now).is_some()
        || book.held.values().any(|c| to_warn(c, now) || forgotten(c, now))
}

/// When the passing of time alone may bring that about.
pub fn settling_deadlines(world: &World) -> impl Iterator<Item = Deadline> {
    let book = &world.claims;
    let ends = book.held.values().filter(|c| !c.warned).map(|c| after(&c.ends, -WARNED));
    let waited = book.held.values().filter(|c| book.line(&c.key).next().is_some()).map(|c| c.expires.clone());
    let old = book.held.values().map(|c| after(&c.expires, MAX_HOLD));
    book.waiters.values().map(|w| w.gives_up.clone()).chain(waited).chain(ends).chain(old)
}

fn after(deadline: &Deadline, wait: Millis) -> Deadline {
    Deadline {
        wall: deadline.wall.checked_add(jiff::SignedDuration::from_millis(wait)).unwrap_or(deadline.wall),
        run: deadline.run,
        elapsed: deadline.elapsed.saturating_add(wait),
    }
}
