//! What has become of the lines that we wrote, and what the agent said since.

use super::{forgot, words};
use crate::acp::{DETAIL, detail};
use crate::live::{Live, RESULT_CHARS, locked};
use crate::wire::Broken;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use stewards_core::ports::{Steered, TurnEnd, TurnEvent};
use stewards_core::text::{cut, one_line};
use stewards_core::threads::{Ask, AskOption, AskReply, Can, ContextUse, Means, Steering, Tokens};
use tokio::sync::{mpsc, oneshot, watch};

const CAN: Can = Can { steer: Steering::Inject, compact: true, fork: true };
/// Tools that only change files.
const EDITS: [&str; 4] = ["Edit", "MultiEdit", "Write", "NotebookEdit"];

#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// A turn is live and takes lines.
    open: bool,
    lines: Vec<Line>,
    /// The agent tells what becomes of lines; an old one does not.
    tells: bool,
    result: Option<Value>,
    limit: Option<jiff::Timestamp>,
    tokens: Tokens,
    used: Option<u64>,
    /// Text of the block that is being said.
    text: String,
    /// Text of this message came in pieces; the whole of it says nothing new.
    pieces: bool,
    /// Leave that was asked for: the agent's id of the request → our key.
    asked: BTreeMap<String, String>,
}

struct Line {
    id: String,
    taken: bool,
    over: bool,
    /// We asked for it back.
    withdrawn: bool,
    /// Waits to hear whether it was taken.
    tell: Option<oneshot::Sender<Steered>>,
}

impl Line {
    fn take(&mut self) {
        self.taken = true;
        if let Some(tell) = self.tell.take() {
            let _ = tell.send(Steered::Taken);
        }
    }
}

impl Desk {
    pub(super) fn begin(&self) {
        let mut state = locked(&self.state);
        let tells = state.tells;
        *state = State { open: true, tells, used: state.used, ..State::default() };
    }

    pub(super) fn clear(&self) {
        locked(&self.state).close();
        self.tell();
    }

    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    /// A line is about to be written. Says whether the turn still takes it: one that
    /// came in after the end would begin a round that belongs to nobody.
    pub(super) fn wants(&self, id: String, tell: Option<oneshot::Sender<Steered>>) -> bool {
        let mut state = locked(&self.state);
        if state.open {
            state.lines.push(Line { id, taken: false, over: false, withdrawn: false, tell });
        }
        state.open
    }

    /// A result has come, so that nothing is at work.
    pub(super) fn lingers(&self) -> bool {
        locked(&self.state).result.is_some()
    }

    /// Nothing came after the result for a while. Lines that were taken count as
    /// ended, and so does the prompt's; answers the others, which are to be
    /// withdrawn. One that was withdrawn before is given up.
    pub(super) fn settle(&self) -> Vec<String> {
        let mut state = locked(&self.state);
        let mut back = Vec::new();
        for (n, line) in state.lines.iter_mut().enumerate().filter(|(_, l)| !l.over) {
            if n == 0 || line.taken || line.withdrawn {
                line.over = true;
            } else {
                line.withdrawn = true;
                back.push(line.id.clone());
            }
        }
        back
    }

    /// How the turn ended, if it has; what was counted is passed on then.
    pub(super) fn over(&self, live: &Live) -> Option<Result<TurnEnd, Broken>> {
        let mut state = locked(&self.state);
        let all = state.lines.iter().all(|l| l.over) || !state.tells;
        let result = state.result.clone().filter(|_| all)?;
        let taken = state.lines.iter().any(|l| l.taken);
        state.close();
        state.say(live);
        let failed = result["is_error"] == true || result["subtype"].as_str().is_some_and(|s| s.starts_with("error"));
        // It says so in a result, before it has looked at the prompt.
        if failed && !taken && forgot(&words(&result)) {
            return Some(Err(Broken(words(&result))));
        }
        if taken || !failed {
            live.confirm(CAN);
        }
        let window = result["modelUsage"].as_object().and_then(|m| m.values().next());
        let window = window.and_then(|m| m["contextWindow"].as_u64());
        if let Some(used) = state.used {
            live.emit(TurnEvent::Context(ContextUse { used, window }));
        }
        if state.tokens != Tokens::default() {
            live.emit(TurnEvent::Usage(state.tokens));
        }
        let aborted = result["terminal_reason"].as_str().is_some_and(|r| r.starts_with("aborted"));
        Some(Ok(match (aborted, failed) {
            (true, _) => TurnEnd::Cancelled,
            (false, true) => match state.limit {
                Some(until) => TurnEnd::Limited { says: words(&result), until: Some(until) },
                None => TurnEnd::Failed { says: words(&result) },
            },
            // An empty last word is a last word.
            (false, false) => TurnEnd::Finished,
        }))
    }

    /// Takes a line of the agent.
    pub(super) fn take(&self, live: &Arc<Live>, line: &Value, out: &mpsc::UnboundedSender<String>) {
        let mut state = locked(&self.state);
        // What a helper of the agent's own says is not the agent's word.
        let own = line["parent_tool_use_id"].is_null();
        match line["type"].as_str().unwrap_or_default() {
            "system" => state.system(live, line),
            "command_lifecycle" => state.lifecycle(live, line),
            "stream_event" if own => state.piece(live, &line["event"]),
            "assistant" => state.assistant(live, &line["message"], own),
            "user" => state.user(live, line),
            "rate_limit_event" => {
                let info = &line["rate_limit_info"];
                if info["status"] == "rejected" {
                    state.limit = info["resetsAt"].as_i64().and_then(|s| jiff::Timestamp::from_second(s).ok());
                }
            }
            "result" => {
                state.say(live);
                let usage = &line["usage"];
                let n = |name: &str| usage[name].as_u64().unwrap_or(0);
                let input = n("input_tokens") + n("cache_read_input_tokens") + n("cache_creation_input_tokens");
                state.tokens.add(Tokens { input, output: n("output_tokens"), estimated: false });
                state.result = Some(line.clone());
            }
            "control_request" if line["request"]["subtype"] == "can_use_tool" => {
                state.say(live);
                let id = line["request_id"].as_str().unwrap_or_default().to_owned();
                let (key, wait) = live.ask(ask(&line["request"]));
                state.asked.insert(id.clone(), key.clone());
                let (request, live, out) = (line["request"].clone(), Arc::clone(live), out.clone());
                tokio::spawn(async move {
                    let reply = wait.await.ok();
                    live.unask(&key);
                    let _ = out.send(answer(&id, &request, reply).to_string());
                });
            }
            "control_cancel_request" => {
                let id = line["request_id"].as_str().unwrap_or_default();
                if let Some(key) = state.asked.remove(id) {
                    live.unask(&key);
                }
            }
            _ => {}
        }
        drop(state);
        self.tell();
    }
}

impl State {
    /// No line belongs to a turn from here on; who waits for word of one hears that
    /// nobody knows.
    fn close(&mut self) {
        self.open = false;
        self.lines.clear();
    }

    fn system(&mut self, live: &Live, line: &Value) {
        match line["subtype"].as_str().unwrap_or_default() {
            "init" => {
                if let Some(session) = line["session_id"].as_str() {
                    live.is_session(session);
                }
            }
            "compact_boundary" => {
                let meta = &line["compact_metadata"];
                let (before, after) = (meta["pre_tokens"].as_u64(), meta["post_tokens"].as_u64());
                self.used = after.or(self.used);
                live.emit(TurnEvent::Compacted { before, after });
            }
            _ => {}
        }
    }

    fn lifecycle(&mut self, live: &Live, line: &Value) {
        let id = line["command_uuid"].as_str().unwrap_or_default();
        let Some(ours) = self.lines.iter_mut().find(|l| l.id == id) else { return };
        self.tells = true;
        match line["state"].as_str().unwrap_or_default() {
            "started" => {
                ours.take();
                live.confirm(CAN);
                // Another round: the result that came was not the last.
                if self.result.is_some() {
                    self.result = None;
                }
            }
            "completed" => {
                ours.take();
                ours.over = true;
            }
            "cancelled" => {
                ours.over = true;
                let how = if ours.taken { Steered::Taken } else { Steered::NotTaken };
                if let Some(tell) = ours.tell.take() {
                    let _ = tell.send(how);
                }
            }
            _ => {}
        }
    }

    /// Passes the text on that was said in pieces.
    fn say(&mut self, live: &Live) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            live.emit(TurnEvent::Text { text });
        }
    }

    fn piece(&mut self, live: &Live, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.pieces = false,
            "content_block_delta" => {
                if let Some(text) = event["delta"]["text"].as_str() {
                    self.pieces = true;
                    self.text.push_str(text);
                    // A line at a time: crumbs of a few letters each are too many.
                    if self.text.len() > 200 || self.text.ends_with('\n') {
                        self.say(live);
                    }
                }
            }
            "content_block_stop" => self.say(live),
            _ => {}
        }
    }

    fn assistant(&mut self, live: &Live, message: &Value, own: bool) {
        live.confirm(CAN);
        for block in message["content"].as_array().map(Vec::as_slice).unwrap_or_default() {
            match block["type"].as_str().unwrap_or_default() {
                "text" if own && !self.pieces => {
                    let text = block["text"].as_str().unwrap_or_default().to_owned();
                    live.emit(TurnEvent::Text { text });
                }
                "tool_use" => {
                    self.say(live);
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    live.emit(TurnEvent::ToolCall { id, title: title(block) });
                }
                _ => {}
            }
        }
        let usage = &message["usage"];
        let n = |name: &str| usage[name].as_u64().unwrap_or(0);
        let used =
            n("input_tokens") + n("cache_read_input_tokens") + n("cache_creation_input_tokens") + n("output_tokens");
        // An error that it made up itself counts nothing.
        if own && used > 0 {
            self.used = Some(used);
        }
    }

    fn user(&mut self, live: &Live, line: &Value) {
        if line["isReplay"] == true {
            let id = line["uuid"].as_str().unwrap_or_default();
            if let Some(ours) = self.lines.iter_mut().find(|l| l.id == id) {
                ours.take();
                live.confirm(CAN);
            }
            return;
        }
        for block in line["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default() {
            if block["type"] != "tool_result" {
                continue;
            }
            let text = match &block["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n"),
                _ => String::new(),
            };
            live.emit(TurnEvent::ToolResult {
                id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                ok: block["is_error"] != true,
                text: text.chars().take(RESULT_CHARS).collect(),
            });
        }
    }
}

fn title(block: &Value) -> String {
    let name = block["name"].as_str().unwrap_or("a tool");
    let name = name.strip_prefix("mcp__stewards__").unwrap_or(name);
    let what = cut(&one_line(&detail(&block["input"])), 200);
    if what.is_empty() { name.to_owned() } else { format!("{name}: {what}") }
}

fn ask(request: &Value) -> Ask {
    let tool = request["tool_name"].as_str().unwrap_or("a tool");
    if let Some(first) = questions(request).first() {
        return question(first, questions(request));
    }
    let option = |id: &str, label: &str, means| AskOption { id: id.into(), label: label.into(), means };
    let mut options = vec![option("allow", "Allow once", Means::AllowOnce)];
    if !suggestions(request).is_empty() {
        options.push(option("always", "Allow for this session", Means::AllowAlways));
    }
    options.push(option("deny", "Deny", Means::DenyOnce));
    Ask {
        key: String::new(),
        permission: true,
        edits: EDITS.contains(&tool),
        title: tool.strip_prefix("mcp__stewards__").unwrap_or(tool).to_owned(),
        detail: detail(&request["input"]),
        options,
        free: false,
    }
}

/// What the tool for it asks a person. Several questions at once are answered
/// together, in words.
fn questions(request: &Value) -> &[Value] {
    let all = request["input"]["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if request["tool_name"] == "AskUserQuestion" { all } else { &[] }
}

fn question(first: &Value, all: &[Value]) -> Ask {
    let word = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let options = |q: &Value| q["options"].as_array().cloned().unwrap_or_default();
    let mut detail = Vec::new();
    for q in all {
        if all.len() > 1 {
            detail.push(word(&q["question"]));
        }
        let described = options(q).into_iter().map(|o| format!("- {}: {}", word(&o["label"]), word(&o["description"])));
        detail.extend(described);
        if q["multiSelect"] == true {
            detail.push("(several may be chosen, in words)".into());
        }
    }
    let choice = |o: Value| AskOption { id: word(&o["label"]), label: word(&o["label"]), means: Means::Choice };
    Ask {
        key: String::new(),
        permission: false,
        edits: false,
        title: word(&first["question"]),
        detail: cut(&detail.join("\n"), DETAIL),
        options: if all.len() == 1 { options(first).into_iter().map(choice).collect() } else { Vec::new() },
        free: true,
    }
}

/// Only what ends with the session: nothing is written into settings.
fn suggestions(request: &Value) -> Vec<Value> {
    let all = request["permission_suggestions"].as_array().cloned().unwrap_or_default();
    let rules = all.into_iter().filter(|s| s["type"] == "addRules" || s["type"] == "addDirectories");
    rules
        .map(|mut s| {
            s["destination"] = json!("session");
            s
        })
        .collect()
}

fn answer(id: &str, request: &Value, reply: Option<AskReply>) -> Value {
    let deny = |why: &str| json!({"behavior": "deny", "message": why});
    let said = match (questions(request), reply) {
        (_, None) => deny("Nobody answered before this turn was over."),
        (all @ [_, ..], Some(AskReply::Option { id: words } | AskReply::Text { text: words })) => {
            let mut input = request["input"].clone();
            let answers = all.iter().map(|q| (q["question"].as_str().unwrap_or_default().to_owned(), json!(words)));
            input["answers"] = Value::Object(answers.collect());
            json!({"behavior": "allow", "updatedInput": input})
        }
        ([], Some(AskReply::Option { id })) if id == "allow" => {
            json!({"behavior": "allow", "updatedInput": request["input"]})
        }
        ([], Some(AskReply::Option { id })) if id == "always" => {
            let rules = suggestions(request);
            json!({"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": rules})
        }
        ([], Some(_)) => deny("The owner does not allow this."),
    };
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": said}})
}
