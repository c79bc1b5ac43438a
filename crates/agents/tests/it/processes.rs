//! Processes that try to get away.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stewards_agents::processes::{end, marked, of_any_thread, of_thread};

/// A mark that no other test of this machine uses.
pub fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn start(script: &str, mark: &str, thread: Option<&str>) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("STEWARDS_MARK", mark).env_remove("STEWARDS_THREAD");
    if let Some(thread) = thread {
        command.env("STEWARDS_THREAD", thread);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
}

fn wait_for(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(10), "it did not come to be");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_process_that_forked_twice_took_its_own_session_and_ignores_term_is_gone_within_five_seconds() {
    let mark = mark("hardy");
    start(r#"(setsid sh -c 'trap "" TERM; while :; do sleep 0.2; done' &) ; exit 0"#, &mark, Some("thr_1"));
    wait_for(|| !marked(&mark).is_empty());
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let of = mark.clone();
    let count = end(move || of_thread(&of, "thr_1", None)).await;
    assert!(count >= 1);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(marked(&mark), []);
}

#[tokio::test]
async fn a_launcher_that_becomes_another_program_late_is_still_the_one_that_was_started() {
    let mark = mark("late");
    start("(sleep 0.4; exec sleep 30) & exit 0", &mark, Some("thr_1"));
    wait_for(|| marked(&mark).len() == 2);
    let seen = marked(&mark);
    wait_for(|| marked(&mark).len() == 1);
    let now = marked(&mark);
    assert!(seen.contains(&now[0]), "the same process under another name");
    let began = Instant::now();
    let of = mark.clone();
    assert_eq!(end(move || of_thread(&of, "thr_1", None)).await, 1);
    assert!(marked(&mark).is_empty() && began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn strays_are_only_those_that_work_for_a_thread_and_carry_this_mark() {
    let (ours, other) = (mark("ours"), mark("other"));
    start("sleep 30 & exit 0", &ours, Some("thr_1"));
    start("sleep 30 & exit 0", &ours, None);
    start("sleep 30 & exit 0", &other, Some("thr_1"));
    wait_for(|| marked(&ours).len() == 2 && marked(&other).len() == 1);
    let of = ours.clone();
    assert_eq!(end(move || of_any_thread(&of)).await, 1);
    assert_eq!(marked(&ours).iter().filter(|p| p.thread.is_none()).count(), 1);
    assert_eq!(marked(&other).len(), 1);
    for mark in [ours, other] {
        end(move || marked(&mark)).await;
    }
}
