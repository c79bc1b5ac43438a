//! Messages that a thread reads before they are delivered, and those that are delivered
//! again.

use super::claim::who;
use super::kinds::kind;
use super::send::{mode_of, parcel};
use crate::ids::{MessageId, ThreadId, TurnId};
use crate::machine::{Caller, Fact, Outcome, Sent, World};
use crate::refusal::Refusal;
use crate::threads::{Status, deliver};

/// The live turn that a thread reads in. While something is being handed to its agent,
/// what came later is not read before it.
fn reading(world: &World, thread: &ThreadId) -> Option<TurnId> {
    let thread = world.threads.get(thread).filter(|t| t.status == Status::Active && t.steering.is_empty())?;
    thread.turn.as_ref().map(|t| t.id.clone())
}

/// What waits for a thread of these messages of the bus.
pub(super) fn waiting(world: &World, thread: &ThreadId, wanted: &[u64]) -> Vec<MessageId> {
    let queue = world.threads.get(thread).map(|t| t.queue.as_slice()).unwrap_or_default();
    queue.iter().filter(|m| m.bus.is_some_and(|seq| wanted.contains(&seq))).map(|m| m.id.clone()).collect()
}

/// A thread was shown these in its live turn: they are consumed by it and delivered no
/// more. Whatever else is among them is left as it is.
pub fn read(out: &mut Outcome, caller: &Caller, wanted: &[u64]) -> Result<(), Refusal> {
    let Some(me) = who(caller) else {
        let hint = "what you read stays unread for the thread";
        return Err(Refusal::not_met("not_a_thread", "only a thread marks its own messages as read", hint));
    };
    let Some(turn) = reading(&out.world, me) else {
        out.say("no turn of yours can take it now, so nothing was marked as read");
        return Ok(());
    };
    let messages = waiting(&out.world, me, wanted);
    out.say(match messages.len() {
        0 => "nothing of it waited any more".to_owned(),
        n => format!("{n} marked as read"),
    });
    if !messages.is_empty() {
        out.thread(me, Fact::MessagesRead { turn: Some(turn), messages });
    }
    Ok(())
}

/// Delivers a message again that failed, or of which nobody knows whether it arrived.
/// Whoever sent it may, and the owner.
pub fn retry(out: &mut Outcome, sent: &Sent, caller: &Caller, seq: u64) -> Result<(), Refusal> {
    let hint = "see what did not arrive: stewards bus log --undelivered";
    let Some((message, state)) = &sent.message else {
        return Err(Refusal::usage("unknown_message", format!("there is no message #{seq}"), hint));
    };
    if !message.belongs_to(caller) {
        let says = format!("#{seq} was sent by {}", message.asker());
        return Err(Refusal::not_met("not_yours", says, "only its sender and the owner deliver it again"));
    }
    let no = |code: &str, says: &str| Err(Refusal::not_met(code, format!("#{seq} {says}"), hint));
    match state.as_deref() {
        Some("failed" | "unknown") => {}
        Some("queued" | "handed") => return no("still_waits", "is on its way"),
        Some("dropped") => return no("taken_back", "was taken back"),
        Some(_) => return no("delivered", "was delivered"),
        None => return no("no_receipt", "went into nobody's queue, or its thread is gone"),
    }
    if message.owes() && !out.world.claims.owed.contains(&seq) {
        return no("not_owed", "needs no answer any more");
    }
    let Some(kind) = kind(&message.kind) else { return no("unknown_kind", "is of no kind that is known") };
    out.id("message", seq);
    out.say(format!("#{seq} {} is delivered again to {}", message.kind, message.to));
    deliver(out, &message.to, mode_of(kind), parcel(message))?;
    Ok(())
}
