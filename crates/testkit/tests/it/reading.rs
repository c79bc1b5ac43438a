//! How far a message has come: what its sender is told, what a thread reads before it is
//! delivered, and what is delivered again.

use stewards_core::bus::{ClaimAsk, Draft, owed_rows};
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Event, How, Receipt, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::threads::{Permission, SendMode, Status};
use stewards_testkit::{MINUTE, SECOND, Sim, Weather};

fn threads(n: usize, weather: Weather) -> (Sim, Vec<ThreadId>) {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    sim.settings.bus_per_minute = 0;
    sim.run(MINUTE, |_| false);
    sim.restart();
    let all = (0..n).map(|_| sim.plain(None, Permission::Ask)).collect();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    sim.weather = weather;
    (sim, all)
}

fn by(who: &ThreadId) -> Caller {
    Caller::Thread(who.clone())
}

fn draft(kind: &str, to: &ThreadId) -> Draft {
    let value = |name: &&str| ((*name).to_owned(), if *name == "ref" { "pr:7".to_owned() } else { "x".to_owned() });
    let fields = stewards_core::bus::kind(kind).unwrap().fields.iter().map(value).collect();
    Draft { kind: kind.into(), to: vec![to.clone()], fields, ..Draft::default() }
}

fn send(sim: &mut Sim, from: &ThreadId, kind: &str, to: &ThreadId) -> Receipt {
    let reply = sim.tell(Event::BusSent { caller: by(from), draft: draft(kind, to) }).unwrap();
    let [receipt] = reply.receipts.as_slice() else { panic!("one receipt: {reply:?}") };
    receipt.clone()
}

fn at_work(sim: &mut Sim, who: &ThreadId) {
    let begin = Event::Told {
        caller: Caller::Person,
        to: who.clone(),
        text: "work".into(),
        mode: SendMode::Auto,
        revive: false,
    };
    sim.tell(begin).unwrap();
    sim.run(sim.now + MINUTE, |s| status(s, who) == Status::Active);
    assert_eq!(status(sim, who), Status::Active);
}

fn status(sim: &Sim, who: &ThreadId) -> Status {
    sim.world().threads.get(who).unwrap().status
}

/// The state of a message's receipt.
fn state(sim: &Sim, seq: Option<u64>) -> String {
    let all = ["queued", "handed", "consumed", "dropped", "unknown", "failed"];
    let statement = "SELECT count(*) FROM messages WHERE bus = ?1 AND state = ?2";
    let is = |state: &&&str| sim.count(statement, &[&seq.unwrap_or(0).to_string(), state]) == 1;
    all.iter().find(is).map_or("gone", |s| s).to_owned()
}

fn read(sim: &mut Sim, who: Caller, messages: &[Option<u64>]) -> Result<Reply, Refusal> {
    sim.tell(Event::BusRead { caller: who, messages: messages.iter().flatten().copied().collect() })
}

fn retry(sim: &mut Sim, who: Caller, seq: u64) -> String {
    sim.tell(Event::BusRetried { caller: who, message: seq }).err().map_or_else(|| "done".into(), |r| r.code)
}

#[test]
fn a_receipt_says_how_far_a_message_has_come_and_what_it_waits_for() {
    let (mut sim, t) = threads(3, Weather { asks: 1_000, ..Weather::calm() });
    sim.weather.asks = 0;
    let begins = send(&mut sim, &t[0], "question", &t[1]);
    assert_eq!((begins.how, &begins.waits_for), (How::BeginsTurn, &None));
    sim.run(sim.now + MINUTE, |s| status(s, &t[1]) == Status::Active);
    assert_eq!(send(&mut sim, &t[0], "question", &t[1]).how, How::IntoTurn);
    let queued = send(&mut sim, &t[0], "done", &t[1]);
    assert_eq!((queued.how, queued.waits_for.as_deref()), (How::Queued, Some("the end of its turn")));
    // One that interrupts and cannot is deferred, by name.
    sim.weather.asks = 1_000;
    at_work(&mut sim, &t[2]);
    sim.run(sim.now + MINUTE, |s| !s.world().threads.get(&t[2]).unwrap().asks.is_empty());
    let deferred = send(&mut sim, &t[0], "question", &t[2]);
    assert_eq!(deferred.how, How::Deferred);
    assert!(deferred.waits_for.unwrap().contains("the person's answer"));
    let log =
        Draft { fields: vec![("ack_of".into(), "4".into()), ("answer".into(), "x".into())], ..draft("ack", &t[0]) };
    sim.tell(Event::BusSent { caller: by(&t[2]), draft: log }).unwrap();
    // An answer to the owner stands in the log; what was sent before is not sent.
    let asked = Draft { dedupe: Some("w".into()), ..draft("question", &t[1]) };
    let first = sim.tell(Event::BusSent { caller: Caller::Person, draft: asked.clone() }).unwrap().receipts.remove(0);
    let again = sim.tell(Event::BusSent { caller: Caller::Person, draft: asked }).unwrap().receipts.remove(0);
    assert_eq!((again.how, again.bus), (How::SentBefore, first.bus));
    let fields = vec![("ack_of".into(), first.bus.unwrap().to_string()), ("answer".into(), "x".into())];
    let answer = Draft { kind: "ack".into(), fields, ..Draft::default() };
    let answer = sim.tell(Event::BusSent { caller: by(&t[1]), draft: answer }).unwrap().receipts.remove(0);
    assert_eq!((answer.how, answer.message), (How::Logged, None));
}

#[test]
fn what_a_thread_reads_in_its_live_turn_is_consumed_by_that_and_delivered_no_more() {
    let (mut sim, t) = threads(3, Weather::calm());
    at_work(&mut sim, &t[1]);
    let first = send(&mut sim, &t[0], "done", &t[1]);
    let second = send(&mut sim, &t[0], "finding", &t[1]);
    assert_eq!(read(&mut sim, Caller::Person, &[first.bus]).unwrap_err().code, "not_a_thread");
    read(&mut sim, by(&t[0]), &[first.bus]).unwrap();
    assert_eq!(state(&sim, first.bus), "queued", "another's reading marks nothing");
    read(&mut sim, by(&t[1]), &[first.bus, Some(99)]).unwrap();
    assert_eq!((state(&sim, first.bus), state(&sim, second.bus)), ("consumed".into(), "queued".into()));
    let turn = sim.world().threads.get(&t[1]).unwrap().turn.clone().unwrap();
    assert!(turn.messages.iter().any(|m| m.bus == first.bus), "a cut turn's reminder knows it");
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    assert_eq!(state(&sim, second.bus), "consumed");
    let heard: Vec<u64> = sim.bus_heard().into_iter().map(|(seq, ..)| seq).collect();
    assert_eq!(heard, [second.bus.unwrap()]);
    // Without a live turn nothing is marked: what waits begins one.
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    let third = send(&mut sim, &t[0], "done", &t[1]);
    read(&mut sim, by(&t[1]), &[third.bus]).unwrap();
    assert_eq!(state(&sim, third.bus), "queued");
}

#[test]
fn what_was_answered_or_taken_back_before_it_was_delivered_wakes_nobody() {
    let (mut sim, t) = threads(3, Weather::calm());
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    let asked = send(&mut sim, &t[0], "question", &t[1]);
    let moot = send(&mut sim, &t[0], "help", &t[2]);
    let fields = vec![("ack_of".into(), asked.bus.unwrap().to_string()), ("answer".into(), "x".into())];
    let answer = Draft { kind: "ack".into(), fields, ..Draft::default() };
    sim.tell(Event::BusSent { caller: by(&t[1]), draft: answer }).unwrap();
    sim.tell(Event::Withdrawn { caller: by(&t[0]), message: moot.bus.unwrap() }).unwrap();
    assert_eq!((state(&sim, asked.bus), state(&sim, moot.bus)), ("consumed".into(), "dropped".into()));
    assert!(owed_rows(sim.world()).is_empty());
    let turns = |s: &Sim| [1, 2].map(|n| s.world().threads.get(&t[n]).unwrap().turns);
    let before = turns(&sim);
    sim.tell(Event::AllStopped { caller: Caller::Person, on: false }).unwrap();
    sim.run(sim.now + 5 * MINUTE, |_| false);
    assert_eq!(turns(&sim), before);
    assert_eq!(retry(&mut sim, by(&t[0]), moot.bus.unwrap()), "taken_back");
}

#[test]
fn what_failed_is_delivered_again_by_its_number_to_its_addressee_alone() {
    let (mut sim, t) = threads(3, Weather::calm());
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    let said = send(&mut sim, &t[0], "done", &t[1]).bus.unwrap();
    let asked = send(&mut sim, &t[0], "question", &t[1]).bus.unwrap();
    assert_eq!(retry(&mut sim, by(&t[0]), said), "still_waits");
    sim.tell(Event::Archived { caller: Caller::Person, thread: t[1].clone(), yes: true }).unwrap();
    assert_eq!(state(&sim, Some(said)), "failed");
    assert_eq!(retry(&mut sim, by(&t[0]), said), "thread_not_writable");
    sim.tell(Event::Unarchived { caller: Caller::Person, thread: t[1].clone() }).unwrap();
    for (who, seq, code) in [
        (by(&t[2]), said, "not_yours"),
        (by(&t[0]), 99, "unknown_message"),
        (by(&t[0]), asked, "not_owed"),
        (by(&t[0]), said, "done"),
        (Caller::Person, said, "still_waits"),
    ] {
        assert_eq!(retry(&mut sim, who, seq), code, "#{seq}");
    }
    sim.tell(Event::AllStopped { caller: Caller::Person, on: false }).unwrap();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    assert_eq!(state(&sim, Some(said)), "consumed");
    assert_eq!(retry(&mut sim, by(&t[0]), said), "delivered");
    assert_eq!(sim.bus_heard().into_iter().filter(|(seq, ..)| *seq == said).count(), 1);
}

#[test]
fn a_thread_that_takes_nothing_in_has_so_many_messages_waiting_and_no_more() {
    let (mut sim, t) = threads(2, Weather::calm());
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    for _ in 0..1_000 {
        send(&mut sim, &t[0], "done", &t[1]);
    }
    let refusal = sim.tell(Event::BusSent { caller: by(&t[0]), draft: draft("done", &t[1]) }).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.exit.code()), ("queue_full", 75));
    assert_eq!(sim.world().claims.given.message, 1_000, "what was refused has no number");
}

/// A conversation with everything in it: each step is done again under its own word
/// where the daemon was gone, as a client does.
fn conversation(sim: &mut Sim, t: &[ThreadId]) {
    let claim = |who: &ThreadId, wait| {
        let ask = ClaimAsk { wait, ..ClaimAsk::of("path:src", "work") };
        Event::Claimed { caller: by(who), ask }
    };
    let word = |kind: &str, to: &ThreadId, word: &str| Draft { dedupe: Some(word.into()), ..draft(kind, to) };
    let asked = word("question", &t[1], "a");
    let fields = vec![("ack_of".into(), "1".into()), ("answer".into(), "x".into())];
    let answer = Draft { kind: "ack".into(), fields, dedupe: Some("b".into()), ..Draft::default() };
    let release = Event::Released { caller: by(&t[0]), resource: "path:src".into(), force: None };
    for event in [
        claim(&t[0], false),
        Event::BusSent { caller: by(&t[0]), draft: asked },
        claim(&t[1], true),
        Event::BusSent { caller: by(&t[1]), draft: answer },
        Event::Heartbeat { caller: by(&t[0]), resource: "path:src".into() },
        release,
        claim(&t[1], false),
        Event::BusSent { caller: by(&t[1]), draft: word("done", &t[0], "c") },
    ] {
        sim.run(sim.now + SECOND, |_| false);
        loop {
            let told = sim.tell(event.clone());
            if sim.up() {
                let fine = |r: &Refusal| ["waiting", "contended", "not_yours", "not_held"].contains(&r.code.as_str());
                assert!(told.as_ref().err().is_none_or(fine), "{told:?}");
                break;
            }
            // It died before the answer was out.
            while !sim.up() {
                sim.run(sim.now + MINUTE, |_| true);
            }
        }
    }
    sim.run(sim.now + 10 * MINUTE, Sim::host_rests);
}

#[test]
fn a_death_between_any_two_steps_of_a_conversation_loses_and_doubles_nothing() {
    let steps = |sim: &Sim| sim.steps;
    let (mut calm, t) = threads(2, Weather::calm());
    let first = steps(&calm);
    conversation(&mut calm, &t);
    let last = steps(&calm);
    assert!(last > first + 20, "{first} to {last}");
    for at in first + 1..=last {
        let (mut sim, t) = threads(2, Weather::calm());
        sim.crash_at = Some(at);
        conversation(&mut sim, &t);
        assert_eq!(sim.host_faults(), Vec::<String>::new(), "killed after step {at}");
        assert!(sim.host_rests() && owed_rows(sim.world()).is_empty(), "killed after step {at}");
        assert_eq!(sim.world().claims.given.message, 3, "killed after step {at}");
        assert_eq!(sim.count("SELECT count(*) FROM bus", &[]), 3, "killed after step {at}");
        let held: Vec<_> = sim.world().claims.held.values().collect();
        assert!(held.len() == 1 && held[0].holder.as_ref() == Some(&t[1]) && !held[0].granted, "after step {at}");
        assert!(sim.world().claims.waiters.is_empty(), "killed after step {at}");
    }
}
