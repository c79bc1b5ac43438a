//! A small `gh`, where the real one is not installed: it opens, shows and comments on
//! pulls, and calls the API.

use super::{api, gated, path_is_gated, record, thread};
use crate::commands::text_file;
use crate::out::{self, Outcome, unreachable};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ports::Pulls;
use stewards_core::refusal::Refusal;
use stewards_core::snapshot::{Pull, PullState};
use stewards_core::stewards::sign;
use stewards_core::trouble::Trouble;
use stewards_sources::GitHub;
use stewards_web::Ask;

/// A small GitHub command line: what it writes is signed with its thread.
#[derive(Debug, Parser)]
#[command(name = "gh", disable_help_subcommand = true)]
struct Gh {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Pull requests
    Pr {
        #[command(subcommand)]
        verb: PrVerb,
    },
    /// Call the API: a path below it
    Api {
        path: String,
        #[arg(short = 'X', long, default_value = "GET")]
        method: String,
        /// A field of the JSON body (can be repeated)
        #[arg(short = 'f', long = "raw-field", value_name = "NAME=VALUE")]
        fields: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Words {
    #[arg(short, long)]
    body: Option<String>,
    #[arg(short = 'F', long)]
    body_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PrVerb {
    /// Open a pull request from the current branch
    Create {
        #[arg(short, long)]
        title: String,
        #[command(flatten)]
        words: Words,
        #[arg(short = 'H', long)]
        head: Option<String>,
        #[arg(short = 'B', long)]
        base: Option<String>,
        #[arg(short, long)]
        draft: bool,
        #[arg(short = 'R', long)]
        repo: Option<String>,
    },
    /// Show a pull request: by number, or that of the current branch
    View {
        number: Option<String>,
        /// Comma-separated fields
        #[arg(long)]
        json: Option<String>,
        #[arg(short = 'R', long)]
        repo: Option<String>,
    },
    /// Comment on a pull request
    Comment {
        number: String,
        #[command(flatten)]
        words: Words,
        #[arg(short = 'R', long)]
        repo: Option<String>,
    },
}

pub fn run(args: Vec<String>, token: String) -> Outcome {
    let gh = Gh::try_parse_from(std::iter::once("gh".to_owned()).chain(args)).unwrap_or_else(|e| e.exit());
    let github = GitHub::new(api(), token.into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(&github, gh.command)).map(|after| match after {
        Some((ask, line)) => {
            record(&ask);
            out::line(&line);
            0
        }
        None => 0,
    })
}

fn failed(trouble: Trouble) -> anyhow::Error {
    match trouble {
        Trouble::Refused { says } | Trouble::Unauthorized { says } => {
            Refusal::not_met("github", says, "see what GitHub says and try otherwise").into()
        }
        other => unreachable("github", other.to_string(), "try again a little later"),
    }
}

async fn carry_out(github: &GitHub, command: Command) -> anyhow::Result<Option<(Ask, String)>> {
    match command {
        Command::Pr { verb: PrVerb::Create { title, words, head, base, draft, repo } } => {
            let repo = repository(repo.as_deref())?;
            let head = head.map_or_else(current_branch, Ok)?;
            let base = match base {
                Some(base) => base,
                None => github.default_branch(&repo).await.map_err(failed)?,
            };
            let body = signed(&words)?;
            let (number, url) = github.open_pull(&repo, &title, &body, &head, &base, draft).await.map_err(failed)?;
            let pull = PullKey { repo, number }.to_string();
            Ok(Some((Ask::PullOpened { pull, branch: head }, url)))
        }
        Command::Pr { verb: PrVerb::Comment { number, words, repo } } => {
            let key = key(&number, repo.as_deref())?;
            let id = github.comment(&key, &signed(&words)?).await.map_err(failed)?;
            Ok(Some((Ask::Wrote { pull: key.to_string(), what: "commented".into() }, format!("commented ({id})"))))
        }
        Command::Pr { verb: PrVerb::View { number, json, repo } } => {
            view(github, number.as_deref(), json.as_deref(), repo.as_deref()).await?;
            Ok(None)
        }
        Command::Api { path, method, fields } => {
            if path_is_gated(&path, method != "GET" || !fields.is_empty()) {
                return Err(gated(&format!("writing to `{path}`")).into());
            }
            let mut body = serde_json::Map::new();
            for pair in &fields {
                let (name, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not name=value"))?;
                body.insert(name.to_owned(), value.into());
            }
            // With fields and no method a call writes, as with the real one.
            let method = if !body.is_empty() && method == "GET" { "POST".to_owned() } else { method };
            if let Some(Value::String(text)) = body.get_mut("body") {
                *text = sign(text, &thread(), None);
            }
            let body = (!body.is_empty()).then_some(Value::Object(body));
            let answer = github.call(&method, &path, body.as_ref()).await.map_err(failed)?;
            out::json(&answer)?;
            Ok(None)
        }
    }
}

fn signed(words: &Words) -> anyhow::Result<String> {
    let text = match (&words.body, &words.body_file) {
        (Some(text), None) => text.clone(),
        (None, Some(path)) => text_file(path)?,
        (None, None) => String::new(),
        (Some(_), Some(_)) => {
            return Err(Refusal::usage("two_bodies", "there are two bodies", "give --body or --body-file").into());
        }
    };
    Ok(sign(&text, &thread(), None))
}

fn git(args: &[&str]) -> anyhow::Result<String> {
    let output = std::process::Command::new("git").args(args).stdin(std::process::Stdio::null()).output()?;
    if !output.status.success() {
        let says = format!(
            "git {} failed: {}",
            args.join(" "),
            stewards_core::text::one_line(&String::from_utf8_lossy(&output.stderr))
        );
        return Err(Refusal::usage("git", says, "run it inside a clone of the repository").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn current_branch() -> anyhow::Result<String> {
    git(&["symbolic-ref", "--short", "HEAD"])
}

/// `owner/name`: as given, or the last two parts of the clone's remote.
fn repository(given: Option<&str>) -> anyhow::Result<RepoName> {
    let text = match given {
        Some(given) => given.to_owned(),
        None => {
            let url = git(&["remote", "get-url", "origin"])?;
            let path = url.trim_end_matches('/').trim_end_matches(".git").replace(':', "/");
            let mut parts = path.rsplit('/');
            let name = parts.next().unwrap_or_default().to_owned();
            format!("{}/{name}", parts.next().unwrap_or_default())
        }
    };
    RepoName::parse(&text).ok_or_else(|| {
        Refusal::usage("bad_repo", format!("`{text}` is no repository"), "name it with -R owner/name").into()
    })
}

fn key(number: &str, repo: Option<&str>) -> anyhow::Result<PullKey> {
    if let Some(key) = PullKey::parse(number) {
        return Ok(key);
    }
    let last = number.rsplit('/').next().unwrap_or(number).trim_start_matches('#');
    let bad = || Refusal::usage("bad_pull", format!("`{number}` is no pull request"), "give its number or address");
    Ok(PullKey { repo: repository(repo)?, number: last.parse().map_err(|_| bad())? })
}

async fn view(github: &GitHub, number: Option<&str>, fields: Option<&str>, repo: Option<&str>) -> anyhow::Result<()> {
    let key = match number {
        Some(number) => key(number, repo)?,
        None => {
            let (repo, branch) = (repository(repo)?, current_branch()?);
            let found = github.pull_of_branch(&repo, &branch).await.map_err(failed)?;
            let none = || {
                Refusal::not_met(
                    "no_pull",
                    format!("no pull request was opened from {branch}"),
                    "gh pr create opens one",
                )
            };
            PullKey { repo, number: found.ok_or_else(none)? }
        }
    };
    let pull = github.pull(&key).await.map_err(failed)?;
    let all = as_json(&pull);
    let Some(fields) = fields else {
        out::line(&format!("{} {}\n{}\n{}\n\n{}", pull.key, pull.title, all["state"], pull.url, pull.body));
        return Ok(());
    };
    let mut chosen = serde_json::Map::new();
    for field in fields.split(',').map(str::trim).filter(|f| !f.is_empty()) {
        let known = || all.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
        let value = all
            .get(field)
            .ok_or_else(|| Refusal::usage("bad_field", format!("there is no field `{field}`"), known()))?;
        chosen.insert(field.to_owned(), value.clone());
    }
    out::json(&chosen)?;
    Ok(())
}

/// The real gh's names.
fn as_json(pull: &Pull) -> Value {
    let comments: Vec<Value> = pull
        .comments
        .iter()
        .map(|c| json!({ "id": c.id, "author": { "login": c.author.login }, "body": c.body, "createdAt": c.at }))
        .collect();
    let state = match pull.state {
        PullState::Open => "OPEN",
        PullState::Closed => "CLOSED",
        PullState::Merged => "MERGED",
    };
    json!({
        "number": pull.key.number,
        "title": pull.title,
        "body": pull.body,
        "url": pull.url,
        "state": state,
        "isDraft": pull.draft,
        "headRefName": pull.head_branch,
        "headRefOid": pull.head_sha,
        "baseRefName": pull.base_branch,
        "author": { "login": pull.author.login },
        "comments": comments,
        "labels": pull.labels,
    })
}
