//! The checkouts of projects, and `.bb` as the remote has it.

use crate::git_run::Credentials;
use crate::git_run::{Git, flaky};
use crate::locks;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stewards_core::ids::ThreadId;
use stewards_core::ports::{BbFiles, Removed, Repo, RepoSpec, Soon, Try};
use stewards_core::text::hash;
use stewards_core::trouble::Trouble;

/// The longest file of `.bb` that is read, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// Repositories below one directory: `repos/<name>-<hash of its remote>/checkout`,
/// one clone for all projects and threads that have to do with it;
/// `worktrees/<thread>`; and `aside/<thread>-<n>` for worktrees that hold work which
/// is nowhere else.
pub struct GitRepos {
    pub(crate) dir: PathBuf,
    pub(crate) git: Git,
    /// A worktree's setup script may run for so long.
    pub(crate) script_limit: Duration,
    locks: Mutex<BTreeMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

impl GitRepos {
    /// `dir` is the daemon's data directory; `env` answers credentials as they are now,
    /// as git's own variables.
    pub fn new(dir: PathBuf, env: Credentials) -> GitRepos {
        // A relative directory would mean another one inside a repository.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        GitRepos { dir, git: Git::new(env), script_limit: Duration::from_secs(15 * 60), locks: Mutex::default() }
    }

    /// Commands that write to one repository run one after the other: git's own
    /// locks fail instead of waiting.
    pub(crate) fn lock(&self, spec: &RepoSpec) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(self.home(spec)).or_default())
    }

    fn home(&self, spec: &RepoSpec) -> PathBuf {
        let name: String = spec.name.0.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.dir.join("repos").join(format!("{name}-{}", &hash(&spec.remote)[..12]))
    }

    pub(crate) fn checkout_path(&self, spec: &RepoSpec) -> PathBuf {
        self.home(spec).join("checkout")
    }

    /// Clones where there is nothing yet. The lock must be held.
    pub(crate) async fn cloned(&self, spec: &RepoSpec) -> Result<PathBuf, Trouble> {
        let path = self.checkout_path(spec);
        if exists(&path.join(".git")).await {
            return Ok(path);
        }
        let home = self.home(spec);
        // A cut clone leaves its half in the other place, never in this one.
        let half = home.join("checkout.half");
        let (made, gone) = (home.clone(), half.clone());
        disk(move || {
            std::fs::create_dir_all(&made)?;
            if gone.exists() { std::fs::remove_dir_all(&gone) } else { Ok(()) }
        })
        .await?;
        let to = utf8(&half)?;
        self.git.remote(&home, &["clone", "--quiet", "--origin", "origin", "--", &spec.remote, to]).await?;
        let (from, to) = (half, path.clone());
        disk(move || std::fs::rename(from, to)).await?;
        Ok(path)
    }

    /// Fetches, and answers the tip of the branch that work starts from, which is the
    /// remote's default one if none is named. The lock must be held.
    pub(crate) async fn tip(&self, checkout: &Path, base: Option<&str>) -> Result<String, Trouble> {
        // Pruned, since whether a branch is still there decides whether work is safe.
        self.remote(checkout, &["fetch", "--quiet", "--prune", "origin"]).await?;
        // The default branch may have been renamed since the clone.
        self.remote(checkout, &["remote", "set-head", "origin", "--auto"]).await?;
        let name = format!("refs/remotes/origin/{}^{{commit}}", base.unwrap_or("HEAD"));
        let found = self.git.ask(checkout, &["rev-parse", "--verify", "--quiet", &name]).await?;
        match (found.ok, base) {
            (true, _) => Ok(found.text()),
            (false, Some(base)) => Err(Trouble::Refused { says: format!("the remote has no branch `{base}`") }),
            (false, None) => Err(found.trouble()),
        }
    }

    /// Speaks with the remote. Once more where a lock was in the way that nobody holds:
    /// an agent's git may have been killed, by whomever.
    async fn remote(&self, checkout: &Path, args: &[&str]) -> Result<String, Trouble> {
        match self.git.remote(checkout, args).await {
            Err(Trouble::Flaky { says }) if says.contains(".lock") || says.contains("remove the file") => {
                match self.unlocked().await {
                    0 => Err(Trouble::Flaky { says }),
                    _ => self.git.remote(checkout, args).await,
                }
            }
            answer => answer,
        }
    }

    async fn unlocked(&self) -> usize {
        let dir = self.dir.clone();
        tokio::task::spawn_blocking(move || locks::clear(&dir)).await.unwrap_or(0)
    }

    async fn bb(&self, spec: &RepoSpec) -> Result<BbFiles, Trouble> {
        let lock = self.lock(spec);
        let _held = lock.lock().await;
        let checkout = self.cloned(spec).await?;
        let commit = self.tip(&checkout, None).await?;
        let list = self.git.ask(&checkout, &["ls-tree", "-r", "-z", "-l", &commit, "--", ".bb/"]).await?;
        if !list.ok {
            return Err(list.trouble());
        }
        let mut files = BTreeMap::new();
        for entry in String::from_utf8_lossy(&list.stdout).split('\0').filter(|e| !e.is_empty()) {
            let Some(blob) = Blob::parse(entry) else { continue };
            if blob.bytes > FILE_BYTES {
                let says = format!("{} is larger than 1 MB at {commit}", blob.path);
                return Err(Trouble::Refused { says });
            }
            let text = self.git.ask(&checkout, &["cat-file", "blob", blob.id]).await?;
            if !text.ok {
                return Err(text.trouble());
            }
            let name = blob.path.strip_prefix(".bb/").unwrap_or(blob.path);
            files.insert(name.to_owned(), String::from_utf8_lossy(&text.stdout).into_owned());
        }
        Ok(BbFiles { commit, files })
    }
}

/// One line of `ls-tree -l`: mode, type, id, size, and the path after a tab.
struct Blob<'a> {
    id: &'a str,
    bytes: u64,
    path: &'a str,
}

impl Blob<'_> {
    /// Links and submodules are not files.
    fn parse(entry: &str) -> Option<Blob<'_>> {
        let (head, path) = entry.split_once('\t')?;
        let mut words = head.split_whitespace();
        let (mode, _kind, id, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
        mode.starts_with("100").then_some(())?;
        Some(Blob { id, bytes: size.parse().ok()?, path })
    }
}

impl Repo for GitRepos {
    fn unlock(&self) -> Soon<'_, usize> {
        Box::pin(self.unlocked())
    }

    fn checkout<'a>(&'a self, spec: &'a RepoSpec) -> Try<'a, PathBuf> {
        Box::pin(async move {
            let lock = self.lock(spec);
            let _held = lock.lock().await;
            self.cloned(spec).await
        })
    }

    fn read_bb<'a>(&'a self, spec: &'a RepoSpec) -> Try<'a, BbFiles> {
        Box::pin(self.bb(spec))
    }

    fn add_worktree<'a>(&'a self, spec: &'a RepoSpec, thread: &'a ThreadId, branch: &'a str) -> Try<'a, PathBuf> {
        Box::pin(self.add(spec, thread, branch))
    }

    fn disk(&self, paths: Vec<PathBuf>) -> Soon<'_, BTreeMap<PathBuf, u64>> {
        Box::pin(async move {
            let look = move || paths.into_iter().map(|p| (bytes_below(&p), p)).map(|(n, p)| (p, n)).collect();
            tokio::task::spawn_blocking(look).await.unwrap_or_default()
        })
    }

    fn remove_worktree<'a>(&'a self, spec: &'a RepoSpec, thread: &'a ThreadId, branch: &'a str) -> Try<'a, Removed> {
        Box::pin(self.remove(spec, thread, branch))
    }
}

/// What a checkout calls `origin`; a path is written from the root on.
pub fn origin(checkout: &Path) -> Option<String> {
    let asked = std::process::Command::new("git")
        .args(["remote", "get-url", "origin"])
        .current_dir(checkout)
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    let url = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    if !asked.status.success() || url.is_empty() {
        return None;
    }
    let path = checkout.join(&url);
    if !url.contains(':') && path.exists() {
        return path.canonicalize().ok()?.to_str().map(str::to_owned);
    }
    Some(url)
}

/// What a directory takes on the disk. Links are not followed.
fn bytes_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    let own = meta.blocks() * 512;
    if !meta.is_dir() {
        return own;
    }
    let below = std::fs::read_dir(path).into_iter().flatten().flatten();
    own + below.map(|e| bytes_below(&e.path())).sum::<u64>()
}

pub(crate) async fn exists(path: &Path) -> bool {
    tokio::fs::symlink_metadata(path).await.is_ok()
}

/// Work on the disk, away from the tasks that must not wait.
pub(crate) async fn disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| flaky(format!("the disk: {e}"))),
        Err(e) => Err(flaky(format!("the disk: {e}"))),
    }
}

pub(crate) fn utf8(path: &Path) -> Result<&str, Trouble> {
    path.to_str().ok_or_else(|| Trouble::Refused { says: format!("{} is not UTF-8", path.display()) })
}
