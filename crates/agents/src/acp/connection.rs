//! The Agent Client Protocol's end of the wire.

use super::updates::Updates;
use crate::live::Live;
use crate::wire::messages;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Client, Lines, UntypedMessage};
use futures::Sink;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use stewards_core::threads::{Ask, AskOption, AskReply, Means};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;

/// The longest description of what leave is asked for, in characters.
pub(crate) const DETAIL: usize = 2_000;

/// Runs until the agent closes its output, or the wire breaks.
pub(super) async fn converse(
    stdin: ChildStdin,
    stdout: ChildStdout,
    live: Arc<Live>,
    updates: Arc<Updates>,
    up: oneshot::Sender<ConnectionTo<Agent>>,
) -> Option<String> {
    let (heard, asked) = (Arc::clone(&live), Arc::clone(&live));
    let end = Client
        .v1()
        .name("stewards")
        .on_receive_request(
            async move |ask: UntypedMessage, responder, _link| {
                if ask.method() != "session/request_permission" {
                    return responder.respond_with_error(agent_client_protocol::Error::method_not_found());
                }
                let (params, live) = (ask.params().clone(), Arc::clone(&asked));
                // Not here: while this waits for a person, nothing else would be heard.
                tokio::spawn(async move {
                    let outcome = leave(&live, &params).await;
                    // A link that is gone hears no answer.
                    let _ = responder.respond(outcome);
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |note: UntypedMessage, _link| {
                if note.method() == "session/update" {
                    updates.take(&heard, note.params());
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(Lines::new(outgoing(stdin), messages(stdout, live)), async move |link: ConnectionTo<Agent>| {
            let _ = up.send(link.clone());
            link.incoming_closed().await;
            Ok(())
        })
        .await;
    end.err().map(|e| e.to_string())
}

/// Asks whoever decides, and answers in the protocol's form.
async fn leave(live: &Live, params: &Value) -> Value {
    let (key, wait) = live.ask(ask(params));
    let answer = wait.await;
    live.unask(&key);
    match answer {
        Ok(AskReply::Option { id }) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        _ => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

fn ask(params: &Value) -> Ask {
    let call = &params["toolCall"];
    let word = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ask {
        key: String::new(),
        permission: true,
        edits: call["kind"] == "edit",
        title: Some(word(&call["title"])).filter(|t| !t.is_empty()).unwrap_or_else(|| "a tool".into()),
        detail: detail(&call["rawInput"]),
        options: options
            .iter()
            .map(|o| AskOption { id: word(&o["optionId"]), label: word(&o["name"]), means: means(&o["kind"]) })
            .collect(),
        free: false,
    }
}

/// A command or a path where the tool has one, else all that it was given.
pub(crate) fn detail(input: &Value) -> String {
    let named = ["command", "file_path", "path", "url"].iter().find_map(|n| input[*n].as_str());
    let text = match (named, input) {
        (Some(named), _) => named.to_owned(),
        (None, Value::Null) => String::new(),
        (None, other) => other.to_string(),
    };
    text.chars().take(DETAIL).collect()
}

fn means(kind: &Value) -> Means {
    match kind.as_str() {
        Some("allow_once") => Means::AllowOnce,
        Some("allow_always") => Means::AllowAlways,
        Some("reject_always") => Means::DenyAlways,
        _ => Means::DenyOnce,
    }
}

fn outgoing(stdin: ChildStdin) -> impl Sink<String, Error = io::Error> + Send + 'static {
    futures::sink::unfold(stdin, |mut stdin, line: String| async move {
        stdin.write_all(line.as_bytes()).await?;
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        Ok(stdin)
    })
}
