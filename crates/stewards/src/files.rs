//! `init` and `check`: the files of a repository, without a daemon.

use crate::cli::{Init, SchemaArg};
use crate::out::{self, Outcome};
use crate::{live_check, settings};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use stewards_core::config::{Config, Starting, schemas, starting_files};
use stewards_core::entity::RepoName;
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::threads::ModelName;

/// Writes the starting points; a file that is there is left as it is.
pub fn init(args: &Init, json: bool) -> Outcome {
    for model in [&args.steward, &args.worker, &args.reviewer] {
        ModelName::parse(model).map_err(|e| Refusal::usage("bad_model", e, "write provider/model/level"))?;
    }
    if args.team.is_empty() || !args.team.chars().all(|c| c.is_ascii_alphanumeric()) {
        let says = format!("`{}` is no key of a Linear team", args.team);
        return Err(Refusal::usage("bad_team", says, "it is the part before the number of a ticket: DEMO").into());
    }
    let root = repository(args.path.as_deref())?;
    let starting =
        Starting { team: &args.team, steward: &args.steward, worker: &args.worker, reviewer: &args.reviewer };
    let mut done = Vec::new();
    for (path, text) in starting_files(&starting) {
        let target = root.join(".bb").join(&path);
        let there = target.exists();
        if !there {
            std::fs::create_dir_all(target.parent().unwrap_or(&root))?;
            std::fs::write(&target, text).with_context(|| target.display().to_string())?;
        }
        done.push((format!(".bb/{path}"), if there { "left as it is" } else { "written" }));
    }
    if json {
        return out::json(&done.into_iter().collect::<BTreeMap<_, _>>());
    }
    for (path, what) in done {
        out::line(&format!("{path}: {what}"));
    }
    out::line("Commit and push them to the default branch: they are read from there.");
    Ok(0)
}

fn repository(path: Option<&Path>) -> anyhow::Result<PathBuf> {
    let start = std::path::absolute(path.unwrap_or(Path::new(".")))?;
    let found = start.ancestors().find(|d| d.join(".git").exists());
    found.map(Path::to_owned).ok_or_else(|| {
        let says = format!("{} is in no git repository", start.display());
        Refusal::usage("no_repository", says, "name the repository's directory").into()
    })
}

/// Prints the JSON Schema of a file.
pub fn schema(file: SchemaArg) -> Outcome {
    let text = match file {
        SchemaArg::Project => schemas::PROJECT,
        SchemaArg::Roles => schemas::ROLES,
        SchemaArg::Repos => schemas::REPOS,
        SchemaArg::Playbook => schemas::PLAYBOOK,
    };
    out::line(text.trim_end());
    Ok(0)
}

/// Reads the files of the working copy as they would be read from the remote, and asks the
/// services whether what they name is there.
pub fn check(dir: Option<&Path>, path: Option<&Path>, offline: bool, json: bool) -> Outcome {
    let root = repository(path)?;
    let mut files = BTreeMap::new();
    collect(&root.join(".bb"), Path::new(""), &mut files)?;
    if !files.contains_key(stewards_core::config::PROJECT_FILE) {
        let says = format!("{} has no .bb/{}", root.display(), stewards_core::config::PROJECT_FILE);
        return Err(Refusal::new(
            Exit::Configuration,
            "no_project_file",
            says,
            "stewards init --team <KEY> writes one",
        )
        .into());
    }
    let mut config = Config::read(&Config::default(), "working copy", &files);
    if !offline {
        let origin = stewards_agents::origin(&root).and_then(|remote| RepoName::of_remote(&remote));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let live = runtime.block_on(live_check::check(&settings::dir(dir)?, &config, &files, origin))?;
        config.problems.extend(live);
    }
    let fatal = config.problems.iter().any(|p| p.fatal);
    if json {
        out::json(&serde_json::json!({ "ok": !fatal, "problems": config.problems }))?;
    } else if config.problems.is_empty() {
        out::line(&format!("{} file(s) checked, nothing to mend", files.len()));
    } else {
        config.problems.iter().for_each(|p| out::line(&p.to_string()));
        if !fatal {
            out::line(&format!("{} file(s) checked, nothing has to be mended", files.len()));
        }
    }
    Ok(if fatal { Exit::Configuration.code() } else { 0 })
}

fn collect(dir: &Path, below: &Path, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &name, files)?;
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            files.insert(name.to_string_lossy().into_owned(), text);
        }
    }
    Ok(())
}
