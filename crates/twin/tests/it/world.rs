//! One twin on a temporary directory, and the few moves that the tests make.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use base64::Engine;
use serde_json::{Value, json};
use stewards_twin::{Config, Hooks, serve};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const SECRET: &str = "a secret";
pub type Received = Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>;

pub struct Twin {
    pub base: String,
    pub received: Received,
    hooks: String,
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Result<(), stewards_twin::Error>>>,
    pub dir: tempfile::TempDir,
}

async fn receiver() -> (String, Received) {
    let received: Received = Arc::default();
    let keep = |service: &'static str| {
        axum::routing::post(move |State(r): State<Received>, headers: HeaderMap, body: Bytes| async move {
            r.lock().unwrap().push((service.into(), headers, body));
            "ok"
        })
    };
    let router = axum::Router::new()
        .route("/linear", keep("linear"))
        .route("/github", keep("github"))
        .with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (base, received)
}

impl Twin {
    pub async fn start() -> Self {
        let (hooks, received) = receiver().await;
        let mut twin = Self {
            base: String::new(),
            received,
            hooks,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            stop: None,
            task: None,
            dir: tempfile::tempdir().unwrap(),
        };
        twin.serve();
        twin
    }

    fn serve(&mut self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        self.base = format!("http://{}", listener.local_addr().unwrap());
        let config = Config {
            dir: self.dir.path().join("twin"),
            listener,
            socket: Some(self.dir.path().join("gh.sock")),
            hooks: Hooks {
                linear_url: format!("{}/linear", self.hooks),
                linear_secret: SECRET.into(),
                github_url: format!("{}/github", self.hooks),
                github_secret: SECRET.into(),
            },
            linear_token: "lin".into(),
            github_token: "gh".into(),
            ci_delay: Duration::from_millis(50),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        self.stop = Some(stop);
        self.task = Some(tokio::spawn(serve(config, async move {
            let _ = stopped.await;
        })));
    }

    pub async fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.task.take().unwrap().await.unwrap().unwrap();
    }

    /// Serves again after a stop.
    pub fn resume(&mut self) {
        self.serve();
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.serve();
    }

    pub async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request = self
            .client
            .request(method.parse().unwrap(), format!("{}{path}", self.base))
            .header("authorization", if path.starts_with("/linear") { "lin" } else { "Bearer gh" });
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub async fn graphql(&self, query: &str, variables: Value) -> Value {
        self.post("/linear/graphql", json!({"query": query, "variables": variables})).await
    }

    pub async fn raw(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let mut request = self.client.get(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// A user, a team, a repository with a passing test and one ticket.
    pub async fn seed(&self) -> Value {
        self.post("/control/user", json!({"login": "ann", "name": "Ann", "email": "ann@example.com", "me": true}))
            .await;
        self.post("/control/user", json!({"login": "bob", "name": "Bob", "email": "bob@example.com", "me": false}))
            .await;
        self.post("/control/team", json!({"key": "DEMO", "name": "Demo"})).await;
        let files = json!({"README.md": "hello\n", "test.sh": "grep -q hello README.md\n"});
        self.post("/control/repo", json!({"owner": "acme", "name": "shop", "files": files, "message": "first"})).await;
        self.ticket().await
    }

    pub async fn ticket(&self) -> Value {
        let body = json!({"key": "one", "team": "DEMO", "title": "Say hello", "description": "please",
            "labels": ["steward"], "assignee": "ann", "state": "Todo"});
        self.post("/control/ticket", body).await
    }

    /// Runs git against the twin, on another thread.
    pub async fn git(&self, dir: &Path, args: &[&str]) -> String {
        let basic = base64::engine::general_purpose::STANDARD.encode("x:gh");
        let out = tokio::process::Command::new("git")
            .arg("-c")
            .arg(format!("http.extraHeader=Authorization: Basic {basic}"))
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("no_proxy", "127.0.0.1")
            .output()
            .await
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    pub async fn clone_repo(&self) -> PathBuf {
        let url = format!("{}/git/acme/shop.git", self.base);
        self.git(self.dir.path(), &["clone", "-q", &url, "work"]).await;
        self.dir.path().join("work")
    }

    /// Commits one file on a branch and pushes it; returns the commit.
    pub async fn push(&self, work: &Path, branch: &str, file: &str, text: &str) -> String {
        self.git(work, &["checkout", "-q", "-B", branch]).await;
        std::fs::write(work.join(file), text).unwrap();
        self.git(work, &["add", "."]).await;
        self.git(work, &["commit", "-q", "-m", &format!("write {file}")]).await;
        self.git(work, &["push", "-q", "origin", branch]).await;
        self.git(work, &["rev-parse", "HEAD"]).await
    }

    pub async fn open(&self, branch: &str) -> Value {
        let body = json!({"title": "Greet", "head": branch, "base": "main", "body": "for DEMO-1"});
        self.post("/github/repos/acme/shop/pulls", body).await
    }

    /// Waits until the check on a commit is over; returns its conclusion.
    pub async fn verdict(&self, sha: &str) -> String {
        for _ in 0..200 {
            let body = self.get(&format!("/github/repos/acme/shop/commits/{sha}/check-runs")).await;
            if let Some(c) = body["check_runs"][0]["conclusion"].as_str() {
                return c.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no verdict on {sha}");
    }

    /// Waits for a webhook that fits.
    pub async fn hook(&self, what: &str, fits: impl Fn(&HeaderMap, &Value) -> bool) -> (HeaderMap, Bytes) {
        for _ in 0..100 {
            for (_, headers, bytes) in self.received.lock().unwrap().iter() {
                if fits(headers, &serde_json::from_slice(bytes).unwrap()) {
                    return (headers.clone(), bytes.clone());
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no webhook: {what}");
    }
}
