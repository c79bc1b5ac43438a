//! The daemon's only server: pages, JSON API, webhooks in, tools for agents.
//!
//! It decides nothing: a request becomes an event, and what it answers is a
//! view of the world as it was committed.

mod act;
mod api;
mod hooks;
mod mcp;
mod pages;
mod session;

pub use act::Ask;
pub use session::Sessions;

use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::{HeaderValue, StatusCode, header};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use stewards_core::ids::ThreadId;
use stewards_core::machine::Caller;
use stewards_core::ports::Doorbell;
use stewards_engine::{Engine, Passes};
use stewards_store::{Reader, StoreError};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Bytes of a request body at most.
const BODY: usize = 2 * 1024 * 1024;

/// What the running daemon says of itself.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Build {
    /// The commit it was built from, `-dirty` where the tree was.
    pub commit: String,
    pub version: String,
    pub pid: u32,
    pub started: jiff::Timestamp,
}

/// Finds the thread whose agent a process descends from, by its pid.
///
/// `Err` where the process cannot be read: it is gone, or hides itself.
pub type Descent = Arc<dyn Fn(i32) -> Result<Option<ThreadId>, ()> + Send + Sync>;

/// Everything that a request may need.
#[derive(Clone)]
pub struct Web {
    pub engine: Engine,
    /// The database file.
    pub file: PathBuf,
    pub passes: Arc<Passes>,
    pub sessions: Arc<Sessions>,
    /// By source: linear, github.
    pub bells: BTreeMap<&'static str, Arc<dyn Doorbell>>,
    pub build: Build,
    pub descent: Descent,
}

impl Web {
    pub(crate) fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.file)
    }
}

/// The server's end, for what would hold a connection open beyond it.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(pub(crate) CancellationToken);

/// Who a connection on the socket is, before it presents anything.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pid: Option<i32>,
    /// The thread whose agent it descends from, read once: nobody changes parents while
    /// a connection lasts, but parents end.
    thread: Arc<OnceCell<Option<ThreadId>>>,
}

impl Connected<axum::serve::IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: axum::serve::IncomingStream<'_, UnixListener>) -> Self {
        Peer { pid: stream.io().peer_cred().ok().and_then(|c| c.pid()), thread: Arc::default() }
    }
}

/// Serves the page, the webhooks and the agents' tools on loopback, and the
/// command line on the socket, until `stop`.
pub async fn serve(web: Web, tcp: TcpListener, socket: UnixListener, stop: CancellationToken) -> std::io::Result<()> {
    let port = tcp.local_addr()?.port();
    let outside = Router::new()
        .merge(pages::router(&web))
        .nest("/api", api::router().route_layer(middleware::from_fn_with_state(web.clone(), session::guard)))
        .merge(hooks::router())
        .merge(mcp::router(&web))
        .layer(Extension(Stopping(stop.clone())))
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(port, hosts))
        .with_state(web.clone());
    let local = Router::new()
        .nest("/api", api::router())
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(web.clone(), socket_caller))
        .with_state(web)
        .into_make_service_with_connect_info::<Peer>();
    let page = axum::serve(tcp, outside).with_graceful_shutdown(stop.clone().cancelled_owned());
    let line = axum::serve(socket, local).with_graceful_shutdown(stop.cancelled_owned());
    tokio::try_join!(page.into_future(), line.into_future())?;
    Ok(())
}

/// Only our own names on loopback are answered, so that no other site's name
/// can be pointed here; and what is answered may load nothing from elsewhere.
async fn hosts(State(port): State<u16>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or("");
    let ours = ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"));
    if !ours {
        return (StatusCode::MISDIRECTED_REQUEST, "this host name is not served here\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With `no-referrer` a browser sends `Origin: null` with a form, and a press
    // without a script could not be told from one of another site.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// On the socket: the owner, or the thread that the token names. A process that
/// descends from a thread's agent is that thread, whatever it presents.
async fn socket_caller(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let (descent, pid) = (web.descent.clone(), peer.pid);
    let read = || async move {
        let look = tokio::task::spawn_blocking(move || descent(pid.ok_or(())?));
        look.await.unwrap_or(Err(()))
    };
    let Ok(found) = peer.thread.get_or_try_init(read).await.cloned() else {
        let says = stewards_core::refusal::Refusal::not_met(
            "unknown_caller",
            "the process that asks cannot be read, so nobody knows who it is",
            "ask from a process that lives until it is answered",
        );
        return act::refused(&says);
    };
    let caller = match (found, request.headers().get("x-stewards-token").and_then(|t| t.to_str().ok())) {
        (Some(thread), _) => Caller::Thread(thread),
        (None, None) => Caller::Person,
        (None, Some(token)) => match web.passes.who(token) {
            Some(thread) => Caller::Thread(thread),
            None => {
                let says = stewards_core::refusal::Refusal::not_met(
                    "bad_token",
                    "this thread token is not of this run of the daemon",
                    "the thread's agent was ended; run the command as yourself without STEWARDS_TOKEN",
                );
                return act::refused(&says);
            }
        },
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}
