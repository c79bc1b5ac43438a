//! Who uses the page: a session cookie that a one-time link gives.

use crate::{Web, act};
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;
use sha2::Sha256;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use stewards_core::machine::Caller;
use stewards_core::refusal::Refusal;
use stewards_engine::secret;

const COOKIE: &str = "stewards_session";

/// Session cookies are signed with a key of the directory, so that they outlive
/// a restart; links work once and only in the run that printed them.
#[derive(Debug)]
pub struct Sessions {
    key: String,
    links: Mutex<BTreeSet<String>>,
}

impl Sessions {
    /// `key` is secret and stays the same for the directory.
    pub fn new(key: String) -> Sessions {
        Sessions { key, links: Mutex::new(BTreeSet::new()) }
    }

    /// A code that `/enter?code=…` takes once.
    pub fn link(&self) -> String {
        let code = secret();
        self.links.lock().unwrap_or_else(PoisonError::into_inner).insert(code.clone());
        code
    }

    fn take(&self, code: &str) -> bool {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).remove(code)
    }

    fn sign(&self, what: &str) -> String {
        let mut mac = match Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) {
            Ok(mac) => mac,
            Err(_) => return String::new(),
        };
        mac.update(what.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    fn verify(&self, what: &str, signature: &str) -> bool {
        let (Ok(mut mac), Ok(given)) = (Hmac::<Sha256>::new_from_slice(self.key.as_bytes()), hex::decode(signature))
        else {
            return false;
        };
        mac.update(what.as_bytes());
        mac.verify_slice(&given).is_ok()
    }

    /// The session's id, if the request carries a session of ours.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|c| c.to_str().ok());
        let mut ours =
            cookies.flat_map(|c| c.split(';')).filter_map(|c| c.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        let (id, signature) = ours.next()?.split_once('.')?;
        self.verify(&format!("session {id}"), signature).then(|| id.to_owned())
    }

    /// The field that every form of this session carries.
    pub(crate) fn csrf(&self, session: &str) -> String {
        self.sign(&format!("form {session}"))
    }

    pub(crate) fn csrf_holds(&self, session: &str, given: &str) -> bool {
        self.verify(&format!("form {session}"), given)
    }
}

#[derive(Deserialize)]
pub(crate) struct Code {
    code: String,
}

/// The one-time link: sets the cookie and goes to the board.
pub(crate) async fn enter(State(web): State<Web>, Query(code): Query<Code>, headers: HeaderMap) -> Response {
    if web.sessions.of(&headers).is_some() {
        return Redirect::to("/").into_response();
    }
    if !web.sessions.take(&code.code) {
        let says = "This link was used already or is of an earlier run. `stewards link` prints a new one.\n";
        return (StatusCode::FORBIDDEN, says).into_response();
    }
    let id = secret();
    let signature = web.sessions.sign(&format!("session {id}"));
    let cookie = format!("{COOKIE}={id}.{signature}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// On the network door of the API: a thread by its token, or the owner by the
/// page's session. What changes something takes only JSON from our own origin.
pub(crate) async fn guard(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let bearer =
        headers.get(header::AUTHORIZATION).and_then(|a| a.to_str().ok()).and_then(|a| a.strip_prefix("Bearer "));
    let caller = match bearer {
        Some(token) => web.passes.who(token).map(Caller::Thread),
        None => web.sessions.of(headers).map(|_| Caller::Person),
    };
    let Some(caller) = caller else {
        let says = Refusal::not_met(
            "no_session",
            "this needs a session or a thread's token",
            "open the link of: stewards link",
        );
        return (StatusCode::UNAUTHORIZED, axum::Json(serde_json::json!({ "refusal": says }))).into_response();
    };
    if request.method() != Method::GET && (!is_json(headers) || (bearer.is_none() && !same_origin(headers))) {
        let says = Refusal::usage(
            "cross_site",
            "a change is asked for as JSON from this page's own origin",
            "use the page or the command line",
        );
        return act::refused(&says);
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|t| t.to_str().ok())
        .is_some_and(|t| t.split(';').next() == Some("application/json"))
}

/// The Origin is there and is the host that was asked.
pub(crate) fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|v: &http::HeaderValue| v.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin == format!("http://{host}"),
        _ => false,
    }
}
