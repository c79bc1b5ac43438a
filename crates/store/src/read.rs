//! Short, read-only looks into the file: for pages, and for the command line
//! while no daemon runs.

use crate::{StoreError, rows, sql};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::Serialize;
use std::path::Path;
use stewards_core::bus::BusMessage;
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Fact, Subject, World};
use stewards_core::snapshot::Snapshot;
use stewards_core::stewards::{Binding, about, belongs, concerns, line};
use stewards_core::threads::Sender;

/// One fact of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalLine {
    /// The event's number, and the fact's place in it.
    pub no: u64,
    pub n: u32,
    pub subject: Subject,
    pub fact: Fact,
    /// Milliseconds.
    pub at: i64,
}

/// The same line for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    pub no: u64,
    pub at: jiff::Timestamp,
    pub subject: Subject,
    /// Whom it is about, as people call it.
    pub about: String,
    pub line: String,
}

impl JournalLine {
    /// Nothing for a fact that only the machine cares about.
    pub fn told(&self, world: &World) -> Option<Told> {
        Some(Told {
            no: self.no,
            at: jiff::Timestamp::from_millisecond(self.at).unwrap_or_default(),
            about: about(world, &self.subject),
            line: line(&self.fact)?,
            subject: self.subject.clone(),
        })
    }
}

/// A message's receipt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageRow {
    pub id: String,
    pub thread: String,
    pub sender: Sender,
    pub cause: String,
    pub text: String,
    /// Milliseconds.
    pub at: i64,
    /// queued, handed, consumed, dropped, unknown or failed.
    pub state: String,
    pub turn: Option<String>,
    pub bus: Option<u64>,
}

/// Which messages of the bus are asked for.
#[derive(Clone, Debug, Default)]
pub struct BusFilter {
    pub kind: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    /// What it is about, in the spelling that the core gave it.
    pub about: Option<String>,
    /// Milliseconds; from then on.
    pub since: Option<i64>,
    /// Milliseconds; earlier than that.
    pub before: Option<i64>,
    pub limit: u32,
}

/// A message of the bus, and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusRow {
    #[serde(flatten)]
    pub message: BusMessage,
    /// queued, handed, consumed, dropped, unknown or failed; nothing where its thread is gone.
    pub state: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TranscriptLine {
    pub id: i64,
    pub turn: String,
    /// Milliseconds.
    pub at: i64,
    pub body: serde_json::Value,
}

/// A read-only connection.
#[derive(Debug)]
pub struct Reader {
    pub(crate) conn: Connection,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        let conn =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        conn.busy_timeout(std::time::Duration::from_secs(2))?;
        Ok(Reader { conn })
    }

    /// The world as its rows say it, for a command line without a daemon.
    pub fn world(&self) -> Result<World, StoreError> {
        rows::load(&self.conn)
    }

    /// Writes a whole copy of the file, as it is at this moment, to a place where
    /// nothing is yet. The daemon may go on meanwhile.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.conn.prepare_cached(sql::BACKUP)?.execute([to.to_string_lossy()])?;
        Ok(())
    }

    /// Facts of events after `after`, oldest first.
    pub fn journal(&self, after: u64, limit: u32) -> Result<Vec<JournalLine>, StoreError> {
        self.facts(sql::FACTS_AFTER, params![after, limit])
    }

    /// The facts of an effort's whole story, oldest first: its own, its
    /// threads', its items', and what the bus did for them.
    pub fn story(&self, world: &World, binding: &Binding) -> Result<Vec<Told>, StoreError> {
        let mut all = Vec::new();
        for subject in concerns(world, binding) {
            all.extend(self.facts(sql::FACTS_OF, params![subject.to_string()])?);
        }
        all.retain(|l| belongs(world, binding, &l.subject, &l.fact));
        all.sort_by_key(|l| (l.no, l.n));
        Ok(all.iter().filter_map(|l| l.told(world)).collect())
    }

    /// What became of a resource, by its key: the newest so many, oldest first.
    pub fn claim_history(&self, world: &World, key: &str, limit: u32) -> Result<Vec<Told>, StoreError> {
        let mut all = self.facts(sql::HISTORY_OF, params![key, limit])?;
        all.reverse();
        Ok(all.iter().filter_map(|l| l.told(world)).collect())
    }

    fn facts(&self, statement: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<JournalLine>, StoreError> {
        let mut prepared = self.conn.prepare_cached(statement)?;
        let mut found = prepared.query(with)?;
        let mut all = Vec::new();
        while let Some(row) = found.next()? {
            let subject = Subject::try_from(row.get::<_, String>(2)?).unwrap_or(Subject::Host);
            let fact = serde_json::from_str(&row.get::<_, String>(3)?).map_err(StoreError::row("fact"))?;
            all.push(JournalLine { no: row.get(0)?, n: row.get(1)?, subject, fact, at: row.get(4)? });
        }
        Ok(all)
    }

    pub fn snapshot(&self, hash: &str) -> Result<Option<Snapshot>, StoreError> {
        let mut get = self.conn.prepare_cached(sql::SNAPSHOT_GET)?;
        let body: Option<String> = get.query_row([hash], |r| r.get(0)).optional()?;
        body.map(|b| serde_json::from_str(&b)).transpose().map_err(StoreError::row("snapshot"))
    }

    pub fn messages_of(&self, thread: &ThreadId) -> Result<Vec<MessageRow>, StoreError> {
        self.receipts(sql::MESSAGES_OF, params![thread.as_str()])
    }

    /// Accepted and not settled yet.
    pub fn open_messages(&self) -> Result<Vec<MessageRow>, StoreError> {
        self.receipts(sql::MESSAGES_OPEN, params![])
    }

    fn receipts(&self, statement: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<MessageRow>, StoreError> {
        let read = |r: &Row<'_>| {
            Ok(MessageRow {
                id: r.get(0)?,
                thread: r.get(1)?,
                sender: serde_json::from_str(&r.get::<_, String>(2)?)
                    .map_err(|e| rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, e.into()))?,
                cause: r.get(3)?,
                text: r.get(4)?,
                at: r.get(5)?,
                state: r.get(6)?,
                turn: r.get(7)?,
                bus: r.get(8)?,
            })
        };
        let mut prepared = self.conn.prepare_cached(statement)?;
        let found: Result<Vec<_>, _> = prepared.query_map(with, read)?.collect();
        Ok(found?)
    }

    /// The newest messages that fit, oldest first.
    pub fn bus_log(&self, of: &BusFilter) -> Result<Vec<BusRow>, StoreError> {
        let statement = match (&of.from, &of.to, &of.about, &of.kind) {
            (Some(_), Some(_), _, _) => sql::BUS_LOG_SENDER_ADDRESSEE,
            (_, _, Some(_), Some(_)) => sql::BUS_LOG_REF_KIND,
            (_, _, Some(_), None) => sql::BUS_LOG_REF,
            (Some(_), None, None, Some(_)) => sql::BUS_LOG_SENDER_KIND,
            (Some(_), None, None, None) => sql::BUS_LOG_SENDER,
            (None, Some(_), None, Some(_)) => sql::BUS_LOG_ADDRESSEE_KIND,
            (None, Some(_), None, None) => sql::BUS_LOG_ADDRESSEE,
            (None, None, None, Some(_)) => sql::BUS_LOG_KIND,
            (None, None, None, None) => sql::BUS_LOG,
        };
        let since = of.since.unwrap_or(i64::MIN);
        let before = of.before.unwrap_or(i64::MAX);
        self.bus_rows(statement, params![of.kind, of.from, of.to, of.about, since, before, of.limit])
    }

    /// What a thread was sent and has not been given yet, oldest first.
    pub fn bus_unread(&self, thread: &ThreadId, limit: u32) -> Result<Vec<BusRow>, StoreError> {
        self.bus_rows(sql::BUS_UNREAD, params![thread.as_str(), limit])
    }

    /// What waits, failed, or may have been lost with the daemon: the newest, oldest first.
    pub fn bus_undelivered(&self, limit: u32) -> Result<Vec<BusRow>, StoreError> {
        let mut all = self.bus_rows(sql::BUS_UNDELIVERED, params![limit])?;
        all.reverse();
        Ok(all)
    }

    fn bus_rows(&self, statement: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<BusRow>, StoreError> {
        let mut prepared = self.conn.prepare_cached(statement)?;
        let mut found = prepared.query(with)?;
        let mut all = Vec::new();
        while let Some(row) = found.next()? {
            let message = serde_json::from_str(&row.get::<_, String>(0)?).map_err(StoreError::row("bus"))?;
            all.push(BusRow { message, state: row.get(1)? });
        }
        Ok(all)
    }

    /// Lines after a known one, oldest first.
    pub fn transcript(&self, thread: &ThreadId, after: i64, limit: u32) -> Result<Vec<TranscriptLine>, StoreError> {
        self.lines(sql::TRANSCRIPT_OF, params![thread.as_str(), after, limit])
    }

    /// The newest lines, oldest first.
    pub fn transcript_end(&self, thread: &ThreadId, limit: u32) -> Result<Vec<TranscriptLine>, StoreError> {
        self.lines(sql::TRANSCRIPT_END, params![thread.as_str(), limit])
    }

    fn lines(&self, statement: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<TranscriptLine>, StoreError> {
        let mut prepared = self.conn.prepare_cached(statement)?;
        let mut found = prepared.query(with)?;
        let mut all = Vec::new();
        while let Some(row) = found.next()? {
            let body = serde_json::from_str(&row.get::<_, String>(3)?).map_err(StoreError::row("transcript"))?;
            all.push(TranscriptLine { id: row.get(0)?, turn: row.get(1)?, at: row.get(2)?, body });
        }
        Ok(all)
    }
}
