//! The data directory and what a server may set there, resolved once.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::threads::Permission;
use stewards_store::{DirLock, LockError};

/// `--dir`, else STEWARDS_DIR, else the XDG data directory.
pub fn dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("STEWARDS_DIR").filter(|d| !d.is_empty()).map(PathBuf::from);
    if let Some(dir) = given.map(Path::to_owned).or(named) {
        return Ok(std::path::absolute(dir)?);
    }
    let base = match std::env::var_os("XDG_DATA_HOME").filter(|d| !d.is_empty()) {
        Some(data) => PathBuf::from(data),
        None => PathBuf::from(std::env::var_os("HOME").context("neither --dir, STEWARDS_DIR nor HOME is set")?)
            .join(".local/share"),
    };
    Ok(base.join("stewards"))
}

/// `settings.json`: everything has a default.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// On loopback; 0 takes a free one once and keeps it.
    pub port: u16,
    pub linear_url: String,
    pub github_api: String,
    /// The https address under which this server is reached from outside, for webhooks.
    pub public_url: Option<String>,
    /// Client ids of applications that are registered with the services, for logins in
    /// the browser.
    pub linear_client_id: Option<String>,
    pub github_client_id: Option<String>,
    /// Where the browser comes back to after a login at Linear: the application's
    /// callback is `http://127.0.0.1:<port>/callback`.
    pub login_port: u16,
    /// Milliseconds from an entity's first ring to its look.
    pub debounce_ms: i64,
    /// Milliseconds between two sweeps.
    pub sweep_ms: i64,
    /// Milliseconds between two polls of a service whose webhooks do not come; at least 5,000.
    pub poll_ms: i64,
    /// Turns that one thread may begin within an hour; 0 for no cap.
    pub turns_per_hour: u32,
    /// Turns that may be live at once, and of one project.
    pub max_live: u32,
    pub max_live_project: u32,
    /// Seconds after which an idle agent's process is ended.
    pub idle_release_s: u64,
    /// Seconds for which an archived thread's worktree stays.
    pub grace_s: u64,
    /// Days after which the worktree of an idle thread goes, until it is needed again; 0 for never.
    pub retention_days: u64,
    /// Gigabytes of disk that worktrees may take together, beyond which those of idle
    /// threads go, the least recently used first; 0 for no limit.
    pub worktrees_max_gb: u64,
    /// Bus messages that one thread may send within a minute; 0 for no limit.
    pub bus_per_minute: u32,
    /// Days for which messages of the bus and the history of claims are kept, at least 3; 0
    /// for ever. What is owed an answer or waits to be delivered is kept longer.
    pub bus_keep_days: u64,
    /// Messages of the bus that are kept at most; 0 for all.
    pub bus_keep_messages: u64,
    /// Tokens of context beyond which it is compacted after a turn; 0 for never.
    pub compact_at: u64,
    /// Seconds without a sign of life after which a turn has failed.
    pub silence_s: u64,
    /// Seconds that a worktree's setup script may take.
    pub setup_s: u64,
    /// The model of a thread that belongs to no effort, where none is named.
    pub model: String,
    /// What threads may do without asking: full, accept-edits or ask.
    pub permission: Permission,
    /// The zone of times of day, as `Europe/Berlin` (default: this machine's).
    pub zone: Option<String>,
    /// Agents by the provider part of a model's name; those that are installed are
    /// found by themselves.
    pub providers: BTreeMap<String, Provider>,
}

/// How an agent is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// `acp` (the Agent Client Protocol over stdio) or `stream-json` (Claude Code's own).
    #[serde(default)]
    pub protocol: Protocol,
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    #[default]
    Acp,
    StreamJson,
}

impl Default for Settings {
    fn default() -> Self {
        let usual = stewards_core::machine::Settings::default();
        Settings {
            port: 0,
            linear_url: "https://api.linear.app/graphql".into(),
            github_api: "https://api.github.com".into(),
            public_url: None,
            linear_client_id: None,
            github_client_id: None,
            login_port: 43_117,
            debounce_ms: usual.debounce,
            sweep_ms: usual.sweep,
            poll_ms: usual.poll,
            turns_per_hour: usual.turns_per_hour,
            max_live: usual.max_live,
            max_live_project: usual.max_live_project,
            idle_release_s: seconds(usual.idle_release),
            grace_s: seconds(usual.grace),
            retention_days: seconds(usual.retention) / 86_400,
            worktrees_max_gb: usual.worktrees_max / GIGABYTE,
            bus_per_minute: usual.bus_per_minute,
            bus_keep_days: seconds(usual.bus_keep) / 86_400,
            bus_keep_messages: usual.bus_keep_messages,
            compact_at: usual.compact_at,
            silence_s: 15 * 60,
            setup_s: 15 * 60,
            model: usual.model,
            permission: usual.permission,
            zone: None,
            providers: BTreeMap::new(),
        }
    }
}

const GIGABYTE: u64 = 1_000_000_000;

fn seconds(ms: i64) -> u64 {
    ms.unsigned_abs() / 1_000
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000)
}

impl Settings {
    /// What decisions go by. `providers` are the agents that can be started.
    pub fn of_the_machine(&self, providers: Vec<String>) -> stewards_core::machine::Settings {
        let zone = self.zone.clone().or_else(|| jiff::tz::TimeZone::system().iana_name().map(str::to_owned));
        stewards_core::machine::Settings {
            debounce: self.debounce_ms,
            sweep: self.sweep_ms,
            poll: self.poll_ms.max(5_000),
            turns_per_hour: self.turns_per_hour,
            max_live: self.max_live.max(1),
            max_live_project: self.max_live_project.max(1),
            idle_release: ms(self.idle_release_s),
            grace: ms(self.grace_s),
            retention: ms(self.retention_days.saturating_mul(86_400)),
            worktrees_max: self.worktrees_max_gb.saturating_mul(GIGABYTE),
            bus_per_minute: self.bus_per_minute,
            bus_keep: ms(self.bus_keep_days.saturating_mul(86_400)),
            bus_keep_messages: self.bus_keep_messages,
            compact_at: self.compact_at,
            providers,
            model: self.model.clone(),
            permission: self.permission,
            zone: zone.unwrap_or_else(|| "UTC".into()),
        }
    }
}

/// Logins at Linear and GitHub, in the data directory.
pub const LOGINS: &str = "logins.json";

/// `secrets.json`, readable by its owner alone. Never in the database, a log or
/// an agent; the GitHub token is the user's own and reaches `gh` and `git`.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    pub linear_webhook: String,
    /// Of the webhook that a Linear application has of its own, by which mentions of the
    /// agent come. Linear makes it; empty where there is no application.
    pub linear_app: String,
    pub github_webhook: String,
    /// Signs the page's session cookies.
    pub page_key: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// The secrets of a data directory; those that are missing are made.
pub fn secrets(dir: &Path) -> anyhow::Result<Secrets> {
    let file = dir.join("secrets.json");
    let mut secrets: Secrets = read(&file)?;
    let mut made = false;
    for secret in [&mut secrets.page_key, &mut secrets.linear_webhook, &mut secrets.github_webhook] {
        if secret.is_empty() {
            *secret = stewards_engine::secret();
            made = true;
        }
    }
    if made {
        stewards_store::private_dir(dir).with_context(|| dir.display().to_string())?;
        write_private(&file, &secrets)?;
    }
    Ok(secrets)
}

/// Takes the lock of a directory for `owner`, or says in a sentence why not.
pub fn lock(dir: &Path, owner: &str) -> anyhow::Result<DirLock> {
    DirLock::take(dir, &format!("{owner} with pid {}", std::process::id())).map_err(|e| match e {
        LockError::Held(by) => {
            let says = format!("{} is in use by {by}", dir.display());
            Refusal::busy("held", says, "one at a time: stop that one, or use another --dir").into()
        }
        LockError::Io(e) => {
            let says = format!("{} cannot be used: {e}", dir.display());
            Refusal::usage("bad_directory", says, "name a directory that may be written to with --dir").into()
        }
    })
}

/// What a command line needs to find the running daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonFile {
    pub pid: u32,
    pub started: jiff::Timestamp,
    pub socket: PathBuf,
    pub url: String,
    pub build: String,
}

/// Reads a JSON file; a missing one is the default.
pub fn read<T: serde::de::DeserializeOwned + Default>(path: &Path) -> anyhow::Result<T> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| {
            let says = format!("{} is not as it should be: {e}", path.display());
            Refusal::new(Exit::Configuration, "bad_file", says, "mend it, or remove it to have the defaults").into()
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Replaces a file whole, readable by its owner alone.
pub fn write_private<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
    file.write_all(serde_json::to_string_pretty(value)?.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    Ok(())
}

/// The daemon of a directory, as it wrote it down.
pub fn daemon(dir: &Path) -> Option<DaemonFile> {
    serde_json::from_str(&std::fs::read_to_string(dir.join("daemon.json")).ok()?).ok()
}
