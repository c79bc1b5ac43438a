//! Running git on the bare repositories, in a fixed environment.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::model::Stats;
use crate::{App, Error};

/// A git command with an environment that the machine's settings cannot reach.
pub fn command(app: &App) -> Command {
    let mut c = Command::new("git");
    c.env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
        .env("HOME", &app.dir)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "GitHub")
        .env("GIT_AUTHOR_EMAIL", "noreply@github.com")
        .env("GIT_COMMITTER_NAME", "GitHub")
        .env("GIT_COMMITTER_EMAIL", "noreply@github.com")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    c
}

/// One bare repository.
pub struct Git<'a> {
    app: &'a App,
    dir: PathBuf,
}

impl<'a> Git<'a> {
    /// The repository `owner/name`.
    pub fn new(app: &'a App, full: &str) -> Self {
        Self { app, dir: app.repo_dir(full) }
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs git with extra environment and input; any exit status is an answer.
    pub async fn raw(&self, args: &[&str], env: &[(&str, &str)], input: Option<&[u8]>) -> Result<Output, Error> {
        let mut c = command(self.app);
        c.arg("--git-dir").arg(&self.dir).args(args).envs(env.iter().copied());
        let Some(input) = input else { return Ok(c.output().await?) };
        let mut child = c.stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // Our inputs are messages and small files: they fit the pipe or are read at once.
            stdin.write_all(input).await?;
        }
        Ok(child.wait_with_output().await?)
    }

    /// Runs git and returns its standard output, trimmed at the end.
    pub async fn text(&self, args: &[&str]) -> Result<String, Error> {
        self.text_with(args, &[], None).await
    }

    /// As `text`, with environment and input.
    pub async fn text_with(&self, args: &[&str], env: &[(&str, &str)], input: Option<&[u8]>) -> Result<String, Error> {
        let out = self.raw(args, env, input).await?;
        if !out.status.success() {
            let what = String::from_utf8_lossy(&out.stderr);
            return Err(Error::Git(format!("git {}: {}", args.join(" "), what.trim())));
        }
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
    }

    /// The commit that a branch, tag or (short) id names.
    pub async fn commit(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.starts_with('-') {
            return None;
        }
        let spec = format!("{name}^{{commit}}");
        self.text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &spec]).await.ok()
    }

    /// Whether `a` is `b` or an ancestor of it.
    pub async fn contains(&self, b: &str, a: &str) -> bool {
        self.raw(&["merge-base", "--is-ancestor", a, b], &[], None).await.is_ok_and(|o| o.status.success())
    }

    /// What head brings over base.
    pub async fn stats(&self, base: &str, head: &str) -> Result<Stats, Error> {
        let count = self.text(&["rev-list", "--count", &format!("{base}..{head}")]).await?;
        let lines = self.text(&["diff", "--numstat", "-M", &format!("{base}...{head}")]).await.unwrap_or_default();
        let mut stats = Stats { commits: count.parse().unwrap_or(0), ..Stats::default() };
        for line in lines.lines() {
            let mut parts = line.split('\t');
            stats.additions += parts.next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            stats.deletions += parts.next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            stats.changed_files += 1;
        }
        Ok(stats)
    }

    /// The tree of a merge, or none on a conflict.
    pub async fn merge_tree(&self, base: &str, head: &str) -> Result<Option<String>, Error> {
        let out = self.raw(&["merge-tree", "--write-tree", base, head], &[], None).await?;
        match out.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_owned)),
            Some(1) => Ok(None),
            _ => Err(Error::Git(String::from_utf8_lossy(&out.stderr).trim().to_owned())),
        }
    }

    /// Branches and tags with their object ids.
    pub async fn refs(&self) -> Result<std::collections::BTreeMap<String, String>, Error> {
        let text = self.text(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"]).await?;
        Ok(text.lines().filter_map(|l| l.split_once(' ')).map(|(sha, name)| (name.into(), sha.into())).collect())
    }
}
