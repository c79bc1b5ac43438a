//! A demo as a child process, and what can be seen of it from outside.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use stewards_core::machine::Fact;
use stewards_store::Reader;

pub const BIN: &str = env!("CARGO_BIN_EXE_stewards");

/// Longer than any demo may take here, with another one beside it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A command of the binary, with nothing of the surroundings that it might read.
pub fn stewards(args: &[&str]) -> Command {
    let mut command = Command::new(BIN);
    command.args(args).stdin(Stdio::null());
    for name in ["STEWARDS_DIR", "STEWARDS_SOCKET", "STEWARDS_TOKEN", "XDG_DATA_HOME", "GH_TOKEN"] {
        command.env_remove(name);
    }
    command
}

/// Standard output, standard error and the exit code of a command.
pub fn told(output: &Output) -> (String, String, i32) {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

/// A directory with a demo in it, running or not.
pub struct Demo {
    pub dir: tempfile::TempDir,
    child: Option<Child>,
}

impl Demo {
    /// Starts `demo` with these arguments in a fresh directory.
    pub fn start(args: &[&str]) -> Demo {
        let mut demo = Demo { dir: tempfile::tempdir().unwrap(), child: None };
        demo.again(args);
        demo
    }

    /// Starts it again on the same directory.
    pub fn again(&mut self, args: &[&str]) {
        let log = std::fs::File::create(self.dir.path().join("demo.out")).unwrap();
        let mut command = stewards(&["demo", "--patience", "60", "--dir"]);
        command.arg(self.path()).args(args).stdout(Stdio::piped()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("it runs").id() as i32
    }

    /// Waits for its end: its output and exit code.
    #[track_caller]
    pub fn end(&mut self) -> (String, i32) {
        let mut child = self.child.take().expect("it runs");
        let mut out = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text
        });
        let patience = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > patience {
                let _ = child.kill();
                panic!(
                    "the demo did not end: {}",
                    std::fs::read_to_string(self.path().join("daemon.log")).unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        (reading.join().unwrap(), status.code().unwrap_or(-1))
    }

    /// Waits for its end and reads its summary.
    #[track_caller]
    pub fn summary(&mut self) -> Value {
        let (out, code) = self.end();
        let summary: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
        assert_eq!((summary["outcome"].as_str(), code), (Some("done"), 0), "{summary:#}");
        summary
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn daemon(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.home().join("daemon.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["pid"].as_i64().map(|p| p as i32)
    }

    pub fn reader(&self) -> Option<Reader> {
        Reader::open(&self.home().join(stewards_store::FILE)).ok()
    }

    /// All facts so far.
    pub fn facts(&self) -> Vec<Fact> {
        let lines = self.reader().and_then(|r| r.journal(0, 1_000_000).ok());
        lines.unwrap_or_default().into_iter().map(|l| l.fact).collect()
    }

    /// Waits until such a fact is on record.
    #[track_caller]
    pub fn until(&self, what: &str, mut so: impl FnMut(&Fact) -> bool) {
        let patience = Instant::now() + PATIENCE;
        let mut after = 0;
        loop {
            let lines = self.reader().and_then(|r| r.journal(after, 10_000).ok()).unwrap_or_default();
            if lines.iter().any(|l| so(&l.fact)) {
                return;
            }
            after = lines.last().map_or(after, |l| l.no);
            assert!(Instant::now() < patience, "it never came to: {what}");
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// A request to one of the demo's own servers.
    pub fn http(&self, port: u16, head: &str, body: &[u8]) -> (u16, String) {
        request(port, head, body)
    }

    fn chosen(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.path().join("demo.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()[name].clone()
    }

    pub fn daemon_port(&self) -> u16 {
        self.chosen("daemon_port").as_u64().unwrap() as u16
    }

    /// The twin's whole world. It is started for this if it does not run.
    pub fn twin_world(&self) -> Value {
        let port = self.chosen("twin_port").as_u64().unwrap() as u16;
        let config = self.path().join("twin.json");
        let mut twin = stewards(&["twin", "--tied", "--port", &port.to_string(), "--config"]);
        twin.arg(&config).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut twin = twin.spawn().unwrap();
        let token = self.chosen("github_token").as_str().unwrap().to_owned();
        let head = format!("GET /control/state HTTP/1.1\r\nAuthorization: Bearer {token}\r\n");
        let patience = Instant::now() + PATIENCE;
        let (status, body) = loop {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break request(port, &head, b"");
            }
            assert!(Instant::now() < patience, "the twin does not come up");
            std::thread::sleep(Duration::from_millis(20));
        };
        drop(twin.stdin.take());
        twin.wait().unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Processes that carry this demo's mark.
    pub fn marked(&self) -> Vec<i32> {
        stewards_agents::processes::marked(&self.home().to_string_lossy()).into_iter().map(|p| p.pid).collect()
    }

    /// Runs a command against the demo's daemon.
    pub fn command(&self, args: &[&str]) -> (String, String, i32) {
        let home = self.home();
        told(&stewards(args).arg("--dir").arg(home).output().unwrap())
    }

    /// Done once and no more: one of each, nothing left over.
    #[track_caller]
    pub fn ended_well(&self) {
        use stewards_core::threads::Role;
        let world = self.reader().unwrap().world().unwrap();
        for role in [Role::ProjectSteward, Role::Steward, Role::Worker, Role::Reviewer] {
            let n = world.threads.values().filter(|t| t.role == role).count();
            assert_eq!(n, 1, "{n} {}s", role.word());
        }
        assert_eq!(world.bindings.len(), 1);
        assert!(self.reader().unwrap().open_messages().unwrap().is_empty());
        assert!(world.needs.values().all(|n| n.closed.is_some()));
        assert!(world.claims.held.is_empty());
        let left = std::fs::read_dir(self.home().join("worktrees")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "worktrees are left");
        assert_eq!(self.marked(), Vec::<i32>::new(), "processes are left");
        let twin = self.twin_world();
        let repo = &twin["repos"][0];
        let pulls = repo["pulls"].as_array().unwrap_or_else(|| panic!("{twin:#}"));
        assert_eq!(pulls.len(), 1, "{pulls:#?}");
        let bodies: Vec<&str> =
            pulls[0]["comments"].as_array().unwrap().iter().filter_map(|c| c["body"].as_str()).collect();
        let count = |word: &str| bodies.iter().filter(|b| b.contains(word)).count();
        assert_eq!((count("Merged:"), count("bb-review")), (1, 1), "{bodies:#?}");
        assert_eq!(pulls[0]["merges"], 1, "{:#}", pulls[0]);
        assert_eq!(twin["tickets"].as_array().map(Vec::len), Some(1));
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One HTTP/1.1 exchange; `head` has no Host and no length yet.
pub fn request(port: u16, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let host = if head.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
    let text = format!("{head}{host}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A server may answer and close before it has read all of a large body.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, body.to_owned())
}

/// A file with this text.
pub fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}
