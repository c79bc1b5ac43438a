//! What is known of one thread: its process, and who may touch it when.

use crate::acp::Acp;
use crate::child;
use crate::claude::{self, Claude};
use crate::live::{Live, locked};
use crate::processes::Proc;
use crate::setup::{Protocol, Provider, Setup};
use crate::wire::{Broken, Wire};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::ports::{Steered, TurnEnd, TurnJob, TurnSink};
use stewards_core::threads::{ModelName, Permission};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the thread was stopped. A turn that saw another number of begun stops
/// at its start is cancelled; a turn does not start before all are done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stops {
    pub begun: u64,
    pub done: u64,
}

/// One per thread, for as long as the daemon runs.
#[derive(Default)]
pub(crate) struct Slot {
    /// Held by a turn and, while it ends processes, by a stop.
    pub gate: tokio::sync::Mutex<()>,
    pub stops: watch::Sender<Stops>,
    running: Mutex<Option<Arc<Running>>>,
}

impl Slot {
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        locked(&self.running).clone()
    }

    pub(crate) fn put(&self, running: Option<Arc<Running>>) {
        *locked(&self.running) = running;
    }
}

/// The two ways to speak with an agent.
enum Speech {
    Acp(Box<Acp>),
    Claude(Claude),
}

/// What a process was started for. Claude Code takes model, level, mode and system
/// context only as it starts; the other protocol sets them in between.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    provider: String,
    cwd: PathBuf,
    model: Option<(ModelName, Permission)>,
    context: Option<String>,
}

impl Fit {
    fn of(protocol: Protocol, job: &TurnJob) -> Fit {
        let at_start = protocol == Protocol::StreamJson;
        Fit {
            provider: job.model.provider.clone(),
            cwd: job.cwd.clone(),
            model: at_start.then(|| (job.model.clone(), job.permission)),
            context: at_start.then(|| job.context.clone()),
        }
    }
}

/// A process of a thread, with its conversation.
pub(crate) struct Running {
    fit: Fit,
    pub protocol: Protocol,
    pub leader: Proc,
    pub live: Arc<Live>,
    /// A turn has it. Still so at the next turn's start means that the last one's
    /// caller gave it up, and that the agent may be at work on it.
    pub occupied: AtomicBool,
    speech: Speech,
    wire: Wire,
    kill: CancellationToken,
}

impl Running {
    /// Starts the process. Nothing here waits, so that a turn which is given up
    /// leaves no process that the slot does not know of.
    pub(crate) fn start(setup: &Setup, provider: &Provider, job: &TurnJob) -> Result<Running, String> {
        let live = Arc::new(Live::new());
        let endpoint = (setup.mcp)(&job.thread);
        let session = job.session.clone().filter(|_| !job.forks).unwrap_or_else(claude::uuid);
        let more = match provider.protocol {
            Protocol::Acp => Vec::new(),
            Protocol::StreamJson => claude::arguments(setup, job, &endpoint, &session)?,
        };
        let child = child::start(setup, provider, &more, &job.thread, &job.cwd)?;
        let (leader, kill) = (child.leader.clone(), child.kill.clone());
        let (mark, thread) = (setup.mark.clone(), job.thread.clone());
        let (speech, wire) = match provider.protocol {
            Protocol::Acp => {
                let (acp, wire) = Acp::open(child, &live, mark, thread);
                (Speech::Acp(Box::new(acp)), wire)
            }
            Protocol::StreamJson => {
                let (claude, wire) = Claude::open(child, &live, mark, thread, session);
                (Speech::Claude(claude), wire)
            }
        };
        Ok(Running {
            fit: Fit::of(provider.protocol, job),
            protocol: provider.protocol,
            leader,
            live,
            occupied: AtomicBool::new(false),
            speech,
            wire,
            kill,
        })
    }

    /// It can take this turn as it is.
    pub(crate) fn fits(&self, job: &TurnJob) -> bool {
        let mut wanted = Fit::of(self.protocol, job);
        if job.compacts {
            // Nothing is said to the agent, so its context may be the last turn's.
            wanted.context.clone_from(&self.fit.context);
        }
        self.fit == wanted && !self.occupied.load(Ordering::Relaxed) && self.wire.dead.borrow().is_none()
    }

    pub(crate) async fn talk(&self, setup: &Setup, job: &TurnJob, sink: Arc<dyn TurnSink>) -> Result<TurnEnd, Broken> {
        let place = self.wire.tail.place();
        let said = match &self.speech {
            Speech::Acp(acp) => acp.talk(job, (setup.mcp)(&job.thread), sink, || self.wire.tail.since(place)).await,
            Speech::Claude(claude) => claude.talk(job, sink).await,
        };
        match said {
            // The process's own end has the better words, where it has ended.
            Err(Broken(says)) => match tokio::time::timeout(Duration::from_secs(2), self.died()).await {
                Ok(died) => Err(Broken(died)),
                Err(_) => Err(Broken(says)),
            },
            ended => ended,
        }
    }

    pub(crate) async fn steer(&self, turn: &TurnId, text: &str) -> Steered {
        let steer = async {
            match &self.speech {
                Speech::Acp(acp) => acp.steer(text).await,
                Speech::Claude(claude) => claude.steer(text).await,
            }
        };
        // An agent that never answers must not hold the thread up for ever.
        let over = async {
            while self.live.is(turn) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            biased;
            how = steer => how,
            _ = self.died() => Steered::Unknown,
            () = over => Steered::Unknown,
        }
    }

    /// Asks the agent to break off what it does.
    pub(crate) fn cancel(&self) {
        match &self.speech {
            Speech::Acp(acp) => acp.cancel(),
            Speech::Claude(claude) => claude.cancel(),
        }
    }

    /// Completes when the conversation has ended, with the words for it.
    pub(crate) async fn died(&self) -> String {
        let mut dead = self.wire.dead.clone();
        match dead.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the agent's connection was lost".to_owned(),
        }
    }

    /// Completes when the agent has shown no sign of life for so long.
    pub(crate) async fn silent(&self, limit: Duration) {
        loop {
            let quiet = self.live.last_sign().elapsed();
            if quiet >= limit {
                return;
            }
            // Looked at again and again, since waiting for an answer is no silence.
            tokio::time::sleep((limit - quiet).min(Duration::from_secs(30))).await;
        }
    }

    /// Closes the agent's input; nobody waits for it any more.
    pub(crate) fn close(&self) {
        self.live.over();
        if let Speech::Claude(claude) = &self.speech {
            claude.lost();
        }
        self.wire.close.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.wire.close.cancel();
        self.kill.cancel();
    }
}

/// All threads that ever had a process or a turn in this run.
#[derive(Default)]
pub(crate) struct Slots(Mutex<std::collections::BTreeMap<ThreadId, Arc<Slot>>>);

impl Slots {
    pub(crate) fn of(&self, thread: &ThreadId) -> Arc<Slot> {
        Arc::clone(locked(&self.0).entry(thread.clone()).or_default())
    }

    /// Without making one.
    pub(crate) fn known(&self, thread: &ThreadId) -> Option<Arc<Slot>> {
        locked(&self.0).get(thread).cloned()
    }

    pub(crate) fn threads(&self) -> Vec<ThreadId> {
        locked(&self.0).keys().cloned().collect()
    }
}
