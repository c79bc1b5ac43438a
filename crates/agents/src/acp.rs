//! Turns of agents over the Agent Client Protocol, one process per thread.

use crate::processes;
use crate::setup::Setup;
use crate::slot::{Able, Running, Slot, Slots};
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::{ConnectionTo, schema};
use agent_client_protocol::{Agent, UntypedMessage};
use schema::{
    CancelNotification, HttpHeader, Implementation, InitializeRequest, LoadSessionRequest, McpServer, McpServerHttp,
    NewSessionRequest, ResumeSessionRequest,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Agents, Soon, TurnEnd, TurnJob, TurnSink};

/// An agent that is asked to cancel has so long to write down where it stands,
/// before its processes are told to end.
const LAST_WORD: Duration = Duration::from_millis(100);

/// Agents as child processes that speak the Agent Client Protocol.
///
/// A thread's process stays warm between turns. All of its work runs in tasks of
/// the tokio runtime that calls it.
pub struct AcpAgents {
    setup: Setup,
    slots: Slots,
}

/// The process is of no more use.
struct Broken(String);

impl AcpAgents {
    pub fn new(setup: Setup) -> AcpAgents {
        AcpAgents { setup, slots: Slots::default() }
    }

    /// Stops every thread at once, within 5 seconds: for the daemon's end.
    pub async fn stop_all(&self) {
        let threads = self.slots.threads();
        futures::future::join_all(threads.iter().map(|thread| self.end_thread(thread))).await;
    }

    async fn one_turn(&self, job: TurnJob, sink: Arc<dyn TurnSink>) -> TurnEnd {
        let slot = self.slots.of(&job.thread);
        let mut stops = slot.stops.subscribe();
        // While a stop still ends processes by the thread's name, a new one would be ended with them.
        let seen = stops.wait_for(|s| s.done >= s.begun).await.map(|s| s.begun).unwrap_or_default();
        let ended = tokio::select! {
            biased;
            _ = stops.wait_for(|s| s.begun != seen) => None,
            end = self.gated(&slot, &job, sink) => Some(end),
        };
        match ended {
            Some(end) => end,
            None => {
                let _ = stops.wait_for(|s| s.done >= s.begun).await;
                TurnEnd::Cancelled
            }
        }
    }

    async fn gated(&self, slot: &Slot, job: &TurnJob, sink: Arc<dyn TurnSink>) -> TurnEnd {
        let _gate = slot.gate.lock().await;
        let running = match self.process(slot, job).await {
            Ok(running) => running,
            Err(says) => return TurnEnd::Failed { says },
        };
        running.live.touch();
        running.occupied.store(true, Ordering::Relaxed);
        let end = tokio::select! {
            biased;
            end = self.talk(&running, job, sink) => end,
            why = running.died() => Err(Broken(why)),
            () = running.silent(self.setup.silence) => {
                let seconds = self.setup.silence.as_secs();
                Err(Broken(format!("the agent showed no sign of life for {seconds} seconds")))
            }
        };
        running.live.over();
        running.occupied.store(false, Ordering::Relaxed);
        match end {
            Ok(end) => end,
            Err(Broken(says)) => {
                // What is left of it would work on behind the next process's back.
                self.end_processes(slot, &job.thread).await;
                TurnEnd::Failed { says }
            }
        }
    }

    /// The thread's process, started anew where it is dead or of another kind.
    async fn process(&self, slot: &Slot, job: &TurnJob) -> Result<Arc<Running>, String> {
        if let Some(running) = slot.running() {
            if running.fits(&job.provider, &job.cwd) {
                return Ok(running);
            }
            self.end_processes(slot, &job.thread).await;
        }
        let provider = self.setup.providers.get(&job.provider);
        let provider = provider.ok_or_else(|| format!("no agent is set up for `{}`", job.provider))?;
        let running = Arc::new(Running::start(&self.setup, provider, job)?);
        slot.put(Some(Arc::clone(&running)));
        Ok(running)
    }

    /// One prompt and its answer.
    async fn talk(&self, running: &Running, job: &TurnJob, sink: Arc<dyn TurnSink>) -> Result<TurnEnd, Broken> {
        let Some(link) = running.link().await else { return Err(Broken(running.died().await)) };
        let able = match running.able.get() {
            Some(able) => *able,
            None => {
                let able = self.initialize(running, &link).await?;
                *running.able.get_or_init(|| async move { able }).await
            }
        };
        let session = self.session(running, &link, able, job).await?;
        running.live.begin(&job.thread, &job.turn, &session, sink);
        running.live.touch();
        // Sent as plain JSON, since the answer's count of tokens is not yet in the protocol's types.
        let ask = UntypedMessage::new("session/prompt", prompt(&session, able, job));
        let ask = ask.map_err(|e| Broken(format!("the prompt could not be written: {e}")))?;
        match link.send_request(ask).block_task().await {
            Ok(answer) => {
                running.live.answered(&answer);
                Ok(ending(&answer))
            }
            Err(error) if is_lost(&error) => Err(Broken(running.died().await)),
            // The agent's own error, such as its provider's: it may do better next time.
            Err(error) => Ok(TurnEnd::Failed { says: words(&error) }),
        }
    }

    async fn initialize(&self, running: &Running, link: &ConnectionTo<Agent>) -> Result<Able, Broken> {
        let ask = InitializeRequest::new(ProtocolVersion::V1)
            .client_info(Implementation::new("stewards", env!("CARGO_PKG_VERSION")));
        let answer = match link.send_request(ask).block_task().await {
            Ok(answer) => answer,
            Err(error) => return Err(lost(running, "initialize", error).await),
        };
        if answer.protocol_version != ProtocolVersion::V1 {
            return Err(Broken("the agent does not speak version 1 of the protocol".to_owned()));
        }
        let capabilities = answer.agent_capabilities;
        let announced = |meta: &Option<schema::Meta>| {
            meta.as_ref().is_some_and(|m| {
                m.get("stewards").and_then(|s| s.get("systemContext")).and_then(Value::as_bool) == Some(true)
            })
        };
        Ok(Able {
            load: capabilities.load_session,
            resume: capabilities.session_capabilities.resume.is_some(),
            system_context: announced(&capabilities.meta) || announced(&answer.meta),
        })
    }

    /// The session to prompt: the one that is open, the one that is to be resumed,
    /// or a new one.
    async fn session(
        &self,
        running: &Running,
        link: &ConnectionTo<Agent>,
        able: Able,
        job: &TurnJob,
    ) -> Result<String, Broken> {
        if job.session.is_some() && running.open_session() == job.session {
            return Ok(job.session.clone().unwrap_or_default());
        }
        let endpoint = (self.setup.mcp)(&job.thread);
        // Sent whether or not the agent announces HTTP: without our tools it is of
        // no use, and its refusal says so.
        let bearer = HttpHeader::new("Authorization", format!("Bearer {}", endpoint.token));
        let tools = vec![McpServer::Http(McpServerHttp::new("stewards", endpoint.url).headers(vec![bearer]))];
        if let Some(old) = &job.session {
            // Resume comes first, since load repeats the whole history.
            let taken = if able.resume {
                let ask = ResumeSessionRequest::new(old.clone(), job.cwd.clone()).mcp_servers(tools.clone());
                link.send_request(ask).block_task().await.map(drop)
            } else if able.load {
                let ask = LoadSessionRequest::new(old.clone(), job.cwd.clone()).mcp_servers(tools.clone());
                link.send_request(ask).block_task().await.map(drop)
            } else {
                Err(agent_client_protocol::Error::method_not_found())
            };
            match taken {
                Ok(()) => {
                    running.opened(old);
                    return Ok(old.clone());
                }
                Err(error) if is_lost(&error) => return Err(Broken(running.died().await)),
                Err(error) => {
                    tracing::info!(thread = %job.thread, %error, "a session was not resumed; a new one is made")
                }
            }
        }
        let ask = NewSessionRequest::new(job.cwd.clone()).mcp_servers(tools);
        match link.send_request(ask).block_task().await {
            Ok(answer) => {
                let session = answer.session_id.to_string();
                running.opened(&session);
                Ok(session)
            }
            Err(error) => Err(lost(running, "session/new", error).await),
        }
    }

    async fn end_thread(&self, thread: &ThreadId) {
        let slot = self.slots.of(thread);
        if let Some(running) = slot.running().filter(|r| r.live.busy())
            && let (Some(link), Some(session)) = (running.link.get(), running.open_session())
        {
            let _ = link.send_notification(CancelNotification::new(session));
            tokio::time::sleep(LAST_WORD).await;
        }
        // A live turn gives up the gate as soon as it sees this.
        slot.stops.send_modify(|s| s.begun += 1);
        let done = Done(&slot);
        let _gate = slot.gate.lock().await;
        self.end_processes(&slot, thread).await;
        drop(done);
    }

    /// Ends all that the thread runs. The gate must be held.
    async fn end_processes(&self, slot: &Slot, thread: &ThreadId) {
        let running = slot.running();
        let leader = running.as_ref().map(|r| r.leader.clone());
        if let Some(running) = &running {
            running.live.over();
            running.close();
        }
        let (mark, id) = (self.setup.mark.clone(), thread.clone());
        processes::end(move || processes::of_thread(&mark, id.as_str(), leader.as_ref())).await;
        // Only now, so that an end which is itself given up half-way is made good by the next one.
        slot.put(None);
    }
}

/// Counts a stop as done, also when its caller gave it up.
struct Done<'a>(&'a Slot);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.stops.send_modify(|s| s.done += 1);
    }
}

impl Agents for AcpAgents {
    fn turn<'a>(&'a self, job: TurnJob, sink: Arc<dyn TurnSink>) -> Soon<'a, TurnEnd> {
        Box::pin(self.one_turn(job, sink))
    }

    fn stop<'a>(&'a self, thread: &'a ThreadId) -> Soon<'a, ()> {
        Box::pin(self.end_thread(thread))
    }

    fn end_strays(&self) -> Soon<'_, usize> {
        let mark = self.setup.mark.clone();
        Box::pin(processes::end(move || processes::of_any_thread(&mark)))
    }
}

fn prompt(session: &str, able: Able, job: &TurnJob) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let mut blocks = Vec::new();
    let mut ask = json!({"sessionId": session});
    if !job.context.is_empty() {
        if able.system_context {
            ask["_meta"] = json!({"stewards": {"systemContext": job.context}});
        } else {
            blocks.push(text(&format!("<system-context>\n{}\n</system-context>", job.context)));
        }
    }
    blocks.push(text(&job.prompt));
    ask["prompt"] = Value::Array(blocks);
    ask
}

fn ending(answer: &Value) -> TurnEnd {
    let failed = |says: &str| TurnEnd::Failed { says: says.to_owned() };
    match answer["stopReason"].as_str() {
        Some("end_turn") => TurnEnd::Finished,
        Some("cancelled") => TurnEnd::Cancelled,
        Some("refusal") => failed("the agent refused to go on"),
        Some("max_tokens") => failed("the agent reached its limit of tokens"),
        Some("max_turn_requests") => failed("the agent reached its limit of requests in one turn"),
        Some(other) => TurnEnd::Failed { says: format!("the agent stopped: {}", clip(other)) },
        None => failed("the agent's last answer does not say why it stopped"),
    }
}

fn is_lost(error: &agent_client_protocol::Error) -> bool {
    agent_client_protocol::is_incoming_transport_closed(error) || agent_client_protocol::is_connection_terminated(error)
}

async fn lost(running: &Running, what: &str, error: agent_client_protocol::Error) -> Broken {
    if is_lost(&error) {
        Broken(running.died().await)
    } else {
        Broken(format!("the agent does not take {what}: {}", words(&error)))
    }
}

fn words(error: &agent_client_protocol::Error) -> String {
    let detail = match &error.data {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    if detail.is_empty() || error.message.contains(&detail) {
        clip(&error.message)
    } else {
        clip(&format!("{}: {detail}", error.message))
    }
}

/// An agent's words, short enough to be shown.
fn clip(text: &str) -> String {
    text.chars().take(1_000).collect()
}
