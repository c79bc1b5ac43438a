//! Places of threads: made, made again, removed.

use super::{EnvironmentState, begin_turn};
use crate::ids::ThreadId;
use crate::machine::{Effect, Fact, Outcome};
use crate::ports::Removed;
use crate::stewards;
use crate::text::one_line;
use crate::trouble::Trouble;
use std::path::PathBuf;

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
    let Some(spec) = out.world.projects.get(&thread.project).map(|p| p.spec()) else { return };
    out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Removing });
    out.effect(Effect::RemoveEnvironment { thread: id.clone(), spec, branch });
}

pub fn environment_removed(out: &mut Outcome, id: &ThreadId, removed: Removed) {
    let state = match removed {
        Removed::Gone => EnvironmentState::Removed,
        Removed::MovedAside { path, why } => EnvironmentState::MovedAside { path, why },
    };
    out.thread(id, Fact::EnvironmentIs { state });
    begin_turn(out, id);
}
