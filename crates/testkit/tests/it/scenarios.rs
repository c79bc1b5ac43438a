//! One story each, in calm weather.

use stewards_core::machine::{Caller, Event, Fact};
use stewards_core::ports::Service;
use stewards_core::snapshot::{Author, COMMENTS, Comment, Inline};
use stewards_core::threads::{Role, SpawnAsk};
use stewards_core::tickets::{Known, TicketWrite};
use stewards_testkit::{MINUTE, SECOND, Sim, Weather};

/// A server in calm weather with one ticket.
fn calm() -> Sim {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.run(MINUTE, |_| false);
    sim.outside(|o| {
        o.ticket();
    });
    sim
}

#[test]
fn a_ticket_is_stewarded_to_done_in_six_turns() {
    let mut sim = calm();
    sim.run(10 * MINUTE, Sim::all_done);
    assert_eq!(sim.left_over(), Vec::<String>::new());
    assert_eq!(sim.unsafe_things(), Vec::<String>::new());
    let mut turns: Vec<(Role, u64)> = sim.world().threads.values().map(|t| (t.role, t.turns)).collect();
    turns.sort();
    let expected = [(Role::ProjectSteward, 0), (Role::Steward, 3), (Role::Worker, 2), (Role::Reviewer, 1)];
    assert_eq!(turns, expected);
}

#[test]
fn an_hour_after_the_end_has_cost_no_turn() {
    let mut sim = calm();
    sim.run(10 * MINUTE, Sim::all_done);
    let turns = sim.turns();
    sim.weather.sweep = MINUTE;
    sim.run(sim.now + 60 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns);
}

#[test]
fn without_a_press_the_item_waits_and_no_turn_is_spent() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let open: Vec<_> = sim.world().needs.values().filter(|n| n.closed.is_none()).map(|n| n.kind.word()).collect();
    assert_eq!(open, ["merge"]);
    let turns = sim.turns();
    sim.run(120 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns);
}

#[test]
fn a_strangers_comment_wakes_and_our_own_does_not() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let turns = sim.turns();
    let uuid = sim.outside.tickets.keys().next().unwrap().clone();
    let ann = stewards_core::snapshot::Author { login: "ann".into(), name: "Ann".into(), bot: false, me: false };
    let signed = stewards_core::stewards::sign("On it.", "thr_1", None);
    sim.outside(|o| o.comment_on_ticket(&uuid, ann.clone(), &signed));
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns);
    sim.outside(|o| o.comment_on_ticket(&uuid, ann, "What about the footer?"));
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns + 1);
}

#[test]
fn a_question_on_a_line_wakes_once() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let turns = sim.turns();
    let bob = Author { login: "bob".into(), name: "Bob".into(), bot: false, me: false };
    sim.outside(|o| {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let comment = Comment { id: "c1".into(), author: bob, body: "Why this?".into(), at, edited: None };
        let pull = o.pulls.values_mut().next().unwrap();
        pull.inline.push(Inline { comment, path: "a.txt".into(), line: Some(3), commit: pull.head_sha.clone() });
    });
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns + 1);
    let said = |f: &Fact| matches!(f, Fact::Learned { news } if news.iter().any(|n| n.line.contains("at a.txt:3")));
    assert!(sim.facts().iter().any(said));
}

#[test]
fn comments_that_may_not_be_read_for_a_while_are_no_news_twice_and_none_is_lost() {
    let mut sim = calm();
    sim.person_acts = false;
    let ann = Author { login: "ann".into(), name: "Ann".into(), bot: false, me: false };
    let uuid = sim.outside.tickets.keys().next().unwrap().clone();
    sim.outside(|o| o.comment_on_ticket(&uuid, ann.clone(), "First."));
    sim.run(5 * MINUTE, |_| false);
    let turns = sim.turns();
    let all = sim.outside.tickets[&uuid].comments.clone();
    sim.outside(|o| {
        let ticket = o.tickets.get_mut(&uuid).unwrap();
        ticket.comments.clear();
        ticket.unread = vec![COMMENTS.into()];
    });
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns);
    sim.outside(|o| {
        let ticket = o.tickets.get_mut(&uuid).unwrap();
        ticket.unread.clear();
        ticket.comments = all;
    });
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns, "what was known before is no news");
    sim.outside(|o| o.comment_on_ticket(&uuid, ann, "Second."));
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns + 1);
}

#[test]
fn a_state_that_its_own_steward_sets_is_a_note_and_anothers_wakes() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let turns = sim.turns();
    let uuid = sim.outside.tickets.keys().next().unwrap().clone();
    let steward = sim.world().threads.values().find(|t| t.role == Role::Steward).unwrap().id.clone();
    let known = |name: &str| Known { id: uuid.clone(), name: name.to_owned() };
    let write = TicketWrite::Update {
        ticket: known("DEMO-1"),
        state: Some(known("Backlog")),
        assignee: None,
        add: Vec::new(),
        remove: Vec::new(),
        priority: None,
    };
    sim.tell(Event::TicketWriteAsked { caller: Caller::Thread(steward), write: Box::new(write) }).unwrap();
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!((sim.turns(), sim.outside.tickets[&uuid].state.name.as_str()), (turns, "Backlog"));
    sim.outside(|o| o.set_state(&uuid, "Todo", "unstarted"));
    sim.run(sim.now + 2 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns + 1);
}

#[test]
fn with_no_webhook_at_all_polls_bring_a_ticket_to_done() {
    let mut sim = Sim::new(1, Weather { sweep: MINUTE, rings_lost: 1_000, ..Weather::calm() }, None);
    sim.outside(|o| {
        o.ticket();
    });
    sim.run(60 * MINUTE, Sim::all_done);
    assert!(sim.all_done());
    assert!(sim.turns() <= 8, "{} turns", sim.turns());
    assert!(sim.facts().iter().all(|f| !matches!(f, Fact::DeliveryTaken { .. })));
}

#[test]
fn webhooks_make_polls_rare_until_one_is_missed() {
    let mut sim = Sim::new(1, Weather { poll: 30 * SECOND, ..Weather::calm() }, None);
    sim.person_acts = false;
    sim.outside(|o| {
        o.ticket();
    });
    sim.run(10 * MINUTE, |_| false);
    let polls = |sim: &Sim| sim.facts().iter().filter(|f| matches!(f, Fact::PollBegan { .. })).count();
    let before = polls(&sim);
    assert!(sim.world().host.polls.values().all(stewards_core::stewards::Poll::hears));
    // A day's sweep ends the quiet, and finds what was lost.
    sim.weather.rings_lost = 1_000;
    let uuid = sim.outside.tickets.keys().next().unwrap().clone();
    let ann = Author { login: "ann".into(), name: "Ann".into(), bot: false, me: false };
    sim.outside(|o| o.comment_on_ticket(&uuid, ann, "Anybody?"));
    let turns = sim.turns();
    sim.run(sim.now + 25 * 60 * MINUTE, |s| s.turns() > turns);
    assert!(sim.turns() > turns && polls(&sim) - before <= 4, "{} polls", polls(&sim) - before);
    assert!(!sim.world().host.polls[&Service::Linear].hears());
    sim.run(sim.now + 10 * MINUTE, |_| false);
    assert!(polls(&sim) - before > 10, "{} polls", polls(&sim) - before);
}

#[test]
fn a_removed_label_stops_the_workers_and_ends_with_one_stop_turn() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let turns = sim.turns();
    sim.outside(|o| o.tickets.values_mut().for_each(|t| t.labels.clear()));
    sim.run(sim.now + 3 * MINUTE, Sim::all_done);
    assert!(sim.all_done());
    assert_eq!(sim.turns(), turns + 1);
    assert!(sim.facts().iter().any(|f| matches!(f, Fact::Ended { reason } if reason.words() == "label removed")));
}

#[test]
fn a_broken_playbook_is_said_and_the_last_good_one_counts() {
    let mut sim = calm();
    sim.run(2 * MINUTE, |_| false);
    let good = sim.world().projects.values().next().unwrap().config.clone();
    sim.outside(|o| {
        o.bb.insert("stewards/playbooks/linear-tickets.md".into(), "---\nname: [\n---\n".into());
        o.bb_commit += 1;
    });
    sim.weather.sweep = MINUTE;
    sim.crash();
    sim.run(sim.now + 5 * MINUTE, |_| false);
    let config = &sim.world().projects.values().next().unwrap().config;
    assert_eq!(config.ticket_playbook(), good.ticket_playbook());
    assert!(config.problems.iter().any(|p| p.line > 0 && p.fatal), "{:?}", config.problems);
}

#[test]
fn a_report_with_an_unknown_item_is_refused_whole_and_lists_the_numbers() {
    let mut sim = calm();
    sim.run(2 * MINUTE, |s| s.world().threads.values().any(|t| t.role == Role::Steward));
    let steward = sim.world().threads.values().find(|t| t.role == Role::Steward).unwrap().id.clone();
    let text = r#"{"summary":"s","nextAction":"n","actor":"steward","ready":[1,7]}"#;
    let report = serde_json::from_str(text).unwrap();
    let refusal = sim.tell(Event::Reported { caller: Caller::Thread(steward), report }).unwrap_err();
    assert_eq!(refusal.code, "unknown_item");
    assert!(refusal.hint.contains("1. ") && refusal.hint.contains("2. "), "{}", refusal.hint);
    assert!(sim.world().bindings.values().all(|b| b.report.is_none() && b.ready.is_empty()));
}

#[test]
fn a_reviewer_starts_no_thread_and_a_worker_needs_leave() {
    let mut sim = calm();
    sim.person_acts = false;
    sim.run(5 * MINUTE, |_| false);
    let of = |sim: &Sim, role| sim.world().threads.values().find(|t| t.role == role).unwrap().id.clone();
    let spawn =
        |caller, role| Event::Spawned { caller: Caller::Thread(caller), ask: Box::new(SpawnAsk::of(role, "t", "p")) };
    let (reviewer, steward) = (of(&sim, Role::Reviewer), of(&sim, Role::Steward));
    assert_eq!(sim.tell(spawn(reviewer, Role::Reviewer)).unwrap_err().reason.as_deref(), Some("too_deep"));
    assert_eq!(sim.tell(spawn(steward, Role::Reviewer)).unwrap_err().code, "wrong_parent");
}
