//! The hidden verb that runs the twin as a process of its own.

use crate::cli;
use crate::out::Outcome;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What a twin is started with; written by the demo, readable by its owner alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TwinFile {
    pub dir: PathBuf,
    pub linear_url: String,
    pub linear_secret: String,
    pub github_url: String,
    pub github_secret: String,
    pub linear_token: String,
    pub github_token: String,
    pub ci_delay_ms: u64,
    /// Where `gh` finds it, by its setting `http_unix_socket`.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

pub fn run(args: &cli::Twin) -> Outcome {
    let text = std::fs::read_to_string(&args.config).with_context(|| args.config.display().to_string())?;
    let file: TwinFile = serde_json::from_str(&text)?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", args.port))
        .with_context(|| format!("the twin's port {} cannot be taken", args.port))?;
    listener.set_nonblocking(true)?;
    let config = stewards_twin::Config {
        dir: file.dir,
        listener,
        socket: file.socket,
        hooks: stewards_twin::Hooks {
            linear_url: file.linear_url,
            linear_secret: file.linear_secret,
            github_url: file.github_url,
            github_secret: file.github_secret,
        },
        linear_token: file.linear_token,
        github_token: file.github_token,
        ci_delay: Duration::from_millis(file.ci_delay_ms),
    };
    let tied = args.tied;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = async move {
            tokio::select! {
                () = crate::serve::signalled() => {}
                () = crate::serve::stdin_closed(), if tied => {}
            }
        };
        stewards_twin::serve(config, stop).await.context("the twin")
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(0)
}
