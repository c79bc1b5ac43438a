//! A small client for tools over MCP's streamable HTTP.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

/// What is asked for first; the server may name another.
const VERSION: &str = "2025-06-18";

/// Where the tools are.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub url: String,
    pub headers: Vec<(String, String)>,
}

/// What a tool said.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub text: String,
    pub refused: bool,
}

struct Talk<'a> {
    endpoint: &'a Endpoint,
    client: reqwest::Client,
    version: Option<String>,
    session: Option<String>,
}

impl Talk<'_> {
    async fn post(&mut self, body: &Value) -> Result<Option<Value>, String> {
        let mut ask = self
            .client
            .post(&self.endpoint.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        for (name, value) in &self.endpoint.headers {
            ask = ask.header(name, value);
        }
        if let Some(version) = &self.version {
            ask = ask.header("MCP-Protocol-Version", version);
        }
        if let Some(session) = &self.session {
            ask = ask.header("Mcp-Session-Id", session);
        }
        let answer = ask.body(body.to_string()).send().await.map_err(|e| e.to_string())?;
        let status = answer.status();
        if let Some(session) = answer.headers().get("Mcp-Session-Id").and_then(|v| v.to_str().ok()) {
            self.session = Some(session.to_owned());
        }
        let text = answer.text().await.map_err(|e| e.to_string())?;
        if !status.is_success() {
            return Err(format!("the tools' server answers {status}: {}", text.chars().take(300).collect::<String>()));
        }
        if status == StatusCode::ACCEPTED || text.trim().is_empty() {
            return Ok(None);
        }
        message(&text).map(Some)
    }
}

/// The JSON-RPC message of a body: plain JSON, or the last data line of events.
pub(super) fn message(body: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(body) {
        return Ok(value);
    }
    let data = body.lines().rev().filter_map(|line| line.strip_prefix("data:"));
    data.map(str::trim)
        .find_map(|data| serde_json::from_str(data).ok())
        .ok_or_else(|| "the tools' server answers with no message".to_owned())
}

/// Calls one tool.
///
/// # Errors
/// The server is not there or does not speak the protocol; a refusal of the
/// tool itself is an [`Answer`].
pub(super) async fn call(endpoint: &Endpoint, tool: &str, arguments: &Value) -> Result<Answer, String> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).no_proxy().build();
    let client = client.map_err(|e| e.to_string())?;
    let mut talk = Talk { endpoint, client, version: None, session: None };
    let hello = talk
        .post(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "scripted-agent", "version": env!("CARGO_PKG_VERSION")},
            },
        }))
        .await?
        .ok_or("the tools' server does not introduce itself")?;
    if let Some(error) = hello.get("error") {
        return Err(format!("the tools' server refuses: {error}"));
    }
    talk.version = Some(hello["result"]["protocolVersion"].as_str().unwrap_or(VERSION).to_owned());
    talk.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    let said = talk
        .post(&json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }))
        .await?
        .ok_or("the tools' server does not answer a call")?;
    if let Some(error) = said.get("error") {
        // Arguments that do not fit are refused here and can be corrected.
        let text = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
        return Ok(Answer { text, refused: true });
    }
    let result = &said["result"];
    let parts = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    Ok(Answer { text: text.join("\n"), refused: result["isError"].as_bool().unwrap_or(false) })
}
