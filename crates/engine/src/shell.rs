//! The shell around the heart: a thread that owns it, a clock, and tasks that
//! carry out effects.

use crate::heart::{Heart, Started, Tick};
use crate::perform::{Ports, perform};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use stewards_core::entity::PullKey;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::machine::{Answer, Event, Reply, Settings, World};
use stewards_core::moment::Moment;
use stewards_core::ports::{AgentInfo, Quota, TicketLine, TicketSearch, TurnEvent, TurnSink};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::snapshot::{Pull, Ticket};
use stewards_core::tickets::{TicketAsk, TicketWrite};
use stewards_core::trouble::Trouble;
use stewards_store::{Store, StoreError};
use tokio::sync::{oneshot, watch};

/// So many commands at most share one commit.
const GROUP: usize = 256;
/// Lines of a transcript may be written so late, so that many share a commit; never
/// later than the event that follows them.
const LAG: Duration = Duration::from_millis(100);
/// More bytes than this are written at once.
const BYTES: usize = 1_000_000;
/// With more bytes than this on their way to the writer, an agent is read no further
/// until some are written.
const BACKLOG: usize = 64_000_000;
/// At most so long: a writer that does not write at all is another trouble.
const HELD_UP: Duration = Duration::from_secs(10);
/// The heart is never left alone for longer.
const REST: Duration = Duration::from_secs(60);

/// A line for a transcript; `body` is JSON.
#[derive(Clone, Debug)]
pub struct Line {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub at: i64,
    pub body: String,
}

/// The world after a commit.
#[derive(Clone, Debug)]
pub struct Published {
    pub world: World,
    /// The newest event's number.
    pub no: u64,
    /// When it was committed, as decisions see time.
    pub now: Moment,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the engine's thread could not be started: {0}")]
    Thread(std::io::Error),
}

enum Command {
    Tell(Box<Event>, Option<oneshot::Sender<Result<Reply, Refusal>>>),
    Transcribe(Line),
    Close,
}

/// An event, and who waits for what came of it.
type Waiting = (Event, Option<oneshot::Sender<Result<Reply, Refusal>>>);

/// A handle on the running engine.
#[derive(Clone)]
pub struct Engine {
    commands: Sender<Command>,
    published: watch::Receiver<Arc<Published>>,
    ended: watch::Receiver<Option<String>>,
    ports: Ports,
}

impl Engine {
    /// Begins a run: ends what an earlier one left running, settles the turns
    /// that it cut, and goes on from there.
    pub async fn start(store: Store, settings: Settings, ports: Ports) -> Result<Engine, EngineError> {
        let began = Instant::now();
        let (heart, recovered) = Heart::open(store, settings, tick(began))?;
        // Two agents in one working tree would be worse than a late start.
        let strays = ports.agents.end_strays().await;
        if strays > 0 {
            tracing::info!(strays, "ended processes of an earlier run");
        }
        ports.repo.unlock().await;
        let (commands, inbox) = channel();
        let first = published_now(&heart, began);
        let (publish, published) = watch::channel(Arc::new(first));
        let (end, ended) = watch::channel(None);
        let runtime = tokio::runtime::Handle::current();
        let kept = ports.clone();
        let mut writer = Writer {
            heart,
            inbox,
            commands: commands.clone(),
            publish,
            ports,
            runtime,
            began,
            lines: Vec::new(),
            bytes: 0,
            backlog: Arc::default(),
        };
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                let outcome = writer.run(recovered.cut, recovered.probes);
                let _ = end.send(Some(match outcome {
                    Ok(()) => String::new(),
                    Err(e) => e.to_string(),
                }));
            })
            .map_err(EngineError::Thread)?;
        Ok(Engine { commands, published, ended, ports: kept })
    }

    /// Tells an event and waits until it and what follows from it is committed.
    pub async fn tell(&self, event: Event) -> Result<Reply, Refusal> {
        let (answer, wait) = oneshot::channel();
        let gone = || Refusal::new(Exit::Unreachable, "closing", "the daemon is shutting down", "start it again");
        self.commands.send(Command::Tell(Box::new(event), Some(answer))).map_err(|_| gone())?;
        wait.await.map_err(|_| gone())?
    }

    /// Reads a pull now. An ask, not an effect: it leaves no line in the journal.
    pub async fn read_pull(&self, key: &PullKey) -> Result<Pull, Trouble> {
        self.ports.pulls.pull(key).await
    }

    /// Reads a ticket now, by its key or id. An ask, not an effect.
    pub async fn read_ticket(&self, key: &str) -> Result<Ticket, Trouble> {
        self.ports.tickets.ticket(key).await
    }

    /// Looks for tickets. An ask, not an effect.
    pub async fn search_tickets(&self, ask: &TicketSearch) -> Result<Vec<TicketLine>, Trouble> {
        self.ports.tickets.search(ask).await
    }

    /// Asks where tickets live a question that changes nothing. An ask, not an effect.
    pub async fn query_tickets(&self, query: &str, variables: &Value) -> Result<Value, Trouble> {
        self.ports.tickets.query(query, variables).await
    }

    /// Finds what the names of a change mean. An ask, not an effect.
    pub async fn resolve_ticket(&self, ask: &TicketAsk, id: &str) -> Result<TicketWrite, Trouble> {
        self.ports.tickets.resolve(ask, id).await
    }

    /// How the quotas of the services stand, as far as they have said.
    pub fn quotas(&self) -> Vec<Quota> {
        let mut all = self.ports.tickets.quotas();
        all.extend(self.ports.pulls.quotas());
        all
    }

    /// Bytes on disk below each of these. An ask, not an effect.
    pub async fn disk(&self, paths: Vec<PathBuf>) -> BTreeMap<PathBuf, u64> {
        self.ports.repo.disk(paths).await
    }

    /// The agents that are set up or known, as they are installed now.
    pub async fn agents(&self) -> Vec<AgentInfo> {
        self.ports.agents.known().await
    }

    /// The world as it was committed last.
    pub fn now(&self) -> Arc<Published> {
        self.published.borrow().clone()
    }

    /// Is told of every commit.
    pub fn watch(&self) -> watch::Receiver<Arc<Published>> {
        self.published.clone()
    }

    /// Waits until the world is as asked, for at most `patience`; says whether it is.
    pub async fn until(&self, patience: Duration, mut so: impl FnMut(&World) -> bool) -> bool {
        let mut watch = self.published.clone();
        let waited = tokio::time::timeout(patience, async { watch.wait_for(|p| so(&p.world)).await.is_ok() });
        waited.await.unwrap_or(false)
    }

    /// Ends the engine; what is in the air is taken up by the next run.
    pub async fn close(&self) {
        let _ = self.commands.send(Command::Close);
        let _ = self.ended().await;
    }

    /// Waits for the end: empty when closed, otherwise what went wrong.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(said) => said.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }
}

fn published_now(heart: &Heart, began: Instant) -> Published {
    let (world, no, tick) = (heart.world().clone(), heart.no(), tick(began));
    let now = Moment { wall: tick.wall, elapsed: tick.elapsed, run: world.host.run, no };
    Published { world, no, now }
}

/// Whole milliseconds, as they are stored.
fn tick(began: Instant) -> Tick {
    let wall = Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap_or_default();
    Tick { wall, elapsed: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX) }
}

struct Writer {
    heart: Heart,
    inbox: Receiver<Command>,
    commands: Sender<Command>,
    publish: watch::Sender<Arc<Published>>,
    ports: Ports,
    runtime: tokio::runtime::Handle,
    began: Instant,
    lines: Vec<Line>,
    /// In `lines`.
    bytes: usize,
    /// In `lines`, and in the inbox.
    backlog: Arc<AtomicUsize>,
}

impl Writer {
    fn run(&mut self, cut: Vec<Event>, probes: Vec<Started>) -> Result<(), StoreError> {
        for started in probes {
            self.start(started);
        }
        let mut shrunk = Instant::now();
        let mut waiting: Vec<Waiting> = cut.into_iter().map(|e| (e, None)).collect();
        loop {
            let (events, answers): (Vec<Event>, Vec<_>) = std::mem::take(&mut waiting).into_iter().unzip();
            let lines = self.lines();
            let step = self.heart.step_with(tick(self.began), &events, &lines)?;
            self.publish.send_replace(Arc::new(published_now(&self.heart, self.began)));
            for (reply, answer) in step.replies.into_iter().zip(answers) {
                if let Some(answer) = answer {
                    let _ = answer.send(reply);
                }
            }
            for started in step.effects {
                self.start(started);
            }
            let rest =
                self.heart.due(tick(self.began))?.map_or(REST, |ms| Duration::from_millis(ms.unsigned_abs()).min(REST));
            if shrunk.elapsed() >= REST {
                shrunk = Instant::now();
                let bytes = self.heart.shrink()?;
                if bytes > 0 {
                    tracing::info!(bytes, "gave room back to the disk");
                }
            }
            if !self.gather(rest, &mut waiting)? {
                // What was said up to here is kept, though its turn is cut.
                let lines = self.lines();
                return self.heart.transcribe(&lines);
            }
        }
    }

    /// Takes what was gathered.
    fn lines(&mut self) -> Vec<Line> {
        self.backlog.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        std::mem::take(&mut self.lines)
    }

    /// Waits for events, or until `rest` is over; false when it is all over. Lines
    /// of transcripts that come meanwhile are written together, a little late.
    fn gather(&mut self, rest: Duration, waiting: &mut Vec<Waiting>) -> Result<bool, StoreError> {
        let until = Instant::now() + rest;
        let mut write_by: Option<Instant> = None;
        loop {
            let next = write_by.map_or(until, |by| by.min(until));
            match self.inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(command) => {
                    if !self.sort(command, waiting) {
                        return Ok(false);
                    }
                    while waiting.len() + self.lines.len() < GROUP
                        && let Ok(more) = self.inbox.try_recv()
                    {
                        if !self.sort(more, waiting) {
                            return Ok(false);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
            let now = Instant::now();
            if !waiting.is_empty() || now >= until {
                return Ok(true);
            }
            if self.lines.is_empty() {
                continue;
            }
            let by = *write_by.get_or_insert(now + LAG);
            if now >= by || self.bytes > BYTES {
                let lines = self.lines();
                self.heart.transcribe(&lines)?;
                write_by = None;
            }
        }
    }

    fn sort(&mut self, command: Command, waiting: &mut Vec<Waiting>) -> bool {
        match command {
            Command::Close => return false,
            Command::Tell(event, answer) => waiting.push((*event, answer)),
            Command::Transcribe(line) => {
                self.bytes += line.body.len();
                self.lines.push(line);
            }
        }
        true
    }

    /// Carries an effect out in a task of its own; its answer is an event.
    fn start(&self, started: Started) {
        let ports = self.ports.clone();
        let (commands, backlog) = (self.commands.clone(), Arc::clone(&self.backlog));
        self.runtime.spawn(async move {
            let sink = Arc::new(Sink { commands: commands.clone(), backlog });
            let answer = perform(&ports, &started, sink).await;
            let failed = match &answer {
                Answer::TurnEnded { .. }
                | Answer::Steered(_)
                | Answer::Replied(_)
                | Answer::Stopped
                | Answer::Released => 0,
                _ => 1,
            };
            let event =
                Event::Answered { id: started.id, effect: started.effect, answer, attempts: started.attempts + failed };
            let _ = commands.send(Command::Tell(Box::new(event), None));
        });
    }
}

/// What an agent does: its first word and what it asks are events, the rest goes to
/// the transcript.
struct Sink {
    commands: Sender<Command>,
    /// Bytes of lines that are not written yet, of all agents.
    backlog: Arc<AtomicUsize>,
}

impl TurnSink for Sink {
    fn take(&self, thread: &ThreadId, turn: &TurnId, event: TurnEvent) {
        let (thread, turn) = (thread.clone(), turn.clone());
        let command = match event {
            TurnEvent::Confirmed { session, can } => {
                Command::Tell(Box::new(Event::TurnConfirmed { thread, turn, session, can }), None)
            }
            TurnEvent::Asks(ask) => Command::Tell(Box::new(Event::AgentAsked { thread, turn, ask }), None),
            TurnEvent::Unasks { key } => Command::Tell(Box::new(Event::AgentUnasked { thread, key }), None),
            // Told with the turn's end.
            TurnEvent::Context(_) => return,
            other => {
                let body = serde_json::to_string(&other).unwrap_or_default();
                let began = Instant::now();
                while self.backlog.load(Ordering::Relaxed) > BACKLOG && began.elapsed() < HELD_UP {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.backlog.fetch_add(body.len(), Ordering::Relaxed);
                Command::Transcribe(Line { thread, turn, at: Timestamp::now().as_millisecond(), body })
            }
        };
        let _ = self.commands.send(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_faster_than_the_disk_is_held_up_and_loses_nothing() {
        let (commands, inbox) = channel();
        let backlog = Arc::new(AtomicUsize::new(BACKLOG + 1));
        let sink = Sink { commands, backlog: Arc::clone(&backlog) };
        let (thread, turn) = (ThreadId("thr_1".into()), TurnId("turn_1".into()));
        std::thread::scope(|scope| {
            scope.spawn(|| sink.take(&thread, &turn, TurnEvent::Text { text: "late".into() }));
            assert!(inbox.recv_timeout(Duration::from_millis(50)).is_err());
            backlog.store(0, Ordering::Relaxed);
            let Ok(Command::Transcribe(line)) = inbox.recv() else { panic!("it is a line") };
            assert_eq!(backlog.load(Ordering::Relaxed), line.body.len());
        });
    }
}
