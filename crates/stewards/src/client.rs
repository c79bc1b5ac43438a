//! The command line's end of the socket: plain HTTP on a Unix socket.

use crate::out::unreachable;
use crate::settings;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stewards_core::refusal::Refusal;
use stewards_core::text::shell;

/// A merge is waited for by the daemon, up to a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// A client of the daemon of one directory.
pub struct Client {
    socket: PathBuf,
    token: Option<String>,
    patience: Duration,
    /// What to do where nobody answers.
    hint: String,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// Inside a thread STEWARDS_SOCKET and STEWARDS_TOKEN say where and who;
    /// elsewhere `daemon.json` of the directory says where.
    pub fn new(dir: Option<&Path>) -> anyhow::Result<Client> {
        let named = std::env::var_os("STEWARDS_SOCKET").filter(|s| !s.is_empty()).map(PathBuf::from);
        let (socket, hint) = match named {
            Some(socket) => (socket, "its owner starts it: stewards serve start".to_owned()),
            None => {
                let dir = settings::dir(dir)?;
                let none = || unreachable("no_daemon", format!("no daemon runs on {}", dir.display()), start(&dir));
                (settings::daemon(&dir).ok_or_else(none)?.socket, start(&dir))
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let token = std::env::var("STEWARDS_TOKEN").ok().filter(|t| !t.is_empty());
        Ok(Client { socket, token, patience: PATIENCE, hint, runtime })
    }

    /// Of one socket, as the owner, and not waiting for longer than `patience`.
    pub fn of_socket(socket: PathBuf, patience: Duration) -> anyhow::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Client { socket, token: None, patience, hint: "it may be starting".to_owned(), runtime })
    }

    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        Ok(serde_json::from_value(self.send(Method::GET, path, None)?)?)
    }

    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(body))
    }

    /// Asks for something that may change something.
    pub fn act(&self, ask: &stewards_web::Ask) -> anyhow::Result<stewards_core::machine::Reply> {
        Ok(serde_json::from_value(self.post("/api/act", &serde_json::to_value(ask)?)?)?)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let exchange = async { tokio::time::timeout(self.patience, self.exchange(method, path, body)).await };
        self.runtime.block_on(exchange).unwrap_or_else(|_| {
            let says = format!("the daemon did not answer within {} s", self.patience.as_secs());
            Err(unreachable("silent", says, "it may be stopped or very busy; see its log"))
        })
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let lost = |e: &dyn std::fmt::Display| {
            unreachable(
                "no_daemon",
                format!("the daemon at {} does not answer: {e}", self.socket.display()),
                self.hint.clone(),
            )
        };
        let stream = tokio::net::UnixStream::connect(&self.socket).await.map_err(|e| lost(&e))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| lost(&e))?;
        let driving = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "stewards")
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("x-stewards-token", token);
        }
        let body = body.map(|b| b.to_string()).unwrap_or_default();
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await.map_err(|e| lost(&e))?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await.map_err(|e| lost(&e))?.to_bytes();
        driving.abort();
        let value: Value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        if status.is_success() {
            return Ok(value);
        }
        match value.get("refusal").map(|r| serde_json::from_value::<Refusal>(r.clone())) {
            Some(Ok(refusal)) => Err(refusal.into()),
            _ => Err(unreachable("odd_answer", format!("the daemon answered {status}: {value}"), "see its log")),
        }
    }
}

fn start(dir: &Path) -> String {
    format!("start one: stewards serve start --dir {}", shell(&dir.to_string_lossy()))
}

/// Escapes one part of a path or a query.
pub fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}
