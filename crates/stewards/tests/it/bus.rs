//! The bus from the command line, as threads use it.

use crate::home::Home;
use crate::rig::{stewards, told};
use serde_json::Value;
use std::process::Command;

/// Leaves its token and socket beside it, by its thread, and ends each turn at once.
const KEEPER: &str = r#"
import json, os, sys
with open(os.path.join(sys.argv[1], os.environ["STEWARDS_THREAD"]), "w") as f:
    f.write(os.environ["STEWARDS_TOKEN"] + "\n" + os.environ["STEWARDS_SOCKET"])
def say(m):
    m["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize": say({"id": m["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif m.get("method") == "session/new": say({"id": m["id"], "result": {"sessionId": "s"}})
    elif m.get("method") == "session/prompt":
        say({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ok"}}}})
        say({"id": m["id"], "result": {"stopReason": "end_turn"}})
"#;

struct Threads {
    home: Home,
    ids: Vec<String>,
}

impl Threads {
    fn new(n: usize) -> Threads {
        let home = Home::new();
        home.good(&["serve", "stop"]);
        let script = home.dir.path().join("keeper.py");
        std::fs::write(&script, KEEPER).unwrap();
        let settings = serde_json::json!({
            "turns_per_hour": 0,
            "providers": {"keeper": {"command": "python3", "args": [script, home.dir.path()]}},
        });
        std::fs::write(home.data().join("settings.json"), settings.to_string()).unwrap();
        home.good(&["serve", "start"]);
        let prompt = home.dir.path().join("prompt.md").display().to_string();
        let args = ["thread", "spawn", "--title", "t", "--model", "keeper", "--environment", "checkout"];
        let args = [&args[..], &["--prompt-file", &prompt]].concat();
        let ids: Vec<String> = (0..n).map(|_| home.json(&args)["ids"]["thread"].as_str().unwrap().to_owned()).collect();
        for id in &ids {
            home.good(&["thread", "wait", id]);
        }
        Threads { home, ids }
    }

    /// A command as this thread's agent would run it.
    fn command(&self, who: usize, args: &[&str]) -> Command {
        let kept = std::fs::read_to_string(self.home.dir.path().join(&self.ids[who])).unwrap();
        let (token, socket) = kept.split_once('\n').unwrap();
        let mut command = stewards(args);
        command.env("STEWARDS_TOKEN", token).env("STEWARDS_SOCKET", socket).env("STEWARDS_THREAD", &self.ids[who]);
        command
    }

    fn run(&self, who: usize, args: &[&str]) -> (String, String, i32) {
        told(&self.command(who, args).output().unwrap())
    }

    #[track_caller]
    fn good(&self, who: usize, args: &[&str]) -> String {
        let (out, error, code) = self.run(who, args);
        assert_eq!(code, 0, "{args:?}: {out}{error}");
        out
    }
}

#[test]
fn of_processes_that_race_for_a_claim_one_gets_it() {
    let t = Threads::new(4);
    for round in 0..5 {
        let resource = format!("task:race-{round}");
        let racing: Vec<_> = (0..4)
            .map(|who| {
                let mut command = t.command(who, &["bus", "claim", &resource, "--reason", "mine"]);
                command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        let mut codes: Vec<i32> = racing.into_iter().map(|mut c| c.wait().unwrap().code().unwrap()).collect();
        codes.sort();
        assert_eq!(codes, [0, 75, 75, 75]);
    }
}

#[test]
fn a_resource_is_claimed_kept_waited_for_checked_and_passed_on() {
    let t = Threads::new(2);
    let held = t.good(0, &["bus", "claim", "pr:007", "path:src", "--reason", "the release"]);
    assert!(held.contains("held pr:acme/shop#7 until") && held.contains("held path:acme/shop:src until"), "{held}");
    assert!(t.good(0, &["bus", "heartbeat", "pr:acme/shop#7"]).contains("(epoch 1)"));
    assert!(t.good(0, &["bus", "check", "pr:7", "--epoch", "1"]).contains("in epoch 1"));
    let (_, error, code) = t.run(1, &["bus", "claim", "path:src/a.rs", "--reason", "a fix"]);
    assert!(code == 75 && error.contains("--wait"), "{error}");
    let (_, error, code) = t.run(1, &["bus", "claim", "pr:7", "--reason", "a fix", "--wait", "--max-wait", "1h"]);
    assert!(code == 75 && error.contains("number 1 in line"), "{error}");
    let shown = t.good(0, &["bus", "claims", "--mine"]);
    assert!(shown.contains("pr:007 = pr:acme/shop#7") && shown.contains(&format!("1. {} waits", t.ids[1])), "{shown}");
    t.good(0, &["bus", "release", "pr:7"]);
    assert_eq!(t.run(0, &["bus", "check", "pr:7", "--epoch", "1"]).2, 1);
    let all: Value = serde_json::from_str(&t.good(1, &["bus", "claims", "--json"])).unwrap();
    let mine = all.as_array().unwrap().iter().find(|c| c["holder"] == t.ids[1].as_str()).unwrap();
    assert!(mine["granted"] == true && mine["epoch"] == 3, "{mine}");
    let story = t.good(1, &["bus", "claims", "--history", "pr:7"]);
    for words in ["holds pr:acme/shop#7", "was renewed", "waits for pr:acme/shop#7", "is free: released"] {
        assert!(story.contains(words), "{words}: {story}");
    }
    // It outlives the daemon.
    t.home.good(&["serve", "stop"]);
    t.home.good(&["serve", "start"]);
    assert!(t.home.good(&["bus", "claims"]).contains(&t.ids[1]));
}

#[test]
fn a_question_is_sent_once_answered_by_its_addressee_and_listed_until_then() {
    let t = Threads::new(2);
    let to = t.ids[1].clone();
    let ask =
        ["bus", "question", "--to", &to, "--ref", "task:A-1", "--field", "ask=which one?", "--dedupe-key", "round 1"];
    assert!(t.good(0, &ask).contains("sent #1 question"));
    assert!(t.good(0, &ask).contains("sent before as #1"));
    let owed = t.good(0, &["bus", "unanswered", "--to", &to]);
    assert!(owed.contains("ask=\"which one?\"") && owed.contains("stewards bus ack --field ack_of=1"), "{owed}");
    assert!(t.good(0, &["bus", "unanswered", "--minutes", "5"]).contains("Nothing is owed"));
    let ack = ["bus", "ack", "--field", "ack_of=1", "--field", "answer=the first"];
    assert_eq!(t.run(0, &ack).2, 1, "not by whoever asked");
    assert!(t.good(1, &ack).contains(&format!("sent #2 ack to {}", t.ids[0])));
    assert_eq!(t.good(0, &["bus", "unanswered", "--json"]).trim(), "[]");
    t.good(0, &["bus", "question", "--to", &to, "--ref", "task:A-1", "--field", "ask=and now?"]);
    t.good(0, &["bus", "withdraw", "3"]);
    assert_eq!(t.run(0, &["bus", "withdraw", "3"]).2, 1);
}

#[test]
fn the_bus_says_what_it_can_and_takes_numbers_strictly() {
    let home = Home::new();
    for args in [vec!["bus", "help"], vec!["bus", "--help"]] {
        let said = home.good(&args);
        assert!(said.contains("claim") && said.contains("unanswered") && said.contains("merge-ready"), "{said}");
    }
    assert!(home.good(&["bus", "question", "--help"]).contains("question: ref, ask"));
    // With an addressee, `help` is a kind like any other.
    let (_, error, code) = home.run(&["bus", "help", "--to", "thr_999", "--ref", "pr:7", "--field", "blocked_on=x"]);
    assert!(code == 2 && error.contains("no thread is called thr_999"), "{error}");
    for n in ["-1", "0", "1001", "abc", "1.5"] {
        assert_eq!(home.run(&["bus", "log", "-n", n]).2, 2, "{n}");
        assert_eq!(home.run(&["bus", "unanswered", "-n", n]).2, 2, "{n}");
    }
    for (args, words) in [
        (vec!["bus", "claim", "pr:7"], "--reason"),
        (vec!["bus", "claim", "pr:7", "--reason", " "], "needs a reason"),
        (vec!["bus", "claim", "pr:7", "--reason", "x", "--ttl", "5h"], "at most 4h"),
        (vec!["bus", "claim", "pr:7", "--reason", "x", "--max-wait", "1h"], "--wait"),
        (vec!["bus", "check", "pr:7", "--epoch", "x"], "epoch"),
        (vec!["bus", "withdraw", "x"], "invalid value"),
    ] {
        let (_, error, code) = home.run(&args);
        assert!(code == 2 && error.contains(words), "{args:?}: {code} {error}");
    }
}
