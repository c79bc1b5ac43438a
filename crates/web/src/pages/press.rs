//! A button of an item, pressed: by a form, or by the page's script.

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
use stewards_core::ids::NeedId;
use stewards_core::machine::{Caller, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::stewards::NeedKind;

#[derive(Deserialize)]
pub(super) struct Press {
    need: String,
    #[serde(default)]
    csrf: String,
    /// Where it was pressed, to go back there.
    #[serde(default)]
    page: String,
}

/// Only from a page of ours, in the session that the page was drawn for.
pub(super) async fn press(State(web): State<Web>, headers: HeaderMap, Form(press): Form<Press>) -> Response {
    let json = wants_json(&headers);
    let Some(session) = web.sessions.of(&headers) else {
        let says = Refusal::not_met("no_session", "this browser has no session here", "run: stewards link");
        return if json { with(StatusCode::UNAUTHORIZED, &says) } else { no_session() };
    };
    if !session::same_origin(&headers) || !web.sessions.csrf_holds(&session, &press.csrf) {
        let says =
            Refusal::usage("cross_site", "this press does not come from a page of this session", "load it again");
        return with(StatusCode::FORBIDDEN, &says);
    }
    let place = Place::parse(&press.page).unwrap_or(Place::Board);
    let outcome = carry_out(&web, &press.need).await;
    match (outcome, json) {
        (Ok(reply), true) => Json(reply).into_response(),
        (Err(refusal), true) => refused(&refusal),
        (Ok(_), false) => Redirect::to(&format!("{}?did={}", place.path(), safe(&press.need))).into_response(),
        (Err(refusal), false) => {
            let said = format!("Refused: {}. {}", refusal.says, refusal.hint);
            let form = FormOf {
                csrf: web.sessions.csrf(&session),
                page: place.path(),
                refused: Some((press.need.clone(), refusal)),
            };
            drawn(&web, place, form, Some(said), StatusCode::CONFLICT).await
        }
    }
}

async fn carry_out(web: &Web, need: &str) -> Result<Reply, Refusal> {
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
        NeedKind::Failed { .. } => Ask::Done { need: need.to_owned() },
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
