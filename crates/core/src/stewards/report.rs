//! `steward_report`: the status record that ends a turn.

use super::binding::Binding;
use crate::ids::ThreadId;
use crate::machine::{Caller, Fact, Outcome, World};
use crate::refusal::Refusal;
use crate::text::{cut, one_line};
use crate::threads::Role;
use serde::{Deserialize, Serialize};

/// Who acts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The owner of this server.
    User,
    /// The steward itself.
    Steward,
    /// Somebody else: a worker, a reviewer, a teammate.
    Other,
}

/// What a steward says at the end of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// The entity's state as the steward sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    pub summary: String,
    pub next_action: String,
    pub actor: Actor,
    /// Items of the ready gate that hold: their numbers, or their exact words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<String>,
    /// No further pull will be opened.
    #[serde(default)]
    pub no_more_pulls: bool,
    /// Keeps a terminal effort open, and says what for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_through: Option<String>,
}

fn binding_of<'a>(world: &'a World, thread: &ThreadId) -> Option<&'a Binding> {
    let thread = world.threads.get(thread).filter(|t| t.role == Role::Steward)?;
    world.bindings.get(thread.binding.as_ref()?)
}

/// Takes a report whole or refuses it whole.
pub fn reported(out: &mut Outcome, caller: &Caller, mut report: Report) -> Result<(), Refusal> {
    let Caller::Thread(thread) = caller else {
        return Err(Refusal::usage("not_a_steward", "only a steward reports", "see: stewards show <key>"));
    };
    let Some(binding) = binding_of(&out.world, thread).filter(|b| b.live()).cloned() else {
        return Err(Refusal::not_met(
            "not_a_steward",
            format!("{thread} is no steward of an open effort"),
            "workers tell their steward: stewards bus report",
        ));
    };
    report.summary = cut(report.summary.trim(), 2_000);
    report.next_action = cut(&one_line(&report.next_action), 300);
    if report.summary.is_empty() || report.next_action.is_empty() {
        return Err(Refusal::usage(
            "empty_report",
            "a report needs a summary and a next action",
            "say in a sentence each what is so and what comes next",
        ));
    }
    let project = out.world.projects.get(&binding.project);
    let checklist: &[String] = match project.and_then(|p| p.config.ticket_playbook()) {
        Some(playbook) => &playbook.ready.checklist,
        None => &[],
    };
    let mut ready = Vec::new();
    for item in &report.ready {
        let found = match item {
            serde_json::Value::Number(n) => {
                n.as_u64().and_then(|n| usize::try_from(n).ok()).and_then(|n| checklist.get(n.checked_sub(1)?))
            }
            serde_json::Value::String(s) => checklist
                .iter()
                .find(|c| *c == s)
                .or_else(|| s.trim().parse::<usize>().ok().and_then(|n| checklist.get(n.checked_sub(1)?))),
            _ => None,
        };
        match found {
            Some(words) if !ready.contains(words) => ready.push(words.clone()),
            Some(_) => {}
            None => {
                let listed: Vec<String> =
                    checklist.iter().enumerate().map(|(n, c)| format!("{}. {c}", n + 1)).collect();
                return Err(Refusal::usage(
                    "unknown_item",
                    format!("{item} is no item of the ready gate, so nothing of this report was recorded"),
                    if listed.is_empty() { "this playbook has no checklist".into() } else { listed.join("\n") },
                ));
            }
        }
    }
    if let Some(wait) = report.waiting_on.as_mut() {
        *wait = cut(&one_line(wait), 300);
        let names_user = wait
            .split(|c: char| !c.is_alphanumeric())
            .any(|w| ["user", "owner", "human", "person"].iter().any(|u| w.eq_ignore_ascii_case(u)));
        if names_user && out.world.open_needs(&binding.id).next().is_none() {
            return Err(Refusal::not_met(
                "no_open_item",
                "it waits on the person, but no open item says so; nothing of this report was recorded",
                "name what it waits for: a worker, a pull request, a check",
            ));
        }
    }
    out.binding(&binding.id, Fact::Reported { report, ready });
    out.thread(thread, Fact::ReportTaken);
    out.say(format!("recorded for {}", binding.key));
    Ok(())
}

/// What the steward should know right after its report: said in the tool's
/// answer, so that it needs no turn of its own.
pub fn after_report(world: &World, thread: &ThreadId) -> Vec<String> {
    let Some(binding) = binding_of(world, thread) else { return Vec::new() };
    let project = world.projects.get(&binding.project);
    let Some(playbook) = project.and_then(|p| p.config.ticket_playbook()) else { return Vec::new() };
    let checklist = &playbook.ready.checklist;
    let open: Vec<String> = checklist
        .iter()
        .enumerate()
        .filter(|(_, c)| !binding.ready.contains(c))
        .map(|(n, c)| format!("{}. {c}", n + 1))
        .collect();
    if binding.leave {
        let working = world.workers_in_flight(&binding.id).count();
        return vec![format!("Ready gate met. You have leave to start workers ({working} in flight).")];
    }
    if open.is_empty() {
        return vec!["Ready gate met. Leave to start workers is not given yet; you are woken when it is.".into()];
    }
    vec![format!("Ready gate not met. Open: {}", open.join(" "))]
}
