//! The REST side of GitHub: routes, tokens, errors, limits, ETags and pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State as Ext};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, patch, post, put};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::model::{Pull, Repo, State, User};
use crate::{
    App, Error, github_checks, github_graph, github_issues, github_json as js, github_merge, github_pulls,
    line_comments, renames, repo_hooks,
};

/// What handlers take from axum.
pub type Shared = Ext<Arc<App>>;
/// A handler's answer.
pub type Answer = Result<Response, Refusal>;

/// A refusal in GitHub's shape.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    body: Value,
}

impl Refusal {
    /// A refusal with a message only.
    pub fn new(status: u16, message: &str) -> Self {
        let body = json!({
            "message": message, "status": status.to_string(),
            "documentation_url": "https://docs.github.com/rest",
        });
        Self { status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body }
    }

    /// The answer for everything unknown.
    pub fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    /// 422 with the official list of errors.
    pub fn invalid(errors: Value) -> Self {
        let mut refusal = Self::new(422, "Validation Failed");
        refusal.body["errors"] = errors;
        refusal
    }

    /// 422 because a field is missing.
    pub fn missing(resource: &str, field: &str) -> Self {
        Self::invalid(json!([{"resource": resource, "field": field, "code": "missing_field"}]))
    }
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        tracing::error!(error = %e, "request failed");
        Self::new(500, "Server Error")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body)).into_response()
    }
}

/// A JSON answer with a status.
pub fn json_answer(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body.to_string()).into_response()
}

/// Reads a JSON object from a request; an empty body is an empty object.
pub fn parse(body: &Bytes) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_slice(body).map_err(|_| Refusal::new(400, "Problems parsing JSON"))
}

/// Finds a repository by a name that it has or had; names are matched without regard to
/// case, as the real service does.
pub fn repo(state: &State, owner: &str, name: &str) -> Result<Repo, Refusal> {
    let full = format!("{owner}/{name}");
    let found = state.repos.get(&full).or_else(|| state.repos.values().find(|r| r.full().eq_ignore_ascii_case(&full)));
    let before = || state.renamed.get(&full).and_then(|id| state.repos.values().find(|r| r.id == *id));
    found.or_else(before).cloned().ok_or_else(Refusal::not_found)
}

/// Finds a pull.
pub fn pull(state: &State, owner: &str, name: &str, number: u64) -> Result<(Repo, Pull), Refusal> {
    let repo = repo(state, owner, name)?;
    let pull = state.pulls.get(&(repo.full(), number)).cloned().ok_or_else(Refusal::not_found)?;
    Ok((repo, pull))
}

/// Query parameters by name; the last of a name wins.
pub type Query = std::collections::BTreeMap<String, String>;

/// Cuts a list to the page asked for and names its neighbours in a Link header.
pub fn paged(app: &App, path: &str, query: &Query, items: Vec<Value>) -> Response {
    let (items, links) = page(app, path, query, items);
    with_links(json_answer(200, &Value::Array(items)), links)
}

/// As [`paged`], leaving the wrapping to the caller.
pub fn page(app: &App, path: &str, query: &Query, items: Vec<Value>) -> (Vec<Value>, Option<String>) {
    let number = |key: &str, default: usize| query.get(key).and_then(|v| v.parse().ok()).unwrap_or(default);
    let per_page = number("per_page", 30).clamp(1, 100);
    let at = number("page", 1).max(1);
    let last = items.len().div_ceil(per_page).max(1);
    let link = |to: usize, rel: &str| {
        let mut q = query.clone();
        q.insert("page".into(), to.to_string());
        let q: Vec<String> = q.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
        format!("<{}{path}?{}>; rel=\"{rel}\"", app.base, q.join("&"))
    };
    let mut links = Vec::new();
    if at > 1 {
        links.push(link(at - 1, "prev"));
    }
    if at < last {
        links.push(link(at + 1, "next"));
        links.push(link(last, "last"));
    }
    if at > 1 {
        links.push(link(1, "first"));
    }
    let items = items.into_iter().skip((at - 1).saturating_mul(per_page)).take(per_page).collect();
    (items, (!links.is_empty()).then(|| links.join(", ")))
}

/// Sets the Link header.
pub fn with_links(mut answer: Response, links: Option<String>) -> Response {
    if let Some(value) = links.and_then(|l| HeaderValue::from_str(&l).ok()) {
        answer.headers_mut().insert(header::LINK, value);
    }
    answer
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

/// The token of a header `Bearer x` or `token x`.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")).then(|| token.trim())
}

/// Requests counted against the hourly limit, which the twin shows but does not enforce.
static USED: AtomicU64 = AtomicU64::new(0);

/// Token, limits and ETags around every route.
async fn guard(Ext(app): Shared, request: Request, next: Next) -> Response {
    if !token(request.headers()).is_some_and(|t| app.github_knows(t)) {
        return limits(Refusal::new(401, "Bad credentials").into_response(), false, "core");
    }
    if let Some(answer) = renames::redirect(&app, request.method(), request.uri()) {
        return limits(answer, true, "core");
    }
    let get = request.method() == Method::GET;
    let resource = match request.uri().path() {
        path if path.contains("/search/") => "search",
        path if path.ends_with("/graphql") => "graphql",
        _ => "core",
    };
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let answer = next.run(request).await;
    if !get || answer.status() != StatusCode::OK {
        return limits(answer, true, resource);
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return limits(Refusal::new(500, "Server Error").into_response(), true, resource);
    };
    let tag = format!("\"{}\"", hex::encode(Sha256::digest(&bytes)));
    if let Ok(value) = HeaderValue::from_str(&format!("W/{tag}")) {
        parts.headers.insert(header::ETAG, value);
    }
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=60, s-maxage=60"));
    let same = known.is_some_and(|k| k.split(',').any(|t| t.trim().trim_start_matches("W/") == tag));
    if same {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_LENGTH);
        // An unchanged answer is free.
        return limits(Response::from_parts(parts, Body::empty()), false, resource);
    }
    limits(Response::from_parts(parts, Body::from(bytes)), true, resource)
}

fn limits(mut answer: Response, counts: bool, resource: &str) -> Response {
    let used = if counts { USED.fetch_add(1, Ordering::Relaxed) + 1 } else { USED.load(Ordering::Relaxed) };
    let limit = if resource == "search" { 30 } else { 5000 };
    let hour = jiff::Timestamp::now().as_second() / 3600 * 3600 + 3600;
    let used = used % limit;
    for (name, value) in [
        ("x-ratelimit-limit", limit.to_string()),
        ("x-ratelimit-remaining", (limit - used).to_string()),
        ("x-ratelimit-used", used.to_string()),
        ("x-ratelimit-reset", hour.to_string()),
        ("x-ratelimit-resource", resource.to_owned()),
        ("x-github-request-id", format!("{:X}", jiff::Timestamp::now().as_nanosecond())),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

async fn viewer(Ext(app): Shared) -> Answer {
    Ok(json_answer(200, &account(&app, &app.world.state().me())))
}

async fn one_user(Ext(app): Shared, Path(login): Path<String>) -> Answer {
    let state = app.world.state();
    let found = std::iter::once(state.me()).chain(state.users.values().cloned());
    let user = found.into_iter().find(|u| u.login.eq_ignore_ascii_case(&login)).ok_or_else(Refusal::not_found)?;
    Ok(json_answer(200, &account(&app, &user)))
}

fn account(app: &App, user: &User) -> Value {
    let mut body = js::user(app, user);
    let fields = json!({
        "name": user.name, "email": user.email, "company": null, "blog": "", "location": null, "hireable": null,
        "bio": null, "public_repos": 0, "public_gists": 0, "followers": 0, "following": 0,
        "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z",
    });
    if let (Some(to), Some(from)) = (body.as_object_mut(), fields.as_object()) {
        to.extend(from.clone());
    }
    body
}

async fn unknown() -> Refusal {
    Refusal::not_found()
}

/// The routes under `/github`.
pub fn router(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new().nest("/github", api(app))
}

/// The API as it is at the root of its own host.
pub fn api(app: &Arc<App>) -> Router<Arc<App>> {
    routes()
        .route("/repositories/{id}", any(renames::by_number))
        .route("/repositories/{id}/{*rest}", any(renames::by_number))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard))
}

/// The API without its guard.
pub(crate) fn routes() -> Router<Arc<App>> {
    let r = "/repos/{owner}/{repo}";
    let at = |tail: &str| format!("{r}{tail}");
    Router::new()
        .route("/user", get(viewer))
        .route("/users/{login}", get(one_user))
        .route("/graphql", post(github_graph::graphql))
        .route(r, get(github_checks::repository))
        .route(&at("/branches/{*branch}"), get(github_checks::branch))
        .route(&at("/commits/{*rest}"), get(github_checks::commits))
        .route(&at("/compare/{*basehead}"), get(github_checks::compare))
        .route(&at("/pulls"), get(github_pulls::list).post(github_pulls::create))
        .route(&at("/pulls/{number}"), get(github_pulls::read).patch(github_pulls::update))
        .route(&at("/pulls/{number}/comments"), get(line_comments::list).post(line_comments::add))
        .route(&at("/pulls/{number}/requested_reviewers"), post(line_comments::request))
        .route(&at("/pulls/{number}/files"), get(github_checks::files))
        .route(&at("/pulls/{number}/commits"), get(github_checks::pull_commits))
        .route(&at("/pulls/{number}/reviews"), get(github_issues::reviews).post(github_issues::add_review))
        .route(&at("/pulls/{number}/merge"), put(github_merge::merge).get(github_merge::is_merged))
        .route(&at("/issues/{number}"), get(github_issues::issue))
        .route(&at("/issues/{number}/comments"), get(github_issues::comments).post(github_issues::add_comment))
        .route(&at("/issues/comments/{id}"), patch(github_issues::edit_comment).get(github_issues::one_comment))
        .route(&at("/issues/{number}/labels"), get(github_issues::labels))
        .route(&at("/issues/{number}/labels"), post(github_issues::add_labels))
        .route(&at("/issues/{number}/labels/{*name}"), delete(github_issues::remove_label))
        .route(&at("/hooks"), get(repo_hooks::list).post(repo_hooks::create))
        .route(&at("/hooks/{id}"), patch(repo_hooks::update))
        .route(&at("/hooks/{id}/deliveries"), get(repo_hooks::deliveries))
        .route(&at("/hooks/{id}/deliveries/{delivery}"), get(repo_hooks::one_delivery))
        .route("/search/issues", get(github_issues::search))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
}
