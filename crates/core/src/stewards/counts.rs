//! What a run cost and why, counted from the journal.

use crate::ids::{BindingId, ThreadId};
use crate::machine::{Fact, Subject, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Counts over facts in their order.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    wakes: Vec<(BindingId, String)>,
    turns: BTreeMap<ThreadId, Vec<String>>,
    /// Rings that made no wake: why → how often.
    quiet: BTreeMap<String, u64>,
    /// The event of the newest look whose news are not known yet.
    looked: Option<u64>,
    notes: u64,
    rings: u64,
    cut: u64,
}

impl Counts {
    /// `no` is the number of the event that left the fact.
    pub fn add(&mut self, no: u64, subject: &Subject, fact: &Fact) {
        if self.looked.is_some_and(|looked| looked != no) {
            self.looked = None;
            *self.quiet.entry("looked at, and nothing was new".into()).or_default() += 1;
        }
        match (subject, fact) {
            (Subject::Binding(id), Fact::Woken { causes }) => self.wakes.push((id.clone(), causes.join(", "))),
            (Subject::Thread(id), Fact::TurnBegan { causes, .. }) => {
                self.turns.entry(id.clone()).or_default().push(causes.join(", "));
            }
            (_, Fact::RingIgnored { why, .. }) => *self.quiet.entry(why.clone()).or_default() += 1,
            (_, Fact::DeliveryTaken { .. }) => self.rings += 1,
            (_, Fact::Observed { .. }) => self.looked = Some(no),
            (_, Fact::Adopted { .. }) => self.looked = None,
            (_, Fact::Learned { news }) => {
                self.looked = None;
                for note in news.iter().filter(|n| !n.wakes) {
                    self.notes += 1;
                    *self.quiet.entry(format!("noted as {}", note.cause)).or_default() += 1;
                }
            }
            (_, Fact::TurnCut { .. }) => self.cut += 1,
            _ => {}
        }
    }

    /// As JSON: wakes with their causes, turns by thread, what stayed quiet and
    /// why, tokens.
    pub fn summary(&self, world: &World) -> Value {
        let wakes: Vec<Value> = self
            .wakes
            .iter()
            .map(|(id, cause)| {
                let binding = world.bindings.get(id);
                let thread = binding.and_then(|b| b.steward.clone());
                json!({ "thread": thread, "key": binding.map(|b| b.key.clone()), "cause": cause })
            })
            .collect();
        let threads: Vec<Value> = self
            .turns
            .iter()
            .map(|(id, causes)| {
                let thread = world.threads.get(id);
                json!({
                    "thread": id,
                    "role": thread.map(|t| t.role),
                    "turns": causes.len(),
                    "causes": causes,
                    "tokens": thread.map(|t| t.tokens),
                })
            })
            .collect();
        json!({
            "wakes": wakes,
            "threads": threads,
            "turns": self.turns.values().map(Vec::len).sum::<usize>(),
            "cut": self.cut,
            "rings": self.rings,
            "notes": self.notes,
            "quiet": self.quiet,
        })
    }
}
