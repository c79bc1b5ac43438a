//! Numbers of webhooks and polls: `cargo bench -p stewards --bench services`.
//!
//! Webhooks are sent to the real binary. The cost of an hour is the number of requests that
//! a simulated hour asks for, times what each costs against the pretend services. `-- <word>`
//! runs those whose name holds the word.

#[expect(dead_code, reason = "the host's numbers use the rest")]
mod place;

use hmac::{Hmac, KeyInit, Mac};
use place::{Daemon, ms, percentile, raw_transaction};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::machine::Fact;
use stewards_core::ports::{Pulls, Tickets};
use stewards_sources::{GitHub, Linear};
use stewards_testkit::{MINUTE, Sim, Weather};

const WEBHOOKS: usize = 10_000;
const BYTES: usize = 20_000;
const SENDERS: usize = 64;
const WATCHED: usize = 100;

fn main() {
    let word = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| word.as_ref().is_none_or(|w| name.contains(w.as_str()));
    println!("one row in one transaction, synchronous=FULL: {} ms at the median", ms(raw_transaction()));
    for (name, run) in [("burst", burst as fn()), ("hour", hour)] {
        if wanted(name) {
            run();
        }
    }
}

/// A connection that sends signed webhooks and reads what is answered.
struct Sender {
    line: BufReader<TcpStream>,
    port: u16,
    secret: String,
}

impl Sender {
    fn new(port: u16, secret: &str) -> Option<Sender> {
        let line = TcpStream::connect(("127.0.0.1", port)).ok()?;
        line.set_nodelay(true).ok()?;
        line.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        Some(Sender { line: BufReader::new(line), port, secret: secret.to_owned() })
    }

    /// The status, or nothing where the connection broke.
    fn send(&mut self, delivery: &str) -> Option<u16> {
        let mut body = json!({
            "action": "created", "issue": {"number": 7, "pull_request": {}},
            "repository": {"full_name": "acme/shop", "id": 1}, "comment": {"body": ""},
        });
        body["comment"]["body"] = json!("x".repeat(BYTES - body.to_string().len()));
        let body = body.to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("any length");
        mac.update(body.as_bytes());
        let signature = hex::encode(mac.finalize().into_bytes());
        let head = format!(
            "POST /hooks/github HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             x-github-event: issue_comment\r\nx-github-delivery: {delivery}\r\nx-github-hook-id: 1\r\n\
             x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        self.line.get_mut().write_all(head.as_bytes()).ok()?;
        self.line.get_mut().write_all(body.as_bytes()).ok()?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut header = String::new();
            if self.line.read_line(&mut header).ok()? == 0 {
                return None;
            }
            let lower = header.to_ascii_lowercase();
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest.get(..3)?.parse().ok()?;
            }
            if let Some(n) = lower.strip_prefix("content-length:") {
                length = n.trim().parse().ok()?;
            }
            if header.trim().is_empty() {
                break;
            }
        }
        self.line.read_exact(&mut vec![0; length]).ok()?;
        Some(status)
    }
}

fn reached(daemon: &Daemon) -> (u16, String) {
    let file = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(daemon.home().join(name)).expect(name)).expect("JSON")
    };
    let url = file("daemon.json")["url"].as_str().unwrap_or_default().to_owned();
    let port = url.rsplit(':').next().and_then(|p| p.parse().ok()).expect("a port");
    (port, file("secrets.json")["github_webhook"].as_str().unwrap_or_default().to_owned())
}

/// Ten thousand webhooks of 20 KB at once; a `kill -9` in the middle of as many more.
fn burst() {
    let daemon = Daemon::start("webhooks");
    let (port, secret) = reached(&daemon);
    let mut one = Sender::new(port, &secret).expect("a connection");
    let mut took: Vec<Duration> = (0..500)
        .map(|n| {
            let began = Instant::now();
            assert_eq!(one.send(&format!("single-{n}")), Some(200));
            began.elapsed()
        })
        .collect();
    let (half, most) = (percentile(&mut took, 50), percentile(&mut took, 95));
    println!("webhook -> on record: {} ms median, {} ms p95 (asked: 10 ms p95)", ms(half), ms(most));

    let began = Instant::now();
    let taken = all_at_once(port, &secret, "burst", &AtomicUsize::new(0));
    let rate = taken.len() as f64 / began.elapsed().as_secs_f64();
    println!("burst of {WEBHOOKS} webhooks of {BYTES} bytes: {rate:.0}/s accepted (asked: 3,000/s)");
    assert_eq!(taken.len(), WEBHOOKS);

    let home = daemon.home().to_owned();
    let sent = AtomicUsize::new(0);
    let taken = std::thread::scope(|scope| {
        let senders = scope.spawn(|| all_at_once(port, &secret, "killed", &sent));
        while sent.load(Ordering::Relaxed) < WEBHOOKS / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Not politely.
        let pid = serde_json::from_slice::<Value>(&std::fs::read(home.join("daemon.json")).expect("it runs"));
        let pid = pid.expect("JSON")["pid"].as_i64().expect("a pid").to_string();
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
        senders.join().expect("the senders")
    });
    let store = stewards_store::Store::open(&home.join(stewards_store::FILE)).expect("the file");
    let known = |delivery: &String| {
        let sql = "SELECT count(*) FROM deliveries WHERE delivery = ?1";
        store.connection().query_row(sql, [format!("1:{delivery}")], |r| r.get::<_, i64>(0)).expect("a count") == 1
    };
    let lost = taken.iter().filter(|d| !known(d)).count();
    println!("killed in the middle of a burst: {} accepted, {lost} of them lost (asked: 0)", taken.len());
    assert!(taken.len() < WEBHOOKS, "the kill came too late");
}

/// The deliveries that were answered with 200; `next` counts what was sent.
fn all_at_once(port: u16, secret: &str, name: &str, next: &AtomicUsize) -> Vec<String> {
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken = Vec::new();
                    let Some(mut sender) = Sender::new(port, secret) else { return taken };
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= WEBHOOKS {
                            return taken;
                        }
                        let delivery = format!("{name}-{n}");
                        match sender.send(&delivery) {
                            Some(200) => taken.push(delivery),
                            Some(status) => panic!("answered {status}"),
                            None => return taken,
                        }
                    }
                })
            })
            .collect();
        senders.into_iter().flat_map(|s| s.join().expect("a sender")).collect()
    })
}

/// What an hour asks for in which nothing changes, by what is asked.
fn quiet_hour(hooks: bool) -> BTreeMap<&'static str, usize> {
    let weather =
        Weather { sweep: 30 * MINUTE, poll: MINUTE, rings_lost: if hooks { 0 } else { 1_000 }, ..Weather::calm() };
    let mut sim = Sim::new(1, weather, None);
    sim.person_acts = false;
    sim.settings.max_live = 1_000;
    sim.settings.max_live_project = 1_000;
    sim.settings.turns_per_hour = 0;
    sim.outside(|o| {
        o.bb.values_mut()
            .for_each(|text| *text = text.replace("\"label\"", "\"adoption\": {\"perPass\": 1000}, \"label\""))
    });
    sim.outside(|o| (0..WATCHED).for_each(|_| drop(o.ticket())));
    sim.run(3 * 60 * MINUTE, |_| false);
    let watched = sim.world().bindings.values().filter(|b| b.live() && b.pulls.len() == 1).count();
    assert_eq!(watched, WATCHED, "not all are watched");
    let before = sim.facts().len();
    sim.run(sim.now + 60 * MINUTE, |_| false);
    let mut counts = BTreeMap::new();
    for fact in &sim.facts()[before..] {
        let what = match fact {
            Fact::PollBegan { service, running: true, .. } => service.word(),
            Fact::SweepBegan { .. } => "find",
            Fact::LookBegan { .. } => "look",
            Fact::TurnBegan { .. } => "turn",
            _ => continue,
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Requests of one poll over so many, as the services count them.
fn costs() -> (u64, u64, u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let config = stewards_twin::Config {
            dir: dir.path().join("twin"),
            listener,
            socket: None,
            hooks: stewards_twin::Hooks::default(),
            linear_token: "lin".into(),
            github_token: "gh".into(),
            ci_delay: Duration::ZERO,
        };
        tokio::spawn(stewards_twin::serve(config, std::future::pending()));
        let (linear, github) = (
            Linear::new(format!("{base}/linear/graphql"), "lin".into()),
            GitHub::new(format!("{base}/github"), "gh".into()),
        );
        let asked = |quotas: Vec<stewards_core::ports::Quota>| quotas.iter().map(|q| q.asked).sum::<u64>();
        while linear.viewer().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let uuids: Vec<String> = (0..WATCHED).map(|n| format!("5d0ba1bd-2f0a-4f44-8c7e-{n:012}")).collect();
        let before = asked(linear.quotas());
        linear.beats(&uuids).await.expect("a poll");
        let tickets = asked(linear.quotas()) - before;
        let ask = stewards_core::snapshot::AdoptAsk { label: "bb-managed".into(), teams: vec!["DEMO".into()] };
        let before = asked(linear.quotas());
        linear.adoptable(&ask).await.expect("a search");
        let find = asked(linear.quotas()) - before;
        let repo = RepoName("acme/shop".into());
        let keys: Vec<PullKey> = (1..=WATCHED as u64).map(|number| PullKey { repo: repo.clone(), number }).collect();
        let before = asked(github.quotas());
        // There is no such repository: what it costs to ask is the same.
        let _ = github.beats(&keys, &[]).await;
        (tickets, find, (asked(github.quotas()) - before).max(keys.len().div_ceil(50) as u64))
    })
}

/// An hour in which nothing changes, over a hundred tickets with a pull each.
fn hour() {
    let (tickets, find, pulls) = costs();
    println!("one poll of {WATCHED} tickets: {tickets} requests, of {WATCHED} pulls: {pulls}; a search: {find}");
    // GitHub counts a query by the lists in it, a hundred for a point and at least one: ours
    // have one list for each of fifty pulls.
    for (hooks, name) in [(true, "webhooks come"), (false, "no webhook comes")] {
        let counts = quiet_hour(hooks);
        let of = |what: &str| counts.get(what).copied().unwrap_or(0) as u64;
        let (linear, github) = (of("linear") * tickets + of("find") * find, of("github") * pulls);
        println!(
            "an hour without a change, {name}: Linear {linear}, GitHub {github} ({:.1} % of 5,000), looks {}, turns {}",
            github as f64 / 50.0,
            of("look"),
            of("turn")
        );
        let asked = if hooks { "at most 20 in all" } else { "at most 5 % of GitHub's quota" };
        println!("  (asked: {asked}; {} in all)", linear + github);
    }
}
