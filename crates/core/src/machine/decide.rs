//! One arm an event.

use super::{Answer, Effect, Event, Fact, Fate, Outcome, Subject, View};
use crate::bus;
use crate::ids::EffectId;
use crate::moment::Moment;
use crate::ports::Service;
use crate::projects;
use crate::refusal::Refusal;
use crate::stewards;
use crate::text::one_line;
use crate::threads::{self, EnvironmentState};
use crate::trouble::{Trouble, again};

/// Decides what an event means. Facts and effects, or a refusal that changes no row.
pub fn decide(view: &View<'_>, event: &Event, now: &Moment) -> Result<Outcome, Refusal> {
    let mut outcome = Outcome::new(view.world, now);
    let out = &mut outcome;
    match event {
        Event::RunBegan { settings } => {
            let fact = Fact::RunBegan { run: now.run, settings: settings.clone() };
            out.fact(Subject::Host, fact);
        }
        Event::ProjectAdded { name, repo, remote } => projects::added(out, name, repo, remote)?,
        Event::Switched { project, on } => projects::switched(out, project, *on)?,
        Event::ProjectDeleted { caller, project, yes } => projects::delete(out, caller, project, *yes)?,
        Event::SweepDue { project } => stewards::sweep_due(out, project),
        Event::PollDue { service } => stewards::poll_due(out, *service),
        Event::Rang(ring) => stewards::rang(out, view, ring),
        Event::LookDue { binding } => stewards::look_due(out, binding),
        Event::WakeDue { binding } => stewards::wake_due(out, view, binding),
        Event::LeaveDue { binding } => stewards::leave_due(out, binding),
        Event::MergeItemDue { binding, pull } => stewards::merge_item_due(out, binding, pull),
        Event::ItemMoot { need } => {
            out.fact(Subject::Need(need.clone()), Fact::NeedClosed { how: "no longer needed".into() })
        }
        Event::TurnDue { thread } => threads::begin_turn(out, thread),
        Event::Answered { id, effect, answer, attempts } => answered(out, view, id, effect, answer, *attempts),
        Event::TurnConfirmed { thread, turn, session, can } => {
            threads::turn_confirmed(out, thread, turn, session, *can);
        }
        Event::SteerDue { thread } => threads::begin_steer(out, thread),
        Event::NoticesDue { thread } => threads::notices_due(out, thread),
        Event::ReleaseDue { thread } => threads::released(out, thread),
        Event::CompactionDue { thread } => threads::compact(out, thread)?,
        Event::EnvironmentDue { thread } => threads::environment_due(out, thread),
        Event::MeasureDue => threads::measure_due(out),
        Event::CapItemDue { thread } => stewards::cap_item_due(out, thread),
        Event::AgentAsked { thread, turn, ask } => threads::agent_asked(out, thread, turn, ask.as_ref().clone()),
        Event::AgentUnasked { thread, key } => threads::agent_unasked(out, thread, key),
        Event::Reported { caller, report } => stewards::reported(out, caller, report.clone())?,
        Event::Spawned { caller, ask } => drop(threads::spawn(out, caller, ask)?),
        Event::Told { caller, to, text, mode, revive } => threads::told(out, caller, to, text, *mode, *revive)?,
        Event::Stopped { caller, thread } => threads::stop_asked(out, caller, thread)?,
        Event::AllStopped { caller, on } => threads::stop_all(out, caller, *on)?,
        Event::Archived { caller, thread, yes } => threads::archive(out, caller, thread, *yes)?,
        Event::Unarchived { caller, thread } => threads::unarchive(out, caller, thread)?,
        Event::Deleted { caller, thread, yes } => threads::delete(out, caller, thread, *yes)?,
        Event::Retried { caller, thread } => threads::retry_asked(out, caller, thread)?,
        Event::Compacted { caller, thread } => threads::compact_asked(out, caller, thread)?,
        Event::Forked { caller, thread, title, prompt } => {
            threads::fork(out, caller, thread, title.as_deref(), prompt)?;
        }
        Event::Updated { caller, thread, update } => threads::update(out, caller, thread, update)?,
        Event::MessageDropped { caller, message } => threads::drop_message(out, caller, message)?,
        Event::AskAnswered { caller, ask, choice } => threads::answer_asked(out, caller, ask, choice)?,
        Event::PullOpened { caller, pull, branch } => stewards::pull_opened(out, caller, pull, branch)?,
        Event::Wrote { caller, pull, what } => stewards::wrote(out, caller, pull, what),
        Event::TicketWriteAsked { caller, write } => threads::write_ticket(out, caller, write)?,
        Event::BusSent { caller, draft } => {
            let home = out.world.home(caller, draft.to.first());
            bus::send(out, &view.sent, caller, &home, draft)?;
        }
        Event::Claimed { caller, ask } => {
            let home = out.world.home(caller, None);
            bus::claim(out, caller, &home, ask)?;
        }
        Event::Heartbeat { caller, resource } => {
            let home = out.world.home(caller, None);
            bus::heartbeat(out, caller, &home, resource)?;
        }
        Event::Withdrawn { caller, message } => bus::withdraw(out, caller, *message)?,
        Event::BusRead { caller, messages } => bus::read(out, caller, messages)?,
        Event::BusRetried { caller, message } => bus::retry(out, &view.sent, caller, *message)?,
        Event::ClaimsDue => bus::settle(out),
        Event::ForgetDue => bus::forget(out),
        Event::Released { caller, resource, force } => {
            let home = out.world.home(caller, None);
            bus::release(out, caller, &home, resource, force.as_deref())?;
        }
        Event::MergePressed { caller, pull, fresh } => stewards::merge_pressed(out, caller, pull, fresh)?,
        Event::NeedDone { caller, need } => stewards::need_done(out, caller, need)?,
    }
    Ok(outcome)
}

fn answered(out: &mut Outcome, view: &View<'_>, id: &EffectId, effect: &Effect, answer: &Answer, attempts: u32) {
    match (effect, answer) {
        (Effect::Checkout { spec }, Answer::Checkout(Ok(path))) => {
            out.project(&spec.project, Fact::CheckoutReady { path: path.clone() });
            out.effect(Effect::ReadBb { spec: spec.clone() });
        }
        (Effect::Checkout { spec }, Answer::Checkout(Err(trouble))) => {
            projects::config_unreadable(out, &spec.project, trouble);
            again_or_tell(out, Subject::Project(spec.project.clone()), id, effect, trouble, attempts);
        }
        (Effect::ReadBb { spec }, Answer::Bb(result)) => projects::config_read(out, &spec.project, result),
        (Effect::FindAdoptable { project, .. }, Answer::Adoptable(found)) => stewards::swept(out, project, found),
        (Effect::Look { binding, .. }, Answer::Look(result)) => {
            let current = out.world.bindings.get(binding).is_some_and(|b| b.look.as_ref() == Some(id));
            match result.as_ref() {
                // A look that was given up long ago, or of a binding that is gone.
                _ if !current => {}
                Ok(snapshot) => stewards::looked(out, view, binding, snapshot),
                Err(trouble) => stewards::look_failed(out, binding, trouble),
            }
        }
        (Effect::MakeEnvironment { thread, .. }, Answer::EnvironmentMade(made)) => match made {
            Err(trouble) if again(trouble, attempts, &out.now).is_some() => {
                again_or_tell(out, Subject::Thread(thread.clone()), id, effect, trouble, attempts);
            }
            made => threads::environment_made(out, thread, made.clone()),
        },
        (Effect::RemoveEnvironment { thread, .. }, Answer::EnvironmentRemoved(removed)) => match removed {
            Ok(removed) => threads::environment_removed(out, thread, removed.clone()),
            Err(trouble) => {
                again_or_tell(out, Subject::Thread(thread.clone()), id, effect, trouble, attempts);
                if out.fate == Fate::Done {
                    let says = format!("it could not be removed: {}", one_line(&trouble.to_string()));
                    out.thread(thread, Fact::EnvironmentIs { state: EnvironmentState::Failed { says } });
                }
            }
        },
        (Effect::Measure { .. }, Answer::Measured(sizes)) => threads::measured(out, sizes),
        (Effect::Turn { thread, turn }, Answer::TurnEnded { end, tokens, context, last_words }) => {
            let ended = threads::Ended { end: end.clone(), tokens: *tokens, context: *context, last_words };
            threads::turn_ended(out, thread, turn, ended);
        }
        (Effect::Turn { thread, turn }, Answer::TurnCut) => threads::turn_cut(out, thread, turn),
        // A turn that was just being set up slipped through: it is stopped again.
        (Effect::Stop { thread }, Answer::Stopped)
            if out.world.threads.get(thread).is_some_and(|t| t.turn.is_some()) =>
        {
            out.fate = Fate::Again(out.now.after(500));
        }
        (Effect::Stop { thread }, Answer::Stopped) => threads::stopped(out, thread),
        (Effect::Steer { thread, turn }, Answer::Steered(how)) => threads::steered(out, thread, turn, *how),
        // An agent that is gone asks again, if it still needs the answer.
        (Effect::Answer { .. }, Answer::Replied(_)) | (Effect::Release { .. }, Answer::Released) => {}
        (Effect::Write { binding, write }, Answer::Written(result)) => {
            stewards::merge_answered(out, binding, write, result, attempts);
        }
        (Effect::PollTickets { .. }, Answer::Polled(beats)) => stewards::polled(out, Service::Linear, beats),
        (Effect::PollPulls { .. }, Answer::Polled(beats)) => stewards::polled(out, Service::GitHub, beats),
        (Effect::WriteTicket { thread, write }, Answer::Written(result)) => {
            threads::ticket_written(out, thread, write, result, attempts);
        }
        // An answer of another effect's kind is a bug of the caller; it changes nothing.
        _ => out.fact(
            Subject::Host,
            Fact::EffectFailed { id: id.clone(), key: effect.name(), says: "the answer does not fit".into() },
        ),
    }
}

/// Leaves the effect in the outbox for another try, or gives it up and says so.
fn again_or_tell(
    out: &mut Outcome,
    subject: Subject,
    id: &EffectId,
    effect: &Effect,
    trouble: &Trouble,
    attempts: u32,
) {
    match again(trouble, attempts, &out.now) {
        Some(at) => out.fate = Fate::Again(at),
        None => {
            let fact = Fact::EffectFailed { id: id.clone(), key: effect.name(), says: one_line(&trouble.to_string()) };
            out.fact(subject, fact);
        }
    }
}
