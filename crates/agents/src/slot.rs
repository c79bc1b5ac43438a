//! What is known of one thread: its process, and who may touch it when.

use crate::child;
use crate::connection::{self, Connection};
use crate::live::Live;
use crate::processes::Proc;
use crate::setup::{Provider, Setup};
use agent_client_protocol::Agent;
use agent_client_protocol::v1::ConnectionTo;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::ports::TurnJob;
use tokio::sync::{OnceCell, oneshot, watch};
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
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, running: Option<Arc<Running>>) -> Option<Arc<Running>> {
        std::mem::replace(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner), running)
    }
}

/// What an agent said of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Able {
    pub load: bool,
    pub resume: bool,
    /// Takes the system context apart from the prompt.
    pub system_context: bool,
}

/// A process of a thread, with its connection.
pub(crate) struct Running {
    pub provider: String,
    pub cwd: PathBuf,
    pub leader: Proc,
    pub live: Arc<Live>,
    /// The session that is open in this process.
    pub session: Mutex<Option<String>>,
    pub link: OnceCell<ConnectionTo<Agent>>,
    pub able: OnceCell<Able>,
    /// A turn has it. Still so at the next turn's start means that the last one's
    /// caller gave it up, and that the agent may be at work on it.
    pub occupied: AtomicBool,
    coming: Mutex<Option<oneshot::Receiver<ConnectionTo<Agent>>>>,
    connection: Connection,
    kill: CancellationToken,
}

impl Running {
    /// Starts the process. Nothing here waits, so that a turn which is given up
    /// leaves no process that the slot does not know of.
    pub(crate) fn start(setup: &Setup, provider: &Provider, job: &TurnJob) -> Result<Running, String> {
        let child = child::start(setup, provider, &job.thread, &job.cwd)?;
        let live = Arc::new(Live::new());
        let (leader, kill) = (child.leader.clone(), child.kill.clone());
        let (connection, coming) = connection::open(child, Arc::clone(&live), setup.mark.clone(), job.thread.clone());
        Ok(Running {
            provider: job.provider.clone(),
            cwd: job.cwd.clone(),
            leader,
            live,
            session: Mutex::new(None),
            link: OnceCell::new(),
            able: OnceCell::new(),
            occupied: AtomicBool::new(false),
            coming: Mutex::new(Some(coming)),
            connection,
            kill,
        })
    }

    /// It can take another turn of this kind.
    pub(crate) fn fits(&self, provider: &str, cwd: &Path) -> bool {
        self.provider == provider
            && self.cwd == cwd
            && !self.occupied.load(Ordering::Relaxed)
            && self.connection.dead.borrow().is_none()
    }

    /// The link, once the connection is up. `None` when it never comes up.
    pub(crate) async fn link(&self) -> Option<ConnectionTo<Agent>> {
        let come = || async {
            let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner).take();
            coming.ok_or(())?.await.map_err(drop)
        };
        self.link.get_or_try_init(come).await.ok().cloned()
    }

    pub(crate) fn open_session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn opened(&self, session: &str) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.to_owned());
    }

    /// Completes when the connection has ended, with the words for it.
    pub(crate) async fn died(&self) -> String {
        let mut dead = self.connection.dead.clone();
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
            tokio::time::sleep(limit - quiet).await;
        }
    }

    /// Closes the agent's input.
    pub(crate) fn close(&self) {
        self.connection.close.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.connection.close.cancel();
        self.kill.cancel();
    }
}

/// All threads that ever had a process or a turn in this run.
#[derive(Default)]
pub(crate) struct Slots(Mutex<std::collections::BTreeMap<ThreadId, Arc<Slot>>>);

impl Slots {
    pub(crate) fn of(&self, thread: &ThreadId) -> Arc<Slot> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(thread.clone()).or_default())
    }

    pub(crate) fn threads(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}
