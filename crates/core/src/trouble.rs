//! The world is wrong: what went wrong outside, and what follows from it.

use crate::Millis;
use crate::moment::{Deadline, Moment};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How an effect or an ask failed outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// A login or a grant is missing; trying again does not help.
    #[error("not allowed: {says}")]
    Unauthorized { says: String },
    /// A limit with a known end.
    #[error("limited until {at}: {says}")]
    Later { at: Timestamp, says: String },
    /// A clear "not found". Nothing else means gone.
    #[error("gone: {says}")]
    Gone { says: String },
    /// The service answered and said no for good (a policy, a conflict).
    #[error("refused: {says}")]
    Refused { says: String },
    /// Unreachable, timed out or broken: it may work next time.
    #[error("failed: {says}")]
    Flaky { says: String },
}

/// What to do about a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    Retry {
        after: Millis,
    },
    Wait {
        until: Timestamp,
    },
    /// Give up on this try and say it.
    Tell,
}

/// At most so many tries of one effect before a person is told.
pub const MAX_ATTEMPTS: u32 = 8;

/// When a failed try is made again, by [`policy`]; nothing where it is given up.
pub fn again(trouble: &Trouble, attempts: u32, now: &Moment) -> Option<Deadline> {
    match policy(trouble, attempts) {
        Course::Retry { after } => Some(now.after(after)),
        Course::Wait { until } => Some(now.after((until.as_millisecond() - now.wall.as_millisecond()).max(1_000))),
        Course::Tell => None,
    }
}

/// `attempts` counts the tries that failed, this one included (from 1).
pub fn policy(trouble: &Trouble, attempts: u32) -> Course {
    match trouble {
        Trouble::Unauthorized { .. } | Trouble::Gone { .. } | Trouble::Refused { .. } => Course::Tell,
        Trouble::Later { at, .. } => Course::Wait { until: *at },
        Trouble::Flaky { .. } if attempts >= MAX_ATTEMPTS => Course::Tell,
        Trouble::Flaky { .. } => {
            // 1 s, 2 s, 4 s … capped at a minute.
            let after = 1_000_i64.checked_shl(attempts.saturating_sub(1).min(10)).unwrap_or(60_000);
            Course::Retry { after: after.min(60_000) }
        }
    }
}
