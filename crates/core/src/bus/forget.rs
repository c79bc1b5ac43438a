//! Old messages and the history of old claims are forgotten, by age and by number.

use super::claims::MAX_HOLD;
use crate::Millis;
use crate::machine::{Fact, Outcome, Subject, World};
use crate::moment::{Deadline, Moment};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// So many messages are forgotten at once: more would hold everybody up.
pub const FORGET_STEP: u64 = 2_000;
/// While there is more to forget, between two times, and else.
const SOON: Millis = 10_000;
const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// What is younger is kept whatever a setting says: three times as long as one holding may last.
const KEEP_AT_LEAST: Millis = 3 * MAX_HOLD;

/// Numbers that are given once and never again, and how far has been forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The newest message's; 0 before the first, as the others.
    pub message: u64,
    /// The highest epoch.
    pub epoch: u64,
    /// The newest place in line.
    pub waiter: u64,
    /// Messages up to this one were to be forgotten.
    pub forgotten: u64,
    /// There were so many messages when it was looked at last.
    pub looked: u64,
    /// When it is looked at again; never, before the bus is used.
    pub forget: Option<Deadline>,
}

impl Given {
    /// The bus is used: some time there is something to forget.
    pub(crate) fn used(&mut self, at: &Moment) {
        self.forget.get_or_insert_with(|| at.after(HOUR));
    }
}

pub(crate) fn forgetting_is_due(world: &World, now: &Moment) -> bool {
    forgetting_deadline(world).is_some_and(|d| d.due(now))
}

pub(crate) fn forgetting_deadline(world: &World) -> Option<&Deadline> {
    let settings = &world.host.settings;
    world.claims.given.forget.as_ref().filter(|_| settings.bus_keep > 0 || settings.bus_keep_messages > 0)
}

/// Says what is to be forgotten; the store keeps of that what is owed an answer and
/// what waits to be delivered.
pub fn forget(out: &mut Outcome) {
    let settings = &out.world.host.settings;
    let keep = SignedDuration::from_millis(settings.bus_keep.max(KEEP_AT_LEAST));
    let by_age = out.now.wall.checked_sub(keep).ok().filter(|_| settings.bus_keep > 0);
    let mut given = out.world.claims.given.clone();
    let beyond = match settings.bus_keep_messages {
        0 => 0,
        most => given.message.saturating_sub(most),
    };
    let up_to = beyond.min(given.forgotten + FORGET_STEP);
    let wait = match (beyond > up_to, given.message > given.looked) {
        (true, _) => SOON,
        (false, true) => HOUR,
        (false, false) => DAY,
    };
    given.forgotten = up_to.max(given.forgotten);
    given.looked = given.message;
    given.forget = Some(out.now.after(wait));
    let before = by_age.unwrap_or(Timestamp::UNIX_EPOCH);
    out.fact(Subject::Claims, Fact::BusForgotten { before, up_to, given });
}
