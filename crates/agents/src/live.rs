//! What an agent says during a turn, in our words.
//!
//! Updates are read from plain JSON: an update of a kind that is unknown here, or
//! one with a broken part, must not end the connection.

use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::ports::{TurnEvent, TurnSink};
use stewards_core::threads::Tokens;

/// The longest tool result that is passed on, in characters.
const RESULT_CHARS: usize = 20_000;

/// The one turn that a connection may have, shared with its message handler.
pub(crate) struct Live {
    turn: Mutex<Option<LiveTurn>>,
    sign: Mutex<Instant>,
}

struct LiveTurn {
    thread: ThreadId,
    turn: TurnId,
    session: String,
    sink: Arc<dyn TurnSink>,
    confirmed: bool,
    /// Tokens in the context window, where the agent said so.
    used: Option<u64>,
    said_chars: u64,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(crate) fn new() -> Live {
        Live { turn: Mutex::new(None), sign: Mutex::new(Instant::now()) }
    }

    /// The agent showed a sign of life.
    pub(crate) fn touch(&self) {
        *locked(&self.sign) = Instant::now();
    }

    pub(crate) fn last_sign(&self) -> Instant {
        *locked(&self.sign)
    }

    /// From here on updates of this session belong to this turn.
    pub(crate) fn begin(&self, thread: &ThreadId, turn: &TurnId, session: &str, sink: Arc<dyn TurnSink>) {
        *locked(&self.turn) = Some(LiveTurn {
            thread: thread.clone(),
            turn: turn.clone(),
            session: session.to_owned(),
            sink,
            confirmed: false,
            used: None,
            said_chars: 0,
        });
    }

    /// Nothing that comes after this belongs to the turn.
    pub(crate) fn over(&self) {
        *locked(&self.turn) = None;
    }

    pub(crate) fn busy(&self) -> bool {
        locked(&self.turn).is_some()
    }

    /// Takes the parameters of a `session/update`.
    pub(crate) fn update(&self, params: &Value) {
        // The lock is held while the sink takes the event, so that events stay in order.
        let mut turn = locked(&self.turn);
        let Some(turn) = turn.as_mut() else { return };
        if params["sessionId"].as_str() != Some(turn.session.as_str()) {
            return;
        }
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        // Agents send these on their own some time after a session was opened, so
        // they say nothing about the prompt.
        let housekeeping = matches!(
            kind,
            "available_commands_update" | "current_mode_update" | "config_option_update" | "session_info_update"
        );
        if housekeeping {
            return;
        }
        turn.confirm();
        match kind {
            "agent_message_chunk" => {
                if let Some(text) = text_of(&update["content"]).filter(|t| !t.is_empty()) {
                    turn.said_chars += text.chars().count() as u64;
                    turn.take(TurnEvent::Text { text });
                }
            }
            "tool_call" => {
                let id = word(&update["toolCallId"]);
                let title = Some(word(&update["title"])).filter(|t| !t.is_empty());
                turn.take(TurnEvent::ToolCall { id, title: title.unwrap_or_else(|| word(&update["name"])) });
                turn.result(update);
            }
            "tool_call_update" => turn.result(update),
            "usage_update" => turn.used = update["used"].as_u64().or(turn.used),
            _ => {}
        }
    }

    /// Takes the answer to the prompt: confirms the turn if no update did, and
    /// passes on what the agent counted.
    pub(crate) fn answered(&self, answer: &Value) {
        let mut turn = locked(&self.turn);
        let Some(turn) = turn.as_mut() else { return };
        turn.confirm();
        if let Some(tokens) = counted(&answer["usage"]) {
            turn.take(TurnEvent::Usage(tokens));
        } else if let Some(used) = turn.used {
            // Only the size of the context is known: the turn has read at least
            // that much, and four characters are about one token.
            let tokens = Tokens { input: used, output: turn.said_chars / 4, estimated: true };
            turn.take(TurnEvent::Usage(tokens));
        }
    }
}

impl LiveTurn {
    fn take(&self, event: TurnEvent) {
        self.sink.take(&self.thread, &self.turn, event);
    }

    fn confirm(&mut self) {
        if !self.confirmed {
            self.confirmed = true;
            self.take(TurnEvent::Confirmed { session: self.session.clone() });
        }
    }

    /// A tool call that has ended, be it in its first word or in a later one.
    fn result(&self, update: &Value) {
        let ok = match update["status"].as_str() {
            Some("completed") => true,
            Some("failed") => false,
            _ => return,
        };
        let parts = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<String> = parts.iter().filter_map(|p| text_of(&p["content"])).collect();
        let text = texts.join("\n").chars().take(RESULT_CHARS).collect();
        self.take(TurnEvent::ToolResult { id: word(&update["toolCallId"]), ok, text });
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
}
