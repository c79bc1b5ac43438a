//! Repositories that change their name: GitHub answers under the old one with a redirect
//! to the repository's number, and git and GraphQL go on under either name.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request, State as Ext};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tower::ServiceExt;

use crate::github::{self, Answer, Refusal, Shared, json_answer, parse};
use crate::github_json as js;
use crate::model::Event;
use crate::world::Hook;
use crate::{App, Error};

/// `{"repo": "acme/shop", "to": "acme/store"}`.
pub async fn control(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let name = |key: &str| input[key].as_str().and_then(|n| n.split_once('/'));
    let (Some((owner, old)), Some((to_owner, to))) = (name("repo"), name("to")) else {
        return Err(Refusal::new(422, "repo and to are names such as owner/name"));
    };
    if !crate::control::safe(to_owner) || !crate::control::safe(to) {
        return Err(Refusal::new(422, "owner and name must be plain names"));
    }
    let from = github::repo(&app.world.state(), owner, old)?.full();
    let target = format!("{to_owner}/{to}");
    let lock = app.repo_lock(&from);
    let _held = lock.lock().await;
    if app.world.state().repos.contains_key(&target) {
        return Err(Refusal::new(422, "name already exists on this account"));
    }
    app.repo_hooks.rename(&from, &target);
    app.change(|tx| {
        tx.put(Event::Renamed { from: from.clone(), to: target.clone() });
        let me = tx.state.me();
        let repo = tx.state.repos.get(&target).cloned().ok_or_else(Refusal::not_found)?;
        let body = json!({
            "action": "renamed", "changes": {"repository": {"name": {"from": old}}},
            "repository": js::repo(&app, &tx.state, &repo), "sender": js::user(&app, &me),
        });
        tx.hook(Hook::GitHub { event: "repository", body });
        Ok::<_, Refusal>(())
    })?;
    settle(&app)?;
    Ok(json_answer(200, &json!({"full_name": target})))
}

/// Moves the bare repositories whose new name is on record and not yet on disk.
pub fn settle(app: &App) -> Result<(), Error> {
    let state = app.world.state();
    for (from, id) in &state.renamed {
        let Some(repo) = state.repos.values().find(|r| r.id == *id) else { continue };
        let (old, new) = (app.repo_dir(from), app.repo_dir(&repo.full()));
        if old.exists() && !new.exists() && !state.repos.contains_key(from) {
            if let Some(parent) = new.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::rename(old, new)?;
        }
    }
    Ok(())
}

/// The redirect for a request under an old name: 301 for a read and 307 for a write.
pub fn redirect(app: &App, method: &Method, uri: &Uri) -> Option<Response> {
    let rest = uri.path().trim_start_matches("/github").strip_prefix("/repos/")?;
    let mut parts = rest.splitn(3, '/');
    let full = format!("{}/{}", parts.next()?, parts.next()?);
    let tail = parts.next().map_or(String::new(), |t| format!("/{t}"));
    let state = app.world.state();
    if state.repos.contains_key(&full) {
        return None;
    }
    let id = state.renamed.get(&full)?;
    let query = uri.query().map_or(String::new(), |q| format!("?{q}"));
    let to = format!("{}/github/repositories/{id}{tail}{query}", app.base);
    let (status, words) = match *method == Method::GET || *method == Method::HEAD {
        true => (StatusCode::MOVED_PERMANENTLY, "Moved Permanently"),
        false => (StatusCode::TEMPORARY_REDIRECT, "Temporary Redirect"),
    };
    let body = json!({"message": words, "url": to, "documentation_url": "https://docs.github.com/rest"});
    let mut answer = (status, axum::Json(body)).into_response();
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&to).ok()?);
    Some(answer)
}

/// A repository under its number: the same as under its name.
pub async fn by_number(Ext(app): Shared, Path(at): Path<Vec<String>>, request: Request) -> Response {
    let found = at.first().and_then(|id| id.parse::<u64>().ok());
    let state = app.world.state();
    let Some(repo) = state.repos.values().find(|r| Some(r.id) == found) else {
        return Refusal::not_found().into_response();
    };
    let tail = at.get(1).map_or(String::new(), |t| format!("/{t}"));
    let query = request.uri().query().map_or(String::new(), |q| format!("?{q}"));
    let (mut parts, body) = request.into_parts();
    let Ok(uri) = format!("/repos/{}{tail}{query}", repo.full()).parse() else {
        return Refusal::not_found().into_response();
    };
    parts.uri = uri;
    // What the outer route has matched says nothing of the inner one.
    parts.extensions.clear();
    let inner = github::routes().with_state(Arc::clone(&app));
    inner.oneshot(Request::from_parts(parts, body)).await.into_response()
}
