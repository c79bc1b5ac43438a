//! Read-only views that git answers: branches, commits, compares, files, and checks on a commit.

use std::collections::BTreeMap;

use axum::extract::{Path, Query as Q, State as Ext};
use serde_json::{Value, json};

use crate::App;
use crate::git::Git;
use crate::github::{self, Answer, Query, Refusal, Shared, json_answer};
use crate::github_json as js;
use crate::model::State;

type Numbered = Path<(String, String, u64)>;
type Rest = Path<(String, String, String)>;

pub async fn repository(Ext(app): Shared, Path((owner, name)): Path<(String, String)>) -> Answer {
    let state = app.world.state();
    let repo = github::repo(&state, &owner, &name)?;
    Ok(json_answer(200, &js::repo(&app, &state, &repo)))
}

pub async fn branch(Ext(app): Shared, Path((owner, name, branch)): Rest) -> Answer {
    let state = app.world.state();
    let repo = github::repo(&state, &owner, &name)?;
    let full = repo.full();
    let sha = repo.branch(&branch).ok_or_else(|| Refusal::new(404, "Branch not found"))?;
    let url = format!("{}/branches/{branch}", js::repo_url(&app, &full));
    let body = json!({
        "name": branch, "commit": one_commit(&app, &state, &full, sha).await?,
        "_links": {"self": url, "html": format!("{}/{full}/tree/{branch}", app.base)},
        "protected": false, "protection_url": format!("{url}/protection"),
        "protection": {"enabled": false, "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []}},
    });
    Ok(json_answer(200, &body))
}

async fn one_commit(app: &App, state: &State, full: &str, sha: &str) -> Result<Value, Refusal> {
    let log = Git::new(app, full).text(&["log", "-1", js::LOG_FORMAT, sha]).await?;
    js::parse_log(&log).first().map(|c| js::commit(app, state, full, c)).ok_or_else(Refusal::not_found)
}

/// `/commits/{ref}`, `/commits/{ref}/check-runs` and `/commits/{ref}/status`; a ref may hold slashes.
pub async fn commits(Ext(app): Shared, Path((owner, name, rest)): Rest, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let full = github::repo(&state, &owner, &name)?.full();
    let (reference, what) = match rest.rsplit_once('/') {
        Some((r, what @ ("check-runs" | "status"))) => (r, what),
        _ => (rest.as_str(), ""),
    };
    let bad = || Refusal::new(422, &format!("No commit found for SHA: {reference}"));
    let git = Git::new(&app, &full);
    let sha = match git.commit(&format!("refs/heads/{reference}")).await {
        Some(sha) => sha,
        None => git.commit(reference).await.ok_or_else(bad)?,
    };
    match what {
        "check-runs" => {
            let ask = |key: &str| query.get(key).map(String::as_str);
            let runs: Vec<Value> = state
                .runs_of(&full, &sha)
                .filter(|r| ask("check_name").is_none_or(|n| r.name == n))
                .filter(|r| ask("status").is_none_or(|s| r.status == s))
                .map(|r| js::check_run(&app, &state, r, false))
                .collect();
            let total = runs.len();
            let path = format!("/github/repos/{full}/commits/{reference}/check-runs");
            let (runs, links) = github::page(&app, &path, &query, runs);
            let body = json!({"total_count": total, "check_runs": runs});
            Ok(github::with_links(json_answer(200, &body), links))
        }
        "status" => {
            let url = js::repo_url(&app, &full);
            let repo = state.repos.get(&full).map(|r| js::repo(&app, &state, r));
            // Nobody posts statuses here, and without any the real service says pending.
            let body = json!({
                "state": "pending", "statuses": [], "sha": sha, "total_count": 0, "repository": repo,
                "commit_url": format!("{url}/commits/{sha}"), "url": format!("{url}/commits/{sha}/status"),
            });
            Ok(json_answer(200, &body))
        }
        _ => {
            let mut body = one_commit(&app, &state, &full, &sha).await?;
            let parent = body["parents"][0]["sha"].as_str().map(str::to_owned);
            let files = match parent {
                Some(parent) => diff(&app, &full, &parent, &sha).await?,
                None => Vec::new(),
            };
            let sum = |key: &str| files.iter().filter_map(|f| f[key].as_u64()).sum::<u64>();
            body["stats"] =
                json!({"additions": sum("additions"), "deletions": sum("deletions"), "total": sum("changes")});
            body["files"] = json!(files);
            Ok(json_answer(200, &body))
        }
    }
}

pub async fn compare(Ext(app): Shared, Path((owner, name, basehead)): Rest) -> Answer {
    let state = app.world.state();
    let full = github::repo(&state, &owner, &name)?.full();
    let (base, head) = basehead.split_once("...").ok_or_else(Refusal::not_found)?;
    let git = Git::new(&app, &full);
    // `owner:branch` names this same network here.
    let bare = |s: &str| s.rsplit_once(':').map_or(s, |(_, b)| b).to_owned();
    let (Some(a), Some(b)) = (git.commit(&bare(base)).await, git.commit(&bare(head)).await) else {
        return Err(Refusal::not_found());
    };
    let counts = git.text(&["rev-list", "--left-right", "--count", &format!("{a}...{b}")]).await?;
    let mut counts = counts.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
    let (behind, ahead) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    let status = match (ahead, behind) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    let fork = git.text(&["merge-base", &a, &b]).await.map_err(|_| Refusal::not_found())?;
    let log = git.text(&["log", "--reverse", "--max-count=250", js::LOG_FORMAT, &format!("{a}..{b}")]).await?;
    let commits: Vec<Value> = js::parse_log(&log).iter().map(|c| js::commit(&app, &state, &full, c)).collect();
    let url = format!("{}/compare/{base}...{head}", js::repo_url(&app, &full));
    let html = format!("{}/{full}/compare/{base}...{head}", app.base);
    let body = json!({
        "url": url, "html_url": html, "permalink_url": html, "diff_url": format!("{html}.diff"),
        "patch_url": format!("{html}.patch"),
        "base_commit": one_commit(&app, &state, &full, &a).await?,
        "merge_base_commit": one_commit(&app, &state, &full, &fork).await?,
        "status": status, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead,
        "commits": commits, "files": diff(&app, &full, &fork, &b).await?,
    });
    Ok(json_answer(200, &body))
}

/// Base, head and repository of a pull. A merged pull's base is where it stood before the merge.
fn ends(state: &State, owner: &str, name: &str, number: u64) -> Result<(String, String, String), Refusal> {
    let (repo, pull) = github::pull(state, owner, name, number)?;
    Ok((repo.full(), pull.base_sha, pull.head_sha))
}

pub async fn files(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let (full, base, head) = ends(&app.world.state(), &owner, &name, number)?;
    let fork = Git::new(&app, &full).text(&["merge-base", &base, &head]).await?;
    let items = diff(&app, &full, &fork, &head).await?;
    Ok(github::paged(&app, &format!("/github/repos/{full}/pulls/{number}/files"), &query, items))
}

pub async fn pull_commits(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let (full, base, head) = ends(&state, &owner, &name, number)?;
    let git = Git::new(&app, &full);
    let log = git.text(&["log", "--reverse", "--max-count=250", js::LOG_FORMAT, &format!("{base}..{head}")]).await?;
    let items = js::parse_log(&log).iter().map(|c| js::commit(&app, &state, &full, c)).collect();
    Ok(github::paged(&app, &format!("/github/repos/{full}/pulls/{number}/commits"), &query, items))
}

/// The changed files between two commits, each with its patch.
async fn diff(app: &App, full: &str, from: &str, to: &str) -> Result<Vec<Value>, Refusal> {
    let git = Git::new(app, full);
    let raw = git.text(&["diff", "--raw", "-M", "-z", "--abbrev=40", from, to]).await?;
    let numbers = git.text(&["diff", "--numstat", "-M", "-z", from, to]).await?;
    let patches = git.text(&["diff", "-M", from, to]).await?;
    let counts = numstat(&numbers);
    // git prints the patches in the order of the raw list.
    let mut patches = split_patches(&patches).into_iter();
    let mut fields = raw.split('\0');
    let mut out = Vec::new();
    while let Some(head) = fields.next().filter(|h| h.starts_with(':')) {
        let parts: Vec<&str> = head.split(' ').collect();
        let (Some(old), Some(new), Some(letter)) = (parts.get(2), parts.get(3), parts.get(4)) else { break };
        let Some(first) = fields.next() else { break };
        let (status, previous, path) = match letter.chars().next() {
            Some('A') => ("added", None, first),
            Some('D') => ("removed", None, first),
            Some('R') => ("renamed", Some(first), fields.next().unwrap_or(first)),
            Some('C') => ("copied", Some(first), fields.next().unwrap_or(first)),
            Some('T') => ("changed", None, first),
            _ => ("modified", None, first),
        };
        let (plus, minus) = counts.get(path).copied().unwrap_or((0, 0));
        let repo = js::repo_url(app, full);
        let mut file = json!({
            "sha": if status == "removed" { old } else { new }, "filename": path, "status": status,
            "additions": plus, "deletions": minus, "changes": plus + minus,
            "blob_url": format!("{}/{full}/blob/{to}/{path}", app.base),
            "raw_url": format!("{}/{full}/raw/{to}/{path}", app.base),
            "contents_url": format!("{repo}/contents/{path}?ref={to}"),
        });
        if let Some(previous) = previous {
            file["previous_filename"] = json!(previous);
        }
        // Binary files and pure renames have no patch.
        if let Some(Some(patch)) = patches.next() {
            file["patch"] = json!(patch);
        }
        out.push(file);
    }
    Ok(out)
}

/// Path to added and removed lines, from `--numstat -z`.
fn numstat(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut out = BTreeMap::new();
    let mut fields = text.split('\0');
    while let Some(field) = fields.next() {
        let mut parts = field.splitn(3, '\t');
        let (Some(plus), Some(minus), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        // A rename leaves the path empty and gives the old and the new one after it.
        let path = if path.is_empty() { fields.nth(1).unwrap_or("") } else { path };
        out.insert(path.to_owned(), (plus.parse().unwrap_or(0), minus.parse().unwrap_or(0)));
    }
    out
}

/// One patch a file, from its first hunk on.
fn split_patches(text: &str) -> Vec<Option<String>> {
    let mut out: Vec<Option<String>> = Vec::new();
    for line in text.lines() {
        if line.starts_with("diff --git ") {
            out.push(None);
            continue;
        }
        let Some(last) = out.last_mut() else { continue };
        match last {
            Some(patch) => {
                patch.push('\n');
                patch.push_str(line);
            }
            None if line.starts_with("@@") => *last = Some(line.to_owned()),
            None => {}
        }
    }
    out
}
