//! Ending what threads run.

use super::lineage::owns;
use super::{Status, begin_turn, known};
use crate::ids::ThreadId;
use crate::machine::{Caller, Effect, Fact, Outcome, Subject};
use crate::refusal::Refusal;

/// A person, or the thread that owns it, has a thread stopped. What waits for it
/// waits on until the next message.
pub fn stop_asked(out: &mut Outcome, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    let thread = known(&out.world, id)?;
    let (status, archived) = (thread.status, thread.archived.is_some());
    let waits = !thread.queue.is_empty();
    owns(&out.world, caller, id)?;
    if waits {
        out.thread(id, Fact::Held);
    }
    match status {
        Status::Stopping => out.say(format!("{id} is being stopped")),
        _ if archived => out.say(format!("{id} is archived; nothing of it runs")),
        Status::Pending if waits => out.say(format!("{id} runs nothing yet; what waits for it waits on")),
        Status::Pending => out.say(format!("{id} runs nothing")),
        _ => {
            stop(out, id);
            out.say(format!("stopping {id}"));
        }
    }
    Ok(())
}

/// Stops what a thread runs.
pub fn stop(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    match thread.status {
        // It never had a process.
        Status::Pending => stopped(out, id),
        Status::Stopping => {}
        _ => {
            out.thread(id, Fact::Stopping);
            super::ask::withdraw(out, id, "its thread was stopped");
            out.effect(Effect::Stop { thread: id.clone() });
        }
    }
}

/// Its processes are gone.
pub fn stopped(out: &mut Outcome, id: &ThreadId) {
    out.thread(id, Fact::Stopped);
    begin_turn(out, id);
}

/// Every agent at once, until the owner lets them go on; a restart changes nothing of it.
pub fn stop_all(out: &mut Outcome, caller: &Caller, on: bool) -> Result<(), Refusal> {
    caller.person_only("stops or resumes everything", "say what you need in your report")?;
    let was = out.world.host.stopped;
    if was != on {
        out.fact(Subject::Host, Fact::AllStopped { on });
    }
    if !on {
        out.say(if was { "agents go on" } else { "nothing was stopped" });
        return Ok(());
    }
    let running: Vec<ThreadId> =
        out.world.threads.values().filter(|t| t.status.busy() || t.warm.is_some()).map(|t| t.id.clone()).collect();
    let live = running.iter().filter(|id| out.world.threads.get(id).is_some_and(|t| t.status.busy())).count();
    for id in &running {
        stop(out, id);
    }
    out.say(format!("stopped: {live} live turn(s) ended; nothing runs until `stewards resume`"));
    Ok(())
}

/// An idle agent's process was ended to free what it holds; its session goes on
/// with the next message.
pub fn released(out: &mut Outcome, id: &ThreadId) {
    out.thread(id, Fact::Released);
    out.effect(Effect::Release { thread: id.clone() });
}
