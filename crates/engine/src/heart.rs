//! The synchronous heart: events in, one commit, effects out.

use crate::shell::Line;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use stewards_core::Millis;
use stewards_core::ids::EffectId;
use stewards_core::machine::{
    Answer, Caller, Effect, Event, Fact, Outcome, Reply, Sent, Settings, Subject, View, World, decide, next_deadline,
    plan,
};
use stewards_core::moment::Moment;
use stewards_core::ports::{Steered, TurnJob};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::threads::{steer_text, turn_job};
use stewards_store::{Batch, Store, StoreError};

/// What the clock says when a step is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    pub wall: Timestamp,
    /// Since this run began; never steps back.
    pub elapsed: Millis,
}

/// An effect that is on record as started and is now to be carried out.
#[derive(Clone, Debug)]
pub struct Started {
    pub id: EffectId,
    pub effect: Effect,
    /// Tries that failed before this one.
    pub attempts: u32,
    /// It may have happened already: look before doing it.
    pub probe: bool,
    /// For a turn: what its agent is given.
    pub job: Option<TurnJob>,
    /// For what goes into a live turn: its words.
    pub words: Option<String>,
}

/// What one step left.
#[derive(Debug)]
pub struct Step {
    /// In the order of the events.
    pub replies: Vec<Result<Reply, Refusal>>,
    pub effects: Vec<Started>,
}

/// What an earlier run left in the air.
#[derive(Debug)]
pub struct Recovered {
    /// Answers that need no look outside: turns that were cut, and messages on
    /// their way into them. To be told once
    /// the processes of the earlier run are gone.
    pub cut: Vec<Event>,
    /// Writes that may or may not have happened.
    pub probes: Vec<Started>,
}

/// What decides. Always core's `decide`, but for tests that plant a bug.
pub type Decider = Box<dyn Fn(&View<'_>, &Event, &Moment) -> Result<Outcome, Refusal> + Send>;

/// More rounds of planning than any real state needs; beyond, it is our bug.
const MAX_ROUNDS: usize = 1_000;

/// Owns the store and the world.
pub struct Heart {
    store: Store,
    world: World,
    run: u64,
    no: u64,
    /// Planned events that panicked in this run: they are not tried again, so
    /// that a bug stops what it is about and not the house.
    broken: BTreeSet<String>,
    decider: Decider,
}

impl Heart {
    /// Begins a run on what the store holds.
    pub fn open(store: Store, settings: Settings, tick: Tick) -> Result<(Heart, Recovered), StoreError> {
        Heart::open_with(store, settings, tick, Box::new(decide))
    }

    /// The same with another decider.
    pub fn open_with(
        mut store: Store,
        settings: Settings,
        tick: Tick,
        decider: Decider,
    ) -> Result<(Heart, Recovered), StoreError> {
        let world = store.load()?;
        let mut recovered = Recovered { cut: Vec::new(), probes: Vec::new() };
        let batch = store.batch()?;
        for row in batch.outbox()?.into_iter().filter(|r| r.started) {
            match &row.effect {
                Effect::Turn { .. } => recovered.cut.push(Event::Answered {
                    id: row.id,
                    effect: row.effect,
                    answer: Answer::TurnCut,
                    attempts: row.attempts,
                }),
                // It may have been taken by an agent that is gone.
                Effect::Steer { .. } => recovered.cut.push(Event::Answered {
                    id: row.id,
                    effect: row.effect,
                    answer: Answer::Steered(Steered::Unknown),
                    attempts: row.attempts,
                }),
                effect if effect.repeatable() => batch.effect_again(&row.id, row.attempts, None)?,
                _ => recovered.probes.push(Started {
                    id: row.id,
                    effect: row.effect,
                    attempts: row.attempts,
                    probe: true,
                    job: None,
                    words: None,
                }),
            }
        }
        batch.commit()?;
        let (run, no) = (world.host.run + 1, store.last_event()?);
        let mut heart = Heart { store, world, run, no, broken: BTreeSet::new(), decider };
        heart.commit_events(tick, &[Event::RunBegan { settings }])?;
        Ok((heart, recovered))
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// The number of the newest event.
    pub fn no(&self) -> u64 {
        self.no
    }

    /// Gives the store back, as a crash would leave it.
    pub fn into_store(self) -> Store {
        self.store
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes the events, plans until nothing is due, and starts what can be
    /// started, all in one commit. Nothing of it is true before this returns;
    /// after an error nothing of it is.
    pub fn step(&mut self, tick: Tick, events: &[Event]) -> Result<Step, StoreError> {
        self.step_with(tick, events, &[])
    }

    /// The same, with lines of transcripts in the same commit: whoever sees a
    /// turn's end sees all that it said.
    pub fn step_with(&mut self, tick: Tick, events: &[Event], lines: &[Line]) -> Result<Step, StoreError> {
        let saved = (self.world.clone(), self.no);
        let done = self.step_inner(tick, events, lines);
        if done.is_err() {
            (self.world, self.no) = saved;
        }
        done
    }

    fn commit_events(&mut self, tick: Tick, events: &[Event]) -> Result<(), StoreError> {
        let batch = self.store.batch()?;
        for event in events {
            let _ = take(&self.decider, &batch, &mut self.world, self.run, &mut self.no, tick, event)?;
        }
        batch.commit()
    }

    fn step_inner(&mut self, tick: Tick, events: &[Event], lines: &[Line]) -> Result<Step, StoreError> {
        let batch = self.store.batch()?;
        transcribe(&batch, lines)?;
        let mut replies = Vec::with_capacity(events.len());
        for event in events {
            replies.push(take(&self.decider, &batch, &mut self.world, self.run, &mut self.no, tick, event)?);
        }
        // Planned and changed nothing: not tried again in this step.
        let mut idle = BTreeSet::new();
        for round in 0.. {
            let now = Moment { wall: tick.wall, elapsed: tick.elapsed, run: self.run, no: self.no };
            let mut due = plan(&self.world, &now);
            due.retain(|(subject, event)| {
                let mark = mark(subject, event);
                !self.broken.contains(&mark) && !idle.contains(&mark)
            });
            // One at a time: an event may settle what made the next one due.
            let Some((subject, event)) = due.into_iter().next() else { break };
            let before = self.no;
            let refused = take(&self.decider, &batch, &mut self.world, self.run, &mut self.no, tick, &event)?.is_err();
            if refused || round >= MAX_ROUNDS {
                self.broken.insert(mark(&subject, &event));
            } else if self.no == before {
                idle.insert(mark(&subject, &event));
            }
        }
        let now = Moment { wall: tick.wall, elapsed: tick.elapsed, run: self.run, no: self.no };
        let mut effects = Vec::new();
        for row in batch.outbox()?.into_iter().filter(|r| !r.started) {
            if row.not_before.as_ref().is_some_and(|d| !d.due(&now)) {
                continue;
            }
            batch.effect_started(&row.id)?;
            let job = match &row.effect {
                Effect::Turn { thread, turn } => turn_job(&self.world, thread, turn),
                _ => None,
            };
            let words = match &row.effect {
                Effect::Steer { thread, .. } => self.world.threads.get(thread).map(steer_text),
                _ => None,
            };
            // A write that failed before may have happened all the same.
            let probe = row.attempts > 0 && !row.effect.repeatable();
            effects.push(Started { id: row.id, effect: row.effect, attempts: row.attempts, probe, job, words });
        }
        batch.commit()?;
        Ok(Step { replies, effects })
    }

    /// Milliseconds until the passing of time alone makes a step worth while.
    pub fn due(&self, tick: Tick) -> Result<Option<Millis>, StoreError> {
        let now = Moment { wall: tick.wall, elapsed: tick.elapsed, run: self.run, no: self.no };
        let retries = self
            .store
            .outbox()?
            .into_iter()
            .filter(|r| !r.started)
            .filter_map(|r| r.not_before)
            .filter(|d| !d.due(&now));
        Ok(next_deadline(&self.world, &now).into_iter().chain(retries).map(|d| d.left(&now).max(0)).min())
    }

    /// Gives room back to the disk that is of no use here any more.
    pub fn shrink(&self) -> Result<u64, StoreError> {
        self.store.shrink()
    }

    /// Adds lines to transcripts, in one commit.
    pub fn transcribe(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let batch = self.store.batch()?;
        transcribe(&batch, lines)?;
        batch.commit()
    }
}

fn transcribe(batch: &Batch<'_>, lines: &[Line]) -> Result<(), StoreError> {
    lines.iter().try_for_each(|line| batch.transcribe(&line.thread, &line.turn, line.at, &line.body))
}

fn mark(subject: &Subject, event: &Event) -> String {
    format!("{subject} {}", event.journal())
}

/// One event: decided on a world of its own, recorded in a savepoint, and only
/// then taken over.
fn take(
    decide: &Decider,
    batch: &Batch<'_>,
    world: &mut World,
    run: u64,
    no: &mut u64,
    tick: Tick,
    event: &Event,
) -> Result<Result<Reply, Refusal>, StoreError> {
    let now = Moment { wall: tick.wall, elapsed: tick.elapsed, run, no: *no + 1 };
    let seen = match event.compares().and_then(|b| world.bindings.get(b)).and_then(|b| b.observed.as_ref()) {
        Some(hash) => batch.snapshot(hash)?,
        None => None,
    };
    let delivered = match event {
        Event::Rang(ring) => batch.delivered(&ring.delivery)?,
        _ => false,
    };
    let sent = match event {
        Event::BusSent { caller, draft } => {
            let sender = match caller {
                Caller::Person => None,
                Caller::Thread(id) => Some(id),
            };
            let most = world.host.settings.bus_per_minute;
            batch.sent(sender, (&draft.kind, draft.dedupe.as_deref()), now.wall.as_millisecond() - 60_000, most)?
        }
        Event::BusRetried { message, .. } => Sent { message: batch.bus_message(*message)?, ..Sent::default() },
        _ => Sent::default(),
    };
    let view = View { world, seen: seen.as_ref(), delivered, sent };
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| decide(&view, event, &now)));
    let (outcome, reply) = match decided {
        Ok(Ok(outcome)) => {
            let reply = outcome.refused.clone().map_or_else(|| Ok(outcome.reply.clone()), Err);
            (outcome, reply)
        }
        Ok(Err(refusal)) => (refused(world, &now, event, &refusal), Err(refusal)),
        Err(_) => {
            let bug = Refusal::new(
                Exit::NotMet,
                "bug",
                "this met a bug of ours and nothing was changed",
                "please report it with the daemon's log",
            );
            (refused(world, &now, event, &bug), Err(bug))
        }
    };
    batch.record(event, &outcome)?;
    if !outcome.facts.is_empty() || !outcome.effects.is_empty() {
        *no = now.no;
    }
    *world = outcome.world;
    Ok(reply)
}

/// A refusal changes no row and leaves one fact on the caller's stream.
fn refused(world: &World, now: &Moment, event: &Event, refusal: &Refusal) -> Outcome {
    let mut outcome = Outcome::new(world, now);
    let fact = Fact::Refused { code: refusal.code.clone(), says: refusal.says.clone() };
    outcome.fact(event.subject(), fact);
    outcome
}
