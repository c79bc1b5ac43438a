//! Secrets that this run mints: each thread's own token. They are in memory
//! alone, in no fact and in no file: with the run its agents end too.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use stewards_core::ids::ThreadId;

/// Tokens of threads.
#[derive(Debug, Default)]
pub struct Passes {
    of: Mutex<BTreeMap<ThreadId, String>>,
}

/// 32 random bytes as hex.
pub fn secret() -> String {
    let mut bytes = [0_u8; 32];
    // Without randomness there is no safe way on; the system gives it or nothing works.
    getrandom::fill(&mut bytes).unwrap_or_else(|e| panic!("the system gives no randomness: {e}"));
    hex::encode(bytes)
}

impl Passes {
    /// The thread's token, minted when it is first asked for.
    pub fn of(&self, thread: &ThreadId) -> String {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.entry(thread.clone()).or_insert_with(secret).clone()
    }

    /// Whose token this is. Compared by hash, so that time tells nothing of it.
    pub fn who(&self, token: &str) -> Option<ThreadId> {
        let asked = stewards_core::text::hash(token);
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.iter().find(|(_, t)| stewards_core::text::hash(t) == asked).map(|(id, _)| id.clone())
    }
}
