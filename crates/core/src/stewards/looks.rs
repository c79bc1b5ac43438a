//! Looks: what is read, and what is made of it.

use super::binding::{Binding, EndReason, News, Standing};
use super::diff::{Change, changes};
use super::ending;
use super::gate::LinkedPull;
use super::polls;
use crate::entity::RepoName;
use crate::ids::BindingId;
use crate::machine::{Effect, Fact, Outcome, View};
use crate::snapshot::{LookAsk, Snapshot, Ticket};
use crate::text::{hash, one_line};
use crate::threads::{ModelName, Role, create_steward};
use crate::trouble::{self, Trouble};

/// A window has closed, or a failed look is due again.
pub fn look_due(out: &mut Outcome, id: &BindingId) {
    let Some(binding) = out.world.bindings.get(id).filter(|b| b.look.is_none()) else { return };
    let branches: Vec<(RepoName, String)> = out
        .world
        .threads_of(id, Role::Worker)
        .filter_map(|t| Some((out.world.spec_of(t)?.name, t.branch()?.to_owned())))
        .collect();
    let ask = LookAsk {
        entity: binding.entity.clone(),
        pulls: binding.pulls.iter().map(|p| p.key.clone()).collect(),
        branches,
    };
    let effect = out.effect(Effect::Look { binding: id.clone(), ask });
    out.binding(id, Fact::LookBegan { effect });
}

/// What cannot be read changes nothing that is known: it is said and looked at
/// again. Only a clear "not found" means gone.
pub fn look_failed(out: &mut Outcome, id: &BindingId, trouble: &Trouble) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let (candidate, attempts) = (binding.standing == Standing::Candidate, binding.failed_looks + 1);
    match (trouble, candidate) {
        (Trouble::Gone { .. }, true) => out.binding(id, Fact::CandidateDropped { why: "it is gone".into() }),
        (Trouble::Gone { .. }, false) => {
            let again = out.now.after(out.world.host.settings.sweep);
            out.binding(id, Fact::LookFailed { says: "it is gone".into(), again });
            ending::begin(out, id, EndReason::Gone);
        }
        _ => {
            // Where it is given up, the sweep looks again anyway.
            let sweep = out.now.after(out.world.host.settings.sweep);
            let again = trouble::again(trouble, attempts, &out.now).unwrap_or(sweep);
            out.binding(id, Fact::LookFailed { says: one_line(&trouble.to_string()), again });
        }
    }
}

/// A snapshot came back.
pub fn looked(out: &mut Outcome, view: &View<'_>, id: &BindingId, snapshot: &Snapshot) {
    let Some(binding) = out.world.bindings.get(id).cloned() else { return };
    let mut whole = snapshot.clone();
    if let Some(before) = view.seen {
        whole.keep_from(before);
    }
    if whole != *snapshot {
        // The journal names what was read; what is observed is that with what stayed.
        out.keep.push((hash(&snapshot.body()), snapshot.clone()));
    }
    let snapshot = &whole;
    match binding.standing {
        Standing::Candidate => consider(out, &binding, snapshot),
        Standing::Open | Standing::Ending { .. } => observe(out, view, &binding, snapshot),
        Standing::Ended => {}
    }
}

/// Why a ticket is not to be managed here, if it is not.
fn unfit(out: &Outcome, binding: &Binding, ticket: &Ticket) -> Option<(EndReason, &'static str)> {
    let project = out.world.projects.get(&binding.project)?;
    let file = project.config.project.as_ref()?;
    if ticket.trashed {
        return Some((EndReason::Gone, "it was trashed"));
    }
    if !ticket.labels.iter().any(|l| l.eq_ignore_ascii_case(&file.label)) {
        return Some((EndReason::LabelRemoved, "it does not carry the label"));
    }
    if !ticket.assignee.as_ref().is_some_and(|a| a.me) {
        return Some((EndReason::Unassigned, "it is not assigned to this account"));
    }
    None
}

/// Adoption: in a listed team, labelled, assigned to this account, not finished.
fn consider(out: &mut Outcome, binding: &Binding, snapshot: &Snapshot) {
    let Some(ticket) = &snapshot.ticket else { return };
    let drop = |out: &mut Outcome, why: &str| out.binding(&binding.id, Fact::CandidateDropped { why: why.to_owned() });
    let Some(project) = out.world.projects.get(&binding.project).filter(|p| p.on) else {
        return drop(out, "its project is off");
    };
    let (Some(file), Some(playbook)) = (&project.config.project, project.config.ticket_playbook()) else {
        return drop(out, "the project has no playbook for tickets");
    };
    if !file.teams.iter().any(|t| t.eq_ignore_ascii_case(&ticket.team)) {
        return drop(out, "its team is not listed");
    }
    if playbook.is_terminal(&ticket.state.name)
        || ["completed", "canceled", "duplicate"].contains(&ticket.state.category.as_str())
    {
        return drop(out, "it is finished");
    }
    if let Some((_, why)) = unfit(out, binding, ticket) {
        return drop(out, why);
    }
    let model = playbook.models.steward.clone();
    let Some(model) = model.or_else(|| ModelName::parse("claude-code").ok()) else { return };
    let project = binding.project.clone();
    let steward = match binding.steward.as_ref().filter(|t| out.world.threads.contains(t)) {
        // It was managed here before: the same thread takes it up again.
        Some(former) => {
            let former = former.clone();
            out.thread(&former, Fact::Unarchived);
            if out.world.threads.get(&former).is_some_and(|t| t.failures > 0) {
                out.thread(&former, Fact::Retried);
            }
            former
        }
        None => create_steward(out, &project, &binding.id, &ticket.identifier, model),
    };
    keep(out, binding, snapshot);
    out.binding(&binding.id, Fact::Adopted { steward });
    let line = format!("{} was adopted: {}", ticket.identifier, one_line(&ticket.title));
    learn(out, binding, vec![Change { cause: "adopted", wakes: true, line }]);
}

fn observe(out: &mut Outcome, view: &View<'_>, binding: &Binding, snapshot: &Snapshot) {
    let project = out.world.projects.get(&binding.project);
    let playbook = project.and_then(|p| p.config.ticket_playbook()).cloned();
    let news =
        view.seen.map(|before| changes(&out.world, binding, playbook.as_ref(), before, snapshot)).unwrap_or_default();
    keep(out, binding, snapshot);
    learn(out, binding, news);
    let Some(ticket) = &snapshot.ticket else { return };
    let terminal = playbook.as_ref().is_some_and(|p| p.is_terminal(&ticket.state.name));
    match (&binding.standing, unfit(out, binding, ticket)) {
        (Standing::Open, Some((reason, _))) => ending::begin(out, &binding.id, reason),
        (Standing::Open, None) if terminal => {
            ending::begin(out, &binding.id, EndReason::Terminal { state: ticket.state.name.clone() })
        }
        (Standing::Ending { reason: EndReason::Terminal { .. } }, None) if !terminal => {
            out.binding(&binding.id, Fact::EndingTakenBack);
        }
        _ => {}
    }
}

/// The host computes whether a pull merges when it is asked, and services answer from
/// copies that may be old, so such an answer is read again a little later: 2 s, 4 s, …, six times; then the next ring or sweep does.
const COMPUTING: u32 = 6;

/// Records what was seen: the body once per content, the row always.
fn keep(out: &mut Outcome, binding: &Binding, snapshot: &Snapshot) {
    let body_hash = hash(&snapshot.body());
    let pulls = snapshot
        .pulls
        .iter()
        .map(|pull| {
            // Whose it is follows from its branch, whatever anybody said.
            let by = out
                .world
                .threads_of(&binding.id, Role::Worker)
                .find(|t| t.branch() == Some(pull.head_branch.as_str()))
                .map(|t| t.id.clone());
            LinkedPull::read(pull, by)
        })
        .collect();
    let (title, url, key, state) = match &snapshot.ticket {
        Some(t) => (t.title.clone(), t.url.clone(), t.identifier.clone(), Some(t.state.name.clone())),
        None => (binding.title.clone(), binding.url.clone(), binding.key.clone(), binding.state.clone()),
    };
    out.keep.push((body_hash.clone(), snapshot.clone()));
    let again = out.now.after(2_000 << binding.computing.min(COMPUTING));
    let behind = out.world.bindings.get(&binding.id).is_some_and(|b| polls::behind(b, snapshot));
    let full_look = Some(polls::full_look(&out.now));
    let title = one_line(&title);
    out.binding(&binding.id, Fact::Observed { snapshot: body_hash, title, url, key, state, pulls, behind, full_look });
    let unsettled = |b: &Binding| (b.computing_now() || behind) && b.computing < COMPUTING;
    let waits = out.world.bindings.get(&binding.id).is_some_and(unsettled);
    if waits {
        out.binding(&binding.id, Fact::LookAgain { at: again });
    }
}

fn learn(out: &mut Outcome, binding: &Binding, changes: Vec<Change>) {
    let at = out.now.wall;
    let news: Vec<News> = changes.into_iter().map(|c| c.news(at)).collect();
    super::wake::learn(out, &binding.id, news);
}
