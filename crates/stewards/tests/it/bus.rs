//! The bus from the command line, as threads use it.

use crate::home::Home;
use crate::rig::{request, stewards, told};
use serde_json::Value;
use std::process::Command;

/// Leaves its token and socket beside it, by its thread, and ends each turn at once; one
/// that is told to stay when it has been let go.
const KEEPER: &str = r#"
import json, os, sys, time
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
        while "stay" in line and not os.path.exists(os.path.join(sys.argv[1], "go")): time.sleep(0.01)
        say({"id": m["id"], "result": {"stopReason": "end_turn"}})
"#;

pub struct Threads {
    pub home: Home,
    ids: Vec<String>,
}

impl Threads {
    fn new(n: usize) -> Threads {
        Threads::with(n, &serde_json::json!({}))
    }

    /// With further settings.
    pub fn with(n: usize, more: &Value) -> Threads {
        let home = Home::new();
        home.good(&["serve", "stop"]);
        let script = home.dir.path().join("keeper.py");
        std::fs::write(&script, KEEPER).unwrap();
        let mut settings = serde_json::json!({
            "turns_per_hour": 0,
            "providers": {"keeper": {"command": "python3", "args": [script, home.dir.path()]}},
        });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
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

impl Threads {
    /// A request to the tools, as this thread's agent makes it.
    fn tool(&self, who: usize, method: &str, params: Value) -> Value {
        let kept = std::fs::read_to_string(self.home.dir.path().join(&self.ids[who])).unwrap();
        let token = kept.lines().next().unwrap();
        let port: u16 = std::fs::read_to_string(self.home.data().join("port")).unwrap().trim().parse().unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Authorization: Bearer {token}\r\n"
        );
        let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, text) = request(port, &head, body.to_string().as_bytes());
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["result"].clone()
    }

    /// What a tool says, and whether it went well.
    pub fn call(&self, who: usize, name: &str, arguments: Value) -> (String, bool) {
        let result = self.tool(who, "tools/call", serde_json::json!({"name": name, "arguments": arguments}));
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] != true)
    }
}

#[test]
fn tools_and_commands_are_one_door_to_the_bus() {
    let t = Threads::new(2);
    let tools = t.tool(0, "tools/list", serde_json::json!({}));
    let all = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["steward_report", "bus_send", "bus_claim", "bus_release", "bus_heartbeat", "bus_check", "bus_withdraw"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    // All kinds that can be sent, from the one table.
    let send = all.iter().find(|tool| tool["name"] == "bus_send").unwrap();
    let kinds: Vec<&Value> = send["inputSchema"]["properties"]["kind"]["enum"].as_array().unwrap().iter().collect();
    assert_eq!(kinds.len(), 10);
    assert!(send["description"].as_str().unwrap().contains("report: ref, status (working|blocked|done), next"));

    let (said, good) = t.call(0, "bus_claim", serde_json::json!({"resources": ["pr:7"], "reason": "mine"}));
    assert!(good && said.contains("held pr:acme/shop#7"), "{said}");
    assert_eq!(t.run(1, &["bus", "claim", "pr:7", "--reason", "x"]).2, 75);
    let (said, good) =
        t.call(1, "bus_claim", serde_json::json!({"resources": ["pr:007"], "reason": "x", "wait": true}));
    assert!(!good && said.contains("number 1 in line"), "{said}");
    assert!(t.call(0, "bus_release", serde_json::json!({"resource": "pr:7"})).1);
    let (said, _) = t.call(1, "bus_claims", serde_json::json!({"mine": true}));
    assert!(said.contains("\"granted\":true"), "{said}");
    assert!(t.call(1, "bus_check", serde_json::json!({"resource": "pr:7", "epoch": 2})).1);
    assert!(!t.call(0, "bus_check", serde_json::json!({"resource": "pr:7", "epoch": 1})).1);

    let fields = serde_json::json!({"ref": "pr:7", "ask": "ready?"});
    let question = serde_json::json!({"kind": "question", "to": [t.ids[1]], "fields": fields});
    assert!(t.call(0, "bus_send", question).1);
    let answer = serde_json::json!({"kind": "ack", "fields": {"ack_of": "1", "answer": "yes"}});
    assert!(!t.call(0, "bus_send", answer.clone()).1, "only its addressee answers");
    assert!(t.call(1, "bus_unanswered", serde_json::json!({"mine": true})).0.contains("ready?"));
    assert!(t.call(1, "bus_send", answer).1);
    // Left out, null and empty are one thing.
    for nothing in [
        serde_json::json!({}),
        serde_json::json!({"to": null, "fields": null}),
        serde_json::json!({"to": [], "fields": {}}),
    ] {
        let mut asked = serde_json::json!({"kind": "note", "body": "hello"});
        asked.as_object_mut().unwrap().extend(nothing.as_object().unwrap().clone());
        assert!(t.call(0, "bus_send", asked).0.contains("a message needs an addressee"));
    }
    let (said, good) =
        t.call(0, "bus_send", serde_json::json!({"kind": "done", "to": [t.ids[1]], "fields": {"ref": "pr:7"}}));
    assert!(!good && said.contains("a done needs `evidence`") && said.contains("done: ref, evidence"), "{said}");
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
fn eight_processes_write_at_once_and_every_message_is_taken() {
    let t = Threads::new(2);
    let (from, to) = (0, t.ids[1].as_str());
    std::thread::scope(|scope| {
        for process in 0..8 {
            let t = &t;
            scope.spawn(move || {
                for n in 0..7 {
                    let evidence = format!("evidence={process} {n}");
                    t.good(from, &["bus", "done", "--to", to, "--ref", "pr:7", "--field", &evidence]);
                }
            });
        }
    });
    let all: Vec<Value> = serde_json::from_str(&t.good(0, &["bus", "log", "-n", "100", "--json"])).unwrap();
    let seqs: Vec<u64> = all.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=56).collect::<Vec<u64>>());
    let said: std::collections::BTreeSet<&str> = all.iter().map(|m| m["fields"][1][1].as_str().unwrap()).collect();
    assert_eq!(said.len(), 56);
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
    let log = |more: &[&str]| -> Vec<u64> {
        let all = t.good(0, &[&["bus", "log", "--json"], more].concat());
        let all: Vec<Value> = serde_json::from_str(&all).unwrap();
        all.iter().map(|m| m["seq"].as_u64().unwrap()).collect()
    };
    let (me, ago) = (t.ids[0].as_str(), "1h");
    for (more, seqs) in [
        (vec![], vec![1, 2, 3]),
        (vec!["-n", "2"], vec![2, 3]),
        (vec!["--kind", "question"], vec![1, 3]),
        (vec!["--from", me], vec![1, 3]),
        (vec!["--to", me], vec![2]),
        (vec!["--ref", "task:A-1"], vec![1, 3]),
        (vec!["--ref", "task:A-1", "--kind", "ack"], vec![]),
        (vec!["--from", me, "--kind", "question", "--since", ago], vec![1, 3]),
        (vec!["--to", me, "--kind", "ack"], vec![2]),
        (vec!["--from", me, "--to", &to, "--ref", "task:A-1", "--kind", "question"], vec![1, 3]),
        (vec!["--from", me, "--to", &to, "--before", ago], vec![]),
        (vec!["--since", "0m"], vec![]),
    ] {
        assert_eq!(log(&more), seqs, "{more:?}");
    }
    // What is not consumed is undelivered; of whom it waits for it is unread.
    t.home.good(&["thread", "wait", &to]);
    t.home.good(&["stop", "--all"]);
    t.good(0, &["bus", "note", "--to", &to, "--body-file", &t.home.dir.path().join("prompt.md").display().to_string()]);
    assert_eq!(log(&["--undelivered"]), [4]);
    assert!(t.good(1, &["bus", "log", "--unread"]).contains("(queued): [bus #4 note"));
    assert_eq!(t.good(0, &["bus", "log", "--unread", "--json"]).trim(), "[]");
    assert_eq!(t.home.run(&["bus", "log", "--unread"]).2, 2);
    t.home.good(&["resume"]);
    t.home.good(&["thread", "wait", &to]);
    assert!(log(&["--undelivered"]).is_empty());
    t.good(0, &["bus", "withdraw", "3"]);
    assert_eq!(t.run(0, &["bus", "withdraw", "3"]).2, 1);
}

#[test]
fn what_a_thread_is_shown_of_its_unread_messages_counts_as_read_and_what_failed_goes_out_again() {
    let t = Threads::new(2);
    let to = t.ids[1].clone();
    t.home.good(&["thread", "tell", &to, "stay"]);
    t.home.until(|home| home.json(&["thread", "show", &to])["thread"]["status"] == "active");
    let done = |words: &str| {
        let field = format!("evidence={words}");
        t.good(0, &["bus", "done", "--to", &to, "--ref", "pr:7", "--field", &field, "--json"])
    };
    let receipt: Value = serde_json::from_str(&done("one")).unwrap();
    assert_eq!((&receipt["receipts"][0]["how"], &receipt["receipts"][0]["bus"]), (&"queued".into(), &1.into()));
    assert_eq!(receipt["receipts"][0]["waits_for"], "the end of its turn");
    done("two");
    // Another spelling of the same pull finds them.
    assert_eq!(t.good(0, &["bus", "log", "--ref", "pr:acme/shop#007"]).lines().count(), 2);
    let shown = t.good(1, &["bus", "log", "--unread", "-n", "1"]);
    assert!(shown.contains("\"one\"") && !shown.contains("\"two\""), "{shown}");
    let shown = t.good(1, &["bus", "log", "--unread"]);
    assert!(shown.contains("\"two\"") && !shown.contains("\"one\""), "only what was shown was read: {shown}");
    assert!(t.good(1, &["bus", "log", "--unread"]).is_empty());
    done("three");
    let (said, good) = t.call(1, "bus_unread", serde_json::json!({}));
    assert!(good && said.contains("evidence=\"three\""), "{said}");
    assert_eq!(t.call(1, "bus_unread", serde_json::json!({})).0, "Nothing waits.");
    assert!(t.good(0, &["bus", "log", "--undelivered"]).is_empty());

    t.home.good(&["stop", "--all"]);
    done("four");
    t.home.good(&["thread", "archive", &to, "--yes"]);
    assert!(t.good(0, &["bus", "log", "--undelivered"]).contains("(failed): [bus #4"));
    let stats: Value = serde_json::from_str(&t.good(0, &["bus", "stats", "--json"])).unwrap();
    assert_eq!((&stats["messages"], &stats["undelivered"]["failed"]), (&4.into(), &1.into()));
    assert!(t.good(0, &["bus", "stats"]).contains("Not delivered: 1 failed"));
    assert_eq!(t.run(0, &["bus", "retry", "4"]).2, 1, "it is archived");
    t.home.good(&["thread", "unarchive", &to]);
    t.home.good(&["resume"]);
    assert!(t.good(0, &["bus", "retry", "4"]).contains("#4 done is delivered again"));
    t.home.good(&["thread", "wait", &to]);
    assert_eq!(t.run(0, &["bus", "retry", "4"]).2, 1, "it was delivered");
    assert!(t.good(0, &["bus", "stats", "--since", "1h"]).contains("Everything was delivered."));
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
}

/// Bad input of every verb, with what it says and exits with: `bus_refusals.txt` is
/// written anew by `BLESS=1`, and read by whoever changes it.
#[test]
fn every_verb_refuses_bad_input_in_a_sentence_with_a_hint() {
    let t = Threads::new(2);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/bus_refusals.txt");
    let folder = t.home.dir.path();
    std::fs::write(folder.join("long"), "x".repeat(601)).unwrap();
    std::fs::write(folder.join("blank"), " \n").unwrap();
    std::fs::write(folder.join("binary"), [0xff, 0xfe, 0x00]).unwrap();
    let mut kept = String::new();
    for line in include_str!("bus_refusals.txt").lines().filter_map(|l| l.strip_prefix("$ stewards ")) {
        let typed = line.replace("THREAD", &t.ids[1]);
        let args: Vec<&str> = typed.split(' ').map(|a| if a == "''" { "" } else { a }).collect();
        let mut command = t.command(0, &args);
        let (out, error, code) = told(&command.current_dir(folder).output().unwrap());
        assert!(code != 0, "{line}: {out}");
        let said = error.replace(&t.ids[1], "THREAD").replace(&t.ids[0], "ME");
        kept.push_str(&format!("$ stewards {line}\n{}\n[{code}]\n\n", said.trim_end()));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, &kept).unwrap();
    }
    assert_eq!(kept, include_str!("bus_refusals.txt"));
}
