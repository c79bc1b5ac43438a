//! Keeping the journal and the bare repositories in step.
//!
//! git accepts a push before the journal can know of it. Whenever git may have
//! moved, the refs are compared and what is missing is journalled, so a kill
//! between the two loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::git::Git;
use crate::github_json as js;
use crate::model::{CheckRun, Event, Pull, Repo, Stats};
use crate::world::{Hook, Tx};
use crate::{App, Error, github_merge};

/// The id that stands for "no such ref".
const ZERO: &str = "0000000000000000000000000000000000000000";

/// Brings every repository and the journal together after a start.
pub async fn recover(app: &Arc<App>) -> Result<(), Error> {
    let names: Vec<String> = app.world.state().repos.keys().cloned().collect();
    for full in names {
        let lock = app.repo_lock(&full);
        let _held = lock.lock().await;
        github_merge::recover(app, &full).await?;
        reconcile(app, &full).await?;
    }
    Ok(())
}

/// What git says about a pull whose head or base has moved.
struct Moved {
    head: String,
    base: String,
    stats: Stats,
    forced: bool,
}

/// One ref that moved, with its new commits rendered for the push webhook.
struct Push {
    name: String,
    before: String,
    after: String,
    forced: bool,
    commits: Vec<serde_json::Value>,
}

/// Journals what git has and the journal lacks. The caller holds the repository's lock.
pub async fn reconcile(app: &Arc<App>, full: &str) -> Result<(), Error> {
    let state = app.world.state();
    let Some(repo) = state.repos.get(full) else { return Ok(()) };
    let git = Git::new(app, full);
    let refs = git.refs().await?;
    if refs == repo.refs {
        return Ok(());
    }
    let pushes = pushes(&git, repo, &refs).await?;
    let mut moved: BTreeMap<u64, Moved> = BTreeMap::new();
    for pull in state.pulls.values().filter(|p| p.repo == full && p.open) {
        let branch = |name: &str| refs.get(&format!("refs/heads/{name}")).cloned();
        let (Some(head), Some(base)) = (branch(&pull.head_ref), branch(&pull.base_ref)) else { continue };
        if head == pull.head_sha && base == pull.base_sha {
            continue;
        }
        let stats = git.stats(&base, &head).await?;
        let forced = !git.contains(&head, &pull.head_sha).await;
        git.text(&["update-ref", &format!("refs/pull/{}/head", pull.number), &head]).await?;
        moved.insert(pull.number, Moved { head, base, stats, forced });
    }
    app.change(|tx| {
        let Some(mut repo) = tx.state.repos.get(full).cloned() else { return Ok(()) };
        repo.refs = refs;
        repo.pushed_at = tx.now;
        tx.put(Event::Repo(repo.clone()));
        for push in &pushes {
            note_push(app, tx, &repo, push);
        }
        let open: Vec<Pull> = tx.state.pulls.values().filter(|p| p.repo == full && p.open).cloned().collect();
        for pull in open {
            match moved.get(&pull.number) {
                Some(m) => move_pull(app, tx, pull, m),
                // A pull cannot outlive its branches.
                None if repo.branch(&pull.head_ref).is_none() || repo.branch(&pull.base_ref).is_none() => {
                    close_pull(app, tx, pull);
                }
                None => {}
            }
        }
        Ok::<_, Error>(())
    })
}

async fn pushes(git: &Git<'_>, repo: &Repo, refs: &BTreeMap<String, String>) -> Result<Vec<Push>, Error> {
    let mut names: Vec<&String> = refs.keys().chain(repo.refs.keys()).collect();
    names.sort();
    names.dedup();
    let mut out = Vec::new();
    for name in names {
        let before = repo.refs.get(name).cloned().unwrap_or_else(|| ZERO.into());
        let after = refs.get(name).cloned().unwrap_or_else(|| ZERO.into());
        if before == after {
            continue;
        }
        let forced = before != ZERO && after != ZERO && !git.contains(&after, &before).await;
        let mut commits = Vec::new();
        if after != ZERO {
            // What was reachable before this push is not part of it.
            let old: Vec<String> = repo.refs.values().map(|s| format!("^{s}")).collect();
            let mut args = vec!["log", "--reverse", "--max-count=2048", js::LOG_FORMAT, after.as_str()];
            args.extend(old.iter().map(String::as_str));
            let log = git.text(&args).await.unwrap_or_default();
            commits = js::parse_log(&log).iter().map(js::push_commit).collect();
        }
        out.push(Push { name: name.clone(), before, after, forced, commits });
    }
    Ok(out)
}

/// The webhook and the CI run of one ref that moved.
fn note_push(app: &App, tx: &mut Tx, repo: &Repo, push: &Push) {
    let me = tx.state.me();
    let head = push.commits.last().cloned();
    let body = json!({
        "ref": push.name, "before": push.before, "after": push.after,
        "created": push.before == ZERO, "deleted": push.after == ZERO, "forced": push.forced,
        "base_ref": null,
        "compare": format!("{}/{}/compare/{}...{}", app.base, repo.full(), short(&push.before), short(&push.after)),
        "commits": push.commits, "head_commit": head,
        "repository": js::repo(app, &tx.state, repo),
        "pusher": {"name": me.login, "email": me.email},
        "sender": js::user(app, &me),
    });
    tx.hook(Hook::GitHub { event: "push", body });
    let default = format!("refs/heads/{}", repo.default_branch);
    if push.name == default && push.after != ZERO {
        start_check(app, tx, repo, &push.after, &repo.default_branch);
    }
}

fn short(sha: &str) -> &str {
    sha.get(..12).unwrap_or(sha)
}

fn move_pull(app: &App, tx: &mut Tx, mut pull: Pull, moved: &Moved) {
    let before = std::mem::replace(&mut pull.head_sha, moved.head.clone());
    pull.base_sha = moved.base.clone();
    pull.stats = moved.stats.clone();
    pull.mergeable = None;
    pull.merge_commit_sha = None;
    let pushed = before != pull.head_sha;
    if pushed {
        pull.updated_at = tx.now;
    }
    tx.put(Event::Pull(Box::new(pull.clone())));
    if pushed {
        tracing::debug!(number = pull.number, forced = moved.forced, "pull moved");
        let extra = json!({"before": before, "after": pull.head_sha});
        pull_hook(app, tx, "synchronize", &pull, extra);
        if let Some(repo) = tx.state.repos.get(&pull.repo).cloned() {
            start_check(app, tx, &repo, &pull.head_sha, &pull.head_ref);
        }
    }
}

/// Closes a pull without merging it.
pub fn close_pull(app: &App, tx: &mut Tx, mut pull: Pull) {
    pull.open = false;
    pull.closed_at = Some(tx.now);
    pull.updated_at = tx.now;
    tx.put(Event::Pull(Box::new(pull.clone())));
    pull_hook(app, tx, "closed", &pull, json!({}));
}

/// Sends a `pull_request` webhook; `extra` is merged into its body.
pub fn pull_hook(app: &App, tx: &mut Tx, action: &str, pull: &Pull, extra: serde_json::Value) {
    let me = tx.state.me();
    let Some(repo) = tx.state.repos.get(&pull.repo).cloned() else { return };
    let mut body = json!({
        "action": action, "number": pull.number,
        "pull_request": js::pull_full(app, &tx.state, pull),
        "repository": js::repo(app, &tx.state, &repo),
        "sender": js::user(app, &me),
    });
    if let (Some(to), Some(from)) = (body.as_object_mut(), extra.as_object()) {
        to.extend(from.clone());
    }
    tx.hook(Hook::GitHub { event: "pull_request", body });
}

/// Queues the pretend CI on a commit, once.
pub fn start_check(app: &App, tx: &mut Tx, repo: &Repo, sha: &str, branch: &str) {
    let full = repo.full();
    if tx.state.runs_of(&full, sha).next().is_some() {
        return;
    }
    let run = CheckRun {
        id: tx.number(),
        suite: tx.number(),
        repo: full,
        name: "test".into(),
        head_sha: sha.into(),
        head_branch: branch.into(),
        status: "queued".into(),
        conclusion: None,
        summary: None,
        created_at: tx.now,
        started_at: tx.now,
        completed_at: None,
    };
    tx.put(Event::CheckRun(run.clone()));
    check_hook(app, tx, "created", &run);
    tx.runs.push(run.id);
}

/// Sends a `check_run` webhook.
pub fn check_hook(app: &App, tx: &mut Tx, action: &str, run: &CheckRun) {
    let me = tx.state.me();
    let Some(repo) = tx.state.repos.get(&run.repo).cloned() else { return };
    let body = json!({
        "action": action,
        "check_run": js::check_run(app, &tx.state, run, true),
        "repository": js::repo(app, &tx.state, &repo),
        "sender": js::user(app, &me),
    });
    tx.hook(Hook::GitHub { event: "check_run", body });
}
