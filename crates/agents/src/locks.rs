//! Lock files of gits that were killed: each would hold up everybody who shares the
//! repository, until a person removed it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// So long is waited for gits that still run.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);
/// Deeper than the refs of any branch.
const DEPTH: usize = 12;

/// Takes away the locks in the repositories below `dir`, a daemon's data directory, that
/// nobody can hold: they are older than the look that found no git at work there. Where
/// one still works after a while, all are left. Blocks. Answers how many went.
pub(crate) fn clear(dir: &Path) -> usize {
    let mut locks = Vec::new();
    for repo in std::fs::read_dir(dir.join("repos")).into_iter().flatten().flatten() {
        find(&repo.path().join("checkout/.git"), DEPTH, &mut locks);
    }
    if locks.is_empty() {
        return 0;
    }
    let began = Instant::now();
    let before = loop {
        let now = SystemTime::now();
        match at_work(dir) {
            Some(false) => break now,
            Some(true) if began.elapsed() < PATIENCE => std::thread::sleep(POLL),
            _ => return 0,
        }
    };
    let old = |lock: &PathBuf| lock.metadata().and_then(|m| m.modified()).is_ok_and(|at| at < before);
    let gone = locks.iter().filter(|l| old(l) && std::fs::remove_file(l).is_ok()).count();
    if gone > 0 {
        tracing::info!(gone, "took away locks that killed gits had left");
    }
    gone
}

/// Locks of refs, of the index and of the configuration, worktrees' among them.
fn find(dir: &Path, depth: usize, locks: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 && entry.file_name() != "objects" => find(&path, depth - 1, locks),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|e| e == "lock") => locks.push(path),
            _ => {}
        }
    }
}

/// Whether a git works anywhere below `dir`; nothing where that cannot be told.
#[cfg(target_os = "linux")]
fn at_work(dir: &Path) -> Option<bool> {
    let dir = dir.canonicalize().ok()?;
    let works = |process: &Path| {
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        name.starts_with("git") && std::fs::read_link(process.join("cwd")).is_ok_and(|at| at.starts_with(&dir))
    };
    Some(std::fs::read_dir("/proc").ok()?.flatten().any(|p| works(&p.path())))
}

#[cfg(not(target_os = "linux"))]
fn at_work(_: &Path) -> Option<bool> {
    None
}
