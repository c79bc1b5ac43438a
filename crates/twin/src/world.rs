//! The world on disk: an append-only journal of JSON lines and its fold.
//!
//! A change is built on a copy of the state, written and synced as one line,
//! and only then becomes visible. A line is therefore all or nothing, and no
//! answer can show what a kill could take back.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::model::{Event, State, uuid_from};

/// One line of the journal.
#[derive(Serialize, Deserialize)]
struct Entry {
    at: Timestamp,
    next: u64,
    events: Vec<Event>,
}

/// A webhook to send once its change is on disk.
#[derive(Clone, Debug)]
pub enum Hook {
    /// Body without the fields that depend on the sending.
    Linear { entity: &'static str, body: Value },
    /// Event name and body.
    GitHub { event: &'static str, body: Value },
}

struct Inner {
    state: Arc<State>,
    file: File,
}

/// The journal and the state it folds to.
pub struct World {
    inner: Mutex<Inner>,
}

/// A change being built. Nothing of it is visible until it is committed.
pub struct Tx {
    /// The state as the change so far leaves it.
    pub state: State,
    /// The instant of the change, to the millisecond.
    pub now: Timestamp,
    events: Vec<Event>,
    pub(crate) hooks: Vec<Hook>,
    /// Check runs that must be started after the commit.
    pub(crate) runs: Vec<u64>,
}

impl Tx {
    /// Adds an event; `state` shows it at once.
    pub fn put(&mut self, event: Event) {
        self.state.apply(event.clone());
        self.events.push(event);
    }

    /// The next number of the id counter.
    pub fn number(&mut self) -> u64 {
        self.state.next += 1;
        self.state.next
    }

    /// A new UUID-shaped id.
    pub fn uuid(&mut self, kind: &str) -> String {
        let n = self.number();
        uuid_from(kind, n)
    }

    /// Sends a webhook after the commit.
    pub fn hook(&mut self, hook: Hook) {
        self.hooks.push(hook);
    }
}

/// Now, cut to milliseconds: the precision both services answer with.
pub fn now() -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl World {
    /// Opens the journal in `dir`, drops a torn last line and folds the rest.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("world.jsonl");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        // A twin that was just stopped may need a moment to let go.
        let mut tries = 0;
        while file.try_lock().is_err() {
            tries += 1;
            if tries > 40 {
                return Err(Error::Busy(path));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        if whole < bytes.len() {
            tracing::warn!(bytes = bytes.len() - whole, "dropping a torn last line of the journal");
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::End(0))?;
        let mut state = State::default();
        for (n, line) in bytes[..whole].split(|b| *b == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let entry: Entry =
                serde_json::from_slice(line).map_err(|e| Error::Journal { line: n + 1, reason: e.to_string() })?;
            for event in entry.events {
                state.apply(event);
            }
            state.next = entry.next;
        }
        // The name of a new journal must survive as well as its content.
        File::open(dir)?.sync_all()?;
        Ok(Self { inner: Mutex::new(Inner { state: Arc::new(state), file }) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The state is replaced in one assignment, so a panic elsewhere cannot leave it half made.
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The state as it stands; later changes do not show in it.
    pub fn state(&self) -> Arc<State> {
        self.lock().state.clone()
    }

    /// Builds and commits one change. A refusal leaves no trace.
    pub(crate) fn change<T, E: From<Error>>(
        &self,
        build: impl FnOnce(&mut Tx) -> Result<T, E>,
    ) -> Result<(T, Vec<Hook>, Vec<u64>), E> {
        let mut inner = self.lock();
        let mut tx =
            Tx { state: (*inner.state).clone(), now: now(), events: Vec::new(), hooks: Vec::new(), runs: Vec::new() };
        let out = build(&mut tx)?;
        if !tx.events.is_empty() {
            let entry = Entry { at: tx.now, next: tx.state.next, events: tx.events };
            let mut line = serde_json::to_vec(&entry).map_err(|e| E::from(Error::Io(e.into())))?;
            line.push(b'\n');
            let before = inner.file.stream_position().map_err(|e| E::from(e.into()))?;
            let written = inner.file.write_all(&line).and_then(|()| inner.file.sync_data());
            if let Err(e) = written {
                // What could not be synced must not be read back later.
                let _ = inner.file.set_len(before);
                let _ = inner.file.seek(SeekFrom::Start(before));
                return Err(E::from(e.into()));
            }
            inner.state = Arc::new(tx.state);
        }
        Ok((out, tx.hooks, tx.runs))
    }
}
