//! Numbers of the host, measured on the real binary: `cargo bench -p stewards --bench host`.
//!
//! Each is printed with what was asked of it, and beside it what the machine gives
//! (one row in one transaction of the same durability). `-- <word>` runs those
//! whose name holds the word.

mod place;

use place::{Daemon, ms, percentile, raw_transaction};
use std::time::{Duration, Instant};
use stewards_core::ids::TurnId;
use stewards_core::machine::{Caller, Event, Settings};
use stewards_core::threads::{Role, SpawnAsk};
use stewards_engine::{Heart, Line, Tick};
use stewards_store::Store;

fn main() {
    let word = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| word.as_ref().is_none_or(|w| name.contains(w.as_str()));
    println!("one row in one transaction, synchronous=FULL: {} ms at the median", ms(raw_transaction()));
    for (name, run) in
        [("prompt", prompt as fn()), ("memory", memory), ("start", start), ("transcript", transcript), ("stop", stop)]
    {
        if wanted(name) {
            run();
        }
    }
}

/// A message is accepted over the socket, and the idle agent's warm process has it.
fn prompt() {
    let daemon = Daemon::start("prompt");
    let thread = daemon.spawn("first words");
    daemon.rests(&thread);
    let mut took = Vec::new();
    for n in 0..200 {
        let began = place::nanos();
        daemon.tell(&thread, &format!("word {n}"));
        daemon.rests(&thread);
        let at = daemon.heard(&format!("word {n}"));
        took.push(Duration::from_nanos(u64::try_from(at - began).unwrap_or(0)));
    }
    let (median, high) = (percentile(&mut took, 50), percentile(&mut took, 95));
    println!(
        "prompt: {} ms at the median, {} ms at the 95th percentile from the request to the agent's reading (asked: 10 ms)",
        ms(median),
        ms(high)
    );
}

/// What the daemon holds with many idle threads, and with none.
fn memory() {
    let size = |threads: usize| {
        let daemon = Daemon::of("memory", |home| fill(home, threads, 0));
        std::thread::sleep(Duration::from_secs(1));
        daemon.memory()
    };
    let (none, some) = (size(0), size(500));
    println!(
        "memory: {:.1} MB resident with 500 idle threads ({:.1} MB of it not the program's file), {:.1} kB a thread (asked: 40 MB, 20 kB)",
        some.0 as f64 / 1e6,
        some.1 as f64 / 1e6,
        (some.1.saturating_sub(none.1)) as f64 / 500.0 / 1e3
    );
}

/// From the start of the process until it serves.
fn start() {
    let home = place::dir("start");
    fill(&home, 10_000, 1_000_000);
    let mut took = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        let daemon = Daemon::on(&home);
        took.push(began.elapsed());
        drop(daemon);
    }
    println!(
        "start: {} ms at the median to serving with 10,000 threads and 1,000,000 transcript lines (asked: 300 ms)",
        ms(percentile(&mut took, 50))
    );
    let _ = std::fs::remove_dir_all(home.parent().unwrap_or(&home));
}

/// Ten agents talk at a megabyte a second each.
fn transcript() {
    const STREAMS: u64 = 10;
    const SECONDS: u64 = 20;
    let daemon = Daemon::start("transcript");
    let threads: Vec<String> = (0..STREAMS).map(|_| daemon.spawn(&format!("stream {SECONDS}"))).collect();
    let (began, before) = (Instant::now(), daemon.written());
    // The page and the command line go on meanwhile.
    let mut asked = Vec::new();
    while began.elapsed() < Duration::from_secs(SECONDS) {
        let at = Instant::now();
        daemon.get("/api/threads");
        asked.push(at.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    threads.iter().for_each(|t| daemon.rests(t));
    let took = began.elapsed().as_secs_f64();
    let (written, kept) = (daemon.written() - before, daemon.transcript_bytes());
    println!(
        "transcript: {:.1} MB/s kept of {STREAMS} streams, {:.2} bytes written for each byte of text (asked: 10 MB/s, below 3); a list meanwhile: {} ms at the 95th percentile",
        kept as f64 / 1e6 / took,
        written as f64 / kept as f64,
        ms(percentile(&mut asked, 95))
    );
}

/// Children that ignore TERM, fork twice and take a session of their own.
fn stop() {
    let daemon = Daemon::start("stop");
    let mut took = Vec::new();
    for _ in 0..5 {
        let thread = daemon.spawn("nasty");
        daemon.until(|| daemon.processes(&thread) >= 4);
        let began = Instant::now();
        daemon.stop(&thread);
        daemon.until(|| daemon.processes(&thread) == 0);
        took.push(began.elapsed());
    }
    println!("stop: {} ms at most until the last process is gone (asked: 5,000 ms)", ms(percentile(&mut took, 100)));
}

/// Makes a directory's file with so many idle threads and transcript lines.
fn fill(home: &std::path::Path, threads: usize, lines: usize) {
    let store = Store::open(&home.join(stewards_store::FILE)).expect("the file opens");
    let tick = Tick { wall: jiff::Timestamp::now(), elapsed: 0 };
    let (mut heart, _) = Heart::open(store, Settings::default(), tick).expect("a run begins");
    let repo = stewards_core::entity::RepoName("acme/shop".into());
    let add = Event::ProjectAdded { name: "shop".into(), repo, remote: "/nowhere".into() };
    let step = heart.step(tick, &[add]).expect("a project");
    let project = step.replies[0].as_ref().expect("it is added").ids["project"].clone();
    let mut ids = Vec::new();
    for chunk in 0..threads.div_ceil(500) {
        let events: Vec<Event> = (0..500.min(threads - chunk * 500))
            .map(|n| {
                let mut ask = SpawnAsk::of(Role::Plain, &format!("thread {chunk} {n}"), "");
                ask.prompt = None;
                ask.project = Some(stewards_core::ids::ProjectId(project.clone()));
                ask.model = Some("bench".into());
                Event::Spawned { caller: Caller::Person, ask: Box::new(ask) }
            })
            .collect();
        for reply in heart.step(tick, &events).expect("threads").replies {
            ids.push(stewards_core::ids::ThreadId(reply.expect("it is made").ids["thread"].clone()));
        }
    }
    let body = serde_json::json!({ "text": { "text": "x".repeat(200) } }).to_string();
    for chunk in 0..lines.div_ceil(10_000) {
        let many: Vec<Line> = (0..10_000)
            .map(|n| Line {
                thread: ids[(chunk * 10_000 + n) % ids.len()].clone(),
                turn: TurnId("turn_1".into()),
                at: 0,
                body: body.clone(),
            })
            .collect();
        heart.transcribe(&many).expect("lines");
    }
}
