//! The main job, as somebody would run it.

use crate::rig::Demo;
use std::time::{Duration, Instant};
use stewards_core::machine::Fact;

#[test]
fn the_demo_takes_a_ticket_to_done_in_six_turns() {
    let mut demo = Demo::start(&["--yes", "--json"]);
    let summary = demo.summary();
    assert_eq!(summary["merged"], true);
    assert_eq!(summary["turns"], 6, "{summary:#}");
    assert_eq!(summary["ticket"], "DEMO-1");
    let causes: Vec<&str> = summary["wakes"].as_array().unwrap().iter().filter_map(|w| w["cause"].as_str()).collect();
    assert_eq!(causes, ["adopted", "item, phase"]);
    assert!(summary["seconds"].as_f64().unwrap() > 0.0 && summary["notes"].as_u64().unwrap() > 0);
    demo.ended_well();
    // No wake's turn repeated the report before it without an effect.
    let reported = |f| match f {
        Fact::Reported { report, .. } => Some(report),
        _ => None,
    };
    let reports: Vec<_> = demo.facts().into_iter().filter_map(reported).collect();
    assert!(reports.windows(2).all(|w| w[0] != w[1]), "{reports:#?}");
}

#[test]
fn a_finished_demo_prints_its_summary_again_and_does_nothing() {
    let mut demo = Demo::start(&["--yes", "--json"]);
    let first = demo.summary();
    let events = demo.facts().len();
    let began = Instant::now();
    demo.again(&["--yes", "--json"]);
    assert_eq!(demo.summary(), first);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(demo.facts().len(), events);
}

#[test]
fn two_demos_run_side_by_side() {
    let (mut one, mut two) = (Demo::start(&["--yes", "--json"]), Demo::start(&["--yes", "--json"]));
    one.summary();
    two.summary();
    one.ended_well();
    two.ended_well();
}

#[test]
fn ctrl_c_ends_everything_within_five_seconds() {
    let mut demo = Demo::start(&["--json"]);
    demo.until("the worker's turn", |f| matches!(f, Fact::EnvironmentIs { state: stewards_core::threads::EnvironmentState::Ready { path } } if path.to_string_lossy().contains("worktrees")));
    let daemon = demo.daemon().expect("the daemon runs");
    let began = Instant::now();
    let pid = rustix::process::Pid::from_raw(demo.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (out, code) = demo.end();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("\"interrupted\""), "{out}");
    assert_eq!(demo.marked(), Vec::<i32>::new());
    assert!(stewards_agents::processes::find(daemon).is_none(), "the daemon is left");
    // And what was begun is finished by the next run.
    demo.again(&["--yes", "--json"]);
    demo.summary();
    demo.ended_well();
}

#[test]
fn the_story_is_told_and_explained_and_the_merge_waits_for_the_person() {
    let mut demo = Demo::start(&[]);
    demo.until("the Merge item", |f| matches!(f, Fact::NeedFiled { .. }));
    let (needs, _, code) = demo.command(&["needs"]);
    assert!(code == 0 && needs.contains("stewards merge acme/bakery#1"), "{needs}");
    let (gate, _, code) = demo.command(&["gate", "acme/bakery#1"]);
    assert!(code == 0 && gate.starts_with("gate met: yes"), "{gate}");
    let (said, error, code) = demo.command(&["done", needs.split_whitespace().next().unwrap()]);
    assert_eq!((said.as_str(), code), ("", 1), "{error}");
    let (said, error, code) = demo.command(&["merge", "acme/bakery#1"]);
    assert_eq!(code, 0, "{said}{error}");
    demo.until("the end", |f| matches!(f, Fact::Ended { .. }));
    let (list, _, code) = demo.command(&["list"]);
    assert!(code == 0 && list.contains("DEMO-1"), "{list}");
    let (story, _, code) = demo.command(&["explain", "DEMO-1"]);
    assert_eq!(code, 0);
    for words in
        ["rang: Issue create", "adopted", "woken for adopted", "ready gate met", "merged as", "ended: reached Done"]
    {
        assert!(story.contains(words), "`{words}` is not in:\n{story}");
    }
    demo.kill();
}
