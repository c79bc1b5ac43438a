//! What an agent says of a session, in our words.
//!
//! Updates are read from plain JSON: an update of a kind that is unknown here, or
//! one with a broken part, must not end the connection.

use crate::live::{Live, RESULT_CHARS, clip, locked};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use stewards_core::ports::{TurnEnd, TurnEvent};
use stewards_core::threads::{Can, ContextUse, Steering, Tokens};

/// What was heard since the turn began, and what is known of sessions.
#[derive(Default)]
pub(crate) struct Updates(Mutex<State>);

#[derive(Default)]
struct State {
    steers: bool,
    forks: bool,
    /// Sessions whose agent has a command to compact.
    compacts: BTreeSet<String>,
    context: Option<ContextUse>,
    /// The context as it was when the turn began.
    before: Option<u64>,
    said_chars: u64,
    /// A tool was called.
    acted: bool,
    /// Its last words that belong to no message: a warning, or what was wrong.
    aside: Option<String>,
    /// It has said that its own system failed.
    broken: bool,
    /// It rests, by its own word.
    idle: bool,
    /// What commands have printed so far, by tool call.
    printed: BTreeMap<String, String>,
}

impl Updates {
    /// What the agent announced of itself.
    pub(super) fn announced(&self, steers: bool, forks: bool) {
        let mut state = locked(&self.0);
        (state.steers, state.forks) = (steers, forks);
    }

    /// A turn begins.
    pub(super) fn begin(&self) {
        let mut state = locked(&self.0);
        state.before = state.context.map(|c| c.used);
        state.said_chars = 0;
        state.acted = false;
        state.aside = None;
        state.broken = false;
        state.idle = false;
        state.printed.clear();
    }

    pub(super) fn idle(&self) -> bool {
        locked(&self.0).idle
    }

    /// Takes the parameters of a `session/update`.
    pub(super) fn take(&self, live: &Live, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let mut state = locked(&self.0);
        if kind == "available_commands_update" {
            let commands = update["availableCommands"].as_array().map(Vec::as_slice).unwrap_or_default();
            if commands.iter().any(|c| c["name"] == "compact") {
                state.compacts.insert(session.to_owned());
            }
            return;
        }
        if live.session().as_deref() != Some(session) {
            return;
        }
        if kind == "session_info_update" {
            state.status(&update["_meta"]["codex"]);
            return;
        }
        // Agents send these on their own some time after a session was opened, so
        // they say nothing about the prompt.
        if matches!(kind, "current_mode_update" | "config_option_update") {
            return;
        }
        live.confirm(state.can(session));
        match kind {
            "agent_message_chunk" => {
                let Some(text) = text_of(&update["content"]).filter(|t| !t.is_empty()) else { return };
                if update.get("messageId").is_none() {
                    state.aside = Some(text.clone());
                }
                state.said_chars += text.chars().count() as u64;
                live.emit(TurnEvent::Text { text });
            }
            "tool_call" => {
                state.acted = true;
                let id = word(&update["toolCallId"]);
                let title = Some(word(&update["title"])).filter(|t| !t.is_empty());
                live.emit(TurnEvent::ToolCall { id, title: title.unwrap_or_else(|| word(&update["name"])) });
                state.result(live, update);
            }
            "tool_call_update" => state.result(live, update),
            "usage_update" => {
                if let Some(used) = update["used"].as_u64() {
                    let context = ContextUse { used, window: update["size"].as_u64().filter(|n| *n > 0) };
                    state.context = Some(context);
                    live.emit(TurnEvent::Context(context));
                }
            }
            _ => {}
        }
    }

    /// Takes the answer to the prompt: confirms the turn if no update did, passes
    /// on what the agent counted, and says how the turn ended.
    pub(super) fn answered(&self, live: &Live, answer: &Value, compacts: bool, stderr: Vec<String>) -> TurnEnd {
        let state = locked(&self.0);
        live.confirm(state.can(&live.session().unwrap_or_default()));
        if let Some(tokens) = counted(&answer["usage"]) {
            live.emit(TurnEvent::Usage(tokens));
        } else if let Some(context) = state.context {
            // Only the size of the context is known: the turn has read at least
            // that much, and four characters are about one token.
            let tokens = Tokens { input: context.used, output: state.said_chars / 4, estimated: true };
            live.emit(TurnEvent::Usage(tokens));
        }
        if compacts {
            live.emit(TurnEvent::Compacted { before: state.before, after: state.context.map(|c| c.used) });
        }
        match ending(answer) {
            TurnEnd::Finished => state.really(compacts, stderr),
            other => other,
        }
    }
}

impl State {
    fn can(&self, session: &str) -> Can {
        Can {
            steer: if self.steers { Steering::Inject } else { Steering::Queue },
            compact: self.compacts.contains(session),
            fork: self.forks,
        }
    }

    fn status(&mut self, codex: &Value) {
        match codex["threadStatus"]["type"].as_str() {
            Some("systemError") => self.broken = true,
            Some("idle") => self.idle = true,
            Some("active") => self.idle = false,
            _ => {}
        }
        if let Some(message) = codex["error"]["message"].as_str() {
            self.aside.get_or_insert_with(|| message.to_owned());
        }
    }

    /// A tool call that has ended, be it in its first word or in a later one.
    fn result(&mut self, live: &Live, update: &Value) {
        let id = word(&update["toolCallId"]);
        if let Some(more) = update["_meta"]["terminal_output_delta"]["data"].as_str() {
            let printed = self.printed.entry(id.clone()).or_default();
            if printed.len() < RESULT_CHARS * 4 {
                printed.push_str(more);
            }
        }
        let ok = match update["status"].as_str() {
            Some("completed") => true,
            Some("failed") => false,
            _ => return,
        };
        let parts = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<String> = parts.iter().filter_map(|p| text_of(&p["content"])).collect();
        let mut text = texts.join("\n");
        if text.is_empty() {
            text = self.printed.remove(&id).unwrap_or_else(|| raw(&update["rawOutput"]));
        }
        let text = text.chars().take(RESULT_CHARS).collect();
        live.emit(TurnEvent::ToolResult { id, ok, text });
    }

    /// A failure can come with the words of a normal end.
    fn really(&self, compacts: bool, stderr: Vec<String>) -> TurnEnd {
        if self.broken {
            let says = self.aside.clone().unwrap_or_else(|| "the agent's own system failed".into());
            return TurnEnd::Failed { says: clip(&says) };
        }
        match stderr.into_iter().find(|line| is_about_login(line)) {
            Some(line) if self.said_chars == 0 && !self.acted && !compacts => {
                TurnEnd::Failed { says: format!("the agent said nothing and complained: {}", clip(&line)) }
            }
            _ => TurnEnd::Finished,
        }
    }
}

fn is_about_login(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let signs =
        ["unauthori", "unauthenticated", "authenti", "oauth", "api key", "api_key", "apikey", "log in", "login"];
    let word = |w: &str| w == "auth" || w == "401" || w.starts_with("credential");
    signs.iter().any(|s| line.contains(s)) || line.split(|c: char| !c.is_ascii_alphanumeric()).any(word)
}

/// Where a tool's result has no content of its own: what a server of tools
/// answered, or all that the agent keeps of it.
fn raw(output: &Value) -> String {
    let parts = output["result"]["content"].as_array().or_else(|| output["content"].as_array());
    let texts = parts.map(|p| p.iter().filter_map(text_of).collect::<Vec<_>>().join("\n"));
    match (texts, output) {
        (Some(texts), _) if !texts.is_empty() => texts,
        (_, Value::Null) => String::new(),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

fn ending(answer: &Value) -> TurnEnd {
    let failed = |says: &str| TurnEnd::Failed { says: says.to_owned() };
    match answer["stopReason"].as_str() {
        Some("end_turn") => TurnEnd::Finished,
        Some("cancelled") => TurnEnd::Cancelled,
        Some("refusal") => failed("the agent refused to go on"),
        Some("max_tokens") => failed("the agent reached its limit of tokens"),
        Some("max_turn_requests") => failed("the agent reached its limit of requests in one turn"),
        Some(other) => TurnEnd::Failed { says: format!("the agent stopped: {}", clip(other)) },
        None => failed("the agent's last answer does not say why it stopped"),
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The text of a content block, or of a text resource.
fn text_of(block: &Value) -> Option<String> {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        Some("resource") => block["resource"]["text"].as_str().map(str::to_owned),
        _ => None,
    }
}

/// The tokens of one turn. Agents differ in whether cached tokens are part of the
/// input and thoughts part of the output; the total tells which.
fn counted(usage: &Value) -> Option<Tokens> {
    let (input, output) = (usage["inputTokens"].as_u64()?, usage["outputTokens"].as_u64()?);
    let total = usage["totalTokens"].as_u64().unwrap_or(0);
    let thought = usage["thoughtTokens"].as_u64().unwrap_or(0);
    let output = if total == input.saturating_add(output) { output } else { output.saturating_add(thought) };
    Some(Tokens { input: input.max(total.saturating_sub(output)), output, estimated: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cached_tokens_are_part_of_the_input_whether_or_not_the_agent_counts_them_there() {
        let apart = counted(&json!({"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 85, "totalTokens": 100}));
        assert_eq!(apart.map(|t| (t.input, t.output)), Some((95, 5)));
        let within = counted(&json!({"inputTokens": 95, "outputTokens": 5, "thoughtTokens": 2, "totalTokens": 100}));
        assert_eq!(within.map(|t| (t.input, t.output)), Some((95, 5)));
        assert_eq!(counted(&json!(null)), None);
    }

    #[test]
    fn only_what_is_about_a_login_is_a_complaint_about_it() {
        for line in ["Error: Authentication required", "auth: token expired", "HTTP 401", "set OPENAI_API_KEY"] {
            assert!(is_about_login(line), "{line}");
        }
        for line in ["the author is unknown", "read 4012 bytes", "warning: deprecated flag"] {
            assert!(!is_about_login(line), "{line}");
        }
    }

    #[test]
    fn a_tools_result_is_found_where_the_agent_keeps_it() {
        let text = json!([{"type": "text", "text": "no effort"}]);
        assert_eq!(raw(&json!({"result": {"content": text}, "error": null})), "no effort");
        assert_eq!(raw(&json!({"exit": 3})), r#"{"exit":3}"#);
        assert_eq!((raw(&json!("words")), raw(&json!(null))), ("words".into(), String::new()));
    }
}
