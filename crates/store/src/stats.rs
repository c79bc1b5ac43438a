//! What the bus is used for, counted.

use crate::{Reader, StoreError, sql};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stewards_core::bus::KINDS;

/// Senders that are named at most.
const SENDERS: u32 = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    pub kind: String,
    pub messages: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderCount {
    /// A thread, or `owner`.
    pub sender: String,
    pub messages: u64,
}

/// Numbers of the messages that are kept, or of those since some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusStats {
    pub messages: u64,
    /// In the order of the kind table, those that were never sent among them.
    pub kinds: Vec<KindCount>,
    /// Messages of the kind `note`, of all: 0 to 1. Prose that found no kind.
    pub note_share: f64,
    /// How many have not arrived, by state: queued, handed, unknown, failed. Of all times.
    pub undelivered: BTreeMap<String, u64>,
    /// Answers, and the milliseconds from question to answer at the median.
    pub answers: u64,
    pub median_ms_to_answer: Option<i64>,
    /// The busiest first.
    pub senders: Vec<SenderCount>,
}

impl Reader {
    /// `since` in milliseconds.
    pub fn bus_stats(&self, since: i64) -> Result<BusStats, StoreError> {
        let mut kinds = Vec::new();
        let mut of_kind = self.conn.prepare_cached(sql::BUS_OF_KIND)?;
        for kind in &KINDS {
            let messages = of_kind.query_row(params![kind.name, since], |r| r.get(0))?;
            kinds.push(KindCount { kind: kind.name.to_owned(), messages });
        }
        let messages: u64 = kinds.iter().map(|k| k.messages).sum();
        let notes = kinds.iter().find(|k| k.kind == "note").map_or(0, |k| k.messages);
        let mut states = self.conn.prepare_cached(sql::BUS_STATES)?;
        let undelivered = states.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_, _>>()?;
        let mut times = self.conn.prepare_cached(sql::BUS_ANSWER_TIMES)?;
        let mut times: Vec<i64> = times.query_map([since], |r| r.get(0))?.collect::<Result<_, _>>()?;
        times.sort_unstable();
        let mut senders = self.conn.prepare_cached(sql::BUS_SENDERS)?;
        let sender = |r: &rusqlite::Row<'_>| Ok(SenderCount { sender: r.get(0)?, messages: r.get(1)? });
        let senders = senders.query_map(params![since, SENDERS], sender)?.collect::<Result<_, _>>()?;
        Ok(BusStats {
            messages,
            kinds,
            note_share: if messages == 0 { 0.0 } else { notes as f64 / messages as f64 },
            undelivered,
            answers: times.len() as u64,
            median_ms_to_answer: times.get(times.len() / 2).copied(),
            senders,
        })
    }
}
