//! One daemon per directory.

use crate::private_dir;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

/// Held as long as the value lives; the operating system frees it with the process.
#[derive(Debug)]
pub struct DirLock(#[expect(dead_code, reason = "closing the file frees the lock")] File);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the directory is in use by {0}")]
    Held(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl DirLock {
    /// Takes the lock of a directory and writes `owner` into it, so that a
    /// second daemon can say who holds it.
    pub fn take(dir: &Path, owner: &str) -> Result<DirLock, LockError> {
        private_dir(dir)?;
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(dir.join("lock"))?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(owner.as_bytes())?;
                file.sync_data()?;
                Ok(DirLock(file))
            }
            Err(TryLockError::WouldBlock) => {
                let mut held = String::new();
                file.read_to_string(&mut held)?;
                Err(LockError::Held(if held.is_empty() { "another daemon".into() } else { held }))
            }
            Err(TryLockError::Error(e)) => Err(e.into()),
        }
    }
}
