//! `check` against the services: what the files name has to be there.

use crate::settings::{self, LOGINS, Settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use stewards_core::config::{Alerts, Config, PLAYBOOKS, PROJECT_FILE, Problem, REPOS_FILE, ROLES_FILE};
use stewards_core::entity::RepoName;
use stewards_core::ports::Pulls;
use stewards_core::trouble::Trouble;
use stewards_sources::{GitHub, Linear, Logins, Service, TeamNames, Token};

/// The line that names something in quotes, or at all; 0 where none does.
fn line_of(text: Option<&String>, name: &str) -> usize {
    let Some(text) = text else { return 0 };
    let quoted = format!("\"{name}\"");
    let at = |what: &str| text.lines().position(|l| l.contains(what)).map(|n| n + 1);
    at(&quoted).or_else(|| at(name)).unwrap_or(0)
}

/// What the services say against the files. A service that is not logged in to, or not
/// reached, is a line of advice and no more.
pub async fn check(
    home: &Path,
    config: &Config,
    files: &BTreeMap<String, String>,
    origin: Option<RepoName>,
) -> anyhow::Result<Vec<Problem>> {
    let set: Settings = settings::read(&home.join("settings.json"))?;
    let logins = Arc::new(Logins::new(home.join(LOGINS)));
    let mut found = Vec::new();
    if config.project.is_some() {
        match logins.get(Service::Linear)?.is_some() {
            true => {
                let linear = Linear::new(set.linear_url.clone(), Token::Kept(logins.clone(), Service::Linear));
                teams(&linear, config, files, &mut found).await;
            }
            false => found.push(not_asked(Service::Linear, "nobody is logged in (stewards login linear)")),
        }
    }
    match logins.get(Service::GitHub)?.is_some() {
        true => {
            let github = GitHub::new(set.github_api, Token::Kept(logins, Service::GitHub));
            let named = config.repos.iter().map(|r| (r.name.clone(), REPOS_FILE, r.name.name().to_owned()));
            let own = origin.iter().map(|o| (o.clone(), PROJECT_FILE, String::new()));
            for (repo, file, word) in own.chain(named) {
                let line = if word.is_empty() { 0 } else { line_of(files.get(file), &word) };
                repository(&github, &repo, file, line, &mut found).await;
            }
            roles(&github, config, files.get(ROLES_FILE), origin.as_ref(), &mut found).await;
        }
        false => found.push(not_asked(Service::GitHub, "nobody is logged in (stewards login github)")),
    }
    Ok(found)
}

fn not_asked(service: Service, why: &str) -> Problem {
    let says = format!("{} was not asked: {why}", service.name());
    Problem { file: PROJECT_FILE.into(), line: 0, says, fatal: false }
}

async fn teams(linear: &Linear, config: &Config, files: &BTreeMap<String, String>, found: &mut Vec<Problem>) {
    let Some(project) = &config.project else { return };
    let text = files.get(PROJECT_FILE);
    let mut all: Vec<TeamNames> = Vec::new();
    for key in &project.teams {
        match linear.team_names(key).await {
            Ok(team) => {
                if !team.labels.iter().any(|l| l.eq_ignore_ascii_case(&project.label)) {
                    let says = format!(
                        "the team {} has no label {}; make it in Linear, or name one of {}",
                        team.key,
                        project.label,
                        some(&team.labels)
                    );
                    let line = line_of(text, &project.label);
                    found.push(Problem { file: PROJECT_FILE.into(), line, says, fatal: true });
                }
                all.push(team);
            }
            Err(Trouble::Refused { says }) => {
                found.push(Problem { file: PROJECT_FILE.into(), line: line_of(text, key), says, fatal: true });
            }
            Err(trouble) => return found.push(not_asked(Service::Linear, &trouble.to_string())),
        }
    }
    let Some(playbook) = config.ticket_playbook() else { return };
    let name = config.playbooks.iter().find(|(_, p)| *p == playbook).map(|(name, _)| name.clone());
    let file = format!("{PLAYBOOKS}{}", name.unwrap_or_default());
    for state in playbook.phases.keys().chain(&playbook.terminal) {
        for team in all.iter().filter(|t| !t.states.iter().any(|s| s.eq_ignore_ascii_case(state))) {
            let says = format!("the team {} has no state {state}; it has {}", team.key, some(&team.states));
            let problem = Problem { file: file.clone(), line: line_of(files.get(&file), state), says, fatal: true };
            if !found.contains(&problem) {
                found.push(problem);
            }
        }
    }
    // A state that no phase is about is one in which the steward has no instructions.
    for team in &all {
        for state in team.states.iter().filter(|s| playbook.stage_of(s).is_none() && !playbook.is_terminal(s)) {
            let says = format!("the state {state} of the team {} is in no phase and not terminal", team.key);
            found.push(Problem { file: file.clone(), line: 0, says, fatal: false });
        }
    }
}

fn some(names: &[String]) -> String {
    match names.len() {
        0 => "none".into(),
        n if n > 20 => format!("{} and {} more", names[..20].join(", "), n - 20),
        _ => names.join(", "),
    }
}

/// Each entry belongs to a login that exists, and watches repositories of the project.
async fn roles(
    github: &GitHub,
    config: &Config,
    text: Option<&String>,
    origin: Option<&RepoName>,
    found: &mut Vec<Problem>,
) {
    if config.roles.is_empty() {
        return;
    }
    let mut say = |word: &str, says: String, fatal: bool| {
        let line = if word.is_empty() { 0 } else { line_of(text, word) };
        found.push(Problem { file: ROLES_FILE.into(), line, says, fatal });
    };
    for (login, role) in &config.roles {
        match github.has_user(login).await {
            Ok(true) => {}
            Ok(false) => say(login, format!("GitHub knows no login {login}: no server would run this entry"), true),
            Err(trouble) => {
                let problem = not_asked(Service::GitHub, &trouble.to_string());
                return found.push(problem);
            }
        }
        let Some(Alerts::Repos(watched)) = role.ops.as_ref().and_then(|o| o.dependabot.as_ref()) else { continue };
        // Without an origin it is not known which repository is the primary one.
        let Some(origin) = origin else { continue };
        for name in watched {
            let all = std::iter::once(origin).chain(config.repos.iter().map(|r| &r.name));
            let is = |r: &RepoName| r.0.eq_ignore_ascii_case(name) || r.name().eq_ignore_ascii_case(name);
            if !all.clone().any(is) {
                let names: Vec<String> = all.map(ToString::to_string).collect();
                say(name, format!("{name} is no repository of the project: {}", some(&names)), true);
            }
        }
    }
    match github.viewer().await {
        Ok(me) if !config.roles.keys().any(|l| l.eq_ignore_ascii_case(&me.login)) => {
            let login = &me.login;
            say("", format!("no role for {login}: this server would run no watch and no project steward"), false);
        }
        _ => {}
    }
}

async fn repository(github: &GitHub, repo: &RepoName, file: &str, line: usize, found: &mut Vec<Problem>) {
    let problem = |says: String, fatal: bool| Problem { file: file.to_owned(), line, says, fatal };
    match github.may_push(repo).await {
        Ok(true) => {}
        Ok(false) => found.push(problem(
            format!("your GitHub login may not push to {repo}: workers could open no pull request there"),
            true,
        )),
        Err(Trouble::Gone { .. }) => found.push(problem(
            format!("there is no repository {repo}, or your GitHub login may not see it: ask for access"),
            true,
        )),
        Err(trouble) => found.push(not_asked(Service::GitHub, &trouble.to_string())),
    }
}
