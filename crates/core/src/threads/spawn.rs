//! Making threads.

use super::{Environment, EnvironmentKind, EnvironmentState, ModelName, Parcel, Role, SendMode, Sender, deliver};
use crate::ids::{BindingId, ProjectId, ThreadId};
use crate::machine::{Fact, Outcome};
use crate::refusal::Refusal;
use crate::stewards::{Standing, spawn_command};
use crate::text::{cut, one_line};

/// A thread that a steward or a worker asks for.
#[derive(Clone, Debug)]
pub struct SpawnAsk<'a> {
    pub parent: &'a ThreadId,
    pub role: Role,
    pub title: &'a str,
    pub prompt: &'a str,
    pub model: Option<&'a str>,
}

/// Starts a worker under a steward or a reviewer under a worker. Four levels
/// and no more; a worker only once leave was given; the model is the playbook's.
pub fn spawn(out: &mut Outcome, ask: &SpawnAsk<'_>) -> Result<ThreadId, Refusal> {
    let Some(parent) = out.world.threads.get(ask.parent).cloned() else {
        return Err(Refusal::usage(
            "unknown_thread",
            format!("no thread is called {}", ask.parent),
            "see: stewards thread list",
        ));
    };
    if parent.archived.is_some() {
        return Err(Refusal::not_met(
            "thread_archived",
            format!("{} is archived", parent.id),
            "start it from a live thread",
        ));
    }
    if parent.role.depth() >= 4 {
        return Err(Refusal::not_met(
            "too_deep",
            format!("{} is a reviewer, the fourth and last level, and starts no threads", parent.id),
            "say what you need to the worker: stewards bus help",
        ));
    }
    if ask.role.depth() != parent.role.depth() + 1 || parent.role == Role::ProjectSteward {
        return Err(Refusal::usage(
            "wrong_parent",
            format!("a {} is not started by a {}", ask.role.word(), parent.role.word()),
            "stewards start workers, workers start reviewers",
        ));
    }
    let title = cut(&one_line(ask.title), 120);
    if title.is_empty() || ask.prompt.trim().is_empty() {
        return Err(Refusal::usage(
            "empty_spawn",
            "a thread needs a title and a prompt",
            "add --title and --prompt-file",
        ));
    }
    let binding = parent.binding.as_ref().and_then(|b| out.world.bindings.get(b));
    let Some(binding) = binding.filter(|b| b.standing == Standing::Open) else {
        return Err(Refusal::not_met(
            "not_open",
            "the effort that this thread works for is not open",
            "see: stewards list",
        ));
    };
    if ask.role == Role::Worker && !binding.leave {
        return Err(Refusal::not_met(
            "no_leave",
            format!("there is no leave yet to start workers for {}", binding.key),
            "report the items of the ready gate that hold: steward_report { ready: [numbers] }",
        ));
    }
    let model = model_for(out, binding.id.clone(), ask)?;
    let branch = format!(
        "stewards/{}-{}",
        binding.key.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-"),
        out.now.no
    );
    let environment = match ask.role {
        Role::Worker => Environment { kind: EnvironmentKind::Worktree { branch }, state: EnvironmentState::Unmade },
        // A reviewer reads the worker's pull from the project's checkout and needs no tree of its own.
        _ => Environment { kind: EnvironmentKind::Checkout, state: EnvironmentState::Unmade },
    };
    let id = out.mint_thread();
    out.thread(
        &id,
        Fact::ThreadCreated {
            project: parent.project.clone(),
            title,
            role: ask.role,
            parent: Some(parent.id.clone()),
            owner: Some(parent.id.clone()),
            binding: parent.binding.clone(),
            model,
            environment,
            hidden: ask.role == Role::Reviewer,
        },
    );
    let from = Sender::Thread { id: parent.id };
    let parcel = Parcel { from, cause: "prompt", text: ask.prompt.trim().to_owned(), wake: false, bus: None };
    deliver(out, &id, SendMode::Start, parcel)?;
    out.say(format!("started {} {id}", ask.role.word()));
    out.id("thread", &id);
    Ok(id)
}

fn model_for(out: &Outcome, binding: BindingId, ask: &SpawnAsk<'_>) -> Result<ModelName, Refusal> {
    let playbook = out
        .world
        .bindings
        .get(&binding)
        .and_then(|b| out.world.projects.get(&b.project))
        .and_then(|p| p.config.ticket_playbook());
    let models = playbook.map(|p| &p.models);
    let named = match ask.role {
        Role::Reviewer => models.and_then(|m| m.reviewer.clone()),
        _ => models.and_then(|m| m.worker.clone()),
    };
    let Some(named) = named else {
        return Err(Refusal::new(
            crate::refusal::Exit::Configuration,
            "no_model",
            format!("the playbook names no model for a {}", ask.role.word()),
            format!("add models.{} to the playbook's front matter", ask.role.word()),
        ));
    };
    let Some(asked) = ask.model else { return Ok(named) };
    let asked = ModelName::parse(asked).map_err(|e| Refusal::usage("bad_model", e, "write provider/model/level"))?;
    if asked != named {
        return Err(Refusal::not_met(
            "misfit",
            format!("the playbook wants {named} for a {}, not {asked}", ask.role.word()),
            spawn_command(ask.role, &named),
        ));
    }
    Ok(named)
}

/// The steward of a binding, under the project's steward.
pub fn create_steward(
    out: &mut Outcome,
    project: &ProjectId,
    binding: &BindingId,
    title: &str,
    model: ModelName,
) -> ThreadId {
    let parent = out.world.projects.get(project).and_then(|p| p.steward.clone());
    let id = out.mint_thread();
    out.thread(
        &id,
        Fact::ThreadCreated {
            project: project.clone(),
            title: title.to_owned(),
            role: Role::Steward,
            owner: parent.clone(),
            parent,
            binding: Some(binding.clone()),
            model,
            environment: Environment { kind: EnvironmentKind::Checkout, state: EnvironmentState::Unmade },
            hidden: false,
        },
    );
    id
}
