//! Sees all rows and only sends events.

use super::{Event, Subject, World};
use crate::bus::{forgetting_deadline, forgetting_is_due, settling_deadlines, settling_is_due};
use crate::moment::{Deadline, Moment};
use crate::snapshot::PullState;
use crate::stewards::{Binding, NeedKind, Standing, full_look_is_due, gate, poll_deadlines, polls_due};
use crate::threads::{
    EnvironmentKind, EnvironmentState, Status, Thread, can_begin, can_steer, capped, compaction_is_due, hindrance,
    measure_is_due, next_change, of_no_use,
};

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
    for service in polls_due(world, now) {
        all.push((Subject::Host, Event::PollDue { service }));
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
        if moot(world, need, now) {
            all.push((Subject::Need(need.id.clone()), Event::ItemMoot { need: need.id.clone() }));
        }
    }
    if settling_is_due(world, now) {
        all.push((Subject::Claims, Event::ClaimsDue));
    }
    if forgetting_is_due(world, now) {
        all.push((Subject::Claims, Event::ForgetDue));
    }
    if measure_is_due(world, now) {
        all.push((Subject::Host, Event::MeasureDue));
    }
    for thread in world.threads.values() {
        of_thread(world, thread, now, &mut all);
    }
    all
}

fn of_thread(world: &World, thread: &Thread, now: &Moment, all: &mut Vec<(Subject, Event)>) {
    let id = || thread.id.clone();
    let mut add = |event| all.push((Subject::Thread(thread.id.clone()), event));
    if can_begin(world, thread, now) && has_place(world, thread) {
        add(Event::TurnDue { thread: id() });
    }
    if can_steer(thread) {
        add(Event::SteerDue { thread: id() });
    }
    if thread.notices_by.as_ref().is_some_and(|d| d.due(now)) {
        add(Event::NoticesDue { thread: id() });
    }
    let at_rest = thread.turn.is_none() && thread.status != Status::Stopping;
    // Its process ended with the run in which it ran.
    if at_rest && thread.warm.as_ref().is_some_and(|d| d.run == now.run && d.passed(now)) {
        add(Event::ReleaseDue { thread: id() });
    }
    if thread.remove_by.as_ref().is_some_and(|d| d.passed(now)) && of_no_use(world, thread, now) {
        add(Event::EnvironmentDue { thread: id() });
    }
    if compaction_is_due(world, thread) && hindrance(world, thread, now).is_none() {
        add(Event::CompactionDue { thread: id() });
    }
    let item = |n: &&crate::stewards::Need| {
        n.closed.is_none() && matches!(&n.kind, NeedKind::Capped { thread: t } if *t == thread.id)
    };
    if !thread.queue.is_empty()
        && thread.live()
        && capped(world, thread, now)
        && !world.needs.values().any(|n| item(&n))
    {
        add(Event::CapItemDue { thread: id() });
    }
}

/// It has a place to work in, or one can be made now.
fn has_place(world: &World, thread: &Thread) -> bool {
    match &thread.environment.state {
        EnvironmentState::Ready { .. } => true,
        EnvironmentState::Unmade => {
            thread.environment.kind != EnvironmentKind::Checkout
                || world.projects.get(&thread.project).is_some_and(|p| p.checkout.is_some())
        }
        EnvironmentState::Removed | EnvironmentState::MovedAside { .. } => true,
        EnvironmentState::Making | EnvironmentState::Failed { .. } | EnvironmentState::Removing => false,
    }
}

/// When `plan` may next find something by the passing of time alone.
pub fn next_deadline(world: &World, now: &Moment) -> Option<Deadline> {
    let sweeps = world.projects.values().filter(|p| p.on && !p.sweeping).filter_map(|p| p.next_sweep.as_ref());
    let windows =
        world.bindings.values().filter(|b| b.look.is_none()).filter_map(|b| b.window.as_ref().map(|w| &w.closes));
    let again = world.bindings.values().filter(|b| b.look.is_none()).filter_map(|b| b.look_again.as_ref());
    let wakes = world.bindings.values().filter(|b| b.due()).filter_map(|b| b.wake_by.as_ref());
    let rests = world.threads.values().flat_map(|t| {
        let warm = t.warm.as_ref().filter(|d| d.run == now.run);
        next_change(world, t).chain(&t.notices_by).chain(warm).chain(&t.remove_by)
    });
    let full = world.bindings.values().filter(|b| b.live()).filter_map(|b| b.full_look.as_ref());
    let measure = world.host.measure.as_ref().filter(|_| world.host.settings.worktrees_max > 0);
    sweeps
        .chain(measure)
        .chain(poll_deadlines(world))
        .chain(full)
        .chain(forgetting_deadline(world))
        .chain(windows)
        .chain(again)
        .chain(wakes)
        .chain(rests)
        .cloned()
        .chain(settling_deadlines(world))
        .filter(|d| !d.passed(now))
        .min_by_key(|d| d.left(now))
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
    (closed || again || full_look_is_due(binding, now)) && !at_work && binding.merging.is_none()
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

fn moot(world: &World, need: &crate::stewards::Need, now: &Moment) -> bool {
    let binding = need.binding.as_ref().map(|b| world.bindings.get(b));
    if binding.is_some_and(|b| b.is_none_or(|b| b.ended.is_some() && b.standing == Standing::Ended)) {
        return true;
    }
    match &need.kind {
        NeedKind::Merge { pull } => binding.flatten().is_none_or(|binding| {
            binding.merging.is_none() && binding.pull(pull).is_none_or(|p| p.state != PullState::Open)
        }),
        NeedKind::Capped { thread } => {
            world.threads.get(thread).is_none_or(|t| !t.live() || t.queue.is_empty() || !capped(world, t, now))
        }
        // It came through after all, or a person had it try again.
        NeedKind::Failed { thread } => world.threads.get(thread).is_none_or(|t| {
            !t.live() || t.failures == 0 && !matches!(t.environment.state, EnvironmentState::Failed { .. })
        }),
    }
}
