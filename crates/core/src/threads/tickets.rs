//! What threads change of tickets: once each, signed, on record.

use super::{Parcel, SendMode, deliver, writable};
use crate::Millis;
use crate::entity::Entity;
use crate::ids::{BindingId, EffectId, ThreadId};
use crate::machine::{Caller, Effect, Fact, Fate, Outcome, World};
use crate::moment::Deadline;
use crate::refusal::Refusal;
use crate::stewards::sign;
use crate::text::{one_line, shorten};
use crate::tickets::TicketWrite;
use crate::trouble::{Trouble, again};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// So long a thread's call waits for its change; what comes later is told by a message.
pub const CHANGE_PATIENCE: Millis = 45_000;
/// Characters of a comment at most; what is longer is shortened.
const COMMENT_MOST: usize = 20_000;
/// Characters of a description at most; what is longer is shortened.
const DESCRIPTION_MOST: usize = 50_000;
/// Within this time the same comment or ticket of the same thread is the first one again:
/// its turn was cut after it wrote and before it knew.
const SAME: SignedDuration = SignedDuration::from_hours(1);
/// Changes of a thread that are remembered.
const REMEMBERED: usize = 20;

/// A change of a ticket that a thread asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketChange {
    pub effect: EffectId,
    /// The same for the same change again.
    pub digest: String,
    /// In a few words.
    pub what: String,
    pub at: Timestamp,
    /// Whoever asked waits until then.
    pub answered_by: Deadline,
    pub state: ChangeState,
}

/// How far a change has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// It is on its way, or tried again later.
    Waits,
    /// Where it can be seen.
    Done { url: String },
    /// Given up.
    Failed { says: String },
}

/// Remembers a change, and forgets the oldest that is over.
pub(crate) fn remember(changes: &mut Vec<TicketChange>, change: TicketChange) {
    changes.retain(|c| c.digest != change.digest);
    changes.push(change);
    let over = |c: &TicketChange| c.state != ChangeState::Waits;
    while changes.len() > REMEMBERED
        && let Some(oldest) = changes.iter().position(over)
    {
        changes.remove(oldest);
    }
}

/// Signs what is written and sends it on its way. The same words again are not written
/// twice.
pub fn write_ticket(out: &mut Outcome, caller: &Caller, write: &TicketWrite) -> Result<(), Refusal> {
    let Caller::Thread(id) = caller else {
        return Err(Refusal::not_met("threads_only", "tickets are changed by threads", "change it in Linear"));
    };
    let thread = writable(&out.world, id)?;
    let mut write = write.clone();
    let words = match &mut write {
        TicketWrite::Comment { body, .. } | TicketWrite::Reply { body, .. } => Some((body, COMMENT_MOST)),
        TicketWrite::Create { description, .. } => Some((description, DESCRIPTION_MOST)),
        TicketWrite::Update { .. } => None,
    };
    let mut shortened = false;
    if let Some((words, most)) = words {
        let short = shorten(words, most);
        shortened = short != *words;
        *words = sign(&short, id.as_str(), None);
    }
    let digest = write.digest();
    let young = |c: &&TicketChange| match c.state {
        ChangeState::Waits => true,
        ChangeState::Done { .. } if matches!(write, TicketWrite::Reply { .. }) => true,
        ChangeState::Done { .. } => write.adds() && out.now.wall.duration_since(c.at) < SAME,
        ChangeState::Failed { .. } => false,
    };
    if let Some(same) = thread.changes.iter().filter(|c| c.digest == digest).find(young) {
        let (effect, what) = (same.effect.clone(), same.what.clone());
        out.say(format!("{what}: asked for before, and not written twice"));
        out.id("effect", effect);
        return Ok(());
    }
    let what = write.words();
    if shortened {
        out.say("it was too long: its longest sections are shortened");
    }
    if let Some((binding, state)) = state_of(&out.world, id, &write) {
        out.binding(&binding, Fact::StateIsSet { state: Some(state) });
    }
    let effect = out.effect(Effect::WriteTicket { thread: id.clone(), write: Box::new(write) });
    let change = TicketChange {
        effect: effect.clone(),
        digest,
        what,
        at: out.now.wall,
        answered_by: out.now.after(CHANGE_PATIENCE),
        state: ChangeState::Waits,
    };
    out.thread(id, Fact::TicketChangeBegan { change: Box::new(change) });
    out.id("effect", effect);
    Ok(())
}

/// The state that this sets of the very ticket that its thread works for.
fn state_of(world: &World, id: &ThreadId, write: &TicketWrite) -> Option<(BindingId, String)> {
    let TicketWrite::Update { ticket, state: Some(state), .. } = write else { return None };
    let binding = world.bindings.get(world.threads.get(id)?.binding.as_ref()?)?;
    let own = binding.entity == Entity::Ticket { uuid: ticket.id.clone() };
    own.then(|| (binding.id.clone(), state.name.clone()))
}

/// What came of a change. One that fails after its asker went on is told.
pub fn ticket_written(
    out: &mut Outcome,
    id: &ThreadId,
    write: &TicketWrite,
    answer: &Result<String, Trouble>,
    attempts: u32,
) {
    if let Err(trouble) = answer
        && let Some(at) = again(trouble, attempts, &out.now)
    {
        out.fate = Fate::Again(at);
        return;
    }
    let digest = write.digest();
    let Some(thread) = out.world.threads.get(id) else { return };
    let late = thread.changes.iter().find(|c| c.digest == digest).is_none_or(|c| c.answered_by.due(&out.now));
    let live = thread.live();
    let state = match answer {
        Ok(url) => ChangeState::Done { url: url.clone() },
        Err(trouble) => ChangeState::Failed { says: one_line(&trouble.to_string()) },
    };
    if let ChangeState::Failed { .. } = &state
        && let Some((binding, _)) = state_of(&out.world, id, write)
    {
        out.binding(&binding, Fact::StateIsSet { state: None });
    }
    if let (ChangeState::Failed { says }, true, true) = (&state, late, live) {
        let text = format!("Your change of a ticket was not made: {}: {says}", write.words());
        let _ = deliver(out, id, SendMode::QueueIfActive, Parcel::system("notice", text));
    }
    out.thread(id, Fact::TicketChangeEnded { digest, state });
}
