//! Threads and their places as people see them: described once, shown by page
//! and command line.

use super::{ContextUse, EnvironmentState, Permission, Role, Status, Thread, Tokens, waits_for};
use crate::machine::World;
use crate::moment::Moment;
use crate::text::one_line;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One thread in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    pub id: String,
    pub title: String,
    pub role: Role,
    pub status: &'static str,
    pub parent: Option<String>,
    pub owner: Option<String>,
    pub project: String,
    /// The effort's key.
    pub key: Option<String>,
    pub model: String,
    pub permission: Permission,
    pub turns: u64,
    pub tokens: Tokens,
    /// How full its context is; nothing where that is not known.
    pub context: Option<ContextUse>,
    pub queued: usize,
    /// Why what is queued is not begun with.
    pub waits: Option<String>,
    /// Questions of its agent that wait for the person.
    pub asks: usize,
    pub archived: bool,
    pub unread: bool,
    pub hidden: bool,
    pub notify_parent: bool,
    pub branch: Option<String>,
    pub error: Option<String>,
    /// What other programs keep here, by name.
    pub metadata: BTreeMap<String, serde_json::Value>,
    pub last_words: String,
}

/// Where a thread works, in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvironmentRow {
    pub thread: String,
    pub title: String,
    pub kind: &'static str,
    pub state: &'static str,
    pub branch: Option<String>,
    pub path: Option<PathBuf>,
    /// Why it failed, or why it was kept.
    pub says: Option<String>,
    pub archived: bool,
    /// When it is removed.
    pub removed_at: Option<Timestamp>,
    /// Bytes on disk, where somebody has looked.
    pub bytes: Option<u64>,
}

pub fn thread_row(world: &World, thread: &Thread, now: &Moment) -> ThreadRow {
    ThreadRow {
        id: thread.id.to_string(),
        title: thread.title.clone(),
        role: thread.role,
        status: status(thread),
        parent: thread.parent.as_ref().map(ToString::to_string),
        owner: thread.owner.as_ref().map(ToString::to_string),
        project: world.projects.get(&thread.project).map(|p| p.name.clone()).unwrap_or_default(),
        key: thread.binding.as_ref().and_then(|b| world.bindings.get(b)).map(|b| b.key.clone()),
        model: thread.model.to_string(),
        permission: thread.permission,
        turns: thread.turns,
        tokens: thread.tokens,
        context: thread.context,
        queued: thread.queue.len() + thread.steering.len(),
        waits: waits_for(world, thread, now).map(|w| w.to_string()),
        asks: thread.asks.len(),
        archived: thread.archived.is_some(),
        unread: thread.unread,
        hidden: thread.hidden,
        notify_parent: thread.notify_parent,
        branch: thread.branch().map(str::to_owned),
        error: thread.error.clone().or_else(|| no_place(thread)),
        metadata: thread.metadata.clone(),
        last_words: one_line(&thread.last_words),
    }
}

/// How it is shown: what it was put away as comes before what it last did.
fn status(thread: &Thread) -> &'static str {
    match (thread.deleted, thread.archived) {
        (Some(_), _) => "deleted",
        (None, Some(_)) if thread.status != Status::Stopping => "archived",
        _ => thread.status.word(),
    }
}

fn no_place(thread: &Thread) -> Option<String> {
    match &thread.environment.state {
        EnvironmentState::Failed { says } => Some(format!("its environment could not be made: {says}")),
        _ => None,
    }
}

/// All threads but deleted ones, oldest first.
pub fn thread_rows(world: &World, now: &Moment) -> Vec<ThreadRow> {
    world.threads.values().filter(|t| t.deleted.is_none()).map(|t| thread_row(world, t, now)).collect()
}

/// The places of threads that have, had or should have had one of their own, and
/// the checkouts that others share. Those of deleted threads only while they stand.
pub fn environment_rows(world: &World) -> Vec<EnvironmentRow> {
    let stands = |t: &Thread| {
        matches!(
            t.environment.state,
            EnvironmentState::Ready { .. } | EnvironmentState::MovedAside { .. } | EnvironmentState::Removing
        )
    };
    let listed = world.threads.values().filter(|t| t.deleted.is_none() || stands(t));
    listed.filter(|t| t.environment.state != EnvironmentState::Unmade).map(environment_row).collect()
}

fn environment_row(thread: &Thread) -> EnvironmentRow {
    let (path, says) = match &thread.environment.state {
        EnvironmentState::Ready { path } => (Some(path.clone()), None),
        EnvironmentState::MovedAside { path, why } => (Some(path.clone()), Some(why.clone())),
        EnvironmentState::Failed { says } => (None, Some(says.clone())),
        _ => (None, None),
    };
    EnvironmentRow {
        thread: thread.id.to_string(),
        title: thread.title.clone(),
        kind: thread.environment.kind.word(),
        state: thread.environment.state.word(),
        branch: thread.branch().map(str::to_owned),
        path,
        says,
        archived: thread.archived.is_some(),
        removed_at: thread.remove_by.as_ref().map(|d| d.wall),
        bytes: None,
    }
}
