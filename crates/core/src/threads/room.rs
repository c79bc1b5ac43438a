//! Whether a thread may begin a turn now, and what keeps it from one.

use super::{EnvironmentState, Status, Thread};
use crate::ids::ThreadId;
use crate::machine::World;
use crate::moment::{Deadline, Moment};
use crate::refusal::Refusal;
use std::fmt;

/// What keeps a thread from its next turn, though nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// `stewards stop --all` was said.
    AllStopped,
    /// Stopped by hand.
    Held,
    /// Its agent asked the person something.
    Asks { title: String },
    /// A message is on its way into the turn that has just ended.
    Settling,
    /// Its place could not be made.
    NoPlace { id: ThreadId, says: String },
    /// It failed and is tried again later.
    Resting,
    /// Its provider's limit.
    Limited { until: String, says: String },
    /// Its own cap of turns an hour.
    Capped { cap: u32 },
    /// As many turns as may be are live.
    Full { live: usize, project: bool },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::AllStopped => f.write_str("all agents are stopped until `stewards resume`"),
            Why::Held => f.write_str("it was stopped by hand and goes on with the next message"),
            Why::Asks { title } => write!(f, "it waits for the person: {title}"),
            Why::Settling => f.write_str("its last message is still being settled"),
            Why::NoPlace { id, says } => {
                write!(
                    f,
                    "its environment could not be made: {says} (mend the cause, then: stewards thread retry {id})"
                )
            }
            Why::Resting => f.write_str("it rests after a failed turn"),
            Why::Limited { until, says } => write!(f, "its provider has a limit until {until}: {says}"),
            Why::Capped { cap } => write!(f, "it has had {cap} turns within an hour"),
            Why::Full { live, project: false } => write!(f, "{live} turns are live, which is as many as may be"),
            Why::Full { live, project: true } => {
                write!(f, "{live} turns of its project are live, which is as many as may be")
            }
        }
    }
}

/// A turn could be begun if there were a message: nothing is live, archived or being ended.
fn rests(thread: &Thread) -> bool {
    thread.turn.is_none() && thread.live() && matches!(thread.status, Status::Pending | Status::Idle | Status::Error)
}

/// Something waits, and nothing but its environment may keep the thread from a turn.
pub fn can_begin(world: &World, thread: &Thread, now: &Moment) -> bool {
    !thread.queue.is_empty() && rests(thread) && hindrance(world, thread, now).is_none()
}

/// What keeps a thread that is not at work from a turn.
pub fn hindrance(world: &World, thread: &Thread, now: &Moment) -> Option<Why> {
    if world.host.stopped {
        return Some(Why::AllStopped);
    }
    if let Some(pending) = thread.asks.first() {
        return Some(Why::Asks { title: pending.ask.title.clone() });
    }
    if !thread.steering.is_empty() {
        return Some(Why::Settling);
    }
    if thread.held {
        return Some(Why::Held);
    }
    if let EnvironmentState::Failed { says } = &thread.environment.state {
        return Some(Why::NoPlace { id: thread.id.clone(), says: says.clone() });
    }
    if thread.resting(now) {
        return Some(Why::Resting);
    }
    if let Some(limit) = world.host.limits.get(&thread.model.provider).filter(|l| !l.until.passed(now)) {
        let until = limit.until.wall.strftime("%F %H:%M UTC").to_string();
        return Some(Why::Limited { until, says: limit.says.clone() });
    }
    let cap = world.host.settings.turns_per_hour;
    if capped(world, thread, now) {
        return Some(Why::Capped { cap });
    }
    full(world, thread)
}

/// It has had its turns of this hour.
pub(crate) fn capped(world: &World, thread: &Thread, now: &Moment) -> bool {
    let cap = world.host.settings.turns_per_hour as usize;
    cap > 0 && thread.recent.iter().filter(|d| !d.passed(now)).count() >= cap
}

/// As many turns are live as may be.
fn full(world: &World, thread: &Thread) -> Option<Why> {
    let settings = &world.host.settings;
    let mut live = 0;
    let mut of_project = 0;
    for other in world.threads.values().filter(|t| t.turn.is_some()) {
        live += 1;
        of_project += usize::from(other.project == thread.project);
    }
    if live >= settings.max_live as usize {
        return Some(Why::Full { live, project: false });
    }
    (of_project >= settings.max_live_project as usize).then_some(Why::Full { live: of_project, project: true })
}

/// When the passing of time alone may let a thread begin.
pub fn next_change<'a>(world: &'a World, thread: &'a Thread) -> impl Iterator<Item = &'a Deadline> {
    let limit = world.host.limits.get(&thread.model.provider).map(|l| &l.until);
    thread.rest.iter().chain(thread.recent.first()).chain(limit)
}

/// A refusal for whoever insists on a turn now.
pub(super) fn refused(id: &ThreadId, why: &Why) -> Refusal {
    Refusal::busy("thread_waits", format!("{id} cannot begin a turn now: {why}"), "see: stewards thread show")
}
