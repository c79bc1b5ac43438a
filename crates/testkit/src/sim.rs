//! The simulation: a clock, an agenda, the heart, the outside and the weather.

use crate::agents::{Next, step};
use crate::outside::Outside;
use crate::plants::{Plant, decider};
use crate::rng::Rng;
use crate::weather::Weather;
use crate::{MINUTE, REPO, SECOND, TEAM};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ids::{MessageId, ThreadId, TurnId};
use stewards_core::machine::World;
use stewards_core::machine::{Answer, Caller, Effect, Event, Fact, Reply, Settings};
use stewards_core::moment::Moment;
use stewards_core::ports::{About, Ring, TurnEnd};
use stewards_core::refusal::Refusal;
use stewards_core::snapshot::PullState;
use stewards_core::stewards::NeedKind;
use stewards_core::threads::{ContextUse, SendMode, Thread, Tokens};
use stewards_core::trouble::Trouble;
use stewards_engine::{Heart, Started, Tick};
use stewards_store::Store;

enum Item {
    Arrive(Box<Event>),
    /// Outside, at this moment, a write happens; its answer comes later.
    WriteHappens(Box<Started>),
    Ring(Ring),
    Agent(ThreadId, TurnId, usize),
    ChecksFinish(PullKey),
    ReviewAgain(PullKey),
    Person,
    Restart,
}

/// One simulated server and its outside.
pub struct Sim {
    pub outside: Outside,
    pub weather: Weather,
    /// Milliseconds since the beginning.
    pub now: i64,
    /// Stewards end their turns without a report.
    pub mute_stewards: bool,
    /// Sees to an item soon after it is there.
    pub person_acts: bool,
    pub crashes: u32,
    /// Steps taken, and the one after which to crash.
    pub steps: u64,
    pub crash_at: Option<u64>,
    heart: Option<Heart>,
    store: Option<Store>,
    file: Option<PathBuf>,
    began: i64,
    pub(crate) wall_offset: i64,
    pub(crate) rng: Rng,
    pub(crate) plant: Option<Plant>,
    agenda: BTreeMap<(i64, u64), Item>,
    seq: u64,
    former: Outside,
    /// The agents at work: thread → turn.
    pub(crate) running: BTreeMap<ThreadId, TurnId>,
    pub sins: Vec<String>,
    deliveries: u64,
    /// What a server sets, but for what the simulation needs to be otherwise.
    pub settings: Settings,
    /// Which messages agents were given, in order.
    pub heard: Vec<MessageId>,
    /// Agents that wait for an answer: thread → its key, turn and next step.
    pub(crate) asking: BTreeMap<ThreadId, (String, TurnId, usize)>,
    pub(crate) said: u64,
    /// People meddle with threads until then.
    pub meddle_until: i64,
}

impl Sim {
    /// A server with one project that is switched on.
    pub fn new(seed: u64, weather: Weather, plant: Option<Plant>) -> Sim {
        Sim::with_store(seed, weather, plant, None)
    }

    /// The same over a real file.
    pub fn with_store(seed: u64, weather: Weather, plant: Option<Plant>, file: Option<PathBuf>) -> Sim {
        let mut sim = Sim {
            outside: Outside::new(),
            weather,
            now: 0,
            mute_stewards: false,
            person_acts: true,
            crashes: 0,
            steps: 0,
            crash_at: None,
            heart: None,
            store: None,
            file,
            began: 0,
            wall_offset: 0,
            rng: Rng::new(seed),
            plant,
            agenda: BTreeMap::new(),
            seq: 0,
            former: Outside::new(),
            running: BTreeMap::new(),
            sins: Vec::new(),
            deliveries: 0,
            settings: Settings { compact_at: 0, turns_per_hour: 0, ..Settings::default() },
            heard: Vec::new(),
            asking: BTreeMap::new(),
            said: 0,
            meddle_until: 0,
        };
        if sim.file.is_none() {
            sim.store = Some(Store::in_memory().expect("a store in memory"));
        }
        let crash = std::mem::take(&mut sim.weather.crash);
        sim.start();
        let repo = RepoName(REPO.into());
        let added =
            sim.tell(Event::ProjectAdded { name: "shop".into(), repo, remote: "http://git.example/shop.git".into() });
        let id = added.expect("a project can be added").ids["project"].clone();
        sim.tell(Event::Switched { project: stewards_core::ids::ProjectId(id), on: true })
            .expect("it can be switched on");
        sim.at(5 * SECOND, Item::Person);
        sim.weather.crash = crash;
        sim
    }

    pub fn world(&self) -> &World {
        self.heart.as_ref().expect("the daemon runs").world()
    }

    pub fn up(&self) -> bool {
        self.heart.is_some()
    }

    /// The store under the running heart.
    pub fn store(&self) -> &Store {
        self.heart.as_ref().expect("the daemon runs").store()
    }

    fn tick(&self) -> Tick {
        let base = 1_800_000_000_000;
        let wall = Timestamp::from_millisecond(base + self.now + self.wall_offset).unwrap_or_default();
        Tick { wall, elapsed: self.now - self.began }
    }

    fn at(&mut self, wait: i64, item: Item) {
        self.seq += 1;
        self.agenda.insert((self.now + wait, self.seq), item);
    }

    fn start(&mut self) {
        let store = match &self.file {
            Some(path) => Store::open(path).expect("the file opens again"),
            None => self.store.take().expect("the store was kept"),
        };
        self.began = self.now;
        let sweep = self.weather.sweep;
        let poll = if self.weather.poll > 0 { self.weather.poll } else { sweep };
        let settings = Settings { debounce: 5 * SECOND, sweep, poll, grace: 5 * SECOND, ..self.settings.clone() };
        let (heart, recovered) =
            Heart::open_with(store, settings, self.tick(), decider(self.plant)).expect("the run begins");
        self.heart = Some(heart);
        self.running.clear();
        self.asking.clear();
        for mut started in recovered.probes {
            started.probe = self.plant != Some(Plant::NoProbe);
            self.leave(started);
        }
        let again: Vec<(ThreadId, String)> = match self.plant {
            Some(Plant::SentAgain) => self.live_messages(),
            _ => Vec::new(),
        };
        let cut = if self.plant == Some(Plant::LostWake) { Vec::new() } else { recovered.cut };
        self.step(cut);
        for (to, text) in again {
            let _ = self.tell(Event::Told {
                caller: Caller::Person,
                to,
                text,
                mode: SendMode::QueueIfActive,
                revive: false,
            });
        }
    }

    fn live_messages(&self) -> Vec<(ThreadId, String)> {
        let live = self.world().threads.values().filter_map(|t| Some((t.id.clone(), t.turn.as_ref()?)));
        live.flat_map(|(id, turn)| turn.messages.iter().map(move |m| (id.clone(), m.text.clone()))).collect()
    }

    /// The daemon dies here and now. Answers on their way are lost; what
    /// happened outside has happened.
    pub fn crash(&mut self) {
        let Some(heart) = self.heart.take() else { return };
        match self.file {
            Some(_) => drop(heart),
            None => self.store = Some(heart.into_store()),
        }
        self.crashes += 1;
        self.running.clear();
        self.agenda.retain(|_, item| !matches!(item, Item::Arrive(_) | Item::Agent(..) | Item::WriteHappens(_)));
        let wait = self.rng.between(SECOND, 30 * SECOND);
        self.at(wait, Item::Restart);
    }

    /// The daemon is ended and started again with the settings as they are now.
    pub fn restart(&mut self) {
        let Some(heart) = self.heart.take() else { return };
        match self.file {
            Some(_) => drop(heart),
            None => self.store = Some(heart.into_store()),
        }
        self.start();
    }

    fn step(&mut self, events: Vec<Event>) -> Vec<Result<Reply, Refusal>> {
        let tick = self.tick();
        let Some(heart) = self.heart.as_mut() else { return Vec::new() };
        let step = heart.step(tick, &events).expect("the store takes it");
        self.steps += 1;
        for started in step.effects {
            self.leave(started);
        }
        let by_chance = self.crashes < self.weather.crashes && self.rng.chance(self.weather.crash);
        if by_chance || self.crash_at == Some(self.steps) {
            self.crash();
        }
        step.replies
    }

    /// Tells one event, as a caller would.
    pub fn tell(&mut self, event: Event) -> Result<Reply, Refusal> {
        let gone = Refusal::not_met("down", "the daemon is down", "start it");
        self.step(vec![event]).pop().unwrap_or(Err(gone))
    }

    /// What an agent does. A refusal that it did not expect is a fault.
    pub(crate) fn act(&mut self, event: Event) {
        let what = format!("{event:?}");
        if let Err(refusal) = self.tell(event)
            && refusal.code != "down"
        {
            self.sins.push(format!("refused: {} for {what}", refusal.says));
        }
    }

    /// A claim may find that the person was quicker: busy is no fault.
    pub(crate) fn claims(&mut self, event: Event) {
        if let Err(refusal) = self.tell(event)
            && !["down", "busy"].contains(&refusal.code.as_str())
        {
            self.sins.push(format!("a claim was refused: {}", refusal.says));
        }
    }

    pub(crate) fn spawn(&mut self, event: Event) {
        if self.plant == Some(Plant::DoubleSpawn) {
            self.act(event.clone());
        }
        self.act(event);
    }

    pub fn bus_has(&self, kind: &str, from: Option<&ThreadId>, to: Option<&ThreadId>) -> bool {
        let sql =
            "SELECT 1 FROM bus WHERE kind = ?1 AND (?2 IS NULL OR sender = ?2) AND (?3 IS NULL OR addressee = ?3)";
        let Some(heart) = &self.heart else { return false };
        let mut find = heart.store().connection().prepare(sql).expect("the statement");
        find.exists((kind, from.map(ThreadId::as_str), to.map(ThreadId::as_str))).expect("the query")
    }

    /// Carries an effect out: read now, answered later.
    fn leave(&mut self, started: Started) {
        let wait = self.rng.between(20, 1_500);
        if let Effect::Turn { thread, turn } = &started.effect {
            let (thread, turn) = (thread.clone(), turn.clone());
            if started.job.is_none() {
                self.sins.push(format!("{turn} began without an environment"));
            }
            if let Some(other) = self.running.insert(thread.clone(), turn.clone()) {
                self.sins.push(format!("{turn} began in {thread} while {other} was live"));
            }
            self.hears(&thread, |t| t.turn.as_ref().map(|t| t.messages.clone()).unwrap_or_default());
            self.at(wait, Item::Agent(thread, turn, 0));
            return;
        }
        if let Effect::Steer { thread, turn } = &started.effect {
            let (thread, turn) = (thread.clone(), turn.clone());
            return self.steered(started, &thread, &turn);
        }
        if let Effect::Answer { thread, key, .. } = &started.effect {
            let waited = self.asking.get(thread).is_some_and(|(k, ..)| k == key);
            if let Some((_, turn, n)) = waited.then(|| self.asking.remove(thread)).flatten() {
                self.at(wait, Item::Agent(thread.clone(), turn, n));
            }
            return self.answer(wait, started, Answer::Replied(waited), 0);
        }
        if let Effect::Stop { thread } = &started.effect
            && let Some(turn) = self.running.remove(thread)
        {
            self.asking.remove(thread);
            self.turn_over(thread.clone(), turn, TurnEnd::Cancelled, 5);
        }
        if matches!(started.effect, Effect::Write { .. } | Effect::WriteTicket { .. }) {
            self.at(wait, Item::WriteHappens(Box::new(started)));
            return;
        }
        let wait = match started.effect {
            Effect::Look { .. } => self.rng.between(20, self.weather.looks_late),
            _ => wait,
        };
        let read = reads(&started.effect);
        let answer = if read && self.rng.chance(self.weather.looks_fail) {
            failed(&started.effect, self.rng.chance(300).then(|| self.tick().wall))
        } else if read
            && self.former.tickets.len() == self.outside.tickets.len()
            && self.rng.chance(self.weather.looks_stale)
        {
            // Late, but no service says "not found" of what it has shown before.
            self.former.read(&started.effect)
        } else {
            if self.rng.chance(300) {
                self.former = self.outside.clone();
            }
            match (&started.effect, self.plant) {
                (Effect::RemoveEnvironment { .. }, Some(Plant::LeftWorktree)) => {
                    Answer::EnvironmentRemoved(Ok(stewards_core::ports::Removed::Gone))
                }
                (effect, _) => self.outside.read(effect),
            }
        };
        self.answer(wait, started, answer, 1);
    }

    pub(crate) fn answer(&mut self, wait: i64, started: Started, answer: Answer, failed: u32) {
        let attempts = started.attempts + failed;
        let event = Event::Answered { id: started.id, effect: started.effect, answer, attempts };
        self.at(wait, Item::Arrive(Box::new(event)));
    }

    /// Rings for what changed outside.
    pub(crate) fn news_since(&mut self, before: &Outside) {
        let mut rings = Vec::new();
        self.outside.touch(before);
        for (uuid, ticket) in &self.outside.tickets {
            if before.tickets.get(uuid) != Some(ticket) {
                rings.push(About::Ticket { uuid: uuid.clone(), key: ticket.identifier.clone(), team: TEAM.into() });
            }
        }
        for (key, pull) in &self.outside.pulls {
            if before.pulls.get(key) != Some(pull) {
                rings.push(About::Pull { pull: key.clone(), branch: Some(pull.head_branch.clone()) });
            }
        }
        for about in rings {
            self.deliveries += 1;
            let ring = Ring {
                delivery: format!("d-{}", self.deliveries),
                source: if matches!(about, About::Ticket { .. }) { "linear" } else { "github" }.into(),
                what: "changed".into(),
                about,
                stale: false,
            };
            if self.rng.chance(self.weather.rings_lost) {
                continue;
            }
            if self.rng.chance(self.weather.rings_doubled) {
                let wait = self.rng.between(0, self.weather.rings_late * 3);
                self.at(wait, Item::Ring(ring.clone()));
            }
            let wait = self.rng.between(0, self.weather.rings_late);
            self.at(wait, Item::Ring(ring));
        }
    }

    /// Changes the outside and rings for it.
    pub fn outside(&mut self, change: impl FnOnce(&mut Outside)) {
        let before = self.outside.clone();
        change(&mut self.outside);
        self.news_since(&before);
    }

    pub(crate) fn work_opens_pull(&mut self, me: &Thread, branch: &str) {
        let uuid = self.ticket_of(me);
        let mut key = None;
        self.outside(|o| key = uuid.map(|uuid| o.open_pull(&uuid, branch)));
        if let Some(key) = key {
            self.at(20 * SECOND, Item::ChecksFinish(key));
        }
    }

    pub(crate) fn work_reviews(&mut self, me: &Thread, key: &PullKey) {
        let who = me.id.to_string();
        self.outside(|o| o.review(key, &who));
    }

    fn ticket_of(&self, thread: &Thread) -> Option<String> {
        let binding = self.world().bindings.get(thread.binding.as_ref()?)?;
        match &binding.entity {
            stewards_core::entity::Entity::Ticket { uuid } => Some(uuid.clone()),
            stewards_core::entity::Entity::Pull(_) => None,
        }
    }

    pub(crate) fn turn_over(&mut self, thread: ThreadId, turn: TurnId, end: TurnEnd, wait: i64) {
        let Some(heart) = &self.heart else { return };
        let row = heart.store().outbox().expect("the outbox").into_iter();
        let found = row.into_iter().find(|r| matches!(&r.effect, Effect::Turn { turn: t, .. } if *t == turn));
        let Some(row) = found else { return };
        let tokens = Tokens { input: 100, output: 10, estimated: true };
        let context = Some(ContextUse { used: 90_000 + 10_000 * (self.seq % 7), window: Some(200_000) });
        let answer = Answer::TurnEnded { end, tokens, context, last_words: "That is all.".into() };
        let effect = Effect::Turn { thread, turn };
        self.at(wait, Item::Arrive(Box::new(Event::Answered { id: row.id, effect, answer, attempts: 0 })));
    }

    fn agent(&mut self, thread: ThreadId, turn: TurnId, n: usize) {
        if self.running.get(&thread) != Some(&turn) {
            return;
        }
        let unheard = n == 0 && self.weather.turns_unheard > 0 && self.rng.chance(self.weather.turns_unheard);
        let fails = unheard || (n > 0 && self.rng.chance(self.weather.turns_fail));
        let limited = n > 0 && self.rng.chance(self.weather.limits);
        if n > 0 && self.rng.chance(self.weather.asks) {
            return self.asks(&thread, &turn, n);
        }
        let next = if limited {
            Next::End(TurnEnd::Failed { says: "usage limit reached, try again in 20 minutes".into() })
        } else if fails {
            Next::End(TurnEnd::Failed { says: "the provider is down".into() })
        } else {
            step(self, &thread, &turn, n)
        };
        if self.heart.is_none() || self.running.get(&thread) != Some(&turn) {
            return;
        }
        let wait = self.rng.between(100, 2_000);
        match next {
            Next::Step => self.at(wait, Item::Agent(thread, turn, n + 1)),
            Next::End(end) => {
                self.running.remove(&thread);
                if self.plant == Some(Plant::LostEnd) && self.rng.chance(300) {
                    return;
                }
                self.turn_over(thread, turn, end, wait);
            }
        }
    }

    fn person(&mut self) {
        self.at(20 * SECOND, Item::Person);
        if self.heart.is_none() || !self.person_acts {
            return;
        }
        self.person_answers();
        if self.heart.is_none() {
            return;
        }
        let open: Vec<_> = self.world().needs.values().filter(|n| n.closed.is_none()).cloned().collect();
        for need in open {
            match need.kind {
                NeedKind::Merge { pull } => {
                    let Some(fresh) = self.outside.pulls.get(&pull).cloned() else { continue };
                    let _ = self.tell(Event::MergePressed { caller: Caller::Person, pull, fresh: Box::new(fresh) });
                }
                NeedKind::Failed { .. } | NeedKind::Capped { .. } => {
                    let _ = self.tell(Event::NeedDone { caller: Caller::Person, need: need.id });
                }
            }
        }
    }

    fn weather_happens(&mut self) {
        if self.rng.chance(self.weather.clock_jumps) {
            self.wall_offset += self.rng.between(-60 * MINUTE, 60 * MINUTE);
        }
        if self.rng.chance(self.weather.pushes) {
            self.somebody_pushes();
        }
        self.people_meddle();
    }

    /// A new head, which is checked and reviewed a little later.
    pub(crate) fn somebody_pushes(&mut self) {
        let open = self.outside.pulls.values().find(|p| p.state == PullState::Open).map(|p| p.key.clone());
        if let Some(key) = open {
            self.outside(|o| o.push(&key));
            self.at(20 * SECOND, Item::ChecksFinish(key.clone()));
            self.at(40 * SECOND, Item::ReviewAgain(key));
        }
    }

    /// Lets simulated time pass until `until`, or until `done`.
    pub fn run(&mut self, until: i64, mut done: impl FnMut(&Sim) -> bool) {
        while self.now < until && !(self.up() && done(self)) {
            let due = self.heart.as_ref().and_then(|h| h.due(self.tick()).expect("the store answers"));
            let next = self.agenda.keys().next().map(|(at, _)| *at);
            let wake = due.map(|d| self.now + d.max(1));
            let to = next.into_iter().chain(wake).min().unwrap_or(until).min(until);
            self.now = self.now.max(to);
            self.weather_happens();
            let item = match self.agenda.first_entry() {
                Some(entry) if entry.key().0 <= self.now => entry.remove(),
                _ => {
                    self.step(Vec::new());
                    continue;
                }
            };
            match item {
                Item::Arrive(event) => {
                    self.step(vec![*event]);
                }
                Item::Ring(ring) => {
                    let looking = self.heart.is_some() && self.world().bindings.values().any(|b| b.look.is_some());
                    let deaf = self.plant == Some(Plant::DeafDuringLook) && looking;
                    if !deaf {
                        let _ = self.tell(Event::Rang(ring));
                    }
                }
                Item::WriteHappens(started) => self.write_happens(*started),
                Item::Agent(thread, turn, n) => self.agent(thread, turn, n),
                Item::ChecksFinish(key) => self.outside(|o| o.checks_finish(&key)),
                Item::ReviewAgain(key) => self.outside(|o| o.review(&key, "thr_0")),
                Item::Person => self.person(),
                Item::Restart => self.start(),
            }
        }
    }

    /// Now, as a decision would see it.
    pub fn moment(&self) -> Moment {
        let tick = self.tick();
        Moment { wall: tick.wall, elapsed: tick.elapsed, run: self.world().host.run, no: 0 }
    }

    /// A fact of the journal, anywhere.
    pub fn facts(&self) -> Vec<Fact> {
        self.facts_where("?1 = ''", "")
    }

    /// The facts of one subject, such as a thread's id.
    pub fn facts_of(&self, subject: &str) -> Vec<Fact> {
        self.facts_where("subject = ?1", subject)
    }

    fn facts_where(&self, so: &str, subject: &str) -> Vec<Fact> {
        let statement = format!("SELECT body FROM facts WHERE {so} ORDER BY no, n");
        let mut find = self.store().connection().prepare(&statement).expect("the statement");
        let rows = find.query_map([subject], |r| r.get::<_, String>(0)).expect("the query");
        rows.filter_map(|r| serde_json::from_str(&r.ok()?).ok()).collect()
    }

    /// The state of every accepted message.
    pub fn receipts(&self) -> Vec<(MessageId, String)> {
        let mut find = self.store().connection().prepare("SELECT id, state FROM messages").expect("the statement");
        let rows = find.query_map([], |r| Ok((MessageId(r.get(0)?), r.get(1)?))).expect("the query");
        rows.filter_map(Result::ok).collect()
    }
}

/// It only reads what is outside.
fn reads(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Look { .. }
            | Effect::FindAdoptable { .. }
            | Effect::ReadBb { .. }
            | Effect::PollTickets { .. }
            | Effect::PollPulls { .. }
    )
}

fn failed(effect: &Effect, limited: Option<Timestamp>) -> Answer {
    let trouble = match limited {
        Some(at) => Trouble::Later { at, says: "a limit".into() },
        None => Trouble::Flaky { says: "502".into() },
    };
    match effect {
        Effect::FindAdoptable { .. } => Answer::Adoptable(Err(trouble)),
        Effect::ReadBb { .. } => Answer::Bb(Err(trouble)),
        Effect::PollTickets { .. } | Effect::PollPulls { .. } => Answer::Polled(Err(trouble)),
        _ => Answer::Look(Box::new(Err(trouble))),
    }
}
