//! What must hold: never twice, nothing left over, in time.

use crate::sim::Sim;
use stewards_core::machine::Fact;
use stewards_core::snapshot::PullState;
use stewards_core::stewards::Standing;
use stewards_core::threads::Role;

impl Sim {
    /// Every ticket's effort has ended.
    pub fn all_done(&self) -> bool {
        let world = self.world();
        !self.outside.tickets.is_empty()
            && self.outside.tickets.keys().all(|uuid| {
                let id = stewards_core::entity::Entity::Ticket { uuid: uuid.clone() }.binding();
                world.bindings.get(&id).is_some_and(|b| b.standing == Standing::Ended)
            })
            && world.threads.values().all(|t| t.role == Role::ProjectSteward || t.archived.is_some())
            && world.threads.values().all(|t| t.remove_by.is_none())
            && self.store().outbox().is_ok_and(|o| o.is_empty())
    }

    /// Safety: holds at every moment.
    pub fn unsafe_things(&self) -> Vec<String> {
        let mut bad = self.outside.sins.clone();
        bad.extend(self.sins.iter().cloned());
        for (key, n) in &self.outside.merges {
            if *n > 1 {
                bad.push(format!("{key} was merged {n} times"));
            }
        }
        let tickets = self.outside.tickets.len();
        if self.outside.pulls.len() > tickets {
            bad.push(format!("{} pulls for {tickets} tickets", self.outside.pulls.len()));
        }
        if !self.up() {
            return bad;
        }
        let world = self.world();
        for role in [Role::Steward, Role::Worker, Role::Reviewer] {
            let n = world.threads.values().filter(|t| t.role == role).count();
            if n > tickets {
                bad.push(format!("{n} {}s for {tickets} tickets", role.word()));
            }
        }
        for claim in world.claims.held.values() {
            let holder = claim.holder.as_ref().and_then(|h| world.threads.get(h));
            if holder.is_some_and(|t| t.archived.is_some()) {
                bad.push(format!("{} is held by an archived thread", claim.key));
            }
        }
        bad
    }

    /// Nothing is left over once all is done.
    pub fn left_over(&self) -> Vec<String> {
        let mut bad = Vec::new();
        let world = self.world();
        if !self.all_done() {
            for b in world.bindings.values() {
                bad.push(format!(
                    "{} stands at {:?}, news {:?}, carried {:?}, look {:?}, window {:?}, merging {:?}",
                    b.key, b.standing, b.news, b.carried, b.look, b.window, b.merging
                ));
            }
            for t in world.threads.values().filter(|t| t.archived.is_none()) {
                bad.push(format!(
                    "{} {:?} {:?} queue {} failures {}",
                    t.id,
                    t.role,
                    t.status,
                    t.queue.len(),
                    t.failures
                ));
            }
            for row in self.store().outbox().unwrap_or_default() {
                bad.push(format!("in the outbox: {} started {}", row.effect.name(), row.started));
            }
            for p in self.outside.pulls.values() {
                bad.push(format!("{} {:?} {:?} reviewed {}", p.key, p.state, p.rollup, self.outside.reviewed(&p.key)));
            }
            return bad;
        }
        for path in &self.outside.worktrees {
            bad.push(format!("the worktree of {path} is left"));
        }
        for claim in world.claims.held.values() {
            bad.push(format!("{} is still held", claim.key));
        }
        for need in world.needs.values().filter(|n| n.closed.is_none()) {
            bad.push(format!("the item {} is still open", need.text));
        }
        for (id, state) in self.receipts() {
            if state == "queued" || state == "handed" {
                bad.push(format!("{id} is {state} and nobody settles it"));
            }
        }
        for pull in self.outside.pulls.values() {
            let said = pull.comments.iter().filter(|c| c.body.starts_with("Merged:")).count();
            if pull.state != PullState::Merged || said != 1 {
                bad.push(format!("{} is {:?} with {said} Merged comments", pull.key, pull.state));
            }
        }
        if let (Ok(rows), Ok(folded)) = (self.store().load(), self.store().refold())
            && (rows != folded || &rows != world)
        {
            bad.push("the rows are not the fold of the facts".into());
        }
        // Every message is consumed by one turn and no more, and told once.
        let facts = self.facts();
        let mut begun = std::collections::BTreeSet::new();
        let mut texts = std::collections::BTreeSet::new();
        for fact in &facts {
            match fact {
                Fact::TurnBegan { messages, .. } => {
                    for id in messages {
                        if !begun.insert(id.clone()) {
                            bad.push(format!("{id} began two turns"));
                        }
                    }
                }
                // Each time that it is taken from somebody is told once.
                Fact::ClaimTaken { claim, displaced: Some(_) } => {
                    let lost = format!("[bus] your claim on {}", claim.key);
                    texts.retain(|text: &String| !text.to_lowercase().starts_with(&lost.to_lowercase()));
                }
                Fact::MessageAccepted { message }
                    if message.cause != "resume" && !message.wake && !texts.insert(message.text.clone()) =>
                {
                    bad.push(format!("{} was told twice: {}", message.id, message.text));
                }
                _ => {}
            }
        }
        bad
    }

    /// Turns begun in all.
    pub fn turns(&self) -> usize {
        self.facts().iter().filter(|f| matches!(f, Fact::TurnBegan { .. })).count()
    }
}
