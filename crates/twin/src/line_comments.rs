//! Comments on lines, and whose review is asked for.

use axum::body::Bytes;
use axum::extract::{Path, Query as Q, State as Ext};
use serde_json::{Value, json};

use crate::App;
use crate::github::{self, Answer, Query, Refusal, Shared, json_answer, parse};
use crate::github_json as js;
use crate::model::{Event, LineComment, State};
use crate::world::Hook;

type Numbered = Path<(String, String, u64)>;

fn row(app: &App, state: &State, c: &LineComment) -> Value {
    let url = format!("{}/pulls/comments/{}", js::repo_url(app, &c.repo), c.id);
    let pull = format!("{}/pulls/{}", js::repo_url(app, &c.repo), c.number);
    let html = format!("{}/{}/pull/{}#discussion_r{}", app.base, c.repo, c.number, c.id);
    json!({
        "id": c.id, "node_id": js::node("PullRequestReviewComment", c.id), "url": url, "html_url": html,
        "pull_request_url": pull, "pull_request_review_id": null, "diff_hunk": "@@ -1 +1 @@", "path": c.path,
        "line": c.line, "original_line": c.line, "side": "RIGHT", "position": 1, "original_position": 1,
        "commit_id": c.commit_id, "original_commit_id": c.commit_id, "user": js::user(app, &state.user(&c.user)),
        "body": c.body, "created_at": js::time(c.created_at), "updated_at": js::time(c.created_at),
        "author_association": "COLLABORATOR",
        "_links": {"self": {"href": url}, "html": {"href": html}, "pull_request": {"href": pull}},
    })
}

pub async fn list(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let (repo, _) = github::pull(&state, &owner, &name, number)?;
    let full = repo.full();
    let here = state.line_comments.values().filter(|c| c.repo == full && c.number == number);
    let rows = here.map(|c| row(&app, &state, c)).collect();
    Ok(github::paged(&app, &format!("/github/repos/{full}/pulls/{number}/comments"), &query, rows))
}

pub async fn add(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let full = repo.full();
    let text = |key: &str| {
        let found = input[key].as_str().filter(|t| !t.trim().is_empty());
        found.map(str::to_owned).ok_or_else(|| Refusal::missing("PullRequestReviewComment", key))
    };
    let (words, path) = (text("body")?, text("path")?);
    let line = input["line"].as_u64().ok_or_else(|| Refusal::missing("PullRequestReviewComment", "line"))?;
    let made = app.change(|tx| {
        let key = (full.clone(), number);
        let mut pull = tx.state.pulls.get(&key).cloned().ok_or_else(Refusal::not_found)?;
        // A test may have somebody else say it.
        let user = input["by"].as_str().map_or_else(|| tx.state.me().login, str::to_owned);
        let comment = LineComment {
            id: tx.number(),
            repo: full.clone(),
            number,
            user: user.clone(),
            body: words,
            path,
            line,
            commit_id: pull.head_sha.clone(),
            created_at: tx.now,
        };
        tx.put(Event::LineComment(comment.clone()));
        pull.updated_at = tx.now;
        tx.put(Event::Pull(Box::new(pull.clone())));
        let body = json!({
            "action": "created", "comment": row(&app, &tx.state, &comment),
            "pull_request": js::pull_simple(&app, &tx.state, &pull),
            "repository": js::repo(&app, &tx.state, &repo), "sender": js::user(&app, &tx.state.user(&user)),
        });
        tx.hook(Hook::GitHub { event: "pull_request_review_comment", body });
        Ok::<_, Refusal>(comment)
    })?;
    Ok(json_answer(201, &row(&app, &app.world.state(), &made)))
}

pub async fn request(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, pull) = github::pull(&app.world.state(), &owner, &name, number)?;
    let asked: Vec<String> =
        input["reviewers"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if asked.contains(&pull.user) {
        return Err(Refusal::new(422, "Review cannot be requested from pull request author."));
    }
    let shown = app.change(|tx| {
        let mut pull = tx.state.pulls.get(&(repo.full(), number)).cloned().ok_or_else(Refusal::not_found)?;
        for login in asked {
            if !pull.requested.contains(&login) {
                pull.requested.push(login);
            }
        }
        pull.updated_at = tx.now;
        tx.put(Event::Pull(Box::new(pull.clone())));
        Ok::<_, Refusal>(js::pull_simple(&app, &tx.state, &pull))
    })?;
    Ok(json_answer(201, &shown))
}
