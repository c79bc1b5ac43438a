//! The streams of one agent's process: lines in, and how it ends.

use crate::child::{Child, Tail};
use crate::live::Live;
use crate::processes::{self, Proc};
use futures::Stream;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use stewards_core::ids::ThreadId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The longest line that is read as one message, in bytes.
const LINE_BYTES: u64 = 64 * 1024 * 1024;
/// What was written before a process ended is still read for so long.
const REST: Duration = Duration::from_millis(500);

/// The process is of no more use: why, in words for a person.
pub(crate) struct Broken(pub(crate) String);

/// The handle of a conversation that runs in a task of its own.
pub(crate) struct Wire {
    /// Holds why the conversation ended, once it has.
    pub dead: watch::Receiver<Option<String>>,
    /// Ends it, which also closes the agent's input.
    pub close: CancellationToken,
    pub tail: Arc<Tail>,
}

/// Starts to speak with a process. `converse` runs until the agent closes its
/// output, and answers what was wrong, if anything.
pub(crate) fn open<C, F>(child: Child, mark: String, thread: ThreadId, converse: C) -> Wire
where
    C: FnOnce(ChildStdin, ChildStdout) -> F + Send + 'static,
    F: Future<Output = Option<String>> + Send,
{
    let (told, dead) = watch::channel(None);
    let close = CancellationToken::new();
    let (closed, tail) = (close.clone(), Arc::clone(&child.tail));
    tokio::spawn(async move {
        let Child { stdin, stdout, leader, tail, exit, .. } = child;
        let why = tokio::select! {
            biased;
            () = closed.cancelled() => Some("it was ended".to_owned()),
            end = converse(stdin, stdout) => end,
            () = abandoned(exit.clone(), mark, thread, leader) => None,
        };
        told.send_replace(Some(epitaph(exit, &tail, why).await));
    });
    Wire { dead, close, tail }
}

/// The lines that are messages. Agents, and what they start, also print other
/// things: those lines are left out here, since no protocol has an answer to them.
pub(crate) fn messages(
    stdout: ChildStdout,
    live: Arc<Live>,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    futures::stream::unfold((BufReader::new(stdout), live, false), |(mut from, live, mut within)| async move {
        loop {
            let mut line = Vec::new();
            match (&mut from).take(LINE_BYTES).read_until(b'\n', &mut line).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some((Err(error), (from, live, within))),
            }
            live.touch();
            // A line that is too long comes in parts, and no part is a message.
            let part = std::mem::replace(&mut within, !line.ends_with(b"\n"));
            if let (false, Some(message)) = (part, message(line)) {
                return Some((Ok(message), (from, live, within)));
            }
        }
    })
}

fn message(line: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(line).ok()?;
    let text = text.trim();
    let whole = text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !whole && !text.is_empty() {
        tracing::debug!(bytes = text.len(), "an agent printed a line that is not a message");
    }
    whole.then(|| text.to_owned())
}

/// Completes when the agent is gone although its output is still open, since some
/// process that it started holds it. A launcher that ends well while others of the
/// thread live on may have handed over to them, so then those count.
async fn abandoned(mut exit: watch::Receiver<Option<ExitStatus>>, mark: String, thread: ThreadId, leader: Proc) {
    let handed_over = match exit.wait_for(Option::is_some).await {
        Ok(status) => status.is_some_and(|s| s.success()),
        Err(_) => false,
    };
    tokio::time::sleep(REST).await;
    if !handed_over {
        return;
    }
    loop {
        let (mark, thread, leader) = (mark.clone(), thread.clone(), leader.clone());
        let look = move || processes::of_thread(&mark, thread.as_str(), Some(&leader)).is_empty();
        if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Why the connection ended, with the status and the last word of the process
/// where there are any.
async fn epitaph(mut exit: watch::Receiver<Option<ExitStatus>>, tail: &Tail, why: Option<String>) -> String {
    let status = tokio::time::timeout(REST, exit.wait_for(Option::is_some)).await;
    let status = status.ok().and_then(Result::ok).and_then(|s| *s);
    let mut says = match status {
        Some(status) => format!("the agent's process ended ({status})"),
        None => "the agent closed the connection".to_owned(),
    };
    if let Some(why) = why {
        says.push_str(&format!("; {why}"));
    }
    if let Some(line) = tail.last_line() {
        says.push_str(&format!(": {line}"));
    }
    says
}
