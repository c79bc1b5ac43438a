//! How an effort ends, and what a thread's end means for its effort.

use super::binding::{Binding, EndReason, Need, NeedKind, News, Standing};
use super::rings::ring;
use super::wake::{learn, learn_one};
use crate::ids::{BindingId, ProjectId, ThreadId};
use crate::machine::{Fact, Outcome, Subject};
use crate::snapshot::PullState;
use crate::text::{cut, one_line};
use crate::threads::{Environment, EnvironmentKind, ModelName, Role, Update, put_away};

/// The entity needs no manager any more. A terminal state gets a wrap-up turn
/// with its workers still there; every other ending stops them first and gets
/// one stop turn.
pub fn begin(out: &mut Outcome, id: &BindingId, reason: EndReason) {
    let Some(binding) = out.world.bindings.get(id).filter(|b| b.standing == Standing::Open) else { return };
    let named = match &reason {
        EndReason::Terminal { state } => {
            binding.report.as_ref().is_some_and(|r| r.phase.as_deref().is_some_and(|p| p.eq_ignore_ascii_case(state)))
        }
        _ => false,
    };
    let words = reason.words();
    let terminal = matches!(reason, EndReason::Terminal { .. });
    out.binding(id, Fact::EndingBegan { reason });
    if terminal {
        if named {
            // The steward has said so itself: there is nothing to wrap up.
            end_if_due(out, id);
        } else {
            learn_one(out, id, "phase", true, format!("{words}: wrap up, then this effort ends"));
        }
        return;
    }
    let workers: Vec<ThreadId> = out.world.workers_in_flight(id).map(|t| t.id.clone()).collect();
    for worker in workers {
        for thread in out.world.owned_by(&worker) {
            put_away(out, &thread);
        }
    }
    learn_one(out, id, "stop", true, format!("{words}: this effort ends with this turn; its workers were stopped"));
}

/// A steward's turn ended by itself: what its wake carried was told.
pub fn steward_turn_ended(out: &mut Outcome, id: &BindingId, reported: bool) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let woken = !binding.carried.is_empty();
    if woken {
        out.binding(id, Fact::WakeDone);
    }
    let Some(binding) = out.world.bindings.get(id) else { return };
    let waits = binding.report.as_ref().is_some_and(|r| r.actor == super::Actor::Other);
    if woken && !reported && !binding.asked && binding.live() {
        learn_one(out, id, "report", true, "your last turn ended without steward_report: end this one with it".into());
        return;
    }
    if waits
        && out.world.open_needs(id).next().is_none()
        && let Some(steward) = out.world.bindings.get(id).and_then(|b| b.steward.clone())
    {
        out.thread(&steward, Fact::Updated { update: Update { read: Some(true), ..Update::default() } });
    }
    end_if_due(out, id);
}

/// The person stopped the steward's turn: it is not woken again for what that
/// turn was about, which is a note now.
pub fn steward_stopped(out: &mut Outcome, id: &BindingId) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let notes: Vec<_> = binding.carried.iter().cloned().map(|n| News { wakes: false, ..n }).collect();
    if !notes.is_empty() {
        out.binding(id, Fact::WakeDone);
        learn(out, id, notes);
    }
    end_if_due(out, id);
}

/// The last turn is over and nothing is due: the effort ends, its threads are
/// stopped and archived, and what they hold is released.
pub fn end_if_due(out: &mut Outcome, id: &BindingId) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let Standing::Ending { reason } = &binding.standing else { return };
    // What was accepted for its steward is still told.
    let steward = binding.steward.as_ref().and_then(|s| out.world.threads.get(s));
    let busy = steward.is_some_and(|t| t.status.busy() || !t.queue.is_empty());
    let follows = binding.report.as_ref().is_some_and(|r| r.follow_through.is_some());
    let keeps_on = matches!(reason, EndReason::Terminal { .. }) && follows;
    if busy || binding.due() || !binding.carried.is_empty() || binding.merging.is_some() || keeps_on {
        return;
    }
    let (reason, steward) = (reason.clone(), binding.steward.clone());
    let needs: Vec<_> = out.world.open_needs(id).map(|n| n.id.clone()).collect();
    for need in needs {
        out.fact(Subject::Need(need), Fact::NeedClosed { how: "the effort ended".into() });
    }
    out.binding(id, Fact::Ended { reason });
    if let Some(steward) = steward {
        // Those that are owned first, so that nobody is told of the end of a parent.
        for thread in out.world.owned_by(&steward).into_iter().rev() {
            put_away(out, &thread);
        }
    }
}

/// A worker's turn ended. Its steward hears of it by the bus; only where the
/// worker left nothing to go on with (no pull, no reviewer, no message waiting)
/// would nobody ever come back to it.
pub fn worker_turn_ended(out: &mut Outcome, id: &BindingId, worker: &ThreadId) {
    let Some(binding) = out.world.bindings.get(id).filter(|b| b.live()) else { return };
    let pull = binding.pulls.iter().any(|p| p.by.as_ref() == Some(worker) && p.state != PullState::Closed);
    let reviewer = out.world.threads.values().any(|t| t.parent.as_ref() == Some(worker) && t.status.busy());
    let thread = out.world.threads.get(worker);
    let waiting = thread.is_some_and(|t| !t.queue.is_empty());
    let said = thread.map(|t| one_line(&cut(&t.last_words, 200))).unwrap_or_default();
    let quiet = pull || reviewer || waiting;
    learn_one(out, id, "worker", !quiet, format!("worker {worker} ended a turn: {said}"));
    // Whether its pull may be merged depends on its being at rest.
    ring(out, id, "worker at rest");
}

/// A worker's turn was stopped by hand: it goes on only when it is told to.
pub fn worker_stopped(out: &mut Outcome, id: &BindingId, worker: &ThreadId) {
    if out.world.bindings.get(id).is_some_and(|b| b.live()) {
        let line = format!("worker {worker} was stopped by hand; it goes on only when it is told to");
        learn_one(out, id, "worker", true, line);
    }
}

/// A thread failed. Once it is not tried again by itself, the person is told.
pub fn thread_failed(out: &mut Outcome, thread: &ThreadId, says: &str, for_good: bool) {
    let Some(row) = out.world.threads.get(thread) else { return };
    let says = cut(&one_line(says), 300);
    let (role, project, binding) = (row.role.word(), row.project.clone(), row.binding.clone());
    if !for_good {
        if let Some(id) = binding {
            learn_one(out, &id, "worker", false, format!("{role} {thread} failed a turn and goes on: {says}"));
        }
        return;
    }
    let same = |n: &&Need| n.closed.is_none() && matches!(&n.kind, NeedKind::Failed { thread: t } if t == thread);
    if !out.world.needs.values().any(|n| same(&n)) {
        let need = out.mint_need();
        let text = format!("{role} {thread} failed and is not tried again by itself: {says}");
        let kind = NeedKind::Failed { thread: thread.clone() };
        out.fact(Subject::Need(need), Fact::NeedFiled { project, binding: binding.clone(), kind, text });
    }
    let Some(id) = binding else { return };
    let steward = out.world.bindings.get(&id).and_then(|b| b.steward.clone());
    if steward.as_ref() != Some(thread) {
        learn_one(out, &id, "worker", true, format!("{role} {thread} failed for good: {says}"));
    }
}

/// A thread has messages and had its turns of this hour: the person may let it go on.
pub fn cap_item_due(out: &mut Outcome, thread: &ThreadId) {
    let Some(row) = out.world.threads.get(thread) else { return };
    let cap = out.world.host.settings.turns_per_hour;
    let text = format!("{} {thread} has had {cap} turns within an hour: what is sent to it waits", row.role.word());
    let (project, binding) = (row.project.clone(), row.binding.clone());
    let kind = NeedKind::Capped { thread: thread.clone() };
    let need = out.mint_need();
    out.fact(Subject::Need(need), Fact::NeedFiled { project, binding, kind, text });
}

/// A person deleted a thread. An effort without its steward is let go.
pub fn thread_deleted(out: &mut Outcome, thread: &ThreadId) {
    let of = |b: &&Binding| b.live() && b.steward.as_ref() == Some(thread);
    let Some(id) = out.world.bindings.values().find(of).map(|b| b.id.clone()) else { return };
    let needs: Vec<_> = out.world.open_needs(&id).map(|n| n.id.clone()).collect();
    for need in needs {
        out.fact(Subject::Need(need), Fact::NeedClosed { how: "the effort was let go".into() });
    }
    out.binding(&id, Fact::Ended { reason: EndReason::Detached });
}

/// Turns stewarding on here: a sweep is due.
pub fn switch_on(out: &mut Outcome, id: &ProjectId) {
    out.project(id, Fact::SwitchedOn);
    project_steward(out, id);
}

/// The project steward exists while the project is on; its model is known once
/// the configuration was read.
pub fn project_steward(out: &mut Outcome, id: &ProjectId) {
    let Some(project) = out.world.projects.get(id).filter(|p| p.on) else { return };
    let Some(file) = &project.config.project else { return };
    if let Some(steward) = project.steward.clone() {
        if out.world.threads.get(&steward).is_some_and(|t| t.archived.is_some()) {
            out.thread(&steward, Fact::Unarchived);
        }
        return;
    }
    let playbook = project.config.ticket_playbook();
    let model = file.steward_model.clone().or_else(|| playbook.and_then(|p| p.models.steward.clone()));
    let usual = ModelName { provider: "claude-code".into(), model: String::new(), level: None };
    let title = format!("{} project steward", project.name);
    let thread = out.mint_thread();
    out.thread(
        &thread,
        Fact::ThreadCreated {
            project: id.clone(),
            title,
            role: Role::ProjectSteward,
            parent: None,
            owner: None,
            binding: None,
            model: model.unwrap_or(usual),
            environment: Environment::unmade(EnvironmentKind::Checkout),
            permission: out.world.host.settings.permission,
            notify_parent: false,
            hidden: false,
            forks: None,
        },
    );
    out.project(id, Fact::ProjectStewardNamed { thread });
}

/// Turns it off: one stop turn a binding, workers stopped, nothing adopted,
/// records kept.
pub fn switch_off(out: &mut Outcome, id: &ProjectId) {
    out.project(id, Fact::SwitchedOff);
    let live: Vec<BindingId> = out
        .world
        .bindings
        .values()
        .filter(|b| b.project == *id && b.standing == Standing::Open)
        .map(|b| b.id.clone())
        .collect();
    for binding in live {
        begin(out, &binding, EndReason::SwitchedOff);
    }
    if let Some(steward) = out.world.projects.get(id).and_then(|p| p.steward.clone()) {
        put_away(out, &steward);
    }
}
