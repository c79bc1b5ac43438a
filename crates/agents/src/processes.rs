//! Ownership of processes by a marker in their environment.
//!
//! A process group is not enough: a launcher's child may fork twice or take a
//! session of its own. The environment is inherited through all of that, so the
//! marker finds what a group or a parent no longer does. Descendants are counted
//! in as well, which finds a child whose environment was cleared.

use crate::setup::{MARK, THREAD};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Between the polite signal and the one that cannot be ignored.
const PATIENCE: Duration = Duration::from_secs(2);
/// After this we stop looking; what a KILL has not ended by then sits in the kernel.
const LIMIT: Duration = Duration::from_millis(4_500);
const POLL: Duration = Duration::from_millis(40);
/// Between the two looks that have to find nothing.
const AGAIN: Duration = Duration::from_millis(10);

/// One living process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proc {
    pub pid: i32,
    /// The thread it works for, by its environment.
    pub thread: Option<String>,
    /// When it started, in the kernel's clock ticks since boot. Together with the
    /// pid it names one process for good, since pids are used again.
    pub start: u64,
}

/// A process as the system lists it.
#[derive(Clone, Debug)]
struct Seen {
    pid: i32,
    parent: i32,
    group: i32,
    start: u64,
    mark: Option<String>,
    thread: Option<String>,
}

impl Seen {
    fn proc(&self) -> Proc {
        Proc { pid: self.pid, thread: self.thread.clone(), start: self.start }
    }
}

/// Living processes that carry this mark, the caller's own included.
pub fn marked(mark: &str) -> Vec<Proc> {
    all().iter().filter(|p| p.mark.as_deref() == Some(mark)).map(Seen::proc).collect()
}

/// What one thread runs: processes with the mark and the thread's id, members of
/// the group that `leader` leads, and all their descendants. Never this process
/// or one of its ancestors.
pub fn of_thread(mark: &str, thread: &str, leader: Option<&Proc>) -> Vec<Proc> {
    let seen = all();
    // If another process has the leader's pid by now, its group is not ours.
    let group =
        leader.filter(|l| seen.iter().find(|p| p.pid == l.pid).is_none_or(|p| p.start == l.start)).map(|l| l.pid);
    with_descendants(&seen, |p| {
        (p.mark.as_deref() == Some(mark) && p.thread.as_deref() == Some(thread)) || Some(p.group) == group
    })
}

/// What any thread of this mark runs. Helpers that carry the mark but no thread
/// are not strays.
pub fn of_any_thread(mark: &str) -> Vec<Proc> {
    with_descendants(&all(), |p| p.mark.as_deref() == Some(mark) && p.thread.is_some())
}

fn with_descendants(seen: &[Seen], root: impl Fn(&Seen) -> bool) -> Vec<Proc> {
    let spared = own_line(seen);
    let mut taken: BTreeSet<i32> = seen.iter().filter(|p| root(p) && !spared.contains(&p.pid)).map(|p| p.pid).collect();
    loop {
        let more: Vec<i32> = seen
            .iter()
            .filter(|p| taken.contains(&p.parent) && !taken.contains(&p.pid) && !spared.contains(&p.pid))
            .map(|p| p.pid)
            .collect();
        if more.is_empty() {
            break;
        }
        taken.extend(more);
    }
    seen.iter().filter(|p| taken.contains(&p.pid)).map(Seen::proc).collect()
}

/// This process and its ancestors.
fn own_line(seen: &[Seen]) -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut pid = i32::try_from(std::process::id()).unwrap_or(0);
    while pid > 0 && line.insert(pid) {
        pid = seen.iter().find(|p| p.pid == pid).map_or(0, |p| p.parent);
    }
    line
}

/// Ends every process that `find` answers: TERM at once, KILL after two seconds,
/// and asks again until none is left, since what is being ended may still fork.
/// Gives up after 4.5 seconds. Answers how many different processes there were.
pub async fn end<F>(find: F) -> usize
where
    F: Fn() -> Vec<Proc> + Clone + Send + 'static,
{
    let began = Instant::now();
    let mut told: BTreeSet<(i32, u64)> = BTreeSet::new();
    let mut quiet = false;
    loop {
        let look = find.clone();
        // Reading all of /proc takes milliseconds, and may take longer on a busy machine.
        let left = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        let waited = began.elapsed();
        if left.is_empty() {
            // One that is just becoming another program has no environment for a moment,
            // and would be missed.
            if std::mem::replace(&mut quiet, true) {
                return told.len();
            }
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        quiet = false;
        if waited > LIMIT {
            tracing::warn!(left = left.len(), "processes did not end");
            return told.len();
        }
        for one in &left {
            let new = told.insert((one.pid, one.start));
            if waited >= PATIENCE {
                signal(one, Signal::KILL);
            } else if new {
                signal(one, Signal::TERM);
                // A stopped process takes a TERM only when it goes on.
                signal(one, Signal::CONT);
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Signals a process, if it is still the one that was seen.
fn signal(one: &Proc, what: Signal) {
    if start_of(one.pid) != Some(one.start) {
        return;
    }
    if let Some(pid) = Pid::from_raw(one.pid) {
        // It may be gone between the look and the signal; that is what we want.
        let _ = rustix::process::kill_process(pid, what);
    }
}

/// Kills a group by its leader's pid. Only for a child that was not waited for
/// yet: until then its pid cannot be another's.
pub(crate) fn kill_group(pid: i32) {
    signal_group(pid, Signal::KILL);
}

/// The same, politely.
pub(crate) fn term_group(pid: i32) {
    signal_group(pid, Signal::TERM);
}

fn signal_group(pid: i32, what: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|p| !p.is_init()) {
        let _ = rustix::process::kill_process_group(pid, what);
    }
}

/// The living process with this pid.
pub fn find(pid: i32) -> Option<Proc> {
    start_of(pid).map(|start| Proc { pid, thread: None, start })
}

#[cfg(target_os = "linux")]
use linux::{all, start_of};

#[cfg(target_os = "linux")]
mod linux {
    use super::{MARK, Seen, THREAD};

    /// Every process that this user may look at; zombies are left out, since
    /// nothing runs in them any more.
    pub(super) fn all() -> Vec<Seen> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok()).filter_map(one).collect()
    }

    pub(super) fn start_of(pid: i32) -> Option<u64> {
        stat(pid).map(|s| s.start)
    }

    struct Stat {
        parent: i32,
        group: i32,
        start: u64,
    }

    fn stat(pid: i32) -> Option<Stat> {
        let text = String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
        // The name in brackets may itself hold spaces and brackets.
        let rest = text.get(text.rfind(')')? + 1..)?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    fn one(pid: i32) -> Option<Seen> {
        let stat = stat(pid)?;
        let mut seen =
            Seen { pid, parent: stat.parent, group: stat.group, start: stat.start, mark: None, thread: None };
        // Another user's environment cannot be read: then it is not ours.
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        for pair in environ.split(|b| *b == 0) {
            let Some(at) = pair.iter().position(|b| *b == b'=') else { continue };
            let value = || Some(String::from_utf8_lossy(&pair[at + 1..]).into_owned());
            match &pair[..at] {
                name if name == MARK.as_bytes() => seen.mark = value(),
                name if name == THREAD.as_bytes() => seen.thread = value(),
                _ => {}
            }
        }
        Some(seen)
    }
}

// Elsewhere a process's environment cannot be read without unsafe code, so that
// nothing is found by its marker there: the group of a child is still ended by
// its own handle.
#[cfg(not(target_os = "linux"))]
fn all() -> Vec<Seen> {
    let _ = (MARK, THREAD);
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn start_of(_pid: i32) -> Option<u64> {
    None
}
