//! Sees all rows and only sends events.

use super::{Event, Subject, World};
use crate::moment::{Deadline, Moment};
use crate::snapshot::PullState;
use crate::stewards::{Binding, NeedKind, Standing, gate};
use crate::threads::{EnvironmentState, can_begin};

/// Everything that is due now. Each event changes the state that made it due,
/// so that planning again and again comes to an end.
pub fn plan(world: &World, now: &Moment) -> Vec<(Subject, Event)> {
    let mut all = Vec::new();
    for project in world.projects.values().filter(|p| p.on && !p.sweeping) {
        let due = project.next_sweep.as_ref().is_none_or(|d| d.due(now));
        if due {
            all.push((Subject::Project(project.id.clone()), Event::SweepDue { project: project.id.clone() }));
        }
    }
    for binding in world.bindings.values() {
        let subject = || Subject::Binding(binding.id.clone());
        if look_is_due(world, binding, now) {
            all.push((subject(), Event::LookDue { binding: binding.id.clone() }));
        }
        if crate::stewards::may_wake(world, binding, now) {
            all.push((subject(), Event::WakeDue { binding: binding.id.clone() }));
        }
        if leave_is_due(world, binding) {
            all.push((subject(), Event::LeaveDue { binding: binding.id.clone() }));
        }
        for pull in merge_items_due(world, binding) {
            all.push((subject(), Event::MergeItemDue { binding: binding.id.clone(), pull }));
        }
    }
    for need in world.needs.values().filter(|n| n.closed.is_none()) {
        if moot(world, need) {
            all.push((Subject::Need(need.id.clone()), Event::ItemMoot { need: need.id.clone() }));
        }
    }
    for thread in world.threads.values().filter(|t| can_begin(t, now)) {
        let ready = match &thread.environment.state {
            EnvironmentState::Ready { .. } => true,
            EnvironmentState::Unmade => {
                thread.branch().is_some() || world.projects.get(&thread.project).is_some_and(|p| p.checkout.is_some())
            }
            _ => false,
        };
        if ready {
            all.push((Subject::Thread(thread.id.clone()), Event::TurnDue { thread: thread.id.clone() }));
        }
    }
    all
}

/// When `plan` may next find something by the passing of time alone.
pub fn next_deadline(world: &World, now: &Moment) -> Option<Deadline> {
    let sweeps = world.projects.values().filter(|p| p.on && !p.sweeping).filter_map(|p| p.next_sweep.as_ref());
    let windows =
        world.bindings.values().filter(|b| b.look.is_none()).filter_map(|b| b.window.as_ref().map(|w| &w.closes));
    let again = world.bindings.values().filter(|b| b.look.is_none()).filter_map(|b| b.look_again.as_ref());
    let wakes = world.bindings.values().filter(|b| b.due()).filter_map(|b| b.wake_by.as_ref());
    let rests = world.threads.values().filter_map(|t| t.rest.as_ref());
    sweeps
        .chain(windows)
        .chain(again)
        .chain(wakes)
        .chain(rests)
        .filter(|d| !d.due(now))
        .min_by_key(|d| d.left(now))
        .cloned()
}

/// A ring that came during a look or a turn is looked at afterwards.
fn look_is_due(world: &World, binding: &Binding, now: &Moment) -> bool {
    if binding.look.is_some() || binding.standing == Standing::Ended {
        return false;
    }
    let closed = binding.window.as_ref().is_some_and(|w| w.closes.due(now));
    let again = binding.look_again.as_ref().is_some_and(|d| d.due(now));
    let steward = binding.steward.as_ref().and_then(|s| world.threads.get(s));
    let at_work = binding.live() && steward.is_some_and(|t| t.status.busy());
    (closed || again) && !at_work && binding.merging.is_none()
}

/// Leave to start workers depends on neighbours, so only here is it granted:
/// two gates in one minute cannot race.
fn leave_is_due(world: &World, binding: &Binding) -> bool {
    if binding.standing != Standing::Open || binding.leave {
        return false;
    }
    let Some(project) = world.projects.get(&binding.project).filter(|p| p.on) else { return false };
    let Some(playbook) = project.config.ticket_playbook() else { return false };
    binding.report.is_some() && playbook.ready.checklist.iter().all(|item| binding.ready.contains(item))
}

fn merge_items_due(world: &World, binding: &Binding) -> Vec<crate::entity::PullKey> {
    let Some(project) = world.projects.get(&binding.project).filter(|p| p.on) else { return Vec::new() };
    let person = project.config.ticket_playbook().is_some_and(|p| !p.allows("merge"));
    if binding.standing != Standing::Open || !person || binding.merging.is_some() {
        return Vec::new();
    }
    let filed = |key| world.open_needs(&binding.id).any(|n| matches!(&n.kind, NeedKind::Merge { pull } if pull == key));
    binding
        .pulls
        .iter()
        .filter(|p| p.state == PullState::Open && !filed(&p.key) && gate(world, binding, p).met)
        .map(|p| p.key.clone())
        .collect()
}

fn moot(world: &World, need: &crate::stewards::Need) -> bool {
    let Some(binding) = need.binding.as_ref().and_then(|b| world.bindings.get(b)) else { return true };
    if binding.ended.is_some() && binding.standing == Standing::Ended {
        return true;
    }
    match &need.kind {
        NeedKind::Merge { pull } => {
            binding.merging.is_none() && binding.pull(pull).is_none_or(|p| p.state != PullState::Open)
        }
        // It came through after all, or a person had it try again.
        NeedKind::Failed { thread } => world
            .threads
            .get(thread)
            .is_none_or(|t| t.failures == 0 && !matches!(t.environment.state, EnvironmentState::Failed { .. })),
    }
}
