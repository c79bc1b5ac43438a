//! Threads on the real daemon in the background, from the command line.

use crate::rig::{stewards, told};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A data directory with a daemon in the background, ended with the value.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    /// With a project whose remote has one commit.
    fn new() -> Home {
        let home = Home { dir: tempfile::tempdir().unwrap() };
        let root = home.dir.path();
        let git = |cwd: &Path, args: &[&str]| {
            let name = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
            assert!(Command::new("git").args(name).args(args).current_dir(cwd).output().unwrap().status.success());
        };
        git(root, &["init", "--quiet", "--bare", "remote.git"]);
        git(root, &["clone", "--quiet", "remote.git", "first"]);
        git(&root.join("first"), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        git(&root.join("first"), &["push", "--quiet", "origin", "HEAD:main"]);
        std::fs::write(root.join("prompt.md"), "Say that you are there.").unwrap();
        home.good(&["serve", "start"]);
        let remote = root.join("remote.git").display().to_string();
        home.good(&["project", "add", "shop", "--repo", "acme/shop", "--remote", &remote]);
        home
    }

    fn data(&self) -> PathBuf {
        // With a space, as people have them.
        self.dir.path().join("my data")
    }

    fn run(&self, args: &[&str]) -> (String, String, i32) {
        told(&stewards(args).env("STEWARDS_DIR", self.data()).output().unwrap())
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let (out, error, code) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {out}{error}");
        out
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[args, &["--json"]].concat())).unwrap()
    }

    fn spawn(&self, more: &[&str]) -> String {
        let prompt = self.dir.path().join("prompt.md").display().to_string();
        let args = ["thread", "spawn", "--title", "Are you there?", "--model", "scripted", "--prompt-file", &prompt];
        self.json(&[&args, more].concat())["ids"]["thread"].as_str().unwrap().to_owned()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.run(&["serve", "stop"]);
    }
}

#[test]
fn the_daemon_runs_in_the_background_and_says_so() {
    let home = Home::new();
    assert!(home.good(&["serve", "start"]).contains("runs already"));
    assert_eq!(home.json(&["serve", "status"])["running"], true);
    assert!(home.good(&["serve", "logs"]).contains("Stewards serves"));
    home.good(&["serve", "stop"]);
    let (out, _, code) = home.run(&["serve", "status"]);
    assert!(code == 1 && out.contains("No daemon runs"), "{out}");
    // What a killed daemon left behind names a process that is not it.
    let pid = std::process::id();
    let stale =
        serde_json::json!({ "pid": pid, "started": "2026-01-01T00:00:00Z", "socket": "/x", "url": "x", "build": "x" });
    std::fs::write(home.data().join("daemon.json"), stale.to_string()).unwrap();
    assert_eq!(home.run(&["serve", "status"]).2, 1);
    // Two at once: one serves, and both say which.
    let said = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| home.good(&["serve", "start"])));
        both.map(|one| one.join().unwrap())
    });
    let pid = home.json(&["serve", "status"])["daemon"]["pid"].to_string();
    assert!(said.iter().all(|s| s.contains(&pid)), "{said:?}");
}

#[test]
fn a_project_is_added_by_a_checkout_of_it() {
    let home = Home::new();
    let root = home.dir.path();
    std::fs::create_dir_all(root.join("acme")).unwrap();
    let clone = ["clone", "--quiet", "--bare", "remote.git", "acme/tools.git"];
    assert!(Command::new("git").args(clone).current_dir(root).output().unwrap().status.success());
    let clone = ["clone", "--quiet", "acme/tools.git", "mine"];
    assert!(Command::new("git").args(clone).current_dir(root).output().unwrap().status.success());
    home.good(&["project", "add", &root.join("mine").display().to_string()]);
    let all = home.json(&["project", "list"]);
    assert!(all.as_array().unwrap().iter().any(|p| p["name"] == "tools" && p["repo"] == "acme/tools"), "{all}");
    let (_, error, code) = home.run(&["project", "add", &root.display().to_string()]);
    assert!(code == 2 && error.contains("has no origin"), "{error}");
}

#[test]
fn a_thread_is_started_told_waited_for_put_away_and_brought_back() {
    let home = Home::new();
    let id = home.spawn(&[]);
    assert!(home.good(&["thread", "wait", &id]).contains("idle"));
    home.good(&["thread", "tell", &id, "And now?"]);
    home.good(&["thread", "wait", &id]);
    let shown = home.json(&["thread", "show", &id]);
    assert_eq!(shown["thread"]["turns"], 2);
    assert!(shown["messages"].as_array().unwrap().iter().all(|m| m["state"] == "consumed"));
    let child = home.spawn(&["--parent", &id, "--environment", "checkout"]);
    home.good(&["thread", "wait", &child]);
    let (_, error, code) = home.run(&["thread", "archive", &id]);
    assert!(code == 1 && error.contains(&child) && error.contains("--yes"), "{error}");
    home.good(&["thread", "archive", &id, "--yes"]);
    let (_, error, code) = home.run(&["thread", "tell", &id, "Hello?"]);
    assert!(code == 1 && error.contains(&format!("stewards thread unarchive {id}")), "{error}");
    home.good(&["thread", "unarchive", &id]);
    home.good(&["thread", "tell", &id, "Hello again."]);
    home.good(&["thread", "wait", &id]);
    let places = home.json(&["env", "list"]);
    let place = places.as_array().unwrap().iter().find(|p| p["thread"] == id.as_str()).unwrap();
    assert!(place["kind"] == "worktree" && place["bytes"].as_u64().unwrap() > 0, "{place}");
    home.good(&["thread", "delete", &id, "--yes"]);
    assert!(home.json(&["thread", "list", "--all"]).as_array().unwrap().iter().all(|t| t["role"] != "plain"));
}

#[test]
fn stopped_is_stopped_over_a_restart_and_a_copy_brings_back_what_was_known() {
    let home = Home::new();
    let id = home.spawn(&[]);
    home.good(&["thread", "wait", &id]);
    let copy = home.dir.path().join("copy.db").display().to_string();
    home.good(&["backup", &copy]);
    assert_eq!(home.run(&["backup", &copy]).2, 1, "nothing is written over");
    home.good(&["stop", "--all"]);
    home.good(&["serve", "stop"]);
    home.good(&["serve", "start"]);
    assert!(home.good(&["thread", "tell", &id, "Still there?"]).contains("stewards resume"));
    let (out, _, code) = home.run(&["thread", "wait", &id]);
    assert!(code == 1 && out.contains("stewards resume"), "{out}");
    home.good(&["resume"]);
    home.good(&["thread", "wait", &id]);
    assert_eq!(home.json(&["thread", "show", &id])["thread"]["turns"], 2);
    assert_eq!(home.run(&["restore", &copy]).2, 75, "not under a running daemon");
    home.good(&["serve", "stop"]);
    home.good(&["restore", &copy]);
    home.good(&["serve", "start"]);
    assert_eq!(home.json(&["thread", "show", &id])["thread"]["turns"], 1);
}

#[test]
fn many_command_lines_at_once_are_all_served() {
    let home = Home::new();
    let id = home.spawn(&[]);
    home.good(&["thread", "wait", &id]);
    home.good(&["stop", "--all"]);
    std::thread::scope(|scope| {
        for who in 0..8 {
            let (home, id) = (&home, &id);
            scope.spawn(move || {
                for n in 0..10 {
                    home.good(&["thread", "tell", id, &format!("{who} says {n}"), "--mode", "queue-if-active"]);
                }
            });
        }
    });
    assert_eq!(home.json(&["thread", "queue", &id]).as_array().unwrap().len(), 80);
}
