//! Facts of a thread, folded into its row.

use super::{Fact, World};
use crate::ids::{MessageId, ThreadId};
use crate::moment::Moment;
use crate::ports::TurnEnd;
use crate::threads::{
    Can, EnvironmentKind, EnvironmentState, FailedTurn, Queued, SETTLED, Settled, Status, Thread, Tokens, Turn,
    remember,
};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

const HOUR: i64 = 3_600_000;

pub(super) fn apply(world: &mut World, id: &ThreadId, fact: &Fact, at: &Moment) {
    if let Fact::ThreadCreated { .. } = fact {
        created(world, id, fact, at);
        return;
    }
    let settings = world.host.settings.clone();
    let Some(row) = world.threads.get_mut(id) else { return };
    match fact {
        Fact::MessageAccepted { message } => {
            message.clone().join(&mut row.queue);
            row.held = false;
        }
        Fact::MessageDropped { message } => row.queue.retain(|m| m.id != *message),
        Fact::MessagesRead { turn, messages } => {
            let read = leave(&mut row.queue, messages);
            if let Some(live) = row.turn.as_mut().filter(|t| Some(&t.id) == turn.as_ref()) {
                live.messages.extend(read);
            }
        }
        Fact::EnvironmentIs { state } => {
            row.environment.state = state.clone();
            row.remove_by = None;
            // It may have been archived while its place was being made.
            set_removal(row, at, &settings);
        }
        Fact::Steering { messages, .. } => row.steering = leave(&mut row.queue, messages),
        Fact::Steered { turn, messages } => {
            let taken = take(&mut row.steering, messages);
            if let Some(live) = row.turn.as_mut().filter(|t| t.id == *turn) {
                live.messages.extend(taken);
            }
        }
        Fact::SteeredBack { messages } => {
            for message in take(&mut row.steering, messages) {
                Queued { steer: false, back: true, ..message }.join(&mut row.queue);
            }
        }
        Fact::SteerLost { messages, .. } => drop(take(&mut row.steering, messages)),
        Fact::AgentAsked { pending } => {
            row.asks.push(pending.as_ref().clone());
            row.unread = true;
        }
        Fact::AskPassed { fingerprint, .. } => row.remembered.retain(|r| r.fingerprint != *fingerprint),
        Fact::AskSettled { ask, how, remember } => {
            row.asks.retain(|p| p.id != *ask);
            row.settled.push(Settled { id: ask.clone(), how: how.clone() });
            let over = row.settled.len().saturating_sub(SETTLED);
            row.settled.drain(..over);
            row.remembered.extend(remember.clone());
        }
        Fact::Stopping => row.status = Status::Stopping,
        Fact::Stopped => {
            row.status = if row.turns == 0 && row.turn.is_none() { Status::Pending } else { Status::Idle };
            row.warm = None;
        }
        Fact::Held => row.held = true,
        Fact::Released => row.warm = None,
        Fact::Archived { failed } => {
            row.archived = Some(at.wall);
            row.queue.retain(|m| !failed.contains(&m.id));
            row.notices.clear();
            row.notices_by = None;
            set_removal(row, at, &settings);
        }
        Fact::Unarchived => {
            row.archived = None;
            row.remove_by = None;
            set_removal(row, at, &settings);
        }
        Fact::Deleted => {
            row.deleted = Some(at.wall);
            row.last_words.clear();
            row.failed = None;
            row.session = None;
            set_removal(row, at, &settings);
        }
        Fact::Updated { update } => {
            row.title = update.title.clone().unwrap_or_else(|| row.title.clone());
            row.permission = update.permission.unwrap_or(row.permission);
            row.notify_parent = update.notify.unwrap_or(row.notify_parent);
            row.unread = update.read.map_or(row.unread, |read| !read);
            row.metadata.extend(update.metadata.clone());
            row.metadata.retain(|_, value| !value.is_null());
        }
        Fact::Retried => {
            row.failures = 0;
            row.rest = None;
            row.held = false;
            row.recent.clear();
        }
        Fact::Noticed { notice, by } => {
            // Of one child the last counts.
            row.notices.retain(|n| n.child != notice.child);
            row.notices.push(notice.clone());
            row.notices_by.get_or_insert_with(|| by.clone());
        }
        Fact::NoticesTold => {
            row.notices.clear();
            row.notices_by = None;
        }
        Fact::TicketChangeBegan { change } => remember(&mut row.changes, change.as_ref().clone()),
        Fact::TicketChangeEnded { digest, state } => {
            if let Some(change) = row.changes.iter_mut().find(|c| c.digest == *digest) {
                change.state = state.clone();
            }
        }
        Fact::ReportTaken => {
            if let Some(turn) = &mut row.turn {
                turn.reported = true;
            }
        }
        Fact::TurnBegan { .. } | Fact::TurnConfirmed { .. } | Fact::TurnEnded { .. } | Fact::TurnCut { .. } => {
            turn(row, fact, at, &settings);
        }
        _ => {}
    }
}

fn created(world: &mut World, id: &ThreadId, fact: &Fact, at: &Moment) {
    let Fact::ThreadCreated {
        project,
        title,
        role,
        parent,
        owner,
        binding,
        model,
        environment,
        permission,
        notify_parent,
        hidden,
        forks,
    } = fact
    else {
        return;
    };
    let row = Thread {
        id: id.clone(),
        project: project.clone(),
        title: title.clone(),
        role: *role,
        parent: parent.clone(),
        owner: owner.clone(),
        binding: binding.clone(),
        model: model.clone(),
        notify_parent: *notify_parent,
        hidden: *hidden,
        permission: *permission,
        metadata: BTreeMap::from([("threadBriefs".to_owned(), serde_json::Value::Bool(false))]),
        environment: environment.clone(),
        status: Status::Pending,
        turn: None,
        queue: Vec::new(),
        steering: Vec::new(),
        asks: Vec::new(),
        settled: Vec::new(),
        remembered: Vec::new(),
        session: None,
        forks: forks.clone(),
        can: Can::default(),
        context: None,
        compacted: 0,
        turns: 0,
        tokens: Tokens::default(),
        last_words: String::new(),
        error: None,
        failed: None,
        unread: false,
        created: at.wall,
        archived: None,
        deleted: None,
        rest: None,
        failures: 0,
        recent: Vec::new(),
        held: false,
        warm: None,
        remove_by: None,
        notices: Vec::new(),
        notices_by: None,
        changes: Vec::new(),
    };
    world.threads.insert(id.clone(), row);
}

fn take<M: Borrow<Queued>>(from: &mut Vec<M>, which: &[MessageId]) -> Vec<M> {
    let (taken, left) = std::mem::take(from).into_iter().partition(|m| which.contains(&m.borrow().id));
    *from = left;
    taken
}

fn leave(queue: &mut Vec<Arc<Queued>>, which: &[MessageId]) -> Vec<Queued> {
    take(queue, which).into_iter().map(Arc::unwrap_or_clone).collect()
}

/// A worktree that stands is removed some time: of a deleted thread at once, of an
/// archived one after its grace, of an idle one when it was of no use for long.
fn set_removal(row: &mut Thread, at: &Moment, settings: &super::Settings) {
    let stands = matches!(row.environment.state, EnvironmentState::Ready { .. });
    if !stands || !matches!(row.environment.kind, EnvironmentKind::Worktree { .. }) {
        return;
    }
    let wait = match (row.deleted, row.archived) {
        (Some(_), _) => Some(0),
        (None, Some(_)) => Some(settings.grace),
        (None, None) => Some(settings.retention).filter(|r| *r > 0),
    };
    row.remove_by = wait.map(|wait| at.after(wait));
}

fn turn(row: &mut Thread, fact: &Fact, at: &Moment, settings: &super::Settings) {
    match fact {
        Fact::TurnBegan { turn, messages, causes, compacts } => {
            row.turn = Some(Turn {
                id: turn.clone(),
                causes: causes.clone(),
                messages: leave(&mut row.queue, messages),
                confirmed: false,
                began: at.wall,
                reported: false,
                compacts: *compacts,
            });
            row.status = Status::Starting;
            row.error = None;
            row.failed = None;
            row.warm = None;
            row.remove_by = None;
            row.recent.retain(|d| !d.passed(at));
            row.recent.push(at.after(HOUR));
        }
        Fact::TurnConfirmed { session, can, .. } => {
            if let Some(turn) = &mut row.turn {
                turn.confirmed = true;
            }
            row.session = Some(session.clone());
            row.forks = None;
            row.can = *can;
            if row.status == Status::Starting {
                row.status = Status::Active;
            }
        }
        Fact::TurnEnded { end, tokens, context, last_words, .. } => {
            let live = row.turn.take();
            row.turns += 1;
            row.tokens.add(*tokens);
            row.context = context.or(row.context);
            row.warm = Some(at.after(settings.idle_release));
            set_removal(row, at, settings);
            let compacts = live.as_ref().is_some_and(|t| t.compacts);
            if compacts {
                // Also one that failed: it is tried again after the next turn, not at once.
                row.compacted = row.turns;
            } else {
                row.last_words = last_words.clone();
                row.unread = true;
                row.remembered.clear();
            }
            let (failed, counts) = match end {
                TurnEnd::Failed { says } => (Some(says.clone()), !compacts),
                TurnEnd::Limited { says, .. } => (Some(says.clone()), false),
                TurnEnd::Finished | TurnEnd::Cancelled => (None, false),
            };
            row.failures = match (counts, &failed) {
                (true, _) => row.failures + 1,
                (false, None) if !compacts => 0,
                _ => row.failures,
            };
            // 10 s, then 20 s, …: a provider that is down is not hammered.
            row.rest = counts.then(|| at.after(5_000 << row.failures.min(6)));
            if failed.is_some() && !compacts {
                row.failed = live.map(|t| FailedTurn { turn: t.id, messages: t.messages, confirmed: t.confirmed });
            }
            if row.status != Status::Stopping {
                row.status = if counts { Status::Error } else { Status::Idle };
            }
            row.error = failed;
        }
        Fact::TurnCut { .. } => {
            row.turn = None;
            row.turns += 1;
            row.warm = None;
            set_removal(row, at, settings);
            row.asks.iter_mut().for_each(|p| p.orphan = true);
            if row.status != Status::Stopping {
                row.status = Status::Idle;
            }
        }
        _ => {}
    }
}
