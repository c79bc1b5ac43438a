//! The agents that this machine has: set up by hand, found, or built in.

use crate::settings::{self, Protocol, Settings};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::Path;
use stewards_agents::Provider;

/// By the provider part of a model's name. What is set up by hand comes before
/// what is found in the PATH.
pub fn providers(settings: &Settings) -> anyhow::Result<BTreeMap<String, Provider>> {
    let mut all: BTreeMap<String, Provider> = BTreeMap::new();
    let scripted = Provider {
        protocol: stewards_agents::Protocol::Acp,
        command: std::env::current_exe()?,
        args: vec!["scripted-agent".into()],
        env: BTreeMap::new(),
    };
    all.insert("scripted".into(), scripted);
    for (name, p) in &settings.providers {
        let protocol = match p.protocol {
            Protocol::Acp => stewards_agents::Protocol::Acp,
            Protocol::StreamJson => stewards_agents::Protocol::StreamJson,
        };
        let provider =
            Provider { protocol, command: p.command.clone().into(), args: p.args.clone(), env: p.env.clone() };
        all.insert(name.clone(), provider);
    }
    Ok(stewards_agents::found(all, std::env::var_os("PATH").unwrap_or_default()))
}

/// What `stewards agents` lists where no daemon runs.
pub fn known_without_daemon(dir: &Path) -> anyhow::Result<Vec<serde_json::Value>> {
    let settings: Settings = settings::read(&dir.join("settings.json"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let known = runtime.block_on(stewards_agents::known(&providers(&settings)?));
    known.iter().map(|a| serde_json::to_value(a).context("an agent could not be listed")).collect()
}
