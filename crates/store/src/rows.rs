//! Rows as they are saved and loaded.

use crate::{StoreError, sql};
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use stewards_core::bus::{BusMessage, Claim, Waiter};
use stewards_core::ids::{MessageId, ThreadId};
use stewards_core::machine::{Fact, Host, Project, Subject, World};
use stewards_core::stewards::{Binding, Need};
use stewards_core::threads::{Queued, Thread};

fn all<T: DeserializeOwned>(conn: &Connection, statement: &str, what: &str) -> Result<Vec<T>, StoreError> {
    let mut prepared = conn.prepare_cached(statement)?;
    let mut rows = prepared.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?.as_str().map_err(|e| StoreError::Sql(e.into()))?;
        found.push(serde_json::from_str(body).map_err(StoreError::row(what))?);
    }
    Ok(found)
}

pub(crate) fn meta(conn: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    use rusqlite::OptionalExtension;
    Ok(conn.prepare_cached(sql::META_GET)?.query_row([key], |r| r.get(0)).optional()?)
}

/// The world as its rows say it.
pub(crate) fn load(conn: &Connection) -> Result<World, StoreError> {
    let mut world = World::default();
    if let Some(host) = meta(conn, "host")? {
        world.host = serde_json::from_str::<Host>(&host).map_err(StoreError::row("host"))?;
    }
    for row in all::<Project>(conn, sql::PROJECTS, "project")? {
        world.projects.insert(row.id.clone(), row);
    }
    for row in all::<Binding>(conn, sql::BINDINGS, "binding")? {
        world.bindings.insert(row.id.clone(), row);
    }
    for row in all::<Thread>(conn, sql::THREADS, "thread")? {
        world.threads.insert(row.id.clone(), row);
    }
    let mut waiting = conn.prepare_cached(sql::MESSAGES_QUEUED)?;
    let mut rows = waiting.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(thread) = world.threads.get_mut(&ThreadId(row.get(0)?)) {
            queued(row)?.join(&mut thread.queue);
        }
    }
    for row in all::<Need>(conn, sql::NEEDS, "need")? {
        world.needs.insert(row.id.clone(), row);
    }
    for row in all::<Claim>(conn, sql::CLAIMS, "claim")? {
        world.claims.held.insert(row.key.clone(), row);
    }
    for row in all::<Waiter>(conn, sql::WAITERS, "waiter")? {
        world.claims.waiters.insert(row.seq, row);
    }
    for row in all::<BusMessage>(conn, sql::BUS_OWED, "bus")? {
        world.claims.owed.insert(row.seq, row);
    }
    if let Some(given) = meta(conn, "given")? {
        world.claims.given = serde_json::from_str(&given).map_err(StoreError::row("given"))?;
    }
    Ok(world)
}

/// A message that waits, as [`sql::MESSAGES_QUEUED`] has it.
fn queued(row: &Row<'_>) -> Result<Queued, StoreError> {
    Ok(Queued {
        id: MessageId(row.get(1)?),
        from: serde_json::from_str(&row.get::<_, String>(2)?).map_err(StoreError::row("sender"))?,
        cause: row.get(3)?,
        text: row.get(4)?,
        at: jiff::Timestamp::from_millisecond(row.get(5)?).unwrap_or_default(),
        bus: row.get(6)?,
        wake: row.get(7)?,
        steer: row.get(8)?,
        back: row.get(9)?,
    })
}

fn json<T: serde::Serialize>(row: &T, what: &str) -> Result<String, StoreError> {
    serde_json::to_string(row).map_err(StoreError::row(what))
}

/// Saves the row of a subject as it now stands. The claims book saves what the
/// fact touched, since it is one subject with many rows.
pub(crate) fn save(conn: &Connection, world: &World, subject: &Subject, fact: &Fact) -> Result<(), StoreError> {
    match subject {
        Subject::Host => {
            conn.prepare_cached(sql::META_PUT)?.execute(params!["host", json(&world.host, "host")?])?;
        }
        Subject::Project(id) => {
            if let Some(row) = world.projects.get(id) {
                conn.prepare_cached(sql::PROJECT_PUT)?.execute(params![
                    id.as_str(),
                    row.deleted.is_none().then(|| row.repo.folded()),
                    json(row, "project")?
                ])?;
            }
        }
        Subject::Binding(id) => match world.bindings.get(id) {
            Some(row) => {
                let entity = row.entity.canonical();
                conn.prepare_cached(sql::BINDING_PUT)?.execute(params![
                    id.as_str(),
                    entity,
                    row.project.as_str(),
                    json(row, "binding")?
                ])?;
            }
            None => {
                conn.prepare_cached(sql::BINDING_DELETE)?.execute([id.as_str()])?;
            }
        },
        Subject::Thread(id) => {
            if let Some(row) = world.threads.get(id) {
                conn.prepare_cached(sql::THREAD_PUT)?.execute(params![
                    id.as_str(),
                    row.project.as_str(),
                    json(row, "thread")?
                ])?;
            }
        }
        Subject::Need(id) => {
            if let Some(row) = world.needs.get(id) {
                conn.prepare_cached(sql::NEED_PUT)?.execute(params![
                    id.as_str(),
                    row.project.as_str(),
                    json(row, "need")?
                ])?;
            }
        }
        Subject::Claims => match fact {
            Fact::ClaimRenewed { key, .. } | Fact::ClaimWanted { key, .. } | Fact::ClaimWarned { key } => {
                put_claim(conn, world, key)?;
            }
            Fact::ClaimAwaited { waiter } => {
                let row = params![waiter.seq, waiter.key, waiter.who.as_str(), json(waiter, "waiter")?];
                conn.prepare_cached(sql::WAITER_PUT)?.execute(row)?;
                put_given(conn, world)?;
            }
            Fact::ClaimUnawaited { seq, .. } => {
                conn.prepare_cached(sql::WAITER_DELETE)?.execute([seq])?;
            }
            Fact::ClaimTaken { claim, .. } => {
                put_claim(conn, world, &claim.key)?;
                put_given(conn, world)?;
            }
            Fact::ClaimReleased { key, .. } => {
                conn.prepare_cached(sql::CLAIM_DELETE)?.execute([key])?;
            }
            Fact::BusSent { .. } | Fact::BusForgotten { .. } => put_given(conn, world)?,
            _ => {}
        },
    }
    Ok(())
}

fn put_given(conn: &Connection, world: &World) -> Result<(), StoreError> {
    conn.prepare_cached(sql::META_PUT)?.execute(params!["given", json(&world.claims.given, "given")?])?;
    Ok(())
}

/// The claim as it stands; one that a later fact took away has no row.
fn put_claim(conn: &Connection, world: &World, key: &String) -> Result<(), StoreError> {
    if let Some(claim) = world.claims.held.get(key) {
        let holder = claim.holder.as_ref().map(|h| h.as_str());
        conn.prepare_cached(sql::CLAIM_PUT)?.execute(params![claim.key, holder, json(claim, "claim")?])?;
    }
    Ok(())
}
