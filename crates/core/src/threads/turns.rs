//! How turns end, and what follows.

use super::deliver::{at_its_place, deliver_again, start_turn};
use super::lineage::owns;
use super::{
    EnvironmentState, FailedTurn, Parcel, Queued, Role, SendMode, Sender, Status, Thread, Tokens, begin_steer,
    begin_turn, deliver, limit_in, notify, zone,
};
use crate::ids::{MessageId, ThreadId, TurnId};
use crate::machine::{Caller, Fact, Outcome, Subject, World};
use crate::ports::{TurnEnd, TurnJob};
use crate::refusal::Refusal;
use crate::stewards;
use crate::text::{cut, one_line};
use crate::threads::{Can, ContextUse, Limit};

/// A turn that failed so often in a row is not tried again by itself.
pub const MAX_FAILURES: u32 = 3;

/// The agent's first word: it has what it was given. What waits to go in, goes in.
pub fn turn_confirmed(out: &mut Outcome, id: &ThreadId, turn: &TurnId, session: &str, can: Can) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if thread.turn.as_ref().is_some_and(|t| t.id == *turn && !t.confirmed) {
        out.thread(id, Fact::TurnConfirmed { turn: turn.clone(), session: session.to_owned(), can });
        begin_steer(out, id);
    }
}

/// What the agent's protocol said at the turn's end.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    pub end: TurnEnd,
    pub tokens: Tokens,
    pub context: Option<ContextUse>,
    pub last_words: &'a str,
}

/// The agent's protocol said that the turn is over.
pub fn turn_ended(out: &mut Outcome, id: &ThreadId, turn: &TurnId, ended: Ended<'_>) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let Some(live) = thread.turn.as_ref().filter(|t| &t.id == turn).cloned() else { return };
    let (role, binding, archived) = (thread.role, thread.binding.clone(), thread.archived.is_some());
    let provider = thread.model.provider.clone();
    let end = limited(out, ended.end);
    super::ask::withdraw(out, id, "its turn ended");
    let fact = Fact::TurnEnded {
        turn: turn.clone(),
        end: end.clone(),
        tokens: ended.tokens,
        context: ended.context,
        last_words: cut(ended.last_words, 4_000),
    };
    out.thread(id, fact);
    if let TurnEnd::Limited { says, until } = &end {
        let wait = until.map_or(0, |t| t.as_millisecond() - out.now.wall.as_millisecond());
        let limit = Limit { until: out.now.after(wait.max(60_000)), says: cut(&one_line(says), 200) };
        out.fact(Subject::Host, Fact::ProviderLimited { provider, limit });
    }
    if archived {
        return;
    }
    if !live.compacts {
        follow(out, id, role, binding, &end, &live);
    }
    begin_turn(out, id);
}

/// A failure that is a limit of the provider is told apart by its words.
fn limited(out: &Outcome, end: TurnEnd) -> TurnEnd {
    let TurnEnd::Failed { says } = &end else { return end };
    let zone = zone(&out.world.host.settings.zone).unwrap_or(jiff::tz::TimeZone::UTC);
    match limit_in(says, out.now.wall, &zone) {
        Some(until) => TurnEnd::Limited { says: says.clone(), until: Some(until) },
        None => end,
    }
}

fn follow(
    out: &mut Outcome,
    id: &ThreadId,
    role: Role,
    binding: Option<crate::ids::BindingId>,
    end: &TurnEnd,
    live: &super::Turn,
) {
    let all_stopped = *end == TurnEnd::Cancelled && out.world.host.stopped;
    // It is tried again: after a limit, after a failure, and once everything goes on.
    let again = all_stopped || matches!(end, TurnEnd::Failed { .. } | TurnEnd::Limited { .. });
    let failures = out.world.threads.get(id).map_or(0, |t| t.failures);
    if let Some(binding) = &binding {
        match role {
            Role::Steward if again => {
                stewards::wake_cut(out, binding, "restart");
                stewards::messages_cut(out, binding, &said(&live.messages));
            }
            Role::Steward if *end == TurnEnd::Cancelled => stewards::steward_stopped(out, binding),
            Role::Steward => stewards::steward_turn_ended(out, binding, live.reported),
            Role::Worker if again => {}
            Role::Worker if *end == TurnEnd::Cancelled => stewards::worker_stopped(out, binding, id),
            Role::Worker => stewards::worker_turn_ended(out, binding, id),
            _ => {}
        }
    }
    let what = match end {
        TurnEnd::Finished => "ended a turn",
        TurnEnd::Cancelled => "was stopped",
        TurnEnd::Failed { says } => {
            stewards::thread_failed(out, id, says, failures >= MAX_FAILURES);
            "failed a turn"
        }
        TurnEnd::Limited { .. } => "waits for its provider's limit",
    };
    let words = out.world.threads.get(id).map(|t| t.last_words.clone()).unwrap_or_default();
    notify(out, id, what, if *end == TurnEnd::Finished { &words } else { "" });
    if all_stopped && role != Role::Steward {
        go_on(out, id, "The owner stopped all agents during your last turn, and lets them go on", &live.messages);
    } else if again && role != Role::Steward && failures < MAX_FAILURES {
        try_again(out, id);
    }
}

/// The daemon died during the turn; nobody knows how far the agent came.
pub fn turn_cut(out: &mut Outcome, id: &ThreadId, turn: &TurnId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let Some(live) = thread.turn.as_ref().filter(|t| &t.id == turn).cloned() else { return };
    let (role, binding, archived) = (thread.role, thread.binding.clone(), thread.archived.is_some());
    let stopping = thread.status == Status::Stopping;
    let unknown: Vec<MessageId> =
        if live.confirmed { Vec::new() } else { live.messages.iter().map(|m| m.id.clone()).collect() };
    out.thread(id, Fact::TurnCut { turn: turn.clone(), unknown });
    if archived || live.compacts {
        return;
    }
    if stopping {
        // The stop was said before the daemon died: the turn ends as stopped.
        follow(out, id, role, binding, &TurnEnd::Cancelled, &live);
        return;
    }
    let wake = live.messages.iter().any(|m| m.wake);
    match (role, binding) {
        (Role::Steward, Some(binding)) => {
            // A wake is a level: the binding is due again, and a turn that began
            // with messages alone makes it due too, so that they are not forgotten.
            let said = said(&live.messages);
            if wake {
                stewards::wake_cut(out, &binding, "restart");
            }
            if !said.is_empty() {
                stewards::messages_cut(out, &binding, &said);
            }
        }
        _ => go_on(out, id, "The host was restarted during your last turn", &live.messages),
    }
    begin_turn(out, id);
}

/// A person has a failed turn tried again.
pub fn retry_asked(out: &mut Outcome, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    super::writable(&out.world, id)?;
    owns(&out.world, caller, id)?;
    let Some(thread) = out.world.threads.get(id) else { return Ok(()) };
    let broken = matches!(thread.environment.state, EnvironmentState::Failed { .. });
    let says = match (thread.turn.is_some(), thread.turns) {
        (true, _) => Some(format!("{id} is at work")),
        _ if thread.failed.is_some() || broken => None,
        (false, 0) => Some(format!("{id} has had no turn yet")),
        (false, _) => Some(format!("the last turn of {id} did not fail")),
    };
    if let Some(says) = says {
        return Err(Refusal::not_met("no_failed_turn", says, format!("see: stewards thread show {id}")));
    }
    retry(out, id);
    out.say(format!("{id} tries again"));
    Ok(())
}

/// Whatever keeps a thread that failed from going on is taken away.
pub fn retry(out: &mut Outcome, id: &ThreadId) {
    out.thread(id, Fact::Retried);
    let Some(thread) = out.world.threads.get(id) else { return };
    let provider = thread.model.provider.clone();
    if out.world.host.limits.contains_key(&provider) {
        out.fact(Subject::Host, Fact::LimitLifted { provider });
    }
    let Some(thread) = out.world.threads.get(id) else { return };
    if matches!(thread.environment.state, EnvironmentState::Failed { .. }) {
        out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Unmade });
    }
    try_again(out, id);
    begin_turn(out, id);
}

/// By reference: what the agent never had it gets as it was; what it had, it is
/// only reminded of.
pub(crate) fn try_again(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let waits = thread.queue.iter().any(|m| m.cause == "resume");
    let Some(FailedTurn { messages, confirmed, .. }) = thread.failed.clone().filter(|_| !waits) else { return };
    if thread.role == Role::Steward {
        // Its binding is due again; the next wake says what there is to do.
        return;
    }
    if confirmed {
        go_on(out, id, "Your last turn failed before it was finished", &messages);
        return;
    }
    deliver_again(out, id, messages);
}

/// What others said: all but the wake, which is made anew.
fn said(messages: &[Queued]) -> Vec<&Queued> {
    messages.iter().filter(|m| !m.wake).collect()
}

/// One line for an agent whose turn did not end by itself. It quotes what the
/// turn was about, because nobody knows whether the agent ever had it.
fn go_on(out: &mut Outcome, id: &ThreadId, what: &str, messages: &[Queued]) {
    let mut text = format!(
        "{what}. Look at what is already done (branch, commits, pull request, messages) and go on from there; do nothing twice."
    );
    for message in messages {
        text.push_str(BEGAN);
        match quote(message) {
            Some(quote) => text.push_str(quote),
            None => text.push_str(&crate::text::quoted(&cut(&message.text, 4_000))),
        }
    }
    let _ = deliver(out, id, SendMode::QueueIfActive, Parcel::system("resume", text));
}

/// What stands before a quote in such a line.
const BEGAN: &str = "\nIt began with:\n";

/// What an earlier line of ours has quoted: however often a turn is cut, the words that
/// it began with are quoted once.
fn quote(message: &Queued) -> Option<&str> {
    let ours = message.from == Sender::System && message.cause == "resume";
    message.text.split_once(BEGAN).filter(|_| ours).map(|(_, quote)| quote)
}

/// Has an idle thread's agent make its context smaller, in a turn of its own.
pub fn compact(out: &mut Outcome, id: &ThreadId) -> Result<(), Refusal> {
    let thread = super::writable(&out.world, id)?;
    let not = |code: &str, says: String, hint: &str| Err(Refusal::not_met(code, says, hint));
    if thread.turn.is_some() || !matches!(thread.status, Status::Idle | Status::Error) {
        return not("thread_busy", format!("{id} is not idle"), "wait until its turn has ended");
    }
    if thread.session.is_none() {
        return not("no_session", format!("{id} has no conversation yet"), "there is nothing to compact");
    }
    if !thread.can.compact {
        return not(
            "cannot_compact",
            format!("the agent of {id} does not compact when asked"),
            "it may do so by itself",
        );
    }
    if let Some(why) = super::hindrance(&out.world, thread, &out.now) {
        return Err(super::room::refused(id, &why));
    }
    if !at_its_place(out, id) {
        return not("no_place", format!("the environment of {id} is being made"), "try again in a moment");
    }
    start_turn(out, id, Vec::new(), vec!["compaction".to_owned()], true);
    out.say(format!("{id} compacts its context"));
    Ok(())
}

/// A person, or the thread that owns it, asks for it.
pub fn compact_asked(out: &mut Outcome, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    owns(&out.world, caller, id)?;
    compact(out, id)
}

/// An idle thread whose context has grown beyond the threshold since it was compacted
/// last. A worker or reviewer works on one thing and ends: what it knows of that is
/// left to its agent.
pub(crate) fn compaction_is_due(world: &World, thread: &Thread) -> bool {
    let threshold = world.host.settings.compact_at;
    threshold > 0
        && !matches!(thread.role, Role::Worker | Role::Reviewer)
        && thread.can.compact
        && thread.live()
        && thread.status == Status::Idle
        && thread.turn.is_none()
        && thread.turns > thread.compacted
        && thread.context.is_some_and(|c| c.used >= threshold)
        && matches!(thread.environment.state, EnvironmentState::Ready { .. })
}

/// What the agent needs for the turn that was begun, resolved now.
pub fn turn_job(world: &World, id: &ThreadId, turn: &TurnId) -> Option<TurnJob> {
    let thread = world.threads.get(id)?;
    let live = thread.turn.as_ref().filter(|t| &t.id == turn)?;
    let EnvironmentState::Ready { path } = &thread.environment.state else { return None };
    let prompt: Vec<&str> = live.messages.iter().map(|m| m.text.as_str()).collect();
    Some(TurnJob {
        project: thread.project.clone(),
        thread: id.clone(),
        turn: turn.clone(),
        session: thread.session.clone().or_else(|| thread.forks.clone()),
        forks: thread.forks.is_some(),
        model: thread.model.clone(),
        permission: thread.permission,
        cwd: path.clone(),
        worktree: thread.branch().and_then(|branch| Some((world.spec_of(thread)?, branch.to_owned()))),
        context: stewards::brief(world, thread),
        prompt: prompt.join("\n\n"),
        compacts: live.compacts,
    })
}

/// The words of messages that are steered in, in order.
pub fn steer_text(thread: &Thread) -> String {
    let words: Vec<&str> = thread.steering.iter().map(|m| m.text.as_str()).collect();
    words.join("\n\n")
}
