//! A daemon in the background with one project.

use crate::rig::{stewards, told};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A data directory with a daemon in the background, ended with the value.
pub struct Home {
    pub dir: tempfile::TempDir,
}

impl Home {
    /// With a project whose remote has one commit.
    pub fn new() -> Home {
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

    pub fn data(&self) -> PathBuf {
        // With a space, as people have them.
        self.dir.path().join("my data")
    }

    pub fn run(&self, args: &[&str]) -> (String, String, i32) {
        told(&stewards(args).env("STEWARDS_DIR", self.data()).output().unwrap())
    }

    #[track_caller]
    pub fn good(&self, args: &[&str]) -> String {
        let (out, error, code) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {out}{error}");
        out
    }

    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[args, &["--json"]].concat())).unwrap()
    }

    /// Waits for something, for at most half a minute.
    #[track_caller]
    pub fn until(&self, so: impl Fn(&Home) -> bool) {
        let began = std::time::Instant::now();
        while !so(self) {
            assert!(began.elapsed().as_secs() < 30, "it did not come to be");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    pub fn spawn(&self, more: &[&str]) -> String {
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
