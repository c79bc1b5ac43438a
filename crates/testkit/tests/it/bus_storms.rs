//! Everything that can be done to messages of the bus, at any time, over a daemon that
//! dies: none is lost, none is doubled, and nobody hears another out of order.

use std::collections::{BTreeMap, BTreeSet};
use stewards_core::bus::Draft;
use stewards_core::ids::{MessageId, ThreadId};
use stewards_core::machine::{Caller, Event, Reply};
use stewards_core::refusal::Refusal;
use stewards_core::threads::Permission;
use stewards_testkit::{MINUTE, Rng, SECOND, Sim, Weather};

const DAY: i64 = 24 * 60 * MINUTE;

fn threads(seed: u64, weather: Weather, keep: u64) -> (Sim, Vec<ThreadId>) {
    let mut sim = Sim::new(seed, Weather::calm(), None);
    sim.person_acts = false;
    sim.settings.turns_per_hour = 0;
    sim.settings.bus_per_minute = 0;
    sim.settings.bus_keep_messages = keep;
    sim.run(MINUTE, |_| false);
    sim.restart();
    let all = (0..4).map(|_| sim.plain(None, Permission::Full)).collect();
    sim.run(sim.now + 5 * MINUTE, Sim::host_rests);
    sim.weather = weather;
    (sim, all)
}

/// As a client does: where the daemon is gone, again under the same word when it is back.
fn surely(sim: &mut Sim, event: impl Fn() -> Event) -> Result<Reply, Refusal> {
    loop {
        match sim.tell(event()) {
            Err(refusal) if refusal.code == "down" => sim.run(sim.now + MINUTE, |_| true),
            answer => return answer,
        }
    }
}

/// What a thread is shown of what waits for it, and has heard with that.
fn reads(sim: &mut Sim, who: &ThreadId, wanted: impl Fn(u64) -> bool, event: impl Fn(Vec<u64>) -> Event) {
    if !sim.up() {
        return;
    }
    let waiting = |sim: &Sim| -> Vec<(MessageId, u64)> {
        let queue = sim.world().threads.get(who).map(|t| t.queue.clone()).unwrap_or_default();
        queue.iter().filter_map(|m| Some((m.id.clone(), m.bus?))).collect()
    };
    let before: Vec<_> = waiting(sim).into_iter().filter(|(_, seq)| wanted(*seq)).collect();
    let seqs: Vec<u64> = before.iter().map(|(_, seq)| *seq).collect();
    let live = sim.world().threads.get(who).and_then(|t| t.turn.as_ref()).map(|t| t.id.clone());
    // Whoever reads lives on for a moment, so that it is seen what it read.
    let crash = std::mem::take(&mut sim.weather.crash);
    let told = sim.tell(event(seqs));
    sim.weather.crash = crash;
    if told.is_err() {
        return;
    }
    let same = sim.world().threads.get(who).and_then(|t| t.turn.as_ref()).map(|t| t.id.clone());
    let after: BTreeSet<MessageId> = waiting(sim).into_iter().map(|(id, _)| id).collect();
    if live == same {
        sim.heard.extend(before.into_iter().map(|(id, _)| id).filter(|id| !after.contains(id)));
    }
}

struct Storm {
    rng: Rng,
    /// What was accepted: the sender's word, and to whom.
    sent: Vec<(String, Vec<ThreadId>)>,
    answered: BTreeSet<u64>,
    calm: bool,
}

impl Storm {
    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[(self.rng.draw() % of.len() as u64) as usize]
    }

    fn send(&mut self, sim: &mut Sim, t: &[ThreadId]) {
        let kind = *self.one(&["finding", "note", "done", "question", "handoff"]);
        let fields = stewards_core::bus::kind(kind).map(|k| k.fields).unwrap_or_default();
        let from = self.one(t).clone();
        let mut to = vec![self.one(t).clone()];
        if self.rng.chance(200) {
            to.push(self.one(t).clone());
        }
        to.retain(|one| *one != from);
        to.dedup();
        if to.is_empty() {
            return;
        }
        let word = format!("word {}", self.sent.len());
        let value = |name: &str| if name == "ref" { "pr:7".to_owned() } else { word.clone() };
        let fields = fields.iter().map(|name| ((*name).to_owned(), value(name))).collect();
        let body = (kind == "note").then(|| word.clone());
        let draft = Draft { kind: kind.into(), to: to.clone(), fields, body, dedupe: Some(word.clone()) };
        if surely(sim, || Event::BusSent { caller: Caller::Thread(from.clone()), draft: draft.clone() }).is_ok() {
            self.sent.push((word, to));
        }
    }

    fn step(&mut self, sim: &mut Sim, t: &[ThreadId]) {
        let who = self.one(t).clone();
        let caller = || Caller::Thread(who.clone());
        let owed = |sim: &Sim| -> Vec<(u64, ThreadId, Option<ThreadId>)> {
            let all = sim.up().then(|| sim.world().claims.owed.values().cloned().collect::<Vec<_>>());
            all.into_iter().flatten().map(|m| (m.seq, m.to, m.from)).collect()
        };
        match self.rng.draw() % 16 {
            0..=5 => self.send(sim, t),
            6 | 7 => reads(sim, &who, |_| true, |messages| Event::BusRead { caller: caller(), messages }),
            8 | 9 => {
                let Some((seq, to, _)) = owed(sim).into_iter().find(|(_, to, _)| *to == who) else { return };
                let fields = vec![("ack_of".into(), seq.to_string()), ("answer".into(), "yes".into())];
                let draft = Draft { kind: "ack".into(), fields, ..Draft::default() };
                self.answered.insert(seq);
                let event = |_| Event::BusSent { caller: Caller::Thread(to.clone()), draft: draft.clone() };
                reads(sim, &to, |one| one == seq, event);
            }
            10 => {
                let Some((message, ..)) = owed(sim).into_iter().find(|(_, _, from)| from.as_ref() == Some(&who)) else {
                    return;
                };
                let _ = sim.tell(Event::Withdrawn { caller: caller(), message });
            }
            11 if !self.calm => {
                let last = if sim.up() { sim.world().claims.given.message } else { 0 };
                let message = self.rng.draw() % (last + 1);
                let _ = sim.tell(Event::BusRetried { caller: Caller::Person, message });
            }
            12 if !self.calm && self.rng.chance(300) => {
                let event = match self.rng.draw() % 2 {
                    0 => Event::Archived { caller: Caller::Person, thread: who, yes: true },
                    _ => Event::Unarchived { caller: Caller::Person, thread: who },
                };
                let _ = sim.tell(event);
            }
            _ => {
                let wait = *self.one(&[SECOND, 5 * SECOND, MINUTE]);
                sim.run(sim.now + wait, |_| false);
            }
        }
    }
}

/// Between two threads nothing is heard before what was sent before, but for what was
/// `answered`: who answers has found it in the log, perhaps before its turn came.
fn in_order(sim: &Sim, answered: &BTreeSet<u64>, seed: u64) {
    let mut last = BTreeMap::new();
    for (seq, from, to) in sim.bus_heard().into_iter().filter(|(seq, ..)| !answered.contains(seq)) {
        let before = last.insert((from.clone(), to.clone()), seq).unwrap_or(0);
        assert!(before < seq, "seed {seed}: {to} heard #{seq} of {from:?} after #{before}");
    }
}

#[test]
fn no_storm_loses_or_doubles_a_message_of_the_bus() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(30);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let calm = seed % 3 == 0;
        let weather = match calm {
            true => Weather { steers_refused: 300, ..Weather::calm() },
            false => Weather { tells: 0, meddles: 0, ..Weather::host_storm(&mut rng) },
        };
        let (mut sim, t) = threads(seed, weather, 0);
        let mut storm = Storm { rng, sent: Vec::new(), answered: BTreeSet::new(), calm };
        for _ in 0..80 {
            storm.step(&mut sim, &t);
        }
        sim.weather = Weather::calm();
        for thread in &t {
            let _ = surely(&mut sim, || Event::Unarchived { caller: Caller::Person, thread: thread.clone() });
            let _ = surely(&mut sim, || Event::Retried { caller: Caller::Person, thread: thread.clone() });
        }
        sim.person_acts = true;
        sim.run(sim.now + 120 * MINUTE, Sim::host_rests);
        assert!(sim.host_rests(), "seed {seed}: {:?}", sim.host_unrest());
        assert_eq!(sim.host_faults(), Vec::<String>::new(), "seed {seed}");
        for (word, to) in &storm.sent {
            for to in to {
                let rows = "SELECT count(*) FROM bus WHERE dedupe = ?1 AND addressee = ?2";
                assert_eq!(sim.count(rows, &[word.as_str(), to.as_str()]), 1, "seed {seed}: {word} to {to}");
            }
        }
        let receipts = "SELECT count(*) FROM bus b WHERE (SELECT count(*) FROM messages m WHERE m.bus = b.seq) <> 1";
        assert_eq!(sim.count(receipts, &[]), 0, "seed {seed}: a message without one receipt");
        let open =
            "SELECT count(*) FROM bus q WHERE q.owed = 1 AND EXISTS (SELECT 1 FROM bus a WHERE a.answers = q.seq)";
        assert_eq!(sim.count(open, &[]), 0, "seed {seed}: it was answered and is owed an answer");
        if calm {
            in_order(&sim, &storm.answered, seed);
        }
    }
}

#[test]
fn what_is_old_is_forgotten_but_not_what_is_owed_or_waits() {
    let (mut sim, t) = threads(1, Weather::calm(), 0);
    let send = |sim: &mut Sim, kind: &str, fields: &[(&str, &str)], to: &ThreadId| {
        let fields = fields.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let draft = Draft { kind: kind.into(), to: vec![to.clone()], fields, ..Draft::default() };
        let reply = sim.tell(Event::BusSent { caller: Caller::Thread(t[0].clone()), draft }).unwrap();
        reply.ids["message"].parse::<u64>().unwrap()
    };
    let done = [("ref", "pr:7"), ("evidence", "it is green")];
    let settled = send(&mut sim, "done", &done, &t[1]);
    let asked = send(&mut sim, "question", &[("ref", "pr:7"), ("ask", "which?")], &t[1]);
    sim.tell(Event::Claimed {
        caller: Caller::Thread(t[0].clone()),
        ask: stewards_core::bus::ClaimAsk::of("task:A-1", "work"),
    })
    .unwrap();
    sim.run(sim.now + 10 * MINUTE, Sim::host_rests);
    sim.tell(Event::Stopped { caller: Caller::Person, thread: t[2].clone() }).ok();
    sim.tell(Event::AllStopped { caller: Caller::Person, on: true }).unwrap();
    let waits = send(&mut sim, "done", &done, &t[2]);
    let has = |sim: &Sim, seq: u64| sim.count("SELECT count(*) FROM bus WHERE seq = ?1", &[&seq.to_string()]) == 1;
    sim.run(sim.now + 29 * DAY, |_| false);
    assert!(has(&sim, settled) && has(&sim, asked) && has(&sim, waits), "they are young");
    assert!(sim.count("SELECT count(*) FROM claim_history", &[]) > 0);
    sim.run(sim.now + 3 * DAY, |_| false);
    assert!(!has(&sim, settled) && has(&sim, asked) && has(&sim, waits));
    assert_eq!(sim.count("SELECT count(*) FROM claim_history", &[]), 0);
    let told = "SELECT count(*) FROM facts WHERE subject = 'claims' AND body LIKE '%it is green%'";
    assert_eq!(sim.count(told, &[]), 1, "the words went with the row, but for what waits");
    assert_eq!(sim.store().refold().unwrap(), sim.store().load().unwrap(), "what is left is whole");
    // Numbers go on.
    assert_eq!(send(&mut sim, "done", &done, &t[2]), waits + 1);
    let reply = sim.tell(Event::Claimed {
        caller: Caller::Thread(t[1].clone()),
        ask: stewards_core::bus::ClaimAsk::of("task:A-1", "work"),
    });
    assert_eq!(reply.unwrap().ids["epoch"], "2");
}

#[test]
fn beyond_so_many_messages_the_oldest_go() {
    let (mut sim, t) = threads(1, Weather::calm(), 10);
    for n in 0..40 {
        let fields = vec![("ref".into(), "pr:7".into()), ("evidence".into(), format!("run {n}"))];
        let draft = Draft { kind: "done".into(), to: vec![t[1].clone()], fields, ..Draft::default() };
        sim.tell(Event::BusSent { caller: Caller::Thread(t[0].clone()), draft }).unwrap();
    }
    sim.run(sim.now + 2 * 60 * MINUTE, |_| false);
    assert_eq!(sim.count("SELECT count(*) FROM bus", &[]), 10);
    assert_eq!(sim.count("SELECT min(seq) FROM bus", &[]), 31);
    assert_eq!(sim.count("SELECT count(*) FROM messages WHERE bus IS NOT NULL", &[]), 10);
    assert_eq!(sim.store().refold().unwrap(), sim.store().load().unwrap());
}
