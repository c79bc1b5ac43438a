//! The arguments of `stewards bus`.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum BusVerb {
    /// Hold resources for a while, all or none: exit 75 if somebody else holds one
    Claim {
        /// pr:7, task:KEY, branch:name, path:src, store:memory or thread:id
        #[arg(required = true)]
        resources: Vec<String>,
        #[arg(long)]
        reason: String,
        /// 30m or 2h, at most 4h (default 30m)
        #[arg(long, allow_hyphen_values = true)]
        ttl: Option<String>,
        /// Stand in line where somebody else holds it: you are told when it is yours
        #[arg(long)]
        wait: bool,
        /// For how long (default 2h, at most 4h)
        #[arg(long, requires = "wait", allow_hyphen_values = true)]
        max_wait: Option<String>,
    },
    /// Keep what you hold for its time to live from now on
    Heartbeat { resource: String },
    /// Say whether a resource is still held in an epoch, before you act on it: exit 1 if it was lost
    Check {
        resource: String,
        /// As `claim` printed it
        #[arg(long)]
        epoch: u64,
    },
    /// Give a resource back, or leave the line for it
    Release {
        resource: String,
        /// Take it from somebody else
        #[arg(long, requires = "reason")]
        force: bool,
        #[arg(long)]
        reason: Option<String>,
    },
    /// List claims
    Claims {
        /// Only this thread's
        #[arg(long)]
        mine: bool,
        /// Only those that have expired
        #[arg(long)]
        stale: bool,
        /// What became of one resource instead
        #[arg(long, value_name = "RESOURCE", conflicts_with_all = ["mine", "stale"])]
        history: Option<String>,
    },
    /// List messages, with how far each has come
    Log(BusLog),
    /// What is owed an answer, oldest first
    Unanswered {
        /// Only what was asked at least so many minutes ago
        #[arg(long, default_value_t = 0)]
        minutes: u32,
        /// Only what this thread asked
        #[arg(long)]
        from: Option<String>,
        /// Only what this thread was asked
        #[arg(long)]
        to: Option<String>,
        /// At most so many
        #[arg(short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Take back what you asked: no answer is owed any more
    Withdraw {
        /// The message's number
        message: u64,
    },
    /// Deliver a message again that failed, or of which nobody knows whether it arrived
    Retry {
        /// The message's number
        message: u64,
    },
    /// Count messages by kind and sender, what has not arrived, and how long answers take
    Stats {
        /// A time as 2026-11-30T22:00:00Z, or how long ago: 30m, 2h, 7d (default: all that is kept)
        #[arg(long, value_parser = time)]
        since: Option<jiff::Timestamp>,
    },
    /// Send a message of a kind
    Send {
        #[arg(long)]
        kind: String,
        #[command(flatten)]
        message: Message,
    },
    /// Send a message: the verb is its kind
    #[command(external_subcommand)]
    Kind(Vec<String>),
}

#[derive(Debug, Args)]
pub struct Message {
    /// An addressee (can be repeated)
    #[arg(long)]
    pub to: Vec<String>,
    /// A field as name=value (can be repeated)
    #[arg(long = "field", value_name = "NAME=VALUE")]
    pub fields: Vec<String>,
    /// What it is about; the same as --field ref=…
    #[arg(long = "ref")]
    pub reference: Option<String>,
    /// A regular file with the body
    #[arg(long)]
    pub body_file: Option<PathBuf>,
    /// A word of your own: what is sent again under it is not sent twice
    #[arg(long, value_name = "WORD")]
    pub dedupe_key: Option<String>,
    /// There is no such flag
    #[arg(long, hide = true)]
    pub body: Option<String>,
}

#[derive(Debug, Args)]
pub struct BusLog {
    #[arg(long)]
    pub kind: Option<String>,
    #[arg(long)]
    pub from: Option<String>,
    #[arg(long)]
    pub to: Option<String>,
    #[arg(long = "ref", value_name = "REF")]
    pub reference: Option<String>,
    /// A time as 2026-11-30T22:00:00Z, or how long ago: 30m, 2h, 7d
    #[arg(long, value_parser = time)]
    pub since: Option<jiff::Timestamp>,
    /// Only what was sent before that
    #[arg(long, value_parser = time)]
    pub before: Option<jiff::Timestamp>,
    /// Only what this thread was sent and has not been given yet; what is shown counts as read
    #[arg(long, conflicts_with_all = ["kind", "from", "to", "reference", "since", "before", "undelivered"])]
    pub unread: bool,
    /// Only what waits, failed, or may have been lost with the daemon
    #[arg(long, conflicts_with_all = ["kind", "from", "to", "reference", "since", "before"])]
    pub undelivered: bool,
    /// The newest so many
    #[arg(short = 'n', default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

/// A point in time, or so long ago.
fn time(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let bad = || format!("`{text}` is no time: write 2026-11-30T22:00:00Z, or 30m, 2h, 7d for so long ago");
    let unit = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(bad()),
    };
    let n: i64 = text[..text.len() - 1].parse().ok().filter(|n| (0..=100_000).contains(n)).ok_or_else(bad)?;
    jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(n * unit)).map_err(|_| bad())
}

/// The arguments of a verb that is a kind.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
pub struct KindArgs {
    #[command(flatten)]
    pub message: Message,
    #[arg(long)]
    pub json: bool,
    #[arg(long)]
    pub dir: Option<PathBuf>,
}
