//! Doorbells: what a ring makes of itself before anything is read.

use super::binding::{Binding, Standing};
use crate::entity::{Entity, PullKey, RepoName};
use crate::ids::{BindingId, ProjectId};
use crate::machine::{Effect, Fact, Outcome, Subject, View, World};
use crate::ports::{About, Ring};
use crate::snapshot::{AdoptAsk, Found};
use crate::trouble::Trouble;

/// A verified webhook. It is on record before it is answered, counts once per
/// delivery, and only makes something due to be looked at.
pub fn rang(out: &mut Outcome, view: &View<'_>, ring_: &Ring) {
    let ignored = |why: &str| Fact::RingIgnored { what: ring_.what.clone(), why: why.to_owned() };
    if view.delivered {
        out.fact(Subject::Host, ignored("this delivery was taken before"));
        return;
    }
    out.fact(
        Subject::Host,
        Fact::DeliveryTaken {
            delivery: ring_.delivery.clone(),
            source: ring_.source.clone(),
            what: ring_.what.clone(),
        },
    );
    let why = if ring_.stale { format!("{} (stale)", ring_.what) } else { ring_.what.clone() };
    match &ring_.about {
        About::Ticket { uuid, key, team } => {
            let entity = Entity::Ticket { uuid: uuid.clone() };
            // One that has ended may have been reopened: it is considered anew.
            let known = out.world.bindings.get(&entity.binding()).is_some_and(|b| b.standing != Standing::Ended);
            let project = out.world.project_of_team(team).map(|p| p.id.clone());
            match (known, project) {
                (true, _) => ring(out, &entity.binding(), &why),
                (false, Some(project)) => candidate(out, &project, &Found { entity, key: key.clone() }, &why),
                (false, None) => out.fact(Subject::Host, ignored("no project that is switched on lists its team")),
            }
        }
        About::Pull { pull, branch } => {
            let found = pulls_binding(&out.world, |b| b.pull(pull).is_some())
                .or_else(|| branch.as_ref().and_then(|br| of_branch(&out.world, &pull.repo, br)));
            ring_or_ignore(out, found, &why, ignored("no effort has this pull request"));
        }
        About::Head { repo, sha, branch } => {
            let found =
                pulls_binding(&out.world, |b| b.pulls.iter().any(|p| p.key.repo == *repo && p.head_sha == *sha))
                    .or_else(|| branch.as_ref().and_then(|br| of_branch(&out.world, repo, br)));
            ring_or_ignore(out, found, &why, ignored("no effort has this commit"));
        }
        About::Push { repo, branch } => {
            let found = of_branch(&out.world, repo, branch);
            let project = out.world.projects.values().find(|p| p.on && p.repo == *repo).map(|p| p.spec());
            match (found, project) {
                (Some(id), _) => ring(out, &id, &why),
                // It may have changed `.bb`: the default branch's name is the remote's affair.
                (None, Some(spec)) => {
                    out.effect(Effect::ReadBb { spec });
                }
                (None, None) => out.fact(Subject::Host, ignored("no effort has this branch")),
            }
        }
        About::Nothing => out.fact(Subject::Host, ignored("it concerns nothing here")),
    }
}

fn pulls_binding(world: &World, fits: impl Fn(&Binding) -> bool) -> Option<BindingId> {
    world.bindings.values().find(|b| b.live() && fits(b)).map(|b| b.id.clone())
}

fn of_branch(world: &World, repo: &RepoName, branch: &str) -> Option<BindingId> {
    let thread = world
        .threads
        .values()
        .find(|t| t.branch() == Some(branch) && world.spec_of(t).is_some_and(|spec| spec.name == *repo))?;
    thread.binding.clone().filter(|b| world.bindings.get(b).is_some_and(Binding::live))
}

fn ring_or_ignore(out: &mut Outcome, found: Option<BindingId>, why: &str, ignored: Fact) {
    match found {
        Some(id) => ring(out, &id, why),
        None => out.fact(Subject::Host, ignored),
    }
}

/// The first ring opens a window; later ones join it and do not lengthen it.
pub fn ring(out: &mut Outcome, id: &BindingId, why: &str) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let closes = match &binding.window {
        Some(window) => window.closes.clone(),
        None => out.now.after(out.world.host.settings.debounce),
    };
    out.binding(id, Fact::RingJoined { why: why.to_owned(), closes });
}

/// Something that may be adopted: it is looked at before anything is believed.
fn candidate(out: &mut Outcome, project: &ProjectId, found: &Found, why: &str) {
    let id = found.entity.binding();
    let known = out.world.bindings.get(&id);
    // What a person let go is not taken up again by itself.
    if known.is_some_and(|b| matches!(b.ended, Some((super::binding::EndReason::Detached, _)))) {
        return;
    }
    let known = known.map(|b| b.standing.clone());
    if matches!(known, None | Some(Standing::Ended)) {
        let fact =
            Fact::CandidateSeen { project: project.clone(), entity: found.entity.clone(), key: found.key.clone() };
        out.binding(&id, fact);
    }
    ring(out, &id, why);
}

/// A sweep is the backstop of lost rings: the configuration is read, and what may be
/// adopted is searched. What is watched already is asked for by polls.
pub fn sweep_due(out: &mut Outcome, id: &ProjectId) {
    let Some(project) = out.world.projects.get(id).filter(|p| p.on && !p.sweeping) else { return };
    let spec = project.spec();
    let checkout = project.checkout.is_some();
    let next = out.now.after(out.world.host.settings.sweep);
    out.project(id, Fact::SweepBegan { next });
    // A checkout that was given up is tried again; one in the air is the same one.
    out.effect(if checkout { Effect::ReadBb { spec } } else { Effect::Checkout { spec } });
    look_for(out, id);
}

/// Looks for what may be adopted, between two sweeps.
pub fn find(out: &mut Outcome, id: &ProjectId) {
    let Some(project) = out.world.projects.get(id).filter(|p| p.on && !p.sweeping) else { return };
    let Some(next) = project.next_sweep.clone() else { return };
    out.project(id, Fact::SweepBegan { next });
    look_for(out, id);
}

fn look_for(out: &mut Outcome, id: &ProjectId) {
    let file = out.world.projects.get(id).and_then(|p| p.config.project.as_ref());
    let ask = file.map(|f| AdoptAsk { label: f.label.clone(), teams: f.teams.clone() });
    match ask.filter(|a| !a.teams.is_empty()) {
        Some(ask) => {
            out.effect(Effect::FindAdoptable { project: id.clone(), ask });
        }
        None => out.project(id, Fact::SweepEnded { found: 0, trouble: None }),
    }
}

/// A search that failed adopts nothing and changes nothing that is known.
pub fn swept(out: &mut Outcome, id: &ProjectId, found: &Result<Vec<Found>, Trouble>) {
    match found {
        Err(trouble) => {
            out.project(id, Fact::SweepEnded { found: 0, trouble: Some(crate::text::one_line(&trouble.to_string())) })
        }
        Ok(all) => {
            out.project(id, Fact::SweepEnded { found: all.len(), trouble: None });
            let Some(project) = out.world.projects.get(id).filter(|p| p.on) else { return };
            let per_pass = project.config.project.as_ref().map_or(10, |f| f.per_pass);
            let fresh: Vec<&Found> = all
                .iter()
                .filter(|f| out.world.bindings.get(&f.entity.binding()).is_none_or(|b| b.standing == Standing::Ended))
                .take(per_pass)
                .collect();
            for found in fresh {
                candidate(out, id, found, "sweep");
            }
        }
    }
}

/// The pull that an address names, if it is one of `repo`.
pub fn pull_of_url(url: &str, repo: &RepoName) -> Option<PullKey> {
    let path = url.split(['?', '#']).next()?.trim_end_matches('/');
    let mut parts = path.rsplit('/');
    let number: u64 = parts.next()?.parse().ok()?;
    if parts.next()? != "pull" {
        return None;
    }
    let name = parts.next()?;
    let key = PullKey { repo: RepoName(format!("{}/{name}", parts.next()?)), number };
    (key.repo == *repo && number > 0).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulls_address_is_known_in_its_own_repository_only() {
        let repo = RepoName("Acme/shop".into());
        let key = PullKey { repo: repo.clone(), number: 7 };
        assert_eq!(pull_of_url("https://github.com/acme/shop/pull/7", &repo), Some(key.clone()));
        assert_eq!(pull_of_url("http://127.0.0.1:9/acme/shop/pull/7/?x#y", &repo), Some(key));
        assert_eq!(pull_of_url("https://github.com/acme/other/pull/7", &repo), None);
        assert_eq!(pull_of_url("https://github.com/acme/shop/issues/7", &repo), None);
    }
}
