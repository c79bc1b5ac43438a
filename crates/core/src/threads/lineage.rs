//! Parents and children: what ends with what, and who hears of whom.

use super::{Parcel, Permission, SendMode, deliver, stop};
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

/// The thread, its dependents, theirs, and so on: what is archived with it. Itself first.
pub fn owned_by_all(world: &World, id: &ThreadId) -> Vec<ThreadId> {
    world.owned_by(id).into_iter().filter(|t| world.threads.get(t).is_some_and(super::Thread::live)).collect()
}

/// The thread and every child of it, archived ones too: what is deleted with it. Itself first.
pub fn descendants(world: &World, id: &ThreadId) -> Vec<ThreadId> {
    let mut all = vec![id.clone()];
    let mut at = 0;
    while at < all.len() {
        let of = all[at].clone();
        let next = world.threads.values().filter(|t| t.parent.as_ref() == Some(&of) || t.owner.as_ref() == Some(&of));
        let next: Vec<ThreadId> = next.map(|t| t.id.clone()).filter(|t| !all.contains(t)).collect();
        all.extend(next);
        at += 1;
    }
    all.retain(|t| world.threads.get(t).is_some_and(|t| t.deleted.is_none()));
    all
}

/// A thread ends only what it owns; a person ends anything.
fn may_end(world: &World, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    match caller {
        Caller::Person => Ok(()),
        Caller::Thread(who) if who != id && world.owned_by(who).contains(id) => Ok(()),
        Caller::Thread(who) => Err(Refusal::not_met(
            "not_yours",
            format!("{id} is not one of {who}'s threads"),
            "ask its steward: stewards bus help",
        )),
    }
}

fn preview(world: &World, verb: &str, all: &[ThreadId]) -> Refusal {
    let lines: Vec<String> = all
        .iter()
        .filter_map(|id| world.threads.get(id))
        .map(|t| format!("{} {} ({}): {}", t.role.word(), t.id, t.status.word(), one_line(&t.title)))
        .collect();
    Refusal::not_met("needs_yes", format!("this {verb} {} threads: {}", all.len(), lines.join("; ")), "add --yes")
}

/// Archives a thread and everything whose life it owns. More than itself needs
/// a yes.
pub fn archive(out: &mut Outcome, caller: &Caller, id: &ThreadId, yes: bool) -> Result<(), Refusal> {
    if out.world.threads.get(id).is_none_or(|t| t.deleted.is_some()) {
        return Err(super::deliver::unknown(id));
    }
    may_end(&out.world, caller, id)?;
    let all = owned_by_all(&out.world, id);
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
    }
    stop(out, id);
}

/// Brings a thread back. Its worktree is made again with its next message.
pub fn unarchive(out: &mut Outcome, caller: &Caller, id: &ThreadId) -> Result<(), Refusal> {
    let Some(thread) = out.world.threads.get(id).filter(|t| t.deleted.is_none()) else {
        return Err(super::deliver::unknown(id));
    };
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
/// line that they were there stays. Only a person does that, and says yes.
pub fn delete(out: &mut Outcome, caller: &Caller, id: &ThreadId, yes: bool) -> Result<(), Refusal> {
    if let Caller::Thread(who) = caller {
        let says = format!("only the owner deletes threads, not {who}");
        return Err(Refusal::not_met("person_only", says, "archive it instead: stewards thread archive"));
    }
    if out.world.threads.get(id).is_none_or(|t| t.deleted.is_some()) {
        return Err(super::deliver::unknown(id));
    }
    let all = descendants(&out.world, id);
    if !yes {
        return Err(preview(&out.world, "deletes", &all));
    }
    for thread in all.iter().rev() {
        put_away(out, thread);
        out.thread(thread, Fact::Deleted);
        stewards::thread_deleted(out, thread);
    }
    out.say(format!("deleted {}", list(&all)));
    Ok(())
}

/// What may be changed of a thread while it lives.
pub fn update(
    out: &mut Outcome,
    caller: &Caller,
    id: &ThreadId,
    title: Option<&str>,
    permission: Option<Permission>,
    notify: Option<bool>,
    read: Option<bool>,
) -> Result<(), Refusal> {
    if out.world.threads.get(id).is_none_or(|t| t.deleted.is_some()) {
        return Err(super::deliver::unknown(id));
    }
    if let (Caller::Thread(who), Some(_)) = (caller, permission) {
        let says = format!("only the owner changes what an agent may do, not {who}");
        return Err(Refusal::not_met("person_only", says, "say what you need in your report"));
    }
    if *caller != Caller::Thread(id.clone()) {
        may_end(&out.world, caller, id)?;
    }
    let title = title.map(|t| cut(&one_line(t), 120));
    if title.as_deref() == Some("") {
        return Err(Refusal::usage("empty_title", "the title is empty", "give it a few words"));
    }
    if title.is_some() || permission.is_some() || notify.is_some() {
        out.thread(id, Fact::Updated { title, permission, notify });
    }
    match read {
        Some(true) => out.thread(id, Fact::MarkedRead),
        Some(false) => out.thread(id, Fact::MarkedUnread),
        None => {}
    }
    out.say(format!("{id} is as asked"));
    Ok(())
}
