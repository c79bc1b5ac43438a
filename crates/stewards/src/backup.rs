//! A copy of what is known, and back.

use crate::out::{self, Outcome};
use std::path::{Path, PathBuf};
use stewards_core::refusal::Refusal;

/// A copy of the database, whole and of one moment.
pub fn backup(dir: &Path, to: &Path, json: bool) -> Outcome {
    let file = dir.join(stewards_store::FILE);
    if to.symlink_metadata().is_ok() {
        let says = format!("{} is there already", to.display());
        return Err(Refusal::not_met("file_exists", says, "name a file that is not there yet").into());
    }
    let reader = stewards_store::Reader::open(&file).map_err(|e| {
        let says = format!("{} cannot be read: {e}", file.display());
        Refusal::not_met("no_database", says, "name the data directory with --dir")
    })?;
    // SQLite makes the file itself; what is in it is for its owner's eyes.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    reader.backup(to).map_err(|e| {
        let says = format!("{} could not be written: {e}", to.display());
        Refusal::not_met("not_written", says, "see that its directory is there and has room")
    })?;
    let bytes = to.metadata()?.len();
    if json {
        return out::json(&serde_json::json!({ "file": to, "bytes": bytes }));
    }
    out::line(&format!("Wrote {} ({bytes} bytes). Secrets and worktrees are not in it.", to.display()));
    Ok(0)
}

/// What was there is kept beside it.
pub fn restore(dir: &Path, from: &Path, json: bool) -> Outcome {
    let _lock = crate::settings::lock(dir, "a restore")?;
    let whole = stewards_store::Reader::open(from).and_then(|r| r.world());
    if let Err(error) = whole {
        let says = format!("{} is no copy that this version can read: {error}", from.display());
        return Err(Refusal::usage("bad_copy", says, "name a file that `stewards backup` wrote").into());
    }
    let file = dir.join(stewards_store::FILE);
    let mut kept = None;
    if file.exists() {
        let aside = dir.join(format!("{}.before-{}", stewards_store::FILE, jiff::Timestamp::now().as_second()));
        // With the log of what was not yet written into the file itself.
        for end in ["", "-wal", "-shm"] {
            let part = |base: &Path| PathBuf::from(format!("{}{end}", base.display()));
            if part(&file).exists() {
                std::fs::rename(part(&file), part(&aside))?;
            }
        }
        kept = Some(aside);
    }
    let half = dir.join("restore.half");
    std::fs::copy(from, &half)?;
    std::fs::rename(half, &file)?;
    if json {
        return out::json(&serde_json::json!({ "restored": from, "kept": kept }));
    }
    out::line(&format!("{} is in place.", from.display()));
    if let Some(kept) = kept {
        out::line(&format!("What was there is kept as {}.", kept.display()));
    }
    Ok(0)
}
