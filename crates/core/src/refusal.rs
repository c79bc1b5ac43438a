//! The caller is wrong: one sentence, one hint, one exit code.

use crate::text::{one_line, plain};
use serde::{Deserialize, Serialize};

/// What a refused command exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// 1: what was asked for is not so, or not yet.
    NotMet,
    /// 2: the command line is wrong.
    Usage,
    /// 69: something that is needed cannot be reached.
    Unreachable,
    /// 75: somebody else holds it; try again.
    Busy,
    /// 78: a configuration file is wrong.
    Configuration,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::NotMet => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 69,
            Exit::Busy => 75,
            Exit::Configuration => 78,
        }
    }
}

/// A typed no. It changes no row; it is said to the caller and leaves one fact
/// on the caller's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{says}")]
pub struct Refusal {
    /// A word that programs may match on, such as `unknown_thread`.
    pub code: String,
    /// One sentence without a full stop.
    pub says: String,
    /// Which of the code's cases it is, such as `archived` of `thread_not_writable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do instead.
    pub hint: String,
    pub exit: Exit,
}

impl Refusal {
    pub fn new(exit: Exit, code: &str, says: impl Into<String>, hint: impl Into<String>) -> Self {
        // What a caller wrote is repeated in these: as data, on one line.
        let (says, hint) = (one_line(&says.into()), plain(&hint.into()));
        Refusal { code: code.to_owned(), says, reason: None, hint, exit }
    }

    /// Names the case.
    pub fn because(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    pub fn usage(code: &str, says: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, says, hint)
    }

    pub fn not_met(code: &str, says: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::NotMet, code, says, hint)
    }

    pub fn busy(code: &str, says: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Busy, code, says, hint)
    }
}
