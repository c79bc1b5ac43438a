//! Turns over the Agent Client Protocol.

mod connection;
mod session;
mod updates;

pub(crate) use connection::{DETAIL, detail};

use crate::child::Child;
use crate::live::{Live, clip, locked};
use crate::setup::McpEndpoint;
use crate::wire::{self, Broken, Wire};
use agent_client_protocol::v1::{ConnectionTo, schema};
use agent_client_protocol::{Agent, UntypedMessage};
use schema::CancelNotification;
use serde_json::{Value, json};
use session::Session;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Steered, TurnEnd, TurnJob, TurnSink};
use tokio::sync::{OnceCell, oneshot, watch};
use updates::Updates;

/// A turn that a late message began is over when the agent says so, or says
/// nothing for so long; and what becomes of a message is waited for no longer.
const QUIET: Duration = Duration::from_secs(5);

/// What an agent said of itself.
#[derive(Clone, Copy, Debug)]
struct Able {
    load: bool,
    resume: bool,
    fork: bool,
    /// Takes the system context apart from the prompt.
    system_context: bool,
}

/// An agent that speaks the protocol, at the other end of a process.
pub(crate) struct Acp {
    live: Arc<Live>,
    updates: Arc<Updates>,
    link: OnceCell<ConnectionTo<Agent>>,
    coming: Mutex<Option<oneshot::Receiver<ConnectionTo<Agent>>>>,
    able: OnceCell<Able>,
    session: Mutex<Option<Session>>,
    steering: watch::Sender<Handing>,
}

/// Messages on their way into the live turn.
#[derive(Clone, Copy, Default)]
struct Handing {
    count: usize,
    /// One of them began a turn of its own.
    late: bool,
    /// What becomes of them is not waited for any longer.
    given_up: bool,
}

/// Counts a message as handed over, also when its caller gave it up.
struct Handed<'a>(&'a watch::Sender<Handing>);

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|s| s.count = s.count.saturating_sub(1));
    }
}

impl Acp {
    pub(crate) fn open(child: Child, live: &Arc<Live>, mark: String, thread: ThreadId) -> (Acp, Wire) {
        let (up, coming) = oneshot::channel();
        let updates = Arc::new(Updates::default());
        let (heard, told) = (Arc::clone(live), Arc::clone(&updates));
        let wire =
            wire::open(child, mark, thread, move |stdin, stdout| connection::converse(stdin, stdout, heard, told, up));
        let acp = Acp {
            live: Arc::clone(live),
            updates,
            link: OnceCell::new(),
            coming: Mutex::new(Some(coming)),
            able: OnceCell::new(),
            session: Mutex::new(None),
            steering: watch::Sender::default(),
        };
        (acp, wire)
    }

    /// The link, once the connection is up.
    async fn link(&self) -> Result<ConnectionTo<Agent>, Broken> {
        let come = || async {
            let coming = locked(&self.coming).take();
            coming.ok_or(())?.await.map_err(drop)
        };
        // Whoever waits for the process's death beside this has the better words.
        self.link.get_or_try_init(come).await.cloned().map_err(|()| Broken("the connection never came up".into()))
    }

    /// One prompt and its answer.
    pub(crate) async fn talk(
        &self,
        job: &TurnJob,
        endpoint: McpEndpoint,
        sink: Arc<dyn TurnSink>,
        stderr: impl Fn() -> Vec<String>,
    ) -> Result<TurnEnd, Broken> {
        let link = self.link().await?;
        let able = *self.able.get_or_try_init(|| self.initialize(&link)).await?;
        let session = self.session(&link, able, job, endpoint).await?;
        if let Err(says) = self.settle(&link, job).await? {
            return Ok(TurnEnd::Failed { says });
        }
        self.updates.begin();
        self.live.begin(&job.thread, &job.turn, &session, sink);
        // Sent as plain JSON, since the answer's count of tokens is not yet in the protocol's types.
        let answer = match send(&link, "session/prompt", prompt(&session, able, job)).await {
            Ok(answer) => answer,
            Err(error) if is_lost(&error) => return Err(Broken("the connection was lost".into())),
            // The agent's own error, such as its provider's: it may do better next time.
            Err(error) => return Ok(TurnEnd::Failed { says: words(&error) }),
        };
        self.last_messages().await;
        Ok(self.updates.answered(&self.live, &answer, job.compacts, stderr()))
    }

    /// What is being handed over comes to its end before the turn does. A message
    /// that came too late for this prompt may have begun a turn that no answer ends.
    async fn last_messages(&self) {
        let mut steering = self.steering.subscribe();
        if tokio::time::timeout(QUIET, steering.wait_for(|s| s.count == 0)).await.is_err() {
            self.steering.send_modify(|s| s.given_up = true);
            // They hear of it before the turn is over.
            let _ = tokio::time::timeout(Duration::from_secs(1), steering.wait_for(|s| s.count == 0)).await;
        }
        let late = self.steering.borrow().late;
        self.steering.send_modify(|s| (s.late, s.given_up) = (false, false));
        while late && !self.updates.idle() && self.live.last_sign().elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn steer(&self, text: &str) -> Steered {
        let (Some(link), Some(session)) = (self.link.get(), self.live.session()) else { return Steered::NotTaken };
        self.steering.send_modify(|s| s.count += 1);
        let _handed = Handed(&self.steering);
        let mut steering = self.steering.subscribe();
        let ask = json!({
            "sessionId": session,
            "prompt": [{"type": "text", "text": text}],
            // Where nothing is at work any more, the message stays with us.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        });
        let answer = tokio::select! {
            biased;
            answer = send(link, "_session/steering", ask) => answer,
            _ = steering.wait_for(|s| s.given_up) => return Steered::Unknown,
        };
        let (how, late) = match answer.as_ref().map(|a| a["outcome"].as_str().unwrap_or_default()) {
            Ok("injected" | "queued") => (Steered::Taken, false),
            Ok("startedNewTurn") => (Steered::Taken, true),
            Err(error) if is_lost(error) => (Steered::Unknown, false),
            _ => (Steered::NotTaken, false),
        };
        self.steering.send_modify(|s| s.late |= late);
        how
    }

    /// Asks the agent to break off what it does.
    pub(crate) fn cancel(&self) {
        if let (Some(link), Some(session)) = (self.link.get(), self.live.session()) {
            let _ = link.send_notification(CancelNotification::new(session));
        }
    }

    async fn initialize(&self, link: &ConnectionTo<Agent>) -> Result<Able, Broken> {
        let info = json!({"name": "stewards", "version": env!("CARGO_PKG_VERSION")});
        let ask = json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info});
        let answer = send(link, "initialize", ask).await.map_err(|e| refused("initialize", &e))?;
        if answer["protocolVersion"] != 1 {
            return Err(Broken("the agent does not speak version 1 of the protocol".to_owned()));
        }
        let capabilities = &answer["agentCapabilities"];
        let announced = |what: &dyn Fn(&Value) -> bool| what(&answer["_meta"]) || what(&capabilities["_meta"]);
        let fork = capabilities["sessionCapabilities"]["fork"].is_object();
        self.updates.announced(announced(&|m| m["steering"]["supported"] == true), fork);
        Ok(Able {
            load: capabilities["loadSession"] == true,
            resume: capabilities["sessionCapabilities"]["resume"].is_object(),
            fork,
            system_context: announced(&|m| m["stewards"]["systemContext"] == true),
        })
    }
}

fn prompt(session: &str, able: Able, job: &TurnJob) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    if job.compacts {
        return json!({"sessionId": session, "prompt": [text("/compact")]});
    }
    let mut blocks = Vec::new();
    let mut ask = json!({"sessionId": session});
    if !job.context.is_empty() {
        if able.system_context {
            ask["_meta"] = json!({"stewards": {"systemContext": job.context}});
        } else {
            // In each prompt anew, so that no compaction loses it. The system prompt of the
            // protocol will not do: agents go on with the first that a session was given.
            blocks.push(text(&format!("<system-context>\n{}\n</system-context>", job.context)));
        }
    }
    blocks.push(text(&job.prompt));
    ask["prompt"] = Value::Array(blocks);
    ask
}

async fn send(link: &ConnectionTo<Agent>, method: &str, params: Value) -> Result<Value, agent_client_protocol::Error> {
    link.send_request(UntypedMessage::new(method, params)?).block_task().await
}

fn is_lost(error: &agent_client_protocol::Error) -> bool {
    agent_client_protocol::is_incoming_transport_closed(error) || agent_client_protocol::is_connection_terminated(error)
}

fn refused(what: &str, error: &agent_client_protocol::Error) -> Broken {
    Broken(format!("the agent does not take {what}: {}", words(error)))
}

fn words(error: &agent_client_protocol::Error) -> String {
    let detail = match &error.data {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields)) if fields.get("message").is_some_and(Value::is_string) => {
            fields["message"].as_str().unwrap_or_default().to_owned()
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    if detail.is_empty() || error.message.contains(&detail) {
        clip(&error.message)
    } else {
        clip(&format!("{}: {detail}", error.message))
    }
}
