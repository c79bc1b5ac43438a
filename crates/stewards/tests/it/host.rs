//! Threads on the real daemon in the background, from the command line.

use crate::home::Home;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

#[test]
fn the_daemon_runs_in_the_background_and_says_so() {
    let home = Home::new();
    assert!(home.good(&["serve", "start"]).contains("runs already"));
    assert_eq!(home.json(&["serve", "status"])["running"], true);
    let log = home.good(&["serve", "logs"]);
    assert!(log.contains("Stewards serves") && !log.contains("code="), "whoever reads a log logs in with nothing");
    let mode = |name: &str| home.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("daemon.log"), mode("stewards.db"), mode("daemon.json")), (0o700, 0o600, 0o600, 0o600));
    home.good(&["serve", "stop"]);
    let (out, _, code) = home.run(&["serve", "status"]);
    assert!(code == 1 && out.contains("No daemon runs"), "{out}");
    // What a killed daemon left behind names a process that is not it.
    let pid = std::process::id();
    let stale =
        serde_json::json!({ "pid": pid, "started": "2026-01-01T00:00:00Z", "socket": "/x", "url": "x", "build": "x" });
    std::fs::write(home.data().join("daemon.json"), stale.to_string()).unwrap();
    assert_eq!(home.run(&["serve", "status"]).2, 1);
    // Two at once: one serves, and both say which.
    let said = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| home.good(&["serve", "start"])));
        both.map(|one| one.join().unwrap())
    });
    let pid = home.json(&["serve", "status"])["daemon"]["pid"].to_string();
    assert!(said.iter().all(|s| s.contains(&pid)), "{said:?}");
}

#[test]
fn a_daemon_that_does_not_start_says_why_with_its_own_exit_code() {
    let home = Home::new();
    home.good(&["serve", "stop"]);
    let settings = home.data().join("settings.json");
    std::fs::write(&settings, "{ \"port\": \"none\" }").unwrap();
    let (_, error, code) = home.run(&["serve", "start"]);
    assert!(code == 78 && error.contains("settings.json is not as it should be"), "{code} {error}");
    // Of the last try alone, whatever stood in the log before.
    std::fs::remove_file(&settings).unwrap();
    let database = home.data().join("stewards.db");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", database.display()));
    }
    std::fs::write(&database, "no database ".repeat(1_000)).unwrap();
    let (_, error, code) = home.run(&["serve", "start"]);
    assert!(code == 78 && error.contains("could not be opened") && !error.contains("settings.json"), "{error}");
}

#[test]
fn a_project_is_added_by_a_checkout_of_it() {
    let home = Home::new();
    let root = home.dir.path();
    std::fs::create_dir_all(root.join("acme")).unwrap();
    let clone = ["clone", "--quiet", "--bare", "remote.git", "acme/tools.git"];
    assert!(Command::new("git").args(clone).current_dir(root).output().unwrap().status.success());
    let clone = ["clone", "--quiet", "acme/tools.git", "mine"];
    assert!(Command::new("git").args(clone).current_dir(root).output().unwrap().status.success());
    home.good(&["project", "add", &root.join("mine").display().to_string()]);
    let all = home.json(&["project", "list"]);
    assert!(all.as_array().unwrap().iter().any(|p| p["name"] == "tools" && p["repo"] == "acme/tools"), "{all}");
    let shown = home.good(&["project", "show", "tools"]);
    assert!(shown.contains("repository: acme/tools from") && shown.contains("stewarding is off"), "{shown}");
    let (_, error, code) = home.run(&["project", "delete", "tools"]);
    assert!(code == 1 && error.contains("--yes"), "{error}");
    home.good(&["project", "delete", "tools", "--yes"]);
    assert_eq!(home.json(&["project", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(home.run(&["project", "show", "tools"]).2, 2);
    let (_, error, code) = home.run(&["project", "add", &root.display().to_string()]);
    assert!(code == 2 && error.contains("has no origin"), "{error}");
}

#[test]
fn a_thread_is_started_told_waited_for_put_away_and_brought_back() {
    let home = Home::new();
    let id = home.spawn(&[]);
    assert!(home.good(&["thread", "wait", &id]).contains("idle"));
    home.good(&["thread", "tell", &id, "And now?"]);
    home.good(&["thread", "wait", &id]);
    let shown = home.json(&["thread", "show", &id]);
    assert_eq!(shown["thread"]["turns"], 2);
    assert!(shown["messages"].as_array().unwrap().iter().all(|m| m["state"] == "consumed"));
    home.good(&["thread", "update", &id, "--metadata", "ci/run=17", "--metadata", "seen=\u{1b}[31myes"]);
    let marks = home.json(&["thread", "show", &id])["thread"]["metadata"].clone();
    assert!(marks["ci/run"] == 17 && marks["seen"] == "\u{1b}[31myes", "{marks}");
    home.good(&["thread", "update", &id, "--metadata", "seen="]);
    assert_eq!(home.json(&["thread", "show", &id])["thread"]["metadata"].get("seen"), None);
    let (out, error, code) = home.run(&["thread", "show", "thr_999", "--json"]);
    let refusal = serde_json::from_str::<Value>(&out).unwrap()["refusal"].clone();
    assert!(code == 2 && refusal["code"] == "unknown_thread" && error.contains("Hint:"), "{out} {error}");
    assert_eq!(home.run(&["thread", "update", &id]).2, 2, "nothing is named to be changed");
    let (_, error, code) = home.run(&["thread", "interactions", "thr_999"]);
    assert!(code == 2 && error.contains("no thread is called thr_999"), "{error:?}");
    let child = home.spawn(&["--parent", &id, "--environment", "checkout"]);
    home.good(&["thread", "wait", &child]);
    let (_, error, code) = home.run(&["thread", "archive", &id]);
    assert!(code == 1 && error.contains(&child) && error.contains("--yes"), "{error}");
    home.good(&["thread", "archive", &id, "--yes"]);
    let (_, error, code) = home.run(&["thread", "tell", &id, "Hello?"]);
    assert!(code == 1 && error.contains(&format!("stewards thread unarchive {id}")), "{error}");
    home.good(&["thread", "unarchive", &id]);
    home.good(&["thread", "tell", &id, "Hello again."]);
    home.good(&["thread", "wait", &id]);
    let places = home.json(&["env", "list"]);
    let place = places.as_array().unwrap().iter().find(|p| p["thread"] == id.as_str()).unwrap();
    assert!(place["kind"] == "worktree" && place["bytes"].as_u64().unwrap() > 0, "{place}");
    home.good(&["thread", "delete", &id, "--yes"]);
    let (out, _, code) = home.run(&["thread", "wait", &id]);
    assert!(code == 1 && out.contains("was deleted"), "{out}");
    let (_, error, code) = home.run(&["thread", "unarchive", &id]);
    assert!(code == 1 && error.contains("was deleted"), "{error}");
    assert!(home.json(&["thread", "list", "--all"]).as_array().unwrap().iter().all(|t| t["role"] != "plain"));
}

#[test]
fn stopped_is_stopped_over_a_restart_and_a_copy_brings_back_what_was_known() {
    let home = Home::new();
    let id = home.spawn(&[]);
    home.good(&["thread", "wait", &id]);
    let copy = home.dir.path().join("copy.db").display().to_string();
    home.good(&["backup", &copy]);
    assert_eq!(home.run(&["backup", &copy]).2, 1, "nothing is written over");
    assert_eq!(Path::new(&copy).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    home.good(&["stop", "--all"]);
    home.good(&["serve", "stop"]);
    home.good(&["serve", "start"]);
    assert!(home.good(&["thread", "tell", &id, "Still there?"]).contains("stewards resume"));
    let (out, _, code) = home.run(&["thread", "wait", &id]);
    assert!(code == 1 && out.contains("stewards resume"), "{out}");
    home.good(&["resume"]);
    home.good(&["thread", "wait", &id]);
    assert_eq!(home.json(&["thread", "show", &id])["thread"]["turns"], 2);
    assert_eq!(home.run(&["restore", &copy]).2, 75, "not under a running daemon");
    home.good(&["serve", "stop"]);
    home.good(&["restore", &copy]);
    home.good(&["serve", "start"]);
    assert_eq!(home.json(&["thread", "show", &id])["thread"]["turns"], 1);
}

#[test]
fn many_command_lines_at_once_are_all_served() {
    let home = Home::new();
    let id = home.spawn(&[]);
    home.good(&["thread", "wait", &id]);
    home.good(&["stop", "--all"]);
    std::thread::scope(|scope| {
        for who in 0..8 {
            let (home, id) = (&home, &id);
            scope.spawn(move || {
                for n in 0..10 {
                    home.good(&["thread", "tell", id, &format!("{who} says {n}"), "--mode", "queue-if-active"]);
                }
            });
        }
    });
    assert_eq!(home.json(&["thread", "queue", &id]).as_array().unwrap().len(), 80);
}

/// Writes down each prompt that it reads, a line each, and works a little.
const LISTENER: &str = r#"
import json, sys, time
log = open(sys.argv[1], "a", buffering=1)
def say(m):
    m["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line); p = m.get("params", {})
    if m.get("method") == "initialize":
        say({"id": m["id"], "result": {"protocolVersion": 1, "_meta": {"steering": {"supported": True}}, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}})
    elif m.get("method") in ("session/new", "session/resume"):
        say({"id": m["id"], "result": {"sessionId": "s"}})
    elif m.get("method") in ("session/prompt", "_session/steering"):
        log.write("\n".join(b["text"] for b in p["prompt"]) + "\n")
        say({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "\u001b[31myes"}}}})
        if m["method"] == "_session/steering":
            say({"id": m["id"], "result": {"outcome": "injected"}}); continue
        time.sleep(0.05)
        say({"id": m["id"], "result": {"stopReason": "end_turn"}})
"#;

#[test]
fn a_daemon_that_is_killed_again_and_again_loses_no_message_and_hands_none_over_twice() {
    let home = Home::new();
    home.good(&["serve", "stop"]);
    let (script, heard) = (home.dir.path().join("listener.py"), home.dir.path().join("heard"));
    std::fs::write(&script, LISTENER).unwrap();
    let settings = serde_json::json!({
        "turns_per_hour": 0,
        "providers": {"listener": {"command": "python3", "args": [script, heard]}},
    });
    std::fs::write(home.data().join("settings.json"), settings.to_string()).unwrap();
    home.good(&["serve", "start"]);
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let args = ["thread", "spawn", "--title", "listener", "--model", "listener"];
            home.json(&args)["ids"]["thread"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut draw = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("draws from {draw}");
    let mut next = |n: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % n
    };
    let mut accepted = Vec::new();
    for n in 0..40 {
        let id = &ids[next(3) as usize];
        let mode = ["auto", "queue-if-active"][next(2) as usize];
        let (_, _, code) = home.run(&["thread", "tell", id, &format!("word {n} ends"), "--mode", mode]);
        if code == 0 {
            accepted.push(n);
        }
        if next(5) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(next(120)));
            let status = home.run(&["serve", "status", "--json"]).0;
            let pid = serde_json::from_str::<Value>(&status).unwrap()["daemon"]["pid"].to_string();
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            // It may still answer while it dies.
            while home.run(&["serve", "status"]).2 == 0 {}
            home.good(&["serve", "start"]);
        }
    }
    for id in &ids {
        home.good(&["thread", "wait", id, "--timeout", "60"]);
    }
    let log = home.good(&["thread", "log", &ids[0]]);
    assert!(log.contains("[31myes") && !log.contains('\u{1b}'), "what a terminal would obey reaches none: {log:?}");
    let heard = std::fs::read_to_string(heard).unwrap();
    let times = |n: u64| heard.lines().filter(|l| *l == format!("word {n} ends")).count();
    let states: Vec<Value> = ids.iter().map(|id| home.json(&["thread", "show", id])["messages"].clone()).collect();
    let of = |n: u64| {
        let mut all = states.iter().flat_map(|s| s.as_array().unwrap());
        all.find(|m| m["text"] == format!("word {n} ends")).map(|m| m["state"].as_str().unwrap().to_owned())
    };
    for n in accepted {
        match (of(n).as_deref(), times(n)) {
            (Some("consumed"), 1) | (Some("unknown"), 0 | 1) => {}
            (state, times) => panic!("word {n} is {state:?} and was heard {times} times:\n{heard}"),
        }
    }
}
