//! What the agents of a simulation do, a step at a time. They act as the
//! scripted agent does: each step first looks whether it is done already.

use crate::sim::Sim;
use stewards_core::bus::{ClaimAsk, Draft};
use stewards_core::entity::PullKey;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::machine::{Caller, Event};
use stewards_core::ports::TurnEnd;
use stewards_core::snapshot::PullState;
use stewards_core::stewards::{Actor, Report};
use stewards_core::threads::{Can, Role, SpawnAsk, Steering, Thread};

/// What follows a step.
pub(crate) enum Next {
    Step,
    End(TurnEnd),
}

pub(crate) fn step(sim: &mut Sim, id: &ThreadId, turn: &TurnId, n: usize) -> Next {
    let Some(thread) = sim.world().threads.get(id).cloned() else { return Next::End(TurnEnd::Cancelled) };
    let session = format!("session-of-{id}");
    if n == 0 {
        let can = Can { steer: Steering::Inject, compact: true, fork: true };
        sim.act(Event::TurnConfirmed { thread: id.clone(), turn: turn.clone(), session, can });
        return Next::Step;
    }
    match thread.role {
        Role::Steward if sim.mute_stewards => Next::End(TurnEnd::Finished),
        Role::Steward => steward(sim, &thread, n),
        Role::Worker => worker(sim, &thread, n),
        Role::Reviewer => reviewer(sim, &thread, n),
        Role::ProjectSteward => Next::End(TurnEnd::Finished),
        Role::Plain if n < 6 => Next::Step,
        Role::Plain => Next::End(TurnEnd::Finished),
    }
}

fn steward(sim: &mut Sim, me: &Thread, n: usize) -> Next {
    let Some(binding) = me.binding.as_ref().and_then(|b| sim.world().bindings.get(b)).cloned() else {
        return Next::End(TurnEnd::Finished);
    };
    let caller = Caller::Thread(me.id.clone());
    let report = |ready: Vec<serde_json::Value>, waiting: Option<&str>| Report {
        phase: binding.state.clone(),
        summary: "As it stands.".into(),
        next_action: "wait".into(),
        actor: Actor::Other,
        ready,
        waiting_on: waiting.map(str::to_owned),
        no_more_pulls: false,
        follow_through: None,
    };
    match n {
        1 if !binding.leave => {
            sim.act(Event::Reported { caller, report: report(vec![1.into(), 2.into()], None) });
            Next::Step
        }
        2 => {
            let busy = sim.world().workers_in_flight(&binding.id).next().is_some();
            if binding.leave
                && !busy
                && binding.pulls.is_empty()
                && binding.standing == stewards_core::stewards::Standing::Open
            {
                let (title, prompt) = ("Say hello".to_owned(), "Replace Helo.".to_owned());
                let event = Event::Spawned { caller, ask: Box::new(SpawnAsk::of(Role::Worker, &title, &prompt)) };
                sim.spawn(event);
            }
            Next::Step
        }
        3 => {
            sim.act(Event::Reported { caller, report: report(vec![], Some("the worker")) });
            Next::End(TurnEnd::Finished)
        }
        _ => Next::Step,
    }
}

fn own_pull(sim: &Sim, me: &Thread) -> Option<PullKey> {
    let branch = me.branch()?;
    sim.outside.pulls.values().find(|p| p.head_branch == branch).map(|p| p.key.clone())
}

fn worker(sim: &mut Sim, me: &Thread, n: usize) -> Next {
    let caller = Caller::Thread(me.id.clone());
    let Some(branch) = me.branch().map(str::to_owned) else { return Next::End(TurnEnd::Finished) };
    let pull = own_pull(sim, me);
    match (n, pull) {
        // Opening the pull and telling of it are two steps: a crash may fall between.
        (1, None) => {
            sim.work_opens_pull(me, &branch);
            sim.says_on_its_ticket(me, "I begin.");
            Next::Step
        }
        (2, Some(pull)) => {
            sim.act(Event::PullOpened { caller, pull, branch });
            Next::Step
        }
        (3, Some(pull)) => {
            let reviewer =
                sim.world().threads.values().any(|t| t.role == Role::Reviewer && t.parent.as_ref() == Some(&me.id));
            if !reviewer {
                let (title, prompt) = ("Review".to_owned(), format!("Review {pull}."));
                let event = Event::Spawned { caller, ask: Box::new(SpawnAsk::of(Role::Reviewer, &title, &prompt)) };
                sim.spawn(event);
                return Next::End(TurnEnd::Finished);
            }
            Next::Step
        }
        (4, Some(pull)) => {
            if !sim.bus_has("report", None, Some(&me.id)) {
                return Next::End(TurnEnd::Finished);
            }
            let open = sim.outside.pulls.get(&pull).is_some_and(|p| p.state == PullState::Open);
            if open {
                let ask = ClaimAsk::of(&format!("pr:{}", pull.number), "mine");
                sim.claims(Event::Claimed { caller, ask });
            }
            Next::Step
        }
        (5, Some(pull)) => {
            let steward = me.parent.clone();
            if let Some(to) = steward.filter(|_| !sim.bus_has("done", Some(&me.id), None)) {
                let fields =
                    vec![("ref".into(), format!("pr:{}", pull.number)), ("evidence".into(), "tests pass".into())];
                sim.act(Event::BusSent {
                    caller,
                    draft: Draft { kind: "done".into(), to: vec![to], fields, ..Draft::default() },
                });
            }
            Next::End(TurnEnd::Finished)
        }
        (1..=5, _) => Next::Step,
        _ => Next::End(TurnEnd::Finished),
    }
}

fn reviewer(sim: &mut Sim, me: &Thread, n: usize) -> Next {
    let Some(worker) = me.parent.as_ref().and_then(|p| sim.world().threads.get(p)).cloned() else {
        return Next::End(TurnEnd::Finished);
    };
    let Some(pull) = own_pull(sim, &worker) else { return Next::End(TurnEnd::Finished) };
    match n {
        1 => {
            if !sim.outside.reviewed(&pull) {
                sim.work_reviews(me, &pull);
            }
            Next::Step
        }
        _ => {
            if !sim.bus_has("report", Some(&me.id), None) {
                let fields = vec![
                    ("ref".into(), format!("pr:{}", pull.number)),
                    ("status".into(), "done".into()),
                    ("next".into(), "approved".into()),
                ];
                let caller = Caller::Thread(me.id.clone());
                let draft = Draft { kind: "report".into(), to: vec![worker.id.clone()], fields, ..Draft::default() };
                sim.act(Event::BusSent { caller, draft });
            }
            Next::End(TurnEnd::Finished)
        }
    }
}
