//! The one writer.

use crate::{StoreError, rows, sql};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;
use std::path::Path;
use stewards_core::bus::{BusMessage, OWNER};
use stewards_core::ids::{EffectId, MessageId, ThreadId, TurnId};
use stewards_core::machine::{Effect, Event, Fact, Fate, Outcome, Sent, Subject, World};
use stewards_core::moment::{Deadline, Moment};
use stewards_core::snapshot::Snapshot;

const SCHEMA: i64 = 4;
const BASELINE: &str = include_str!("baseline.sql");
/// Free pages that are given back to the disk: a megabyte.
const WORTH: u64 = 256;
/// So many pages of the log, 16 MB, are gathered before they go into the file.
const CHECKPOINT_PAGES: i64 = 4_000;
/// Pages that are kept in memory at most.
const CACHE_KB: i64 = 8_000;
/// Deliveries are remembered for seven days.
const REMEMBER: i64 = 7 * 86_400_000;

/// An effect that has no recorded answer yet.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    pub id: EffectId,
    pub effect: Effect,
    /// It was handed to its executor; whether it happened is not known.
    pub started: bool,
    /// Tries that failed.
    pub attempts: u32,
    pub not_before: Option<Deadline>,
}

/// The writer's connection.
#[derive(Debug)]
pub struct Store {
    conn: Connection,
}

impl Store {
    /// Opens or makes the file.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        crate::private_file(path).map_err(|source| StoreError::File { path: path.to_owned(), source })?;
        Store::set_up(Connection::open(path)?)
    }

    /// The real store, gone with the value.
    pub fn in_memory() -> Result<Store, StoreError> {
        Store::set_up(Connection::open_in_memory()?)
    }

    fn set_up(conn: Connection) -> Result<Store, StoreError> {
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", "ON")?;
        // Pages that are written again and again go into the file once for many commits.
        conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        conn.pragma_update(None, "cache_size", -CACHE_KB)?;
        conn.busy_timeout(std::time::Duration::from_secs(5))?;
        conn.set_prepared_statement_cache_capacity(128);
        let found: i64 = conn.pragma_query_value(None, "user_version", |r| r.get(0))?;
        match found {
            0 => {
                conn.execute_batch(&format!("BEGIN IMMEDIATE; {BASELINE} PRAGMA user_version = {SCHEMA}; COMMIT;"))?;
            }
            SCHEMA => {}
            found => return Err(StoreError::Other { found, known: SCHEMA }),
        }
        Ok(Store { conn })
    }

    /// The world as its rows say it.
    pub fn load(&self) -> Result<World, StoreError> {
        rows::load(&self.conn)
    }

    /// The world as the fold of all facts: what the rows must equal.
    pub fn refold(&self) -> Result<World, StoreError> {
        let mut world = World::default();
        let mut prepared = self.conn.prepare_cached(sql::FACTS_ALL)?;
        let mut found = prepared.query([])?;
        while let Some(row) = found.next()? {
            let subject = Subject::try_from(row.get::<_, String>(1)?).unwrap_or(Subject::Host);
            let fact: Fact = serde_json::from_str(&row.get::<_, String>(2)?).map_err(StoreError::row("fact"))?;
            let wall = jiff::Timestamp::from_millisecond(row.get(3)?).unwrap_or_default();
            let at = Moment { wall, elapsed: row.get(5)?, run: row.get(4)?, no: row.get(0)? };
            stewards_core::machine::apply(&mut world, &subject, &fact, &at);
        }
        Ok(world)
    }

    /// The number of the newest recorded event; 0 before the first.
    pub fn last_event(&self) -> Result<u64, StoreError> {
        Ok(self.conn.prepare_cached(sql::EVENT_LAST)?.query_row([], |r| r.get(0))?)
    }

    pub fn outbox(&self) -> Result<Vec<OutboxRow>, StoreError> {
        outbox(&self.conn)
    }

    /// Gives room that purged rows left back to the disk, where it is worth while;
    /// answers how many bytes.
    pub fn shrink(&self) -> Result<u64, StoreError> {
        let pages: u64 = self.conn.pragma_query_value(None, "freelist_count", |r| r.get(0))?;
        if pages < WORTH {
            return Ok(0);
        }
        // Each step of it frees one page; only the last one ends it.
        for statement in [sql::SHRINK, sql::CHECKPOINT] {
            let mut steps = self.conn.prepare(statement)?;
            let mut rows = steps.query([])?;
            while rows.next()?.is_some() {}
        }
        let size: u64 = self.conn.pragma_query_value(None, "page_size", |r| r.get(0))?;
        Ok(pages * size)
    }

    /// Begins a group of events that commit together.
    pub fn batch(&mut self) -> Result<Batch<'_>, StoreError> {
        let tx = self.conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        Ok(Batch { tx })
    }

    /// The bare connection, for tests of the schema.
    pub fn connection(&self) -> &Connection {
        &self.conn
    }
}

fn outbox(conn: &Connection) -> Result<Vec<OutboxRow>, StoreError> {
    let mut prepared = conn.prepare_cached(sql::EFFECTS)?;
    let mut found = prepared.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let not_before: Option<String> = row.get(3)?;
        all.push(OutboxRow {
            id: EffectId(row.get(0)?),
            started: row.get::<_, String>(1)? == "started",
            attempts: row.get(2)?,
            not_before: not_before.map(|t| serde_json::from_str(&t)).transpose().map_err(StoreError::row("outbox"))?,
            effect: serde_json::from_str(&row.get::<_, String>(4)?).map_err(StoreError::row("effect"))?,
        });
    }
    Ok(all)
}

/// One transaction. Dropped without [`Batch::commit`] it leaves nothing.
#[derive(Debug)]
pub struct Batch<'a> {
    tx: rusqlite::Transaction<'a>,
}

impl Batch<'_> {
    pub fn commit(self) -> Result<(), StoreError> {
        Ok(self.tx.commit()?)
    }

    /// What a sender of the bus has sent before: of this kind under a key of its own, and since
    /// `since` (milliseconds), counted up to `most`.
    pub fn sent(
        &self,
        sender: Option<&ThreadId>,
        (kind, key): (&str, Option<&str>),
        since: i64,
        most: u32,
    ) -> Result<Sent, StoreError> {
        let sender = sender.map_or(OWNER, ThreadId::as_str);
        let mut sent = Sent::default();
        if let Some(key) = key {
            let mut same = self.tx.prepare_cached(sql::BUS_SAME)?;
            let mut rows = same.query(params![key, sender, kind])?;
            while let Some(row) = rows.next()? {
                sent.same.insert(ThreadId(row.get(0)?), row.get(1)?);
            }
        }
        let mut recent = self.tx.prepare_cached(sql::BUS_RECENT)?;
        sent.recent = recent.query_row(params![sender, since, most], |r| r.get(0))?;
        Ok(sent)
    }

    /// A message of the bus, with how far it has come.
    pub fn bus_message(&self, seq: u64) -> Result<Option<(BusMessage, Option<String>)>, StoreError> {
        let mut one = self.tx.prepare_cached(sql::BUS_ONE)?;
        let found = one.query_row([seq], |r| Ok((r.get::<_, String>(0)?, r.get(1)?))).optional()?;
        let read =
            |(body, state): (String, _)| Ok((serde_json::from_str(&body).map_err(StoreError::row("bus"))?, state));
        found.map(read).transpose()
    }

    /// This webhook delivery was taken before.
    pub fn delivered(&self, delivery: &str) -> Result<bool, StoreError> {
        let mut seen = self.tx.prepare_cached(sql::DELIVERY_SEEN)?;
        Ok(seen.query_row([delivery], |_| Ok(())).optional()?.is_some())
    }

    pub fn snapshot(&self, hash: &str) -> Result<Option<Snapshot>, StoreError> {
        let mut get = self.tx.prepare_cached(sql::SNAPSHOT_GET)?;
        let body: Option<String> = get.query_row([hash], |r| r.get(0)).optional()?;
        body.map(|b| serde_json::from_str(&b)).transpose().map_err(StoreError::row("snapshot"))
    }

    pub fn outbox(&self) -> Result<Vec<OutboxRow>, StoreError> {
        outbox(&self.tx)
    }

    pub fn effect_started(&self, id: &EffectId) -> Result<(), StoreError> {
        self.tx.prepare_cached(sql::EFFECT_START)?.execute([id.as_str()])?;
        Ok(())
    }

    /// The same effect runs again after a restart.
    pub fn effect_again(&self, id: &EffectId, attempts: u32, not_before: Option<&Deadline>) -> Result<(), StoreError> {
        let not_before = not_before.map(serde_json::to_string).transpose().map_err(StoreError::row("outbox"))?;
        self.tx.prepare_cached(sql::EFFECT_AGAIN)?.execute(params![id.as_str(), attempts, not_before])?;
        Ok(())
    }

    /// Records an event with all it left behind, in a savepoint of its own. An
    /// event that left nothing leaves no line either.
    pub fn record(&self, event: &Event, outcome: &Outcome) -> Result<(), StoreError> {
        self.run(sql::SAVEPOINT)?;
        match self.record_inner(event, outcome) {
            Ok(()) => self.run(sql::SAVEPOINT_RELEASE),
            Err(error) => {
                self.run(sql::SAVEPOINT_BACK)?;
                self.run(sql::SAVEPOINT_RELEASE)?;
                Err(error)
            }
        }
    }

    fn run(&self, statement: &str) -> Result<(), StoreError> {
        self.tx.prepare_cached(statement)?.execute([])?;
        Ok(())
    }

    fn record_inner(&self, event: &Event, outcome: &Outcome) -> Result<(), StoreError> {
        let now = &outcome.now;
        if let Event::Answered { id, attempts, .. } = event {
            match &outcome.fate {
                Fate::Done => {
                    self.tx.prepare_cached(sql::EFFECT_DONE)?.execute([id.as_str()])?;
                }
                Fate::Again(at) => self.effect_again(id, *attempts, Some(at))?,
            }
        }
        if outcome.facts.is_empty() && outcome.effects.is_empty() {
            return Ok(());
        }
        let at = now.wall.as_millisecond();
        let body = event.journal().to_string();
        self.tx.prepare_cached(sql::EVENT_ADD)?.execute(params![
            now.no,
            now.run,
            at,
            now.elapsed,
            event.subject().to_string(),
            body
        ])?;
        for (hash, snapshot) in &outcome.keep {
            self.tx.prepare_cached(sql::SNAPSHOT_ADD)?.execute(params![hash, snapshot.body()])?;
        }
        let mut saved: BTreeSet<&Subject> = BTreeSet::new();
        for (n, (subject, fact)) in outcome.facts.iter().enumerate() {
            let body = serde_json::to_string(fact).map_err(StoreError::row("fact"))?;
            self.tx.prepare_cached(sql::FACT_ADD)?.execute(params![now.no, n, subject.to_string(), body])?;
            self.project(subject, fact, now, n)?;
            if let Some(key) = fact.claims() {
                self.tx.prepare_cached(sql::HISTORY_ADD)?.execute(params![key, now.no, n])?;
            }
            if *subject == Subject::Claims || saved.insert(subject) {
                rows::save(&self.tx, &outcome.world, subject, fact)?;
            }
        }
        for (id, effect) in &outcome.effects {
            let body = serde_json::to_string(effect).map_err(StoreError::row("effect"))?;
            self.tx.prepare_cached(sql::EFFECT_ADD)?.execute(params![id.as_str(), effect.key(id), body])?;
        }
        Ok(())
    }

    /// Tables that are not in memory follow the facts here.
    fn project(&self, subject: &Subject, fact: &Fact, now: &Moment, n: usize) -> Result<(), StoreError> {
        let at = now.wall.as_millisecond();
        match (subject, fact) {
            (_, Fact::RunBegan { .. }) => {
                self.tx.prepare_cached(sql::DELIVERIES_FORGET)?.execute([at - REMEMBER])?;
            }
            (_, Fact::DeliveryTaken { delivery, .. }) => {
                self.tx.prepare_cached(sql::DELIVERY_ADD)?.execute(params![delivery, at])?;
            }
            (Subject::Thread(id), Fact::MessageAccepted { message }) => {
                let sender = serde_json::to_string(&message.from).map_err(StoreError::row("sender"))?;
                if let Some(bus) = message.bus {
                    self.tx.prepare_cached(sql::MESSAGE_SUPERSEDED)?.execute([bus])?;
                }
                let row = params![
                    message.id.as_str(),
                    id.as_str(),
                    sender,
                    message.cause,
                    message.text,
                    at,
                    message.bus,
                    message.wake,
                    message.steer
                ];
                self.tx.prepare_cached(sql::MESSAGE_ADD)?.execute(row)?;
            }
            (_, Fact::TurnBegan { turn, messages, .. }) => {
                self.message_states(messages, "handed", Some(turn))?;
            }
            (_, Fact::TurnConfirmed { turn, .. }) => self.settle(turn, "consumed")?,
            (_, Fact::TurnEnded { turn, end, .. }) => {
                // An agent that ends a turn has had its messages; one that failed
                // before its first word may not.
                let state =
                    if matches!(end, stewards_core::ports::TurnEnd::Failed { .. }) { "failed" } else { "consumed" };
                self.settle(turn, state)?;
            }
            (_, Fact::TurnCut { turn, .. }) => self.settle(turn, "unknown")?,
            (_, Fact::Archived { failed }) => self.message_states(failed, "failed", None)?,
            (_, Fact::Steering { turn, messages }) => self.message_states(messages, "handed", Some(turn))?,
            (_, Fact::Steered { turn, messages }) => self.message_states(messages, "consumed", Some(turn))?,
            (_, Fact::SteeredBack { messages }) => {
                for message in messages {
                    self.tx.prepare_cached(sql::MESSAGE_BACK)?.execute([message.as_str()])?;
                }
            }
            (_, Fact::SteerLost { messages, known }) => {
                self.message_states(messages, if *known { "failed" } else { "unknown" }, None)?;
            }
            (_, Fact::MessageDropped { message }) => {
                self.message_states(std::slice::from_ref(message), "dropped", None)?;
            }
            (_, Fact::MessagesRead { turn, messages }) => self.message_states(messages, "consumed", turn.as_ref())?,
            (Subject::Thread(id), Fact::Deleted) => {
                self.tx.prepare_cached(sql::TRANSCRIPT_PURGE)?.execute([id.as_str()])?;
                self.tx.prepare_cached(sql::MESSAGES_PURGE)?.execute([id.as_str()])?;
            }
            (_, Fact::BusSent { message }) => {
                let body = serde_json::to_string(message).map_err(StoreError::row("bus"))?;
                let (from, to) = (message.sender(), message.to.as_str());
                let owed = message.owes();
                let (kind, reference, dedupe) = (&message.kind, &message.about, &message.dedupe);
                let (answers, no) = (message.answers(), now.no);
                self.tx.prepare_cached(sql::BUS_ADD)?.execute(params![
                    message.seq,
                    kind,
                    from,
                    to,
                    reference,
                    at,
                    owed,
                    dedupe,
                    answers,
                    no,
                    n,
                    body
                ])?;
                if let Some(answered) = message.answers() {
                    self.tx.prepare_cached(sql::BUS_CLOSED)?.execute([answered])?;
                }
            }
            (_, Fact::BusForgotten { before, up_to, .. }) => {
                crate::forget::forget(&self.tx, before.as_millisecond(), *up_to)?;
            }
            (_, Fact::OwedClosed { message, .. }) => {
                self.tx.prepare_cached(sql::BUS_CLOSED)?.execute([message])?;
            }
            _ => {}
        }
        Ok(())
    }

    fn message_states(&self, of: &[MessageId], state: &str, turn: Option<&TurnId>) -> Result<(), StoreError> {
        let turn = turn.map(TurnId::as_str);
        for message in of {
            self.tx.prepare_cached(sql::MESSAGE_STATE)?.execute(params![message.as_str(), state, turn])?;
        }
        Ok(())
    }

    fn settle(&self, turn: &TurnId, state: &str) -> Result<(), StoreError> {
        self.tx.prepare_cached(sql::MESSAGES_OF_TURN)?.execute(params![turn.as_str(), state])?;
        Ok(())
    }

    /// Adds a line of a transcript: `body` is JSON.
    pub fn transcribe(&self, thread: &ThreadId, turn: &TurnId, at: i64, body: &str) -> Result<(), StoreError> {
        self.tx.prepare_cached(sql::TRANSCRIPT_ADD)?.execute(params![thread.as_str(), turn.as_str(), at, body])?;
        Ok(())
    }
}
