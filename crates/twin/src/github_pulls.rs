//! Pulls: list, open, read, edit.

use axum::body::Bytes;
use axum::extract::{Path, Query as Q, State as Ext};
use serde_json::{Value, json};

use crate::git::Git;
use crate::github::{self, Answer, Query, Refusal, Shared, json_answer, parse};
use crate::model::{Event, Pull};
use crate::{Error, github_json as js, linear_ops, repos};

type Repo = Path<(String, String)>;
type Numbered = Path<(String, String, u64)>;

pub async fn list(Ext(app): Shared, Path((owner, name)): Repo, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let repo = github::repo(&state, &owner, &name)?;
    let ask = |key: &str| query.get(key).map(String::as_str);
    let wanted = ask("state").unwrap_or("open");
    let mut pulls: Vec<&Pull> = state
        .pulls
        .values()
        .filter(|p| p.repo == repo.full())
        .filter(|p| wanted == "all" || (wanted == "open") == p.open)
        .filter(|p| ask("base").is_none_or(|b| p.base_ref == b))
        // The real service takes `owner:branch` and ignores anything else.
        .filter(|p| {
            ask("head")
                .and_then(|h| h.split_once(':'))
                .is_none_or(|(o, b)| o.eq_ignore_ascii_case(&repo.owner) && p.head_ref == b)
        })
        .collect();
    let sort = ask("sort").unwrap_or("created");
    match sort {
        "updated" => pulls.sort_by_key(|p| (p.updated_at, p.number)),
        "popularity" => pulls.sort_by_key(|p| (state.comments_of(&p.repo, p.number).count(), p.number)),
        _ => pulls.sort_by_key(|p| p.number),
    }
    let default = if sort == "created" { "desc" } else { "asc" };
    if ask("direction").unwrap_or(default) == "desc" {
        pulls.reverse();
    }
    let items: Vec<Value> = pulls.into_iter().map(|p| js::pull_simple(&app, &state, p)).collect();
    let path = format!("/github/repos/{}/pulls", repo.full());
    Ok(github::paged(&app, &path, &query, items))
}

pub async fn create(Ext(app): Shared, Path((owner, name)): Repo, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let repo = github::repo(&app.world.state(), &owner, &name)?;
    let full = repo.full();
    let text = |key: &str| input[key].as_str().filter(|s| !s.is_empty()).map(str::to_owned);
    let title = text("title").ok_or_else(|| Refusal::missing("PullRequest", "title"))?;
    let head = text("head").ok_or_else(|| Refusal::missing("PullRequest", "head"))?;
    let base = text("base").ok_or_else(|| Refusal::missing("PullRequest", "base"))?;
    let body = input["body"].as_str().map(str::to_owned);
    let draft = input["draft"].as_bool().unwrap_or(false);
    let bad = |field: &str| Refusal::invalid(json!([{"resource": "PullRequest", "field": field, "code": "invalid"}]));
    let head = match head.split_once(':') {
        Some((o, b)) if o.eq_ignore_ascii_case(&repo.owner) => b.to_owned(),
        Some(_) => return Err(bad("head")),
        None => head,
    };

    let task = app.clone();
    app.detached(async move {
        let app = task;
        let lock = app.repo_lock(&full);
        let _held = lock.lock().await;
        repos::reconcile(&app, &full).await?;
        let state = app.world.state();
        let repo = state.repos.get(&full).ok_or_else(Refusal::not_found)?;
        let head_sha = repo.branch(&head).cloned().ok_or_else(|| bad("head"))?;
        let base_sha = repo.branch(&base).cloned().ok_or_else(|| bad("base"))?;
        if state.pulls.values().any(|p| p.repo == full && p.open && p.head_ref == head && p.base_ref == base) {
            return Err(Refusal::invalid(json!([{
                "resource": "PullRequest", "code": "custom",
                "message": format!("A pull request already exists for {}:{head}.", repo.owner),
            }])));
        }
        let git = Git::new(&app, &full);
        let stats = git.stats(&base_sha, &head_sha).await?;
        if stats.commits == 0 {
            return Err(Refusal::invalid(json!([{
                "resource": "PullRequest", "code": "custom",
                "message": format!("No commits between {base} and {head}"),
            }])));
        }
        // The number is ours to choose: the repository's lock is held.
        let number = repo.next_number;
        git.text(&["update-ref", &format!("refs/pull/{number}/head"), &head_sha]).await?;
        let pull = app.change(|tx| {
            let mut repo = tx.state.repos.get(&full).cloned().ok_or_else(Refusal::not_found)?;
            repo.next_number = number + 1;
            tx.put(Event::Repo(repo.clone()));
            let pull = Pull {
                id: tx.number(),
                repo: full.clone(),
                number,
                title,
                body,
                user: tx.state.me().login,
                open: true,
                draft,
                head_ref: head,
                head_sha,
                base_ref: base,
                base_sha,
                labels: Vec::new(),
                requested: Vec::new(),
                stats,
                mergeable: None,
                merge_commit_sha: None,
                merging: None,
                merged: false,
                merged_by: None,
                merged_at: None,
                closed_at: None,
                merges: 0,
                created_at: tx.now,
                updated_at: tx.now,
            };
            tx.put(Event::Pull(Box::new(pull.clone())));
            repos::pull_hook(&app, tx, "opened", &pull, json!({}));
            repos::start_check(&app, tx, &repo, &pull.head_sha, &pull.head_ref);
            linear_ops::pull_opened(&app, tx, &pull);
            Ok::<_, Refusal>(pull)
        })?;
        Ok(json_answer(201, &js::pull_full(&app, &app.world.state(), &pull)))
    })
    .await?
}

pub async fn read(Ext(app): Shared, Path((owner, name, number)): Numbered) -> Answer {
    let state = app.world.state();
    let (repo, pull) = github::pull(&state, &owner, &name, number)?;
    let answer = json_answer(200, &js::pull_full(&app, &state, &pull));
    if pull.open && pull.mergeable.is_none() {
        // This read starts the computation; a later one sees its result.
        let task = app.clone();
        app.detached(async move { judge(&task, &repo.full(), number).await }).await??;
    }
    Ok(answer)
}

/// Computes whether a pull merges cleanly, by a test merge.
async fn judge(app: &std::sync::Arc<crate::App>, full: &str, number: u64) -> Result<(), Error> {
    let lock = app.repo_lock(full);
    let _held = lock.lock().await;
    let state = app.world.state();
    let Some(pull) = state.pulls.get(&(full.to_owned(), number)) else { return Ok(()) };
    if !pull.open || pull.mergeable.is_some() {
        return Ok(());
    }
    let git = Git::new(app, full);
    let test = match git.merge_tree(&pull.base_sha, &pull.head_sha).await? {
        Some(tree) => {
            let message = format!("Merge {} into {}", pull.head_sha, pull.base_sha);
            let args = ["commit-tree", &tree, "-p", &pull.base_sha, "-p", &pull.head_sha, "-m", &message];
            Some(git.text(&args).await?)
        }
        None => None,
    };
    app.change(|tx| {
        if let Some(mut pull) = tx.state.pulls.get(&(full.to_owned(), number)).cloned() {
            pull.mergeable = Some(test.is_some());
            pull.merge_commit_sha = test;
            tx.put(Event::Pull(Box::new(pull)));
        }
        Ok(())
    })
}

pub async fn update(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let full = repo.full();
    if input.get("title").is_some_and(|t| t.as_str().is_none_or(str::is_empty)) {
        return Err(Refusal::missing("PullRequest", "title"));
    }
    let state = match input.get("state").filter(|s| !s.is_null()) {
        None => None,
        Some(Value::String(s)) if s == "open" || s == "closed" => Some(s.clone()),
        Some(_) => {
            return Err(Refusal::invalid(json!([{"resource": "PullRequest", "field": "state", "code": "invalid"}])));
        }
    };
    let task = app.clone();
    app.detached(async move {
        let app = task;
        let lock = app.repo_lock(&full);
        let _held = lock.lock().await;
        app.change(|tx| {
            let mut pull = tx.state.pulls.get(&(full.clone(), number)).cloned().ok_or_else(Refusal::not_found)?;
            let mut changes = json!({});
            if let Some(title) = input["title"].as_str().filter(|t| *t != pull.title) {
                changes["title"] = json!({"from": pull.title});
                pull.title = title.into();
            }
            if let Some(body) = input.get("body").map(|b| b.as_str().map(str::to_owned)).filter(|b| *b != pull.body) {
                changes["body"] = json!({"from": pull.body});
                pull.body = body;
            }
            if changes.as_object().is_some_and(|c| !c.is_empty()) {
                pull.updated_at = tx.now;
                tx.put(Event::Pull(Box::new(pull.clone())));
                repos::pull_hook(&app, tx, "edited", &pull, json!({"changes": changes}));
            }
            match state.as_deref() {
                Some("closed") if pull.open => repos::close_pull(&app, tx, pull),
                Some("open") if !pull.open => reopen(&app, tx, pull)?,
                _ => {}
            }
            Ok::<_, Refusal>(())
        })?;
        let state = app.world.state();
        let pull = state.pulls.get(&(full, number)).ok_or_else(Refusal::not_found)?;
        Ok(json_answer(200, &js::pull_full(&app, &state, pull)))
    })
    .await?
}

fn reopen(app: &crate::App, tx: &mut crate::world::Tx, mut pull: Pull) -> Result<(), Refusal> {
    let gone = tx.state.repos.get(&pull.repo).is_none_or(|r| r.branch(&pull.head_ref).is_none());
    if pull.merged || gone {
        let message = "state cannot be changed. The pull request cannot be reopened.";
        return Err(Refusal::invalid(
            json!([{"resource": "PullRequest", "field": "state", "code": "invalid", "message": message}]),
        ));
    }
    let head = tx.state.repos.get(&pull.repo).and_then(|r| r.branch(&pull.head_ref)).cloned();
    pull.head_sha = head.unwrap_or(pull.head_sha);
    pull.open = true;
    pull.closed_at = None;
    pull.mergeable = None;
    pull.updated_at = tx.now;
    tx.put(Event::Pull(Box::new(pull.clone())));
    repos::pull_hook(app, tx, "reopened", &pull, json!({}));
    Ok(())
}
