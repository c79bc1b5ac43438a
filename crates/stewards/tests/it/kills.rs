//! The daemon or the demo is killed at named moments and at random ones: in
//! the end there is one of each and nothing is left over.

use crate::rig::Demo;
use std::time::Duration;
use stewards_core::machine::Fact;
use stewards_core::threads::{EnvironmentState, Role};

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Kills the daemon once such a fact is on record; the demo starts it again.
fn daemon_dies_at(what: &str, so: impl FnMut(&Fact) -> bool) {
    let mut demo = Demo::start(&["--yes", "--json"]);
    demo.until(what, so);
    kill(demo.daemon().expect("the daemon runs"));
    demo.summary();
    demo.ended_well();
}

/// Kills the demo itself; its children end with it, and it is started again.
fn demo_dies_at(what: &str, so: impl FnMut(&Fact) -> bool) {
    let mut demo = Demo::start(&["--yes", "--json"]);
    demo.until(what, so);
    let daemon = demo.daemon().expect("the daemon runs");
    demo.kill();
    for _ in 0..250 {
        if stewards_agents::processes::find(daemon).is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(stewards_agents::processes::find(daemon).is_none(), "the daemon outlives the demo");
    assert_eq!(demo.marked(), Vec::<i32>::new(), "agents outlive the demo");
    demo.again(&["--yes", "--json"]);
    demo.summary();
    demo.ended_well();
}

/// A thread of this role is on record, and then a turn begins.
fn turn_of(role: Role) -> impl FnMut(&Fact) -> bool {
    let mut made = false;
    move |fact| {
        made |= matches!(fact, Fact::ThreadCreated { role: r, .. } if *r == role);
        made && matches!(fact, Fact::TurnConfirmed { .. })
    }
}

fn bus(kind: &'static str) -> impl FnMut(&Fact) -> bool {
    move |fact| matches!(fact, Fact::BusSent { message } if message.kind == kind)
}

#[test]
fn killed_when_the_project_is_switched_on() {
    daemon_dies_at("the switch", |f| matches!(f, Fact::SwitchedOn));
}

#[test]
fn killed_when_the_ticket_has_rung() {
    daemon_dies_at("the ring", |f| matches!(f, Fact::CandidateSeen { .. }));
}

#[test]
fn killed_when_the_ticket_is_adopted() {
    daemon_dies_at("the adoption", |f| matches!(f, Fact::Adopted { .. }));
}

#[test]
fn killed_while_the_steward_has_its_first_turn() {
    daemon_dies_at("the steward's turn", turn_of(Role::Steward));
}

#[test]
fn killed_when_leave_was_given() {
    daemon_dies_at("leave", |f| matches!(f, Fact::LeaveGiven));
}

#[test]
fn killed_when_the_worktree_is_being_made() {
    daemon_dies_at("the worktree", |f| matches!(f, Fact::EnvironmentIs { state: EnvironmentState::Making }));
}

#[test]
fn killed_while_the_worker_builds() {
    daemon_dies_at("the worker's turn", turn_of(Role::Worker));
}

#[test]
fn killed_when_the_pull_request_was_opened() {
    daemon_dies_at("the pull", |f| matches!(f, Fact::PullLinked { .. }));
}

#[test]
fn killed_while_the_reviewer_reads() {
    daemon_dies_at("the reviewer's turn", turn_of(Role::Reviewer));
}

#[test]
fn killed_when_the_review_was_written() {
    daemon_dies_at("the review", |f| matches!(f, Fact::Wrote { .. }));
}

#[test]
fn killed_when_the_reviewer_has_reported() {
    daemon_dies_at("the report", bus("report"));
}

#[test]
fn killed_when_the_worker_is_done() {
    daemon_dies_at("done", bus("done"));
}

#[test]
fn killed_when_the_merge_item_is_filed() {
    daemon_dies_at("the item", |f| matches!(f, Fact::NeedFiled { .. }));
}

#[test]
fn killed_while_merging() {
    daemon_dies_at("the merge", |f| matches!(f, Fact::MergeBegan { .. }));
}

#[test]
fn killed_between_the_merge_and_its_comment() {
    daemon_dies_at("merged", |f| matches!(f, Fact::MergeDone { .. }));
}

#[test]
fn killed_when_the_ending_begins() {
    daemon_dies_at("the ending", |f| matches!(f, Fact::EndingBegan { .. }));
}

#[test]
fn the_demo_is_killed_while_the_worker_builds() {
    demo_dies_at("the worker's turn", turn_of(Role::Worker));
}

#[test]
fn the_demo_is_killed_while_merging() {
    demo_dies_at("the merge", |f| matches!(f, Fact::MergeBegan { .. }));
}

#[test]
fn killed_at_three_random_moments_of_one_run() {
    let mut demo = Demo::start(&["--yes", "--json"]);
    demo.until("the start", |f| matches!(f, Fact::SwitchedOn));
    let mut chance = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    for _ in 0..3 {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wait = u64::from(chance >> 8) % 2_500;
        println!("waits {wait} ms");
        std::thread::sleep(Duration::from_millis(wait));
        if let Some(pid) = demo.daemon().filter(|p| stewards_agents::processes::find(*p).is_some()) {
            kill(pid);
        }
    }
    demo.summary();
    demo.ended_well();
}
