//! Messages between threads, and what is owed an answer.

use stewards_core::bus::{Draft, owed_rows};
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Event, Fact, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::threads::Permission;
use stewards_testkit::{MINUTE, Sim, Weather};

fn threads(n: usize) -> (Sim, Vec<ThreadId>) {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    sim.settings.turns_per_hour = 0;
    sim.settings.bus_per_minute = 5;
    sim.run(MINUTE, |_| false);
    sim.restart();
    let all = (0..n).map(|_| sim.plain(None, Permission::Full)).collect();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    (sim, all)
}

fn send(sim: &mut Sim, caller: Caller, draft: Draft) -> Result<Reply, Refusal> {
    sim.tell(Event::BusSent { caller, draft })
}

fn by(who: &ThreadId) -> Caller {
    Caller::Thread(who.clone())
}

fn question(to: &[&ThreadId]) -> Draft {
    let fields = vec![("ref".into(), "task:A-1".into()), ("ask".into(), "which one?".into())];
    Draft { kind: "question".into(), to: to.iter().map(|t| (*t).clone()).collect(), fields, ..Draft::default() }
}

fn ack(seq: &str, to: Option<&ThreadId>) -> Draft {
    let fields = vec![("ack_of".into(), seq.into()), ("answer".into(), "the first".into())];
    Draft { kind: "ack".into(), to: to.cloned().into_iter().collect(), fields, ..Draft::default() }
}

fn heard(sim: &Sim, who: &ThreadId, words: &str) -> usize {
    let of = |f: &Fact| matches!(f, Fact::MessageAccepted { message } if message.cause == "bus" && message.text.contains(words));
    sim.facts_of(who.as_str()).iter().filter(|f| of(f)).count()
}

#[test]
fn only_who_was_asked_answers_once_and_the_answer_goes_to_whoever_asked() {
    let (mut sim, t) = threads(3);
    let seq = send(&mut sim, by(&t[0]), question(&[&t[1]])).unwrap().ids["message"].clone();
    assert_eq!(owed_rows(sim.world()).len(), 1);
    for (who, draft, code) in [
        (by(&t[2]), ack(&seq, None), "not_yours"),
        (by(&t[0]), ack(&seq, None), "not_yours"),
        (Caller::Person, ack(&seq, None), "not_yours"),
        (by(&t[1]), ack(&seq, Some(&t[2])), "wrong_address"),
        (by(&t[1]), ack("999", None), "unknown_message"),
        (by(&t[1]), ack("0", None), "unknown_message"),
    ] {
        assert_eq!(send(&mut sim, who, draft).unwrap_err().code, code);
    }
    send(&mut sim, by(&t[1]), ack(&seq, None)).unwrap();
    assert_eq!(heard(&sim, &t[0], "the first"), 1);
    assert_eq!(send(&mut sim, by(&t[1]), ack(&seq, None)).unwrap_err().code, "not_owed");
    assert!(owed_rows(sim.world()).is_empty());
    // The owner's question is answered too; nobody is woken by that.
    let seq = send(&mut sim, Caller::Person, question(&[&t[1]])).unwrap().ids["message"].clone();
    send(&mut sim, by(&t[1]), ack(&seq, None)).unwrap();
    assert!(owed_rows(sim.world()).is_empty());
}

#[test]
fn a_question_is_taken_back_by_whoever_asked_and_closes_when_one_of_both_is_gone() {
    let (mut sim, t) = threads(3);
    let ask = |sim: &mut Sim, from: usize, to: usize| -> u64 {
        send(sim, by(&t[from]), question(&[&t[to]])).unwrap().ids["message"].parse().unwrap()
    };
    let seq = ask(&mut sim, 0, 1);
    let withdraw = |caller: Caller, message: u64| Event::Withdrawn { caller, message };
    assert_eq!(sim.tell(withdraw(by(&t[1]), seq)).unwrap_err().code, "not_yours");
    sim.tell(withdraw(by(&t[0]), seq)).unwrap();
    assert_eq!(heard(&sim, &t[1], "needs no answer any more"), 1);
    assert_eq!(sim.tell(withdraw(by(&t[0]), seq)).unwrap_err().code, "not_owed");
    ask(&mut sim, 0, 1);
    ask(&mut sim, 1, 2);
    sim.tell(Event::Archived { caller: Caller::Person, thread: t[1].clone(), yes: true }).unwrap();
    assert!(owed_rows(sim.world()).is_empty());
    assert_eq!(heard(&sim, &t[0], "gets no answer"), 1);
}

#[test]
fn what_is_sent_again_under_its_own_word_is_sent_once_to_each() {
    let (mut sim, t) = threads(3);
    let draft = |to: &[&ThreadId]| Draft { dedupe: Some("round 1".into()), ..question(to) };
    let first = send(&mut sim, by(&t[0]), draft(&[&t[1]])).unwrap();
    sim.crash();
    sim.run(sim.now + MINUTE, |_| false);
    let again = send(&mut sim, by(&t[0]), draft(&[&t[1], &t[2], &t[2]])).unwrap();
    assert!(again.says[0].contains("sent before as #1"), "{:?}", again.says);
    assert_eq!((heard(&sim, &t[1], "which one?"), heard(&sim, &t[2], "which one?")), (1, 1));
    assert_eq!(first.ids["message"], "1");
    // Another's word is another word.
    send(&mut sim, by(&t[2]), draft(&[&t[1]])).unwrap();
    assert_eq!(heard(&sim, &t[1], "which one?"), 2);
    let long = Draft { dedupe: Some("x".repeat(101)), ..question(&[&t[1]]) };
    assert_eq!(send(&mut sim, by(&t[0]), long).unwrap_err().code, "bad_dedupe");
}

#[test]
fn every_bad_address_is_named_and_nothing_is_sent() {
    let (mut sim, t) = threads(3);
    sim.tell(Event::Archived { caller: Caller::Person, thread: t[2].clone(), yes: true }).unwrap();
    let ghost = ThreadId("thr_999".into());
    let refusal = send(&mut sim, by(&t[0]), question(&[&t[1], &ghost, &t[2]])).unwrap_err();
    assert_eq!(refusal.code, "unknown_thread");
    for words in ["thr_999", &format!("{} is archived", t[2]), "nothing was sent"] {
        assert!(refusal.says.contains(words), "{refusal}");
    }
    assert_eq!(send(&mut sim, by(&t[0]), question(&[&t[2]])).unwrap_err().reason.as_deref(), Some("archived"));
    assert_eq!((heard(&sim, &t[1], "which one?"), sim.world().claims.given.message), (0, 0));
}

#[test]
fn two_threads_that_answer_each_other_without_end_are_slowed_down() {
    let (mut sim, t) = threads(2);
    for _ in 0..5 {
        send(&mut sim, by(&t[0]), question(&[&t[1]])).unwrap();
    }
    let refusal = send(&mut sim, by(&t[0]), question(&[&t[1]])).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.exit.code()), ("too_fast", 75));
    send(&mut sim, Caller::Person, question(&[&t[1]])).unwrap();
    send(&mut sim, by(&t[1]), question(&[&t[0]])).unwrap();
    sim.run(sim.now + MINUTE + 1, |_| false);
    send(&mut sim, by(&t[0]), question(&[&t[1]])).unwrap();
}
