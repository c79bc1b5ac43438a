//! Webhooks of repositories that were set up over the API, and the log of what they
//! delivered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, Query as Q, State as Ext};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::App;
use crate::github::{self, Answer, Query, Refusal, Shared, json_answer, parse};
use crate::github_json as js;

/// One webhook of a repository.
#[derive(Clone, Debug)]
pub(crate) struct RepoHook {
    pub id: u64,
    pub repo: String,
    pub url: String,
    pub secret: String,
    pub events: Vec<String>,
}

/// One try to deliver.
#[derive(Clone, Debug)]
struct Tried {
    id: u64,
    hook: u64,
    guid: String,
    event: String,
    at: Timestamp,
    /// 0 where nobody answered.
    status: u16,
    payload: Value,
}

/// Kept while the twin runs.
#[derive(Debug, Default)]
pub(crate) struct RepoHooks {
    hooks: Mutex<BTreeMap<u64, RepoHook>>,
    log: Mutex<Vec<Tried>>,
}

/// The log keeps so many.
const LOG: usize = 1_000;

impl RepoHooks {
    /// Those that want an event of a repository.
    pub fn wanting(&self, repo: &str, event: &str) -> Vec<RepoHook> {
        let hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        let wants = |h: &&RepoHook| h.repo == repo && h.events.iter().any(|e| e == event || e == "*");
        hooks.values().filter(wants).cloned().collect()
    }

    /// A repository keeps its hooks under its new name.
    pub fn rename(&self, from: &str, to: &str) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        for hook in hooks.values_mut().filter(|h| h.repo == from) {
            hook.repo = to.to_owned();
        }
    }

    pub fn tried(&self, hook: u64, guid: &str, event: &str, status: u16, payload: Value) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let id = log.last().map_or(1, |t| t.id + 1);
        let (guid, event) = (guid.to_owned(), event.to_owned());
        log.push(Tried { id, hook, guid, event, at: Timestamp::now(), status, payload });
        let over = log.len().saturating_sub(LOG);
        log.drain(..over);
    }
}

type Repo = Path<(String, String)>;
type One = Path<(String, String, u64)>;

fn row(app: &App, hook: &RepoHook) -> Value {
    let url = format!("{}/hooks/{}", js::repo_url(app, &hook.repo), hook.id);
    json!({
        "type": "Repository", "id": hook.id, "name": "web", "active": true, "events": hook.events, "url": url,
        "config": {"url": hook.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"},
        "updated_at": js::time(Timestamp::now()), "created_at": js::time(Timestamp::now()),
        "test_url": format!("{url}/test"), "ping_url": format!("{url}/pings"),
        "deliveries_url": format!("{url}/deliveries"),
        "last_response": {"code": null, "status": "unused", "message": null},
    })
}

pub async fn list(Ext(app): Shared, Path((owner, name)): Repo, Q(query): Q<Query>) -> Answer {
    let full = github::repo(&app.world.state(), &owner, &name)?.full();
    let hooks = app.repo_hooks.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let rows = hooks.values().filter(|h| h.repo == full).map(|h| row(&app, h)).collect();
    Ok(github::paged(&app, &format!("/github/repos/{full}/hooks"), &query, rows))
}

fn read(input: &Value, id: u64, repo: String) -> Result<RepoHook, Refusal> {
    let text = |key: &str| input["config"][key].as_str().map(str::to_owned);
    let url = text("url").ok_or_else(|| Refusal::missing("Hook", "url"))?;
    let events = input["events"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(RepoHook { id, repo, url, secret: text("secret").unwrap_or_default(), events: events.collect() })
}

pub async fn create(Ext(app): Shared, Path((owner, name)): Repo, body: Bytes) -> Answer {
    let full = github::repo(&app.world.state(), &owner, &name)?.full();
    let input = parse(&body)?;
    let mut hooks = app.repo_hooks.hooks.lock().unwrap_or_else(PoisonError::into_inner);
    // The hook of the configuration has the id 1.
    let id = hooks.keys().last().map_or(2, |last| last + 1);
    let hook = read(&input, id, full)?;
    if hooks.values().any(|h| h.repo == hook.repo && h.url == hook.url) {
        let says = json!([{"resource": "Hook", "code": "custom", "message": "Hook already exists on this repository"}]);
        return Err(Refusal::invalid(says));
    }
    let shown = row(&app, &hook);
    hooks.insert(id, hook);
    Ok(json_answer(201, &shown))
}

pub async fn update(Ext(app): Shared, Path((owner, name, id)): One, body: Bytes) -> Answer {
    let full = github::repo(&app.world.state(), &owner, &name)?.full();
    let input = parse(&body)?;
    let mut hooks = app.repo_hooks.hooks.lock().unwrap_or_else(PoisonError::into_inner);
    let known = hooks.get_mut(&id).filter(|h| h.repo == full).ok_or_else(Refusal::not_found)?;
    *known = read(&input, id, full)?;
    Ok(json_answer(200, &row(&app, known)))
}

fn delivery(t: &Tried) -> Value {
    let good = (200..300).contains(&t.status);
    json!({
        "id": t.id, "guid": t.guid, "delivered_at": js::time(t.at), "redelivery": false, "duration": 0.01,
        "status": if good { "OK" } else { "Invalid HTTP Response" }, "status_code": t.status, "event": t.event,
        "action": t.payload["action"], "installation_id": null, "repository_id": t.payload["repository"]["id"],
        "throttled_at": null,
    })
}

pub async fn deliveries(Ext(app): Shared, Path((owner, name, id)): One, Q(query): Q<Query>) -> Answer {
    github::repo(&app.world.state(), &owner, &name)?;
    let log = app.repo_hooks.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let most = query.get("per_page").and_then(|n| n.parse().ok()).unwrap_or(30);
    let rows: Vec<Value> = log.iter().rev().filter(|t| t.hook == id).take(most).map(delivery).collect();
    Ok(json_answer(200, &Value::Array(rows)))
}

pub async fn one_delivery(Ext(app): Shared, Path((owner, name, hook, id)): Path<(String, String, u64, u64)>) -> Answer {
    github::repo(&app.world.state(), &owner, &name)?;
    let log = app.repo_hooks.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let found = log.iter().find(|t| t.hook == hook && t.id == id).ok_or_else(Refusal::not_found)?;
    let mut shown = delivery(found);
    shown["request"] = json!({"headers": {}, "payload": found.payload});
    shown["response"] = json!({"headers": {}, "payload": ""});
    Ok(json_answer(200, &shown))
}
