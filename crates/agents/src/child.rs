//! One agent's operating system process: started, watched, its errors kept.

use crate::processes::{self, Proc};
use crate::setup::{MARK, Provider, Setup, THREAD};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use stewards_core::ids::ThreadId;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What an agent inherits from the daemon, by name or by how a name begins: a place
/// to work, the way out, and its own logins. The daemon's secrets stay out.
const INHERITED: [&str; 18] = [
    "HOME",
    "LANG",
    "TERM",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "SSH_AUTH_SOCK",
];
const PREFIXES: [&str; 9] =
    ["LC_", "XDG_", "ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "OPENCODE_"];

/// Those of the daemon's own variables that an agent gets.
pub(crate) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|n| INHERITED.contains(&n) || PREFIXES.iter().any(|p| n.starts_with(p)))
    })
}

/// So much of what an agent writes to its error stream is kept, in bytes.
const TAIL_BYTES: usize = 4_096;

/// A process that was started, and its streams.
pub(crate) struct Child {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    /// Leads a process group of its own.
    pub leader: Proc,
    pub tail: Arc<Tail>,
    /// Holds the status once the process has ended.
    pub exit: watch::Receiver<Option<ExitStatus>>,
    /// Ends the process and its group at once, when they have not ended by then.
    pub kill: CancellationToken,
}

/// Starts a provider's process for a thread, with `more` arguments after its own.
/// Fails with words for a person.
pub(crate) fn start(
    setup: &Setup,
    provider: &Provider,
    more: &[OsString],
    thread: &ThreadId,
    cwd: &Path,
) -> Result<Child, String> {
    let mut command = Command::new(&provider.command);
    command.args(&provider.args).args(more).current_dir(cwd).env_clear().envs(inherited());
    // A version that changes overnight is not the one that was tried.
    command.env("DISABLE_AUTOUPDATER", "1").envs(&provider.env).envs((setup.thread_env)(thread));
    // Last, so that nothing above can take a process out of our hands.
    command.env(MARK, &setup.mark).env(THREAD, thread.as_str());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|e| format!("could not start `{}` in {}: {e}", provider.command.display(), cwd.display()))?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the agent's process has no streams".to_owned());
    };
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
    // A process that has ended already is a zombie until it is waited for, and has no start.
    let leader = processes::find(pid).unwrap_or(Proc { pid, thread: None, start: 0 });
    let tail = Arc::new(Tail::default());
    tokio::spawn(drain(stderr, Arc::clone(&tail)));
    let (told, exit) = watch::channel(None);
    let kill = CancellationToken::new();
    let killed = kill.clone();
    tokio::spawn(async move {
        let status = tokio::select! {
            status = child.wait() => status,
            () = killed.cancelled() => {
                // It was not waited for yet, so the pid is still its own.
                processes::kill_group(pid);
                let _ = child.start_kill();
                child.wait().await
            }
        };
        if let Ok(status) = status {
            told.send_replace(Some(status));
        }
    });
    Ok(Child { stdin, stdout, leader, tail, exit, kill })
}

/// The end of what a process wrote to its error stream.
#[derive(Default)]
pub(crate) struct Tail(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// How many there were in all.
    seen: u64,
}

impl Tail {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend(bytes);
        kept.seen += bytes.len() as u64;
        let over = kept.bytes.len().saturating_sub(TAIL_BYTES);
        kept.bytes.drain(..over);
    }

    /// A place in what was written, for [`Tail::since`].
    pub(crate) fn place(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seen
    }

    /// The lines that were written since, the last one first, as far as they are kept.
    pub(crate) fn since(&self, place: u64) -> Vec<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = usize::try_from(kept.seen.saturating_sub(place)).unwrap_or(usize::MAX);
        let old = kept.bytes.len().saturating_sub(new);
        let text = String::from_utf8_lossy(&kept.bytes.make_contiguous()[old..]).into_owned();
        let lines = text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
        lines.map(|l| l.chars().take(500).collect()).collect()
    }

    /// The last line that is not blank.
    pub(crate) fn last_line(&self) -> Option<String> {
        self.since(0).into_iter().next()
    }
}

/// Reads to the end, since an agent whose error stream is full stands still.
async fn drain(mut stderr: ChildStderr, tail: Arc<Tail>) {
    let mut buffer = [0_u8; 4_096];
    while let Ok(n) = stderr.read(&mut buffer).await {
        if n == 0 {
            return;
        }
        tail.add(&buffer[..n]);
    }
}
