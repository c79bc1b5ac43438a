//! A thread that begins with what another one knows.

use super::lineage::owns;
use super::{Environment, EnvironmentKind, EnvironmentState, Parcel, Role, SendMode, Sender, deliver, writable};
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome};
use crate::refusal::Refusal;
use crate::text::{cut, one_line};

/// Starts a thread whose agent goes on with the conversation of `id`, which itself
/// stays as it is. Both work in the same place, so it is archived with that thread.
pub fn fork(
    out: &mut Outcome,
    caller: &Caller,
    id: &ThreadId,
    title: Option<&str>,
    prompt: &str,
) -> Result<(), Refusal> {
    let source = writable(&out.world, id)?.clone();
    owns(&out.world, caller, id)?;
    let not = |code: &str, says: String, hint: &str| Err(Refusal::not_met(code, says, hint));
    if prompt.trim().is_empty() {
        return Err(Refusal::usage("empty_message", "the prompt is empty", "say what the fork is to do"));
    }
    if source.turn.is_some() {
        let says = format!("{id} is at work, and a conversation is forked between two turns");
        return Err(Refusal::busy("thread_busy", says, format!("wait for it: stewards thread wait {id}")));
    }
    let Some(session) = source.session.clone() else {
        return not(
            "no_session",
            format!("{id} has no conversation yet"),
            "start another thread: stewards thread spawn",
        );
    };
    if !source.can.fork {
        return not("cannot_fork", format!("the agent of {id} does not fork conversations"), "start another thread");
    }
    let kind = match (&source.environment.kind, &source.environment.state) {
        (EnvironmentKind::Worktree { .. }, EnvironmentState::Ready { path }) => {
            EnvironmentKind::Directory { path: path.clone() }
        }
        (EnvironmentKind::Worktree { .. }, _) => {
            return not(
                "no_place",
                format!("the worktree of {id} does not stand"),
                "write to it first, so that it is made",
            );
        }
        (kind, _) => kind.clone(),
    };
    let title = title.map_or_else(|| format!("{} (fork)", source.title), str::to_owned);
    let fork = out.mint_thread();
    out.thread(
        &fork,
        Fact::ThreadCreated {
            project: source.project.clone(),
            title: cut(&one_line(&title), 120),
            role: Role::Plain,
            parent: source.parent.clone().filter(|_| source.role == Role::Plain),
            owner: Some(id.clone()),
            binding: None,
            model: source.model.clone(),
            environment: Environment::unmade(kind),
            permission: source.permission,
            notify_parent: false,
            hidden: source.hidden,
            forks: Some(session),
        },
    );
    let from = match caller {
        Caller::Thread(id) => Sender::Thread { id: id.clone() },
        Caller::Person => Sender::Person,
    };
    let parcel = Parcel { from, cause: "prompt", text: prompt.trim().to_owned(), wake: false, bus: None };
    deliver(out, &fork, SendMode::Start, parcel)?;
    out.say(format!("started {fork}, a fork of {id} that works where {id} does"));
    out.id("thread", &fork);
    Ok(())
}
