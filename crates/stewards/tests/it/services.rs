//! Linear and GitHub as a daemon meets them: webhooks, quotas, what the files name.

use crate::logins::Outside;
use crate::rig::{file, request, stewards, told};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A twin with a team and a repository, logged in to, and a daemon with the project on.
struct Place {
    o: Outside,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.o.run(&["serve", "stop"]);
    }
}

fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]).args(args).current_dir(dir);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0").env("no_proxy", "127.0.0.1");
    let out = git.output().unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn login(o: &Outside, service: &str, token: &str) {
    let mut command = o.command(&["login", service, "--with-token"]);
    let mut login = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut login.stdin.take().unwrap(), token.as_bytes()).unwrap();
    assert!(login.wait().unwrap().success());
}

impl Place {
    fn new() -> Place {
        let o = Outside::new();
        o.control("team", json!({"key": "DEMO", "name": "Demo"}));
        o.control("label", json!({"team": "DEMO", "name": "bb-managed"}));
        let files = json!({
            "README.md": "hello\n",
            ".bb/stewards/project.json": json!({"linear": {"teams": ["DEMO"]}, "label": "bb-managed"}).to_string(),
        });
        o.control("repo", json!({"owner": "acme", "name": "shop", "files": files}));
        login(&o, "linear", "lin_api_mine");
        login(&o, "github", "ghp_mine");
        Place { o }
    }

    fn serve(&self) {
        let mut command = self.o.command(&["serve", "start"]);
        // git is needed to read the project's files.
        let (out, error, code) = told(&command.env("PATH", std::env::var("PATH").unwrap()).output().unwrap());
        assert_eq!(code, 0, "{out}{error}");
    }

    fn add(&self) {
        let remote = format!("http://x:ghp_mine@127.0.0.1:{}/git/acme/shop.git", self.o.port);
        let args = ["project", "add", "shop", "--repo", "acme/shop", "--remote", &remote];
        assert_eq!(self.o.run(&args).2, 0);
        assert_eq!(self.o.run(&["enable"]).2, 0);
        self.until("the files are read", || self.json(&["hooks"])["callers"].as_array().unwrap().len() == 2);
    }

    fn json(&self, args: &[&str]) -> Value {
        let (out, error, _) = self.o.run(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}{error}"))
    }

    #[track_caller]
    fn until(&self, what: &str, so: impl Fn() -> bool) {
        let began = Instant::now();
        while !so() {
            assert!(began.elapsed().as_secs() < 30, "{what}: it never came to that");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn service(&self, name: &str) -> Value {
        let all = self.json(&["status"])["services"].clone();
        all.as_array().unwrap().iter().find(|s| s["service"] == name).unwrap().clone()
    }

    fn comment(&self, words: &str) {
        let head = "POST /github/repos/acme/shop/issues/1/comments HTTP/1.1\r\nAuthorization: Bearer ghp_mine\r\n";
        let (status, text) = request(self.o.port, head, json!({"body": words}).to_string().as_bytes());
        assert_eq!(status, 201, "{text}");
    }
}

#[test]
fn webhooks_are_set_up_where_the_login_may_and_what_was_lost_meanwhile_is_fetched() {
    let p = Place::new();
    let (_, error, code) = p.o.run(&["hooks", "install"]);
    assert!(code == 2 && error.contains("under which address"), "{error}");
    p.serve();
    let daemon: Value = serde_json::from_slice(&std::fs::read(p.o.home().join("daemon.json")).unwrap()).unwrap();
    let url = daemon["url"].as_str().unwrap().to_owned();
    let (_, error, code) = p.o.run(&["hooks", "install", "--url", "http://example.com"]);
    assert!(code == 2 && error.contains("is no https address"), "{error}");
    let (_, error, code) = p.o.run(&["hooks", "install", "--url", &url]);
    assert!(code == 1 && error.contains("no project"), "{error}");
    p.add();
    let (out, error, code) = p.o.run(&["hooks", "install"]);
    assert!(code == 0 && out.contains("Linear team DEMO: set up"), "{out}{error}");
    assert!(out.contains("GitHub repository acme/shop: set up"), "{out}");
    assert!(p.o.run(&["hooks", "install"]).0.contains("was there, and is set anew"));
    let shown = p.json(&["hooks"]);
    assert!(shown["callers"].as_array().unwrap().iter().all(|c| c["installed"] == true), "{shown}");
    let secrets: Value = serde_json::from_slice(&std::fs::read(p.o.home().join("secrets.json")).unwrap()).unwrap();
    assert_eq!(shown["services"][1]["secret"], secrets["github_webhook"]);
    // They come, and are taken.
    p.o.control(
        "ticket",
        json!({"key": "DEMO-1", "team": "DEMO", "title": "x", "labels": [], "assignee": "ann", "state": "Todo"}),
    );
    p.until("Linear is heard", || p.service("linear")["hears"] == true);
    let work = p.o.dir.path().join("work");
    let remote = format!("http://x:ghp_mine@127.0.0.1:{}/git/acme/shop.git", p.o.port);
    git(p.o.dir.path(), &["clone", "-q", &remote, "work"]);
    git(&work, &["checkout", "-q", "-b", "fix"]);
    file(&work, "more.txt", "more\n");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "more"]);
    git(&work, &["push", "-q", "origin", "fix"]);
    p.until("GitHub is heard", || p.service("github")["hears"] == true);
    assert_eq!(p.service("github")["every"], 30 * 60_000);
    let head = "POST /github/repos/acme/shop/pulls HTTP/1.1\r\nAuthorization: Bearer ghp_mine\r\n";
    let pull = json!({"title": "Greet", "head": "fix", "base": "main", "body": ""}).to_string();
    assert_eq!(request(p.o.port, head, pull.as_bytes()).0, 201);
    // While it is down GitHub cannot reach it, and does not try again.
    p.o.run(&["serve", "stop"]);
    p.comment("are you there?");
    std::thread::sleep(Duration::from_millis(500));
    p.serve();
    let taken = || {
        let store = stewards_store::Reader::open(&p.o.home().join(stewards_store::FILE)).unwrap();
        let journal = store.journal(0, 100_000).unwrap();
        journal.iter().any(|line| format!("{line:?}").contains("issue_comment created"))
    };
    p.until("what was lost is fetched", taken);
}

#[test]
fn check_asks_the_services_for_what_the_files_name() {
    let p = Place::new();
    let dir = p.o.dir.path().join("repo");
    std::fs::create_dir(&dir).unwrap();
    git(&dir, &["init", "-q"]);
    let remote = format!("http://127.0.0.1:{}/acme/shop.git", p.o.port);
    git(&dir, &["remote", "add", "origin", &remote]);
    let check = |more: &[&str]| {
        let mut command = p.o.command(&[&["check"], more].concat());
        told(&command.current_dir(&dir).env("PATH", std::env::var("PATH").unwrap()).output().unwrap())
    };
    assert_eq!(told(&p.o.command(&["init", "--team", "DEMO"]).current_dir(&dir).output().unwrap()).2, 0);
    let (out, error, code) = check(&[]);
    assert!(code == 0 && out.contains("nothing"), "{out}{error}");
    let project = std::fs::read_to_string(dir.join(".bb/stewards/project.json")).unwrap();
    file(
        &dir,
        ".bb/stewards/project.json",
        &project.replace("\"DEMO\"", "\"DEMO\", \"NOPE\"").replace("bb-managed", "ours"),
    );
    let playbook = dir.join(".bb/stewards/playbooks/linear-tickets.md");
    let text = std::fs::read_to_string(&playbook).unwrap();
    file(&dir, ".bb/stewards/playbooks/linear-tickets.md", &text.replace("In Review", "Checking"));
    file(&dir, ".bb/repos.json", "[\n  \"https://github.com/acme/none\"\n]\n");
    let roles = "{\n  \"bob\": {\n    \"ops\": {\"team\": \"X\", \"dependabot\": [\"shop\", \"nothere\"]}\n  }\n}\n";
    file(&dir, ".bb/stewards/roles.json", roles);
    let (out, _, code) = check(&[]);
    assert_eq!(code, 78, "{out}");
    for words in [
        ".bb/stewards/project.json:",
        "no team has the key NOPE; there are DEMO",
        "the team DEMO has no label ours; make it in Linear, or name one of bb-managed",
        "the team DEMO has no state Checking; it has Backlog",
        "the state In Review of the team DEMO is in no phase",
        ".bb/repos.json:2: there is no repository acme/none",
        ".bb/stewards/roles.json:3: the team X of bob is none of the project's: DEMO, NOPE",
        ".bb/stewards/roles.json:2: GitHub knows no login bob",
        ".bb/stewards/roles.json:3: nothere is no repository of the project: acme/shop, acme/none",
        ".bb/stewards/roles.json: no role for ann",
        ".bb/stewards/roles.json: no login has `projectSteward`",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let lines: Vec<&str> = out.lines().filter(|l| l.contains("no state Checking")).collect();
    assert!(lines.len() == 1 && !lines[0].contains("md: "), "{lines:?}");
    assert_eq!(check(&["--offline"]).2, 78, "the team is wrong whatever the services say");
    file(&dir, ".bb/stewards/roles.json", "{\"ann\": {\"projectSteward\": true}}");
    assert_eq!(check(&["--offline"]).2, 0);
    // Nobody is logged in: that is said, and no fault of the files.
    p.o.run(&["logout", "linear"]);
    file(&dir, ".bb/repos.json", "[]");
    let (out, _, code) = check(&[]);
    assert!(code == 0 && out.contains("Linear was not asked: nobody is logged in"), "{out}");
}

#[test]
fn tickets_are_read_on_the_command_line() {
    let p = Place::new();
    p.o.control(
        "ticket",
        json!({"key": "DEMO-1", "team": "DEMO", "title": "A slow page", "description": "please", "labels": [],
        "assignee": "ann", "state": "Todo"}),
    );
    let (out, error, code) = p.o.run(&["linear", "issue", "demo-1"]);
    assert!(code == 0 && out.contains("DEMO-1 A slow page") && out.contains("Todo, priority 0"), "{out}{error}");
    assert!(p.o.run(&["linear", "search", "slow", "page", "--assignee", "me"]).0.contains("A slow page"));
    assert!(p.o.run(&["linear", "search", "fast"]).0.contains("Nothing fits."));
    assert_eq!(p.json(&["linear", "search", "slow"])[0]["key"], "DEMO-1");
    let (out, _, _) = p.o.run(&[
        "linear",
        "query",
        "query($id: String!) { issue(id: $id) { title } }",
        "--variables",
        "{\"id\": \"DEMO-1\"}",
    ]);
    assert!(out.contains("A slow page"), "{out}");
    for (args, words, exit) in [
        (&["linear", "issue", "DEMO-9"][..], "Entity not found", 2),
        (&["linear", "issue", " "], "the key is empty", 2),
        (&["linear", "search", "x", "--team", "NOPE"], "no team has the key NOPE", 2),
        (&["linear", "query", "mutation { x }"], "a mutation does not", 2),
        (&["linear", "query", "{ viewer { id } }", "--variables", "x"], "no JSON", 2),
    ] {
        let (_, error, code) = p.o.run(args);
        assert!(code == exit && error.contains(words), "{args:?}: {code} {error}");
    }
    p.o.run(&["logout", "linear"]);
    let (_, error, code) = p.o.run(&["linear", "issue", "DEMO-1"]);
    assert!(code == 1 && error.contains("nobody is logged in to Linear: stewards login linear"), "{error}");
}

#[test]
fn what_was_asked_and_what_is_left_is_told() {
    let p = Place::new();
    let (_, error, code) = p.o.run(&["usage", "--api"]);
    assert!(code == 69 && error.contains("no daemon"), "{error}");
    p.serve();
    p.add();
    p.until("Linear was asked", || !p.json(&["usage", "--api"]).as_array().unwrap().is_empty());
    let shown = p.o.run(&["usage", "--api"]).0;
    assert!(shown.contains("Quota of Linear (requests): ") && shown.contains("of 5000 left"), "{shown}");
    assert!(p.o.run(&["status"]).0.contains("Quota of Linear (requests): "));
}

#[test]
fn the_schemas_take_what_is_read_and_refuse_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    let run =
        |args: &[&str]| told(&stewards(args).current_dir(dir.path()).env("STEWARDS_DIR", dir.path()).output().unwrap());
    assert_eq!(run(&["init", "--team", "DEMO"]).2, 0);
    let schema = |name: &str| -> jsonschema::Validator {
        let (out, _, code) = run(&["config", "schema", name]);
        assert_eq!(code, 0);
        jsonschema::validator_for(&serde_json::from_str(&out).unwrap()).unwrap()
    };
    let read = |name: &str| std::fs::read_to_string(dir.path().join(".bb").join(name)).unwrap();
    let project: Value = serde_json::from_str(&read("stewards/project.json")).unwrap();
    assert!(schema("project").is_valid(&project), "{project}");
    for bad in
        [json!({"linear": {"teams": "DEMO"}}), json!({"lable": "x"}), json!({"adoption": {"perPass": 0}}), json!([])]
    {
        assert!(!schema("project").is_valid(&bad), "{bad}");
    }
    let text = read("stewards/playbooks/linear-tickets.md");
    let front = text.split("---\n").nth(1).unwrap();
    let front: Value = serde_saphyr::from_str(front).unwrap();
    assert!(schema("playbook").is_valid(&front), "{front}");
    for bad in [
        json!({"name": "x"}),
        json!({"name": "x", "kind": "tickets"}),
        json!({"name": "x", "kind": "pr", "phases": {"Todo": {"stage": "begin"}}}),
        json!({"name": "x", "kind": "pr", "requeue-default": "soon"}),
    ] {
        assert!(!schema("playbook").is_valid(&bad), "{bad}");
    }
    assert!(schema("repos").is_valid(&json!({"repos": ["https://x/a/b", {"url": "https://x/a/c", "branch": "next"}]})));
    assert!(!schema("repos").is_valid(&json!([{"branch": "next"}])));
    let roles = json!({"ann": {"projectSteward": true, "ops": {"k8sNamespaces": ["web"], "dependabot": "all"}}});
    assert!(schema("roles").is_valid(&roles));
    assert!(!schema("roles").is_valid(&json!({"ann": {"ops": {"dependabot": "some"}}})));
}

#[test]
fn a_twin_of_ones_own_is_logged_in_to_and_keeps_what_was_said_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("try");
    let (_, error, code) = told(&stewards(&["twin"]).env_remove("STEWARDS_DIR").output().unwrap());
    assert!(code == 2 && error.contains("a data directory of its own"), "{error}");
    let start = || {
        let mut command = stewards(&["--json", "twin", "--dir"]);
        let mut child = command.arg(&home).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut text = String::new();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        let shown: Value = loop {
            assert!(std::io::BufRead::read_line(&mut lines, &mut text).unwrap() > 0, "{text}");
            if let Ok(shown) = serde_json::from_str(&text) {
                break shown;
            }
        };
        let port: u16 = shown["control"].as_str().unwrap().split([':', '/']).nth(4).unwrap().parse().unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 20, "the twin does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        (child, shown, port)
    };
    let (mut child, shown, port) = start();
    let control = |what: &str, body: Value| {
        let token = shown["github_token"].as_str().unwrap();
        let head = format!("POST /control/{what} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n");
        assert_eq!(request(port, &head, body.to_string().as_bytes()).0, 200);
    };
    control("user", json!({"login": "ann", "name": "Ann", "me": true}));
    control("team", json!({"key": "DEMO", "name": "Demo"}));
    let whoami = || told(&stewards(&["whoami", "--dir"]).arg(&home).output().unwrap());
    let (out, error, code) = whoami();
    assert!(code == 0 && out.contains("Linear: Ann") && out.contains("GitHub: ann"), "{out}{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Killed and started again: the same one, at the same place.
    let (mut child, again, _) = start();
    assert_eq!(again, shown);
    assert_eq!(whoami().2, 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_real_gh_runs_behind_ours_signed_and_never_merges() {
    let there = Command::new("gh").arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(there || std::env::var("CI").as_deref() != Ok("true"), "gh is missing");
    if !there {
        println!("left out: there is no gh on this machine");
        return;
    }
    let o = Outside::new();
    o.control("repo", json!({"owner": "acme", "name": "shop", "files": {"README.md": "hello\n"}}));
    let work = o.dir.path().join("work");
    git(o.dir.path(), &["clone", "-q", &format!("http://x:ghp_mine@127.0.0.1:{}/git/acme/shop.git", o.port), "work"]);
    git(&work, &["checkout", "-q", "-b", "fix"]);
    file(&work, "more.txt", "more\n");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "More of it", "-m", "And why."]);
    git(&work, &["push", "-q", "origin", "fix"]);
    let bin = o.dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stewards"), bin.join("gh")).unwrap();
    let config = o.dir.path().join("gh");
    std::fs::create_dir(&config).unwrap();
    let socket = o.dir.path().join("gh.sock");
    file(&config, "config.yml", &format!("http_unix_socket: {}\n", socket.display()));
    let gh = |line: &[&str]| {
        let mut command = Command::new(bin.join("gh"));
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.args(line).current_dir(&work).env("PATH", path).env("GH_CONFIG_DIR", &config);
        command.env("GH_TOKEN", "ghp_mine").env("GH_PROMPT_DISABLED", "1").env("STEWARDS_THREAD", "thr_7");
        command.env_remove("STEWARDS_GITHUB_API").env_remove("STEWARDS_SOCKET").env_remove("GITHUB_TOKEN");
        told(&command.output().unwrap())
    };
    let body = |what: &str| {
        let (out, error, code) = gh(&["api", &format!("repos/acme/shop/{what}")]);
        assert_eq!(code, 0, "{out}{error}");
        out
    };
    // With words of its own: they are signed right afterwards.
    let create = ["pr", "create", "-R", "acme/shop", "--head", "fix", "--base", "main", "--title", "More"];
    let (out, error, code) = gh(&[&create[..], &["--body", "Because."]].concat());
    assert!(code == 0 && out.contains("/acme/shop/pull/1"), "{out}{error}");
    assert!(body("pulls/1").contains("Because.\\n\\n<!-- stewards:signed thr_7"), "{}", body("pulls/1"));
    let (out, error, code) = gh(&["pr", "comment", "1", "-R", "acme/shop", "--body", "Looks fine."]);
    assert!(code == 0 && out.contains("#issuecomment-"), "{out}{error}");
    assert!(body("issues/1/comments").contains("Looks fine.\\n\\n<!-- stewards:signed thr_7"));
    let (out, _, code) = gh(&["pr", "view", "1", "-R", "acme/shop", "--json", "title", "--jq", ".title"]);
    assert_eq!((out.as_str(), code), ("More\n", 0));
    for line in [
        &["pr", "merge", "1", "-R", "acme/shop", "--squash"][..],
        &["api", "-X", "PUT", "repos/acme/shop/pulls/1/merge"],
        &["pr", "review", "1", "-R", "acme/shop", "--approve"],
    ] {
        let (_, error, code) = gh(line);
        assert!(
            code == 1 && error.contains("is not done from a thread") && error.contains("stewards merge"),
            "{error}"
        );
    }
    // Its own failures are its own.
    let (_, error, code) = gh(&["pr", "view", "9", "-R", "acme/shop"]);
    assert!(code == 1 && error.contains("Could not resolve"), "{error}");
}
