//! The session that is prompted: opened, resumed or forked, and set as the turn wants it.

use super::{Able, Acp, is_lost, refused, send, words};
use crate::live::locked;
use crate::setup::McpEndpoint;
use crate::wire::Broken;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Error};
use serde_json::{Value, json};
use stewards_core::ports::TurnJob;
use stewards_core::threads::{ModelName, Permission};

/// The session that is open in the process, as it was set.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    id: String,
    /// Modes that the agent offers.
    modes: Vec<String>,
    mode: Option<String>,
    /// Its options of the categories `model` and `thought_level`, by their ids.
    model_option: Option<String>,
    level_option: Option<String>,
    set: Option<(ModelName, Permission)>,
}

impl Acp {
    /// The session to prompt: the one that is open, the one that is to be resumed or
    /// forked, or a new one.
    pub(super) async fn session(
        &self,
        link: &ConnectionTo<Agent>,
        able: Able,
        job: &TurnJob,
        endpoint: McpEndpoint,
    ) -> Result<String, Broken> {
        let open = locked(&self.session).as_ref().map(|s| s.id.clone());
        if let Some(open) = open.filter(|id| job.forks || job.session.as_ref() == Some(id)) {
            return Ok(open);
        }
        // Sent whether or not the agent announces HTTP: without our tools it is of
        // no use, and its refusal says so.
        let bearer = json!({"name": "Authorization", "value": format!("Bearer {}", endpoint.token)});
        let tools = json!([{"type": "http", "name": "stewards", "url": endpoint.url, "headers": [bearer]}]);
        let ask = |session: Option<&str>| {
            let mut ask = json!({"cwd": job.cwd, "mcpServers": tools});
            if let Some(session) = session {
                ask["sessionId"] = session.into();
            }
            ask
        };
        if let Some(old) = job.session.as_ref().filter(|_| job.forks) {
            if !able.fork {
                return Err(Broken("the agent does not fork a conversation".to_owned()));
            }
            let answer = send(link, "session/fork", ask(Some(old))).await.map_err(|e| refused("session/fork", &e))?;
            return self.opened_new("session/fork", &answer);
        }
        if let Some(old) = &job.session {
            // Resume comes first, since load repeats the whole history.
            let method = match (able.resume, able.load) {
                (true, _) => Some("session/resume"),
                (false, true) => Some("session/load"),
                (false, false) => None,
            };
            if let Some(method) = method {
                match send(link, method, ask(Some(old))).await {
                    Ok(answer) => return Ok(self.opened(old, &answer)),
                    Err(error) => {
                        alive(&error)?;
                        tracing::info!(thread = %job.thread, %error, "a session was not resumed; a new one is made");
                    }
                }
            }
        }
        let answer = send(link, "session/new", ask(None)).await.map_err(|e| refused("session/new", &e))?;
        self.opened_new("session/new", &answer)
    }

    fn opened_new(&self, method: &str, answer: &Value) -> Result<String, Broken> {
        match answer["sessionId"].as_str() {
            Some(id) => Ok(self.opened(id, answer)),
            None => Err(Broken(format!("the agent's answer to {method} has no session id"))),
        }
    }

    fn opened(&self, id: &str, answer: &Value) -> String {
        let words = |list: &Value, name: &str| -> Vec<String> {
            let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(|m| m[name].as_str().map(str::to_owned)).collect()
        };
        let options = answer["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let option = |category: &str| {
            options.iter().find(|o| o["category"] == category).and_then(|o| o["id"].as_str()).map(str::to_owned)
        };
        *locked(&self.session) = Some(Session {
            id: id.to_owned(),
            modes: words(&answer["modes"]["availableModes"], "id"),
            mode: answer["modes"]["currentModeId"].as_str().map(str::to_owned),
            model_option: option("model"),
            level_option: option("thought_level"),
            set: None,
        });
        id.to_owned()
    }

    /// Sets mode, model and level, where they are other than what was set last. An
    /// agent that does not take the model that was named fails the turn.
    pub(super) async fn settle(&self, link: &ConnectionTo<Agent>, job: &TurnJob) -> Result<Result<(), String>, Broken> {
        let wanted = (job.model.clone(), job.permission);
        let Some(session) = locked(&self.session).clone().filter(|s| s.set.as_ref() != Some(&wanted)) else {
            return Ok(Ok(()));
        };
        let mode = modes(job.permission).iter().find(|m| session.modes.iter().any(|o| o == *m));
        if let Some(mode) = mode.filter(|m| session.mode.as_deref() != Some(**m)) {
            let ask = json!({"sessionId": session.id, "modeId": mode});
            if let Err(error) = send(link, "session/set_mode", ask).await {
                alive(&error)?;
                // What it asks for then is answered by the thread's permission.
                tracing::warn!(thread = %job.thread, mode, %error, "the agent does not take this mode");
            }
        }
        let set = |option: &str, value: &str| {
            let ask = json!({"sessionId": session.id, "configId": option, "value": value});
            send(link, "session/set_config_option", ask)
        };
        let model = &job.model.model;
        match &session.model_option {
            _ if model.is_empty() => {}
            None => {
                let says = format!("the agent offers no choice of models, so {model} cannot be had");
                return Ok(Err(format!("{says}: name only {}, and the model in its own settings", job.model.provider)));
            }
            Some(option) => {
                if let Err(error) = set(option, model).await {
                    alive(&error)?;
                    return Ok(Err(format!("the agent does not take the model {model}: {}", words(&error))));
                }
            }
        }
        if let (Some(option), Some(level)) = (&session.level_option, &job.model.level)
            && let Err(error) = set(option, level).await
        {
            alive(&error)?;
            tracing::warn!(thread = %job.thread, level, %error, "the agent does not take this level");
        }
        if let Some(open) = locked(&self.session).as_mut().filter(|s| s.id == session.id) {
            open.mode = mode.map(|m| (*m).to_owned()).or(session.mode);
            open.set = Some(wanted);
        }
        Ok(Ok(()))
    }
}

/// The agent refused; or the connection was lost, and nothing more can be asked.
fn alive(error: &Error) -> Result<(), Broken> {
    match is_lost(error) {
        true => Err(Broken("the connection was lost".into())),
        false => Ok(()),
    }
}

/// Modes of the agents that are known, the fittest first. Some agents' usual mode
/// has a model decide, which keeps our own tools from them.
fn modes(permission: Permission) -> &'static [&'static str] {
    match permission {
        Permission::Full => &["bypassPermissions", "agent-full-access", "yolo", "full-access", "default"],
        Permission::AcceptEdits => &["acceptEdits", "autoEdit", "auto_edit", "workspace-write", "default"],
        Permission::Ask => &["default", "read-only", "ask", "manual"],
    }
}
