//! Faults by script: what goes wrong next, where, and how often.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Ext};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::github::{Answer, Refusal, Shared, json_answer, parse};
use crate::{App, linear};

/// One fault, as it is asked for. Of `status`, `drop`, `stale` and `null` one is given, or
/// none with `delay_ms` or `twice`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Where the path begins; `hook:linear` and `hook:github` are the webhooks sent.
    route_prefix: String,
    /// Only requests (or webhooks) whose body holds this.
    contains: Option<String>,
    /// So many that fit come through first.
    #[serde(default)]
    skip: u32,
    /// So many are met.
    #[serde(default = "once")]
    times: u32,
    status: Option<u16>,
    /// The work is done and only its answer is lost.
    #[serde(default)]
    after: bool,
    delay_ms: Option<u64>,
    /// The connection breaks; a webhook is never sent.
    #[serde(default)]
    drop: bool,
    /// A webhook goes out twice, with one delivery id.
    #[serde(default)]
    twice: bool,
    /// The first answer is given again, whatever has changed since.
    #[serde(default)]
    stale: bool,
    /// Of a GraphQL answer this is null and said to be forbidden: `/data/a/b`.
    null: Option<String>,
    #[serde(skip)]
    kept: BTreeMap<Vec<u8>, (StatusCode, Bytes)>,
}

fn once() -> u32 {
    1
}

impl Fault {
    fn fits(&self, place: &str, body: Option<&[u8]>) -> bool {
        let holds = |part: &String| body.is_some_and(|b| String::from_utf8_lossy(b).contains(part.as_str()));
        self.times > 0 && place.starts_with(&self.route_prefix) && self.contains.as_ref().is_none_or(holds)
    }
}

/// What is to happen to a webhook.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HookFault {
    pub delay: Option<Duration>,
    pub lost: bool,
    pub twice: bool,
}

/// The fault that the next thing at a place meets, counted as met.
fn next(app: &App, place: &str, body: Option<&[u8]>) -> Option<Fault> {
    let mut faults = app.faults.lock().unwrap_or_else(|e| e.into_inner());
    let fault = faults.iter_mut().find(|f| !f.stale && f.fits(place, body))?;
    if fault.skip > 0 {
        fault.skip -= 1;
        return None;
    }
    fault.times -= 1;
    Some(fault.clone())
}

pub(crate) fn of_hook(app: &App, service: &str, body: &[u8]) -> HookFault {
    match next(app, &format!("hook:{service}"), Some(body)) {
        Some(f) => HookFault { delay: f.delay_ms.map(Duration::from_millis), lost: f.drop, twice: f.twice },
        None => HookFault::default(),
    }
}

/// Bodies that are looked into are at most so long.
const BODY: usize = 16_000_000;

/// Makes requests fail as the script says.
pub(crate) async fn meet(Ext(app): Shared, request: Request, next_: Next) -> Response {
    let path = request.uri().path().to_owned();
    let about = |f: &Fault| f.times > 0 && path.starts_with(&f.route_prefix);
    let any = !path.starts_with("/control") && app.faults.lock().is_ok_and(|all| all.iter().any(about));
    if !any {
        return next_.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BODY).await else {
        return Refusal::new(413, "too large to be looked into").into_response();
    };
    let key = [parts.method.as_str().as_bytes(), parts.uri.to_string().as_bytes(), &bytes].concat();
    let reads = parts.method == Method::GET || path.ends_with("/graphql");
    let fault = next(&app, &path, Some(&bytes));
    let stale = reads && old(&app, |f| f.fits(&path, Some(&bytes)));
    let run = next_.run(Request::from_parts(parts, Body::from(bytes)));
    if stale {
        return again(&app, &path, key, run).await;
    }
    let Some(fault) = fault else { return run.await };
    if let Some(ms) = fault.delay_ms {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    if let Some(status) = fault.status {
        if fault.after {
            run.await;
        }
        return failed(&path, status);
    }
    if fault.drop {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("told to break"))]);
        return Response::new(Body::from_stream(broken));
    }
    let Some(pointer) = fault.null else { return run.await };
    let (status, body) = whole(run.await).await;
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return answer(status, body) };
    let Some(place) = value.pointer_mut(&pointer) else { return answer(status, body) };
    *place = Value::Null;
    let steps: Vec<&str> = pointer.trim_start_matches("/data/").split('/').collect();
    value["errors"] = json!([{"type": "FORBIDDEN", "path": steps, "message": "Resource not accessible"}]);
    json_answer(200, &value)
}

/// Whether answers of such a request are to be old ones.
fn old(app: &App, fits: impl Fn(&Fault) -> bool) -> bool {
    app.faults.lock().is_ok_and(|all| all.iter().any(|f| f.stale && fits(f)))
}

/// The answer that was kept for the same request, or the first one, which is kept.
async fn again(app: &App, path: &str, key: Vec<u8>, run: impl Future<Output = Response>) -> Response {
    let mine = |f: &&mut Fault| f.stale && f.times > 0 && path.starts_with(&f.route_prefix);
    {
        let mut faults = app.faults.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(fault) = faults.iter_mut().find(mine)
            && let Some((status, body)) = fault.kept.get(&key).cloned()
        {
            fault.times -= 1;
            return answer(status, body);
        }
    }
    let (status, body) = whole(run.await).await;
    let mut faults = app.faults.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(fault) = faults.iter_mut().find(mine) {
        fault.kept.insert(key, (status, body.clone()));
    }
    answer(status, body)
}

fn failed(path: &str, status: u16) -> Response {
    let message = "The twin was told to fail here";
    match path.starts_with("/linear") {
        true => json_answer(status, &linear::failure(message, "internal error", "INTERNAL_SERVER_ERROR")),
        false => Refusal::new(status, message).into_response(),
    }
}

async fn whole(response: Response) -> (StatusCode, Bytes) {
    let status = response.status();
    (status, axum::body::to_bytes(response.into_body(), BODY).await.unwrap_or_default())
}

fn answer(status: StatusCode, body: Bytes) -> Response {
    (status, [("content-type", "application/json")], body).into_response()
}

/// Takes a fault, or a list of them that are met in their order. What was there for the
/// same place and words is replaced.
pub(crate) async fn set(Ext(app): Shared, body: Bytes) -> Answer {
    let input = parse(&body)?;
    let all: Vec<Value> = match input {
        Value::Array(all) => all,
        one => vec![one],
    };
    let read = |value: Value| {
        let fault: Fault = serde_json::from_value(value).map_err(|e| Refusal::new(422, &e.to_string()))?;
        match fault.status.is_some_and(|s| StatusCode::from_u16(s).is_err()) {
            true => Err(Refusal::new(422, "status is an HTTP status")),
            false => Ok(fault),
        }
    };
    let fresh: Vec<Fault> = all.into_iter().map(read).collect::<Result<_, _>>()?;
    let mut faults = app.faults.lock().unwrap_or_else(|e| e.into_inner());
    let same = |f: &Fault, g: &Fault| f.route_prefix == g.route_prefix && f.contains == g.contains;
    faults.retain(|f| f.times > 0 && !fresh.iter().any(|g| same(f, g)));
    faults.extend(fresh);
    Ok(json_answer(200, &json!({"ok": true})))
}

/// What is still to be met.
pub(crate) async fn left(Ext(app): Shared) -> Answer {
    let faults = app.faults.lock().unwrap_or_else(|e| e.into_inner());
    let row = |f: &Fault| json!({"route_prefix": f.route_prefix, "contains": f.contains, "times": f.times});
    let rows: Vec<Value> = faults.iter().filter(|f| f.times > 0).map(row).collect();
    Ok(json_answer(200, &json!(rows)))
}

/// Kept by what all handlers share.
pub(crate) type Faults = std::sync::Mutex<Vec<Fault>>;
