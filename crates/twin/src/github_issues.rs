//! The conversation of a pull: comments, labels, reviews, and the search.

use axum::body::Bytes;
use axum::extract::{Path, Query as Q, State as Ext};
use serde_json::{Value, json};

use crate::github::{self, Answer, Query, Refusal, Shared, json_answer, parse};
use crate::model::{Event, Pull, PullComment, Review, User};
use crate::world::{Hook, Tx};
use crate::{App, github_json as js, repos};

type Numbered = Path<(String, String, u64)>;

pub async fn issue(Ext(app): Shared, Path((owner, name, number)): Numbered) -> Answer {
    let state = app.world.state();
    let (_, pull) = github::pull(&state, &owner, &name, number)?;
    Ok(json_answer(200, &js::issue(&app, &state, &pull)))
}

pub async fn comments(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let (repo, _) = github::pull(&state, &owner, &name, number)?;
    let since = query.get("since").and_then(|s| s.parse::<jiff::Timestamp>().ok());
    let full = repo.full();
    let items = state
        .comments_of(&full, number)
        .filter(|c| since.is_none_or(|s| c.updated_at >= s))
        .map(|c| js::comment(&app, &state, c))
        .collect();
    Ok(github::paged(&app, &format!("/github/repos/{full}/issues/{number}/comments"), &query, items))
}

fn comment_hook(app: &App, tx: &mut Tx, action: &str, comment: &PullComment, by: &User, from: Option<&str>) {
    let key = (comment.repo.clone(), comment.number);
    let (Some(repo), Some(pull)) = (tx.state.repos.get(&comment.repo), tx.state.pulls.get(&key)) else { return };
    let mut body = json!({
        "action": action, "issue": js::issue(app, &tx.state, pull),
        "comment": js::comment(app, &tx.state, comment),
        "repository": js::repo(app, &tx.state, repo), "sender": js::user(app, by),
    });
    if let Some(from) = from {
        body["changes"] = json!({"body": {"from": from}});
    }
    tx.hook(Hook::GitHub { event: "issue_comment", body });
}

/// Adds a comment by a user; the pull must exist.
pub fn put_comment(
    app: &App,
    tx: &mut Tx,
    full: &str,
    number: u64,
    by: &User,
    text: &str,
) -> Result<PullComment, Refusal> {
    let mut pull = tx.state.pulls.get(&(full.to_owned(), number)).cloned().ok_or_else(Refusal::not_found)?;
    let comment = PullComment {
        id: tx.number(),
        repo: full.into(),
        number,
        user: by.login.clone(),
        body: text.into(),
        created_at: tx.now,
        updated_at: tx.now,
    };
    tx.put(Event::PullComment(comment.clone()));
    pull.updated_at = tx.now;
    tx.put(Event::Pull(Box::new(pull)));
    comment_hook(app, tx, "created", &comment, by, None);
    Ok(comment)
}

pub async fn add_comment(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let text = input["body"].as_str().filter(|b| !b.trim().is_empty());
    let text = text.ok_or_else(|| Refusal::missing("IssueComment", "body"))?;
    let comment = app.change(|tx| {
        let me = tx.state.me();
        put_comment(&app, tx, &repo.full(), number, &me, text)
    })?;
    Ok(json_answer(201, &js::comment(&app, &app.world.state(), &comment)))
}

pub async fn one_comment(Ext(app): Shared, Path((owner, name, id)): Numbered) -> Answer {
    let state = app.world.state();
    let repo = github::repo(&state, &owner, &name)?;
    let comment = state.pull_comments.get(&id).filter(|c| c.repo == repo.full()).ok_or_else(Refusal::not_found)?;
    Ok(json_answer(200, &js::comment(&app, &state, comment)))
}

pub async fn edit_comment(Ext(app): Shared, Path((owner, name, id)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let repo = github::repo(&app.world.state(), &owner, &name)?;
    let text = input["body"].as_str().filter(|b| !b.trim().is_empty());
    let text = text.ok_or_else(|| Refusal::missing("IssueComment", "body"))?;
    let comment = app.change(|tx| {
        let found = tx.state.pull_comments.get(&id).filter(|c| c.repo == repo.full());
        let mut comment = found.cloned().ok_or_else(Refusal::not_found)?;
        let from = std::mem::replace(&mut comment.body, text.into());
        comment.updated_at = tx.now;
        tx.put(Event::PullComment(comment.clone()));
        let me = tx.state.me();
        comment_hook(&app, tx, "edited", &comment, &me, Some(&from));
        Ok::<_, Refusal>(comment)
    })?;
    Ok(json_answer(200, &js::comment(&app, &app.world.state(), &comment)))
}

fn label_list(app: &App, pull: &Pull) -> Value {
    let state = app.world.state();
    let Some(repo) = state.repos.get(&pull.repo) else { return json!([]) };
    pull.labels.iter().map(|l| js::label(app, repo, l)).collect()
}

pub async fn labels(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let (repo, pull) = github::pull(&app.world.state(), &owner, &name, number)?;
    let items = label_list(&app, &pull).as_array().cloned().unwrap_or_default();
    Ok(github::paged(&app, &format!("/github/repos/{}/issues/{number}/labels", repo.full()), &query, items))
}

pub async fn add_labels(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let list = input.get("labels").unwrap_or(&input).as_array().cloned();
    let list = list.ok_or_else(|| Refusal::missing("Label", "labels"))?;
    // Names come bare or as objects with a name.
    let names: Vec<String> =
        list.iter().filter_map(|l| l.as_str().or_else(|| l["name"].as_str())).map(str::to_owned).collect();
    let pull = app.change(|tx| {
        let key = (repo.full(), number);
        for name in names {
            let mut repo = tx.state.repos.get(&key.0).cloned().ok_or_else(Refusal::not_found)?;
            if !repo.labels.contains_key(&name) {
                // Putting an unknown label on something creates it.
                let id = tx.number();
                repo.labels.insert(name.clone(), id);
                tx.put(Event::Repo(repo.clone()));
            }
            let mut pull = tx.state.pulls.get(&key).cloned().ok_or_else(Refusal::not_found)?;
            if pull.labels.contains(&name) {
                continue;
            }
            pull.labels.push(name.clone());
            pull.updated_at = tx.now;
            tx.put(Event::Pull(Box::new(pull.clone())));
            repos::pull_hook(&app, tx, "labeled", &pull, json!({"label": js::label(&app, &repo, &name)}));
        }
        tx.state.pulls.get(&key).cloned().ok_or_else(Refusal::not_found)
    })?;
    Ok(json_answer(200, &label_list(&app, &pull)))
}

pub async fn remove_label(
    Ext(app): Shared,
    Path((owner, name, number, label)): Path<(String, String, u64, String)>,
) -> Answer {
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let pull = app.change(|tx| {
        let mut pull = tx.state.pulls.get(&(repo.full(), number)).cloned().ok_or_else(Refusal::not_found)?;
        if !pull.labels.contains(&label) {
            return Err(Refusal::new(404, "Label does not exist"));
        }
        pull.labels.retain(|l| *l != label);
        pull.updated_at = tx.now;
        tx.put(Event::Pull(Box::new(pull.clone())));
        repos::pull_hook(&app, tx, "unlabeled", &pull, json!({"label": js::label(&app, &repo, &label)}));
        Ok(pull)
    })?;
    Ok(json_answer(200, &label_list(&app, &pull)))
}

pub async fn reviews(Ext(app): Shared, Path((owner, name, number)): Numbered, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let (repo, _) = github::pull(&state, &owner, &name, number)?;
    let full = repo.full();
    let items = state.reviews_of(&full, number).map(|r| js::review(&app, &state, r)).collect();
    Ok(github::paged(&app, &format!("/github/repos/{full}/pulls/{number}/reviews"), &query, items))
}

pub async fn add_review(Ext(app): Shared, Path((owner, name, number)): Numbered, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (repo, _) = github::pull(&app.world.state(), &owner, &name, number)?;
    let review = app.change(|tx| {
        let me = tx.state.me();
        put_review(&app, tx, &repo.full(), number, &me, &input)
    })?;
    Ok(json_answer(200, &js::review(&app, &app.world.state(), &review)))
}

/// Adds a review by a user from `{event, body, commit_id}`.
pub fn put_review(
    app: &App,
    tx: &mut Tx,
    full: &str,
    number: u64,
    by: &User,
    input: &Value,
) -> Result<Review, Refusal> {
    let mut pull = tx.state.pulls.get(&(full.to_owned(), number)).cloned().ok_or_else(Refusal::not_found)?;
    let text = input["body"].as_str().unwrap_or("");
    let state = match input["event"].as_str() {
        None | Some("") => "PENDING",
        Some("APPROVE") => "APPROVED",
        Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
        Some("COMMENT") => "COMMENTED",
        Some(_) => return Err(Refusal::new(422, "Unprocessable Entity: event is not a member of the enum")),
    };
    if by.login == pull.user && (state == "APPROVED" || state == "CHANGES_REQUESTED") {
        let what = if state == "APPROVED" { "approve" } else { "request changes on" };
        return Err(Refusal::new(422, &format!("Unprocessable Entity: Can not {what} your own pull request")));
    }
    if text.is_empty() && (state == "CHANGES_REQUESTED" || state == "COMMENTED") {
        return Err(Refusal::new(422, "Unprocessable Entity: body is missing"));
    }
    let review = Review {
        id: tx.number(),
        repo: full.into(),
        number,
        user: by.login.clone(),
        body: text.into(),
        state: state.into(),
        commit_id: input["commit_id"].as_str().unwrap_or(&pull.head_sha).into(),
        submitted_at: (state != "PENDING").then_some(tx.now),
    };
    tx.put(Event::Review(review.clone()));
    if state == "PENDING" {
        return Ok(review);
    }
    pull.updated_at = tx.now;
    tx.put(Event::Pull(Box::new(pull.clone())));
    let Some(repo) = tx.state.repos.get(full) else { return Ok(review) };
    let mut shown = js::review(app, &tx.state, &review);
    // Webhooks write the state in lower case, the API in upper case.
    shown["state"] = json!(review.state.to_lowercase());
    let body = json!({
        "action": "submitted", "review": shown, "pull_request": js::pull_simple(app, &tx.state, &pull),
        "repository": js::repo(app, &tx.state, repo), "sender": js::user(app, by),
    });
    tx.hook(Hook::GitHub { event: "pull_request_review", body });
    Ok(review)
}

pub async fn search(Ext(app): Shared, Q(query): Q<Query>) -> Answer {
    let state = app.world.state();
    let text = query.get("q").ok_or_else(|| Refusal::missing("Search", "q"))?;
    let words = words(text);
    let mut pulls: Vec<&Pull> = state.pulls.values().filter(|p| words.iter().all(|w| fits(w, p))).collect();
    match query.get("sort").map(String::as_str) {
        Some("updated") => pulls.sort_by_key(|p| (p.updated_at, p.id)),
        _ => pulls.sort_by_key(|p| (p.created_at, p.id)),
    }
    if query.get("order").map(String::as_str) != Some("asc") {
        pulls.reverse();
    }
    let total = pulls.len();
    let items = pulls.into_iter().map(|p| js::issue(&app, &state, p)).collect();
    let (items, links) = github::page(&app, "/github/search/issues", &query, items);
    let body = json!({"total_count": total, "incomplete_results": false, "items": items});
    Ok(github::with_links(json_answer(200, &body), links))
}

/// Splits a query at spaces outside quotes; the quotes are dropped.
fn words(text: &str) -> Vec<String> {
    let (mut out, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => out.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    out.push(word);
    out.retain(|w| !w.is_empty());
    out
}

fn fits(word: &str, p: &Pull) -> bool {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    match word.split_once(':') {
        Some(("is" | "type", "pr" | "pull-request")) => true,
        Some(("is" | "type", "issue")) => false,
        Some(("is" | "state", "open")) => p.open,
        Some(("is" | "state", "closed")) => !p.open,
        Some(("is", "merged")) => p.merged,
        Some(("is", "unmerged")) => !p.merged,
        Some(("is" | "draft", "draft" | "true")) => p.draft,
        Some(("draft", "false")) => !p.draft,
        Some(("repo", r)) => same(&p.repo, r),
        Some(("user" | "org", o)) => p.repo.split('/').next().is_some_and(|x| same(x, o)),
        Some(("label", l)) => p.labels.iter().any(|x| same(x, l)),
        Some(("-label", l)) => !p.labels.iter().any(|x| same(x, l)),
        Some(("author", a)) => same(&p.user, a),
        Some(("head", h)) => p.head_ref.starts_with(h),
        Some(("base", b)) => p.base_ref == b,
        Some(_) => true,
        None => {
            let text = format!("{} {}", p.title, p.body.as_deref().unwrap_or("")).to_lowercase();
            text.contains(&word.to_lowercase())
        }
    }
}
