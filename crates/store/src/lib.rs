//! One SQLite file: rows, facts, outbox, receipts, transcripts. The only SQL.
//!
//! One writer owns one connection and commits in groups with
//! `synchronous=FULL`; readers are short and read-only. The store decides
//! nothing: it records what a decision left behind.

mod forget;
mod lock;
mod private;
mod read;
mod rows;
pub mod sql;
mod stats;
mod write;

pub use lock::{DirLock, LockError};
pub use private::{private_dir, private_file};
pub use read::{BusFilter, BusRow, JournalLine, MessageRow, Reader, Told, TranscriptLine};
pub use stats::{BusStats, KindCount, SenderCount};
pub use write::{Batch, OutboxRow, Store};

/// The store could not read or write. Nothing half is left behind: the
/// transaction it happened in was rolled back.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error("a row that this version cannot read ({what}): {source}")]
    Row { what: String, source: serde_json::Error },
    #[error("{path}: {source}")]
    File { path: std::path::PathBuf, source: std::io::Error },
    #[error("the file was written by another version (schema {found}, this one knows {known})")]
    Other { found: i64, known: i64 },
}

impl StoreError {
    fn row(what: &str) -> impl FnOnce(serde_json::Error) -> StoreError + '_ {
        move |source| StoreError::Row { what: what.to_owned(), source }
    }
}

/// The name of the file in a data directory.
pub const FILE: &str = "stewards.db";
