//! Turns with Claude Code over its own lines of JSON.
//!
//! Every line that we write for the agent has an id, and the agent says what
//! becomes of it: queued, started, completed or cancelled. A message written while
//! it works may join what it does or become another round after it, so one prompt
//! is not one result: a turn of ours is over when a result has come and all its
//! lines have come to their end.

mod desk;
mod launch;

pub(crate) use launch::arguments;

use crate::child::Child;
use crate::live::{Live, clip};
use crate::wire::{self, Broken, Wire};
use desk::Desk;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Steered, TurnEnd, TurnJob, TurnSink};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

/// After a result lines end or are taken up at once; an agent that does not say so
/// is not waited for longer.
const AFTER_RESULT: Duration = Duration::from_secs(5);

/// Claude Code at the other end of a process.
pub(crate) struct Claude {
    live: Arc<Live>,
    desk: Arc<Desk>,
    out: mpsc::UnboundedSender<String>,
    /// The session that the process was launched with.
    session: String,
}

impl Claude {
    pub(crate) fn open(
        child: Child,
        live: &Arc<Live>,
        mark: String,
        thread: ThreadId,
        session: String,
    ) -> (Claude, Wire) {
        let (out, mut lines) = mpsc::unbounded_channel::<String>();
        let desk = Arc::new(Desk::default());
        let (heard, at, answers) = (Arc::clone(live), Arc::clone(&desk), out.clone());
        let wire = wire::open(child, mark, thread, move |mut stdin, stdout| async move {
            let write = async {
                while let Some(line) = lines.recv().await {
                    stdin.write_all(line.as_bytes()).await?;
                    stdin.write_all(b"\n").await?;
                    stdin.flush().await?;
                }
                Ok::<(), std::io::Error>(())
            };
            let read = async {
                use futures::StreamExt;
                let mut messages = std::pin::pin!(wire::messages(stdout, Arc::clone(&heard)));
                while let Some(line) = messages.next().await {
                    let Ok(line) = line else { return Some("its output could not be read".to_owned()) };
                    if let Ok(message) = serde_json::from_str::<Value>(&line) {
                        at.take(&heard, &message, &answers);
                    }
                }
                None
            };
            // Its output ends the conversation; a closed input alone does not.
            let mut read = std::pin::pin!(read);
            tokio::select! {
                end = &mut read => end,
                _ = write => read.await,
            }
        });
        (Claude { live: Arc::clone(live), desk, out, session }, wire)
    }

    /// One prompt, and whatever else becomes part of its turn.
    pub(crate) async fn talk(&self, job: &TurnJob, sink: Arc<dyn TurnSink>) -> Result<TurnEnd, Broken> {
        self.live.begin(&job.thread, &job.turn, &self.session, sink);
        let text = if job.compacts { "/compact" } else { job.prompt.as_str() };
        self.desk.begin();
        self.write(text, None)?;
        let mut changed = self.desk.changed();
        loop {
            if let Some(end) = self.desk.over(&self.live) {
                return end;
            }
            let limit = if self.desk.lingers() { AFTER_RESULT } else { Duration::from_secs(3_600) };
            let told = tokio::time::timeout(limit, changed.changed()).await;
            if told.is_err() && self.desk.lingers() {
                for id in self.desk.settle() {
                    self.control(json!({"subtype": "cancel_async_message", "message_uuid": id}));
                }
            }
        }
    }

    /// Goes in with the agent's next step, or becomes another round of the same turn.
    pub(crate) async fn steer(&self, text: &str) -> Steered {
        let (tell, told) = oneshot::channel();
        if self.write(text, Some(tell)).is_err() {
            return Steered::NotTaken;
        }
        // Nobody tells it any more when the process is gone.
        told.await.unwrap_or(Steered::Unknown)
    }

    pub(crate) fn cancel(&self) {
        self.control(json!({"subtype": "interrupt"}));
    }

    fn control(&self, request: Value) {
        let ask = json!({"type": "control_request", "request_id": uuid(), "request": request});
        let _ = self.out.send(ask.to_string());
    }

    /// The process is gone: what was handed over and not taken is unknown.
    pub(crate) fn lost(&self) {
        self.desk.clear();
    }

    fn write(&self, text: &str, tell: Option<oneshot::Sender<Steered>>) -> Result<(), Broken> {
        let id = uuid();
        let line = json!({
            "type": "user",
            "uuid": id,
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        });
        if !self.desk.wants(id, tell) {
            return Err(Broken("the turn is over".into()));
        }
        self.out.send(line.to_string()).map_err(|_| Broken("its input is closed".into()))
    }
}

pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// What it says of a conversation that it does not know, at its end.
pub(crate) fn forgot(says: &str) -> bool {
    says.contains("No conversation found")
}

/// The words of an error result.
fn words(result: &Value) -> String {
    let errors = result["errors"].as_array().and_then(|e| e.first()).and_then(Value::as_str);
    let text = result["result"].as_str().filter(|t| !t.trim().is_empty()).or(errors);
    clip(text.unwrap_or("the agent failed and does not say why"))
}
