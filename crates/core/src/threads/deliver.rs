//! Every delivery to a thread goes through one function.

use super::{
    EnvironmentKind, EnvironmentState, MAX_FAILURES, Queued, SendMode, Sender, Status, Thread, Why, begin_steer,
    can_begin, capped, hindrance, try_again, unarchive,
};
use crate::ids::{MessageId, ThreadId};
use crate::machine::{Caller, Effect, Fact, How, Outcome, Receipt, World};
use crate::refusal::Refusal;

/// Messages of others that wait for one thread at most.
const MAX_QUEUE: usize = 1_000;

/// What is delivered.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub from: Sender,
    /// What the turn is counted under: prompt, wake, message, bus, resume, notice or answer.
    pub cause: &'static str,
    pub text: String,
    pub wake: bool,
    pub bus: Option<u64>,
}

impl Parcel {
    /// Words of the system itself.
    pub fn system(cause: &'static str, text: String) -> Parcel {
        Parcel { from: Sender::System, cause, text, wake: false, bus: None }
    }
}

pub fn unknown(id: &ThreadId) -> Refusal {
    Refusal::usage("unknown_thread", format!("no thread is called {id}"), "see: stewards thread list")
}

/// The thread, unless it was deleted.
pub fn known<'a>(world: &'a World, id: &ThreadId) -> Result<&'a Thread, Refusal> {
    let thread = world.threads.get(id).ok_or_else(|| unknown(id))?;
    if thread.deleted.is_some() {
        return Err(Refusal::not_met("thread_deleted", format!("{id} was deleted"), "see: stewards thread list"));
    }
    Ok(thread)
}

/// The thread, if it takes messages.
pub fn writable<'a>(world: &'a World, id: &ThreadId) -> Result<&'a Thread, Refusal> {
    let thread = world.threads.get(id).ok_or_else(|| unknown(id))?;
    let not = |reason: &str, says: String, hint: String| {
        Err(Refusal::not_met("thread_not_writable", says, hint).because(reason))
    };
    if thread.deleted.is_some() {
        return not("deleted", format!("{id} was deleted"), "see: stewards thread list".into());
    }
    if thread.archived.is_some() {
        return not(
            "archived",
            format!("{id} is archived"),
            format!("bring it back first: stewards thread unarchive {id}"),
        );
    }
    let gone = |reason: &str, says: String, hint: &str| {
        Err(Refusal::not_met("thread_environment_unavailable", says, hint).because(reason))
    };
    match &thread.environment.state {
        EnvironmentState::Removing => {
            gone("destroying", format!("the worktree of {id} is being removed"), "send it again in a moment")
        }
        _ => Ok(thread),
    }
}

/// A message from a person or a thread, in the words that the addressee sees.
/// A person who writes on the page brings an archived thread back.
pub fn told(
    out: &mut Outcome,
    caller: &Caller,
    to: &ThreadId,
    text: &str,
    mode: SendMode,
    revive: bool,
) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::usage("empty_message", "the message is empty", "say something"));
    }
    let (from, text) = match caller {
        Caller::Person => (Sender::Person, text.trim().to_owned()),
        Caller::Thread(id) => {
            (Sender::Thread { id: id.clone() }, format!("Message from thread {id}:\n{}", text.trim()))
        }
    };
    let archived = out.world.threads.get(to).is_some_and(|t| t.archived.is_some() && t.deleted.is_none());
    if revive && archived && *caller == Caller::Person {
        unarchive(out, caller, to)?;
    }
    let id = deliver(out, to, mode, Parcel { from, cause: "message", text, wake: false, bus: None })?;
    out.say(format!("accepted as {id}"));
    out.id("message", id);
    Ok(())
}

/// Accepts a message for a thread, or refuses it before anything is stored.
///
/// | mode | idle, pending | active | starting | stopping | error |
/// |---|---|---|---|---|---|
/// | start | begins a turn | refused | refused | refused | begins a turn |
/// | auto, steer-if-active | begins a turn | goes into it, or waits | waits for its first word | waits | begins a turn |
/// | steer | begins a turn | goes into it, or waits | waits for its first word | waits | refused |
/// | queue-if-active | begins a turn | waits for its end | waits for its end | waits | begins a turn |
///
/// A thread that is archived or deleted takes none. While its agent waits for the
/// person, or something else keeps a thread from a turn, the message waits too and
/// the reply says for what; `start` is refused then.
pub fn deliver(out: &mut Outcome, to: &ThreadId, mode: SendMode, parcel: Parcel) -> Result<MessageId, Refusal> {
    // A retry hands a person's words over again; that is not the person acting.
    let person = parcel.from == Sender::Person && parcel.cause != "resume";
    open_for(out, to, mode, person)?;
    let thread = writable(&out.world, to)?;
    if parcel.from != Sender::System && thread.queue.len() >= MAX_QUEUE {
        let says = format!("{MAX_QUEUE} messages wait for {to} already");
        return Err(Refusal::busy("queue_full", says, format!("see why: stewards thread show {to}")));
    }
    let (busy, bus) = (thread.status.busy(), parcel.bus);
    let id = accept(out, to, mode, parcel);
    begin_turn(out, to);
    if busy {
        begin_steer(out, to);
    }
    say_what_becomes_of_it(out, to, &id, mode, bus);
    Ok(id)
}

/// Several at once, for one turn: those that a failed turn was about.
pub(super) fn deliver_again(out: &mut Outcome, to: &ThreadId, messages: Vec<Queued>) {
    if open_for(out, to, SendMode::QueueIfActive, false).is_err() {
        return;
    }
    for m in messages {
        let parcel = Parcel { from: m.from, cause: "resume", text: m.text, wake: false, bus: m.bus };
        accept(out, to, SendMode::QueueIfActive, parcel);
    }
    begin_turn(out, to);
}

/// Refuses what the thread does not take now; takes away what a person's own word
/// overrules.
fn open_for(out: &mut Outcome, to: &ThreadId, mode: SendMode, person: bool) -> Result<(), Refusal> {
    let thread = writable(&out.world, to)?;
    let not = |reason: &str, says: String| {
        let refusal = Refusal::busy("thread_not_writable", says, "send it with --mode queue-if-active");
        Err(refusal.because(reason))
    };
    if mode == SendMode::Start {
        match thread.status {
            Status::Active => return not("already_active", format!("{to} is at work")),
            Status::Starting => return not("still_starting", format!("{to} is being started")),
            Status::Stopping => return not("stopping", format!("{to} is being stopped")),
            _ => {}
        }
        if let Some(pending) = thread.asks.first() {
            let says = format!("{to} waits for the person: {}", pending.ask.title);
            let hint = format!("answer it: stewards thread interactions answer {} <choice>", pending.id);
            return Err(Refusal::busy("awaiting_user_interaction", says, hint));
        }
    }
    if mode == SendMode::Steer && thread.status == Status::Error {
        let hint = format!("try its turn again: stewards thread retry {to}");
        return Err(
            Refusal::not_met("thread_not_writable", format!("the last turn of {to} failed"), hint).because("errored")
        );
    }
    provider_known(&out.world, thread)?;
    let failed = matches!(thread.environment.state, EnvironmentState::Failed { .. });
    let given_up = thread.failures >= MAX_FAILURES;
    if failed && !person {
        let EnvironmentState::Failed { says } = &thread.environment.state else { return Err(unknown(to)) };
        let says = format!("the environment of {to} could not be made: {says}");
        let hint = format!("mend the cause, then: stewards thread retry {to}");
        return Err(Refusal::not_met("thread_environment_unavailable", says, hint).because("errored"));
    }
    if person {
        // Whoever writes to a thread that rests means it to go on now.
        if thread.failures > 0 || capped(&out.world, thread, &out.now) {
            out.thread(to, Fact::Retried);
        }
        if failed {
            out.thread(to, Fact::EnvironmentIs { state: EnvironmentState::Unmade });
        }
        if given_up {
            // What the failed turn was about is not forgotten over the new words.
            try_again(out, to);
        }
    }
    Ok(())
}

/// The only place where a thread is given a message.
fn accept(out: &mut Outcome, to: &ThreadId, mode: SendMode, parcel: Parcel) -> MessageId {
    let id = out.mint_message();
    let message = Queued {
        id: id.clone(),
        from: parcel.from,
        cause: parcel.cause.to_owned(),
        text: parcel.text,
        wake: parcel.wake,
        steer: mode.steers() && !parcel.wake,
        at: out.now.wall,
        bus: parcel.bus,
        back: false,
    };
    out.thread(to, Fact::MessageAccepted { message });
    id
}

/// Takes a message back that no turn has begun with yet: whoever sent it may, and the owner.
pub fn drop_message(out: &mut Outcome, caller: &Caller, message: &MessageId) -> Result<(), Refusal> {
    let found =
        out.world.threads.values().find_map(|t| Some((t.id.clone(), t.queue.iter().find(|m| m.id == *message)?)));
    let Some((thread, queued)) = found else {
        let says = format!("no message {message} waits any more");
        return Err(Refusal::not_met("not_queued", says, "see what waits: stewards thread queue <thread>"));
    };
    let own = match caller {
        Caller::Person => true,
        Caller::Thread(who) => queued.from == Sender::Thread { id: who.clone() },
    };
    if !own {
        let says = format!("{message} was sent by somebody else");
        return Err(Refusal::not_met("not_yours", says, "only its sender and the owner take it back"));
    }
    out.thread(&thread, Fact::MessageDropped { message: message.clone() });
    out.say(format!("{message} was taken back"));
    Ok(())
}

/// Says to the sender how far it has come, in words and as a receipt.
fn say_what_becomes_of_it(out: &mut Outcome, to: &ThreadId, id: &MessageId, mode: SendMode, bus: Option<u64>) {
    let Some(thread) = out.world.threads.get(to) else { return };
    let queued = thread.queue.iter().any(|m| m.id == *id);
    let asks = thread.asks.first().map(|p| &p.ask.title);
    let steered = thread.steering.iter().any(|m| m.id == *id);
    let held = |why: Why| (Some(format!("this waits: {why}")), Some(why.to_string()));
    let (says, waits_for) = match (asks, thread.status) {
        _ if steered => (Some(format!("{to} is at work; this goes into its turn")), None),
        _ if !queued => (None, None),
        // Whatever else it waits for, this comes after.
        _ if out.world.host.stopped => held(Why::AllStopped),
        (Some(title), _) => {
            let says = format!("{to} waits for the person ({title}); it gets this when that is settled");
            (Some(says), Some(format!("the person's answer: {title}")))
        }
        (None, Status::Stopping) => {
            (Some(format!("{to} is being stopped; it gets this then")), Some("its stop".to_owned()))
        }
        (None, _) if thread.turn.is_some() => {
            let says = format!("{to} is at work; it gets this when its turn ends");
            (Some(says), Some("the end of its turn".to_owned()))
        }
        (None, _) => hindrance(&out.world, thread, &out.now).map_or((None, None), held),
    };
    let how = match (steered, &waits_for) {
        (true, _) => How::IntoTurn,
        (false, None) => How::BeginsTurn,
        (false, Some(_)) if mode.steers() => How::Deferred,
        (false, Some(_)) => How::Queued,
    };
    let receipt = Receipt { to: to.clone(), bus, message: Some(id.clone()), how, waits_for };
    says.into_iter().for_each(|line| out.say(line));
    out.reply.receipts.push(receipt);
}

/// Where the daemon knows which agents there are, one that is not there takes nothing.
pub(super) fn provider_known(world: &World, thread: &Thread) -> Result<(), Refusal> {
    let known = &world.host.settings.providers;
    if known.is_empty() || known.contains(&thread.model.provider) {
        return Ok(());
    }
    Err(Refusal::new(
        crate::refusal::Exit::Unreachable,
        "provider_unavailable",
        format!("no agent is set up for `{}`", thread.model.provider),
        "see which there are and how to install one: stewards agents",
    ))
}

/// Begins a turn with all that waits, if the thread can take one now. Consuming
/// the queue and beginning the turn are one fact. Where the environment is
/// still to be made, that comes first and the queue waits.
pub fn begin_turn(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if !can_begin(&out.world, thread, &out.now) || !at_its_place(out, id) {
        return;
    }
    let Some(thread) = out.world.threads.get(id) else { return };
    let messages = thread.queue.iter().map(|m| m.id.clone()).collect();
    let mut causes: Vec<String> = thread.queue.iter().map(|m| m.cause.clone()).collect();
    causes.dedup();
    start_turn(out, id, messages, causes, false);
}

pub(super) fn start_turn(
    out: &mut Outcome,
    id: &ThreadId,
    messages: Vec<MessageId>,
    causes: Vec<String>,
    compacts: bool,
) {
    let turn = out.mint_turn();
    out.thread(id, Fact::TurnBegan { turn: turn.clone(), messages, causes, compacts });
    out.effect(Effect::Turn { thread: id.clone(), turn });
}

/// Whether the thread has a place to work in; where it can have one, it is made.
pub(super) fn at_its_place(out: &mut Outcome, id: &ThreadId) -> bool {
    let Some(thread) = out.world.threads.get(id) else { return false };
    match (&thread.environment.state, &thread.environment.kind) {
        (EnvironmentState::Ready { .. }, _) => true,
        (
            EnvironmentState::Unmade | EnvironmentState::Removed | EnvironmentState::MovedAside { .. },
            EnvironmentKind::Worktree { branch, .. },
        ) => {
            let branch = branch.clone();
            let Some(spec) = out.world.spec_of(thread) else { return false };
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Making });
            out.effect(Effect::MakeEnvironment { thread: id.clone(), spec, branch });
            false
        }
        (EnvironmentState::Unmade, EnvironmentKind::Directory { path }) => {
            let path = path.clone();
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Ready { path } });
            true
        }
        (EnvironmentState::Unmade, EnvironmentKind::Checkout) => {
            let checkout = out.world.projects.get(&thread.project).and_then(|p| p.checkout.clone());
            // Without a checkout yet the queue waits; `plan` comes back to it.
            let Some(path) = checkout else { return false };
            out.thread(id, Fact::EnvironmentIs { state: EnvironmentState::Ready { path } });
            true
        }
        _ => false,
    }
}

/// What keeps a queued message, for those who look: nothing while a turn is live.
pub(crate) fn waits_for(world: &World, thread: &Thread, now: &crate::moment::Moment) -> Option<Why> {
    (!thread.queue.is_empty() && thread.turn.is_none()).then(|| hindrance(world, thread, now)).flatten()
}
