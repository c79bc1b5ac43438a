//! Smart HTTP: the real `git http-backend`, run as CGI behind Basic auth.

use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State as Ext};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use base64::Engine;
use tokio::io::AsyncWriteExt;

use crate::github::{self, Shared};
use crate::{App, Error, git, repos};

/// The route for all of git.
pub fn router() -> Router<Arc<App>> {
    Router::new().route("/git/{owner}/{*rest}", any(handle))
}

/// Whether the Basic password is the token.
fn allowed(app: &App, headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let encoded = value.and_then(|v| v.split_once(' ')).filter(|(s, _)| s.eq_ignore_ascii_case("basic"));
    let plain = encoded.and_then(|(_, e)| base64::engine::general_purpose::STANDARD.decode(e.trim()).ok());
    let plain = plain.and_then(|p| String::from_utf8(p).ok());
    plain.as_deref().and_then(|p| p.split_once(':')).is_some_and(|(_, password)| app.github_knows(password))
}

async fn handle(Ext(app): Shared, Path((owner, rest)): Path<(String, String)>, request: Request) -> Response {
    if !allowed(&app, request.headers()) {
        let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"GitHub\"")];
        return (StatusCode::UNAUTHORIZED, ask, "Authentication failed\n").into_response();
    }
    let missing = || (StatusCode::NOT_FOUND, "Repository not found.\n").into_response();
    let Some((name, tail)) = rest.split_once('/') else { return missing() };
    let name = name.strip_suffix(".git").unwrap_or(name);
    let Ok(repo) = github::repo(&app.world.state(), &owner, name) else { return missing() };
    let full = repo.full();
    let path = format!("/{full}.git/{tail}");
    let writes = tail == "git-receive-pack";
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let task = app.clone();
    // A push runs to its end even when its client hangs up: git may have taken it already.
    let answer = app
        .detached(async move {
            let lock = task.repo_lock(&full);
            let _held = if writes { Some(lock.lock().await) } else { None };
            let answer = backend(&task, &parts, &path, &bytes).await;
            if writes {
                repos::reconcile(&task, &full).await?;
            }
            answer
        })
        .await;
    match answer.and_then(|inner| inner) {
        Ok(answer) => answer,
        Err(e) => {
            tracing::error!(error = %e, "git over HTTP failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn backend(app: &App, parts: &axum::http::request::Parts, path: &str, body: &[u8]) -> Result<Response, Error> {
    let text = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
    let mut child = git::command(app)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", app.dir.join("repos"))
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", parts.uri.query().unwrap_or(""))
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", text("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", text("content-encoding"))
        .env("GIT_PROTOCOL", text("git-protocol"))
        .env("REMOTE_USER", app.world.state().me().login)
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    // Feeding and reading go side by side: a full pipe must not stop either.
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A backend that refuses early closes its end; its answer tells why.
            let _ = stdin.write_all(body).await;
        }
    };
    let (out, ()) = tokio::join!(child.wait_with_output(), feed);
    let out = out?;
    if !out.stderr.is_empty() {
        tracing::debug!(said = %String::from_utf8_lossy(&out.stderr).trim(), "git http-backend");
    }
    let split = out.stdout.windows(4).position(|w| w == b"\r\n\r\n");
    let Some(at) = split else { return Err(Error::Git("http-backend gave no headers".into())) };
    let mut answer = Response::new(Body::from(out.stdout[at + 4..].to_vec()));
    for line in String::from_utf8_lossy(&out.stdout[..at]).lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|c| c.parse().ok());
            *answer.status_mut() = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    Ok(answer)
}
