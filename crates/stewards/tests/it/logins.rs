//! Logging in from the command line, at a twin.

use crate::bus::Threads;
use crate::home::Home;
use crate::rig::{request, stewards, told};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A twin as a process, and an empty data directory whose settings name it.
pub struct Outside {
    pub dir: tempfile::TempDir,
    twin: Child,
    pub port: u16,
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.twin.kill();
        let _ = self.twin.wait();
    }
}

impl Outside {
    pub fn new() -> Outside {
        let dir = tempfile::tempdir().unwrap();
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port, back) = (free(), free());
        let config = json!({
            "dir": dir.path().join("twin"), "linear_url": "", "linear_secret": "", "github_url": "",
            "github_secret": "", "linear_token": "lin_api_mine", "github_token": "ghp_mine", "ci_delay_ms": 0,
            "socket": dir.path().join("gh.sock"),
        });
        let file = dir.path().join("twin.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let twin = stewards(&["twin", "--port", &port.to_string(), "--config"]).arg(&file).spawn().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let base = format!("http://127.0.0.1:{port}");
        let settings = json!({
            "linear_url": format!("{base}/linear/graphql"), "github_api": format!("{base}/github"), "login_port": back,
        });
        std::fs::write(home.join("settings.json"), settings.to_string()).unwrap();
        let outside = Outside { dir, twin, port };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 20, "the twin does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        outside.control("user", json!({"login": "ann", "name": "Ann", "me": true}));
        outside
    }

    pub fn control(&self, what: &str, body: Value) -> Value {
        let head = format!("POST /control/{what} HTTP/1.1\r\nAuthorization: Bearer ghp_mine\r\n");
        let (status, text) = request(self.port, &head, body.to_string().as_bytes());
        assert!((200..300).contains(&status), "{status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = stewards(args);
        // No `gh` of the machine, but git.
        command.env("STEWARDS_DIR", self.home()).env("PATH", "/nowhere").env_remove("STEWARDS_THREAD");
        command
    }

    pub fn run(&self, args: &[&str]) -> (String, String, i32) {
        told(&self.command(args).output().unwrap())
    }

    fn piped(&self, args: &[&str], text: &str) -> (String, String, i32) {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        told(&child.wait_with_output().unwrap())
    }

    /// A login of which something has to be done outside: `act` gets the line that tells it.
    fn meanwhile(&self, args: &[&str], tells: &str, act: impl FnOnce(&str)) -> (String, i32) {
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|l| l.ok().filter(|l| l.contains(tells))).expect("it says what to do");
        act(&line);
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        (out + &rest.join("\n"), child.wait().unwrap().code().unwrap())
    }
}

/// A GET of an address at loopback: status, where it leads, and what it says.
fn get(url: &str) -> (u16, String, String) {
    let rest = url.strip_prefix("http://127.0.0.1:").unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    let mut line = std::net::TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    write!(line, "GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    let status = answer[9..12].parse().unwrap();
    let to = answer.lines().find_map(|l| l.strip_prefix("location: ")).unwrap_or_default().to_owned();
    (status, to, answer)
}

#[test]
fn a_pasted_token_is_tried_before_it_is_kept_and_is_never_shown() {
    let o = Outside::new();
    let (out, _, code) = o.run(&["whoami"]);
    assert!(code == 1 && out.contains("Linear: not logged in (stewards login linear)"), "{out}");
    let (_, error, code) = o.run(&["login", "linear"]);
    assert!(code == 2 && error.contains("--with-token"), "{error}");
    for (typed, exit) in [("", 2), ("two words", 2), ("wrong", 1)] {
        let (_, error, code) = o.piped(&["login", "linear", "--with-token"], typed);
        assert_eq!(code, exit, "{error}");
    }
    assert!(!o.home().join("logins.json").exists(), "nothing was kept");
    let (out, _, code) = o.piped(&["login", "linear", "--with-token"], "lin_api_mine\n");
    assert!(code == 0 && out.contains("Logged in at Linear as Ann."), "{out}");
    let (out, _, code) = o.piped(&["login", "github", "--with-token", "--json"], "ghp_mine\n");
    assert!(code == 0 && out.contains("\"who\": \"ann\""), "{out}");
    assert_eq!(o.home().join("logins.json").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (out, _, code) = o.run(&["whoami"]);
    assert!(code == 0 && out.contains("Linear: Ann (token)") && out.contains("GitHub: ann (token)"), "{out}");
    let shown = o.run(&["whoami", "--json"]).0;
    assert!(!shown.contains("lin_api_mine") && !shown.contains("ghp_mine"), "{shown}");
    assert!(o.run(&["logout", "linear"]).0.contains("Logged out at Linear."));
    assert_eq!(o.run(&["logout", "linear"]).2, 1);
    // GitHub alone is whole.
    assert_eq!(o.run(&["whoami"]).2, 0);
    // An agent's process does not log anybody in.
    let (_, error, code) = told(&o.command(&["logout", "github"]).env("STEWARDS_THREAD", "thr_1").output().unwrap());
    assert!(code == 1 && error.contains("only the owner"), "{error}");
}

#[test]
fn a_login_in_the_browser_comes_back_on_loopback_and_logging_out_takes_the_token_back() {
    let o = Outside::new();
    let args = ["login", "linear", "--client-id", "app-1", "--no-browser"];
    let (said, code) = o.meanwhile(&args, "/oauth/authorize?", |url| {
        let (status, back, _) = get(url);
        assert_eq!(status, 302);
        // Somebody else's word is refused, and the login still waits.
        let other = back.split("state=").next().unwrap().to_owned() + "state=guess";
        assert_eq!(get(&other).0, 400);
        assert!(get(&back).2.contains("Logged in."));
    });
    assert!(code == 0 && said.contains("Logged in at Linear as Ann."), "{said}");
    assert!(o.run(&["whoami"]).0.contains("Linear: Ann (browser, renewed before "));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(o.home().join("logins.json")).unwrap()).unwrap();
    let token = kept["linear"]["token"].as_str().unwrap();
    o.run(&["logout", "linear"]);
    let (_, error, code) = o.piped(&["login", "linear", "--with-token"], token);
    assert!(code == 1 && error.contains("does not take this login"), "it was taken back: {error}");
    // A no is a no.
    o.control("logins", json!({"denies": true}));
    let (said, code) = o.meanwhile(&args, "/oauth/authorize?", |url| drop(get(&get(url).1)));
    assert!(code == 1 && said.contains("access_denied"), "{said}");
}

#[test]
fn an_agent_reads_tickets_as_whoever_is_logged_in_and_changes_none() {
    let o = Outside::new();
    o.control("team", json!({"key": "DEMO", "name": "Demo"}));
    for (key, title, assignee) in [("DEMO-1", "The login page is slow", "ann"), ("DEMO-2", "A page for logs", "ann")] {
        let ticket = json!({"key": key, "team": "DEMO", "title": title, "description": "please", "labels": [],
            "assignee": assignee, "state": "Todo"});
        o.control("ticket", ticket);
    }
    let t = Threads::with(1, &json!({"linear_url": format!("http://127.0.0.1:{}/linear/graphql", o.port)}));
    let (said, good) = t.call(0, "linear_issue", json!({"key": "DEMO-1"}));
    assert!(!good && said.contains("nobody is logged in to Linear: stewards login linear"), "{said}");
    // A login counts at once, for a daemon that runs.
    let mut login = stewards(&["login", "linear", "--with-token", "--dir"]);
    let login = login.arg(t.home.data()).env_remove("STEWARDS_THREAD").stdin(Stdio::piped());
    let mut login = login.stdout(Stdio::null()).spawn().unwrap();
    login.stdin.take().unwrap().write_all(b"lin_api_mine").unwrap();
    assert!(login.wait().unwrap().success());
    let (said, good) = t.call(0, "linear_issue", json!({"key": "DEMO-1"}));
    assert!(good && said.contains("The login page is slow") && said.contains("\"team\": \"DEMO\""), "{said}");
    assert!(!t.call(0, "linear_issue", json!({"key": "DEMO-9"})).1);
    let found = |ask: Value| {
        let (said, good) = t.call(0, "linear_search", ask);
        (["DEMO-1", "DEMO-2"].into_iter().filter(|k| said.contains(k)).collect::<Vec<_>>().len(), good, said)
    };
    assert_eq!(found(json!({"query": "PAGE"})).0, 2);
    assert_eq!(found(json!({"query": "login page", "assignee": "me"})).0, 1);
    assert_eq!(found(json!({"query": "", "assignee": "nobody"})).0, 0);
    assert_eq!(found(json!({"query": "", "state": "todo", "limit": 1})).0, 1);
    let (_, good, said) = found(json!({"query": "", "team": "NOPE"}));
    assert!(!good && said.contains("no team has the key NOPE; there are DEMO"), "{said}");
    let (_, good, said) = found(json!({"query": "", "state": "Doing"}));
    assert!(!good && said.contains("no state is called Doing; there are Backlog, Canceled, Done"), "{said}");
    let (said, good) = t.call(0, "linear_query", json!({"query": "{ viewer { name } }"}));
    assert!(good && said.contains("Ann"), "{said}");
    let (said, good) = t.call(0, "linear_query", json!({"query": "mutation { x }"}));
    assert!(!good && said.contains("a mutation does not"), "{said}");
}

/// A twin with one ticket, and a daemon with a thread that may change it.
fn with_a_ticket() -> (Outside, Threads) {
    let o = Outside::new();
    o.control("team", json!({"key": "DEMO", "name": "Demo"}));
    o.control(
        "ticket",
        json!({"key": "DEMO-1", "team": "DEMO", "title": "A page", "description": "please", "labels": [],
        "assignee": "ann", "state": "Todo"}),
    );
    let t = Threads::with(1, &json!({"linear_url": format!("http://127.0.0.1:{}/linear/graphql", o.port)}));
    let mut login = stewards(&["login", "linear", "--with-token", "--dir"]);
    let login = login.arg(t.home.data()).env_remove("STEWARDS_THREAD").stdin(Stdio::piped());
    let mut login = login.stdout(Stdio::null()).spawn().unwrap();
    login.stdin.take().unwrap().write_all(b"lin_api_mine").unwrap();
    assert!(login.wait().unwrap().success());
    (o, t)
}

#[test]
fn an_agent_changes_tickets_signed_and_once_whatever_is_lost_on_the_way() {
    let (o, t) = with_a_ticket();
    let comments = || {
        let (said, _) = t.call(0, "linear_issue", json!({"key": "DEMO-1"}));
        (said.matches("\"body\"").count(), said)
    };
    let comment = json!({"key": "demo-1", "body": "I look into it."});
    let (said, good) = t.call(0, "linear_comment", comment.clone());
    assert!(good && said.contains("Done: comment on DEMO-1. http"), "{said}");
    let (said, good) = t.call(0, "linear_comment", comment);
    assert!(good && said.contains("not written twice"), "{said}");
    let (count, said) = comments();
    assert!(count == 1 && said.contains("stewards:signed thr_"), "{said}");
    // The service takes it and the answer is lost.
    let lost = json!({"route_prefix": "/linear", "contains": "commentCreate", "status": 502, "after": true});
    o.control("fault", lost);
    let (said, good) = t.call(0, "linear_comment", json!({"key": "DEMO-1", "body": "And again."}));
    assert!(good && said.contains("Done: comment on DEMO-1."), "{said}");
    assert_eq!(comments().0, 2, "{}", comments().1);
    let (said, good) = t.call(0, "linear_update_issue", json!({"key": "DEMO-1", "state": "Doing"}));
    assert!(!good && said.contains("no state of DEMO is called Doing; there are Backlog"), "{said}");
    let (said, good) =
        t.call(0, "linear_update_issue", json!({"key": "DEMO-1", "state": "in progress", "priority": "high"}));
    assert!(good && said.contains("Done: DEMO-1 to In Progress, priority 2."), "{said}");
    let long = format!("# Log\n{}", "a line\n".repeat(10_000));
    let (said, good) = t.call(
        0,
        "linear_create_issue",
        json!({"team": "DEMO", "title": "More", "description": long, "assignee": "me", "parent": "DEMO-1"}),
    );
    assert!(good && said.contains("shortened") && said.contains("Done: new ticket in DEMO: More."), "{said}");
    let session = o.control("session", json!({"ticket": "DEMO-1"}))["id"].clone();
    let (said, good) = t.call(0, "linear_session_reply", json!({"session": session, "body": "It is done."}));
    assert!(good && said.contains("Done: reply to the session"), "{said}");
    let (said, good) = t.call(0, "linear_session_reply", json!({"session": session, "body": "Really."}));
    assert!(good && said.contains("not written twice"), "{said}");
    for (tool, ask, words) in [
        ("linear_comment", json!({"key": "DEMO-9", "body": "x"}), "no ticket has the key DEMO-9"),
        ("linear_comment", json!({"key": "DEMO-1", "body": " "}), "the comment is empty"),
        ("linear_update_issue", json!({"key": "DEMO-1"}), "nothing is to be changed"),
        ("linear_create_issue", json!({"team": "DEMO", "title": "x".repeat(501)}), "more than 500 characters"),
    ] {
        let (said, good) = t.call(0, tool, ask);
        assert!(!good && said.contains(words), "{tool}: {said}");
    }
}

#[test]
fn github_is_logged_in_to_by_its_own_gh_or_by_a_code_that_is_typed_in() {
    let o = Outside::new();
    let (_, error, code) = o.run(&["login", "github", "--web"]);
    assert!(code == 2 && error.contains("--client-id"), "{error}");
    let args = ["login", "github", "--client-id", "app-2", "--no-browser"];
    let (said, code) = o.meanwhile(&args, "type in: ", |line| {
        let typed = line.rsplit(' ').next().unwrap();
        o.control("logins", json!({"typed": typed}));
    });
    assert!(code == 0 && said.contains("Logged in at GitHub as ann."), "{said}");
    assert!(o.run(&["whoami"]).0.contains("GitHub: ann (device)"));
    let bin = o.dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let gh = format!("#!/bin/sh\n[ \"$*\" = 'auth token --hostname 127.0.0.1:{}' ] && echo ghp_mine\n", o.port);
    std::fs::write(bin.join("gh"), gh).unwrap();
    std::fs::set_permissions(bin.join("gh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let (out, error, code) = told(&o.command(&["login", "github"]).env("PATH", path).output().unwrap());
    assert!(code == 0 && out.contains("as ann"), "{out}{error}");
    assert!(o.run(&["whoami"]).0.contains("GitHub: ann (gh)"));
}

#[test]
fn status_says_on_one_screen_how_everything_stands_with_a_daemon_and_without() {
    let home = Home::new();
    let shown = home.good(&["status"]);
    for words in [
        "Daemon: pid ",
        "Linear: not logged in",
        "GitHub: not logged in (stewards login github)",
        "Webhooks: no public address",
        "News of GitHub: no webhook has come yet; ",
        ", every 1 min",
        "Threads: 0 open, 0 at work",
        "Disk: database ",
        "Project shop (acme/shop): off, not swept yet",
        "Needs you: nothing",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let row = home.json(&["status"]);
    assert_eq!((&row["projects"][0]["on"], &row["threads"]["live"]), (&false.into(), &0.into()));
    assert!(row["disk"]["database"].as_u64().unwrap() > 0 && row["logins"].as_array().unwrap().is_empty());
    home.good(&["serve", "stop"]);
    assert!(home.good(&["status"]).contains("Daemon: not running (stewards serve start)"));
    // Where nothing has ever run.
    let empty = tempfile::tempdir().unwrap();
    let (out, error, code) = told(&stewards(&["status", "--dir"]).arg(empty.path()).output().unwrap());
    assert!(code == 0 && out.contains("Projects: none (stewards project add)"), "{out}{error}");
}
