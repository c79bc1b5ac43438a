//! One turn's hands: a shell, the tools, a voice; all of them stop at a cancel.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::mcp::{self, Answer, Endpoint};
use super::shell::{self, Ran, quote};
use super::voice::{Kind, Voice};

/// How often a command that should work is tried.
const TRIES: u32 = 3;

/// Why a turn ends before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// The client said so.
    Cancelled,
    /// Something that must work does not; the host may try the turn again.
    Broken(String),
}

/// A step of a turn.
pub(super) type Step<T> = Result<T, Halt>;

/// What a turn works with.
pub(super) struct Turn {
    pub cwd: PathBuf,
    pub mcp: Option<Endpoint>,
    pub voice: Arc<dyn Voice>,
    pub cancel: CancellationToken,
    /// The pause before each step.
    pub pace: Duration,
    /// Set for commands, over what is inherited.
    pub env: Vec<(String, OsString)>,
}

impl Turn {
    async fn until_cancelled<T>(&self, work: impl Future<Output = T>) -> Step<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Halt::Cancelled),
            done = work => Ok(done),
        }
    }

    /// Waits, unless the turn is cancelled.
    pub(super) async fn sleep(&self, time: Duration) -> Step<()> {
        self.until_cancelled(tokio::time::sleep(time)).await
    }

    /// One sentence for whoever watches.
    pub(super) async fn say(&self, words: &str) -> Step<()> {
        self.voice.say(words);
        self.until_cancelled(std::future::ready(())).await
    }

    /// Runs a shell command, whatever comes of it.
    pub(super) async fn sh(&self, command: &str) -> Step<Ran> {
        self.sleep(self.pace).await?;
        let id = format!("call-{}", super::unique());
        self.voice.began(&id, command, Kind::Shell, json!({"command": command}));
        let ran = self.until_cancelled(shell::run(command, &self.cwd, &self.env)).await;
        match ran {
            Ok(Ok(ran)) => {
                self.voice.ended(&id, ran.ok, &ran.shown());
                Ok(ran)
            }
            Ok(Err(error)) => {
                let says = format!("no shell could be started: {error}");
                self.voice.ended(&id, false, &says);
                Err(Halt::Broken(says))
            }
            Err(halt) => {
                self.voice.ended(&id, false, "cancelled");
                Err(halt)
            }
        }
    }

    /// Runs a command that only fails for reasons that may pass.
    pub(super) async fn sure(&self, command: &str) -> Step<Ran> {
        let mut tried = 1;
        loop {
            let ran = self.sh(command).await?;
            if ran.ok {
                return Ok(ran);
            }
            if tried == TRIES {
                return Err(Halt::Broken(format!("`{}` fails: {}", first_words(command), ran.complaint())));
            }
            self.sleep(Duration::from_millis(500 * u64::from(tried))).await?;
            tried += 1;
        }
    }

    /// A list that a command prints as JSON. A list that cannot be read is no
    /// empty list: on an empty one things are made, and made twice.
    pub(super) async fn list(&self, command: &str) -> Step<Vec<Value>> {
        let ran = self.sure(command).await?;
        match serde_json::from_str(&ran.out) {
            Ok(Value::Array(rows)) => Ok(rows),
            _ => Err(Halt::Broken(format!("`{command}` printed no list"))),
        }
    }

    /// Replaces a file, shown as an edit.
    pub(super) async fn write(&self, path: &Path, text: &str) -> Step<()> {
        self.sleep(self.pace).await?;
        let id = format!("call-{}", super::unique());
        let shown = path.strip_prefix(&self.cwd).unwrap_or(path).display().to_string();
        self.voice.began(&id, &format!("edit {shown}"), Kind::Edit, json!({"path": shown}));
        let done = replace_file(path, text);
        self.voice.ended(&id, done.is_ok(), if done.is_ok() { "written" } else { "could not be written" });
        done.map_err(|e| Halt::Broken(format!("{shown} could not be written: {e}")))
    }

    /// Calls a tool of the host.
    pub(super) async fn tool(&self, name: &str, arguments: &Value) -> Step<Answer> {
        self.sleep(self.pace).await?;
        let Some(endpoint) = &self.mcp else {
            return Err(Halt::Broken("this session was given no tools over HTTP".to_owned()));
        };
        let id = format!("call-{}", super::unique());
        self.voice.began(&id, name, Kind::Tool, arguments.clone());
        let mut tried = 1;
        loop {
            let called = self.until_cancelled(mcp::call(endpoint, name, arguments)).await;
            match called {
                Ok(Ok(answer)) => {
                    self.voice.ended(&id, !answer.refused, &answer.text);
                    return Ok(answer);
                }
                Ok(Err(says)) if tried == TRIES => {
                    self.voice.ended(&id, false, &says);
                    return Err(Halt::Broken(format!("{name} cannot be called: {says}")));
                }
                Ok(Err(_)) => self.sleep(Duration::from_millis(500 * u64::from(tried))).await?,
                Err(halt) => {
                    self.voice.ended(&id, false, "cancelled");
                    return Err(halt);
                }
            }
            tried += 1;
        }
    }

    /// Starts a thread with the brief's command. Says which, or why not.
    pub(super) async fn spawn(&self, template: &str, title: &str, prompt: &str) -> Step<Result<String, String>> {
        let file = Scratch::new(prompt).map_err(|e| Halt::Broken(format!("no prompt file could be written: {e}")))?;
        let ran = self.sh(&spawn_line(template, title, &file.path)).await?;
        if !ran.ok {
            return Ok(Err(ran.complaint()));
        }
        Ok(Ok(thread_in(&ran.shown()).unwrap_or_else(|| "that was just started".to_owned())))
    }
}

/// The brief's command with its placeholders filled in.
pub(super) fn spawn_line(template: &str, title: &str, file: &Path) -> String {
    let short: String = title.chars().take(100).collect();
    // The file first: a title may look like the other placeholder.
    template.replacen("<file>", &quote(&file.display().to_string()), 1).replacen(
        "'<what, in a few words>'",
        &quote(&short),
        1,
    )
}

/// The first thread id of a text.
pub(super) fn thread_in(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    words.find(|w| w.starts_with("thr_") && w.len() > 4).map(str::to_owned)
}

fn first_words(command: &str) -> String {
    command.chars().take(120).collect()
}

/// Puts the new text in place in one step: a turn that is cut must not leave
/// half a file behind.
fn replace_file(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.scripted"));
    std::fs::write(&beside, text)?;
    if let Ok(meta) = std::fs::metadata(path) {
        std::fs::set_permissions(&beside, meta.permissions())?;
    }
    std::fs::rename(&beside, path)
}

/// A file outside of every checkout, gone when it is dropped.
pub(super) struct Scratch {
    dir: PathBuf,
    pub path: PathBuf,
}

impl Scratch {
    pub(super) fn new(text: &str) -> std::io::Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("scripted-agent-{}", super::unique()));
        std::fs::create_dir(&dir)?;
        let scratch = Scratch { path: dir.join("text.md"), dir };
        std::fs::write(&scratch.path, text)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
