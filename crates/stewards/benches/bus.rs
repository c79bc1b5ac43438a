//! Numbers of the bus, measured on the real binary: `cargo bench -p stewards --bench bus`.
//!
//! Each is printed with what was asked of it, and beside it what the machine gives
//! (one row in one transaction of the same durability). `-- <word>` runs those
//! whose name holds the word.

#[expect(dead_code, reason = "the host's numbers use the rest")]
mod place;

use place::{Daemon, ms, percentile, raw_transaction};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stewards_store::Store;

const CLIENTS: usize = 64;
const SECONDS: u64 = 5;

fn main() {
    let word = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| word.as_ref().is_none_or(|w| name.contains(w.as_str()));
    println!("one row in one transaction, synchronous=FULL: {} ms at the median", ms(raw_transaction()));
    for (name, run) in [("messages", messages as fn()), ("claims", claims), ("command", command), ("log", log)] {
        if wanted(name) {
            run();
        }
    }
}

/// So many threads whose agents have run once, and which run nothing more.
fn threads(name: &str, n: usize) -> (Daemon, Vec<String>) {
    let daemon = Daemon::start(name);
    let all: Vec<String> = (0..n).map(|_| daemon.spawn("first words")).collect();
    all.iter().for_each(|t| daemon.rests(t));
    daemon.act(&json!({"stop_all": {"on": true}}));
    (daemon, all)
}

/// How often a second all clients together are answered.
fn rate(daemon: &Daemon, threads: &[String], ask: impl Fn(usize, u64) -> Value + Sync) -> f64 {
    let began = Instant::now();
    let answered: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|who| {
                let ask = &ask;
                scope.spawn(move || {
                    let mut client = daemon.client(&threads[who % threads.len()]);
                    let mut n = 0;
                    while began.elapsed() < Duration::from_secs(SECONDS) {
                        let answer = client.send("POST", "/api/act", &ask(who, n).to_string());
                        let code = answer["refusal"]["code"].as_str().unwrap_or("done");
                        assert!(["done", "busy", "not_held", "not_yours"].contains(&code), "{answer}");
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        clients.into_iter().map(|c| c.join().expect("a client")).sum()
    });
    answered as f64 / began.elapsed().as_secs_f64()
}

fn messages() {
    let (daemon, all) = threads("messages", 32);
    let rate = rate(&daemon, &all, |who, n| {
        let to = &all[(who + 1) % all.len()];
        json!({"bus_send": {"kind": "finding", "to": [to], "fields": [["ref", "pr:7"], ["what", format!("thing {n}")], ["filed", "no"]], "body": null}})
    });
    println!("messages: {rate:.0} a second accepted of {CLIENTS} clients (asked: 5,000)");
}

fn claims() {
    let (daemon, all) = threads("claims", 32);
    let rate = rate(&daemon, &all, |who, n| {
        let resource = format!("task:{}", (who as u64 + n / 2) % 16);
        match n % 2 {
            0 => json!({"claim": {"resources": [resource], "reason": "bench"}}),
            _ => json!({"release": {"resource": resource, "force": null}}),
        }
    });
    println!("claims: {rate:.0} a second answered of {CLIENTS} clients that contend (asked: 5,000)");
    let mut client = daemon.client(&all[0]);
    let mut took: Vec<Duration> = (0..300)
        .map(|n| {
            let ask = json!({"claim": {"resources": [format!("task:alone-{n}")], "reason": "bench"}}).to_string();
            let began = Instant::now();
            client.send("POST", "/api/act", &ask);
            let took = began.elapsed();
            let ask = json!({"release": {"resource": format!("task:alone-{n}"), "force": null}}).to_string();
            client.send("POST", "/api/act", &ask);
            took
        })
        .collect();
    println!(
        "claims: {} ms at the median for one client's durable claim (asked: one raw transaction and 1 ms)",
        ms(percentile(&mut took, 50))
    );
}

/// Puts so many messages into the file of a daemon that does not run.
fn fill(home: &std::path::Path, messages: i32) {
    let store = Store::open(&home.join(stewards_store::FILE)).expect("the file");
    let all = store.connection().unchecked_transaction().expect("a transaction");
    {
        let mut add = all.prepare(stewards_store::sql::BUS_ADD).expect("the statement");
        for n in 1..=i64::from(messages) {
            let kind = ["finding", "report", "done", "note", "decision"][(n % 5) as usize];
            let (from, to) = (format!("thr_{}", n % 64), format!("thr_{}", n % 61));
            let reference = format!("pr:{}", n % 997);
            let at = 1_800_000_000_000_i64 + n * 1_000;
            let body = json!({"seq": n, "kind": kind, "from": from, "to": to, "fields": [["ref", reference]], "body": null, "at": "2026-01-01T00:00:00Z"});
            add.execute((n, kind, &from, &to, &reference, at, false, None::<String>, body.to_string())).expect("a row");
        }
    }
    all.commit().expect("a commit");
}

/// From the start of the process to its end, as a person runs it.
fn command() {
    let home = place::dir("command");
    drop(Daemon::on(&home));
    fill(&home, 100_000);
    let daemon = Daemon::on(&home);
    let run = |args: &[&str]| {
        let mut took: Vec<Duration> = (0..100)
            .map(|_| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_stewards"));
                command
                    .args(args)
                    .arg("--dir")
                    .arg(daemon.home())
                    .env_remove("STEWARDS_TOKEN")
                    .env_remove("STEWARDS_SOCKET");
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let began = Instant::now();
                command.status().expect("it runs");
                began.elapsed()
            })
            .collect();
        percentile(&mut took, 50)
    };
    let version = run(&["--version"]);
    let claim = run(&["bus", "claim", "task:A-1", "--reason", "bench"]);
    println!(
        "command: {} ms at the median for `bus claim`, {} ms for `--version` (asked: 6 ms, and at most twice as long)",
        ms(claim),
        ms(version)
    );
    let _ = std::fs::remove_dir_all(home.parent().unwrap_or(&home));
}

/// The log over a million messages, by everything that it is asked for.
fn log() {
    let home = place::dir("log");
    drop(Daemon::on(&home));
    fill(&home, 1_000_000);
    let daemon = Daemon::on(&home);
    let (late, early) = (1_800_000_000_000_i64 + 900_000_000, 1_800_000_000_000_i64 + 10_000_000);
    for (name, query) in [
        ("nothing", String::new()),
        ("kind", "kind=report".into()),
        ("from", "from=thr_7".into()),
        ("to", "to=thr_7".into()),
        ("ref", "ref=pr:7".into()),
        ("from and kind", "from=thr_7&kind=report".into()),
        ("to and kind", "to=thr_7&kind=report".into()),
        ("from and to", "from=thr_7&to=thr_8".into()),
        ("ref and kind", "ref=pr:7&kind=report".into()),
        ("a kind that nobody sent", "kind=help".into()),
    ] {
        for (when, bound) in
            [("", String::new()), (" since", format!("&since={late}")), (" before", format!("&before={early}"))]
        {
            let path = format!("/api/bus?limit=50&{query}{bound}");
            let mut took: Vec<Duration> = (0..100)
                .map(|_| {
                    let began = Instant::now();
                    daemon.get(&path);
                    began.elapsed()
                })
                .collect();
            println!("log by {name}{when}: {} ms at the 95th percentile (asked: 5 ms)", ms(percentile(&mut took, 95)));
        }
    }
    for path in ["/api/owed", "/api/claims"] {
        let mut took: Vec<Duration> = (0..100)
            .map(|_| {
                let began = Instant::now();
                daemon.get(path);
                began.elapsed()
            })
            .collect();
        println!("{path}: {} ms at the 95th percentile (asked: 5 ms)", ms(percentile(&mut took, 95)));
    }
    let _ = std::fs::remove_dir_all(home.parent().unwrap_or(&home));
}
