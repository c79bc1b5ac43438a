//! What is owed an answer: handoffs, calls for help, pulls to be merged, questions.

use super::claim::{reason_of, who};
use super::filter::addressable;
use super::reading::waiting;
use super::send::{BusMessage, OWNER};
use super::wait::tell;
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome, Subject, World};
use crate::refusal::Refusal;
use crate::threads::SendMode;
use jiff::Timestamp;
use serde::Serialize;

/// A message that owes an answer, in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwedRow {
    pub seq: u64,
    pub kind: String,
    /// Nothing where the owner asked.
    pub from: Option<ThreadId>,
    pub to: ThreadId,
    pub fields: Vec<(String, String)>,
    pub at: Timestamp,
    /// How it is answered.
    pub command: String,
}

/// What is owed, oldest first.
pub fn owed_rows(world: &World) -> Vec<OwedRow> {
    let row = |m: &BusMessage| OwedRow {
        seq: m.seq,
        kind: m.kind.clone(),
        from: m.from.clone(),
        to: m.to.clone(),
        fields: m.fields.clone(),
        at: m.at,
        command: format!("stewards bus ack --field ack_of={} --field answer='<answer>'", m.seq),
    };
    world.claims.owed.values().map(row).collect()
}

/// What is owed of these, each if it is named: asked by the first and of the second.
pub fn owed_between(world: &World, [from, to]: [Option<&str>; 2]) -> Result<Vec<OwedRow>, Refusal> {
    from.into_iter().chain(to).try_for_each(|name| addressable(world, name))?;
    let mut rows = owed_rows(world);
    rows.retain(|m| {
        let asker = m.from.as_ref().map_or(OWNER, ThreadId::as_str);
        from.is_none_or(|f| f == asker) && to.is_none_or(|t| t == m.to.as_str())
    });
    Ok(rows)
}

/// The message that `caller` answers, which is owed to nobody else.
pub(super) fn asked(out: &Outcome, caller: &Caller, seq: u64) -> Result<BusMessage, Refusal> {
    let hint = "see what is owed: stewards bus unanswered";
    if seq == 0 || seq > out.world.claims.given.message {
        return Err(Refusal::usage("unknown_message", format!("there is no message #{seq}"), hint));
    }
    let Some(message) = out.world.claims.owed.get(&seq) else {
        let says = format!("#{seq} owes no answer: it never did, or it was answered or withdrawn");
        return Err(Refusal::not_met("not_owed", says, hint));
    };
    if who(caller) != Some(&message.to) {
        let says = format!("#{seq} was sent to {}, who alone answers it", message.to);
        return Err(Refusal::not_met("not_yours", says, hint));
    }
    Ok(message.clone())
}

/// Whoever asked takes the question back; whoever was asked is told.
pub fn withdraw(out: &mut Outcome, caller: &Caller, seq: u64) -> Result<(), Refusal> {
    let hint = "see what is owed: stewards bus unanswered";
    let Some(message) = out.world.claims.owed.get(&seq).cloned() else {
        return Err(Refusal::not_met("not_owed", format!("#{seq} owes no answer"), hint));
    };
    if !message.belongs_to(caller) {
        let says = format!("#{seq} was asked by {}", message.asker());
        return Err(Refusal::not_met("not_yours", says, "only whoever asked takes it back"));
    }
    close(out, &message, &reason_of("withdrawn by whoever asked")?);
    out.say(format!("#{seq} owes no answer any more"));
    let waits = waiting(&out.world, &message.to, &[seq]);
    if !waits.is_empty() {
        // It never hears of either.
        waits.into_iter().for_each(|m| out.thread(&message.to, Fact::MessageDropped { message: m }));
        return Ok(());
    }
    tell(out, Some(&message.to), &format!("#{seq} needs no answer any more"), SendMode::QueueIfActive);
    Ok(())
}

fn close(out: &mut Outcome, message: &BusMessage, why: &str) {
    out.fact(Subject::Claims, Fact::OwedClosed { message: message.seq, why: why.to_owned() });
}

/// A thread is gone: what it asked is moot, and who asked it hears that no answer comes.
pub fn close_owed(out: &mut Outcome, thread: &ThreadId) {
    let of = |m: &&BusMessage| m.to == *thread || m.from.as_ref() == Some(thread);
    let all: Vec<BusMessage> = out.world.claims.owed.values().filter(of).cloned().collect();
    for message in all {
        let asked = message.to == *thread;
        close(out, &message, if asked { "whoever was asked was archived" } else { "whoever asked was archived" });
        if asked {
            let text = format!("#{} gets no answer: {thread} was archived", message.seq);
            tell(out, message.from.as_ref(), &text, SendMode::QueueIfActive);
        }
    }
}
