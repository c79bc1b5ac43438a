//! Turns of agents, one process per thread.

use crate::claude;
use crate::known::known;
use crate::processes;
use crate::setup::Setup;
use crate::slot::{Running, Slot, Slots};
use crate::wire::Broken;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::ports::{AgentInfo, Agents, Soon, Steered, TurnEnd, TurnJob, TurnSink};
use stewards_core::threads::AskReply;

/// An agent that is asked to cancel has so long to write down where it stands,
/// before its processes are told to end.
const LAST_WORD: Duration = Duration::from_millis(100);

/// Agents as child processes, each spoken to in its own protocol.
///
/// A thread's process stays warm between turns. All of its work runs in tasks of
/// the tokio runtime that calls it.
pub struct Runners {
    setup: Setup,
    slots: Slots,
}

impl Runners {
    pub fn new(setup: Setup) -> Runners {
        Runners { setup, slots: Slots::default() }
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
            end = self.gated(&slot, job, sink) => Some(end),
        };
        match ended {
            Some(end) => end,
            None => {
                let _ = stops.wait_for(|s| s.done >= s.begun).await;
                TurnEnd::Cancelled
            }
        }
    }

    async fn gated(&self, slot: &Slot, mut job: TurnJob, sink: Arc<dyn TurnSink>) -> TurnEnd {
        let _gate = slot.gate.lock().await;
        loop {
            let running = match self.process(slot, &job).await {
                Ok(running) => running,
                Err(says) => return TurnEnd::Failed { says },
            };
            match self.watched(&running, &job, Arc::clone(&sink)).await {
                Ok(end) => return end,
                Err(Broken(says)) => {
                    // What is left of it would work on behind the next process's back.
                    self.end_processes(slot, &job.thread).await;
                    if claude::forgot(&says) && job.session.is_some() && !job.forks {
                        tracing::info!(thread = %job.thread, "a session was not resumed; a new one is made");
                        job.session = None;
                        continue;
                    }
                    return TurnEnd::Failed { says };
                }
            }
        }
    }

    /// One turn, until it ends, or the process does, or nothing is heard of it.
    async fn watched(&self, running: &Running, job: &TurnJob, sink: Arc<dyn TurnSink>) -> Result<TurnEnd, Broken> {
        running.live.touch();
        running.occupied.store(true, Ordering::Relaxed);
        let end = tokio::select! {
            biased;
            end = running.talk(&self.setup, job, sink) => end,
            why = running.died() => Err(Broken(why)),
            () = running.silent(self.setup.silence) => {
                let seconds = self.setup.silence.as_secs();
                Err(Broken(format!("the agent showed no sign of life for {seconds} seconds")))
            }
        };
        running.live.over();
        running.occupied.store(false, Ordering::Relaxed);
        end
    }

    /// The thread's process, started anew where it is dead or of another kind.
    async fn process(&self, slot: &Slot, job: &TurnJob) -> Result<Arc<Running>, String> {
        if let Some(running) = slot.running() {
            if running.fits(job) {
                return Ok(running);
            }
            self.end_processes(slot, &job.thread).await;
        }
        let name = &job.model.provider;
        let provider = self.setup.providers.get(name);
        let provider = provider.ok_or_else(|| format!("no agent is set up for `{name}`"))?;
        let running = Arc::new(Running::start(&self.setup, provider, job)?);
        slot.put(Some(Arc::clone(&running)));
        Ok(running)
    }

    async fn end_thread(&self, thread: &ThreadId) {
        let slot = self.slots.of(thread);
        if let Some(running) = slot.running().filter(|r| r.live.busy()) {
            running.cancel();
            tokio::time::sleep(LAST_WORD).await;
        }
        // A live turn gives up the gate as soon as it sees this.
        slot.stops.send_modify(|s| s.begun += 1);
        let done = Done(&slot);
        let _gate = slot.gate.lock().await;
        self.end_processes(&slot, thread).await;
        drop(done);
    }

    async fn end_idle(&self, thread: &ThreadId) {
        let Some(slot) = self.slots.known(thread) else { return };
        // A turn has it: it is not idle.
        let Ok(_gate) = slot.gate.try_lock() else { return };
        if slot.running().is_some() {
            self.end_processes(&slot, thread).await;
        }
    }

    /// Ends all that the thread runs. The gate must be held.
    async fn end_processes(&self, slot: &Slot, thread: &ThreadId) {
        let running = slot.running();
        let leader = running.as_ref().map(|r| r.leader.clone());
        if let Some(running) = &running {
            running.close();
        }
        let (mark, id) = (self.setup.mark.clone(), thread.clone());
        processes::end(move || processes::of_thread(&mark, id.as_str(), leader.as_ref())).await;
        // Only now, so that an end which is itself given up half-way is made good by the next one.
        slot.put(None);
    }

    async fn put_in(&self, thread: &ThreadId, turn: &TurnId, text: &str) -> Steered {
        let running = self.slots.known(thread).and_then(|s| s.running());
        match running.filter(|r| r.live.is(turn)) {
            Some(running) => running.steer(turn, text).await,
            None => Steered::NotTaken,
        }
    }
}

/// Counts a stop as done, also when its caller gave it up.
struct Done<'a>(&'a Slot);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.stops.send_modify(|s| s.done += 1);
    }
}

impl Agents for Runners {
    fn turn<'a>(&'a self, job: TurnJob, sink: Arc<dyn TurnSink>) -> Soon<'a, TurnEnd> {
        Box::pin(self.one_turn(job, sink))
    }

    fn steer<'a>(&'a self, thread: &'a ThreadId, turn: &'a TurnId, text: String) -> Soon<'a, Steered> {
        Box::pin(async move { self.put_in(thread, turn, &text).await })
    }

    fn answer<'a>(&'a self, thread: &'a ThreadId, key: &'a str, reply: &'a AskReply) -> Soon<'a, bool> {
        let running = self.slots.known(thread).and_then(|s| s.running());
        Box::pin(async move { running.is_some_and(|r| r.live.answer(key, reply)) })
    }

    fn release<'a>(&'a self, thread: &'a ThreadId) -> Soon<'a, ()> {
        Box::pin(self.end_idle(thread))
    }

    fn stop<'a>(&'a self, thread: &'a ThreadId) -> Soon<'a, ()> {
        Box::pin(self.end_thread(thread))
    }

    fn end_strays(&self) -> Soon<'_, usize> {
        let mark = self.setup.mark.clone();
        Box::pin(processes::end(move || processes::of_any_thread(&mark)))
    }

    fn known(&self) -> Soon<'_, Vec<AgentInfo>> {
        Box::pin(known(&self.setup.providers))
    }
}
