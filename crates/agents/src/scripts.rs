//! A repository's own scripts for its worktrees, and the files that git does not
//! carry into them.
//!
//! `.bb-env-setup.sh` at the root of a new worktree runs before anything works in
//! it, `.bb-env-teardown.sh` before it is removed. `.worktreeinclude` has patterns
//! as `.gitignore` has them: untracked files of the project's checkout that match
//! are copied first.

use crate::git::{GitRepos, disk, exists};
use crate::git_run::flaky;
use crate::processes;
use crate::setup::{MARK, THREAD};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::trouble::Trouble;
use tokio::process::Command;

pub(crate) const SETUP: &str = ".bb-env-setup.sh";
pub(crate) const TEARDOWN: &str = ".bb-env-teardown.sh";
const INCLUDE: &str = ".worktreeinclude";
/// So much of a log's end is looked at for its last line, in bytes.
const TAIL: u64 = 4_096;

impl GitRepos {
    /// Where the scripts of a thread's worktree write.
    pub(crate) fn script_log(&self, thread: &ThreadId) -> PathBuf {
        self.dir.join("logs").join(format!("{thread}-setup.log"))
    }

    /// Copies what `.worktreeinclude` names. A file that is there already stays.
    pub(crate) async fn include(&self, checkout: &Path, worktree: &Path) -> Result<(), Trouble> {
        let patterns = worktree.join(INCLUDE);
        if !exists(&patterns).await {
            return Ok(());
        }
        let from = format!("--exclude-from={}", patterns.display());
        let list = self.git.must(checkout, &["ls-files", "--others", "--ignored", "-z", &from]).await?;
        let (checkout, worktree) = (checkout.to_owned(), worktree.to_owned());
        disk(move || {
            for name in list.split('\0').filter(|n| !n.is_empty()) {
                let (from, to) = (checkout.join(name), worktree.join(name));
                // A link could point anywhere; only files are copied.
                if !from.symlink_metadata()?.is_file() || to.symlink_metadata().is_ok() {
                    continue;
                }
                if let Some(parent) = to.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                std::fs::copy(from, to)?;
            }
            Ok(())
        })
        .await
    }

    /// Runs one of the scripts, if the worktree has it. What it starts is known by
    /// the thread's mark, as everything else that the thread runs.
    pub(crate) async fn script(&self, thread: &ThreadId, worktree: &Path, name: &str) -> Result<(), Trouble> {
        let script = worktree.join(name);
        if !script.symlink_metadata().is_ok_and(|m| m.is_file()) {
            return Ok(());
        }
        let log = self.script_log(thread);
        let (out, err) = open_log(&log).map_err(|e| flaky(format!("{}: {e}", log.display())))?;
        let mut command = Command::new("bash");
        command.arg(&script).current_dir(worktree).stdin(Stdio::null()).stdout(out).stderr(err);
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            // They are the daemon's own, and say nothing about this place.
            if name == "NODE_ENV" || name.starts_with("STEWARDS_") || name.starts_with("BB_") {
                command.env_remove(&key);
            }
        }
        command.env(MARK, self.dir.as_os_str()).env(THREAD, thread.as_str());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| flaky(format!("could not start bash: {e}")))?;
        let leader = child.id().and_then(|id| processes::find(i32::try_from(id).ok()?));
        let waited = tokio::time::timeout(self.script_limit, child.wait()).await;
        let says = match waited {
            Ok(Ok(status)) if status.success() => None,
            Ok(Ok(status)) => Some(format!("{name} failed ({status})")),
            Ok(Err(e)) => Some(format!("{name} was lost: {e}")),
            Err(_) => Some(format!("{name} took longer than {} seconds", self.script_limit.as_secs())),
        };
        // What a setup that went well left running serves the thread, until that is stopped.
        if says.is_some() || name == TEARDOWN {
            let (mark, id) = (self.dir.to_string_lossy().into_owned(), thread.clone());
            processes::end(move || processes::of_thread(&mark, id.as_str(), leader.as_ref())).await;
        }
        let Some(says) = says else { return Ok(()) };
        let last = last_line(&log).map(|l| format!(": {l}")).unwrap_or_default();
        Err(Trouble::Refused { says: format!("{says}{last} (all of it is in {})", log.display()) })
    }

    /// How long a script may run, for tests and settings.
    pub fn with_script_limit(mut self, limit: Duration) -> GitRepos {
        self.script_limit = limit;
        self
    }
}

fn open_log(path: &Path) -> std::io::Result<(File, File)> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok((file.try_clone()?, file))
}

fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(|l| l.chars().take(300).collect())
}
