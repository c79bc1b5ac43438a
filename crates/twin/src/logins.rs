//! Logging in at the twin: Linear's pages and tokens, GitHub's device codes. It says yes
//! for the owner at once, unless it was told otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::extract::{Form, Query, State as Ext};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::App;
use crate::github::{Answer, Shared, json_answer, parse};

/// What was granted since the twin runs; it is forgotten with it.
#[derive(Default)]
pub(crate) struct Grants {
    given: u64,
    /// Seconds that an access token lasts; a day where nothing was said.
    lasts: Option<u64>,
    /// The person says no.
    denies: bool,
    /// Codes of the browser: the challenge, and where they were sent.
    codes: BTreeMap<String, (String, String)>,
    access: BTreeMap<String, Instant>,
    refresh: BTreeSet<String>,
    /// Device codes by what is typed in, and whether it was.
    devices: BTreeMap<String, (String, bool)>,
    /// How often a token was renewed.
    renewed: u64,
}

impl Grants {
    /// A word that nobody guesses, and no other has.
    fn word(&mut self, prefix: &str) -> String {
        self.given += 1;
        let seed = format!("{prefix} {} {:?}", self.given, std::time::SystemTime::now());
        format!("{prefix}_{}", &hex::encode(Sha256::digest(seed))[..32])
    }

    /// This access token is good now.
    pub(crate) fn good(&self, token: &str) -> bool {
        self.access.get(token).is_some_and(|ends| *ends > Instant::now())
    }

    fn grant(&mut self) -> Value {
        let (token, refresh) = (self.word("lin_oauth"), self.word("lin_refresh"));
        let lasts = self.lasts.unwrap_or(86_399);
        self.access.insert(token.clone(), Instant::now() + Duration::from_secs(lasts));
        self.refresh.insert(refresh.clone());
        json!({
            "access_token": token, "token_type": "Bearer", "expires_in": lasts, "scope": "read write",
            "refresh_token": refresh,
        })
    }
}

fn locked(app: &App) -> std::sync::MutexGuard<'_, Grants> {
    app.grants.lock().unwrap_or_else(|e| e.into_inner())
}

#[derive(Deserialize)]
struct Asked {
    response_type: String,
    redirect_uri: String,
    state: Option<String>,
    code_challenge: String,
    code_challenge_method: String,
}

/// The page where the person says yes.
async fn authorize(Ext(app): Shared, Query(asked): Query<Asked>) -> Response {
    if asked.response_type != "code" || asked.code_challenge_method != "S256" {
        return json_answer(400, &json!({"error": "invalid_request"}));
    }
    let mut grants = locked(&app);
    let brought = if grants.denies {
        "error=access_denied".to_owned()
    } else {
        let code = grants.word("code");
        grants.codes.insert(code.clone(), (asked.code_challenge, asked.redirect_uri.clone()));
        format!("code={code}")
    };
    let state = asked.state.unwrap_or_default();
    let to = format!("{}?{brought}&state={state}", asked.redirect_uri);
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

#[derive(Deserialize)]
struct Wanted {
    grant_type: String,
    code: Option<String>,
    code_verifier: Option<String>,
    redirect_uri: Option<String>,
    refresh_token: Option<String>,
    device_code: Option<String>,
}

fn invalid_grant(why: &str) -> Response {
    json_answer(400, &json!({"error": "invalid_grant", "error_description": why}))
}

async fn token(Ext(app): Shared, Form(wanted): Form<Wanted>) -> Response {
    let mut grants = locked(&app);
    match wanted.grant_type.as_str() {
        "authorization_code" => {
            // A code is of use once, whatever comes with it.
            let known = grants.codes.remove(&wanted.code.unwrap_or_default());
            let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(wanted.code_verifier.unwrap_or_default()));
            match known {
                Some((challenge, to)) if challenge == proof && wanted.redirect_uri.as_deref() == Some(&to) => {
                    Json(grants.grant()).into_response()
                }
                _ => invalid_grant("The code is not good"),
            }
        }
        "refresh_token" => {
            if !grants.refresh.remove(&wanted.refresh_token.unwrap_or_default()) {
                return invalid_grant("The refresh token was used or taken back");
            }
            grants.renewed += 1;
            Json(grants.grant()).into_response()
        }
        _ => json_answer(400, &json!({"error": "unsupported_grant_type"})),
    }
}

async fn revoke(Ext(app): Shared, headers: HeaderMap) -> StatusCode {
    let sent = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or("");
    match locked(&app).access.remove(sent.trim_start_matches("Bearer ")) {
        Some(_) => StatusCode::OK,
        None => StatusCode::UNAUTHORIZED,
    }
}

async fn device(Ext(app): Shared) -> Response {
    let mut grants = locked(&app);
    let code = grants.word("device");
    let typed = grants.word("code")[5..13].to_ascii_uppercase();
    let typed = format!("{}-{}", &typed[..4], &typed[4..]);
    grants.devices.insert(typed.clone(), (code.clone(), false));
    let at = format!("{}/github/login/device", app.base);
    Json(json!({
        "device_code": code, "user_code": typed, "verification_uri": at, "expires_in": 899, "interval": 1,
    }))
    .into_response()
}

/// GitHub says "not yet" and "no" with 200.
async fn device_token(Ext(app): Shared, Form(wanted): Form<Wanted>) -> Response {
    let mut grants = locked(&app);
    let code = wanted.device_code.unwrap_or_default();
    let found = grants.devices.values().find(|(c, _)| *c == code).map(|(_, typed)| *typed);
    match found {
        None => Json(json!({"error": "incorrect_device_code"})).into_response(),
        Some(_) if grants.denies => Json(json!({"error": "access_denied"})).into_response(),
        Some(false) => Json(json!({"error": "authorization_pending"})).into_response(),
        Some(true) => {
            grants.devices.retain(|_, (c, _)| *c != code);
            let token = grants.word("gho");
            grants.access.insert(token.clone(), Instant::now() + Duration::from_secs(365 * 86_400));
            Json(json!({"access_token": token, "token_type": "bearer", "scope": "repo,read:org,workflow"}))
                .into_response()
        }
    }
}

/// `{"lasts_s", "denies", "typed", "end": "access" | "all"}`: how long tokens last, what the
/// person says, which device code was typed in, what becomes useless now. Answers how
/// often tokens were renewed.
pub(crate) async fn control(Ext(app): Shared, body: axum::body::Bytes) -> Answer {
    let input = parse(&body)?;
    let mut grants = locked(&app);
    if let Some(lasts) = input["lasts_s"].as_u64() {
        grants.lasts = Some(lasts);
    }
    if let Some(denies) = input["denies"].as_bool() {
        grants.denies = denies;
    }
    if let Some(device) = input["typed"].as_str().and_then(|t| grants.devices.get_mut(t)) {
        device.1 = true;
    }
    match input["end"].as_str() {
        Some("access") => grants.access.clear(),
        Some("all") => {
            grants.access.clear();
            grants.refresh.clear();
        }
        _ => {}
    }
    Ok(json_answer(200, &json!({"renewed": grants.renewed})))
}

pub(crate) fn router() -> Router<std::sync::Arc<App>> {
    Router::new()
        .route("/linear/oauth/authorize", get(authorize))
        .route("/linear/oauth/token", post(token))
        .route("/linear/oauth/revoke", post(revoke))
        .route("/github/login/device/code", post(device))
        .route("/github/login/oauth/access_token", post(device_token))
}
