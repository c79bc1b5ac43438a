//! Worktrees of threads: made once, and removed only when nothing is lost by it.

use crate::git::{GitRepos, disk, exists, utf8};
use crate::scripts::{SETUP, TEARDOWN};
use std::path::{Path, PathBuf};
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Removed, RepoSpec};
use stewards_core::trouble::Trouble;

impl GitRepos {
    fn worktree_path(&self, thread: &ThreadId) -> PathBuf {
        self.dir.join("worktrees").join(thread.as_str())
    }

    /// Stands beside a worktree whose setup has not ended well yet.
    fn unfinished(&self, thread: &ThreadId) -> PathBuf {
        self.dir.join("worktrees").join(format!(".{thread}.unfinished"))
    }

    pub(crate) async fn add(&self, spec: &RepoSpec, thread: &ThreadId, branch: &str) -> Result<PathBuf, Trouble> {
        let path = self.worktree_path(thread);
        let unfinished = self.unfinished(thread);
        let checkout = self.checkout_path(spec);
        // Asked before every turn: what stands and is whole costs no git.
        if exists(&path.join(".git")).await && !exists(&unfinished).await && !self.is_half(&checkout, &path).await {
            return Ok(path);
        }
        {
            let lock = self.lock(spec);
            let _held = lock.lock().await;
            let checkout = self.cloned(spec).await?;
            self.drop_half(&checkout, &path).await?;
            self.git.must(&checkout, &["worktree", "prune"]).await?;
            if exists(&path).await && !self.is_worktree(&path).await? {
                self.clear_the_place(thread, &path).await?;
            }
            if !exists(&path).await {
                let parent = self.dir.join("worktrees");
                disk(move || std::fs::create_dir_all(parent)).await?;
                if !self.bring_back(&checkout, thread, &path).await? {
                    let mark = unfinished.clone();
                    disk(move || std::fs::write(mark, "")).await?;
                    self.make(spec, &checkout, &path, branch).await?;
                }
            }
            if exists(&unfinished).await {
                self.include(&checkout, &path).await?;
            }
        }
        // Not under the lock: a slow script holds up no other thread of the project.
        if exists(&unfinished).await {
            if let Err(trouble) = self.script(thread, &path, SETUP).await {
                self.discard(spec, &path, branch).await?;
                let _ = disk(move || std::fs::remove_file(unfinished)).await;
                return Err(trouble);
            }
            disk(move || std::fs::remove_file(unfinished)).await?;
        }
        Ok(path)
    }

    /// Removes a worktree whose setup failed: nobody has worked in it yet.
    async fn discard(&self, spec: &RepoSpec, path: &Path, branch: &str) -> Result<(), Trouble> {
        let lock = self.lock(spec);
        let _held = lock.lock().await;
        let checkout = self.checkout_path(spec);
        self.git.ask(&checkout, &["worktree", "remove", "--force", "--force", utf8(path)?]).await?;
        self.drop_safe_branch(spec, &checkout, branch).await
    }

    /// A fresh worktree: of the local branch, else of the remote's branch of that
    /// name, else of the tip of the branch that work starts from.
    async fn make(&self, spec: &RepoSpec, checkout: &Path, path: &Path, branch: &str) -> Result<(), Trouble> {
        let to = utf8(path)?;
        let tip = self.tip(checkout, spec.base.as_deref()).await?;
        if self.has_branch(checkout, branch).await? {
            // What may be on it is kept.
            self.git.must(checkout, &["worktree", "add", "--quiet", to, branch]).await?;
            return Ok(());
        }
        let pushed = format!("refs/remotes/origin/{branch}");
        let there = self.git.holds(checkout, &["rev-parse", "--verify", "--quiet", &pushed]).await?;
        let from = if there { pushed.as_str() } else { tip.as_str() };
        let args = ["worktree", "add", "--quiet", "--no-track", "-b", branch, to, from];
        self.git.must(checkout, &args).await?;
        Ok(())
    }

    /// The thread's worktree that was moved aside last is moved back.
    async fn bring_back(&self, checkout: &Path, thread: &ThreadId, path: &Path) -> Result<bool, Trouble> {
        let mut n = 1_u32;
        while exists(&self.aside_path(thread, n)).await {
            n += 1;
        }
        let Some(from) = n.checked_sub(1).filter(|n| *n > 0).map(|n| self.aside_path(thread, n)) else {
            return Ok(false);
        };
        // One that is no worktree any more stays where it was put.
        if !self.is_worktree(&from).await? {
            return Ok(false);
        }
        let args = ["worktree", "move", "--force", "--force", utf8(&from)?, utf8(path)?];
        self.git.holds(checkout, &args).await
    }

    fn aside_path(&self, thread: &ThreadId, n: u32) -> PathBuf {
        self.dir.join("aside").join(format!("{thread}-{n}"))
    }

    pub(crate) async fn remove(&self, spec: &RepoSpec, thread: &ThreadId, branch: &str) -> Result<Removed, Trouble> {
        let lock = self.lock(spec);
        let _held = lock.lock().await;
        let checkout = self.checkout_path(spec);
        let path = self.worktree_path(thread);
        if !exists(&checkout.join(".git")).await {
            // Without its repository a worktree is only a directory with files.
            return match exists(&path).await {
                true => self.aside(None, thread, &path, "its repository is not there any more").await,
                false => Ok(Removed::Gone),
            };
        }
        self.drop_half(&checkout, &path).await?;
        if !exists(&path).await {
            self.git.must(&checkout, &["worktree", "prune"]).await?;
            self.drop_safe_branch(spec, &checkout, branch).await?;
            return Ok(Removed::Gone);
        }
        if !self.is_worktree(&path).await? {
            let removed = self.clear_the_place(thread, &path).await?;
            self.drop_safe_branch(spec, &checkout, branch).await?;
            return Ok(removed);
        }
        // Submodules and files that are not tracked count; ignored files do not.
        let status = self
            .git
            .ask(&path, &["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none"])
            .await?;
        if !status.ok {
            return self.aside(Some(&checkout), thread, &path, "git cannot read its state").await;
        }
        if !status.stdout.is_empty() {
            let count = status.text().lines().count();
            let why = format!("it holds {count} changed or new files that are not committed");
            return self.aside(Some(&checkout), thread, &path, &why).await;
        }
        let tip = self.tip(&checkout, spec.base.as_deref()).await?;
        let head = self.git.ask(&path, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await?;
        if head.ok && !self.safe(&checkout, &head.text(), &tip).await? {
            let why = format!("its head {} is on no remote branch and not merged", short(&head.text()));
            return self.aside(Some(&checkout), thread, &path, &why).await;
        }
        if let Some(at) = self.branch_head(&checkout, branch).await?
            && !self.safe(&checkout, &at, &tip).await?
        {
            let why = format!("its branch {branch} at {} is on no remote branch and not merged", short(&at));
            return self.aside(Some(&checkout), thread, &path, &why).await;
        }
        if let Err(trouble) = self.script(thread, &path, TEARDOWN).await {
            tracing::warn!(%thread, %trouble, "a teardown script failed; its worktree is removed all the same");
        }
        // Twice, so that a locked worktree is removed as well.
        let args = ["worktree", "remove", "--force", "--force", utf8(&path)?];
        if !self.git.holds(&checkout, &args).await? {
            // A write that came in between can make git stop half-way.
            let gone = path.clone();
            disk(move || if gone.exists() { std::fs::remove_dir_all(gone) } else { Ok(()) }).await?;
            self.git.must(&checkout, &["worktree", "prune"]).await?;
        }
        if self.has_branch(&checkout, branch).await? {
            self.git.must(&checkout, &["branch", "--quiet", "-D", "--", branch]).await?;
        }
        Ok(Removed::Gone)
    }

    /// A directory that has its own git file and that git takes for the top of a
    /// worktree. Asking git alone is not enough: it would find a repository above.
    async fn is_worktree(&self, path: &Path) -> Result<bool, Trouble> {
        Ok(exists(&path.join(".git")).await && self.git.holds(path, &["rev-parse", "--git-dir"]).await?)
    }

    async fn branch_head(&self, checkout: &Path, branch: &str) -> Result<Option<String>, Trouble> {
        let name = format!("refs/heads/{branch}^{{commit}}");
        let answer = self.git.ask(checkout, &["rev-parse", "--verify", "--quiet", &name]).await?;
        Ok(answer.ok.then(|| answer.text()))
    }

    async fn has_branch(&self, checkout: &Path, branch: &str) -> Result<bool, Trouble> {
        Ok(self.branch_head(checkout, branch).await?.is_some())
    }

    /// Deletes the local branch where that loses nothing; else it stays.
    async fn drop_safe_branch(&self, spec: &RepoSpec, checkout: &Path, branch: &str) -> Result<(), Trouble> {
        let Some(head) = self.branch_head(checkout, branch).await? else { return Ok(()) };
        let tip = self.tip(checkout, spec.base.as_deref()).await?;
        // A worktree that was moved aside keeps its branch, and git refuses to delete it.
        if self.safe(checkout, &head, &tip).await? {
            self.git.ask(checkout, &["branch", "--quiet", "-D", "--", branch]).await?;
        }
        Ok(())
    }

    /// What this commit holds is on the remote as well: as commits, or as the same
    /// content after a squash or a rebase. Remote-tracking branches must be fresh.
    async fn safe(&self, checkout: &Path, head: &str, tip: &str) -> Result<bool, Trouble> {
        let git = &self.git;
        if git.must(checkout, &["rev-list", "--max-count=1", head, "--not", "--remotes"]).await?.is_empty() {
            return Ok(true);
        }
        if self.same(checkout, tip, head).await? {
            return Ok(true);
        }
        let base = git.ask(checkout, &["merge-base", tip, head]).await?;
        if !base.ok {
            return Ok(false);
        }
        let base = base.text();
        if self.same(checkout, &base, head).await? {
            return Ok(true);
        }
        // `cherry` passes over merges, so what was changed in one would not be seen.
        let merges = git.must(checkout, &["rev-list", "--max-count=1", "--merges", head, "--not", tip]).await?;
        if merges.is_empty() && all_there(&git.must(checkout, &["cherry", tip, head]).await?) {
            return Ok(true);
        }
        // All of the branch as one commit: is that patch there?
        let tree = format!("{head}^{{tree}}");
        let whole = git
            .must(
                checkout,
                &[
                    "-c",
                    "user.name=stewards",
                    "-c",
                    "user.email=stewards@localhost",
                    "commit-tree",
                    &tree,
                    "-p",
                    &base,
                    "-m",
                    "whole",
                ],
            )
            .await?;
        Ok(all_there(&git.must(checkout, &["cherry", tip, &whole]).await?))
    }

    /// Two commits hold the same files, whatever the repository's settings would
    /// have a comparison leave out.
    async fn same(&self, checkout: &Path, one: &str, other: &str) -> Result<bool, Trouble> {
        let tree = |of: &str| format!("{of}^{{tree}}");
        let trees = self.git.must(checkout, &["rev-parse", &tree(one), &tree(other)]).await?;
        Ok(trees.lines().next() == trees.lines().nth(1))
    }

    /// A worktree that a killed git left half made is still locked as such.
    async fn is_half(&self, checkout: &Path, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let lock = checkout.join(".git/worktrees").join(name).join("locked");
        tokio::fs::read_to_string(lock).await.is_ok_and(|t| t.trim() == "initializing")
    }

    /// Nobody has worked in one that is half made.
    async fn drop_half(&self, checkout: &Path, path: &Path) -> Result<(), Trouble> {
        let Some(name) = path.file_name() else { return Ok(()) };
        if self.is_half(checkout, path).await {
            let lock = checkout.join(".git/worktrees").join(name).join("locked");
            let gone = path.to_owned();
            disk(move || {
                std::fs::remove_file(lock)?;
                if gone.exists() { std::fs::remove_dir_all(gone) } else { Ok(()) }
            })
            .await?;
            self.git.must(checkout, &["worktree", "prune"]).await?;
        }
        Ok(())
    }

    /// Something that is no worktree stands where one belongs: an empty directory
    /// is removed, anything else is kept aside.
    async fn clear_the_place(&self, thread: &ThreadId, path: &Path) -> Result<Removed, Trouble> {
        let empty = path.to_owned();
        if disk(move || std::fs::remove_dir(empty)).await.is_ok() {
            return Ok(Removed::Gone);
        }
        self.aside(None, thread, path, "git does not know it as a worktree").await
    }

    /// Moves a directory out of the way, with git's knowledge where there is a
    /// checkout that knows it.
    async fn aside(
        &self,
        checkout: Option<&Path>,
        thread: &ThreadId,
        path: &Path,
        why: &str,
    ) -> Result<Removed, Trouble> {
        let dir = self.dir.join("aside");
        disk(move || std::fs::create_dir_all(dir)).await?;
        let mut n = 1_u32;
        while exists(&self.aside_path(thread, n)).await {
            n += 1;
        }
        let to = self.aside_path(thread, n);
        let moved = match checkout {
            // Twice, so that a locked one is moved as well.
            Some(checkout) => {
                let args = ["worktree", "move", "--force", "--force", utf8(path)?, utf8(&to)?];
                self.git.holds(checkout, &args).await?
            }
            None => false,
        };
        if !moved {
            // git does not move a worktree with submodules; it can be told afterwards.
            let (from, new) = (path.to_owned(), to.clone());
            disk(move || std::fs::rename(from, new)).await?;
            if let Some(checkout) = checkout {
                self.git.ask(checkout, &["worktree", "repair", utf8(&to)?]).await?;
            }
        }
        Ok(Removed::MovedAside { path: to, why: why.to_owned() })
    }
}

/// Every line of `git cherry` says that its commit is there already. No line says
/// nothing at all.
fn all_there(cherry: &str) -> bool {
    !cherry.is_empty() && cherry.lines().all(|l| l.starts_with('-'))
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
