//! The git side, with real git and a bare repository as the remote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use stewards_agents::GitRepos;
use stewards_core::entity::RepoName;
use stewards_core::ids::{ProjectId, ThreadId};
use stewards_core::ports::{Removed, Repo, RepoSpec};
use stewards_core::trouble::Trouble;

const BRANCH: &str = "stewards/eng-1";

fn git(cwd: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(cwd)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A remote, somebody else's clone of it, and ours.
struct Place {
    root: tempfile::TempDir,
    repos: GitRepos,
    spec: RepoSpec,
    thread: ThreadId,
}

impl Place {
    fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        let remote = root.path().join("remote.git");
        git(root.path(), &["init", "--quiet", "--bare", "remote.git"]);
        git(root.path(), &["clone", "--quiet", "remote.git", "other"]);
        let other = root.path().join("other");
        std::fs::create_dir_all(other.join(".bb/playbooks")).unwrap();
        std::fs::write(other.join(".bb/project.md"), "one\n").unwrap();
        std::fs::write(other.join(".bb/playbooks/fix.md"), "steps\n").unwrap();
        std::fs::write(other.join("code.txt"), "a\nb\nc\nd\ne\nf\n").unwrap();
        git(&other, &["add", "."]);
        git(&other, &["commit", "--quiet", "-m", "first"]);
        git(&other, &["push", "--quiet", "origin", "HEAD:main"]);
        Place {
            repos: GitRepos::new(root.path().join("data"), std::sync::Arc::new(BTreeMap::new)),
            spec: RepoSpec {
                project: ProjectId("prj_1".into()),
                name: RepoName("o/r".into()),
                remote: remote.to_str().unwrap().to_owned(),
                base: None,
            },
            thread: ThreadId("thr_1".into()),
            root,
        }
    }

    fn other(&self) -> PathBuf {
        self.root.path().join("other")
    }

    /// Somebody changes the default branch.
    fn push_main(&self, file: &str, text: &str) -> String {
        let other = self.other();
        std::fs::write(other.join(file), text).unwrap();
        git(&other, &["add", "."]);
        git(&other, &["commit", "--quiet", "-m", "more"]);
        git(&other, &["push", "--quiet", "origin", "HEAD:main"]);
        git(&other, &["rev-parse", "HEAD"])
    }

    async fn add(&self) -> PathBuf {
        self.repos.add_worktree(&self.spec, &self.thread, BRANCH).await.unwrap()
    }

    async fn remove(&self) -> Removed {
        self.repos.remove_worktree(&self.spec, &self.thread, BRANCH).await.unwrap()
    }

    fn commit(&self, tree: &Path, file: &str, text: &str) {
        std::fs::write(tree.join(file), text).unwrap();
        git(tree, &["add", "."]);
        git(tree, &["commit", "--quiet", "-m", file]);
    }

    async fn has_branch(&self) -> bool {
        let checkout = self.repos.checkout(&self.spec).await.unwrap();
        !git(&checkout, &["branch", "--list", BRANCH]).is_empty()
    }

    /// It was kept aside, with its content and its branch.
    async fn kept(&self, file: &str) {
        let Removed::MovedAside { path, .. } = self.remove().await else { panic!("it was removed") };
        assert!(path.ends_with("aside/thr_1-1"), "{}", path.display());
        assert!(path.join(file).exists());
        assert!(!git(&path, &["rev-parse", "HEAD"]).is_empty());
        assert!(!self.root.path().join("data/worktrees/thr_1").exists());
        assert!(self.has_branch().await);
        assert_eq!(self.remove().await, Removed::Gone);
        assert!(path.join(file).exists());
    }
}

#[tokio::test]
async fn a_clean_worktree_and_its_branch_are_removed_and_removing_again_is_the_same() {
    let place = Place::new();
    let tree = place.add().await;
    assert_eq!(git(&tree, &["rev-parse", "--abbrev-ref", "HEAD"]), BRANCH);
    assert_eq!(place.remove().await, Removed::Gone);
    assert!(!tree.exists());
    assert!(!place.has_branch().await);
    assert_eq!(place.remove().await, Removed::Gone);
}

#[tokio::test]
async fn adding_twice_gives_the_same_worktree_as_it_is() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "mine");
    place.push_main("code.txt", "new\n");
    assert_eq!(place.add().await, tree);
    assert!(tree.join("mine.txt").exists());
}

#[tokio::test]
async fn a_branch_that_a_cut_attempt_left_is_taken_up() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "mine");
    std::fs::remove_dir_all(&tree).unwrap();
    assert_eq!(place.add().await, tree);
    assert!(tree.join("mine.txt").exists());
}

#[tokio::test]
async fn a_worktree_begins_at_the_remotes_tip_of_now() {
    let place = Place::new();
    place.repos.checkout(&place.spec).await.unwrap();
    let tip = place.push_main("code.txt", "new\n");
    let tree = place.add().await;
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), tip);
}

#[tokio::test]
async fn a_changed_file_is_moved_aside() {
    let place = Place::new();
    std::fs::write(place.add().await.join("code.txt"), "changed").unwrap();
    place.kept("code.txt").await;
}

#[tokio::test]
async fn a_new_file_is_moved_aside_but_an_ignored_one_is_not() {
    let place = Place::new();
    place.push_main(".gitignore", "target\n");
    let tree = place.add().await;
    std::fs::create_dir(tree.join("target")).unwrap();
    std::fs::write(tree.join("target/x"), "x").unwrap();
    assert_eq!(place.remove().await, Removed::Gone);
    std::fs::write(place.add().await.join("new.txt"), "new").unwrap();
    place.kept("new.txt").await;
}

#[tokio::test]
async fn a_commit_that_was_not_pushed_is_moved_aside() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "mine");
    place.kept("mine.txt").await;
}

#[tokio::test]
async fn a_detached_head_that_is_ahead_is_moved_aside() {
    let place = Place::new();
    let tree = place.add().await;
    git(&tree, &["checkout", "--quiet", "--detach"]);
    place.commit(&tree, "mine.txt", "mine");
    // The branch itself holds nothing, so only the worktree keeps the commit alive.
    let Removed::MovedAside { path, why } = place.remove().await else { panic!("it was removed") };
    assert!(path.join("mine.txt").exists());
    assert!(why.contains("no remote branch"), "{why}");
}

#[tokio::test]
async fn a_pushed_branch_is_removed_though_it_is_not_merged() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "mine");
    git(&tree, &["push", "--quiet", "origin", BRANCH]);
    assert_eq!(place.remove().await, Removed::Gone);
    assert!(!place.has_branch().await);
}

#[tokio::test]
async fn a_squash_merged_branch_that_was_deleted_on_the_remote_is_removed_though_main_went_on() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "one\n");
    place.commit(&tree, "mine.txt", "one\ntwo\n");
    git(&tree, &["push", "--quiet", "origin", BRANCH]);
    let other = place.other();
    place.push_main("elsewhere.txt", "before\n");
    git(&other, &["fetch", "--quiet", "origin"]);
    git(&other, &["merge", "--quiet", "--squash", &format!("origin/{BRANCH}")]);
    git(&other, &["commit", "--quiet", "-m", "squashed"]);
    git(&other, &["push", "--quiet", "origin", "HEAD:main"]);
    place.push_main("elsewhere.txt", "after\n");
    git(&other, &["push", "--quiet", "origin", "--delete", BRANCH]);
    assert_eq!(place.remove().await, Removed::Gone);
    assert!(!tree.exists());
    assert!(!place.has_branch().await);
}

#[tokio::test]
async fn work_that_came_after_the_squash_merge_is_moved_aside() {
    let place = Place::new();
    let tree = place.add().await;
    place.commit(&tree, "mine.txt", "one\n");
    place.push_main("mine.txt", "one\n");
    place.commit(&tree, "mine.txt", "one\nmore\n");
    place.kept("mine.txt").await;
}

#[tokio::test]
async fn bb_is_read_at_the_remotes_tip_and_not_from_the_working_copy() {
    let place = Place::new();
    let checkout = place.repos.checkout(&place.spec).await.unwrap();
    std::fs::write(checkout.join(".bb/project.md"), "local\n").unwrap();
    let tip = place.push_main(".bb/project.md", "two\n");
    let bb = place.repos.read_bb(&place.spec).await.unwrap();
    assert_eq!(bb.commit, tip);
    let files: Vec<(&str, &str)> = bb.files.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(files, [("playbooks/fix.md", "steps\n"), ("project.md", "two\n")]);
    assert_eq!(std::fs::read_to_string(checkout.join(".bb/project.md")).unwrap(), "local\n");
}

#[tokio::test]
async fn a_clone_that_was_cut_is_made_anew_and_a_missing_repository_is_gone() {
    let mut place = Place::new();
    let made = place.repos.checkout(&place.spec).await.unwrap();
    let half = made.with_file_name("checkout.half");
    std::fs::rename(&made, &half).unwrap();
    let checkout = place.repos.checkout(&place.spec).await.unwrap();
    assert_eq!(checkout, made);
    assert!(checkout.join("code.txt").exists());
    assert!(!half.exists());
    place.spec.project = ProjectId("prj_2".into());
    place.spec.remote = place.root.path().join("nowhere.git").to_str().unwrap().to_owned();
    let trouble = place.repos.checkout(&place.spec).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Gone { .. }), "{trouble}");
}

#[tokio::test]
async fn projects_share_the_clone_of_a_repository_and_work_starts_from_the_branch_that_is_named() {
    let place = Place::new();
    let tip = place.push_main("more.txt", "more\n");
    git(&place.other(), &["push", "--quiet", "origin", "HEAD~1:refs/heads/next"]);
    let of = |project: &str, base: Option<&str>| RepoSpec {
        project: ProjectId(project.into()),
        base: base.map(str::to_owned),
        ..place.spec.clone()
    };
    let first = place.repos.checkout(&of("prj_1", None)).await.unwrap();
    let (spec, thread) = (of("prj_2", Some("next")), ThreadId("thr_2".into()));
    assert_eq!(place.repos.checkout(&spec).await.unwrap(), first);
    let path = place.repos.add_worktree(&spec, &thread, "stewards/x-2").await.unwrap();
    assert_ne!(git(&path, &["rev-parse", "HEAD"]), tip);
    assert_eq!(git(&path, &["rev-parse", "HEAD"]), git(&place.other(), &["rev-parse", "HEAD~1"]));
    // What is on that branch is safe there.
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "nothing"]);
    assert_eq!(place.repos.remove_worktree(&spec, &thread, "stewards/x-2").await.unwrap(), Removed::Gone);
    let trouble = place.repos.add_worktree(&of("prj_2", Some("none")), &thread, "stewards/x-3").await.unwrap_err();
    assert!(trouble.to_string().contains("no branch `none`"), "{trouble}");
}

#[tokio::test]
async fn a_directory_that_is_no_worktree_is_kept_aside_and_the_place_is_free() {
    let place = Place::new();
    let tree = place.root.path().join("data/worktrees/thr_1");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("found.txt"), "x").unwrap();
    assert_eq!(place.add().await, tree);
    assert!(tree.join("code.txt").exists());
    assert!(place.root.path().join("data/aside/thr_1-1/found.txt").exists());
}

#[tokio::test]
async fn a_worktree_that_a_killed_git_left_half_made_is_made_anew() {
    let place = Place::new();
    let tree = place.add().await;
    let checkout = place.repos.checkout(&place.spec).await.unwrap();
    std::fs::remove_file(tree.join("code.txt")).unwrap();
    std::fs::write(checkout.join(".git/worktrees/thr_1/locked"), "initializing\n").unwrap();
    assert_eq!(place.add().await, tree);
    assert!(tree.join("code.txt").exists());
}

#[tokio::test]
async fn a_setup_script_runs_once_in_a_new_worktree_with_the_files_that_are_to_be_included() {
    let place = Place::new();
    place.push_main(".worktreeinclude", ".env\n*.local\n!not.local\n");
    place.push_main(".gitignore", ".env\n*.local\nran\n");
    place.push_main(".bb-env-setup.sh", "test -z \"$STEWARDS_TOKEN\" && cat .env a/b.local >> ran && pwd >> ran\n");
    let checkout = place.repos.checkout(&place.spec).await.unwrap();
    std::fs::create_dir_all(checkout.join("a")).unwrap();
    for (name, text) in [(".env", "KEY=1\n"), ("a/b.local", "two\n"), ("not.local", "no\n"), ("other.txt", "no\n")] {
        std::fs::write(checkout.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", checkout.join("link.local")).unwrap();
    for _ in 0..2 {
        let path = place.repos.add_worktree(&place.spec, &place.thread, BRANCH).await.unwrap();
        let ran = std::fs::read_to_string(path.join("ran")).unwrap();
        assert_eq!(ran, format!("KEY=1\ntwo\n{}\n", path.display()));
        assert!(
            !path.join("not.local").exists() && !path.join("other.txt").exists() && !path.join("link.local").exists()
        );
    }
}

#[tokio::test]
async fn a_setup_script_that_fails_or_never_ends_leaves_no_worktree_and_says_where_its_log_is() {
    let place = Place::new();
    let mark = place.root.path().join("data").to_string_lossy().into_owned();
    place.push_main(".bb-env-setup.sh", "touch made; setsid sleep 60 & echo no such tool >&2; exit 3\n");
    let Err(Trouble::Refused { says }) = place.repos.add_worktree(&place.spec, &place.thread, BRANCH).await else {
        panic!("it was made")
    };
    assert!(says.contains("exit status: 3") && says.contains("no such tool") && says.contains("-setup.log"), "{says}");
    assert_eq!(stewards_agents::processes::marked(&mark), [], "what it left in the background is of no use");
    let data = place.root.path().join("data");
    assert!(!data.join("worktrees/thr_1").exists() && !data.join("aside").exists());
    place.push_main(".bb-env-setup.sh", "setsid sleep 60 & sleep 60\n");
    let Place { root: _kept, repos, spec, thread } = place;
    let repos = repos.with_script_limit(std::time::Duration::from_millis(300));
    let Err(Trouble::Refused { says }) = repos.add_worktree(&spec, &thread, BRANCH).await else { panic!("it ended") };
    assert!(says.contains("took longer than"), "{says}");
    assert_eq!(stewards_agents::processes::marked(&mark), []);
}

#[tokio::test]
async fn a_worktree_that_was_moved_aside_is_moved_back_and_a_removed_one_is_made_of_what_was_pushed() {
    let place = Place::new();
    let path = place.repos.add_worktree(&place.spec, &place.thread, BRANCH).await.unwrap();
    std::fs::write(path.join("unsaved.txt"), "work").unwrap();
    let removed = place.repos.remove_worktree(&place.spec, &place.thread, BRANCH).await.unwrap();
    assert!(matches!(removed, Removed::MovedAside { .. }));
    let back = place.repos.add_worktree(&place.spec, &place.thread, BRANCH).await.unwrap();
    assert_eq!(back, path);
    assert_eq!(std::fs::read_to_string(path.join("unsaved.txt")).unwrap(), "work");
    assert_eq!(git(&path, &["rev-parse", "--abbrev-ref", "HEAD"]), BRANCH);
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "-m", "work"]);
    git(&path, &["push", "--quiet", "origin", BRANCH]);
    assert_eq!(place.repos.remove_worktree(&place.spec, &place.thread, BRANCH).await.unwrap(), Removed::Gone);
    let again = place.repos.add_worktree(&place.spec, &place.thread, BRANCH).await.unwrap();
    assert_eq!(std::fs::read_to_string(again.join("unsaved.txt")).unwrap(), "work");
    let bytes = place.repos.disk(vec![again.clone(), "/no/such/place".into()]).await;
    assert!(bytes[&again] > 4_096 && bytes[Path::new("/no/such/place")] == 0);
}

#[tokio::test]
async fn locks_that_a_killed_git_left_are_taken_away_but_not_those_of_one_that_works() {
    let place = Place::new();
    place.add().await;
    let checkout = place.repos.checkout(&place.spec).await.unwrap();
    let lock = |name: &str| {
        let path = checkout.join(".git").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        path
    };
    let locks =
        [lock("refs/remotes/origin/some/branch.lock"), lock("packed-refs.lock"), lock("worktrees/thr_1/index.lock")];
    let mut working = std::process::Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(&checkout)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(place.repos.unlock().await, 0, "one of them may be its");
    working.kill().unwrap();
    working.wait().unwrap();
    assert_eq!(place.repos.unlock().await, 3);
    assert!(locks.iter().all(|l| !l.exists()));
    // What our own fetch meets is taken away on the way.
    lock("refs/remotes/origin/main.lock");
    let commit = place.push_main(".bb/project.md", "two\n");
    assert_eq!(place.repos.read_bb(&place.spec).await.unwrap().commit, commit);
}
