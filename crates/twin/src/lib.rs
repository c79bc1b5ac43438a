//! A pretend Linear and a pretend GitHub in one HTTP server on loopback.
//!
//! The twin answers with the official names and shapes, keeps its world in a
//! journal on disk and can be killed at any time: [`serve`] on the same
//! directory goes on with the same world. It knows nothing of the product that
//! is tried against it.

// GitHub's objects have more fields than `json!` takes by default.
#![recursion_limit = "256"]

mod ci;
mod control;
mod faults;
mod git;
mod githttp;
mod github;
mod github_checks;
mod github_graph;
mod github_graph_parts;
mod github_graph_pull;
mod github_graph_write;
mod github_issues;
mod github_json;
mod github_merge;
mod github_pulls;
mod hooks;
mod line_comments;
mod linear;
mod linear_hooks;
mod linear_input;
mod linear_ops;
mod linear_schema;
mod linear_sessions;
mod logins;
mod model;
mod renames;
mod repo_hooks;
mod repos;
pub mod scripted;
mod world;

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use github_graph::sdl as github_sdl;
pub use linear_schema::sdl;
use world::{Tx, World};

/// Where webhooks go and what signs them. An empty URL sends nothing.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    pub linear_url: String,
    pub linear_secret: String,
    pub github_url: String,
    pub github_secret: String,
}

/// What a twin needs to run.
#[derive(Debug)]
pub struct Config {
    /// Holds `world.jsonl` and `repos/`; made when missing.
    pub dir: PathBuf,
    /// A bound listener; port 0 is fine.
    pub listener: std::net::TcpListener,
    /// A Unix socket on which the GitHub API stands by itself, as `gh` reaches it with its
    /// setting `http_unix_socket`.
    pub socket: Option<PathBuf>,
    pub hooks: Hooks,
    /// What `Authorization` must carry for Linear, plain or as Bearer.
    pub linear_token: String,
    /// What `Authorization` must carry for GitHub, git and the control API.
    pub github_token: String,
    /// How long a check run stays in progress before its script is run.
    pub ci_delay: Duration,
}

/// Why the twin could not start or go on.
#[derive(Debug)]
pub enum Error {
    /// The disk or the socket refused.
    Io(std::io::Error),
    /// A whole line of the journal cannot be read; the line counts from 1.
    Journal { line: usize, reason: String },
    /// Another twin holds this journal.
    Busy(PathBuf),
    /// git refused something the twin relies on.
    Git(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "input or output failed: {e}"),
            Self::Journal { line, reason } => write!(f, "journal line {line} cannot be read: {reason}"),
            Self::Busy(path) => write!(f, "another twin holds {}", path.display()),
            Self::Git(what) => write!(f, "git failed: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// What all handlers share.
pub(crate) struct App {
    pub dir: PathBuf,
    /// `http://127.0.0.1:port`, without a slash at the end.
    pub base: String,
    pub hooks: Hooks,
    pub linear_token: String,
    pub github_token: String,
    pub ci_delay: Duration,
    pub world: World,
    pub client: reqwest::Client,
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
    pub faults: faults::Faults,
    pub grants: Mutex<logins::Grants>,
    pub repo_hooks: repo_hooks::RepoHooks,
    pub team_hooks: linear_hooks::TeamHooks,
    pub sessions: linear_sessions::Sessions,
    repo_locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl App {
    /// A token of the owner's at GitHub.
    pub fn github_knows(&self, token: &str) -> bool {
        token == self.github_token || self.granted(token)
    }

    /// A token of the owner's at Linear.
    pub fn linear_knows(&self, token: &str) -> bool {
        token == self.linear_token || self.granted(token)
    }

    fn granted(&self, token: &str) -> bool {
        self.grants.lock().unwrap_or_else(|e| e.into_inner()).good(token)
    }

    /// Commits a change, then sends its webhooks and starts its check runs.
    pub fn change<T, E: From<Error>>(self: &Arc<Self>, build: impl FnOnce(&mut Tx) -> Result<T, E>) -> Result<T, E> {
        let (out, hooks, runs) = self.world.change(build)?;
        for hook in hooks {
            hooks::send(self, hook);
        }
        for run in runs {
            ci::start(self, run);
        }
        Ok(out)
    }

    /// The lock that serialises git writes to a repository.
    pub fn repo_lock(&self, full: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.repo_locks.lock().unwrap_or_else(|e| e.into_inner());
        locks.entry(full.to_owned()).or_default().clone()
    }

    /// Where a bare repository lies.
    pub fn repo_dir(&self, full: &str) -> PathBuf {
        self.dir.join("repos").join(format!("{full}.git"))
    }

    /// Runs work to its end even when the client that asked goes away.
    pub async fn detached<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.tasks.spawn(work).await.map_err(|e| Error::Io(std::io::Error::other(e)))
    }
}

/// Serves until `shutdown` resolves or the socket fails.
///
/// # Errors
/// The journal cannot be read, is held by another twin, or the disk refuses.
pub async fn serve(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    std::fs::create_dir_all(&config.dir)?;
    let dir = config.dir.canonicalize()?;
    config.listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(config.listener)?;
    let base = format!("http://{}", listener.local_addr()?);
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(5))
        .no_proxy()
        .build()
        .map_err(|e| Error::Io(std::io::Error::other(e)))?;
    let app = Arc::new(App {
        world: World::open(&dir)?,
        dir,
        base,
        hooks: config.hooks,
        linear_token: config.linear_token,
        github_token: config.github_token,
        ci_delay: config.ci_delay,
        client,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
        faults: Mutex::default(),
        grants: Mutex::default(),
        repo_hooks: repo_hooks::RepoHooks::default(),
        team_hooks: linear_hooks::TeamHooks::default(),
        sessions: linear_sessions::Sessions::default(),
        repo_locks: Mutex::default(),
    });
    // First those that were begun: what recovery finds new starts its own runs,
    // and a run that is started twice would pull its tree from under itself.
    renames::settle(&app)?;
    ci::resume(&app);
    repos::recover(&app).await?;

    let router = Router::new()
        .merge(linear::router(&app))
        .merge(github::router(&app))
        .merge(logins::router())
        .merge(githttp::router())
        .merge(control::router(&app))
        .layer(axum::middleware::from_fn_with_state(app.clone(), faults::meet))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(app.clone());
    if let Some(path) = &config.socket {
        let _ = std::fs::remove_file(path);
        let socket = tokio::net::UnixListener::bind(path)?;
        let api = github::api(&app).with_state(app.clone());
        let stop = app.stop.clone().cancelled_owned();
        app.tasks.spawn(async move {
            if let Err(e) = axum::serve(socket, api).with_graceful_shutdown(stop).await {
                tracing::error!(error = %e, "the socket is served no longer");
            }
        });
    }
    let server = axum::serve(listener, router).with_graceful_shutdown(app.stop.clone().cancelled_owned());
    let mut server = std::pin::pin!(server.into_future());
    let end = tokio::select! {
        end = &mut server => end,
        () = shutdown => {
            app.stop.cancel();
            // A client that holds its connection must not hold the twin.
            tokio::time::timeout(Duration::from_secs(5), &mut server).await.unwrap_or(Ok(()))
        }
    };
    app.stop.cancel();
    app.tasks.close();
    let _ = tokio::time::timeout(Duration::from_secs(5), app.tasks.wait()).await;
    end.map_err(Error::Io)
}
