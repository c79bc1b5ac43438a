//! Messages for threads.

use crate::ids::{MessageId, ThreadId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a message may reach a thread. An idle thread begins a turn with any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendMode {
    /// Refused while a turn is live.
    Start,
    /// Goes into a live turn where the agent can, else waits for its end.
    Auto,
    /// The same, but refused where the last turn failed.
    Steer,
    /// The same as auto; the name says what is meant.
    SteerIfActive,
    /// Waits for the end of a live turn.
    QueueIfActive,
}

impl SendMode {
    /// It goes into a live turn where that can be.
    pub fn steers(self) -> bool {
        matches!(self, SendMode::Auto | SendMode::Steer | SendMode::SteerIfActive)
    }
}

/// Who a message is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The owner, from page or command line.
    Person,
    Thread {
        id: ThreadId,
    },
    /// The system itself: a wake, a first prompt, a line after a cut turn.
    System,
}

/// A message that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub id: MessageId,
    pub from: Sender,
    /// prompt, wake, message, bus, resume, notice or answer: what the turn is counted under.
    pub cause: String,
    pub text: String,
    /// A wake is a level, not a message: when a crash cuts its turn it is made anew.
    pub wake: bool,
    /// It goes into a live turn where the agent can.
    pub steer: bool,
    pub at: Timestamp,
    /// The bus message that it carries.
    pub bus: Option<u64>,
    /// A live turn's agent did not take it.
    pub back: bool,
}

impl Queued {
    /// Its place in a queue: what a cut or failed turn was about comes first, then what
    /// a live turn did not take, then all else as it came.
    fn place(&self) -> (bool, bool, &MessageId) {
        (self.cause != "resume", !self.back, &self.id)
    }

    /// Puts it where it belongs.
    pub fn join(self, queue: &mut Vec<Arc<Queued>>) {
        let at = queue.partition_point(|m| m.place() < self.place());
        queue.insert(at, Arc::new(self));
    }
}
