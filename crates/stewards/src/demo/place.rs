//! The demo's directory: what was chosen once and is kept there.

use crate::settings::{self, LOGINS, Settings};
use crate::twin::TwinFile;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::threads::ModelName;
use stewards_sources::{How, Login, Logins, Service};
use stewards_store::DirLock;

/// Chosen once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Chosen {
    twin_port: u16,
    daemon_port: u16,
    linear_token: String,
    github_token: String,
    /// The model of all its threads.
    #[serde(default = "scripted")]
    agent: String,
}

/// The agent that needs no account.
const SCRIPTED: &str = "scripted";

fn scripted() -> String {
    SCRIPTED.to_owned()
}

/// A directory with `home` (the daemon's), `twin` and two logs.
pub struct Place {
    pub dir: PathBuf,
    chosen: Chosen,
    _lock: DirLock,
}

impl Place {
    /// Takes the directory, or a fresh temporary one, and makes in it what the
    /// two processes are started with.
    ///
    /// A demo goes on with the agent that it was begun with.
    pub fn take(dir: Option<&Path>, agent: Option<&str>) -> anyhow::Result<Place> {
        let agent = agent.map(installed).transpose()?;
        let dir = match dir {
            Some(dir) => std::path::absolute(dir)?,
            None => std::env::temp_dir().join(format!("stewards-demo-{}", &stewards_engine::secret()[..8])),
        };
        if dir.is_dir() && !dir.join("demo.json").exists() && std::fs::read_dir(&dir)?.next().is_some() {
            let says = format!("{} is not empty and no demo's directory", dir.display());
            return Err(Refusal::usage("not_a_demo", says, "name an empty or a new one with --dir").into());
        }
        let lock = settings::lock(&dir, "the demo")?;
        let file = dir.join("demo.json");
        let mut chosen: Chosen = settings::read(&file)?;
        if chosen.twin_port == 0 {
            // Both are held while both are chosen, so that they differ.
            let (one, two) = (free_port()?, free_port()?);
            chosen = Chosen {
                twin_port: one.local_addr()?.port(),
                daemon_port: two.local_addr()?.port(),
                linear_token: stewards_engine::secret(),
                github_token: stewards_engine::secret(),
                agent: agent.clone().unwrap_or_else(scripted),
            };
            settings::write_private(&file, &chosen)?;
        }
        if let Some(other) = agent.filter(|a| *a != chosen.agent) {
            let says = format!("the demo in {} was begun with {}, not {other}", dir.display(), chosen.agent);
            return Err(Refusal::usage("other_agent", says, "begin another one with --dir").into());
        }
        let place = Place { dir, chosen, _lock: lock };
        place.prepare()?;
        Ok(place)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        let home = self.home();
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(self.dir.join("twin"))?;
        let secrets = settings::secrets(&home)?;
        let logins = Logins::new(home.join(LOGINS));
        logins.put(Service::Linear, Login::of_token(How::Token, &self.chosen.linear_token))?;
        logins.put(Service::GitHub, Login::of_token(How::Token, &self.chosen.github_token))?;
        let settings = Settings {
            port: self.chosen.daemon_port,
            linear_url: format!("{}/linear/graphql", self.twin()),
            github_api: format!("{}/github", self.twin()),
            debounce_ms: 2_000,
            sweep_ms: 10_000,
            // The story ends with every worktree gone.
            grace_s: 0,
            ..Settings::default()
        };
        settings::write_private(&home.join("settings.json"), &settings)?;
        let hooks = format!("http://127.0.0.1:{}/hooks", self.chosen.daemon_port);
        let twin = TwinFile {
            dir: self.dir.join("twin"),
            linear_url: format!("{hooks}/linear"),
            linear_secret: secrets.linear_webhook,
            github_url: format!("{hooks}/github"),
            github_secret: secrets.github_webhook,
            linear_token: self.chosen.linear_token.clone(),
            github_token: self.chosen.github_token.clone(),
            ci_delay_ms: 1_500,
            socket: None,
        };
        settings::write_private(&self.twin_file(), &twin)
    }

    /// The model of all its threads.
    pub fn agent(&self) -> &str {
        &self.chosen.agent
    }

    pub fn scripted(&self) -> bool {
        self.chosen.agent == SCRIPTED
    }

    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    pub fn twin_file(&self) -> PathBuf {
        self.dir.join("twin.json")
    }

    pub fn twin_port(&self) -> u16 {
        self.chosen.twin_port
    }

    /// The twin's address.
    pub fn twin(&self) -> String {
        format!("http://127.0.0.1:{}", self.chosen.twin_port)
    }

    pub fn github_token(&self) -> &str {
        &self.chosen.github_token
    }

    pub fn remote(&self) -> String {
        format!("{}/git/{}.git", self.twin(), super::world::REPO)
    }

    /// Where the daemon listens for commands, once it runs.
    pub fn socket(&self) -> anyhow::Result<PathBuf> {
        Ok(settings::daemon(&self.home()).context("the daemon is not up yet")?.socket)
    }

    pub fn url(&self) -> anyhow::Result<String> {
        Ok(settings::daemon(&self.home()).context("the daemon is not up yet")?.url)
    }

    /// The summary of a run that came to its end here.
    pub fn finished(&self) -> anyhow::Result<Option<Value>> {
        let summary: Value = settings::read(&self.dir.join("summary.json"))?;
        Ok(Some(summary).filter(|s| !s.is_null()))
    }

    pub fn finish(&self, summary: &Value) -> anyhow::Result<()> {
        settings::write_private(&self.dir.join("summary.json"), summary)
    }

    /// Seconds that earlier runs on this directory took.
    pub fn spent(&self) -> anyhow::Result<f64> {
        settings::read(&self.dir.join("seconds.json"))
    }

    pub fn spend(&self, seconds: f64) -> anyhow::Result<()> {
        settings::write_private(&self.dir.join("seconds.json"), &seconds)
    }
}

fn free_port() -> anyhow::Result<std::net::TcpListener> {
    std::net::TcpListener::bind(("127.0.0.1", 0)).context("no port on loopback is free")
}

/// The model's name, if its agent can be started here.
fn installed(named: &str) -> anyhow::Result<String> {
    let model = ModelName::parse(named).map_err(|e| Refusal::usage("bad_model", e, "write provider/model/level"))?;
    let found = crate::agents::providers(&Settings::default())?;
    if !found.contains_key(&model.provider) {
        let says = format!("no agent called {} is installed", model.provider);
        let hint = "see which there are and how to install one: stewards agents";
        return Err(Refusal::new(Exit::Unreachable, "provider_unavailable", says, hint).into());
    }
    Ok(model.to_string())
}
