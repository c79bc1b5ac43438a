//! Threads alone: how they are written to, what keeps them from a turn, and what
//! ends with what.

use stewards_core::ids::{AskId, ThreadId};
use stewards_core::machine::{Caller, Event, Fact};
use stewards_core::threads::{
    EnvironmentState, Permission, Role, SendMode, SpawnAsk, Status, Thread, Update, thread_row, turn_job,
};
use stewards_testkit::{GIGABYTE, MINUTE, SECOND, Sim, Weather};

const MODES: [SendMode; 5] =
    [SendMode::Start, SendMode::Auto, SendMode::Steer, SendMode::SteerIfActive, SendMode::QueueIfActive];

fn calm() -> Sim {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    sim.run(MINUTE, |_| false);
    sim
}

fn row<'a>(sim: &'a Sim, id: &ThreadId) -> &'a Thread {
    sim.world().threads.get(id).unwrap()
}

fn tell(to: &ThreadId, mode: SendMode) -> Event {
    Event::Told { caller: Caller::Person, to: to.clone(), text: "hello".into(), mode, revive: false }
}

/// A plain thread that stands as named.
fn standing(state: &str) -> (Sim, ThreadId) {
    let mut sim = calm();
    let caller = Caller::Person;
    let permission = if state == "asking" { Permission::Ask } else { Permission::Full };
    let id = sim.plain(None, permission);
    let status = |s: &Sim, want| row(s, &id).status == want;
    match state {
        "starting" => sim.run(sim.now + MINUTE, |s| status(s, Status::Starting)),
        "active" => sim.run(sim.now + MINUTE, |s| status(s, Status::Active)),
        "stopping" => {
            sim.run(sim.now + MINUTE, |s| status(s, Status::Active));
            sim.tell(Event::Stopped { caller, thread: id.clone() }).unwrap();
        }
        "error" => {
            sim.weather.turns_fail = 1_000;
            sim.run(sim.now + 10 * MINUTE, |s| row(s, &id).failures >= 3);
        }
        "asking" => {
            sim.weather.asks = 1_000;
            sim.run(sim.now + MINUTE, |s| !row(s, &id).asks.is_empty());
        }
        _ => {
            sim.run(sim.now + 2 * MINUTE, |s| status(s, Status::Idle) && row(s, &id).turns > 0);
            match state {
                "archived" => drop(sim.tell(Event::Archived { caller, thread: id.clone(), yes: true }).unwrap()),
                "deleted" => drop(sim.tell(Event::Deleted { caller, thread: id.clone(), yes: true }).unwrap()),
                _ => {}
            }
        }
    }
    (sim, id)
}

/// What becomes of a message: `turn` begins one, `steers` goes into the live one,
/// `waits`, or the refusal's code and reason.
fn becomes(state: &str, mode: SendMode) -> String {
    let (mut sim, id) = standing(state);
    let turns = row(&sim, &id).turn.as_ref().map(|t| t.id.clone());
    match sim.tell(tell(&id, mode)) {
        Err(refusal) => format!("{} {}", refusal.code, refusal.reason.unwrap_or_default()).trim().to_owned(),
        Ok(_) => {
            let thread = row(&sim, &id);
            let begun = thread.turn.as_ref().map(|t| t.id.clone()) != turns;
            match () {
                () if begun => "turn".into(),
                () if !thread.steering.is_empty() => "steers".into(),
                () if !thread.queue.is_empty() => "waits".into(),
                () => "lost".into(),
            }
        }
    }
}

#[test]
fn every_mode_is_defined_on_every_state_of_a_thread() {
    let no = |reason: &str| format!("thread_not_writable {reason}");
    let table: [(&str, [String; 5]); 8] = [
        ("idle", ["turn", "turn", "turn", "turn", "turn"].map(str::to_owned)),
        ("active", [no("already_active"), "steers".into(), "steers".into(), "steers".into(), "waits".into()]),
        ("starting", [no("still_starting"), "waits".into(), "waits".into(), "waits".into(), "waits".into()]),
        ("error", ["turn".into(), "turn".into(), no("errored"), "turn".into(), "turn".into()]),
        ("asking", [no("already_active"), "waits".into(), "waits".into(), "waits".into(), "waits".into()]),
        ("stopping", [no("stopping"), "waits".into(), "waits".into(), "waits".into(), "waits".into()]),
        ("archived", [(); 5].map(|()| no("archived"))),
        ("deleted", [(); 5].map(|()| no("deleted"))),
    ];
    for (state, expected) in table {
        for (mode, expected) in MODES.into_iter().zip(expected) {
            assert_eq!(becomes(state, mode), expected, "{mode:?} on {state}");
        }
    }
}

#[test]
fn a_thread_that_is_not_there_is_unknown_and_a_wrong_provider_is_said() {
    let mut sim = calm();
    assert_eq!(sim.tell(tell(&ThreadId("thr_0".into()), SendMode::Auto)).unwrap_err().code, "unknown_thread");
    sim.settings.providers = vec!["claude-code".into()];
    sim.restart();
    let before = sim.world().threads.len();
    let mut ask = SpawnAsk::of(Role::Plain, "t", "p");
    ask.project = Some(sim.project());
    ask.model = Some("nobody/x".into());
    let refusal = sim.tell(Event::Spawned { caller: Caller::Person, ask: Box::new(ask) }).unwrap_err();
    assert_eq!((refusal.code.as_str(), refusal.exit.code()), ("provider_unavailable", 69));
    assert_eq!(sim.world().threads.len(), before, "nothing is left of it");
}

#[test]
fn what_is_steered_is_consumed_by_the_live_turn_and_takes_along_what_the_sender_had_queued() {
    let (mut sim, id) = standing("active");
    let turn = row(&sim, &id).turn.as_ref().unwrap().id.clone();
    sim.tell(tell(&id, SendMode::QueueIfActive)).unwrap();
    assert_eq!(row(&sim, &id).queue.len(), 1);
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    assert_eq!((row(&sim, &id).queue.len(), row(&sim, &id).steering.len()), (0, 2));
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    let steered = sim
        .facts()
        .iter()
        .any(|f| matches!(f, Fact::Steered { turn: t, messages } if *t == turn && messages.len() == 2));
    assert!(steered && sim.receipts().iter().all(|(_, state)| state == "consumed"));
    assert_eq!(row(&sim, &id).turns, 1);
}

#[test]
fn what_the_agent_does_not_take_waits_for_the_turns_end_and_nothing_is_cut_short() {
    let (mut sim, id) = standing("active");
    sim.weather.steers_refused = 1_000;
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 3 * MINUTE, Sim::host_rests);
    assert_eq!(row(&sim, &id).turns, 2);
    assert_eq!(sim.host_faults(), Vec::<String>::new());
}

#[test]
fn a_message_on_its_way_into_a_turn_when_the_daemon_dies_is_unknown_and_not_sent_again() {
    let (mut sim, id) = standing("active");
    let reply = sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.crash();
    sim.run(sim.now + 10 * MINUTE, Sim::host_rests);
    let state = sim.receipts().into_iter().find(|(m, _)| *m.as_str() == reply.ids["message"]).unwrap().1;
    assert_eq!(state, "unknown");
    assert_eq!(sim.host_faults(), Vec::<String>::new());
}

#[test]
fn a_question_survives_a_restart_holds_messages_back_and_its_answer_is_used_when_it_is_asked_again() {
    let (mut sim, id) = standing("asking");
    let ask = row(&sim, &id).asks[0].id.clone();
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 60 * MINUTE, |_| false);
    assert_eq!(row(&sim, &id).asks.len(), 1, "no time is a no");
    sim.crash();
    sim.run(sim.now + 5 * MINUTE, |_| false);
    assert!(row(&sim, &id).asks[0].orphan && row(&sim, &id).turn.is_none() && !row(&sim, &id).queue.is_empty());
    let answer = |ask: &AskId, choice: &str| Event::AskAnswered {
        caller: Caller::Person,
        ask: ask.clone(),
        choice: choice.into(),
    };
    let refusal = sim.tell(answer(&ask, "perhaps")).unwrap_err();
    assert!(refusal.code == "bad_choice" && refusal.hint.contains("1 allow"), "{}", refusal.hint);
    sim.tell(answer(&ask, "1")).unwrap();
    assert!(row(&sim, &id).turn.is_some(), "what was held back goes on");
    // The agent asks for the same once more and is not kept waiting.
    sim.weather.asks = 1_000;
    sim.run(sim.now + 10 * SECOND, |s| s.facts().iter().any(|f| matches!(f, Fact::AskPassed { .. })));
    assert!(row(&sim, &id).asks.is_empty());
    let late = sim.tell(answer(&ask, "deny")).unwrap_err();
    assert!(late.code == "settled" && late.says.contains("answered: allow"), "{}", late.says);
}

#[test]
fn a_full_thread_is_never_kept_waiting_and_a_thread_answers_nothing_for_the_person() {
    let mut sim = calm();
    let id = sim.plain(None, Permission::Full);
    sim.weather.asks = 700;
    sim.run(sim.now + 10 * MINUTE, Sim::host_rests);
    assert!(row(&sim, &id).turns > 0 && sim.facts().iter().any(|f| matches!(f, Fact::AskPassed { .. })));
    let (mut sim, id) = standing("asking");
    let ask = row(&sim, &id).asks[0].id.clone();
    let refusal = sim.tell(Event::AskAnswered { caller: Caller::Thread(id), ask, choice: "1".into() }).unwrap_err();
    assert_eq!(refusal.code, "person_only");
}

#[test]
fn a_thread_has_its_turns_of_an_hour_and_the_person_may_let_it_go_on() {
    let mut sim = calm();
    sim.settings.turns_per_hour = 3;
    sim.restart();
    let id = sim.plain(None, Permission::Full);
    let from = Caller::Thread(sim.plain(None, Permission::Full));
    for _ in 0..6 {
        let told = Event::Told {
            caller: from.clone(),
            to: id.clone(),
            text: "x".into(),
            mode: SendMode::QueueIfActive,
            revive: false,
        };
        sim.tell(told).unwrap();
        sim.run(sim.now + 2 * MINUTE, |_| false);
    }
    assert_eq!(row(&sim, &id).turns, 3);
    let need = sim.world().needs.values().find(|n| n.closed.is_none()).unwrap().clone();
    assert_eq!(need.kind.word(), "capped");
    // The hour passes: it goes on by itself and the item is gone.
    sim.run(sim.now + 61 * MINUTE, |s| row(s, &id).turns == 4);
    assert_eq!(row(&sim, &id).turns, 4);
    assert!(sim.world().needs.values().all(|n| n.closed.is_some()));
}

#[test]
fn a_providers_limit_parks_all_its_threads_until_it_is_over_and_counts_as_no_failure() {
    let mut sim = calm();
    sim.weather.limits = 1_000;
    let one = sim.plain(None, Permission::Full);
    sim.run(sim.now + MINUTE, |s| !s.world().host.limits.is_empty());
    sim.weather.limits = 0;
    let other = sim.plain(None, Permission::Full);
    sim.run(sim.now + 18 * MINUTE, |_| false);
    assert_eq!((row(&sim, &one).turns, row(&sim, &other).turns), (1, 0), "twenty minutes, it said");
    assert_eq!(row(&sim, &one).failures, 0);
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    assert_eq!((row(&sim, &one).turns, row(&sim, &other).turns), (2, 1));
}

#[test]
fn no_more_turns_are_live_than_may_be_and_all_get_theirs() {
    let mut sim = calm();
    sim.settings.max_live = 2;
    sim.restart();
    let all: Vec<ThreadId> = (0..6).map(|_| sim.plain(None, Permission::Full)).collect();
    let mut most = 0;
    sim.run(sim.now + 10 * MINUTE, |s| {
        most = most.max(s.world().threads.values().filter(|t| t.turn.is_some()).count());
        s.host_rests()
    });
    assert_eq!(most, 2);
    assert!(all.iter().all(|id| row(&sim, id).turns == 1));
}

#[test]
fn stopped_is_stopped_over_a_restart_until_the_owner_resumes() {
    let (mut sim, id) = standing("active");
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    sim.run(sim.now + 10 * SECOND, |s| row(s, &id).turn.is_none());
    sim.crash();
    sim.run(sim.now + 10 * MINUTE, |_| false);
    let turns = sim.turns();
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 10 * MINUTE, |_| false);
    assert_eq!(sim.turns(), turns);
    sim.tell(Event::AllStopped { caller: Caller::Person, on: false }).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!(sim.turns(), turns + 1);
    assert_eq!(sim.host_faults(), Vec::<String>::new());
}

#[test]
fn what_a_cut_turn_was_about_comes_before_what_was_said_since() {
    let (mut sim, id) = standing("active");
    sim.tell(tell(&id, SendMode::QueueIfActive)).unwrap();
    sim.crash();
    sim.run(sim.now + 2 * MINUTE, |s| s.up() && row(s, &id).turn.is_some());
    let told: Vec<&str> = row(&sim, &id).turn.as_ref().unwrap().messages.iter().map(|m| m.cause.as_str()).collect();
    assert_eq!(told, ["resume", "message"]);
}

#[test]
fn what_waits_when_a_thread_is_stopped_by_hand_waits_for_the_next_message() {
    let (mut sim, id) = standing("active");
    sim.tell(tell(&id, SendMode::QueueIfActive)).unwrap();
    sim.tell(Event::Stopped { caller: Caller::Person, thread: id.clone() }).unwrap();
    sim.run(sim.now + 10 * MINUTE, |_| false);
    assert_eq!((row(&sim, &id).turns, row(&sim, &id).queue.len()), (1, 1));
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    assert_eq!(row(&sim, &id).turn.as_ref().unwrap().messages.len(), 2);
}

#[test]
fn a_thread_that_was_stopped_stays_stopped_when_the_daemon_dies_before_its_end() {
    for all in [false, true] {
        let (mut sim, id) = standing("active");
        let caller = Caller::Person;
        let stop = match all {
            true => Event::AllStopped { caller, on: true },
            false => Event::Stopped { caller, thread: id.clone() },
        };
        sim.tell(stop).unwrap();
        sim.crash();
        sim.run(sim.now + 10 * MINUTE, |_| false);
        assert_eq!((row(&sim, &id).turns, row(&sim, &id).status), (1, Status::Idle));
        let told = |sim: &Sim, words: &str| {
            let says = |f: &Fact| matches!(f, Fact::MessageAccepted { message } if message.text.contains(words));
            sim.facts().iter().any(says)
        };
        assert!(!told(&sim, "The host was restarted"), "the person stopped it, not a restart");
        if all {
            sim.tell(Event::AllStopped { caller: Caller::Person, on: false }).unwrap();
            sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
            assert_eq!(row(&sim, &id).turns, 2);
            assert!(told(&sim, "The owner stopped all agents"));
        }
    }
}

#[test]
fn what_a_turn_was_about_that_never_began_is_one_turn_again() {
    let mut sim = calm();
    sim.weather.turns_unheard = 1_000;
    sim.outside.no_places = true;
    let id = sim.plain(None, Permission::Full);
    sim.run(sim.now + MINUTE, |_| false);
    sim.outside.no_places = false;
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 60 * MINUTE, |s| row(s, &id).failures >= 3);
    sim.weather.turns_unheard = 0;
    sim.tell(Event::Retried { caller: Caller::Person, thread: id.clone() }).unwrap();
    let messages: Vec<usize> = sim
        .facts()
        .iter()
        .filter_map(|f| match f {
            Fact::TurnBegan { messages, .. } => Some(messages.len()),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [2, 2, 2, 2], "both of them each time, in one turn");
}

#[test]
fn a_thread_without_a_place_says_why_and_goes_on_when_it_is_tried_again() {
    let mut sim = calm();
    sim.outside.no_places = true;
    let id = sim.plain(None, Permission::Full);
    sim.run(sim.now + 10 * MINUTE, |_| false);
    let shown = thread_row(sim.world(), row(&sim, &id), &sim.moment());
    assert!(shown.error.unwrap().contains("the setup script failed"));
    let waits = shown.waits.unwrap();
    assert!(waits.contains(&format!("stewards thread retry {id}")), "{waits}");
    sim.outside.no_places = false;
    sim.tell(Event::Retried { caller: Caller::Person, thread: id.clone() }).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!((row(&sim, &id).turns, row(&sim, &id).status), (1, Status::Idle));
}

#[test]
fn a_failed_turn_is_tried_again_by_reference_and_loses_nothing() {
    let (mut sim, id) = standing("error");
    assert!(row(&sim, &id).failed.is_some());
    sim.weather.turns_fail = 0;
    let retry = |id: &ThreadId| Event::Retried { caller: Caller::Person, thread: id.clone() };
    sim.tell(retry(&id)).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!(row(&sim, &id).status, Status::Idle);
    let told = |f: &Fact| matches!(f, Fact::MessageAccepted { message } if message.cause == "resume" && message.text.contains("first words"));
    assert!(sim.facts().iter().any(told));
    assert_eq!(sim.tell(retry(&id)).unwrap_err().code, "no_failed_turn");
    // Whoever writes to one that was given up has it go on with what it was about.
    let (mut sim, id) = standing("error");
    sim.weather.turns_fail = 0;
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    let told = |f: &Fact| matches!(f, Fact::MessageAccepted { message } if message.cause == "resume" && message.text.contains("first words"));
    assert_eq!(sim.facts().iter().filter(|f| told(f)).count(), 3, "twice by itself, once now");
    assert!(row(&sim, &id).failed.is_none() && row(&sim, &id).status == Status::Idle);
}

#[test]
fn a_turn_that_never_began_is_tried_three_times_with_rests_and_then_waits_for_the_person() {
    let mut sim = calm();
    sim.weather.turns_unheard = 1_000;
    let id = sim.plain(None, Permission::Full);
    let began = sim.now;
    sim.run(sim.now + 60 * MINUTE, |s| row(s, &id).failures >= 3);
    assert!(sim.now - began > 25 * SECOND, "it rests in between");
    sim.run(sim.now + 60 * MINUTE, |_| false);
    assert_eq!(row(&sim, &id).turns, 3, "whoever's words they were");
    assert!(sim.world().needs.values().any(|n| n.closed.is_none() && n.kind.word() == "failed"));
    sim.weather.turns_unheard = 0;
    sim.tell(Event::Retried { caller: Caller::Person, thread: id.clone() }).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    let consumed = sim.receipts().into_iter().filter(|(_, state)| state == "consumed").count();
    assert_eq!((consumed, row(&sim, &id).status), (1, Status::Idle));
}

#[test]
fn a_parent_hears_of_its_children_together_and_only_where_it_is_wanted() {
    let mut sim = calm();
    let parent = sim.plain(None, Permission::Full);
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    let (one, two) = (sim.plain(Some(&parent), Permission::Full), sim.plain(Some(&parent), Permission::Full));
    let quiet = sim.plain(Some(&parent), Permission::Full);
    let silent = Event::Updated {
        caller: Caller::Person,
        thread: quiet.clone(),
        update: Update { notify: Some(false), ..Update::default() },
    };
    sim.tell(silent).unwrap();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    let notices: Vec<String> = sim
        .facts()
        .into_iter()
        .filter_map(|f| match f {
            Fact::MessageAccepted { message } if message.cause == "notice" => Some(message.text),
            _ => None,
        })
        .collect();
    let all = notices.concat();
    assert!(all.contains(one.as_str()) && all.contains(two.as_str()) && !all.contains(quiet.as_str()), "{all}");
    assert!(row(&sim, &parent).turns as usize <= 1 + notices.len());
}

#[test]
fn archiving_takes_what_it_owns_deleting_takes_every_descendant_and_both_ask_first() {
    let mut sim = calm();
    let top = sim.plain(None, Permission::Full);
    let child = sim.plain(Some(&top), Permission::Full);
    let grandchild = sim.plain(Some(&child), Permission::Full);
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    let archive = |id: &ThreadId, yes| Event::Archived { caller: Caller::Person, thread: id.clone(), yes };
    let preview = sim.tell(archive(&top, false)).unwrap_err();
    assert!(
        preview.code == "needs_yes" && preview.says.contains("3 threads") && preview.says.contains(grandchild.as_str())
    );
    // One that is archived already does not hide those below it.
    sim.tell(archive(&grandchild, false)).unwrap();
    sim.tell(archive(&child, true)).unwrap();
    sim.tell(archive(&top, true)).unwrap();
    assert!([&top, &child, &grandchild].iter().all(|id| row(&sim, id).archived.is_some()));
    let back = |id: &ThreadId| Event::Unarchived { caller: Caller::Person, thread: id.clone() };
    assert_eq!(sim.tell(back(&grandchild)).unwrap_err().code, "owner_archived");
    sim.tell(back(&top)).unwrap();
    sim.tell(back(&child)).unwrap();
    let delete = |yes| Event::Deleted { caller: Caller::Person, thread: top.clone(), yes };
    assert!(sim.tell(delete(false)).unwrap_err().says.contains("3 threads"));
    sim.tell(delete(true)).unwrap();
    sim.run(sim.now + MINUTE, |s| s.world().threads.values().all(|t| t.remove_by.is_none()));
    assert!([&top, &child, &grandchild].iter().all(|id| row(&sim, id).deleted.is_some()));
    assert!(sim.receipts().is_empty() && sim.outside.worktrees.is_empty());
    assert_eq!(sim.tell(back(&top)).unwrap_err().code, "thread_deleted");
}

#[test]
fn an_archived_threads_worktree_goes_after_its_grace_and_comes_back_with_its_next_message() {
    let (mut sim, id) = standing("idle");
    sim.tell(Event::Archived { caller: Caller::Person, thread: id.clone(), yes: false }).unwrap();
    sim.run(sim.now + 3 * SECOND, |_| false);
    assert_eq!(sim.outside.worktrees.len(), 1, "it may still be brought back as it was");
    sim.run(sim.now + MINUTE, |_| false);
    assert!(sim.outside.worktrees.is_empty() && row(&sim, &id).environment.state == EnvironmentState::Removed);
    // The person writes to it on its page.
    let told = Event::Told {
        caller: Caller::Person,
        to: id.clone(),
        text: "again".into(),
        mode: SendMode::Auto,
        revive: true,
    };
    sim.tell(told).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!((row(&sim, &id).turns, sim.outside.worktrees.len()), (2, 1));
}

#[test]
fn the_worktree_of_a_thread_that_was_idle_for_long_goes_and_comes_back_with_its_next_message() {
    let mut sim = calm();
    sim.settings.retention = 60 * MINUTE;
    sim.settings.idle_release = 10 * MINUTE;
    sim.restart();
    let id = sim.plain(None, Permission::Full);
    sim.run(sim.now + 59 * MINUTE, |_| false);
    assert_eq!(sim.outside.worktrees.len(), 1);
    sim.run(sim.now + 5 * MINUTE, |_| false);
    assert!(sim.outside.worktrees.is_empty() && row(&sim, &id).environment.state == EnvironmentState::Removed);
    assert_eq!((row(&sim, &id).turns, row(&sim, &id).archived), (1, None));
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!((row(&sim, &id).turns, sim.outside.worktrees.len()), (2, 1));
}

#[test]
fn beyond_their_share_of_the_disk_the_least_recently_used_worktrees_go_and_no_others() {
    let mut sim = calm();
    sim.settings.idle_release = 10 * MINUTE;
    sim.settings.worktrees_max = 2 * GIGABYTE;
    sim.restart();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(sim.plain(None, Permission::Full));
        sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    }
    sim.tell(tell(&ids[0], SendMode::Auto)).unwrap();
    sim.run(sim.now + 9 * MINUTE, |_| false);
    assert_eq!(sim.outside.worktrees.len(), 3, "an agent's process still stands in each");
    sim.run(sim.now + 120 * MINUTE, |_| false);
    let stands = |id: &ThreadId| matches!(row(&sim, id).environment.state, EnvironmentState::Ready { .. });
    assert_eq!(ids.iter().map(stands).collect::<Vec<_>>(), [true, false, true], "the second was used first");
    let measured = sim.facts().iter().filter(|f| matches!(f, Fact::MeasureBegan { .. })).count();
    assert!(measured <= 4, "{measured}: once an hour is enough");
}

#[test]
fn a_context_beyond_the_threshold_is_compacted_once_after_the_turn() {
    let mut sim = calm();
    sim.settings.compact_at = 1;
    sim.restart();
    let id = sim.plain(None, Permission::Full);
    sim.run(sim.now + 10 * MINUTE, |_| false);
    let compactions =
        |sim: &Sim| sim.facts().iter().filter(|f| matches!(f, Fact::TurnBegan { compacts: true, .. })).count();
    assert_eq!((row(&sim, &id).turns, compactions(&sim)), (2, 1), "not again while nothing was added");
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 10 * MINUTE, |_| false);
    assert_eq!(compactions(&sim), 2);
}

#[test]
fn an_idle_agents_process_is_released_and_its_thread_goes_on_when_it_is_told() {
    let mut sim = calm();
    sim.settings.idle_release = 10 * MINUTE;
    sim.restart();
    let id = sim.plain(None, Permission::Full);
    sim.run(sim.now + 9 * MINUTE, |_| false);
    let released = |sim: &Sim| sim.facts().iter().filter(|f| matches!(f, Fact::Released)).count();
    assert_eq!(released(&sim), 0);
    sim.run(sim.now + 5 * MINUTE, |_| false);
    assert_eq!(released(&sim), 1);
    sim.tell(tell(&id, SendMode::Auto)).unwrap();
    sim.run(sim.now + 2 * MINUTE, Sim::host_rests);
    assert_eq!(row(&sim, &id).turns, 2);
}

#[test]
fn a_fork_goes_on_with_the_conversation_in_the_same_place_and_ends_with_its_source() {
    let mut sim = calm();
    sim.settings.retention = 60 * MINUTE;
    sim.settings.idle_release = 10 * MINUTE;
    sim.restart();
    let id = sim.plain(None, Permission::Full);
    let fork = |id: &ThreadId| Event::Forked {
        caller: Caller::Person,
        thread: id.clone(),
        title: None,
        prompt: "another way".into(),
    };
    assert_eq!(sim.tell(fork(&id)).unwrap_err().code, "no_session");
    sim.run(sim.now + MINUTE, |s| row(s, &id).status == Status::Active);
    assert_eq!(sim.tell(fork(&id)).unwrap_err().code, "thread_busy");
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    let session = row(&sim, &id).session.clone();
    let made = ThreadId(sim.tell(fork(&id)).unwrap().ids["thread"].clone());
    let job = turn_job(sim.world(), &made, &row(&sim, &made).turn.as_ref().unwrap().id).unwrap();
    assert!(job.forks && job.session == session && job.cwd.ends_with(id.as_str()), "{job:?}");
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    let forked = row(&sim, &made).clone();
    assert!(forked.forks.is_none() && forked.session.is_some() && forked.session != session);
    sim.tell(tell(&made, SendMode::Auto)).unwrap();
    sim.run(sim.now + 300 * MINUTE, |_| false);
    assert_eq!(sim.outside.worktrees.len(), 1, "the fork stands in it");
    sim.tell(Event::Archived { caller: Caller::Person, thread: id.clone(), yes: true }).unwrap();
    sim.run(sim.now + 30 * MINUTE, |_| false);
    assert!(row(&sim, &made).archived.is_some() && sim.outside.worktrees.is_empty());
    assert_eq!(sim.tell(fork(&id)).unwrap_err().code, "thread_not_writable");
}

#[test]
fn a_child_may_do_no_more_than_its_parent_and_four_levels_are_enough() {
    let mut sim = calm();
    let mut at = sim.plain(None, Permission::AcceptEdits);
    let ask = |parent: &ThreadId, permission| {
        let mut ask = SpawnAsk::of(Role::Plain, "t", "p");
        ask.parent = Some(parent.clone());
        ask.permission = permission;
        Event::Spawned { caller: Caller::Person, ask: Box::new(ask) }
    };
    assert_eq!(sim.tell(ask(&at, Some(Permission::Full))).unwrap_err().code, "too_wide");
    for _ in 0..3 {
        let reply = sim.tell(ask(&at, None)).unwrap();
        at = ThreadId(reply.ids["thread"].clone());
        assert_eq!(row(&sim, &at).permission, Permission::AcceptEdits);
    }
    assert_eq!(sim.tell(ask(&at, None)).unwrap_err().reason.as_deref(), Some("too_deep"));
}
