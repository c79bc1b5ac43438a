//! Pages: plain HTML first. They read and press without a script; the script
//! only keeps them true while they are open.

mod board;
mod bus;
mod draw;
mod effort;
mod layout;
mod live;
mod parts;
mod place;
mod press;
mod samples;
mod thread;
mod transcript;

use crate::{Web, session};
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use draw::Missing;
use http::{HeaderMap, StatusCode, Uri, header};
use parts::Form;
use place::Place;
use serde::Deserialize;
use stewards_core::ids::NeedId;

pub(crate) fn router(_web: &Web) -> Router<Web> {
    Router::new()
        .route("/", get(page))
        .route("/efforts/{key}", get(page))
        .route("/threads/{id}", get(page))
        .route("/bus", get(page))
        .route("/parts", get(page))
        .route("/events", get(live::events))
        .route("/press", post(press::press))
        .route("/write", post(press::write))
        .route("/enter", get(session::enter))
        .route("/style.css", get(|| asset("text/css; charset=utf-8", include_str!("../../assets/style.css"))))
        .route("/page.js", get(|| asset("text/javascript; charset=utf-8", include_str!("../../assets/page.js"))))
        .route("/icon.svg", get(|| asset("image/svg+xml", include_str!("../../assets/icon.svg"))))
}

/// Assets hold no secret and need no session: the page that says so uses them.
async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

#[derive(Deserialize)]
struct Asked {
    /// The item that was pressed just before.
    did: Option<String>,
}

async fn page(State(web): State<Web>, uri: Uri, Query(asked): Query<Asked>, headers: HeaderMap) -> Response {
    let Some(session) = web.sessions.of(&headers) else { return no_session() };
    let Some(place) = Place::parse(uri.path()) else { return unknown("there is no such page") };
    let said = asked.did.and_then(|need| outcome(&web, NeedId(need)));
    let form = Form { csrf: web.sessions.csrf(&session), page: place.path(), refused: None };
    drawn(&web, place, form, said, StatusCode::OK).await
}

/// A whole page, drawn where reading the file holds nobody up.
async fn drawn(web: &Web, place: Place, form: Form, said: Option<String>, status: StatusCode) -> Response {
    let web = web.clone();
    let work = move || {
        let mut lines = transcript::Lines::default();
        draw::draw(&web, &place, &form, &mut lines).map(|page| layout::whole(&page, said.as_deref()).into_string())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(html)) => (status, [(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
        Ok(Err(Missing::Unknown(says))) => unknown(&says),
        Ok(Err(Missing::Unreadable(error))) => {
            tracing::error!(%error, "a page could not be read");
            let page = layout::plain("Cannot be read", "The store could not be read", "The daemon's log says why.");
            (StatusCode::INTERNAL_SERVER_ERROR, Html(page.into_string())).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be drawn");
            let page = layout::plain("Failed", "This page could not be drawn", "The daemon's log says why.");
            (StatusCode::INTERNAL_SERVER_ERROR, Html(page.into_string())).into_response()
        }
    }
}

/// What came of a press, as the world says it: the address names only the item,
/// so that nobody's words can be put on the page by a link.
fn outcome(web: &Web, need: NeedId) -> Option<String> {
    let now = web.engine.now();
    let need = now.world.needs.get(&need)?;
    Some(match &need.closed {
        Some((_, how)) => format!("Done: {how}."),
        None => "Pressed. It is still being carried out.".to_owned(),
    })
}

fn no_session() -> Response {
    let page = layout::plain(
        "No session",
        "This browser has no session here",
        "Run `stewards link` in a terminal and open the link that it prints. It works once.",
    );
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
}

fn unknown(says: &str) -> Response {
    let page = layout::plain("Not found", says, "The board lists everything that is known.");
    (StatusCode::NOT_FOUND, Html(page.into_string())).into_response()
}
