//! Projects: added, turned on and off, configured, deleted.

use crate::config::Config;
use crate::entity::RepoName;
use crate::ids::{BindingId, ProjectId, ThreadId};
use crate::machine::{Caller, Effect, Fact, Outcome, Project};
use crate::ports::BbFiles;
use crate::refusal::Refusal;
use crate::stewards;
use crate::text::one_line;
use crate::threads;
use crate::trouble::Trouble;

fn known<'a>(out: &'a Outcome, id: &ProjectId) -> Result<&'a Project, Refusal> {
    out.world.projects.get(id).filter(|p| p.deleted.is_none()).ok_or_else(|| {
        Refusal::usage("unknown_project", format!("no project is called {id}"), "see: stewards project list")
    })
}

/// Clones it and reads its configuration. One project a primary repository.
pub fn added(out: &mut Outcome, name: &str, repo: &RepoName, remote: &str) -> Result<(), Refusal> {
    let name = one_line(name);
    if name.is_empty() || remote.trim().is_empty() {
        return Err(Refusal::usage(
            "empty_project",
            "a project needs a name and a repository",
            "stewards project add <name> --repo <owner/name> --remote <url>",
        ));
    }
    let known = out.world.live_projects().find(|p| p.repo == *repo).map(|p| (p.id.clone(), p.name.clone()));
    if let Some((id, known_name)) = known {
        if known_name == name {
            out.say(format!("{name} is there already"));
            out.id("project", id);
            return Ok(());
        }
        return Err(Refusal::usage(
            "known_repo",
            format!("{repo} belongs to the project {known_name}"),
            "one project a primary repository",
        ));
    }
    let id = out.mint_project();
    out.project(&id, Fact::ProjectAdded { name: name.clone(), repo: repo.clone(), remote: remote.trim().to_owned() });
    if let Some(spec) = out.world.projects.get(&id).map(|p| p.spec()) {
        out.effect(Effect::Checkout { spec });
    }
    out.say(format!("added {name}"));
    out.id("project", id);
    Ok(())
}

/// Stewarding is turned on or off here.
pub fn switched(out: &mut Outcome, id: &ProjectId, on: bool) -> Result<(), Refusal> {
    let project = known(out, id)?;
    let (name, was) = (project.name.clone(), project.on);
    match (was, on) {
        (false, true) => stewards::switch_on(out, id),
        (true, false) => stewards::switch_off(out, id),
        _ => {}
    }
    out.say(format!("{name} is {}", if on { "on" } else { "off" }));
    out.id("project", id);
    Ok(())
}

/// Deletes a project with all its threads, efforts and items here. What it is on
/// Linear and GitHub stays as it is, and another project may take that up again.
pub fn delete(out: &mut Outcome, caller: &Caller, id: &ProjectId, yes: bool) -> Result<(), Refusal> {
    caller.person_only("deletes projects", "say what you need in your report")?;
    let name = known(out, id)?.name.clone();
    let world = &out.world;
    if let Some(binding) = world.bindings.values().find(|b| b.project == *id && b.merging.is_some()) {
        let says = format!("a merge for {} is under way", binding.key);
        return Err(Refusal::busy("merging", says, "try again in a moment"));
    }
    let all: Vec<ThreadId> =
        world.threads.values().filter(|t| t.project == *id && t.deleted.is_none()).map(|t| t.id.clone()).collect();
    let bindings: Vec<BindingId> = world.bindings.values().filter(|b| b.project == *id).map(|b| b.id.clone()).collect();
    if !yes {
        let live = world.bindings.values().filter(|b| b.project == *id && b.live()).count();
        let busy = all.iter().filter(|t| world.threads.get(t).is_some_and(|t| t.status.busy())).count();
        let says = format!(
            "this deletes {name} with {} threads ({busy} of them at work) and {live} live efforts; their transcripts go",
            all.len()
        );
        return Err(Refusal::not_met("needs_yes", says, "add --yes"));
    }
    // Children first, so that nobody is told of the end of a parent.
    for thread in all.iter().rev() {
        threads::discard(out, thread);
    }
    for binding in bindings {
        out.binding(&binding, Fact::BindingPurged);
    }
    out.project(id, Fact::ProjectDeleted);
    out.say(format!("deleted {name}, {} threads and all that was known of its efforts", all.len()));
    Ok(())
}

pub fn config_read(out: &mut Outcome, id: &ProjectId, result: &Result<BbFiles, Trouble>) {
    let Some(project) = out.world.projects.get(id).filter(|p| p.deleted.is_none()) else { return };
    match result {
        Ok(files) => {
            let next = Config::read(&project.config, &files.commit, &files.files);
            if next != project.config || project.unread.is_some() {
                out.project(id, Fact::ConfigRead { config: Box::new(next) });
                stewards::project_steward(out, id);
            }
        }
        Err(trouble) => config_unreadable(out, id, trouble),
    }
}

/// Said once for as long as it stays the same.
pub fn config_unreadable(out: &mut Outcome, id: &ProjectId, trouble: &Trouble) {
    let says = one_line(&trouble.to_string());
    if out.world.projects.get(id).is_some_and(|p| p.unread.as_deref() != Some(&says)) {
        out.project(id, Fact::ConfigUnreadable { says });
    }
}
