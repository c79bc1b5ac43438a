//! Threads alone: what people and agents do to them, and what must hold.

use crate::SECOND;
use crate::sim::Sim;
use std::collections::{BTreeMap, BTreeSet};
use stewards_core::ids::{MessageId, ProjectId, ThreadId, TurnId};
use stewards_core::machine::{Answer, Caller, Event};
use stewards_core::ports::Steered;
use stewards_core::threads::{Ask, AskOption, Means, Permission, Queued, Role, SendMode, SpawnAsk, Status, Thread};
use stewards_engine::Started;

impl Sim {
    pub fn project(&self) -> ProjectId {
        self.world().projects.values().next().expect("the one project").id.clone()
    }

    /// A plain thread of the project, told its first words.
    pub fn plain(&mut self, parent: Option<&ThreadId>, permission: Permission) -> ThreadId {
        let mut ask = SpawnAsk::of(Role::Plain, "a thread", &format!("first words {}", self.said));
        self.said += 1;
        ask.model = Some("sim".into());
        ask.project = Some(self.project());
        ask.parent = parent.cloned();
        ask.permission = Some(permission);
        let reply = self.tell(Event::Spawned { caller: Caller::Person, ask: Box::new(ask) });
        ThreadId(reply.expect("it can be started").ids["thread"].clone())
    }

    /// What an agent is given now, by the thread's row.
    pub(crate) fn hears(&mut self, thread: &ThreadId, what: impl Fn(&Thread) -> Vec<Queued>) {
        let heard: Vec<MessageId> =
            self.world().threads.get(thread).map(|t| what(t).into_iter().map(|m| m.id).collect()).unwrap_or_default();
        self.heard.extend(heard);
    }

    /// The agent takes what was steered, or does not; its answer may come after its turn's end.
    pub(crate) fn steered(&mut self, started: Started, thread: &ThreadId, turn: &TurnId) {
        let live = self.running.get(thread) == Some(turn);
        let taken = live && !self.rng.chance(self.weather.steers_refused);
        if taken {
            self.hears(thread, |t| t.steering.clone());
        }
        let how = if taken { Steered::Taken } else { Steered::NotTaken };
        let wait = self.rng.between(5, 4 * SECOND);
        self.answer(wait, started, Answer::Steered(how), 0);
    }

    /// The agent asks for leave and waits.
    pub(crate) fn asks(&mut self, thread: &ThreadId, turn: &TurnId, next: usize) {
        self.said += 1;
        let key = format!("k{}", self.said);
        self.asking.insert(thread.clone(), (key.clone(), turn.clone(), next));
        let option = |id: &str, means| AskOption { id: id.into(), label: id.into(), means };
        let ask = Ask {
            key,
            permission: true,
            edits: false,
            title: "Bash".into(),
            detail: format!("make {next}"),
            options: vec![option("allow", Means::AllowOnce), option("deny", Means::DenyOnce)],
            free: false,
        };
        self.act(Event::AgentAsked { thread: thread.clone(), turn: turn.clone(), ask: Box::new(ask) });
    }

    pub(crate) fn person_answers(&mut self) {
        let open: Vec<_> = self.world().threads.values().flat_map(|t| t.asks.iter().map(|p| p.id.clone())).collect();
        for ask in open {
            let _ = self.tell(Event::AskAnswered { caller: Caller::Person, ask, choice: "allow".into() });
        }
        if self.up() && self.world().host.stopped {
            let _ = self.tell(Event::AllStopped { caller: Caller::Person, on: false });
        }
    }

    pub(crate) fn people_meddle(&mut self) {
        if self.weather.tells > 0 && self.up() && self.now < self.meddle_until && self.rng.chance(self.weather.tells) {
            let mode = [SendMode::Auto, SendMode::QueueIfActive, SendMode::SteerIfActive, SendMode::Start];
            let mode = mode[(self.rng.draw() % 4) as usize];
            if let Some(to) = self.any_thread() {
                self.said += 1;
                let text = format!("word {}", self.said);
                let _ = self.tell(Event::Told { caller: Caller::Person, to, text, mode, revive: false });
            }
        }
        if self.up() && self.now < self.meddle_until && self.rng.chance(self.weather.meddles) {
            let Some(thread) = self.any_thread() else { return };
            let caller = Caller::Person;
            let event = match self.rng.draw() % 8 {
                0 => Event::Archived { caller, thread, yes: true },
                1 | 2 => Event::Unarchived { caller, thread },
                3 => Event::AllStopped { caller, on: true },
                4 => Event::Compacted { caller, thread },
                5 => Event::Retried { caller, thread },
                _ => Event::Stopped { caller, thread },
            };
            let _ = self.tell(event);
        }
    }

    fn any_thread(&mut self) -> Option<ThreadId> {
        let all: Vec<ThreadId> =
            self.world().threads.values().filter(|t| t.role == Role::Plain).map(|t| t.id.clone()).collect();
        let n = usize::try_from(self.rng.draw()).unwrap_or(0);
        (!all.is_empty()).then(|| all[n % all.len()].clone())
    }

    /// The wall clock is set to another time; what has elapsed has elapsed.
    pub fn clock_steps(&mut self, ms: i64) {
        self.wall_offset += ms;
    }

    /// What a statement of a test's own counts.
    pub fn count(&self, statement: &str, with: &[&str]) -> u64 {
        let mut find = self.store().connection().prepare(statement).expect("the statement");
        for (n, value) in with.iter().enumerate() {
            find.raw_bind_parameter(n + 1, value).expect("a parameter");
        }
        let mut rows = find.raw_query();
        rows.next().expect("the query").expect("a row").get(0).expect("a number")
    }

    /// Messages of the bus in the order in which agents were given them: number, sender, addressee.
    pub fn bus_heard(&self) -> Vec<(u64, String, String)> {
        let statement =
            "SELECT b.seq, b.sender, b.addressee FROM messages m JOIN bus b ON b.seq = m.bus WHERE m.id = ?1";
        let mut find = self.store().connection().prepare(statement).expect("the statement");
        let one = |id: &MessageId| {
            let mut rows = find.query([id.as_str()]).expect("the query");
            let row = rows.next().expect("a row")?;
            Some((row.get(0).expect("a number"), row.get(1).expect("a name"), row.get(2).expect("a name")))
        };
        self.heard.clone().iter().filter_map(one).collect()
    }

    /// Nothing is at work, waits or is in the air, but for what a person stopped.
    pub fn host_rests(&self) -> bool {
        self.up()
            && self.store().outbox().is_ok_and(|o| o.is_empty())
            && self.world().threads.values().filter(|t| t.role == Role::Plain).all(|t| {
                t.turn.is_none()
                    && t.steering.is_empty()
                    && t.asks.is_empty()
                    && t.status != Status::Stopping
                    && t.notices.is_empty()
                    && (t.queue.is_empty() || t.held)
            })
    }

    /// Every accepted message was given to an agent once, or is known not to have
    /// been, or nobody knows and it is said.
    pub fn host_faults(&self) -> Vec<String> {
        let mut bad = self.sins.clone();
        let mut times: BTreeMap<&MessageId, usize> = BTreeMap::new();
        for id in &self.heard {
            *times.entry(id).or_default() += 1;
        }
        bad.extend(times.iter().filter(|(_, n)| **n > 1).map(|(id, n)| format!("{id} was heard {n} times")));
        if !self.up() {
            return bad;
        }
        let held: BTreeSet<MessageId> =
            self.world().threads.values().flat_map(|t| t.queue.iter().map(|m| m.id.clone())).collect();
        for (id, state) in self.receipts() {
            let heard = times.get(&id).copied().unwrap_or(0);
            let fine = match state.as_str() {
                "consumed" => heard == 1,
                "unknown" | "failed" => heard <= 1,
                "dropped" => heard == 0,
                "queued" => heard == 0 && held.contains(&id),
                _ => false,
            };
            if !fine && self.host_rests() {
                bad.push(format!("{id} is {state} and was heard {heard} times"));
            }
        }
        if let (Ok(rows), Ok(folded)) = (self.store().load(), self.store().refold())
            && self.host_rests()
            && (rows != folded || &rows != self.world())
        {
            bad.push("the rows are not the fold of the facts".into());
        }
        bad
    }

    /// What keeps it from rest, for the reader of a failure.
    pub fn host_unrest(&self) -> Vec<String> {
        if !self.up() {
            return vec!["the daemon is down".into()];
        }
        let mut all: Vec<String> = self
            .world()
            .threads
            .values()
            .filter(|t| t.role == Role::Plain)
            .map(|t| {
                format!(
                    "{} {:?} turn {} queue {} steering {} asks {} held {} failures {} env {:?}",
                    t.id,
                    t.status,
                    t.turn.is_some(),
                    t.queue.len(),
                    t.steering.len(),
                    t.asks.len(),
                    t.held,
                    t.failures,
                    t.environment.state
                )
            })
            .collect();
        let outbox = self.store().outbox().unwrap_or_default();
        all.extend(outbox.iter().map(|r| format!("in the outbox: {} started {}", r.effect.name(), r.started)));
        all
    }
}
