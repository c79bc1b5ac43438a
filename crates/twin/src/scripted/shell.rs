//! Shell commands: `sh -c` with captured output, ended with all its children
//! when the turn is.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// How much of a command's output is shown.
pub(super) const SHOWN: usize = 20_000;
/// How much of it is held to be read: lists and diffs must be read whole.
const HELD: usize = 2_000_000;
/// How long output is awaited after the command's end: a child that it left
/// behind may hold the pipe for ever.
const DRAIN: Duration = Duration::from_secs(1);

/// What came of a command.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub ok: bool,
    pub out: String,
    pub err: String,
    /// There was more output than is held.
    pub cut: bool,
}

impl Ran {
    /// Both outputs, as a person would see them.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{}{}", self.out, self.err);
        if text.len() > SHOWN {
            let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push_str("\n(cut here)");
        }
        text
    }

    /// What a refused command says, on one line.
    pub(super) fn complaint(&self) -> String {
        let said = if self.err.trim().is_empty() { &self.out } else { &self.err };
        let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(300).collect()
    }
}

/// Ends the process group of a command that is given up.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // The shell's own `kill`, since signals want unsafe code or another crate.
            let _ = std::process::Command::new("sh")
                .args(["-c", &format!("kill -s KILL -- -{pid}")])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Runs a command to its end. Dropped before, it kills what it started.
pub(super) async fn run(command: &str, cwd: &Path, env: &[(String, OsString)]) -> std::io::Result<Ran> {
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(cwd)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = Group(child.id());
    let out = child.stdout.take().map(Reader::start);
    let err = child.stderr.take().map(Reader::start);
    let status = child.wait().await?;
    group.0 = None;
    let (out, out_cut) = Reader::finish(out).await;
    let (err, err_cut) = Reader::finish(err).await;
    Ok(Ran { ok: status.success(), out, err, cut: out_cut || err_cut })
}

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    cut: bool,
}

struct Reader {
    held: Arc<Mutex<Held>>,
    task: JoinHandle<()>,
}

impl Reader {
    fn start(mut pipe: impl AsyncRead + Unpin + Send + 'static) -> Reader {
        let held = Arc::new(Mutex::new(Held::default()));
        let into = held.clone();
        let task = tokio::spawn(async move {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(n) = pipe.read(&mut chunk).await {
                if n == 0 {
                    break;
                }
                let mut held = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = HELD.saturating_sub(held.bytes.len()).min(n);
                held.bytes.extend_from_slice(&chunk[..room]);
                held.cut |= room < n;
            }
        });
        Reader { held, task }
    }

    async fn finish(reader: Option<Reader>) -> (String, bool) {
        let Some(mut reader) = reader else { return (String::new(), false) };
        if tokio::time::timeout(DRAIN, &mut reader.task).await.is_err() {
            reader.task.abort();
        }
        let held = reader.held.lock().unwrap_or_else(PoisonError::into_inner);
        (String::from_utf8_lossy(&held.bytes).into_owned(), held.cut)
    }
}

/// Quotes one argument for a POSIX shell.
pub(super) fn quote(arg: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !arg.is_empty() && arg.chars().all(safe) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', "'\\''"))
}
