//! Merging a pull with real git, so that a kill leaves it merged or not merged.
//!
//! The commit is made first and written down as the pull's intent, then the ref
//! moves, then the merge is journalled. After a kill the ref tells which of the
//! two it was.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State as Ext};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::git::Git;
use crate::github::{self, Answer, Refusal, Shared, json_answer, parse};
use crate::model::{Event, Pull, State};
use crate::{App, Error, github_json as js, linear_ops, repos};

type Numbered = Path<(String, String, u64)>;

const MODIFIED: &str = "Head branch was modified. Review and try the merge again.";

/// 204 when merged, else 404.
pub async fn is_merged(Ext(app): Shared, Path((owner, name, number)): Numbered) -> Answer {
    let (_, pull) = github::pull(&app.world.state(), &owner, &name, number)?;
    if pull.merged { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(Refusal::not_found()) }
}

pub async fn merge(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let task = app.clone();
    app.detached(async move { perform(&task, &repo.full(), number, &input).await }).await?
}

async fn perform(app: &Arc<App>, full: &str, number: u64, input: &Value) -> Answer {
    let method = input["merge_method"].as_str().unwrap_or("merge");
    match method {
        "squash" | "merge" => {}
        "rebase" => return Err(Refusal::new(405, "Rebase merges are not allowed on this repository.")),
        _ => return Err(Refusal::new(422, "Invalid request. merge_method is not one of merge, squash, rebase.")),
    }
    let lock = app.repo_lock(full);
    let _held = lock.lock().await;
    repos::reconcile(app, full).await?;
    let state = app.world.state();
    let pull = state.pulls.get(&(full.to_owned(), number)).ok_or_else(Refusal::not_found)?;
    if pull.merged || !pull.open || pull.draft {
        return Err(Refusal::new(405, "Pull Request is not mergeable"));
    }
    if input["sha"].as_str().is_some_and(|sha| sha != pull.head_sha) {
        return Err(Refusal::new(409, MODIFIED));
    }
    let git = Git::new(app, full);
    let Some(tree) = git.merge_tree(&pull.base_sha, &pull.head_sha).await? else {
        return Err(Refusal::new(405, "Pull Request is not mergeable"));
    };
    let message = message(&git, &state, pull, method, input).await?;
    let me = state.me();
    // A squash is the work of the pull's author; a merge commit that of the one who merges.
    let author = if method == "squash" { state.user(&pull.user) } else { me.clone() };
    let who = [("GIT_AUTHOR_NAME", author.name.as_str()), ("GIT_AUTHOR_EMAIL", author.email.as_str())];
    let mut args = vec!["commit-tree", tree.as_str(), "-p", pull.base_sha.as_str()];
    if method == "merge" {
        args.extend(["-p", pull.head_sha.as_str()]);
    }
    args.extend(["-F", "-"]);
    let commit = git.text_with(&args, &who, Some(message.as_bytes())).await?;
    app.change(|tx| {
        let mut p = tx.state.pulls.get(&(full.to_owned(), number)).cloned().ok_or_else(Refusal::not_found)?;
        p.merging = Some(commit.clone());
        tx.put(Event::Pull(Box::new(p)));
        Ok::<_, Refusal>(())
    })?;
    let target = format!("refs/heads/{}", pull.base_ref);
    let moved = git.raw(&["update-ref", &target, &commit, &pull.base_sha], &[], None).await?;
    if !moved.status.success() {
        abandon(app, full, number)?;
        return Err(Refusal::new(405, "Base branch was modified. Review and try the merge again."));
    }
    complete(app, full, number, &commit)?;
    // The push of the merge itself: its webhook, its CI run and the other pulls on this base.
    repos::reconcile(app, full).await?;
    Ok(json_answer(200, &json!({"sha": commit, "merged": true, "message": "Pull Request successfully merged"})))
}

/// The message of the commit, with the service's defaults.
async fn message(git: &Git<'_>, state: &State, pull: &Pull, method: &str, input: &Value) -> Result<String, Error> {
    let owner = state.repos.get(&pull.repo).map_or("", |r| r.owner.as_str());
    let range = format!("{}..{}", pull.base_sha, pull.head_sha);
    let log = git.text(&["log", "--reverse", "--no-merges", js::LOG_FORMAT, &range]).await?;
    let commits = js::parse_log(&log);
    let title = match input["commit_title"].as_str().filter(|t| !t.is_empty()) {
        Some(title) => title.to_owned(),
        None if method == "merge" => format!("Merge pull request #{} from {owner}/{}", pull.number, pull.head_ref),
        None => format!("{} (#{})", pull.title, pull.number),
    };
    let body = match input["commit_message"].as_str() {
        Some(body) => body.to_owned(),
        None if method == "merge" => pull.title.clone(),
        None => match commits.as_slice() {
            [one] => one.message.split_once('\n').map_or("", |(_, rest)| rest).trim().to_owned(),
            many => many.iter().map(|c| format!("* {}", c.message)).collect::<Vec<_>>().join("\n\n"),
        },
    };
    Ok(if body.is_empty() { title } else { format!("{title}\n\n{body}") })
}

/// Journals a merge whose ref has moved.
fn complete(app: &Arc<App>, full: &str, number: u64, commit: &str) -> Result<(), Error> {
    app.change(|tx| {
        let Some(mut pull) = tx.state.pulls.get(&(full.to_owned(), number)).cloned() else { return Ok(()) };
        pull.open = false;
        pull.merged = true;
        pull.merges += 1;
        pull.merging = None;
        pull.merged_by = Some(tx.state.me().login);
        pull.merged_at = Some(tx.now);
        pull.closed_at = Some(tx.now);
        pull.updated_at = tx.now;
        pull.merge_commit_sha = Some(commit.into());
        tx.put(Event::Pull(Box::new(pull.clone())));
        repos::pull_hook(app, tx, "closed", &pull, json!({}));
        linear_ops::pull_merged(app, tx, &pull);
        Ok(())
    })
}

fn abandon(app: &Arc<App>, full: &str, number: u64) -> Result<(), Error> {
    app.change(|tx| {
        if let Some(mut pull) = tx.state.pulls.get(&(full.to_owned(), number)).cloned() {
            pull.merging = None;
            tx.put(Event::Pull(Box::new(pull)));
        }
        Ok(())
    })
}

/// Settles the merges that a kill left between their ref and their journal line.
pub async fn recover(app: &Arc<App>, full: &str) -> Result<(), Error> {
    let state = app.world.state();
    let git = Git::new(app, full);
    for pull in state.pulls.values().filter(|p| p.repo == full) {
        let Some(commit) = &pull.merging else { continue };
        if git.contains(&format!("refs/heads/{}", pull.base_ref), commit).await {
            complete(app, full, pull.number, commit)?;
        } else {
            abandon(app, full, pull.number)?;
        }
    }
    Ok(())
}
