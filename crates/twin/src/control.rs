//! The control API: what a demo or a test does to the world from outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State as Ext};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::github::{Answer, Refusal, Shared, json_answer, parse};
use crate::linear_ops::{self, Actor};
use crate::linear_sessions::{self, Session};
use crate::model::{Column, Event, Label, Note, Repo, State, Team, Ticket, User};
use crate::world::{Hook, Tx};
use crate::{App, ci, faults, github_issues, repos};

async fn guard(Ext(app): Shared, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    if sent.and_then(|s| s.strip_prefix("Bearer ")) != Some(app.github_token.as_str()) {
        return Refusal::new(401, "Bad credentials").into_response();
    }
    next.run(request).await
}

/// A text that must be there.
fn text<'a>(input: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    input[key].as_str().ok_or_else(|| Refusal::missing("Control", key))
}

async fn team(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let key = text(&input, "key")?;
    let name = input["name"].as_str().unwrap_or(key);
    let defaults = [
        ("Backlog", "backlog"),
        ("Todo", "unstarted"),
        ("In Progress", "started"),
        ("In Review", "started"),
        ("Done", "completed"),
        ("Canceled", "canceled"),
    ];
    let states: Vec<(String, String)> = match input["states"].as_array() {
        Some(list) => list
            .iter()
            .map(|s| Ok((text(s, "name")?.to_owned(), text(s, "type")?.to_owned())))
            .collect::<Result<_, Refusal>>()?,
        None => defaults.iter().map(|(n, k)| ((*n).to_owned(), (*k).to_owned())).collect(),
    };
    let team = app.change(|tx| {
        if let Some(team) = tx.state.teams.get(key) {
            return Ok::<_, Refusal>(team.clone());
        }
        let mut columns = Vec::new();
        for (position, (name, kind)) in states.into_iter().enumerate() {
            columns.push(Column { id: tx.uuid("state"), name, kind, position: position as f64 });
        }
        let id = tx.uuid("team");
        let team = Team { id, key: key.into(), name: name.into(), states: columns, next_number: 1, created_at: tx.now };
        tx.put(Event::Team(team.clone()));
        Ok(team)
    })?;
    Ok(json_answer(200, &json!({"id": team.id, "key": team.key})))
}

async fn user(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let login = text(&input, "login")?;
    let user = app.change(|tx| {
        let old = tx.state.users.get(login).cloned();
        let (id, uuid) = match &old {
            Some(u) => (u.id, u.uuid.clone()),
            None => (tx.number(), tx.uuid("user")),
        };
        let user = User {
            login: login.into(),
            name: input["name"].as_str().unwrap_or(login).into(),
            email: input["email"].as_str().map_or_else(|| format!("{login}@example.com"), str::to_owned),
            me: input["me"].as_bool().unwrap_or(false),
            uuid,
            id,
        };
        tx.put(Event::User(user.clone()));
        Ok::<_, Refusal>(user)
    })?;
    Ok(json_answer(200, &json!({"id": user.uuid, "github_id": user.id, "login": user.login})))
}

/// A name that is safe as a directory.
pub(crate) fn safe(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

async fn repo(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (owner, name) = (text(&input, "owner")?.to_owned(), text(&input, "name")?.to_owned());
    if !safe(&owner) || !safe(&name) {
        return Err(Refusal::new(422, "owner and name must be plain names"));
    }
    let files: BTreeMap<String, String> = match input.get("files") {
        Some(files) => serde_json::from_value(files.clone()).map_err(|e| Refusal::new(422, &e.to_string()))?,
        None => BTreeMap::new(),
    };
    let message = input["message"].as_str().unwrap_or("Initial commit").to_owned();
    let full = format!("{owner}/{name}");
    let task = app.clone();
    app.detached(async move {
        let app = task;
        let lock = app.repo_lock(&full);
        let _held = lock.lock().await;
        if !app.world.state().repos.contains_key(&full) {
            ci::first_commit(&app, &full, &files, &message).await?;
            app.change(|tx| {
                let repo = Repo {
                    id: tx.number(),
                    owner,
                    name,
                    default_branch: "main".into(),
                    refs: BTreeMap::new(),
                    next_number: 1,
                    labels: BTreeMap::new(),
                    created_at: tx.now,
                    pushed_at: tx.now,
                };
                tx.put(Event::Repo(repo));
                Ok::<_, Refusal>(())
            })?;
            repos::reconcile(&app, &full).await?;
        }
        let state = app.world.state();
        let repo = state.repos.get(&full).ok_or_else(Refusal::not_found)?;
        let body = json!({
            "id": repo.id, "full_name": full, "sha": repo.branch("main"),
            "clone_url": format!("{}/git/{full}.git", app.base),
        });
        Ok(json_answer(200, &body))
    })
    .await?
}

/// The label of a team by name, made when missing.
fn put_label(tx: &mut Tx, team: Option<&str>, name: &str, group: bool, parent: Option<String>) -> String {
    if let Some(l) = tx.state.labels.values().find(|l| l.team.as_deref() == team && l.name == name) {
        return l.id.clone();
    }
    let id = tx.uuid("label");
    let (team, name) = (team.map(str::to_owned), name.to_owned());
    tx.put(Event::Label(Label { id: id.clone(), team, name, group, parent, created_at: tx.now }));
    id
}

async fn label(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    // Without a team it is everybody's; with a group it stands in that one.
    let (team, name) = (input["team"].as_str(), text(&input, "name")?);
    let id = app.change(|tx| {
        if team.is_some_and(|t| !tx.state.teams.contains_key(t)) {
            return Err(Refusal::not_found());
        }
        let parent = input["group"].as_str().map(|group| put_label(tx, team, group, true, None));
        Ok(put_label(tx, team, name, false, parent))
    })?;
    Ok(json_answer(200, &json!({"id": id, "name": name})))
}

async fn ticket(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let key = format!("ticket:{}", text(&input, "key")?);
    let (team, title) = (text(&input, "team")?, text(&input, "title")?);
    let ticket = app.change(|tx| {
        if let Some(t) = tx.state.keys.get(&key).and_then(|id| tx.state.tickets.get(id)) {
            return Ok(t.clone());
        }
        let mut team = tx.state.teams.get(team).cloned().ok_or_else(Refusal::not_found)?;
        // A column is named by its name or its kind.
        let column = match input["state"].as_str() {
            Some(s) => team.states.iter().find(|c| c.name == s || c.id == s).or_else(|| team.first(s)),
            None => team.first("backlog").or_else(|| team.states.first()),
        };
        let state_id = column.map(|c| c.id.clone()).ok_or_else(|| Refusal::new(422, "no such state"))?;
        let assignee = match input["assignee"].as_str() {
            Some(login) => Some(person(&tx.state, login)?.uuid),
            None => None,
        };
        let names: Vec<&str> = input["labels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let labels = names.into_iter().map(|n| put_label(tx, Some(&team.key), n, false, None)).collect();
        let number = team.next_number;
        team.next_number += 1;
        let me = tx.state.me();
        tx.put(Event::Team(team.clone()));
        let ticket = Ticket {
            id: tx.uuid("issue"),
            team: team.key,
            number,
            title: title.into(),
            description: input["description"].as_str().map(str::to_owned),
            priority: input["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
            state_id,
            assignee,
            creator: Some(me.uuid.clone()),
            labels,
            parent: named_ticket(&tx.state, &input["parent"])?,
            delegate: None,
            blocked_by: named_ticket(&tx.state, &input["blocked_by"])?.into_iter().collect(),
            previous_identifiers: Vec::new(),
            trashed: false,
            archived_at: None,
            created_at: tx.now,
            updated_at: tx.now,
        };
        let ticket = linear_ops::save_ticket(&app, tx, &Actor::User(me), ticket);
        tx.put(Event::Key { key: key.clone(), id: ticket.id.clone() });
        Ok::<_, Refusal>(ticket)
    })?;
    let url = linear_ops::ticket_url(&app, &ticket);
    Ok(json_answer(200, &json!({"id": ticket.id, "identifier": ticket.identifier(), "url": url})))
}

/// The id of a ticket that is named by its key, where one is.
fn named_ticket(state: &State, key: &Value) -> Result<Option<String>, Refusal> {
    let Some(key) = key.as_str() else { return Ok(None) };
    state.ticket(key).map(|t| Some(t.id.clone())).ok_or_else(Refusal::not_found)
}

fn person(state: &State, login: &str) -> Result<User, Refusal> {
    let me = state.me();
    if me.login == login {
        return Ok(me);
    }
    state.users.get(login).cloned().ok_or_else(|| Refusal::new(422, &format!("no user {login}")))
}

/// Runs a creation once for a key; without a key, each time.
fn once(
    tx: &mut Tx,
    input: &Value,
    kind: &str,
    make: impl FnOnce(&mut Tx) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let key = input["key"].as_str().map(|k| format!("{kind}:{k}"));
    if let Some(id) = key.as_ref().and_then(|k| tx.state.keys.get(k)) {
        return Ok(id.clone());
    }
    let id = make(tx)?;
    if let Some(key) = key {
        tx.put(Event::Key { key, id: id.clone() });
    }
    Ok(id)
}

fn pull_of(input: &Value) -> Result<(&str, u64), Refusal> {
    let number = input["number"].as_u64().ok_or_else(|| Refusal::missing("Control", "number"))?;
    Ok((text(input, "repo")?, number))
}

async fn comment(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let (on, said) = (text(&input, "on")?, text(&input, "body")?);
    let id = app.change(|tx| {
        let by = person(&tx.state, text(&input, "by")?)?;
        once(tx, &input, "comment", |tx| match on {
            "ticket" => {
                let ticket = tx.state.ticket(text(&input, "id")?).ok_or_else(Refusal::not_found)?.id.clone();
                let note = Note {
                    id: tx.uuid("comment"),
                    ticket,
                    body: said.into(),
                    user: Some(by.uuid.clone()),
                    parent: None,
                    created_at: tx.now,
                    updated_at: tx.now,
                    edited_at: None,
                };
                let id = note.id.clone();
                linear_ops::save_note(&app, tx, &Actor::User(by), note);
                Ok(id)
            }
            "pull" => {
                let (repo, number) = pull_of(&input)?;
                Ok(github_issues::put_comment(&app, tx, repo, number, &by, said)?.id.to_string())
            }
            _ => Err(Refusal::new(422, "on is ticket or pull")),
        })
    })?;
    Ok(json_answer(200, &json!({"id": id})))
}

/// A review by someone else: the owner of the token cannot approve their own pull.
async fn review(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let id = app.change(|tx| {
        let by = person(&tx.state, text(&input, "by")?)?;
        let (repo, number) = pull_of(&input)?;
        once(tx, &input, "review", |tx| {
            Ok(github_issues::put_review(&app, tx, repo, number, &by, &input)?.id.to_string())
        })
    })?;
    Ok(json_answer(200, &json!({"id": id})))
}

/// Somebody mentions the agent on a ticket.
async fn session(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let state = app.world.state();
    let ticket = state.ticket(text(&input, "ticket")?).cloned().ok_or_else(Refusal::not_found)?;
    let by = match input["by"].as_str() {
        Some(login) => person(&state, login)?,
        None => state.me(),
    };
    let id = crate::model::uuid_from("session", app.sessions.all().len() as u64);
    app.sessions.begin(Session { id: id.clone(), ticket: ticket.id.clone(), activities: Vec::new() });
    let words = input["body"].as_str().unwrap_or("@stewards please look");
    app.change(|tx| {
        let body = linear_sessions::created(&app, tx, &id, &ticket, &by, words);
        tx.hook(Hook::Linear { entity: "AgentSessionEvent", body });
        Ok::<_, Refusal>(())
    })?;
    Ok(json_answer(200, &json!({"id": id})))
}

async fn hooks(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let mute = input["mute"].as_bool().ok_or_else(|| Refusal::missing("Control", "mute"))?;
    app.change(|tx| {
        tx.put(Event::Mute(mute));
        Ok::<_, Refusal>(())
    })?;
    Ok(json_answer(200, &json!({"mute": mute})))
}

async fn state(Ext(app): Shared) -> Answer {
    let s = app.world.state();
    let tickets: Vec<Value> = s
        .tickets
        .values()
        .map(|t| {
            let mut notes: Vec<&Note> = s.notes.values().filter(|n| n.ticket == t.id).collect();
            notes.sort_by_key(|n| (n.created_at, n.id.clone()));
            let links = s.attachments.values().filter(|a| a.ticket == t.id);
            let column = s.column(t);
            let login = |id: &Option<String>| id.as_ref().and_then(|u| s.user_by_uuid(u)).map(|u| u.login);
            json!({
                "id": t.id, "identifier": t.identifier(), "team": t.team, "title": t.title,
                "description": t.description, "url": linear_ops::ticket_url(&app, t),
                "state": column.map(|c| &c.name), "state_type": column.map(|c| &c.kind),
                "labels": t.labels.iter().filter_map(|l| s.labels.get(l)).map(|l| &l.name).collect::<Vec<_>>(),
                "assignee": login(&t.assignee),
                "comments": notes.iter().map(|n| json!({
                    "id": n.id, "by": login(&n.user), "body": n.body, "edited": n.edited_at.is_some(),
                })).collect::<Vec<_>>(),
                "attachments": links.map(|a| json!({"id": a.id, "url": a.url, "title": a.title})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let repos: Vec<Value> = s
        .repos
        .values()
        .map(|r| {
            let full = r.full();
            let pulls: Vec<Value> = s.pulls.values().filter(|p| p.repo == full).map(|p| pull_summary(&s, p)).collect();
            json!({"full_name": full, "default_branch": r.default_branch, "refs": r.refs, "pulls": pulls})
        })
        .collect();
    let body = json!({
        "tickets": tickets, "repos": repos, "sessions": app.sessions.rows(), "webhooks": s.deliveries, "muted": s.muted,
        "teams": s.teams.values().map(|t| json!({"id": t.id, "key": t.key, "name": t.name})).collect::<Vec<_>>(),
        "users": s.users.values().map(|u| json!({"login": u.login, "id": u.uuid, "me": u.me})).collect::<Vec<_>>(),
    });
    Ok(json_answer(200, &body))
}

fn pull_summary(s: &State, p: &crate::model::Pull) -> Value {
    json!({
        "number": p.number, "title": p.title, "body": p.body, "state": if p.open { "open" } else { "closed" },
        "head": {"ref": p.head_ref, "sha": p.head_sha}, "base": {"ref": p.base_ref, "sha": p.base_sha},
        "merged": p.merged, "merges": p.merges, "merge_commit_sha": p.merge_commit_sha, "labels": p.labels,
        "comments": s.comments_of(&p.repo, p.number)
            .map(|c| json!({"id": c.id, "by": c.user, "body": c.body})).collect::<Vec<_>>(),
        "reviews": s.reviews_of(&p.repo, p.number)
            .map(|r| json!({"id": r.id, "by": r.user, "state": r.state, "commit_id": r.commit_id})).collect::<Vec<_>>(),
        "check_runs": s.runs_of(&p.repo, &p.head_sha)
            .map(|c| json!({"id": c.id, "name": c.name, "status": c.status, "conclusion": c.conclusion}))
            .collect::<Vec<_>>(),
    })
}

/// The routes under `/control`.
pub fn router(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/control/team", post(team))
        .route("/control/user", post(user))
        .route("/control/session", post(session))
        .route("/control/repo", post(repo))
        .route("/control/rename", post(crate::renames::control))
        .route("/control/label", post(label))
        .route("/control/ticket", post(ticket))
        .route("/control/comment", post(comment))
        .route("/control/review", post(review))
        .route("/control/state", get(state))
        .route("/control/hooks", post(hooks))
        .route("/control/logins", post(crate::logins::control))
        .route("/control/fault", post(faults::set).get(faults::left))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), guard))
}
