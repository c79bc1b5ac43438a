//! Time as a decision sees it.

use crate::Millis;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// When an event is decided: handed in, never asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Wall time. May step; only compared across runs.
    pub wall: Timestamp,
    /// Time since this run of the daemon began. Never steps.
    pub elapsed: Millis,
    /// Which run of the daemon on this directory, from 1.
    pub run: u64,
    /// The event's number, from 1, never used twice on a directory.
    pub no: u64,
}

impl Moment {
    /// The deadline that lies `wait` ahead.
    pub fn after(&self, wait: Millis) -> Deadline {
        Deadline {
            wall: self.wall.checked_add(SignedDuration::from_millis(wait)).unwrap_or(Timestamp::MAX),
            run: self.run,
            elapsed: self.elapsed.saturating_add(wait),
        }
    }
}

/// A point ahead. Within the run that set it elapsed time decides, so a step of
/// the clock neither shortens nor lengthens it; after a restart wall time does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub wall: Timestamp,
    pub run: u64,
    pub elapsed: Millis,
}

impl Deadline {
    /// At the deadline itself it has passed.
    pub fn passed(&self, now: &Moment) -> bool {
        self.left(now) <= 0
    }

    /// For waits that only save work (a window, a rest, a try again): it has
    /// passed, or another run had set it. A restart waits for nothing, so a
    /// clock that was set back meanwhile cannot hold anything up.
    pub fn due(&self, now: &Moment) -> bool {
        self.run != now.run || self.passed(now)
    }

    /// Milliseconds until it passes; zero or less once it has.
    pub fn left(&self, now: &Moment) -> Millis {
        if self.run == now.run {
            self.elapsed.saturating_sub(now.elapsed)
        } else {
            self.wall.as_millisecond() - now.wall.as_millisecond()
        }
    }
}
