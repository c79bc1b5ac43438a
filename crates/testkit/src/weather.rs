//! How rude a simulation's outside is.

use crate::rng::Rng;
use crate::{MINUTE, SECOND};

/// How rude the outside is, each per mille.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    pub rings_lost: u64,
    pub rings_doubled: u64,
    /// Most milliseconds that a ring takes.
    pub rings_late: i64,
    /// Most milliseconds that a read takes; it saw what was so when it left.
    pub looks_late: i64,
    /// A look that fails, or is limited.
    pub looks_fail: u64,
    /// A look that answers what was so a while ago.
    pub looks_stale: u64,
    /// A write whose answer is lost though it happened.
    pub writes_flaky: u64,
    /// An agent's turn that fails.
    pub turns_fail: u64,
    /// A turn that fails before the agent had its words.
    pub turns_unheard: u64,
    /// A crash after a step.
    pub crash: u64,
    /// Crashes at most.
    pub crashes: u32,
    /// The wall clock steps.
    pub clock_jumps: u64,
    /// Somebody pushes to the pull and has it reviewed anew.
    pub pushes: u64,
    pub sweep: i64,
    /// Between two polls; 0 for as long as between two sweeps.
    pub poll: i64,
    /// A person writes to a thread, at work or not.
    pub tells: u64,
    /// A person stops, archives, brings back or compacts a thread, or stops them all.
    pub meddles: u64,
    /// An agent asks the person before its next step.
    pub asks: u64,
    /// A message for a live turn that the agent does not take.
    pub steers_refused: u64,
    /// A turn that fails for its provider's limit.
    pub limits: u64,
}

impl Weather {
    /// Nothing goes wrong, and no sweep would find what a ring missed.
    pub fn calm() -> Weather {
        Weather { sweep: 24 * 60 * MINUTE, rings_late: 300, looks_late: 1_500, ..Weather::default() }
    }

    /// No ring is lost and no sweep helps: all must come by rings alone.
    pub fn prompt() -> Weather {
        Weather { rings_doubled: 200, rings_late: 9 * SECOND, looks_late: 12 * SECOND, ..Weather::calm() }
    }

    pub fn storm(rng: &mut Rng) -> Weather {
        Weather {
            rings_lost: [0, 200, 600, 1_000][(rng.draw() % 4) as usize],
            rings_doubled: 200,
            rings_late: 20 * SECOND,
            looks_late: 5 * SECOND,
            looks_fail: [0, 150][(rng.draw() % 2) as usize],
            looks_stale: [0, 150][(rng.draw() % 2) as usize],
            writes_flaky: [0, 300][(rng.draw() % 2) as usize],
            turns_fail: [0, 60][(rng.draw() % 2) as usize],
            crash: [0, 20, 60][(rng.draw() % 3) as usize],
            crashes: 6,
            clock_jumps: [0, 10][(rng.draw() % 2) as usize],
            pushes: [0, 4][(rng.draw() % 2) as usize],
            sweep: MINUTE,
            ..Weather::default()
        }
    }

    /// For threads alone: people who meddle, agents that ask, and crashes.
    pub fn host_storm(rng: &mut Rng) -> Weather {
        Weather {
            turns_fail: [0, 40][(rng.draw() % 2) as usize],
            turns_unheard: [0, 60][(rng.draw() % 2) as usize],
            crash: [0, 8, 30][(rng.draw() % 3) as usize],
            crashes: 8,
            clock_jumps: [0, 10][(rng.draw() % 2) as usize],
            sweep: 24 * 60 * MINUTE,
            tells: [60, 200][(rng.draw() % 2) as usize],
            meddles: [0, 10, 40][(rng.draw() % 3) as usize],
            asks: [0, 60][(rng.draw() % 2) as usize],
            steers_refused: [0, 300][(rng.draw() % 2) as usize],
            limits: [0, 20][(rng.draw() % 2) as usize],
            ..Weather::default()
        }
    }
}
