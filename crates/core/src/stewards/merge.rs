//! Merging: one function for page, command line and worker.

use super::binding::{Binding, NeedKind};
use super::gate::{LinkedPull, gate, short};
use super::marks::sign;
use super::rings::ring;
use super::wake::learn_one;
use crate::bus::{Claim, claim_one};
use crate::entity::PullKey;
use crate::ids::{BindingId, NeedId, ThreadId};
use crate::machine::{Caller, Effect, Fact, Fate, Outcome, Subject, Write};
use crate::refusal::Refusal;
use crate::snapshot::{Pull, PullState};
use crate::text::one_line;
use crate::threads::{Role, retry};
use crate::trouble::{Trouble, again};

fn claim_of<'a>(out: &'a Outcome, key: &PullKey) -> Option<&'a Claim> {
    out.world.claims.live(&format!("pr:{}#{}", key.repo.folded(), key.number), &out.now)
}

/// A press of Merge. `fresh` was read for it. The gate is judged on what was
/// read now, the claim is taken, and the merge goes out with the head that was
/// judged, so that a push in between is not merged unread.
pub fn merge_pressed(out: &mut Outcome, caller: &Caller, key: &PullKey, fresh: &Pull) -> Result<(), Refusal> {
    let Some(binding) = out.world.binding_of_pull(key).cloned() else {
        return Err(Refusal::usage("unknown_pull", format!("no effort has {key}"), "see: stewards list"));
    };
    let linked = binding.pull(key).cloned();
    let by = linked.as_ref().and_then(|l| l.by.clone());
    if let Some(merged) = linked.as_ref().and_then(|l| l.merge_sha.clone()) {
        out.say(format!("{key} is merged already, as {merged}"));
        out.id("merged", merged);
        return Ok(());
    }
    if binding.merging.is_some() {
        return Err(Refusal::busy("merging", format!("{key} is being merged"), "wait for it: stewards show"));
    }
    if !binding.live() {
        return Err(Refusal::not_met(
            "not_open",
            format!("the effort {} has ended", binding.key),
            "merge it where it lives",
        ));
    }
    let read = LinkedPull::read(fresh, by.clone());
    let verdict = gate(&out.world, &binding, &read);
    if !verdict.met {
        return Err(Refusal::not_met(
            "gate_unmet",
            format!("the gate of {key} is not met: {}", verdict.unmet.join("; ")),
            format!("see: stewards gate {key}"),
        ));
    }
    let held = claim_of(out, key).cloned();
    match caller {
        Caller::Person => {
            if let Some(held) = held.as_ref().filter(|c| c.holder.is_some() && c.holder != by) {
                return Err(Refusal::busy(
                    "busy",
                    format!("pr:{key} is held by {}: {}", held.holder_name(), held.reason),
                    "wait for its release, or force it: stewards bus release",
                ));
            }
            if held.is_none() {
                claim_one(out, caller, &key.repo, &format!("pr:{key}"), "merging")?;
            }
        }
        Caller::Thread(thread) => thread_may_merge(out, &binding, thread, by.as_ref(), held.as_ref(), key)?,
    }
    let who = match caller {
        Caller::Person => "the owner".to_owned(),
        Caller::Thread(id) => id.to_string(),
    };
    out.binding(&binding.id, Fact::MergeBegan { pull: key.clone(), head_sha: read.head_sha.clone(), by: who });
    let write = Write::Merge {
        pull: key.clone(),
        head_sha: read.head_sha.clone(),
        title: format!("{} (#{})", one_line(&read.title), key.number),
    };
    let effect = out.effect(Effect::Write { binding: binding.id.clone(), write });
    out.say(format!("merging {key} at {}", short(&read.head_sha)));
    out.id("effect", effect);
    Ok(())
}

fn thread_may_merge(
    out: &Outcome,
    binding: &Binding,
    thread: &ThreadId,
    by: Option<&ThreadId>,
    held: Option<&Claim>,
    key: &PullKey,
) -> Result<(), Refusal> {
    let playbook = out.world.projects.get(&binding.project).and_then(|p| p.config.ticket_playbook());
    if !playbook.is_some_and(|p| p.allows("merge")) {
        return Err(Refusal::not_met(
            "person_merges",
            "this playbook lets only the person merge",
            "say that it is ready: stewards bus done",
        ));
    }
    if by != Some(thread) {
        return Err(Refusal::not_met(
            "not_yours",
            format!("{key} is not a pull of {thread}"),
            "only the worker that opened it merges it",
        ));
    }
    if held.is_none_or(|c| c.holder.as_ref() != Some(thread)) {
        return Err(Refusal::not_met(
            "no_claim",
            format!("{thread} does not hold pr:{key}"),
            format!("stewards bus claim pr:{key} --reason merging"),
        ));
    }
    Ok(())
}

/// What came of a merge or of its comment.
pub fn merge_answered(
    out: &mut Outcome,
    id: &BindingId,
    write: &Write,
    answer: &Result<String, Trouble>,
    attempts: u32,
) {
    if let Err(trouble) = answer
        && let Some(at) = again(trouble, attempts, &out.now)
    {
        out.fate = Fate::Again(at);
        return;
    }
    match (write, answer) {
        (Write::Merge { pull, head_sha, .. }, Ok(sha)) => merged(out, id, pull, head_sha, sha),
        (Write::Merge { pull, .. }, Err(trouble)) => {
            let says = one_line(&trouble.to_string());
            out.binding(id, Fact::MergeFailed { pull: pull.clone(), says: says.clone() });
            release_owners(out, pull);
            learn_one(out, id, "item", true, format!("the merge of {pull} was pressed and did not happen: {says}"));
            ring(out, id, "merge failed");
        }
        (Write::Comment { pull, marker, .. }, Ok(_)) => {
            out.binding(id, Fact::Commented { pull: pull.clone(), marker: marker.clone() });
            super::ending::end_if_due(out, id);
        }
        (Write::Comment { pull, .. }, Err(trouble)) => {
            learn_one(out, id, "item", false, format!("a comment on {pull} could not be written: {trouble}"));
        }
    }
}

/// The owner's own claim for the merge is over, expired or not.
fn release_owners(out: &mut Outcome, pull: &PullKey) {
    let key = format!("pr:{}#{}", pull.repo.folded(), pull.number);
    if out.world.claims.held.get(&key).is_some_and(|c| c.holder.is_none()) {
        out.fact(Subject::Claims, Fact::ClaimReleased { key, why: "the merge is over".into() });
    }
}

fn merged(out: &mut Outcome, id: &BindingId, pull: &PullKey, head_sha: &str, sha: &str) {
    out.binding(id, Fact::MergeDone { pull: pull.clone(), merge_sha: sha.to_owned() });
    release_owners(out, pull);
    close_item(out, id, pull, &format!("merged as {}", short(sha)));
    learn_one(out, id, "item", true, format!("Merge of {pull} was pressed: it is merged as {}", short(sha)));
    let Some(binding) = out.world.bindings.get(id) else { return };
    let linked = binding.pull(pull);
    let restart = out
        .world
        .projects
        .get(&binding.project)
        .and_then(|p| p.config.project.as_ref())
        .and_then(|f| f.restart_note.clone());
    let mut body =
        format!("Merged: lane {}, approved at {}", linked.map_or("reviewed", LinkedPull::lane), short(head_sha));
    body.push_str(&format!(", merge commit {sha}."));
    if let Some(note) = restart {
        body.push_str(&format!(" {note}"));
    }
    let marker = format!("merged:{pull}");
    let write =
        Write::Comment { pull: pull.clone(), marker: marker.clone(), body: sign(&body, "stewards", Some(&marker)) };
    out.effect(Effect::Write { binding: id.clone(), write });
    ring(out, id, "merged here");
}

fn close_item(out: &mut Outcome, id: &BindingId, pull: &PullKey, how: &str) {
    let open: Vec<NeedId> = out
        .world
        .open_needs(id)
        .filter(|n| matches!(&n.kind, NeedKind::Merge { pull: p } if p == pull))
        .map(|n| n.id.clone())
        .collect();
    for need in open {
        out.fact(Subject::Need(need), Fact::NeedClosed { how: how.to_owned() });
    }
}

/// The gate of a pull is met and this playbook leaves merging to the person.
pub fn merge_item_due(out: &mut Outcome, id: &BindingId, pull: &PullKey) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let Some(linked) = binding.pull(pull) else { return };
    let text = format!("Merge {pull}: {}", one_line(&linked.title));
    let project = binding.project.clone();
    let need = out.mint_need();
    let kind = NeedKind::Merge { pull: pull.clone() };
    out.fact(Subject::Need(need), Fact::NeedFiled { project, binding: Some(id.clone()), kind, text });
}

/// A person says that an item is done. On a gate's item that is refused unless
/// it is so: this records, it never does.
pub fn need_done(out: &mut Outcome, caller: &Caller, id: &NeedId) -> Result<(), Refusal> {
    let Some(need) = out.world.needs.get(id).cloned() else {
        return Err(Refusal::usage("unknown_item", format!("no item is called {id}"), "see: stewards needs"));
    };
    if let Caller::Thread(thread) = caller {
        return Err(Refusal::not_met(
            "persons_item",
            format!("{id} is the person's to close, not {thread}'s"),
            "wait for it, or say what you need in your report",
        ));
    }
    if let Some((_, how)) = &need.closed {
        out.say(format!("{id} is closed already: {how}"));
        return Ok(());
    }
    match &need.kind {
        NeedKind::Merge { pull } => {
            let state = need
                .binding
                .as_ref()
                .and_then(|b| out.world.bindings.get(b))
                .and_then(|b| b.pull(pull))
                .map(|p| p.state);
            if state != Some(PullState::Merged) {
                return Err(Refusal::not_met(
                    "not_so",
                    format!("{pull} is not merged"),
                    format!("merge it: stewards merge {pull}"),
                ));
            }
        }
        NeedKind::Failed { thread } | NeedKind::Capped { thread } => retry(out, thread),
    }
    out.fact(Subject::Need(id.clone()), Fact::NeedClosed { how: "done, says the owner".into() });
    if let Some(binding) = &need.binding {
        learn_one(out, binding, "item", true, format!("the owner closed an item: {}", need.text));
    }
    out.say(format!("closed {id}"));
    Ok(())
}

/// Our `gh` wrote on a pull for a thread: on record, and looked at.
pub fn wrote(out: &mut Outcome, caller: &Caller, pull: &PullKey, what: &str) {
    let Caller::Thread(thread) = caller else { return };
    let binding = out.world.threads.get(thread).and_then(|t| t.binding.clone());
    if out.world.threads.contains(thread) {
        out.thread(thread, Fact::Wrote { pull: pull.clone(), what: one_line(what) });
    }
    if let Some(binding) = binding {
        ring(out, &binding, "written here");
    }
}

/// Our `gh` opened a pull for a thread: the link is known before any ring.
pub fn pull_opened(out: &mut Outcome, caller: &Caller, pull: &PullKey, branch: &str) -> Result<(), Refusal> {
    let Caller::Thread(thread) = caller else { return Ok(()) };
    let own = |t: &crate::threads::Thread| t.role == Role::Worker && t.branch() == Some(branch);
    let found = out.world.threads.get(thread).and_then(|t| Some((own(t), t.binding.clone()?)));
    let Some((own, binding)) = found else { return Ok(()) };
    let known = out.world.bindings.get(&binding).is_some_and(|b| b.pull(pull).is_some());
    if !known && own {
        let fact = Fact::PullLinked { pull: pull.clone(), branch: branch.to_owned(), by: Some(thread.clone()) };
        out.binding(&binding, fact);
        learn_one(out, &binding, "pull", false, format!("worker {thread} opened {pull}"));
    }
    ring(out, &binding, "pull opened here");
    out.say(format!("linked {pull}"));
    Ok(())
}
