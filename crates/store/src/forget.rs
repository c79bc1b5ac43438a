//! Forgetting what is old of the bus: rows and facts together, a little at a time.

use crate::{StoreError, sql};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;
use stewards_core::bus::FORGET_STEP;
use stewards_core::machine::{Fact, Subject};

/// Messages up to `up_to` or from before `before` (milliseconds), and facts of claims
/// from before that. What is owed an answer or waits to be delivered stays.
pub(crate) fn forget(conn: &Connection, before: i64, up_to: u64) -> Result<(), StoreError> {
    let by_age: u64 = conn.prepare_cached(sql::BUS_UP_TO)?.query_row([before], |r| r.get(0))?;
    conn.prepare_cached(sql::GUARD_OPEN)?.execute([])?;
    let mut touched = BTreeSet::new();
    let old: Vec<(u64, u64, u32)> = {
        let mut old = conn.prepare_cached(sql::BUS_OLD)?;
        let found =
            old.query_map(params![up_to.max(by_age), FORGET_STEP], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
        found.collect::<Result<_, _>>()?
    };
    for (seq, no, n) in old {
        conn.prepare_cached(sql::BUS_FORGET)?.execute([seq])?;
        conn.prepare_cached(sql::RECEIPT_FORGET)?.execute([seq])?;
        conn.prepare_cached(sql::FACT_FORGET)?.execute(params![no, n])?;
        touched.insert(no);
    }
    let until = first_since(conn, before)?;
    let old: Vec<(u64, u32, String)> = {
        let mut old = conn.prepare_cached(sql::FACTS_BEFORE)?;
        let with = params![Subject::Claims.to_string(), until, FORGET_STEP];
        let found = old.query_map(with, |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
        found.collect::<Result<_, _>>()?
    };
    for (no, n, body) in old {
        let fact: Fact = serde_json::from_str(&body).map_err(StoreError::row("fact"))?;
        // As long as a message stands, so does what closed it.
        let of = match &fact {
            Fact::BusSent { message } => Some(message.seq),
            Fact::OwedClosed { message, .. } => Some(*message),
            _ => None,
        };
        if let Some(seq) = of
            && conn.prepare_cached(sql::BUS_HAS)?.exists([seq])?
        {
            continue;
        }
        if let Some(key) = fact.claims() {
            conn.prepare_cached(sql::HISTORY_FORGET)?.execute(params![key, no, n])?;
        }
        conn.prepare_cached(sql::FACT_FORGET)?.execute(params![no, n])?;
        touched.insert(no);
    }
    for no in touched {
        conn.prepare_cached(sql::EVENT_FORGET)?.execute([no])?;
    }
    conn.prepare_cached(sql::GUARD_CLOSE)?.execute([])?;
    Ok(())
}

/// The number of the first event since then: events are numbered as they come.
fn first_since(conn: &Connection, at: i64) -> Result<u64, StoreError> {
    let last: u64 = conn.prepare_cached(sql::EVENT_LAST)?.query_row([], |r| r.get(0))?;
    let mut event = conn.prepare_cached(sql::EVENT_AT)?;
    let (mut low, mut high) = (0, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found: Option<(u64, i64)> = event.query_row([middle], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
        match found {
            Some((no, when)) if when < at => low = no + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}
