//! One twin on a temporary directory, seeded with a team, a repository and people.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use stewards_sources::{GitHub, Linear};

pub struct Twin {
    pub base: String,
    pub dir: tempfile::TempDir,
    client: reqwest::Client,
}

impl Twin {
    pub async fn start() -> Twin {
        let dir = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let config = stewards_twin::Config {
            dir: dir.path().join("twin"),
            listener,
            socket: None,
            hooks: stewards_twin::Hooks::default(),
            linear_token: "lin".into(),
            github_token: "gh".into(),
            ci_delay: Duration::from_millis(20),
        };
        tokio::spawn(stewards_twin::serve(config, std::future::pending()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let twin = Twin { base, dir, client };
        twin.control("user", json!({"login": "ann", "name": "Ann", "me": true})).await;
        twin.control("user", json!({"login": "bob", "name": "Bob"})).await;
        twin.control("team", json!({"key": "DEMO", "name": "Demo"})).await;
        twin
    }

    pub fn linear(&self) -> Linear {
        Linear::new(format!("{}/linear/graphql", self.base), "lin".into())
    }

    pub fn github(&self) -> GitHub {
        GitHub::new(format!("{}/github", self.base), "gh".into())
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        let url = format!("{}{path}", self.base);
        let answer = self.client.post(url).bearer_auth("gh").json(&body).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub async fn control(&self, what: &str, body: Value) -> Value {
        self.post(&format!("/control/{what}"), body).await
    }

    pub async fn fault(&self, prefix: &str, status: u16, times: u32) {
        self.control("fault", json!({"route_prefix": prefix, "status": status, "times": times})).await;
    }

    /// A ticket; answers its id.
    pub async fn ticket(&self, key: &str, label: Option<&str>, assignee: Option<&str>, state: &str) -> String {
        let labels: Vec<&str> = label.into_iter().collect();
        let body = json!({"key": key, "team": "DEMO", "title": key, "description": "please", "labels": labels,
            "assignee": assignee, "state": state});
        self.control("ticket", body).await["id"].as_str().unwrap().to_owned()
    }

    fn git(&self, dir: &Path, args: &[&str]) -> String {
        let out = std::process::Command::new("git")
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("no_proxy", "127.0.0.1")
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    /// A repository with one open pull from `fix`; answers the head.
    pub async fn pull(&self) -> String {
        let files = json!({"README.md": "hello\n", "test.sh": "grep -q hello README.md\n"});
        self.control("repo", json!({"owner": "acme", "name": "shop", "files": files})).await;
        let url = self.base.replace("http://", "http://x:gh@") + "/git/acme/shop.git";
        let (root, work) = (self.dir.path(), self.dir.path().join("work"));
        self.git(root, &["clone", "-q", &url, "work"]);
        self.git(&work, &["checkout", "-q", "-b", "fix"]);
        std::fs::write(work.join("more.txt"), "more\n").unwrap();
        self.git(&work, &["add", "."]);
        self.git(&work, &["commit", "-q", "-m", "more"]);
        self.git(&work, &["push", "-q", "origin", "fix"]);
        let body = json!({"title": "Greet", "head": "fix", "base": "main", "body": "for DEMO-1"});
        self.post("/github/repos/acme/shop/pulls", body).await;
        self.git(&work, &["rev-parse", "HEAD"])
    }
}
