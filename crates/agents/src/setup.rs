//! What the binary tells this crate about agents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stewards_core::ids::ThreadId;

/// The environment variable that says which daemon's directory a process belongs to.
pub const MARK: &str = "STEWARDS_MARK";
/// The environment variable that says which thread a process works for.
pub const THREAD: &str = "STEWARDS_THREAD";

/// How one speaks with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The Agent Client Protocol over stdio.
    Acp,
    /// Claude Code's own lines of JSON.
    StreamJson,
}

impl Protocol {
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Acp => "acp",
            Protocol::StreamJson => "stream-json",
        }
    }
}

/// How one kind of agent is started.
#[derive(Clone, Debug)]
pub struct Provider {
    pub protocol: Protocol,
    /// A path, or a name that is looked up in the `PATH` that the agent gets.
    pub command: PathBuf,
    /// Given to the command as they are; no shell reads them.
    pub args: Vec<String>,
    /// Added to the short list of variables that an agent inherits.
    pub env: BTreeMap<String, String>,
}

/// Where a thread's agent reaches our tools.
#[derive(Clone, Debug)]
pub struct McpEndpoint {
    pub url: String,
    /// Sent as `Authorization: Bearer <token>`; names the thread.
    pub token: String,
}

/// Answers a thread's endpoint. Asked each time a session is opened.
pub type McpOf = Arc<dyn Fn(&ThreadId) -> McpEndpoint + Send + Sync>;
/// Answers a thread's own environment variables. Asked each time a process starts.
pub type EnvOf = Arc<dyn Fn(&ThreadId) -> BTreeMap<String, String> + Send + Sync>;

/// Everything that [`crate::Runners`] needs to know.
#[derive(Clone)]
pub struct Setup {
    /// By the provider part of a model's name.
    pub providers: BTreeMap<String, Provider>,
    /// The value of [`MARK`] on every process we start.
    pub mark: String,
    /// A directory of ours, for files that an agent is started with.
    pub dir: PathBuf,
    pub mcp: McpOf,
    pub thread_env: EnvOf,
    /// A turn during which the agent shows no sign of life for so long has failed.
    pub silence: Duration,
}
