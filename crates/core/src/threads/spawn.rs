//! Making threads.

use super::{Environment, EnvironmentKind, ModelName, Parcel, Permission, Role, SendMode, Sender, Thread, deliver};
use crate::entity::RepoName;
use crate::ids::{BindingId, ProjectId, ThreadId};
use crate::machine::{Caller, Fact, Outcome, World};
use crate::refusal::Refusal;
use crate::stewards::{Standing, spawn_command};
use crate::text::{cut, one_line};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a plain thread is to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentAsk {
    Checkout,
    Worktree,
    Directory { path: PathBuf },
}

/// A thread that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnAsk {
    pub role: Role,
    /// Inside a thread always that thread.
    pub parent: Option<ThreadId>,
    /// For a plain thread without a parent.
    pub project: Option<ProjectId>,
    pub title: String,
    /// Without one it waits for its first message.
    pub prompt: Option<String>,
    /// `provider/model/level`
    pub model: Option<String>,
    /// The repository that its worktree is of; the project's primary one by default.
    #[serde(default)]
    pub repo: Option<RepoName>,
    /// A plain thread has a worktree unless it is told otherwise.
    pub environment: Option<EnvironmentAsk>,
    /// It is archived with this one; the parent by default.
    pub owner: Option<ThreadId>,
    pub permission: Option<Permission>,
    /// Whether its parent hears of its ended turns.
    pub notify: Option<bool>,
    #[serde(default)]
    pub hidden: bool,
}

impl SpawnAsk {
    /// The least that names one.
    pub fn of(role: Role, title: &str, prompt: &str) -> SpawnAsk {
        SpawnAsk {
            role,
            parent: None,
            project: None,
            title: title.to_owned(),
            prompt: Some(prompt.to_owned()),
            model: None,
            repo: None,
            environment: None,
            owner: None,
            permission: None,
            notify: None,
            hidden: false,
        }
    }
}

/// Levels of threads below one another.
const DEPTH: usize = 4;

/// Starts a worker under a steward, a reviewer under a worker, or a plain thread
/// of its own. Four levels and no more; a worker only once leave was given; the
/// model of an effort's thread is the playbook's.
pub fn spawn(out: &mut Outcome, caller: &Caller, ask: &SpawnAsk) -> Result<ThreadId, Refusal> {
    let parent = match caller {
        Caller::Thread(id) => Some(id),
        Caller::Person => ask.parent.as_ref(),
    };
    let parent = match parent {
        Some(id) => Some(out.world.threads.get(id).ok_or_else(|| super::deliver::unknown(id))?.clone()),
        None => None,
    };
    if let Some(parent) = parent.as_ref().filter(|p| !p.live()) {
        let says = format!("{} is archived", parent.id);
        let refusal = Refusal::not_met("parent_thread_invalid", says, "start it from a live thread");
        return Err(refusal.because("archived"));
    }
    if parent.as_ref().is_some_and(|p| depth(&out.world, p) >= DEPTH) {
        let says = format!("threads are {DEPTH} levels deep and no more, and this one is on the last");
        let refusal =
            Refusal::not_met("parent_thread_invalid", says, "say what you need to your parent: stewards bus help");
        return Err(refusal.because("too_deep"));
    }
    let title = cut(&one_line(&ask.title), 120);
    if title.is_empty() || ask.prompt.as_ref().is_some_and(|p| p.trim().is_empty()) {
        return Err(Refusal::usage(
            "empty_spawn",
            "a thread needs a title, and its prompt may not be empty",
            "add --title and --prompt-file",
        ));
    }
    let id = match (ask.role, parent) {
        (Role::Plain, parent) => plain(out, ask, parent.as_ref(), title)?,
        (_, Some(parent)) => of_effort(out, ask, &parent, title)?,
        (_, None) => {
            return Err(Refusal::usage(
                "no_parent",
                "a worker or reviewer is started from inside its parent",
                "name one with --parent <thread>",
            ));
        }
    };
    if let Some(prompt) = &ask.prompt {
        let from = match caller {
            Caller::Thread(id) => Sender::Thread { id: id.clone() },
            Caller::Person => Sender::Person,
        };
        let parcel = Parcel { from, cause: "prompt", text: prompt.trim().to_owned(), wake: false, bus: None };
        deliver(out, &id, SendMode::Start, parcel)?;
    }
    out.say(match ask.prompt {
        Some(_) => format!("started {} {id}", ask.role.word()),
        None => format!("{} {id} waits for its first message: stewards thread tell {id}", ask.role.word()),
    });
    out.id("thread", &id);
    Ok(id)
}

/// From 1 for a thread without a parent.
fn depth(world: &World, thread: &Thread) -> usize {
    let mut depth = thread.role.depth().map_or(1, usize::from);
    let mut at = thread;
    while at.role == Role::Plain
        && let Some(parent) = at.parent.as_ref().and_then(|p| world.threads.get(p))
    {
        at = parent;
        depth += at.role.depth().map_or(1, usize::from);
        if depth >= DEPTH {
            break;
        }
    }
    depth
}

fn plain(out: &mut Outcome, ask: &SpawnAsk, parent: Option<&Thread>, title: String) -> Result<ThreadId, Refusal> {
    if let Some(parent) = parent.filter(|p| p.role != Role::Plain) {
        return Err(Refusal::usage(
            "wrong_parent",
            format!("a {} starts no plain threads", parent.role.word()),
            "stewards start workers, workers start reviewers: add --role",
        ));
    }
    let named = parent.map(|p| p.project.clone()).or_else(|| ask.project.clone());
    let project = named.filter(|p| out.world.projects.contains(p)).ok_or_else(|| {
        Refusal::usage(
            "unknown_project",
            "a thread belongs to a project",
            "name one with --project: stewards project list",
        )
    })?;
    let usual = parent.map(|p| p.model.to_string()).unwrap_or_else(|| out.world.host.settings.model.clone());
    let model = ask.model.clone().unwrap_or(usual);
    let model = ModelName::parse(&model)
        .map_err(|e| Refusal::usage("bad_model", e, "write --model provider/model/level; see: stewards agents"))?;
    let owner = ask.owner.clone().or_else(|| parent.map(|p| p.id.clone()));
    if let Some(owner) = &owner {
        super::writable(&out.world, owner)?;
    }
    let most = parent.map_or(Permission::Full, |p| p.permission);
    let permission =
        ask.permission.unwrap_or_else(|| parent.map_or(out.world.host.settings.permission, |p| p.permission));
    if wideness(permission) > wideness(most) {
        let says = format!("its parent may only do {}, so it cannot be given {}", most.word(), permission.word());
        return Err(Refusal::not_met("too_wide", says, "the owner may widen the parent: stewards thread update"));
    }
    if ask.repo.is_some() && !matches!(ask.environment, None | Some(EnvironmentAsk::Worktree)) {
        let says = "a repository is named for a worktree, and this thread has none";
        return Err(Refusal::usage("no_worktree", says, "leave out --repo or --environment"));
    }
    let kind = match ask.environment.clone().unwrap_or(EnvironmentAsk::Worktree) {
        EnvironmentAsk::Checkout => EnvironmentKind::Checkout,
        EnvironmentAsk::Worktree => worktree(out, &project, ask.repo.as_ref(), branch(&title, out.now.no))?,
        EnvironmentAsk::Directory { path } if path.is_absolute() => EnvironmentKind::Directory { path },
        EnvironmentAsk::Directory { path } => {
            let says = format!("{} is not an absolute path", path.display());
            return Err(Refusal::usage("bad_directory", says, "write it from the root on"));
        }
    };
    let id = out.mint_thread();
    let fact = Fact::ThreadCreated {
        project,
        title,
        role: Role::Plain,
        notify_parent: parent.is_some() && ask.notify.unwrap_or(true),
        parent: parent.map(|p| p.id.clone()),
        owner,
        binding: None,
        model,
        environment: Environment::unmade(kind),
        permission,
        hidden: ask.hidden,
        forks: None,
    };
    out.thread(&id, fact);
    let row = out.world.threads.get(&id).cloned();
    row.map_or(Ok(()), |row| super::deliver::provider_known(&out.world, &row))?;
    Ok(id)
}

/// Of the repository that is named, else of the primary one.
fn worktree(
    out: &Outcome,
    project: &ProjectId,
    named: Option<&RepoName>,
    branch: String,
) -> Result<EnvironmentKind, Refusal> {
    let Some((project, name)) = out.world.projects.get(project).zip(named) else {
        return Ok(EnvironmentKind::Worktree { branch, repo: None });
    };
    let spec = project.spec_of(name).ok_or_else(|| {
        let all: Vec<&str> = std::iter::once(&project.repo)
            .chain(project.config.repos.iter().map(|r| &r.name))
            .map(|name| name.0.as_str())
            .collect();
        let says = format!("{name} is no repository of {}", project.name);
        let hint = format!("there are {}; further ones are listed in .bb/repos.json", all.join(", "));
        Refusal::usage("unknown_repo", says, hint)
    })?;
    let repo = (spec.name != project.repo).then(|| Box::new(spec));
    Ok(EnvironmentKind::Worktree { branch, repo })
}

fn wideness(permission: Permission) -> u8 {
    match permission {
        Permission::Ask => 0,
        Permission::AcceptEdits => 1,
        Permission::Full => 2,
    }
}

/// A branch that no other thread has.
fn branch(name: &str, no: u64) -> String {
    let mut slug = String::new();
    for c in name.to_ascii_lowercase().chars() {
        match c.is_ascii_alphanumeric() {
            true => slug.push(c),
            false if !slug.ends_with('-') => slug.push('-'),
            false => {}
        }
    }
    let slug = cut_at(slug.trim_matches('-'), 40);
    format!("stewards/{}-{no}", if slug.is_empty() { "thread" } else { slug })
}

fn cut_at(text: &str, n: usize) -> &str {
    text.get(..n).unwrap_or(text).trim_end_matches('-')
}

fn of_effort(out: &mut Outcome, ask: &SpawnAsk, parent: &Thread, title: String) -> Result<ThreadId, Refusal> {
    if ask.role.depth() != parent.role.depth().map(|d| d + 1) || parent.role == Role::ProjectSteward {
        return Err(Refusal::usage(
            "wrong_parent",
            format!("a {} is not started by a {}", ask.role.word(), parent.role.word()),
            "stewards start workers, workers start reviewers",
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
    let branch = branch(&binding.key, out.now.no);
    let model = model_for(out, binding.id.clone(), ask)?;
    let kind = match ask.role {
        Role::Worker => worktree(out, &parent.project, ask.repo.as_ref(), branch)?,
        _ if ask.repo.is_some() => {
            let says = "a reviewer works on its worker's repository";
            return Err(Refusal::usage("no_worktree", says, "leave out --repo"));
        }
        // A reviewer reads the worker's pull from the project's checkout and needs no tree
        // of its own; a further repository has no checkout to read from.
        _ => match &parent.environment.kind {
            EnvironmentKind::Worktree { repo: Some(repo), .. } => {
                EnvironmentKind::Worktree { branch, repo: Some(repo.clone()) }
            }
            _ => EnvironmentKind::Checkout,
        },
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
            environment: Environment::unmade(kind),
            permission: parent.permission,
            notify_parent: false,
            hidden: ask.role == Role::Reviewer,
            forks: None,
        },
    );
    Ok(id)
}

fn model_for(out: &Outcome, binding: BindingId, ask: &SpawnAsk) -> Result<ModelName, Refusal> {
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
    let Some(asked) = ask.model.as_deref() else { return Ok(named) };
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
            environment: Environment::unmade(EnvironmentKind::Checkout),
            permission: out.world.host.settings.permission,
            notify_parent: false,
            hidden: false,
            forks: None,
        },
    );
    id
}
