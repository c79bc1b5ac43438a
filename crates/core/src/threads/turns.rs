//! How turns end, and what follows.

use super::{EnvironmentState, Parcel, Queued, Role, SendMode, Sender, Status, Tokens, begin_turn, deliver};
use crate::ids::{MessageId, ThreadId, TurnId};
use crate::machine::{Effect, Fact, Outcome, World};
use crate::ports::{Removed, TurnEnd, TurnJob};
use crate::stewards;
use crate::text::{cut, one_line};
use crate::trouble::Trouble;
use std::path::PathBuf;

/// A turn that failed so often in a row is not tried again by itself.
pub const MAX_FAILURES: u32 = 3;

/// The agent's protocol said that the turn is over.
pub fn turn_ended(out: &mut Outcome, id: &ThreadId, turn: &TurnId, end: TurnEnd, tokens: Tokens, last_words: &str) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let Some(live) = thread.turn.as_ref().filter(|t| &t.id == turn).cloned() else { return };
    let (role, binding, archived) = (thread.role, thread.binding.clone(), thread.archived.is_some());
    out.thread(
        id,
        Fact::TurnEnded { turn: turn.clone(), end: end.clone(), tokens, last_words: cut(last_words, 4_000) },
    );
    if archived {
        return;
    }
    let failed = match &end {
        TurnEnd::Finished | TurnEnd::Cancelled => None,
        TurnEnd::Failed { says } => Some(says.clone()),
    };
    let failures = out.world.threads.get(id).map_or(0, |t| t.failures);
    if let Some(binding) = binding {
        match (role, &failed) {
            (Role::Steward, None) if end == TurnEnd::Cancelled => stewards::steward_stopped(out, &binding),
            (Role::Steward, None) => stewards::steward_turn_ended(out, &binding, live.reported),
            (Role::Steward, Some(_)) => {
                stewards::wake_cut(out, &binding, "restart");
                stewards::messages_cut(out, &binding, &said(&live.messages));
            }
            (Role::Worker, None) if end == TurnEnd::Cancelled => stewards::worker_stopped(out, &binding, id),
            (Role::Worker, None) => stewards::worker_turn_ended(out, &binding, id),
            _ => {}
        }
        if let Some(says) = &failed {
            stewards::thread_failed(out, &binding, id, says, failures >= MAX_FAILURES);
        }
    }
    if failed.is_some() && role != Role::Steward && failures < MAX_FAILURES {
        go_on(out, id, FAILED, &live.messages);
    }
    begin_turn(out, id);
}

/// The daemon died during the turn; nobody knows how far the agent came.
pub fn turn_cut(out: &mut Outcome, id: &ThreadId, turn: &TurnId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let Some(live) = thread.turn.as_ref().filter(|t| &t.id == turn).cloned() else { return };
    let (role, binding, archived) = (thread.role, thread.binding.clone(), thread.archived.is_some());
    let unknown: Vec<MessageId> =
        if live.confirmed { Vec::new() } else { live.messages.iter().map(|m| m.id.clone()).collect() };
    out.thread(id, Fact::TurnCut { turn: turn.clone(), unknown });
    if archived {
        return;
    }
    let wake = live.messages.iter().any(|m| m.wake);
    match (role, binding) {
        (Role::Steward, Some(binding)) => {
            // A wake is a level: the binding is due again, and a turn that began
            // with messages alone makes it due too, so that they are not forgotten.
            let said = said(&live.messages);
            if wake {
                stewards::wake_cut(out, &binding, "restart");
            }
            if !said.is_empty() {
                stewards::messages_cut(out, &binding, &said);
            }
        }
        _ => go_on(out, id, "The host was restarted during your last turn", &live.messages),
    }
    begin_turn(out, id);
}

const FAILED: &str = "Your last turn failed before it was finished";

/// A person had it try again.
pub fn retry(out: &mut Outcome, id: &ThreadId) {
    out.thread(id, Fact::Retried);
    if out.world.threads.get(id).is_some_and(|t| t.role != Role::Steward) {
        go_on(out, id, FAILED, &[]);
    }
    begin_turn(out, id);
}

/// What others said: all but the wake, which is made anew.
fn said(messages: &[Queued]) -> Vec<&Queued> {
    messages.iter().filter(|m| !m.wake).collect()
}

/// One line for an agent whose turn did not end by itself. It quotes what the
/// turn was about, because nobody knows whether the agent ever had it.
fn go_on(out: &mut Outcome, id: &ThreadId, what: &str, messages: &[Queued]) {
    let mut text = format!(
        "{what}. Look at what is already done (branch, commits, pull request, messages) and go on from there; do nothing twice."
    );
    for message in messages {
        text.push_str("\nIt began with:\n");
        text.push_str(&crate::text::quoted(&cut(original(&message.text), 4_000)));
    }
    let parcel = Parcel { from: Sender::System, cause: "resume", text, wake: false, bus: None };
    let _ = deliver(out, id, SendMode::QueueIfActive, parcel);
}

/// The first message of a chain of cuts: a quote of a quote says nothing new.
fn original(text: &str) -> &str {
    text.split_once("It began with:\n").map_or(text, |(_, rest)| rest)
}

/// Stops what a thread runs. With `archive` it takes no more messages.
pub fn stop(out: &mut Outcome, id: &ThreadId, archive: bool) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let failed = thread.queue.iter().map(|m| m.id.clone()).collect();
    let fresh = thread.archived.is_none();
    if archive && fresh {
        out.thread(id, Fact::Archived { failed });
        crate::bus::release_all(out, id);
    }
    let Some(thread) = out.world.threads.get(id) else { return };
    match thread.status {
        // It never had a process.
        Status::Pending => stopped(out, id),
        Status::Stopping => {}
        _ => {
            out.thread(id, Fact::Stopping);
            out.effect(Effect::Stop { thread: id.clone() });
        }
    }
}

/// Its processes are gone. An archived worker's worktree goes with it.
pub fn stopped(out: &mut Outcome, id: &ThreadId) {
    out.thread(id, Fact::Stopped);
    let Some(thread) = out.world.threads.get(id) else { return };
    // One that is still being made is removed once it is there.
    let made = matches!(thread.environment.state, EnvironmentState::Ready { .. });
    match thread.branch() {
        Some(branch) if thread.archived.is_some() && made => {
            let branch = branch.to_owned();
            let Some(spec) = out.world.projects.get(&thread.project).map(|p| p.spec()) else { return };
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Removing });
            out.effect(Effect::RemoveEnvironment { thread: id.clone(), spec, branch });
        }
        _ => begin_turn(out, id),
    }
}

pub fn environment_made(out: &mut Outcome, id: &ThreadId, made: Result<PathBuf, Trouble>) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if thread.environment.state != EnvironmentState::Making {
        return;
    }
    let (archived, binding) = (thread.archived.is_some(), thread.binding.clone());
    match made {
        Ok(path) => out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Ready { path } }),
        Err(trouble) => {
            let says = one_line(&trouble.to_string());
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Failed { says: says.clone() } });
            if let Some(binding) = binding {
                stewards::thread_failed(out, &binding, id, &says, true);
            }
        }
    }
    if archived {
        stopped(out, id);
    } else {
        begin_turn(out, id);
    }
}

pub fn environment_removed(out: &mut Outcome, id: &ThreadId, removed: Removed) {
    let state = match removed {
        Removed::Gone => EnvironmentState::Removed,
        Removed::MovedAside { path, why } => EnvironmentState::MovedAside { path, why },
    };
    out.thread(id, Fact::EnvironmentIs { state });
}

/// What the agent needs for the turn that was begun, resolved now.
pub fn turn_job(world: &World, id: &ThreadId, turn: &TurnId) -> Option<TurnJob> {
    let thread = world.threads.get(id)?;
    let live = thread.turn.as_ref().filter(|t| &t.id == turn)?;
    let EnvironmentState::Ready { path } = &thread.environment.state else { return None };
    let prompt: Vec<&str> = live.messages.iter().map(|m| m.text.as_str()).collect();
    Some(TurnJob {
        project: thread.project.clone(),
        thread: id.clone(),
        turn: turn.clone(),
        session: thread.session.clone(),
        provider: thread.model.provider.clone(),
        cwd: path.clone(),
        worktree: thread
            .branch()
            .and_then(|branch| Some((world.projects.get(&thread.project)?.spec(), branch.to_owned()))),
        context: stewards::brief(world, thread),
        prompt: prompt.join("\n\n"),
    })
}
