//! One function a verb: the command line as the daemon's client.

mod bus;
mod hooks;
mod linear;
mod lists;
mod login;
mod status;
mod threads;

use crate::cli::{Cli, Command, ConfigVerb, EnvVerb, ProjectVerb, SkillVerb};
use crate::client::Client;
use crate::out::{self, Outcome};
use crate::{background, backup, demo, files, serve, settings, twin};
use anyhow::Context;
use std::path::Path;
use stewards_core::entity::RepoName;
use stewards_core::machine::Reply;
use stewards_core::refusal::Refusal;
use stewards_web::Ask;

pub fn run(cli: Cli) -> Outcome {
    let (dir, json) = (cli.dir.as_deref(), cli.json);
    let act = |ask: Ask| said(json, Client::new(dir)?.act(&ask)?);
    match cli.command {
        Command::Demo(args) => demo::run(dir, &args, json),
        Command::Serve { tied, quiet, verb: None } => serve::run(&settings::dir(dir)?, tied, quiet),
        Command::Serve { verb: Some(verb), .. } => background::run(&settings::dir(dir)?, verb, json),
        Command::Stop { .. } => act(Ask::StopAll { on: true }),
        Command::Resume => act(Ask::StopAll { on: false }),
        Command::Backup { file } => backup::backup(&settings::dir(dir)?, &file, json),
        Command::Restore { file } => backup::restore(&settings::dir(dir)?, &file, json),
        Command::Agents => lists::agents(dir, json),
        Command::Skill { verb: SkillVerb::List { project } } => lists::skills(dir, project.as_deref(), None, json),
        Command::Skill { verb: SkillVerb::Show { name, project } } => {
            lists::skills(dir, project.as_deref(), Some(&name), json)
        }
        Command::Env { verb: EnvVerb::List } => lists::environments(dir, json),
        Command::Twin(args) => twin::run(dir, &args, json),
        Command::ScriptedAgent => scripted(),
        Command::Init(args) => files::init(&args, json),
        Command::Check { path, offline } => files::check(dir, path.as_deref(), offline, json),
        Command::Config { verb: ConfigVerb::Schema { file } } => files::schema(file),
        Command::Linear { verb } => linear::run(dir, verb, json),
        Command::Hooks { verb } => hooks::run(dir, verb, json),
        Command::Link => link(dir, json),
        Command::Project { verb: ProjectVerb::Add { name, repo: Some(repo), remote: Some(remote) } } => {
            act(Ask::AddProject { name, repo, remote })
        }
        Command::Project { verb: ProjectVerb::Add { name, .. } } => act(of_checkout(Path::new(&name))?),
        Command::Project { verb: ProjectVerb::Show { name } } => lists::project(dir, &name, json),
        Command::Project { verb: ProjectVerb::Delete { name, yes } } => act(Ask::DeleteProject { project: name, yes }),
        Command::Project { verb: ProjectVerb::List } => lists::projects(dir, json),
        Command::Enable(p) => act(Ask::Switch { project: p.project, on: true }),
        Command::Disable(p) => act(Ask::Switch { project: p.project, on: false }),
        Command::List => lists::efforts(dir, json),
        Command::Show { key } => lists::show(dir, &key, json),
        Command::Explain { key } => lists::explain(dir, &key, json),
        Command::Brief { key } => lists::brief(dir, &key, json),
        Command::SpawnFlags { key, role } => lists::spawn_flags(dir, key.as_deref(), role.into(), json),
        Command::Gate { pull } => lists::gate(dir, &pull, json),
        Command::Merge { pull } => act(Ask::Merge { pull }),
        Command::Needs => lists::needs(dir, json),
        Command::Done { id } => act(Ask::Done { need: id }),
        Command::Thread { verb } => threads::run(dir, verb, json),
        Command::Bus { verb } => bus::run(dir, verb, json),
        Command::Login(args) => login::login(dir, &args, json),
        Command::Logout { service } => login::logout(dir, service, json),
        Command::Status => status::status(dir, json),
        Command::Usage { api: _ } => status::quotas(dir, json),
        Command::Whoami => login::whoami(dir, json),
        Command::Build => lists::build(dir, json),
    }
}

/// Prints what the daemon answered.
fn said(json: bool, reply: Reply) -> Outcome {
    if json {
        return out::json(&reply);
    }
    reply.says.iter().for_each(|l| out::line(l));
    Ok(0)
}

fn scripted() -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ran = runtime.block_on(stewards_twin::scripted::run());
    // Its standard input may still be read from; that must not hold it up.
    runtime.shutdown_background();
    match ran {
        Ok(()) => Ok(0),
        Err(e) => anyhow::bail!("the scripted agent: {e}"),
    }
}

fn link(dir: Option<&Path>, json: bool) -> Outcome {
    let found = settings::daemon(&settings::dir(dir)?);
    let client = Client::new(dir)?;
    let answer = client.post("/api/link", &serde_json::Value::Null)?;
    let code = answer.get("code").and_then(|c| c.as_str()).context("the daemon gave no code")?;
    let base = found.map(|d| d.url).unwrap_or_default();
    let url = format!("{base}/enter?code={code}");
    if json {
        return out::json(&serde_json::json!({ "url": url }));
    }
    out::line(&url);
    Ok(0)
}

/// The project that a checkout belongs to. The checkout itself is left alone.
fn of_checkout(path: &Path) -> anyhow::Result<Ask> {
    let no = |says: String| {
        let hint = "name a checkout that has an `origin`, or give a name with --repo and --remote";
        Refusal::usage("no_origin", says, hint)
    };
    if !path.is_dir() {
        return Err(no(format!("{} is no directory", path.display())).into());
    }
    let remote = stewards_agents::origin(path).ok_or_else(|| no(format!("{} has no origin", path.display())))?;
    let repo = RepoName::of_remote(&remote).ok_or_else(|| no(format!("`{remote}` names no owner and repository")))?;
    let name = repo.0.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Ask::AddProject { name, repo: repo.0, remote })
}

/// A text that a caller's own process reads, from a regular file only.
pub fn text_file(path: &Path) -> anyhow::Result<String> {
    let bad = |says: String| Refusal::usage("bad_file", says, "name a regular file with text in it");
    let meta = std::fs::metadata(path).map_err(|e| bad(format!("{} cannot be read: {e}", path.display())))?;
    if !meta.is_file() {
        return Err(bad(format!("{} is no regular file", path.display())).into());
    }
    if meta.len() > 1_000_000 {
        return Err(bad(format!("{} is larger than a megabyte", path.display())).into());
    }
    Ok(std::fs::read_to_string(path).map_err(|e| bad(format!("{} cannot be read: {e}", path.display())))?)
}
