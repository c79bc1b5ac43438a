//! The pretend CI: one check run named `test` on a commit.
//!
//! It checks the commit out and runs its `test.sh`. A run that a kill cut short
//! is started again from its beginning: the script judges a commit, so running
//! it twice gives the same verdict.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::git::{self, Git};
use crate::github_json as js;
use crate::model::{CheckRun, Event};
use crate::repos::check_hook;
use crate::world::Hook;
use crate::{App, Error};

/// A script that takes longer than this has timed out.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts every run that a stop left unfinished.
pub fn resume(app: &Arc<App>) {
    for run in app.world.state().check_runs.values().filter(|r| r.status != "completed") {
        start(app, run.id);
    }
}

/// Runs one check in the background.
pub fn start(app: &Arc<App>, id: u64) {
    let task = app.clone();
    app.tasks.spawn(async move {
        tokio::select! {
            end = run(&task, id) => if let Err(e) = end {
                tracing::warn!(id, error = %e, "check run failed to run");
            },
            () = task.stop.cancelled() => {}
        }
    });
}

async fn run(app: &Arc<App>, id: u64) -> Result<(), Error> {
    let Some(run) = set(app, id, |run| run.status = "in_progress".into())? else { return Ok(()) };
    tokio::time::sleep(app.ci_delay).await;
    let work = app.dir.join("ci").join(id.to_string());
    let _ = tokio::fs::remove_dir_all(&work).await;
    tokio::fs::create_dir_all(&work).await?;
    let (conclusion, summary) = match judge(app, &run, &work).await {
        Ok(verdict) => verdict,
        Err(e) => ("failure", e.to_string()),
    };
    let _ = tokio::fs::remove_dir_all(&work).await;
    let done = crate::world::now();
    set(app, id, |run| {
        run.status = "completed".into();
        run.conclusion = Some(conclusion.into());
        run.summary = Some(summary);
        run.completed_at = Some(done);
    })?;
    Ok(())
}

/// Journals a step of a run and sends what the real service sends for it.
fn set(app: &Arc<App>, id: u64, edit: impl FnOnce(&mut CheckRun)) -> Result<Option<CheckRun>, Error> {
    app.change(|tx| {
        let Some(mut run) = tx.state.check_runs.get(&id).cloned() else { return Ok(None) };
        if run.status == "completed" {
            return Ok(None);
        }
        edit(&mut run);
        tx.put(Event::CheckRun(run.clone()));
        if run.status == "completed" {
            check_hook(app, tx, "completed", &run);
            let me = tx.state.me();
            if let Some(repo) = tx.state.repos.get(&run.repo).cloned() {
                let body = json!({
                    "action": "completed",
                    "check_suite": js::check_suite(app, &tx.state, &run),
                    "repository": js::repo(app, &tx.state, &repo),
                    "sender": js::user(app, &me),
                });
                tx.hook(Hook::GitHub { event: "check_suite", body });
            }
        }
        Ok(Some(run))
    })
}

/// Checks the commit out into `work` and runs its script there.
async fn judge(app: &App, run: &CheckRun, work: &std::path::Path) -> Result<(&'static str, String), Error> {
    let git = Git::new(app, &run.repo);
    let index = work.with_extension("index");
    let (tree, index_name) = (work.to_string_lossy(), index.to_string_lossy());
    let env = [("GIT_INDEX_FILE", index_name.as_ref()), ("GIT_WORK_TREE", tree.as_ref())];
    git.text_with(&["read-tree", &run.head_sha], &env, None).await?;
    git.text_with(&["checkout-index", "--all", "--force"], &env, None).await?;
    let _ = tokio::fs::remove_file(&index).await;
    if !work.join("test.sh").is_file() {
        return Ok(("success", "There is no test.sh.".into()));
    }
    // The same clean environment as git's, so that the machine cannot change a verdict.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let child = tokio::process::Command::new("sh")
        .arg("./test.sh")
        .current_dir(work)
        .env_clear()
        .env("PATH", path)
        .env("HOME", work)
        .env("CI", "true")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let Ok(out) = tokio::time::timeout(LIMIT, child).await else {
        return Ok(("timed_out", "test.sh took too long.".into()));
    };
    let out = out?;
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    let tail: String = text.chars().rev().take(4000).collect::<Vec<_>>().into_iter().rev().collect();
    Ok((if out.status.success() { "success" } else { "failure" }, tail))
}

/// Makes the first commit of a repository from files; returns its id.
pub async fn first_commit(
    app: &App,
    full: &str,
    files: &std::collections::BTreeMap<String, String>,
    message: &str,
) -> Result<String, Error> {
    let git = Git::new(app, full);
    if !git.dir().join("HEAD").is_file() {
        if let Some(parent) = git.dir().parent() {
            tokio::fs::create_dir_all(parent).await?;
        }
        let out = git::command(app).args(["init", "--bare", "-q", "-b", "main"]).arg(git.dir()).output().await?;
        if !out.status.success() {
            return Err(Error::Git(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
    }
    for (key, value) in [("http.receivepack", "true"), ("gc.auto", "0"), ("receive.autogc", "false")] {
        git.text(&["config", key, value]).await?;
    }
    if let Some(sha) = git.commit("refs/heads/main").await {
        return Ok(sha);
    }
    let index = git.dir().join("twin.index");
    let _ = tokio::fs::remove_file(&index).await;
    let name = index.to_string_lossy();
    let env = [("GIT_INDEX_FILE", name.as_ref())];
    for (path, text) in files {
        let blob = git.text_with(&["hash-object", "-w", "--stdin"], &[], Some(text.as_bytes())).await?;
        let mode = if path.ends_with(".sh") { "100755" } else { "100644" };
        let info = format!("{mode},{blob},{path}");
        git.text_with(&["update-index", "--add", "--cacheinfo", &info], &env, None).await?;
    }
    let tree = git.text_with(&["write-tree"], &env, None).await?;
    let _ = tokio::fs::remove_file(&index).await;
    let me = app.world.state().me();
    let who = [
        ("GIT_AUTHOR_NAME", me.name.as_str()),
        ("GIT_AUTHOR_EMAIL", me.email.as_str()),
        ("GIT_COMMITTER_NAME", me.name.as_str()),
        ("GIT_COMMITTER_EMAIL", me.email.as_str()),
    ];
    let sha = git.text_with(&["commit-tree", &tree, "-F", "-"], &who, Some(message.as_bytes())).await?;
    git.text(&["update-ref", "refs/heads/main", &sha, ""]).await?;
    Ok(sha)
}
