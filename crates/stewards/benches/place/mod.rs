//! A daemon with a small agent, and what can be seen of it from outside.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stewards_core::ids::{ThreadId, TurnId};

/// An agent that says when it read its prompt; it streams, or starts what does not
/// want to end, when it is told so.
pub const AGENT: &str = r#"
import json, os, signal, subprocess, sys, time
log = open(sys.argv[1], "a", buffering=1)
with open(sys.argv[1] + "." + os.environ["STEWARDS_THREAD"], "w") as f: f.write(os.environ["STEWARDS_TOKEN"])
def say(m):
    m["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
for line in sys.stdin:
    at = time.time_ns()
    m = json.loads(line)
    p = m.get("params", {})
    if m.get("method") == "initialize":
        say({"id": m["id"], "result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}})
    elif m.get("method") in ("session/new", "session/resume"):
        say({"id": m["id"], "result": {"sessionId": "s"}})
    elif m.get("method") == "session/prompt":
        text = p["prompt"][-1]["text"]
        log.write("%d %s\n" % (at, text))
        def chunk(t): say({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": t}}}})
        if text == "nasty":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for _ in range(3):
                subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; (setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" &) ; while :; do sleep 1; done"])
            continue
        if text.startswith("stream"):
            began, piece, n = time.time(), "y" * 8000, 0
            while time.time() - began < int(text.split()[1]):
                chunk(piece); n += 1
                ahead = n * 8000 / 1e6 - (time.time() - began)
                if ahead > 0: time.sleep(ahead)
        say({"id": m["id"], "result": {"stopReason": "end_turn"}})
"#;

pub fn ms(took: Duration) -> String {
    format!("{:.2}", took.as_secs_f64() * 1e3)
}

pub fn nanos() -> i128 {
    jiff::Timestamp::now().as_nanosecond()
}

pub fn percentile(all: &mut [Duration], of: usize) -> Duration {
    all.sort_unstable();
    all.get((all.len() * of / 100).min(all.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// What one durable transaction of one row costs here.
pub fn raw_transaction() -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = stewards_store::Store::open(&dir.path().join("raw.db")).expect("a file");
    let (thread, turn) = (ThreadId("thr_1".into()), TurnId("turn_1".into()));
    let mut took: Vec<Duration> = (0..200)
        .map(|_| {
            let began = Instant::now();
            let batch = store.batch().expect("a transaction");
            batch.transcribe(&thread, &turn, 0, "{}").expect("a row");
            batch.commit().expect("a commit");
            began.elapsed()
        })
        .collect();
    percentile(&mut took, 50)
}

/// A fresh data directory.
pub fn dir(name: &str) -> PathBuf {
    let home = std::env::temp_dir().join(format!("stewards-bench-{}-{name}", std::process::id())).join("home");
    std::fs::create_dir_all(&home).expect("a directory");
    home
}

pub struct Daemon {
    home: PathBuf,
    child: Child,
    /// The whole directory goes with it.
    own: bool,
    #[allow(dead_code, reason = "one of the two benches opens more connections")]
    socket: PathBuf,
    line: Mutex<Client>,
}

/// One connection that is kept, as the owner or with a thread's token.
pub struct Client {
    line: BufReader<UnixStream>,
    token: String,
}

impl Client {
    fn new(socket: &Path, token: String) -> Client {
        Client { line: BufReader::new(UnixStream::connect(socket).expect("the socket")), token }
    }

    /// The answer's body, whatever its status.
    pub fn send(&mut self, method: &str, path: &str, body: &str) -> Value {
        let line = &mut self.line;
        let token = &self.token;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\n{token}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        line.get_mut().write_all(head.as_bytes()).expect("a request");
        let mut length = 0;
        loop {
            let mut header = String::new();
            line.read_line(&mut header).expect("a header");
            let lower = header.to_ascii_lowercase();
            if let Some(n) = lower.strip_prefix("content-length:") {
                length = n.trim().parse().expect("a length");
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut bytes = vec![0; length];
        line.read_exact(&mut bytes).expect("a body");
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

impl Daemon {
    pub fn start(name: &str) -> Daemon {
        let daemon = Daemon::of(name, |_| {});
        daemon.add_project();
        daemon
    }

    /// With one commit.
    pub fn add_project(&self) {
        let remote = self.home.join("remote.git");
        git(&self.home, &["init", "--quiet", "--bare", "-b", "main", "remote.git"]);
        git(&self.home, &["clone", "--quiet", "remote.git", "first"]);
        let first = self.home.join("first");
        git(&first, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        git(&first, &["push", "--quiet", "origin", "HEAD:main"]);
        self.act(&json!({"add_project": {"name": "shop", "repo": "acme/shop", "remote": remote}}));
    }

    pub fn of(name: &str, fill: impl FnOnce(&Path)) -> Daemon {
        let home = dir(name);
        fill(&home);
        let mut daemon = Daemon::on(&home);
        daemon.own = true;
        daemon
    }

    /// Starts one and waits until it serves.
    pub fn on(home: &Path) -> Daemon {
        let script = home.join("agent.py");
        std::fs::write(&script, AGENT).expect("the agent");
        let settings = json!({
            "turns_per_hour": 0, "bus_per_minute": 0, "max_live": 100, "max_live_project": 100, "sweep_ms": 86_400_000_i64,
            "providers": {"bench": {"command": "python3", "args": [script, home.join("heard")]}},
        });
        std::fs::write(home.join("settings.json"), settings.to_string()).expect("settings");
        let child = Command::new(env!("CARGO_BIN_EXE_stewards"))
            .args(["serve", "--dir"])
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(home.join("log")).expect("a log"))
            .spawn()
            .expect("the daemon");
        let file = home.join("daemon.json");
        let pid = child.id();
        let socket = loop {
            let found: Option<Value> = std::fs::read(&file).ok().and_then(|b| serde_json::from_slice(&b).ok());
            if let Some(found) = found.filter(|f| f["pid"] == pid) {
                break PathBuf::from(found["socket"].as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let line = Mutex::new(Client::new(&socket, String::new()));
        Daemon { home: home.to_owned(), child, own: false, socket, line }
    }

    fn line(&self) -> std::sync::MutexGuard<'_, Client> {
        self.line.lock().expect("one at a time")
    }

    #[allow(dead_code, reason = "one of the two benches uses it")]
    /// Another connection, as a thread whose agent has run.
    pub fn client(&self, thread: &str) -> Client {
        let token = std::fs::read_to_string(self.home.join(format!("heard.{thread}"))).expect("its token");
        Client::new(&self.socket, format!("x-stewards-token: {token}\r\n"))
    }

    #[allow(dead_code, reason = "one of the two benches uses it")]
    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn get(&self, path: &str) -> Value {
        self.line().send("GET", path, "")
    }

    pub fn act(&self, ask: &Value) -> Value {
        let answer = self.line().send("POST", "/api/act", &ask.to_string());
        assert!(answer.get("refusal").is_none(), "{answer}");
        answer
    }

    pub fn spawn(&self, prompt: &str) -> String {
        let ask = json!({
            "role": "plain", "parent": null, "project": null, "title": "bench", "prompt": prompt, "model": "bench",
            "environment": {"directory": {"path": self.home}}, "owner": null, "permission": null, "notify": null,
        });
        let answer = self.act(&json!({"spawn": {"project": "shop", "ask": ask}}));
        answer["ids"]["thread"].as_str().expect("an id").to_owned()
    }

    pub fn tell(&self, thread: &str, text: &str) {
        self.act(&json!({"tell": {"to": thread, "text": text, "mode": "auto"}}));
    }

    pub fn stop(&self, thread: &str) {
        self.act(&json!({"stop": {"thread": thread}}));
    }

    pub fn rests(&self, thread: &str) {
        loop {
            let found = self.get(&format!("/api/threads/{thread}/settled?wait_ms=30000"));
            if found["settled"] == true {
                assert!(found["thread"]["error"].is_null(), "{found}");
                return;
            }
        }
    }

    /// When the agent read this prompt, in nanoseconds since 1970.
    pub fn heard(&self, text: &str) -> i128 {
        let log = std::fs::read_to_string(self.home.join("heard")).expect("the agent's log");
        let found = log.lines().rev().find_map(|l| l.strip_suffix(&format!(" {text}")));
        found.and_then(|at| at.parse().ok()).expect("it was heard")
    }

    /// Bytes resident, and those of them that are no file's.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let of = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
        };
        (of("VmRSS:"), of("RssAnon:"))
    }

    /// Bytes that the daemon has written to the disk.
    pub fn written(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).expect("its io");
        let line = io.lines().find_map(|l| l.strip_prefix("write_bytes: ")).expect("a line");
        line.trim().parse().expect("a number")
    }

    pub fn transcript_bytes(&self) -> u64 {
        let store = stewards_store::Store::open(&self.home.join(stewards_store::FILE)).expect("the file");
        let sum = "SELECT sum(length(json_extract(body, '$.text.text'))) FROM transcript";
        store.connection().query_row(sum, [], |r| r.get::<_, i64>(0)).expect("a sum").unsigned_abs()
    }

    /// How many processes carry a thread's mark.
    pub fn processes(&self, thread: &str) -> usize {
        let mark = self.home.to_string_lossy();
        stewards_agents::processes::marked(&mark).iter().filter(|p| p.thread.as_deref() == Some(thread)).count()
    }

    pub fn until(&self, so: impl Fn() -> bool) {
        let began = Instant::now();
        while !so() {
            assert!(began.elapsed() < Duration::from_secs(30), "it never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Not politely: what it holds is on the disk.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for one in stewards_agents::processes::marked(&self.home.to_string_lossy()) {
            let _ = Command::new("kill").args(["-9", &one.pid.to_string()]).status();
        }
        if self.own {
            let _ = std::fs::remove_dir_all(self.home.parent().unwrap_or(&self.home));
        }
    }
}

fn git(cwd: &Path, args: &[&str]) {
    let name = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    let done = Command::new("git").args(name).args(args).current_dir(cwd).status().expect("git");
    assert!(done.success(), "git {args:?}");
}
