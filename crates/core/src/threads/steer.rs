//! Messages that go into a live turn.

use super::{Queued, Sender, Status, Steering, Thread, begin_turn};
use crate::ids::{MessageId, ThreadId, TurnId};
use crate::machine::{Effect, Fact, Outcome};
use crate::ports::Steered;
use std::sync::Arc;

/// The thread works, its agent takes messages meanwhile, nobody is asked
/// anything, and something is to go in.
pub fn can_steer(thread: &Thread) -> bool {
    thread.status == Status::Active
        && thread.turn.as_ref().is_some_and(|t| t.confirmed && !t.compacts)
        && thread.can.steer != Steering::Queue
        && thread.live()
        && thread.asks.is_empty()
        && thread.steering.is_empty()
        && thread.queue.iter().any(|m| m.steer)
}

/// Hands what is meant for the live turn to the agent. What the same sender has
/// queued before goes along, so that nobody is heard out of order.
pub fn begin_steer(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id).filter(|t| can_steer(t)) else { return };
    let Some(turn) = thread.turn.as_ref().map(|t| t.id.clone()) else { return };
    let messages: Vec<MessageId> = going(&thread.queue).map(|m| m.id.clone()).collect();
    out.thread(id, Fact::Steering { turn: turn.clone(), messages });
    out.effect(Effect::Steer { thread: id.clone(), turn });
}

fn going(queue: &[Arc<Queued>]) -> impl Iterator<Item = &Arc<Queued>> {
    let later = |n: usize, from: &Sender| queue[n + 1..].iter().any(|m| m.steer && m.from == *from);
    queue.iter().enumerate().filter(move |(n, m)| m.steer || (!m.wake && later(*n, &m.from))).map(|(_, m)| m)
}

/// The agent has said what became of them. What it did not take waits for the
/// turn's end, at the head of the queue; where nobody knows, it is shown and not sent again.
pub fn steered(out: &mut Outcome, id: &ThreadId, turn: &TurnId, how: Steered) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let messages: Vec<MessageId> = thread.steering.iter().map(|m| m.id.clone()).collect();
    if messages.is_empty() {
        return;
    }
    let keeps = thread.live();
    out.thread(
        id,
        match how {
            Steered::Taken => Fact::Steered { turn: turn.clone(), messages },
            Steered::NotTaken if keeps => Fact::SteeredBack { messages },
            Steered::NotTaken => Fact::SteerLost { messages, known: true },
            Steered::Unknown => Fact::SteerLost { messages, known: false },
        },
    );
    begin_steer(out, id);
    begin_turn(out, id);
}
