//! A scripted coding agent: a real process that speaks the Agent Client
//! Protocol over stdio and stands in for a model in the demo and in tests.
//!
//! It knows what a model would know and no more: its brief, its prompt, the
//! tools it was given and a shell in its directory. It reads texts and acts on
//! them; nothing of any demo is written down here. A turn may be cut at any
//! point and told to go on, so every step first looks whether it is done.

mod brief;
mod bus;
mod edits;
mod mcp;
mod prompt;
mod reviewer;
mod shell;
mod steward;
mod turn;
mod voice;
mod wake;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ContentBlock, Implementation, InitializeRequest, InitializeResponse,
    LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer, Meta, NewSessionRequest, NewSessionResponse,
    PromptRequest, PromptResponse, StopReason,
};
use agent_client_protocol::{Agent, ByteStreams, Client, ConnectTo};
use serde_json::{Value, json};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

use brief::{Brief, Role};
use mcp::Endpoint;
use turn::{Halt, Step, Turn};
use voice::AcpVoice;

/// The pause before each step, in milliseconds.
const PACE: &str = "SCRIPTED_PACE_MS";

/// What is remembered of a session while the process lives.
#[derive(Clone, Default)]
struct Session {
    cwd: PathBuf,
    mcp: Option<Endpoint>,
    /// The first prompt that held a task: a model would find it in its transcript.
    task: Option<String>,
    /// Ends the live turn.
    cancel: CancellationToken,
}

#[derive(Default)]
struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self, id: &str, cwd: PathBuf, servers: Vec<McpServer>) {
        let mcp = servers.into_iter().find_map(|server| match server {
            McpServer::Http(http) => {
                let headers = http.headers.into_iter().map(|h| (h.name, h.value)).collect();
                Some(Endpoint { url: http.url, headers })
            }
            _ => None,
        });
        self.with(|all| {
            let session = all.entry(id.to_owned()).or_default();
            session.cwd = cwd;
            session.mcp = mcp;
        });
    }

    /// The session, with a fresh token for the turn that begins.
    fn begin(&self, id: &str) -> Option<Session> {
        self.with(|all| {
            let session = all.get_mut(id)?;
            session.cancel = CancellationToken::new();
            Some(session.clone())
        })
    }
}

/// Speaks the protocol over stdin and stdout until stdin ends.
///
/// # Errors
/// The connection broke otherwise than by its end.
pub async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    serve(ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat())).await?;
    Ok(())
}

async fn serve(transport: impl ConnectTo<Agent> + 'static) -> Result<(), agent_client_protocol::Error> {
    let sessions = Arc::new(Sessions::default());
    let (made, loaded, prompted, cancelled) = (sessions.clone(), sessions.clone(), sessions.clone(), sessions);
    Agent
        .v1()
        .name("scripted-agent")
        .on_receive_request(
            async move |_ask: InitializeRequest, responder, _link| responder.respond(introduction()),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |ask: NewSessionRequest, responder, _link| {
                let id = fresh_id();
                made.open(&id, ask.cwd, ask.mcp_servers);
                responder.respond(NewSessionResponse::new(id))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |ask: LoadSessionRequest, responder, _link| {
                // Nothing is kept on disk: what matters is found again in the
                // prompt, the repository and the host's own lists.
                loaded.open(&ask.session_id.to_string(), ask.cwd, ask.mcp_servers);
                responder.respond(LoadSessionResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |ask: PromptRequest, responder, link: ConnectionTo<Client>| {
                let id = ask.session_id.to_string();
                let Some(session) = prompted.begin(&id) else {
                    return responder.respond_with_error(
                        agent_client_protocol::Error::invalid_params()
                            .data(json!(format!("no session is called {id}"))),
                    );
                };
                let (sessions, voice) = (prompted.clone(), AcpVoice::new(link.clone(), ask.session_id.clone()));
                // In a task of its own, so that a cancel is heard during the turn.
                link.spawn(async move {
                    let context = context(ask.meta.as_ref());
                    let text = text_of(&ask.prompt);
                    let mut task = session.task.clone();
                    let turn = Turn {
                        cwd: session.cwd,
                        mcp: session.mcp,
                        voice: Arc::new(voice),
                        cancel: session.cancel,
                        pace: pace(),
                        env: Vec::new(),
                    };
                    let end = take(&turn, &context, &text, &mut task).await;
                    sessions.with(|all| {
                        if let Some(session) = all.get_mut(&id) {
                            session.task = task;
                        }
                    });
                    match end {
                        Ok(()) => responder.respond(PromptResponse::new(StopReason::EndTurn)),
                        Err(Halt::Cancelled) => responder.respond(PromptResponse::new(StopReason::Cancelled)),
                        Err(Halt::Broken(says)) => responder.respond_with_internal_error(says),
                    }
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |told: CancelNotification, _link| {
                let token = cancelled.with(|all| all.get(&told.session_id.to_string()).map(|s| s.cancel.clone()));
                if let Some(token) = token {
                    token.cancel();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

fn introduction() -> InitializeResponse {
    let mut meta = Meta::new();
    meta.insert("stewards".into(), json!({"systemContext": true}));
    let capabilities =
        AgentCapabilities::new().load_session(true).mcp_capabilities(McpCapabilities::new().http(true)).meta(meta);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(Implementation::new("scripted-agent", env!("CARGO_PKG_VERSION")))
        .agent_capabilities(capabilities)
}

/// One turn: what the role of the brief does with the prompt.
async fn take(turn: &Turn, context: &str, text: &str, task: &mut Option<String>) -> Step<()> {
    let brief = Brief::read(context);
    match brief.role {
        Role::Steward => steward::turn(turn, &brief, text).await,
        Role::Worker => worker::turn(turn, &brief, text, task).await,
        Role::Reviewer => reviewer::turn(turn, &brief, text).await,
        Role::Other => turn.say("There is nothing here that I have to do.").await,
    }
}

fn context(meta: Option<&Meta>) -> String {
    let context = meta.and_then(|m| m.get("stewards")).and_then(|s| s.get("systemContext")).and_then(Value::as_str);
    context.unwrap_or_default().to_owned()
}

fn text_of(blocks: &[ContentBlock]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n\n")
}

fn pace() -> Duration {
    Duration::from_millis(std::env::var(PACE).ok().and_then(|ms| ms.trim().parse().ok()).unwrap_or(0))
}

/// An id that no other process has given out: sessions are loaded by id later.
fn fresh_id() -> String {
    format!("scripted-{}", unique())
}

/// A word that names nothing else on this machine.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("{}-{nanos}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
