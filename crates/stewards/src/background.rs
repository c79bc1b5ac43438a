//! The daemon in the background: `serve start`, `stop`, `status` and `logs`.

use crate::cli::ServeVerb;
use crate::out::{self, Outcome};
use crate::settings::{self, DaemonFile};
use anyhow::Context;
use rustix::process::{Pid, Signal};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use stewards_core::refusal::{Exit, Refusal};

/// What the daemon says is kept here; the one before beside it.
const LOG: &str = "daemon.log";
/// A larger log is put aside when the daemon starts.
const LOG_BYTES: u64 = 10_000_000;
/// It may have much to settle before it serves.
const START: Duration = Duration::from_secs(60);
/// One that was started at the same time is waited for so long.
const OTHER: Duration = Duration::from_secs(2);
/// Five seconds for the agents, and some for itself.
const END: Duration = Duration::from_secs(20);

pub fn run(dir: &Path, verb: ServeVerb, json: bool) -> Outcome {
    match verb {
        ServeVerb::Start => start(dir, json),
        ServeVerb::Stop => stop(dir, json),
        ServeVerb::Status => status(dir, json),
        ServeVerb::Logs { lines } => logs(dir, lines),
    }
}

/// The daemon that `daemon.json` names, if it listens: what a killed one left
/// behind may name a pid that is another's by now.
fn running(dir: &Path) -> Option<DaemonFile> {
    settings::daemon(dir).filter(|found| UnixStream::connect(&found.socket).is_ok())
}

/// One that has ended and was not waited for yet is not alive.
fn alive(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(stewards_agents::processes::find).is_some()
}

fn start(dir: &Path, json: bool) -> Outcome {
    if let Some(found) = running(dir) {
        return say(json, &found, "runs already");
    }
    stewards_store::private_dir(dir).with_context(|| dir.display().to_string())?;
    let log = dir.join(LOG);
    if log.metadata().is_ok_and(|m| m.len() > LOG_BYTES) {
        std::fs::rename(&log, dir.join(format!("{LOG}.1")))?;
    }
    let before = log.metadata().map_or(0, |m| m.len());
    let to = stewards_store::private_file(&log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--dir").arg(dir).arg("--quiet");
    command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
    // A group of its own: what ends the terminal does not end the daemon.
    command.process_group(0);
    let mut child = command.spawn().context("the daemon could not be started")?;
    let began = Instant::now();
    while began.elapsed() < START {
        if let Some(found) = settings::daemon(dir).filter(|d| d.pid == child.id()) {
            return say(json, &found, "serves");
        }
        if let Some(ended) = child.try_wait()? {
            // Another one may have been started in the same moment, and is not quite there.
            while began.elapsed() < OTHER {
                if let Some(found) = running(dir) {
                    return say(json, &found, "runs already");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            return Err(not_started(ended, &read(&log, before)).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let says = format!("the daemon (pid {}) does not serve after {} s", child.id(), START.as_secs());
    Err(Refusal::new(Exit::Unreachable, "slow_start", says, "it may still come: stewards serve status").into())
}

/// What it said of its end, with its own exit code.
fn not_started(ended: ExitStatus, said: &str) -> Refusal {
    let exit = [Exit::Usage, Exit::Busy, Exit::Configuration].into_iter();
    let exit = exit.into_iter().find(|e| ended.code() == Some(i32::from(e.code()))).unwrap_or(Exit::Unreachable);
    let line = |name: &str| said.lines().rev().find_map(|l| l.strip_prefix(name)).map(str::trim).map(str::to_owned);
    let last = || said.lines().last().unwrap_or("it said nothing").to_owned();
    let says = format!("the daemon ended as it started ({ended}): {}", line("Error:").unwrap_or_else(last));
    let hint = line("Hint:").unwrap_or_else(|| "see all of it: stewards serve logs".to_owned());
    Refusal::new(exit, "not_started", says, hint)
}

fn stop(dir: &Path, json: bool) -> Outcome {
    let Some(found) = running(dir) else {
        return nothing(json);
    };
    let pid = i32::try_from(found.pid).ok().and_then(Pid::from_raw).context("daemon.json names no process")?;
    rustix::process::kill_process(pid, Signal::TERM).with_context(|| format!("pid {} cannot be ended", found.pid))?;
    let began = Instant::now();
    while began.elapsed() < END {
        if !alive(found.pid) {
            return say(json, &found, "was ended");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let says = format!("the daemon (pid {}) did not end within {} s", found.pid, END.as_secs());
    Err(Refusal::busy("not_ended", says, "see what it does: stewards serve logs").into())
}

/// Exits 0 while it runs and 1 while it does not.
fn status(dir: &Path, json: bool) -> Outcome {
    match running(dir) {
        Some(found) => say(json, &found, "serves"),
        None => nothing(json).map(|_| Exit::NotMet.code()),
    }
}

fn nothing(json: bool) -> Outcome {
    if json {
        return out::json(&serde_json::json!({ "running": false }));
    }
    out::line("No daemon runs on this directory.");
    Ok(0)
}

fn say(json: bool, found: &DaemonFile, how: &str) -> Outcome {
    if json {
        return out::json(&serde_json::json!({ "running": how != "was ended", "daemon": found }));
    }
    out::line(&format!("The daemon (pid {}) {how}: {}", found.pid, found.url));
    Ok(0)
}

/// What was written after the first so many bytes.
fn read(log: &Path, from: u64) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

fn logs(dir: &Path, lines: usize) -> Outcome {
    let log = dir.join(LOG);
    if !log.exists() {
        let says = "there is no log: the daemon was never started in the background";
        return Err(Refusal::not_met("no_log", says, "start it there: stewards serve start").into());
    }
    let text = read(&log, 0);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().for_each(|l| out::line(l));
    Ok(0)
}
