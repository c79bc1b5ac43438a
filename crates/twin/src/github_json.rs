//! GitHub's objects as JSON, with the official field names.

use base64::Engine;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::App;
use crate::model::{CheckRun, Pull, PullComment, Repo, Review, State, User};

/// The format of `git log` that [`parse_log`] reads.
pub const LOG_FORMAT: &str = "--format=%H%x1f%T%x1f%P%x1f%an%x1f%ae%x1f%aI%x1f%cn%x1f%ce%x1f%cI%x1f%B%x1e";

/// A commit as `git log` tells it.
pub struct Commit {
    pub sha: String,
    pub tree: String,
    pub parents: Vec<String>,
    pub author: [String; 3],
    pub committer: [String; 3],
    pub message: String,
}

/// Reads what `git log` printed in [`LOG_FORMAT`].
pub fn parse_log(text: &str) -> Vec<Commit> {
    text.split('\x1e')
        .filter_map(|record| {
            let f: Vec<&str> = record.trim_start_matches('\n').splitn(10, '\x1f').collect();
            let at = |i: usize| f.get(i).map(|s| (*s).to_owned());
            Some(Commit {
                sha: at(0).filter(|s| !s.is_empty())?,
                tree: at(1)?,
                parents: at(2)?.split_whitespace().map(str::to_owned).collect(),
                author: [at(3)?, at(4)?, utc(&at(5)?)],
                committer: [at(6)?, at(7)?, utc(&at(8)?)],
                message: at(9)?.trim_end().to_owned(),
            })
        })
        .collect()
}

fn utc(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(|_| text.to_owned(), time)
}

/// RFC 3339 in UTC to the second, as GitHub writes it.
pub fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// An id as GraphQL has it.
pub fn node(kind: &str, id: u64) -> String {
    base64::engine::general_purpose::STANDARD.encode(format!("{kind}{id}"))
}

/// A simple-user.
pub fn user(app: &App, u: &User) -> Value {
    let url = format!("{}/github/users/{}", app.base, u.login);
    json!({
        "login": u.login, "id": u.id, "node_id": node("User", u.id),
        "avatar_url": format!("{}/avatars/{}", app.base, u.id), "gravatar_id": "",
        "url": url, "html_url": format!("{}/{}", app.base, u.login),
        "followers_url": format!("{url}/followers"), "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"), "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"), "organizations_url": format!("{url}/orgs"),
        "repos_url": format!("{url}/repos"), "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"), "type": "User", "site_admin": false,
    })
}

fn by_login(app: &App, state: &State, login: &str) -> Value {
    user(app, &state.user(login))
}

/// The API address of a repository.
pub fn repo_url(app: &App, full: &str) -> String {
    format!("{}/github/repos/{full}", app.base)
}

/// A repository.
pub fn repo(app: &App, state: &State, r: &Repo) -> Value {
    let full = r.full();
    let url = repo_url(app, &full);
    let html = format!("{}/{full}", app.base);
    let open = state.pulls.values().filter(|p| p.repo == full && p.open).count();
    json!({
        "id": r.id, "node_id": node("Repository", r.id), "name": r.name, "full_name": full,
        "private": true, "owner": by_login(app, state, &r.owner), "html_url": html, "description": null,
        "fork": false, "url": url,
        "branches_url": format!("{url}/branches{{/branch}}"), "pulls_url": format!("{url}/pulls{{/number}}"),
        "issues_url": format!("{url}/issues{{/number}}"), "labels_url": format!("{url}/labels{{/name}}"),
        "commits_url": format!("{url}/commits{{/sha}}"), "compare_url": format!("{url}/compare/{{base}}...{{head}}"),
        "statuses_url": format!("{url}/statuses/{{sha}}"), "hooks_url": format!("{url}/hooks"),
        "contents_url": format!("{url}/contents/{{+path}}"),
        "git_url": format!("{}/git/{full}.git", app.base), "clone_url": format!("{}/git/{full}.git", app.base),
        "ssh_url": format!("{}/git/{full}.git", app.base), "homepage": null, "language": null,
        "forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 0,
        "open_issues": open, "open_issues_count": open, "default_branch": r.default_branch,
        "is_template": false, "topics": [], "has_issues": true, "has_projects": false, "has_wiki": false,
        "has_pages": false, "has_downloads": false, "archived": false, "disabled": false, "visibility": "private",
        "pushed_at": time(r.pushed_at), "created_at": time(r.created_at), "updated_at": time(r.pushed_at),
        "license": null, "web_commit_signoff_required": false,
        "permissions": {"admin": true, "maintain": true, "push": true, "triage": true, "pull": true},
        "allow_squash_merge": true, "allow_merge_commit": true, "allow_rebase_merge": false,
    })
}

/// A label of a repository.
pub fn label(app: &App, r: &Repo, name: &str) -> Value {
    let id = r.labels.get(name).copied().unwrap_or(0);
    json!({
        "id": id, "node_id": node("Label", id), "url": format!("{}/labels/{name}", repo_url(app, &r.full())),
        "name": name, "description": null, "color": "ededed", "default": false,
    })
}

/// A pull as lists show it (pull-request-simple).
pub fn pull_simple(app: &App, state: &State, p: &Pull) -> Value {
    let url = format!("{}/pulls/{}", repo_url(app, &p.repo), p.number);
    let issue = format!("{}/issues/{}", repo_url(app, &p.repo), p.number);
    let html = pull_html(app, p);
    let statuses = format!("{}/statuses/{}", repo_url(app, &p.repo), p.head_sha);
    let repo_record = state.repos.get(&p.repo);
    let labels: Vec<Value> = repo_record.map_or_else(Vec::new, |r| p.labels.iter().map(|l| label(app, r, l)).collect());
    let owner = repo_record.map_or("", |r| r.owner.as_str());
    let side = |name: &str, sha: &str| {
        json!({
            "label": format!("{owner}:{name}"), "ref": name, "sha": sha,
            "user": by_login(app, state, owner), "repo": repo_record.map(|r| repo(app, state, r)),
        })
    };
    let href = |u: String| json!({"href": u});
    json!({
        "url": url, "id": p.id, "node_id": node("PullRequest", p.id), "html_url": html,
        "diff_url": format!("{html}.diff"), "patch_url": format!("{html}.patch"), "issue_url": issue,
        "commits_url": format!("{url}/commits"), "review_comments_url": format!("{url}/comments"),
        "review_comment_url": format!("{}/pulls/comments{{/number}}", repo_url(app, &p.repo)),
        "comments_url": format!("{issue}/comments"), "statuses_url": statuses,
        "number": p.number, "state": if p.open { "open" } else { "closed" }, "locked": false, "title": p.title,
        "user": by_login(app, state, &p.user), "body": p.body, "labels": labels, "milestone": null,
        "active_lock_reason": null, "created_at": time(p.created_at), "updated_at": time(p.updated_at),
        "closed_at": p.closed_at.map(time), "merged_at": p.merged_at.map(time),
        "merge_commit_sha": p.merge_commit_sha, "assignee": null, "assignees": [],
        "requested_reviewers": p.requested.iter().map(|l| by_login(app, state, l)).collect::<Vec<_>>(),
        "requested_teams": [],
        "head": side(&p.head_ref, &p.head_sha), "base": side(&p.base_ref, &p.base_sha),
        "_links": {
            "self": href(url.clone()), "html": href(html.clone()), "issue": href(issue.clone()),
            "comments": href(format!("{issue}/comments")), "review_comments": href(format!("{url}/comments")),
            "review_comment": href(format!("{}/pulls/comments{{/number}}", repo_url(app, &p.repo))),
            "commits": href(format!("{url}/commits")), "statuses": href(statuses.clone()),
        },
        "author_association": "OWNER", "auto_merge": null, "draft": p.draft,
    })
}

/// Where a person would read a pull.
pub fn pull_html(app: &App, p: &Pull) -> String {
    format!("{}/{}/pull/{}", app.base, p.repo, p.number)
}

/// A pull as its own address shows it.
pub fn pull_full(app: &App, state: &State, p: &Pull) -> Value {
    let mut v = pull_simple(app, state, p);
    v["merged"] = json!(p.merged);
    // A merged pull is no longer judged.
    v["mergeable"] = if p.open { json!(p.mergeable) } else { Value::Null };
    v["rebaseable"] = v["mergeable"].clone();
    v["mergeable_state"] = json!(mergeable_state(state, p));
    v["merged_by"] = p.merged_by.as_ref().map_or(Value::Null, |l| by_login(app, state, l));
    v["comments"] = json!(state.comments_of(&p.repo, p.number).count());
    let lines = state.line_comments.values().filter(|c| c.repo == p.repo && c.number == p.number);
    v["review_comments"] = json!(lines.count());
    v["maintainer_can_modify"] = json!(false);
    v["commits"] = json!(p.stats.commits);
    v["additions"] = json!(p.stats.additions);
    v["deletions"] = json!(p.stats.deletions);
    v["changed_files"] = json!(p.stats.changed_files);
    v
}

fn mergeable_state(state: &State, p: &Pull) -> &'static str {
    let green = state.runs_of(&p.repo, &p.head_sha).all(|r| r.conclusion.as_deref() == Some("success"));
    match p.mergeable {
        _ if !p.open => "unknown",
        None => "unknown",
        Some(false) => "dirty",
        Some(true) if p.draft => "draft",
        Some(true) if green => "clean",
        Some(true) => "unstable",
    }
}

/// A pull as the issues side of the API and the search show it.
pub fn issue(app: &App, state: &State, p: &Pull) -> Value {
    let simple = pull_simple(app, state, p);
    let url = format!("{}/issues/{}", repo_url(app, &p.repo), p.number);
    json!({
        "url": url, "repository_url": repo_url(app, &p.repo), "labels_url": format!("{url}/labels{{/name}}"),
        "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"),
        "html_url": simple["html_url"], "id": p.id, "node_id": simple["node_id"], "number": p.number,
        "title": p.title, "user": simple["user"], "labels": simple["labels"], "state": simple["state"],
        "locked": false, "assignee": null, "assignees": [], "milestone": null,
        "comments": state.comments_of(&p.repo, p.number).count(),
        "created_at": simple["created_at"], "updated_at": simple["updated_at"], "closed_at": simple["closed_at"],
        "author_association": "OWNER", "active_lock_reason": null, "draft": p.draft, "body": p.body,
        "state_reason": null, "score": 1.0, "timeline_url": format!("{url}/timeline"),
        "pull_request": {
            "url": simple["url"], "html_url": simple["html_url"], "diff_url": simple["diff_url"],
            "patch_url": simple["patch_url"], "merged_at": simple["merged_at"],
        },
    })
}

/// An issue comment.
pub fn comment(app: &App, state: &State, c: &PullComment) -> Value {
    json!({
        "id": c.id, "node_id": node("IssueComment", c.id),
        "url": format!("{}/issues/comments/{}", repo_url(app, &c.repo), c.id),
        "html_url": format!("{}/{}/pull/{}#issuecomment-{}", app.base, c.repo, c.number, c.id),
        "issue_url": format!("{}/issues/{}", repo_url(app, &c.repo), c.number),
        "body": c.body, "user": by_login(app, state, &c.user),
        "created_at": time(c.created_at), "updated_at": time(c.updated_at), "author_association": "OWNER",
        "performed_via_github_app": null,
    })
}

/// A review of a pull.
pub fn review(app: &App, state: &State, r: &Review) -> Value {
    let html = format!("{}/{}/pull/{}#pullrequestreview-{}", app.base, r.repo, r.number, r.id);
    let pull = format!("{}/pulls/{}", repo_url(app, &r.repo), r.number);
    let mut v = json!({
        "id": r.id, "node_id": node("PullRequestReview", r.id), "user": by_login(app, state, &r.user),
        "body": r.body, "state": r.state, "html_url": html, "pull_request_url": pull,
        "_links": {"html": {"href": html}, "pull_request": {"href": pull}},
        "commit_id": r.commit_id, "author_association": "OWNER",
    });
    // A pending review has no such field at all.
    if let Some(at) = r.submitted_at {
        v["submitted_at"] = json!(time(at));
    }
    v
}

fn ci_app(app: &App) -> Value {
    json!({
        "id": 15368, "slug": "github-actions", "node_id": node("App", 15368), "name": "GitHub Actions",
        "description": "", "external_url": app.base, "html_url": format!("{}/apps/github-actions", app.base),
        "owner": {"login": "github", "id": 9919, "type": "Organization"},
        "created_at": "2018-07-30T09:30:17Z", "updated_at": "2018-07-30T09:30:17Z",
        "permissions": {"checks": "write", "contents": "read"}, "events": [],
    })
}

fn pulls_of(app: &App, state: &State, run: &CheckRun) -> Vec<Value> {
    let Some(repo) = state.repos.get(&run.repo) else { return Vec::new() };
    let short = json!({"id": repo.id, "url": repo_url(app, &run.repo), "name": repo.name});
    state
        .pulls
        .values()
        .filter(|p| p.repo == run.repo && p.open && p.head_sha == run.head_sha)
        .map(|p| {
            json!({
                "url": format!("{}/pulls/{}", repo_url(app, &p.repo), p.number), "id": p.id, "number": p.number,
                "head": {"ref": p.head_ref, "sha": p.head_sha, "repo": short},
                "base": {"ref": p.base_ref, "sha": p.base_sha, "repo": short},
            })
        })
        .collect()
}

/// A check run. Webhooks carry the whole suite, the REST API only its id.
pub fn check_run(app: &App, state: &State, run: &CheckRun, whole_suite: bool) -> Value {
    let url = format!("{}/check-runs/{}", repo_url(app, &run.repo), run.id);
    let html = format!("{}/{}/runs/{}", app.base, run.repo, run.id);
    json!({
        "id": run.id, "node_id": node("CheckRun", run.id), "head_sha": run.head_sha, "external_id": "",
        "url": url, "html_url": html, "details_url": html, "name": run.name,
        "status": run.status, "conclusion": run.conclusion,
        "started_at": time(run.started_at), "completed_at": run.completed_at.map(time),
        "output": {
            "title": run.conclusion, "summary": run.summary, "text": null,
            "annotations_count": 0, "annotations_url": format!("{url}/annotations"),
        },
        "check_suite": if whole_suite { check_suite(app, state, run) } else { json!({"id": run.suite}) },
        "app": ci_app(app), "pull_requests": pulls_of(app, state, run),
    })
}

/// The suite of a run; the pretend CI has one run in each.
pub fn check_suite(app: &App, state: &State, run: &CheckRun) -> Value {
    let url = format!("{}/check-suites/{}", repo_url(app, &run.repo), run.suite);
    json!({
        "id": run.suite, "node_id": node("CheckSuite", run.suite), "head_branch": run.head_branch,
        "head_sha": run.head_sha, "status": run.status, "conclusion": run.conclusion, "url": url,
        "before": null, "after": run.head_sha, "pull_requests": pulls_of(app, state, run), "app": ci_app(app),
        "created_at": time(run.created_at), "updated_at": time(run.completed_at.unwrap_or(run.started_at)),
        "latest_check_runs_count": 1, "check_runs_url": format!("{url}/check-runs"),
    })
}

/// A commit as the REST API shows it.
pub fn commit(app: &App, state: &State, full: &str, c: &Commit) -> Value {
    let url = format!("{}/commits/{}", repo_url(app, full), c.sha);
    let person = |p: &[String; 3]| json!({"name": p[0], "email": p[1], "date": p[2]});
    let account = |email: &str| {
        let me = state.me();
        let known = state.users.values().chain(std::iter::once(&me)).find(|u| u.email == email);
        known.map_or(Value::Null, |u| user(app, u))
    };
    let parents: Vec<Value> = c
        .parents
        .iter()
        .map(|p| {
            json!({"sha": p, "url": format!("{}/commits/{p}", repo_url(app, full)),
                        "html_url": format!("{}/{full}/commit/{p}", app.base)})
        })
        .collect();
    json!({
        "sha": c.sha, "node_id": base64::engine::general_purpose::STANDARD.encode(&c.sha), "url": url,
        "html_url": format!("{}/{full}/commit/{}", app.base, c.sha), "comments_url": format!("{url}/comments"),
        "commit": {
            "url": format!("{}/git/commits/{}", repo_url(app, full), c.sha),
            "author": person(&c.author), "committer": person(&c.committer), "message": c.message,
            "tree": {"sha": c.tree, "url": format!("{}/git/trees/{}", repo_url(app, full), c.tree)},
            "comment_count": 0,
            "verification": {"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null},
        },
        "author": account(&c.author[1]), "committer": account(&c.committer[1]), "parents": parents,
    })
}

/// A commit as the push webhook shows it.
pub fn push_commit(c: &Commit) -> Value {
    let person = |p: &[String; 3]| json!({"name": p[0], "email": p[1]});
    json!({
        "id": c.sha, "tree_id": c.tree, "distinct": true, "message": c.message, "timestamp": c.author[2],
        "url": c.sha, "author": person(&c.author), "committer": person(&c.committer),
        "added": [], "removed": [], "modified": [],
    })
}
