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

/// How often a second all clients together are answered, and how often with a yes.
fn rate(daemon: &Daemon, threads: &[String], ask: impl Fn(usize, u64) -> Value + Sync) -> (f64, f64) {
    let began = Instant::now();
    let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|who| {
                let ask = &ask;
                scope.spawn(move || {
                    let mut client = daemon.client(&threads[who % threads.len()]);
                    let (mut n, mut good) = (0, 0);
                    while began.elapsed() < Duration::from_secs(SECONDS) {
                        let answer = client.send("POST", "/api/act", &ask(who, n).to_string());
                        let code = answer["refusal"]["code"].as_str().unwrap_or("done");
                        assert!(["done", "busy", "not_held", "not_yours"].contains(&code), "{answer}");
                        n += 1;
                        good += u64::from(code == "done");
                    }
                    (n, good)
                })
            })
            .collect();
        clients.into_iter().map(|c| c.join().expect("a client")).collect()
    });
    let of = |all: u64| all as f64 / began.elapsed().as_secs_f64();
    (of(counts.iter().map(|c| c.0).sum()), of(counts.iter().map(|c| c.1).sum()))
}

fn messages() {
    let (daemon, all) = threads("messages", 64);
    let rate = rate(&daemon, &all, |who, n| {
        let to = &all[(who + 1) % all.len()];
        json!({"bus_send": {"kind": "finding", "to": [to], "fields": [["ref", "pr:7"], ["what", format!("thing {n}")], ["filed", "no"]], "body": null}})
    });
    println!("messages: {:.0} a second accepted of {CLIENTS} clients (asked: 5,000)", rate.1);
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
    let (answered, good) = rate;
    println!(
        "claims: {answered:.0} a second answered of {CLIENTS} clients that contend, {good:.0} with a yes (asked: 5,000)"
    );
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

/// Puts so many messages into the file of a daemon that does not run, between 64
/// threads; two of them may be named.
fn fill(home: &std::path::Path, messages: i32, named: &[String]) {
    let name = |n: i64| named.get(n as usize).cloned().unwrap_or_else(|| format!("thr_1000{n}"));
    let store = Store::open(&home.join(stewards_store::FILE)).expect("the file");
    let all = store.connection().unchecked_transaction().expect("a transaction");
    {
        let mut add = all.prepare(stewards_store::sql::BUS_ADD).expect("the statement");
        for n in 1..=i64::from(messages) {
            // Every tenth is an answer to the one before.
            let answers = (n % 10 == 0).then(|| n - 1);
            let usual = ["finding", "report", "done", "note", "decision"][(n % 5) as usize];
            let kind = if answers.is_some() { "ack" } else { usual };
            let (from, to) = (name(n % 64), name(n % 61));
            let reference = format!("pr:acme/shop#{}", n % 997);
            let at = 1_800_000_000_000_i64 + n * 1_000;
            let body = json!({"seq": n, "kind": kind, "from": from, "to": to, "fields": [["ref", reference]], "body": null, "at": "2026-01-01T00:00:00Z"});
            let row = (n, kind, &from, &to, &reference, at, false, None::<String>, answers, 0, 0, body.to_string());
            add.execute(row).expect("a row");
        }
    }
    all.commit().expect("a commit");
}

/// From the start of the process to its end, as a person runs it.
fn command() {
    let home = place::dir("command");
    drop(Daemon::on(&home));
    fill(&home, 100_000, &[]);
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
    let daemon = Daemon::on(&home);
    daemon.add_project();
    let named: Vec<String> = (0..2).map(|_| daemon.spawn("first words")).collect();
    named.iter().for_each(|t| daemon.rests(t));
    drop(daemon);
    fill(&home, 1_000_000, &named);
    let daemon = Daemon::on(&home);
    let (late, early) = (1_800_000_000_000_i64 + 900_000_000, 1_800_000_000_000_i64 + 10_000_000);
    for (name, query) in [
        ("nothing", String::new()),
        ("kind", "kind=report".into()),
        ("from", format!("from={}", named[0])),
        ("to", format!("to={}", named[0])),
        ("ref", "ref=pr:acme/shop%237".into()),
        ("from and kind", format!("from={}&kind=report", named[0])),
        ("to and kind", format!("to={}&kind=report", named[0])),
        ("from and to", format!("from={}&to={}", named[0], named[1])),
        ("ref and kind", "ref=pr:acme/shop%237&kind=report".into()),
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
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let began = Instant::now();
            daemon.get("/api/bus/stats");
            began.elapsed()
        })
        .collect();
    println!("stats: {} ms at the 95th percentile (asked: 300 ms)", ms(percentile(&mut took, 95)));
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
