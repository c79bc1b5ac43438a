//! The `gh` that stands first in a thread's PATH. What it writes is signed with the thread
//! and put on record with the daemon. Where the real one is installed it runs that; else
//! it is a small one itself.

mod behind;
mod small;

use crate::client::Client;
use crate::out::{self, Outcome};
use std::io::Read;
use stewards_core::refusal::Refusal;
use stewards_web::Ask;

pub fn run(args: Vec<String>) -> Outcome {
    let token = std::env::var("GH_TOKEN").or_else(|_| std::env::var("GITHUB_TOKEN")).unwrap_or_default();
    if let [auth, git, operation] = args.as_slice()
        && auth == "auth"
        && git == "git-credential"
    {
        return credential(operation, &token);
    }
    if let Some(real) = behind::real() {
        return behind::run(&real, args);
    }
    if token.is_empty() {
        let hint = "log in: stewards login github (this gh is for threads; set GH_TOKEN elsewhere)";
        return Err(Refusal::usage("no_login", "no GitHub token is set", hint).into());
    }
    small::run(args, token)
}

/// Where the API is.
fn api() -> String {
    std::env::var("STEWARDS_GITHUB_API").unwrap_or_else(|_| "https://api.github.com".into())
}

/// The thread that runs this.
fn thread() -> String {
    std::env::var("STEWARDS_THREAD").unwrap_or_else(|_| "unknown".into())
}

/// Puts it on record. The write has happened; if the daemon is away just now,
/// its next look finds it by the branch.
fn record(ask: &Ask) {
    if std::env::var_os("STEWARDS_SOCKET").is_none() {
        return;
    }
    if let Err(error) = Client::new(None).and_then(|c| c.act(ask)) {
        eprintln!("It is written, but could not be put on record: {error:#}");
    }
}

/// Merging and approving have gates of their own.
fn gated(what: &str) -> Refusal {
    let hint = "merge with: stewards merge <owner/repo#N>; say what you found with: gh pr comment";
    Refusal::not_met("gated", format!("{what} is not done from a thread"), hint)
}

/// Whether a call of the API would merge or approve.
fn path_is_gated(path: &str, writes: bool) -> bool {
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    writes && (["merge", "reviews", "merge-async", "merges"].contains(&last) || path.contains("/reviews/"))
}

/// Where the pages and repositories of the API's GitHub are.
fn web_host() -> String {
    let api = api();
    let host = api.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    match host {
        "" | "api.github.com" => "github.com".to_owned(),
        host => host.to_owned(),
    }
}

/// Git's credential protocol: it tells what it wants on standard input. The
/// token is given over https and on loopback, and nowhere else.
fn credential(operation: &str, token: &str) -> Outcome {
    if operation != "get" || token.is_empty() {
        return Ok(0);
    }
    let mut asked = String::new();
    std::io::stdin().read_to_string(&mut asked)?;
    let field = |name: &str| asked.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('=')).unwrap_or("");
    let host = field("host");
    let loopback = ["127.0.0.1", "localhost", "[::1]"].iter().any(|l| host == *l || host.starts_with(&format!("{l}:")));
    if field("protocol") == "https" && host == web_host() || loopback {
        out::line(&format!("username=x-access-token\npassword={token}"));
    }
    Ok(0)
}
