//! Who holds what, and who waits for it.

use std::collections::BTreeMap;
use stewards_core::bus::{ClaimAsk, MAX_HOLD, check_epoch, overlap};
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Event, Fact, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::threads::{Permission, SendMode};
use stewards_testkit::{MINUTE, Rng, SECOND, Sim, Weather};

const HOUR: i64 = 60 * MINUTE;

/// Threads at rest that hold nothing.
fn threads(n: usize) -> (Sim, Vec<ThreadId>) {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    sim.settings.turns_per_hour = 0;
    sim.run(MINUTE, |_| false);
    sim.restart();
    let all = (0..n).map(|_| sim.plain(None, Permission::Full)).collect();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    (sim, all)
}

fn claim(sim: &mut Sim, who: &ThreadId, resource: &str, ttl: &str, wait: bool) -> Result<Reply, Refusal> {
    let ask = ClaimAsk { ttl: Some(ttl.into()), wait, ..ClaimAsk::of(resource, "work") };
    sim.tell(Event::Claimed { caller: Caller::Thread(who.clone()), ask })
}

fn beat(sim: &mut Sim, who: &ThreadId, resource: &str) -> Result<Reply, Refusal> {
    sim.tell(Event::Heartbeat { caller: Caller::Thread(who.clone()), resource: resource.into() })
}

fn release(sim: &mut Sim, who: &ThreadId, resource: &str) -> Result<Reply, Refusal> {
    sim.tell(Event::Released { caller: Caller::Thread(who.clone()), resource: resource.into(), force: None })
}

fn code<T>(result: Result<T, Refusal>) -> String {
    result.err().map_or_else(|| "done".to_owned(), |r| r.code)
}

/// How long a claim lasts yet, in milliseconds.
fn left(sim: &Sim, key: &str) -> i64 {
    sim.world().claims.held.get(&key.to_owned()).unwrap().expires.left(&sim.moment())
}

fn holder(sim: &Sim, key: &str) -> Option<ThreadId> {
    sim.world().claims.live(key, &sim.moment()).and_then(|c| c.holder.clone())
}

/// What a thread was told by the bus.
fn told(sim: &Sim, who: &ThreadId) -> Vec<String> {
    let of = |fact| match fact {
        Fact::MessageAccepted { message } if message.cause == "bus" => Some(message.text),
        _ => None,
    };
    sim.facts_of(who.as_str()).into_iter().filter_map(of).collect()
}

const KEY: &str = "task:A-1";

#[test]
fn a_heartbeat_adds_the_stored_time_and_a_holding_ends_after_a_day_however_often_it_is_renewed() {
    let (mut sim, t) = threads(1);
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    let began = sim.now;
    for minutes in [20, 20, 40] {
        sim.run(sim.now + minutes.min(25) * MINUTE, |_| false);
        beat(&mut sim, &t[0], KEY).unwrap();
        assert_eq!(left(&sim, KEY), 30 * MINUTE, "not a minute more, however often");
    }
    while sim.now - began < MAX_HOLD - 20 * MINUTE {
        sim.run(sim.now + 20 * MINUTE, |_| false);
        beat(&mut sim, &t[0], KEY).unwrap();
        // Nor does claiming it again begin another day.
        claim(&mut sim, &t[0], KEY, "4h", false).unwrap();
        claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    }
    let warned: Vec<String> = told(&sim, &t[0]).into_iter().filter(|m| m.contains("however often you renew")).collect();
    assert_eq!(warned.len(), 1);
    sim.run(began + MAX_HOLD, |_| false);
    assert_eq!(holder(&sim, KEY), None);
    assert_eq!(code(beat(&mut sim, &t[0], KEY)), "expired");
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    assert!(!told(&sim, &t[0]).iter().any(|m| m.contains("is now held by")), "nobody is displaced by itself");
}

#[test]
fn a_busy_claim_tells_the_holder_once_for_each_who_wants_it_and_changes_nothing() {
    let (mut sim, t) = threads(3);
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    let before = sim.world().claims.held.get(&KEY.to_owned()).unwrap().expires.clone();
    for who in [1, 1, 2, 1, 2] {
        let refusal = claim(&mut sim, &t[who], KEY, "30m", false).unwrap_err();
        assert_eq!((refusal.code.as_str(), refusal.exit.code()), ("busy", 75));
        assert!(refusal.says.contains(t[0].as_str()) && refusal.hint.contains("--wait"), "{refusal}");
    }
    assert_eq!(told(&sim, &t[0]).iter().filter(|m| m.contains("wants")).count(), 2);
    assert_eq!(sim.world().claims.held.get(&KEY.to_owned()).unwrap().expires, before);
}

#[test]
fn the_line_is_first_come_first_served_and_nobody_jumps_it() {
    let (mut sim, t) = threads(4);
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    for who in [1, 2] {
        let refusal = claim(&mut sim, &t[who], KEY, "1h", true).unwrap_err();
        assert!(refusal.code == "waiting" && refusal.says.contains(&format!("number {who} in line")), "{refusal}");
    }
    // Again keeps the place; the holder keeps what it has and no more.
    assert!(claim(&mut sim, &t[1], KEY, "4h", true).unwrap_err().says.contains("number 1"));
    assert_eq!(code(beat(&mut sim, &t[0], KEY)), "contended");
    assert_eq!(code(claim(&mut sim, &t[0], KEY, "4h", false)), "contended");
    assert_eq!(told(&sim, &t[0]).iter().filter(|m| m.contains("waits for it")).count(), 2);
    release(&mut sim, &t[0], KEY).unwrap();
    assert_eq!(holder(&sim, KEY), Some(t[1].clone()));
    assert_eq!(code(claim(&mut sim, &t[3], KEY, "30m", false)), "busy", "against the one who has it");
    let granted = told(&sim, &t[1]);
    assert!(granted.iter().any(|m| m.contains("is yours until") && m.contains("stewards bus claim task:A-1")));
    // Confirmed for what was asked in line, not more.
    sim.run(sim.now + 9 * MINUTE, |_| false);
    claim(&mut sim, &t[1], KEY, "4h", false).unwrap();
    assert_eq!(left(&sim, KEY), HOUR);
    // An expiry passes it on by itself; one who does not confirm loses it after ten minutes.
    sim.run(sim.now + HOUR + MINUTE, |_| false);
    assert_eq!(holder(&sim, KEY), Some(t[2].clone()));
    assert!(told(&sim, &t[1]).iter().any(|m| m.contains("expired and is now held by")));
    sim.run(sim.now + 11 * MINUTE, |_| false);
    assert_eq!(holder(&sim, KEY), None);
}

#[test]
fn who_waits_leaves_by_release_by_time_and_by_being_archived() {
    let (mut sim, t) = threads(4);
    claim(&mut sim, &t[0], KEY, "4h", false).unwrap();
    for who in &t[1..4] {
        assert_eq!(code(claim(&mut sim, who, KEY, "30m", true)), "waiting");
    }
    release(&mut sim, &t[1], KEY).unwrap();
    sim.tell(Event::Archived { caller: Caller::Person, thread: t[2].clone(), yes: true }).unwrap();
    let line = |sim: &Sim| sim.world().claims.waiters.values().map(|w| w.who.clone()).collect::<Vec<_>>();
    assert_eq!(line(&sim), [t[3].clone()]);
    sim.run(sim.now + 2 * HOUR + MINUTE, |_| false);
    assert!(line(&sim).is_empty() && told(&sim, &t[3]).iter().any(|m| m.contains("you wait for it no longer")));
    // An archived holder passes on.
    assert_eq!(code(claim(&mut sim, &t[3], KEY, "30m", true)), "waiting");
    sim.tell(Event::Archived { caller: Caller::Person, thread: t[0].clone(), yes: true }).unwrap();
    assert_eq!(holder(&sim, KEY), Some(t[3].clone()));
}

#[test]
fn who_would_wait_for_each_other_is_refused() {
    let (mut sim, t) = threads(3);
    for (who, key) in [(0, "task:A"), (1, "task:B"), (2, "path:src")] {
        claim(&mut sim, &t[who], key, "4h", false).unwrap();
    }
    assert_eq!(code(claim(&mut sim, &t[0], "task:B", "30m", true)), "waiting");
    assert_eq!(code(claim(&mut sim, &t[1], "path:src/a.rs", "30m", true)), "waiting");
    let refusal = claim(&mut sim, &t[2], "task:A", "30m", true).unwrap_err();
    assert!(refusal.code == "deadlock" && refusal.says.contains(t[0].as_str()), "{refusal}");
    release(&mut sim, &t[0], "task:B").unwrap();
    assert_eq!(code(claim(&mut sim, &t[2], "task:A", "30m", true)), "waiting");
}

#[test]
fn several_are_claimed_all_or_none() {
    let (mut sim, t) = threads(2);
    claim(&mut sim, &t[0], "task:B", "30m", false).unwrap();
    let all = |who: &ThreadId| Event::Claimed {
        caller: Caller::Thread(who.clone()),
        ask: ClaimAsk {
            resources: ["task:A", "task:B", "task:C", "task:A"].map(str::to_owned).to_vec(),
            ..ClaimAsk::of("", "all of it")
        },
    };
    let refusal = sim.tell(all(&t[1])).unwrap_err();
    assert!(refusal.code == "busy" && refusal.says.contains("nothing of the 3 was claimed"), "{refusal}");
    assert_eq!((holder(&sim, "task:A"), holder(&sim, "task:C")), (None, None));
    release(&mut sim, &t[0], "task:B").unwrap();
    sim.tell(all(&t[1])).unwrap();
    assert_eq!(sim.world().claims.held.values().filter(|c| c.holder.as_ref() == Some(&t[1])).count(), 3);
}

#[test]
fn a_directory_and_what_lies_below_it_are_held_by_one() {
    let (mut sim, t) = threads(2);
    claim(&mut sim, &t[0], "path:src", "30m", false).unwrap();
    let refusal = claim(&mut sim, &t[1], "path:./src//a.rs", "30m", false).unwrap_err();
    assert!(refusal.code == "busy" && refusal.says.contains("lies in it"), "{refusal}");
    claim(&mut sim, &t[1], "path:srcs/a.rs", "30m", false).unwrap();
    assert_eq!(code(claim(&mut sim, &t[1], "path:src/a.rs", "30m", true)), "waiting");
    // The holder may take the part as well; then both are to be given back.
    assert_eq!(code(release(&mut sim, &t[0], "path:src")), "done");
    assert_eq!(holder(&sim, "path:acme/shop:src/a.rs"), Some(t[1].clone()));
    assert_eq!(code(claim(&mut sim, &t[0], "path:src", "30m", false)), "busy");
}

#[test]
fn an_epoch_says_whether_a_claim_is_still_the_one_that_was_given() {
    let (mut sim, t) = threads(2);
    let first: u64 = claim(&mut sim, &t[0], KEY, "1m", false).unwrap().ids["epoch"].parse().unwrap();
    assert!(check_epoch(sim.world(), &sim.moment(), KEY, first).is_ok());
    beat(&mut sim, &t[0], KEY).unwrap();
    assert!(check_epoch(sim.world(), &sim.moment(), KEY, first).is_ok(), "a heartbeat changes nothing of it");
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(check_epoch(sim.world(), &sim.moment(), KEY, first).unwrap_err().code, "lost");
    let second: u64 = claim(&mut sim, &t[1], KEY, "30m", false).unwrap().ids["epoch"].parse().unwrap();
    assert!(second > first);
    assert_eq!(check_epoch(sim.world(), &sim.moment(), KEY, first).unwrap_err().exit.code(), 1);
}

#[test]
fn what_expired_needs_no_force_and_a_long_reason_is_refused_before_anything_is_done() {
    let (mut sim, t) = threads(2);
    claim(&mut sim, &t[0], KEY, "1m", false).unwrap();
    sim.run(sim.now + 2 * MINUTE, |_| false);
    release(&mut sim, &t[1], KEY).unwrap();
    assert!(told(&sim, &t[0]).iter().any(|m| m.contains("expired and was cleared away")));
    let long = ClaimAsk::of(KEY, &"x".repeat(201));
    let refusal = sim.tell(Event::Claimed { caller: Caller::Thread(t[0].clone()), ask: long }).unwrap_err();
    assert_eq!(refusal.code, "reason_too_long");
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    let force = |why: &str| Event::Released {
        caller: Caller::Thread(t[1].clone()),
        resource: KEY.into(),
        force: Some(why.to_owned()),
    };
    for (why, code) in [("", "no_reason"), (&"x".repeat(201), "reason_too_long")] {
        assert_eq!(sim.tell(force(why)).unwrap_err().code, code);
    }
    sim.tell(force(&"x".repeat(200))).unwrap();
    assert!(told(&sim, &t[0]).iter().any(|m| m.contains("was taken from you")));
}

#[test]
fn a_thread_is_not_deleted_while_one_that_stays_holds_it() {
    let (mut sim, t) = threads(2);
    let key = format!("thread:{}", t[0]);
    let delete = Event::Deleted { caller: Caller::Person, thread: t[0].clone(), yes: true };
    claim(&mut sim, &t[1], &key, "30m", false).unwrap();
    assert_eq!(code(sim.tell(delete.clone())), "busy");
    release(&mut sim, &t[1], &key).unwrap();
    claim(&mut sim, &t[0], &key, "30m", false).unwrap();
    sim.tell(delete).unwrap();
    assert!(sim.world().claims.held.is_empty());
}

#[test]
fn a_claim_lasts_its_whole_time_over_restarts_and_whoever_lost_it_is_told_once_by_the_next() {
    let (mut sim, t) = threads(3);
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    for _ in 0..29 {
        sim.run(sim.now + MINUTE, |_| false);
        sim.restart();
        assert_eq!(holder(&sim, KEY).as_ref(), Some(&t[0]));
    }
    sim.run(sim.now + MINUTE - SECOND, |_| false);
    assert_eq!(code(claim(&mut sim, &t[1], KEY, "30m", false)), "busy");
    // Nobody has to sweep: it is free the moment it has expired, and its last holder hears nothing until then.
    let lost = |sim: &Sim| told(sim, &t[0]).iter().filter(|m| m.contains("stop acting on it")).count();
    sim.run(sim.now + 2 * SECOND, |_| false);
    assert_eq!(lost(&sim), 0);
    claim(&mut sim, &t[1], KEY, "30m", false).unwrap();
    claim(&mut sim, &t[1], KEY, "30m", false).unwrap();
    assert_eq!(lost(&sim), 1);
    // One's own, expired and taken again, is no loss.
    sim.run(sim.now + 31 * MINUTE, |_| false);
    let before = told(&sim, &t[1]).len();
    claim(&mut sim, &t[1], KEY, "30m", false).unwrap();
    assert_eq!(told(&sim, &t[1]).len(), before);
}

#[test]
fn a_step_of_the_clock_neither_lengthens_nor_ends_a_claim_while_the_daemon_runs() {
    for step in [HOUR, -HOUR, -SECOND, 5 * 24 * HOUR] {
        let (mut sim, t) = threads(2);
        claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
        sim.run(sim.now + 10 * MINUTE, |_| false);
        sim.clock_steps(step);
        sim.run(sim.now + 20 * MINUTE - SECOND, |_| false);
        assert_eq!(holder(&sim, KEY).as_ref(), Some(&t[0]), "stepped by {step}");
        sim.run(sim.now + 2 * SECOND, |_| false);
        assert_eq!(holder(&sim, KEY), None, "stepped by {step}");
    }
    // Over a restart the wall clock is all there is.
    let (mut sim, t) = threads(1);
    claim(&mut sim, &t[0], KEY, "30m", false).unwrap();
    sim.clock_steps(HOUR);
    sim.restart();
    assert_eq!(holder(&sim, KEY), None);
}

/// Threads do anything at any time, the daemon dies, and clocks go on: never have two
/// what collides, an epoch only rises, nobody holds for longer than a day, and whoever
/// waited was served, left, or is still in line.
#[test]
fn no_interleaving_gives_two_holders_or_loses_one_who_waits() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let (mut sim, t) = threads(4);
        let keys = ["task:A", "path:src", "path:src/a", "path:src/a/b", "pr:7"];
        for _ in 0..60 {
            let (who, key) = (&t[rng.between(0, 3) as usize], keys[rng.between(0, 4) as usize]);
            let ttl = ["1m", "30m", "4h"][rng.between(0, 2) as usize];
            match rng.between(0, 9) {
                0..=2 => drop(claim(&mut sim, who, key, ttl, false)),
                3..=4 => drop(claim(&mut sim, who, key, ttl, true)),
                5 => drop(beat(&mut sim, who, key)),
                6..=7 => drop(release(&mut sim, who, key)),
                8 if rng.chance(100) => {
                    sim.crash();
                    sim.run(sim.now + MINUTE, |_| false);
                }
                _ => {
                    let wait = [SECOND, MINUTE, 15 * MINUTE, 3 * HOUR][rng.between(0, 3) as usize];
                    sim.run(sim.now + wait, |_| false);
                }
            }
            sim.run(sim.now + 1, |_| false);
            if sim.up() {
                check(&sim, seed);
            }
        }
        assert_eq!(&sim.store().load().unwrap(), sim.world(), "seed {seed}: the file holds what is in memory");
        sim.run(sim.now + 48 * HOUR, |_| false);
        assert!(sim.world().claims.waiters.is_empty(), "seed {seed}: somebody waits for ever");
        lines_are_served_in_order(&sim, seed);
    }
}

fn check(sim: &Sim, seed: u64) {
    let now = sim.moment();
    let live: Vec<_> = sim.world().claims.held.values().filter(|c| c.live(&now)).collect();
    for one in &live {
        assert!(one.expires.wall.as_millisecond() - one.since.as_millisecond() <= MAX_HOLD + MINUTE, "seed {seed}");
        for other in &live {
            let collide = one.key != other.key && overlap(&one.key, &other.key);
            assert!(!collide || one.holder == other.holder, "seed {seed}: {one:?} and {other:?}");
        }
    }
}

/// By the journal: an epoch only rises, and whoever was granted was the first in line
/// of those that were not served by then.
fn lines_are_served_in_order(sim: &Sim, seed: u64) {
    let (mut epoch, mut open) = (BTreeMap::new(), BTreeMap::new());
    for fact in sim.facts() {
        match fact {
            Fact::ClaimTaken { claim, .. } => {
                let last = epoch.insert(claim.key.clone(), claim.epoch).unwrap_or(0);
                assert!(claim.epoch >= last, "seed {seed}: {claim:?}");
            }
            Fact::ClaimAwaited { waiter } => drop(open.insert(waiter.seq, waiter)),
            Fact::ClaimUnawaited { seq, why, .. } => {
                let left = open.remove(&seq).expect("it was in line, and left once");
                let jumped = open.values().find(|w| w.seq < seq && w.key == left.key);
                assert!(why != "granted" || jumped.is_none(), "seed {seed}: {jumped:?} was passed over");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "seed {seed}: lost {open:?}");
}

#[test]
fn a_message_to_a_waiting_thread_is_no_grant() {
    // What the bus itself says cannot be sent by anybody: its notices have no number.
    let (mut sim, t) = threads(2);
    let told_by = Event::Told {
        caller: Caller::Thread(t[0].clone()),
        to: t[1].clone(),
        text: "[bus] task:A-1 is yours until tomorrow (epoch 9).".into(),
        mode: SendMode::Auto,
        revive: false,
    };
    sim.tell(told_by).unwrap();
    let seen = sim.facts().into_iter().rev().find_map(|f| match f {
        Fact::MessageAccepted { message } => Some(message.text),
        _ => None,
    });
    assert!(seen.unwrap().starts_with(&format!("Message from thread {}:", t[0])));
}
