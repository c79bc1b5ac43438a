//! Every delivery to a thread goes through one function.

use super::{EnvironmentState, Queued, SendMode, Sender, Status, Thread};
use crate::ids::{MessageId, ThreadId};
use crate::machine::{Effect, Fact, Outcome, World};
use crate::moment::Moment;
use crate::refusal::Refusal;

/// What is delivered.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub from: Sender,
    /// What the turn is counted under: prompt, wake, message, bus or resume.
    pub cause: &'static str,
    pub text: String,
    pub wake: bool,
    pub bus: Option<u64>,
}

/// The thread, if it takes messages.
pub fn writable<'a>(world: &'a World, id: &ThreadId) -> Result<&'a Thread, Refusal> {
    let Some(thread) = world.threads.get(id) else {
        return Err(Refusal::usage("unknown_thread", format!("no thread is called {id}"), "see: stewards thread list"));
    };
    if thread.archived.is_some() {
        return Err(Refusal::not_met(
            "thread_archived",
            format!("{id} is archived"),
            "its effort has ended, or it was stopped for good; start a fresh worker",
        ));
    }
    if thread.status == Status::Stopping {
        return Err(Refusal::not_met("thread_stopping", format!("{id} is being stopped"), "wait until it has stopped"));
    }
    match &thread.environment.state {
        EnvironmentState::Failed { says } => Err(Refusal::not_met(
            "thread_environment_unavailable",
            format!("the environment of {id} could not be made: {says}"),
            "mend the cause and start a fresh worker",
        )),
        EnvironmentState::Removing | EnvironmentState::Removed | EnvironmentState::MovedAside { .. } => {
            Err(Refusal::not_met(
                "thread_environment_unavailable",
                format!("the environment of {id} is gone"),
                "start a fresh worker",
            ))
        }
        _ => Ok(thread),
    }
}

/// Accepts a message for a thread, or refuses it before anything is stored.
///
/// On a thread that is not at work every mode but `Steer` begins a turn; on one
/// that is, `Start` is refused and all others wait for the turn's end (no agent
/// of this version is steered in mid-turn; the reply says so).
pub fn deliver(out: &mut Outcome, to: &ThreadId, mode: SendMode, parcel: Parcel) -> Result<MessageId, Refusal> {
    let thread = writable(&out.world, to)?;
    let busy = thread.status.busy();
    match mode {
        SendMode::Start if busy => {
            return Err(Refusal::busy(
                "thread_busy",
                format!("{to} is at work"),
                "send it with --mode queue-if-active",
            ));
        }
        SendMode::Steer if !busy => {
            return Err(Refusal::not_met(
                "no_live_turn",
                format!("{to} has no live turn to steer"),
                "send it with --mode auto",
            ));
        }
        _ => {}
    }
    // Whoever writes to a thread that failed means it to try again now.
    if thread.failures > 0 && parcel.from == Sender::Person {
        out.thread(to, Fact::Retried);
    }
    let id = out.mint_message();
    let message = Queued {
        id: id.clone(),
        from: parcel.from,
        cause: parcel.cause.to_owned(),
        text: parcel.text,
        wake: parcel.wake,
        at: out.now.wall,
        bus: parcel.bus,
    };
    out.thread(to, Fact::MessageAccepted { message });
    if busy {
        out.say(format!("{to} is at work; it gets this when its turn ends"));
    }
    begin_turn(out, to);
    Ok(id)
}

/// Begins a turn with all that waits, if the thread can take one now. Consuming
/// the queue and beginning the turn are one fact. Where the environment is
/// still to be made, that comes first and the queue waits.
pub fn begin_turn(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if !can_begin(thread, &out.now) {
        return;
    }
    match (&thread.environment.state, thread.branch()) {
        (EnvironmentState::Ready { .. }, _) => {}
        (EnvironmentState::Unmade, Some(branch)) => {
            let branch = branch.to_owned();
            let Some(spec) = out.world.projects.get(&thread.project).map(|p| p.spec()) else { return };
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Making });
            out.effect(Effect::MakeEnvironment { thread: id.clone(), spec, branch });
            return;
        }
        (EnvironmentState::Unmade, None) => {
            let checkout = out.world.projects.get(&thread.project).and_then(|p| p.checkout.clone());
            // Without a checkout yet the queue waits; `plan` comes back to it.
            let Some(path) = checkout else { return };
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Ready { path } });
        }
        _ => return,
    }
    let Some(thread) = out.world.threads.get(id) else { return };
    let messages = thread.queue.iter().map(|m| m.id.clone()).collect();
    let mut causes: Vec<String> = thread.queue.iter().map(|m| m.cause.clone()).collect();
    causes.dedup();
    let turn = out.mint_turn();
    out.thread(id, Fact::TurnBegan { turn: turn.clone(), messages, causes });
    out.effect(Effect::Turn { thread: id.clone(), turn });
}

/// Something waits and nothing but the environment may keep it from a turn.
pub fn can_begin(thread: &Thread, now: &Moment) -> bool {
    !thread.queue.is_empty()
        && !thread.resting(now)
        && thread.turn.is_none()
        && thread.archived.is_none()
        && matches!(thread.status, Status::Pending | Status::Idle | Status::Error)
}
