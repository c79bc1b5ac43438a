//! Parents and children: what ends with what, and who hears of whom.

use super::{Parcel, SendMode, Thread, Update, deliver, known, stop};
use crate::ids::{MessageId, ThreadId};
use crate::machine::{Caller, Fact, Outcome, World};
use crate::refusal::Refusal;
use crate::stewards;
use crate::text::{cut, one_line};
use serde::{Deserialize, Serialize};

/// What a child did, to be told to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub child: ThreadId,
    /// A few words: `ended a turn`, `failed a turn`, `waits for the person`.
    pub what: String,
    /// The end of what it said, at most 4,000 characters.
    pub words: String,
}

/// Tells the parent, where that is wanted. Several within two seconds are told
/// together, and of one child only the last.
pub fn notify(out: &mut Outcome, child: &ThreadId, what: &str, words: &str) {
    let Some(thread) = out.world.threads.get(child) else { return };
    let Some(parent) = thread.parent.clone().filter(|_| thread.notify_parent && thread.live()) else { return };
    if out.world.threads.get(&parent).is_none_or(|p| !p.live()) {
        return;
    }
    let notice = Notice { child: child.clone(), what: what.to_owned(), words: cut(words.trim(), 4_000) };
    let by = out.now.after(2_000);
    out.thread(&parent, Fact::Noticed { notice, by });
}

/// The two seconds are over.
pub fn notices_due(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let notices = thread.notices.clone();
    out.thread(id, Fact::NoticesTold);
    let name = |n: &Notice| {
        let title = out.world.threads.get(&n.child).map(|t| t.title.clone()).unwrap_or_default();
        format!("{} ({})", n.child, one_line(&title))
    };
    let text = match notices.as_slice() {
        [] => return,
        [one] if !one.words.is_empty() => {
            format!("Your thread {} {}:\n{}", name(one), one.what, crate::text::quoted(&one.words))
        }
        all => {
            let lines: Vec<String> = all.iter().map(|n| format!("- {} {}", name(n), n.what)).collect();
            format!("Of your threads:\n{}\nSee what one said: stewards thread show <id>", lines.join("\n"))
        }
    };
    // A parent that takes no messages any more hears nothing.
    let _ = deliver(out, id, SendMode::QueueIfActive, Parcel::system("notice", text));
}

/// The thread and every child of it, archived ones too: what is deleted with it. Itself first.
fn descendants(world: &World, id: &ThreadId) -> Vec<ThreadId> {
    let below = |t: &Thread, of: &ThreadId| t.parent.as_ref() == Some(of) || t.owner.as_ref() == Some(of);
    let mut all = world.closure(id, below);
    all.retain(|t| known(world, t).is_ok());
    all
}

/// A thread decides over itself and what it owns; a person over any.
pub(super) fn owns(world: &World, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    match caller {
        Caller::Person => Ok(()),
        Caller::Thread(who) if world.owned_by(who).contains(id) => Ok(()),
        Caller::Thread(who) => Err(not_yours(who, id)),
    }
}

/// No thread ends itself.
fn may_end(world: &World, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    match caller {
        Caller::Thread(who) if who == id => Err(not_yours(who, id)),
        _ => owns(world, caller, id),
    }
}

fn not_yours(who: &ThreadId, id: &ThreadId) -> Refusal {
    let says = format!("{id} is not one of {who}'s threads");
    Refusal::not_met("not_yours", says, "ask its steward: stewards bus help")
}

fn preview(world: &World, verb: &str, all: &[ThreadId]) -> Refusal {
    let lines: Vec<String> = all
        .iter()
        .filter_map(|id| world.threads.get(id))
        .map(|t| format!("{} {} ({}): {}", t.role.word(), t.id, t.status.word(), one_line(&t.title)))
        .collect();
    let says = format!("this {verb} {} threads: {}", all.len(), lines.join("; "));
    Refusal::not_met(
        "needs_yes",
        says,
        "add --yes; work in a worktree that is nowhere else is kept aside: stewards env list",
    )
}

/// Archives a thread and everything whose life it owns. More than itself needs
/// a yes.
pub fn archive(out: &mut Outcome, caller: &Caller, id: &ThreadId, yes: bool) -> Result<(), Refusal> {
    known(&out.world, id)?;
    may_end(&out.world, caller, id)?;
    let mut all = out.world.owned_by(id);
    all.retain(|t| out.world.threads.get(t).is_some_and(Thread::live));
    if all.is_empty() {
        out.say(format!("{id} is archived already"));
        return Ok(());
    }
    if all.len() > 1 && !yes {
        return Err(preview(&out.world, "archives", &all));
    }
    // Those that are owned first, so that nobody is told of the end of a parent.
    for thread in all.iter().rev() {
        put_away(out, thread);
    }
    out.say(format!("archived {}", list(&all)));
    Ok(())
}

fn list(all: &[ThreadId]) -> String {
    all.iter().map(ThreadId::as_str).collect::<Vec<_>>().join(", ")
}

/// Archives one thread: it is stopped, takes no more messages, and gives back
/// what it holds.
pub(crate) fn put_away(out: &mut Outcome, id: &ThreadId) {
    let Some(thread) = out.world.threads.get(id) else { return };
    if thread.archived.is_none() {
        let failed: Vec<MessageId> = thread.queue.iter().map(|m| m.id.clone()).collect();
        out.thread(id, Fact::Archived { failed });
        super::ask::withdraw(out, id, "its thread was archived");
        crate::bus::release_all(out, id);
        crate::bus::close_owed(out, id);
    }
    stop(out, id);
}

/// Brings a thread back. Its worktree is made again with its next message.
pub fn unarchive(out: &mut Outcome, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    let thread = known(&out.world, id)?;
    if thread.archived.is_none() {
        out.say(format!("{id} is not archived"));
        return Ok(());
    }
    let owner = thread.owner.as_ref().and_then(|o| out.world.threads.get(o));
    if let Some(owner) = owner.filter(|o| !o.live()) {
        let says = format!("{id} belongs to {}, which is archived", owner.id);
        return Err(Refusal::not_met("owner_archived", says, format!("first: stewards thread unarchive {}", owner.id)));
    }
    may_end(&out.world, caller, id)?;
    out.thread(id, Fact::Unarchived);
    out.say(format!("{id} is back"));
    Ok(())
}

/// Deletes a thread with every descendant: their transcripts and messages go, a
/// line that they were there stays. Only a person does that, and says yes; not while
/// a thread that stays holds one of them.
pub fn delete(out: &mut Outcome, caller: &Caller, id: &ThreadId, yes: bool) -> Result<(), Refusal> {
    caller.person_only("deletes threads", "archive it instead: stewards thread archive")?;
    known(&out.world, id)?;
    let all = descendants(&out.world, id);
    for thread in &all {
        let held = out.world.claims.live(&format!("thread:{thread}"), &out.now);
        if let Some(held) = held.filter(|c| c.holder.as_ref().is_some_and(|h| !all.contains(h))) {
            let says = format!("{} is held by {}: {}", held.key, held.holder_name(), held.reason);
            let hint = format!("ask for it, or: stewards bus release {} --force --reason '<why>'", held.key);
            return Err(Refusal::busy("busy", says, hint));
        }
    }
    if !yes {
        return Err(preview(&out.world, "deletes", &all));
    }
    for thread in all.iter().rev() {
        discard(out, thread);
    }
    out.say(format!("deleted {}", list(&all)));
    Ok(())
}

/// Deletes one thread.
pub(crate) fn discard(out: &mut Outcome, id: &ThreadId) {
    put_away(out, id);
    out.thread(id, Fact::Deleted);
    stewards::thread_deleted(out, id);
}

/// What may be changed of a thread while it lives.
pub fn update(out: &mut Outcome, caller: &Caller, id: &ThreadId, update: &Update) -> Result<(), Refusal> {
    known(&out.world, id)?;
    if update.permission.is_some() {
        caller.person_only("changes what an agent may do", "say what you need in your report")?;
    }
    owns(&out.world, caller, id)?;
    let mut update = update.clone();
    update.title = update.title.map(|t| cut(&one_line(&t), 120));
    if update.title.as_deref() == Some("") {
        return Err(Refusal::usage("empty_title", "the title is empty", "give it a few words"));
    }
    for (name, value) in &update.metadata {
        check_metadata(name, value)?;
    }
    out.thread(id, Fact::Updated { update });
    out.say(format!("{id} is as asked"));
    Ok(())
}

/// Metadata is for small marks of other programs; a null takes one away.
fn check_metadata(name: &str, value: &serde_json::Value) -> Result<(), Refusal> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || name.len() > 60 || !name.chars().all(fits) {
        let says = format!("`{}` is no name for metadata", cut(&one_line(name), 60));
        return Err(Refusal::usage("bad_metadata", says, "at most 60 letters, digits and . _ - /"));
    }
    if value.to_string().len() > 4_000 {
        let says = format!("the metadata `{name}` is longer than 4,000 bytes");
        return Err(Refusal::usage("bad_metadata", says, "keep what is long in a file, and its path here"));
    }
    Ok(())
}
