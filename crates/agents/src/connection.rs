//! The wire to one agent: lines in and out, and how it ends.

use crate::child::{Child, Tail};
use crate::live::Live;
use crate::processes::{self, Proc};
use agent_client_protocol::v1::{ConnectionTo, schema};
use agent_client_protocol::{Agent, Client, Lines, UntypedMessage};
use futures::{Sink, Stream};
use schema::{PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse};
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use stewards_core::ids::ThreadId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// The longest line that is read as one message, in bytes.
const LINE_BYTES: u64 = 64 * 1024 * 1024;
/// What was written before a process ended is still read for so long.
const REST: Duration = Duration::from_millis(500);

/// The handle of a connection that runs in a task of its own.
pub(crate) struct Connection {
    /// Holds why the connection ended, once it has.
    pub dead: watch::Receiver<Option<String>>,
    /// Ends it, which also closes the agent's input.
    pub close: CancellationToken,
}

/// Starts to speak with a process. The link comes once the connection is up;
/// it may be used from any task.
pub(crate) fn open(
    child: Child,
    live: Arc<Live>,
    mark: String,
    thread: ThreadId,
) -> (Connection, oneshot::Receiver<ConnectionTo<Agent>>) {
    let (up, link) = oneshot::channel();
    let (told, dead) = watch::channel(None);
    let close = CancellationToken::new();
    let closed = close.clone();
    tokio::spawn(async move {
        let Child { stdin, stdout, leader, tail, exit, .. } = child;
        let why = tokio::select! {
            biased;
            () = closed.cancelled() => Some("it was ended".to_owned()),
            end = converse(stdin, stdout, live, up) => end.err().map(|e| e.to_string()),
            () = abandoned(exit.clone(), mark, thread, leader) => None,
        };
        told.send_replace(Some(epitaph(exit, &tail, why).await));
    });
    (Connection { dead, close }, link)
}

/// Runs until the agent closes its output, or the wire breaks.
async fn converse(
    stdin: ChildStdin,
    stdout: ChildStdout,
    live: Arc<Live>,
    up: oneshot::Sender<ConnectionTo<Agent>>,
) -> Result<(), agent_client_protocol::Error> {
    let heard = Arc::clone(&live);
    Client
        .v1()
        .name("stewards")
        .on_receive_request(
            async move |ask: RequestPermissionRequest, responder, _link| responder.respond(allowed(&ask)),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |note: UntypedMessage, _link| {
                if note.method() == "session/update" {
                    heard.update(note.params());
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(Lines::new(outgoing(stdin), incoming(stdout, live)), async move |link: ConnectionTo<Agent>| {
            let _ = up.send(link.clone());
            link.incoming_closed().await;
            Ok(())
        })
        .await
}

/// Tools run without asking: whoever asks is allowed, once, so that nothing
/// outlives the ask.
fn allowed(ask: &RequestPermissionRequest) -> RequestPermissionResponse {
    let of = |kind| ask.options.iter().find(|o| o.kind == kind);
    let option = of(PermissionOptionKind::AllowOnce).or_else(|| of(PermissionOptionKind::AllowAlways));
    RequestPermissionResponse::new(match option {
        Some(option) => {
            RequestPermissionOutcome::Selected(schema::SelectedPermissionOutcome::new(option.option_id.clone()))
        }
        None => RequestPermissionOutcome::Cancelled,
    })
}

fn outgoing(stdin: ChildStdin) -> impl Sink<String, Error = io::Error> + Send + 'static {
    futures::sink::unfold(stdin, |mut stdin, line: String| async move {
        stdin.write_all(line.as_bytes()).await?;
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        Ok(stdin)
    })
}

/// The lines that are messages. Agents, and what they start, also print other
/// things: those lines are left out here, since the protocol has no answer to them.
fn incoming(stdout: ChildStdout, live: Arc<Live>) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    futures::stream::unfold((BufReader::new(stdout), live), |(mut from, live)| async move {
        loop {
            let mut line = Vec::new();
            match (&mut from).take(LINE_BYTES).read_until(b'\n', &mut line).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some((Err(error), (from, live))),
            }
            live.touch();
            if let Some(message) = message(line) {
                return Some((Ok(message), (from, live)));
            }
        }
    })
}

fn message(line: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(line).ok()?;
    let text = text.trim();
    let whole = text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !whole && !text.is_empty() {
        tracing::debug!(bytes = text.len(), "an agent printed a line that is not a message");
    }
    whole.then(|| text.to_owned())
}

/// Completes when the agent is gone although its output is still open, since some
/// process that it started holds it. A launcher that ends well while others of the
/// thread live on may have handed over to them, so then those count.
async fn abandoned(mut exit: watch::Receiver<Option<ExitStatus>>, mark: String, thread: ThreadId, leader: Proc) {
    let handed_over = match exit.wait_for(Option::is_some).await {
        Ok(status) => status.is_some_and(|s| s.success()),
        Err(_) => false,
    };
    tokio::time::sleep(REST).await;
    if !handed_over {
        return;
    }
    loop {
        let (mark, thread, leader) = (mark.clone(), thread.clone(), leader.clone());
        let look = move || processes::of_thread(&mark, thread.as_str(), Some(&leader)).is_empty();
        if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Why the connection ended, with the status and the last word of the process
/// where there are any.
async fn epitaph(mut exit: watch::Receiver<Option<ExitStatus>>, tail: &Tail, why: Option<String>) -> String {
    let status = tokio::time::timeout(REST, exit.wait_for(Option::is_some)).await;
    let status = status.ok().and_then(Result::ok).and_then(|s| *s);
    let mut says = match status {
        Some(status) => format!("the agent's process ended ({status})"),
        None => "the agent closed the connection".to_owned(),
    };
    if let Some(why) = why {
        says.push_str(&format!("; {why}"));
    }
    if let Some(line) = tail.last_line() {
        says.push_str(&format!(": {line}"));
    }
    says
}
