//! A button pressed, a message written: by a form, or by the page's script.

use super::parts::Form as FormOf;
use super::place::Place;
use super::{drawn, no_session};
use crate::act::{self, Ask, refused};
use crate::{Web, session};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use stewards_core::ids::{AskId, NeedId, ThreadId};
use stewards_core::machine::{Caller, Event, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::stewards::NeedKind;
use stewards_core::threads::SendMode;

#[derive(Deserialize)]
pub(super) struct Press {
    #[serde(default)]
    need: String,
    /// Of several buttons the one that was pressed.
    choice: Option<String>,
    #[serde(default)]
    csrf: String,
    /// Where it was pressed, to go back there.
    #[serde(default)]
    page: String,
}

/// What the page's composer sends.
#[derive(Deserialize)]
pub(super) struct Written {
    #[serde(default)]
    thread: String,
    #[serde(default)]
    text: String,
    /// send, steer, queue, stop, retry or compact.
    #[serde(default)]
    how: String,
    #[serde(default)]
    csrf: String,
    #[serde(default)]
    page: String,
}

/// The session that a form was drawn for; only a page of ours sends it.
fn session_of(web: &Web, headers: &HeaderMap, csrf: &str) -> Result<String, Box<Response>> {
    let Some(session) = web.sessions.of(headers) else {
        let says = Refusal::not_met("no_session", "this browser has no session here", "run: stewards link");
        let response = if wants_json(headers) { with(StatusCode::UNAUTHORIZED, &says) } else { no_session() };
        return Err(Box::new(response));
    };
    if !session::same_origin(headers) || !web.sessions.csrf_holds(&session, csrf) {
        let says =
            Refusal::usage("cross_site", "this press does not come from a page of this session", "load it again");
        return Err(Box::new(with(StatusCode::FORBIDDEN, &says)));
    }
    Ok(web.sessions.csrf(&session))
}

pub(super) async fn press(State(web): State<Web>, headers: HeaderMap, Form(press): Form<Press>) -> Response {
    let csrf = match session_of(&web, &headers, &press.csrf) {
        Ok(csrf) => csrf,
        Err(response) => return *response,
    };
    let outcome = carry_out(&web, &press).await;
    answer(&web, wants_json(&headers), outcome, csrf, &press.page, Some(&press.need)).await
}

/// Writes to a thread, or stops it: what the command line does with `thread tell`
/// and `thread stop`, but that an archived thread is brought back.
pub(super) async fn write(State(web): State<Web>, headers: HeaderMap, Form(sent): Form<Written>) -> Response {
    let csrf = match session_of(&web, &headers, &sent.csrf) {
        Ok(csrf) => csrf,
        Err(response) => return *response,
    };
    let (caller, thread) = (Caller::Person, ThreadId(sent.thread));
    let told = |mode| Event::Told { caller: Caller::Person, to: thread.clone(), text: sent.text, mode, revive: true };
    let event = match sent.how.as_str() {
        "send" => told(SendMode::Auto),
        "steer" => told(SendMode::SteerIfActive),
        "queue" => told(SendMode::QueueIfActive),
        "stop" => Event::Stopped { caller, thread },
        "retry" => Event::Retried { caller, thread },
        "compact" => Event::Compacted { caller, thread },
        other => {
            let says = Refusal::usage("bad_button", format!("there is no button `{other}`"), "load the page again");
            return with(StatusCode::BAD_REQUEST, &says);
        }
    };
    let outcome = web.engine.tell(event).await;
    answer(&web, wants_json(&headers), outcome, csrf, &sent.page, None).await
}

/// A program gets JSON; a browser without a script goes back to where it was.
async fn answer(
    web: &Web,
    json: bool,
    outcome: Result<Reply, Refusal>,
    csrf: String,
    page: &str,
    need: Option<&str>,
) -> Response {
    let place = Place::parse(page).unwrap_or(Place::Board);
    match (outcome, json) {
        (Ok(reply), true) => Json(reply).into_response(),
        (Err(refusal), true) => refused(&refusal),
        (Ok(_), false) => {
            let did = need.map(|n| format!("?did={}", safe(n))).unwrap_or_default();
            Redirect::to(&format!("{}{did}", place.path())).into_response()
        }
        (Err(refusal), false) => {
            let said = format!("Refused: {}. {}", refusal.says, refusal.hint);
            let form = FormOf { csrf, page: place.path(), refused: need.map(|n| (n.to_owned(), refusal)) };
            drawn(web, place, form, Some(said), StatusCode::CONFLICT).await
        }
    }
}

async fn carry_out(web: &Web, press: &Press) -> Result<Reply, Refusal> {
    let need = press.need.as_str();
    if need.starts_with(AskId::PREFIX) {
        let choice = press.choice.clone().unwrap_or_default();
        return act::act(web, Caller::Person, Ask::Answer { ask: AskId(need.to_owned()), choice }).await;
    }
    let id = NeedId(need.to_owned());
    let found = web.engine.now().world.needs.get(&id).cloned();
    let Some(found) = found else {
        return Err(Refusal::usage("unknown_item", format!("no item is called {need}"), "look at the board"));
    };
    if let Some((_, how)) = found.closed {
        return Err(Refusal::not_met("closed", format!("this item is closed: {how}"), "look at the board"));
    }
    let ask = match found.kind {
        NeedKind::Merge { pull } => Ask::Merge { pull: pull.to_string() },
        NeedKind::Failed { .. } | NeedKind::Capped { .. } => Ask::Done { need: need.to_owned() },
    };
    act::act(web, Caller::Person, ask).await
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|a| a.to_str().ok()).is_some_and(|a| a.contains("application/json"))
}

fn with(status: StatusCode, refusal: &Refusal) -> Response {
    (status, Json(serde_json::json!({ "refusal": refusal }))).into_response()
}

/// An id as it may stand in an address.
fn safe(id: &str) -> String {
    id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}
