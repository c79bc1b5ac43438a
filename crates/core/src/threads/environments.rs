//! Places of threads: made, made again, removed.

use super::{EnvironmentKind, EnvironmentState, Status, Thread, begin_turn};
use crate::Millis;
use crate::ids::ThreadId;
use crate::machine::{Effect, Fact, Outcome, Subject, World};
use crate::moment::Moment;
use crate::ports::Removed;
use crate::stewards;
use crate::text::one_line;
use crate::trouble::Trouble;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Between two looks at how much disk the worktrees take.
const MEASURE: Millis = 60 * 60_000;

pub fn environment_made(out: &mut Outcome, id: &ThreadId, made: Result<PathBuf, Trouble>) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if thread.environment.state != EnvironmentState::Making {
        return;
    }
    match made {
        Ok(path) => out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Ready { path } }),
        Err(trouble) => {
            let says = one_line(&trouble.to_string());
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Failed { says: says.clone() } });
            stewards::thread_failed(out, id, &says, true);
        }
    }
    begin_turn(out, id);
}

/// The grace of an archived thread's worktree is over, or an idle one was of no use
/// for long.
pub fn environment_due(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let Some(branch) = thread.branch().map(str::to_owned) else { return };
    let Some(spec) = out.world.spec_of(thread) else { return };
    out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Removing });
    out.effect(Effect::RemoveEnvironment { thread: id.clone(), spec, branch });
}

/// Nothing stands or is about to stand in its place: no turn, no process of an agent,
/// no message unless it takes none any more, and no fork of its.
pub(crate) fn of_no_use(world: &World, thread: &Thread, now: &Moment) -> bool {
    let shared = |t: &Thread| match (&t.environment.kind, &thread.environment.state) {
        (EnvironmentKind::Directory { path }, EnvironmentState::Ready { path: own }) => path == own,
        _ => false,
    };
    let at_rest = thread.turn.is_none() && thread.status != Status::Stopping;
    let cold = thread.warm.as_ref().is_none_or(|d| d.run != now.run);
    at_rest
        && (!thread.live() || (thread.queue.is_empty() && cold))
        && !world.threads.values().any(|t| t.live() && shared(t))
}

/// Worktrees that stand.
fn standing(world: &World) -> impl Iterator<Item = (&Thread, &PathBuf)> {
    world.threads.values().filter_map(|t| match (&t.environment.kind, &t.environment.state) {
        (EnvironmentKind::Worktree { .. }, EnvironmentState::Ready { path }) => Some((t, path)),
        _ => None,
    })
}

pub(crate) fn measure_is_due(world: &World, now: &Moment) -> bool {
    world.host.settings.worktrees_max > 0
        && world.host.measure.as_ref().is_none_or(|d| d.due(now))
        && standing(world).next().is_some()
}

pub fn measure_due(out: &mut Outcome) {
    let places = standing(&out.world).map(|(t, path)| (t.id.clone(), path.clone())).collect();
    let next = out.now.after(MEASURE);
    out.fact(Subject::Host, Fact::MeasureBegan { next });
    out.effect(Effect::Measure { places });
}

/// Beyond the limit the worktrees of threads that were not used for longest go.
pub fn measured(out: &mut Outcome, sizes: &BTreeMap<ThreadId, u64>) {
    let max = out.world.host.settings.worktrees_max;
    let mut total: u64 = sizes.values().sum();
    let mut idle: Vec<(Timestamp, ThreadId)> = standing(&out.world)
        .filter(|(t, _)| of_no_use(&out.world, t, &out.now))
        .map(|(t, _)| (t.recent.last().map_or(t.created, |d| d.wall), t.id.clone()))
        .collect();
    idle.sort();
    for (_, id) in idle {
        if max == 0 || total <= max {
            break;
        }
        total = total.saturating_sub(sizes.get(&id).copied().unwrap_or(0));
        environment_due(out, &id);
    }
}

pub fn environment_removed(out: &mut Outcome, id: &ThreadId, removed: Removed) {
    let state = match removed {
        Removed::Gone => EnvironmentState::Removed,
        Removed::MovedAside { path, why } => EnvironmentState::MovedAside { path, why },
    };
    out.thread(id, Fact::EnvironmentIs { state });
    begin_turn(out, id);
}
