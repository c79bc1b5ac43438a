//! The agents that are known by name, and what is installed of them.

use crate::child::inherited;
use crate::processes;
use crate::setup::{Protocol, Provider};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use stewards_core::ports::AgentInfo;
use tokio::process::Command;

/// An agent that does not say its version by then has none.
const PATIENCE: Duration = Duration::from_secs(5);

/// One agent that is known by name.
struct Known {
    provider: &'static str,
    protocol: Protocol,
    command: &'static str,
    args: &'static [&'static str],
    /// What prints its version, where something does.
    version: &'static [&'static str],
    install: &'static str,
}

const KNOWN: [Known; 5] = [
    Known {
        provider: "claude-code",
        protocol: Protocol::StreamJson,
        command: "claude",
        args: &[],
        version: &["--version"],
        install: "npm install -g @anthropic-ai/claude-code",
    },
    Known {
        provider: "codex",
        protocol: Protocol::Acp,
        command: "codex-acp",
        args: &[],
        version: &["--version"],
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    Known {
        provider: "claude-acp",
        protocol: Protocol::Acp,
        command: "claude-agent-acp",
        args: &[],
        version: &[],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    Known {
        provider: "opencode",
        protocol: Protocol::Acp,
        command: "opencode",
        args: &["acp"],
        version: &["--version"],
        install: "npm install -g opencode-ai",
    },
    Known {
        provider: "gemini",
        protocol: Protocol::Acp,
        command: "gemini",
        args: &["--acp"],
        version: &["--version"],
        install: "npm install -g @google/gemini-cli",
    },
];

/// Adds the known agents that are in this `PATH` to those that are set up.
pub fn found(mut all: BTreeMap<String, Provider>, path: OsString) -> BTreeMap<String, Provider> {
    for known in &KNOWN {
        if all.contains_key(known.provider) {
            continue;
        }
        if let Some(command) = look(Path::new(known.command), &path) {
            let args = known.args.iter().map(|a| (*a).to_owned()).collect();
            let provider = Provider { protocol: known.protocol, command, args, env: BTreeMap::new() };
            all.insert(known.provider.to_owned(), provider);
        }
    }
    all
}

/// Where a command is, if it can be run.
fn look(command: &Path, path: &OsString) -> Option<PathBuf> {
    let runs = |p: &Path| {
        use std::os::unix::fs::PermissionsExt;
        p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if command.components().count() > 1 {
        return runs(command).then(|| command.to_owned());
    }
    std::env::split_paths(path).map(|dir| dir.join(command)).find(|p| runs(p))
}

/// The agents that are set up or known, by name.
pub async fn known(providers: &BTreeMap<String, Provider>) -> Vec<AgentInfo> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let set_up = providers.iter().map(|(name, p)| one(name, p, &path));
    let mut all = futures::future::join_all(set_up).await;
    for known in KNOWN.iter().filter(|k| !providers.contains_key(k.provider)) {
        all.push(AgentInfo {
            provider: known.provider.into(),
            protocol: known.protocol.word().into(),
            command: None,
            version: None,
            missing: Some(format!("not installed: {}, then start the daemon again", known.install)),
        });
    }
    all
}

async fn one(name: &str, provider: &Provider, path: &OsString) -> AgentInfo {
    let command = look(&provider.command, provider.env.get("PATH").map(OsString::from).as_ref().unwrap_or(path));
    let known = KNOWN.iter().find(|k| k.provider == name);
    let version = match (&command, known) {
        (Some(command), Some(known)) if !known.version.is_empty() => version(command, provider, known).await,
        _ => None,
    };
    let missing = command.is_none().then(|| {
        let hint = known.map_or("check `providers` in settings.json".to_owned(), |k| k.install.to_owned());
        format!("{} is not there: {hint}", provider.command.display())
    });
    AgentInfo {
        provider: name.to_owned(),
        protocol: provider.protocol.word().into(),
        command: command.map(|c| c.display().to_string()),
        version,
        missing,
    }
}

async fn version(command: &Path, provider: &Provider, known: &Known) -> Option<String> {
    let mut asked = Command::new(command);
    // Other arguments than the usual ones may say what it is that runs, such as a
    // script of `node`.
    if provider.args != known.args {
        asked.args(&provider.args);
    }
    asked.args(known.version).env_clear().envs(inherited()).env("DISABLE_AUTOUPDATER", "1").envs(&provider.env);
    asked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Some hand over to a child, which a timeout has to end as well.
    let child = asked.process_group(0).kill_on_drop(true).spawn().ok()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let mut output = std::pin::pin!(child.wait_with_output());
    let Ok(output) = tokio::time::timeout(PATIENCE, &mut output).await else {
        // It was not waited for yet, so the pid is still its own.
        pid.into_iter().for_each(processes::kill_group);
        return None;
    };
    let output = output.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
    output.status.success().then(|| line.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_path_is_found_and_what_is_set_up_stays() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            use std::os::unix::fs::PermissionsExt;
            let path = dir.path().join(name);
            std::fs::write(&path, "#!/bin/sh\necho one 1.2.3\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put("claude", 0o755);
        put("codex-acp", 0o755);
        put("gemini", 0o644);
        let mine =
            Provider { protocol: Protocol::Acp, command: "/mine".into(), args: Vec::new(), env: BTreeMap::new() };
        let all = found(BTreeMap::from([("codex".to_owned(), mine)]), dir.path().into());
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["claude-code", "codex"]);
        assert_eq!(all["codex"].command, Path::new("/mine"));
        assert_eq!(all["claude-code"].command, dir.path().join("claude"));
    }

    #[tokio::test]
    async fn the_version_is_that_of_the_script_and_not_of_what_runs_it() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("adapter.sh");
        std::fs::write(&script, "echo \"adapter 2.6.0 $1\"; echo more\n").unwrap();
        let of = |args: &[&str]| Provider {
            protocol: Protocol::Acp,
            command: "sh".into(),
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            env: BTreeMap::new(),
        };
        let all = known(&BTreeMap::from([("codex".to_owned(), of(&[script.to_str().unwrap()]))])).await;
        let codex = all.iter().find(|a| a.provider == "codex").unwrap();
        assert_eq!(codex.version.as_deref(), Some("adapter 2.6.0 --version"));
    }

    #[tokio::test]
    async fn an_agent_that_is_missing_is_a_sentence_with_its_install_command() {
        let mine = Provider {
            protocol: Protocol::StreamJson,
            command: "/no/such/claude".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
        };
        let all = known(&BTreeMap::from([("claude-code".to_owned(), mine)])).await;
        let missing = |name: &str| all.iter().find(|a| a.provider == name).unwrap().missing.clone().unwrap();
        assert!(missing("claude-code").contains("npm install -g @anthropic-ai/claude-code"));
        assert!(missing("gemini").starts_with("not installed: npm install"));
    }
}
