//! Runs git: a fixed environment, no shell, output and time within bounds, and
//! failures sorted by what follows from them.

use crate::processes;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use stewards_core::trouble::Trouble;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// A command that speaks with a remote may take so long.
const NETWORK: Duration = Duration::from_secs(60);
/// A first clone moves everything, and may take longer.
const CLONE: Duration = Duration::from_secs(600);
/// Checking out files, or looking through history, on this machine alone.
const LOCAL: Duration = Duration::from_secs(120);
/// A git that takes too long has so long to clean up.
const MANNERS: Duration = Duration::from_secs(2);
/// So much of an answer is read, in bytes.
const OUTPUT: u64 = 16 * 1024 * 1024;
/// So much of what is said on the error stream is read, in bytes.
const ERRORS: u64 = 256 * 1024;

const INHERITED: [&str; 6] = ["HOME", "PATH", "USER", "TMPDIR", "SSH_AUTH_SOCK", "XDG_CONFIG_HOME"];

/// Credentials as they are now, as git's own variables (`GIT_CONFIG_COUNT` and so on).
pub type Credentials = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

/// git, with what the daemon gives it.
pub(crate) struct Git {
    env: Credentials,
}

/// What a git command answered.
pub(crate) struct Answer {
    pub ok: bool,
    pub stdout: Vec<u8>,
    stderr: String,
}

impl Answer {
    /// The output without the white space around it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    pub(crate) fn trouble(&self) -> Trouble {
        sort(&self.stderr)
    }
}

impl Git {
    pub(crate) fn new(env: Credentials) -> Git {
        Git { env }
    }

    /// Runs a local command that must succeed; answers its trimmed output.
    pub(crate) async fn must(&self, cwd: &Path, args: &[&str]) -> Result<String, Trouble> {
        let answer = self.ask(cwd, args).await?;
        if answer.ok { Ok(answer.text()) } else { Err(answer.trouble()) }
    }

    /// Runs a local command whose failure is an answer as well.
    pub(crate) async fn ask(&self, cwd: &Path, args: &[&str]) -> Result<Answer, Trouble> {
        self.run(cwd, args, LOCAL).await
    }

    /// Whether a local command succeeds.
    pub(crate) async fn holds(&self, cwd: &Path, args: &[&str]) -> Result<bool, Trouble> {
        Ok(self.ask(cwd, args).await?.ok)
    }

    /// Runs a command that speaks with a remote and must succeed.
    pub(crate) async fn remote(&self, cwd: &Path, args: &[&str]) -> Result<String, Trouble> {
        let limit = if args.first() == Some(&"clone") { CLONE } else { NETWORK };
        let answer = self.run(cwd, args, limit).await?;
        if answer.ok { Ok(answer.text()) } else { Err(answer.trouble()) }
    }

    async fn run(&self, cwd: &Path, args: &[&str], limit: Duration) -> Result<Answer, Trouble> {
        let mut command = Command::new("git");
        // Agents share these repositories: a hook or a file watcher that one of them
        // set up must not run with the daemon's credentials.
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"]);
        command.args(args).current_dir(cwd).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C").envs((self.env)());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| flaky(format!("could not start git: {e}")))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let all = async {
            let (stdout, stderr, status) = tokio::join!(read(stdout, OUTPUT), read(stderr, ERRORS), child.wait());
            (stdout, stderr, status)
        };
        let mut all = std::pin::pin!(all);
        let Ok((stdout, stderr, status)) = tokio::time::timeout(limit, &mut all).await else {
            // Its helpers, such as the one that speaks https, are in its group. Asked
            // first, since a git that is killed leaves its lock files behind.
            processes::term_group(pid);
            if tokio::time::timeout(MANNERS, &mut all).await.is_err() {
                processes::kill_group(pid);
            }
            let verb = args.first().copied().unwrap_or_default();
            return Err(flaky(format!("git {verb} took longer than {} seconds", limit.as_secs())));
        };
        let status = status.map_err(|e| flaky(format!("git was lost: {e}")))?;
        let stderr = without_secrets(&String::from_utf8_lossy(&stderr));
        Ok(Answer { ok: status.success(), stdout, stderr })
    }
}

/// Reads up to a limit; what comes after it is read and let go, so that the
/// command does not stand still.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // A broken pipe ends the output like its end does; the status tells them apart.
        let _ = (&mut from).take(limit).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    kept
}

pub(crate) fn flaky(says: String) -> Trouble {
    Trouble::Flaky { says }
}

/// What follows from git's words.
fn sort(stderr: &str) -> Trouble {
    let low = stderr.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|p| low.contains(p));
    let says = last_lines(stderr);
    if has(&[
        "authentication failed",
        "could not read username",
        "could not read password",
        "terminal prompts disabled",
        "permission denied (publickey",
        "invalid username or",
        "returned error: 401",
        "returned error: 403",
        "host key verification failed",
    ]) || (low.contains("permission to") && low.contains("denied to"))
    {
        Trouble::Unauthorized { says }
    } else if has(&["returned error: 404", "returned error: 410"])
        || low.lines().any(|l| l.contains("repository") && (l.contains("not found") || l.contains("does not exist")))
    {
        Trouble::Gone { says }
    } else {
        Trouble::Flaky { says }
    }
}

fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(3)..].join("; ");
    if text.is_empty() { "git failed without a word".to_owned() } else { text.chars().take(600).collect() }
}

/// Takes user names and passwords out of addresses.
fn without_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after.find(|c: char| c == '/' || c == '\'' || c.is_whitespace()).unwrap_or(after.len());
        let skip = after[..end].rfind('@').map_or(0, |i| i + 1);
        rest = &after[skip..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        assert_eq!(
            without_secrets("fatal: unable to access 'https://x:secret@host/o/r.git/': no"),
            "fatal: unable to access 'https://host/o/r.git/': no"
        );
        assert_eq!(without_secrets("plain"), "plain");
    }

    #[test]
    fn only_a_clear_not_found_means_gone() {
        let kind = |text: &str| match sort(text) {
            Trouble::Gone { .. } => "gone",
            Trouble::Unauthorized { .. } => "unauthorized",
            Trouble::Flaky { .. } => "flaky",
            _ => "other",
        };
        assert_eq!(kind("remote: Repository not found.\nfatal: repository 'https://h/o/r/' not found"), "gone");
        assert_eq!(kind("fatal: Authentication failed for 'https://h/o/r/'"), "unauthorized");
        assert_eq!(kind("fatal: could not read Username for 'https://h': terminal prompts disabled"), "unauthorized");
        assert_eq!(kind("fatal: unable to access 'https://h/': Could not resolve host: h"), "flaky");
        assert_eq!(kind(""), "flaky");
    }
}
