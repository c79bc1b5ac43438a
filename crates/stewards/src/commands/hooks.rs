//! Webhooks: what has to call this server, and setting that up where one's login may.

use crate::cli::HooksVerb;
use crate::out::{self, Outcome};
use crate::settings::{self, LOGINS, Secrets, Settings};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use stewards_core::entity::RepoName;
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::trouble::Trouble;
use stewards_sources::{
    GITHUB_EVENTS, GitHub, Installed, LINEAR_TYPES, Linear, Logins, Service, Token, hook_address, reachable,
};
use stewards_store::Reader;

/// What has to call this server.
enum Caller {
    Team(String),
    Repo(RepoName),
}

impl Caller {
    fn service(&self) -> Service {
        match self {
            Caller::Team(_) => Service::Linear,
            Caller::Repo(_) => Service::GitHub,
        }
    }

    fn words(&self) -> String {
        match self {
            Caller::Team(key) => format!("Linear team {key}"),
            Caller::Repo(repo) => format!("GitHub repository {repo}"),
        }
    }
}

pub fn run(dir: Option<&Path>, verb: Option<HooksVerb>, json: bool) -> Outcome {
    let home = settings::dir(dir)?;
    let mut set: Settings = settings::read(&home.join("settings.json"))?;
    let secrets = settings::secrets(&home)?;
    let callers = callers(&home)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match verb {
        None => runtime.block_on(show(&home, &set, &secrets, &callers, json)),
        Some(HooksVerb::Install { url }) => {
            if let Some(url) = url {
                let hint = "give the https address that leads to this server's port";
                set.public_url = Some(reachable(&url).map_err(|says| Refusal::usage("bad_url", says, hint))?);
                settings::write_private(&home.join("settings.json"), &set)?;
            }
            let base = set.public_url.clone().ok_or_else(|| {
                let says = "it is not known under which address this server can be reached from outside";
                Refusal::usage("no_url", says, "name it once: stewards hooks install --url https://…")
            })?;
            runtime.block_on(install(&home, &set, &base, &secrets, &callers, json))
        }
    }
}

/// The teams and repositories of all projects.
fn callers(home: &Path) -> anyhow::Result<Vec<Caller>> {
    let file = home.join(stewards_store::FILE);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let world = Reader::open(&file)?.world()?;
    let (mut teams, mut repos) = (BTreeSet::new(), BTreeSet::new());
    for project in world.live_projects() {
        repos.insert(project.repo.clone());
        repos.extend(project.config.repos.iter().map(|r| r.name.clone()));
        teams.extend(project.config.project.iter().flat_map(|f| f.teams.iter().cloned()));
    }
    Ok(teams.into_iter().map(Caller::Team).chain(repos.into_iter().map(Caller::Repo)).collect())
}

fn clients(home: &Path, set: &Settings) -> (Linear, GitHub) {
    let logins = Arc::new(Logins::new(home.join(LOGINS)));
    (
        Linear::new(set.linear_url.clone(), Token::Kept(logins.clone(), Service::Linear)),
        GitHub::new(set.github_api.clone(), Token::Kept(logins, Service::GitHub)),
    )
}

async fn show(home: &Path, set: &Settings, secrets: &Secrets, callers: &[Caller], json: bool) -> Outcome {
    let local = settings::daemon(home).map_or_else(|| format!("http://127.0.0.1:{}", set.port), |d| d.url);
    let base = set.public_url.clone().unwrap_or(local);
    let (linear, github) = clients(home, set);
    let mut rows = Vec::new();
    for caller in callers {
        let url = hook_address(&base, caller.service());
        let there = match (caller, &set.public_url) {
            (_, None) => Err("no address is named yet".to_owned()),
            (Caller::Team(key), _) => linear.has_hook(key, &url).await.map_err(|t| t.to_string()),
            (Caller::Repo(repo), _) => github.has_hook(repo, &url).await.map_err(|t| t.to_string()),
        };
        rows.push((caller, there));
    }
    let kinds = |service: Service| match service {
        Service::Linear => LINEAR_TYPES.to_vec(),
        Service::GitHub => GITHUB_EVENTS.to_vec(),
    };
    let secret = |service: Service| match service {
        Service::Linear => &secrets.linear_webhook,
        Service::GitHub => &secrets.github_webhook,
    };
    if json {
        let services: Vec<Value> = Service::ALL
            .into_iter()
            .map(|s| json!({ "service": s, "url": hook_address(&base, s), "secret": secret(s), "kinds": kinds(s) }))
            .collect();
        let callers: Vec<Value> = rows
            .iter()
            .map(
                |(c, there)| json!({ "of": c.words(), "installed": there.as_ref().ok(), "says": there.as_ref().err() }),
            )
            .collect();
        return out::json(&json!({ "public": set.public_url, "services": services, "callers": callers }));
    }
    if set.public_url.is_none() {
        out::line("Services cannot reach this machine's loopback: forward a public https address to it and name that");
        out::line("address with: stewards hooks install --url https://…  Until then they are polled every minute.");
    }
    for service in Service::ALL {
        out::line(&format!("{}: {}", service.name(), hook_address(&base, service)));
        out::line(&format!("  secret {}", secret(service)));
        out::line(&format!("  as application/json, of: {}", kinds(service).join(", ")));
    }
    if secrets.linear_app.is_empty() {
        let file = home.join("secrets.json");
        out::line(
            "Mentions of the agent come by the webhook of a Linear application, to the same address. Its secret is",
        );
        out::line(&format!("made by Linear: write it as linear_app into {}, and restart.", file.display()));
    }
    for (caller, there) in &rows {
        let says = match there {
            Ok(true) => "is set up".to_owned(),
            Ok(false) => "is not set up (stewards hooks install)".to_owned(),
            Err(says) => format!("is not known: {says}"),
        };
        out::line(&format!("{} {says}", caller.words()));
    }
    Ok(0)
}

async fn install(
    home: &Path,
    set: &Settings,
    base: &str,
    secrets: &Secrets,
    callers: &[Caller],
    json: bool,
) -> Outcome {
    if callers.is_empty() {
        let says = "there is no project whose teams and repositories could call";
        return Err(Refusal::not_met("no_project", says, "add one first: stewards project add").into());
    }
    let (linear, github) = clients(home, set);
    let (mut rows, mut failed) = (Vec::new(), false);
    for caller in callers {
        let url = hook_address(base, caller.service());
        let done = match caller {
            Caller::Team(key) => linear.install_hook(key, &url, &secrets.linear_webhook).await,
            Caller::Repo(repo) => github.install_hook(repo, &url, &secrets.github_webhook).await,
        };
        failed |= done.is_err();
        let says = match &done {
            Ok(Installed::Made) => "set up".to_owned(),
            Ok(Installed::Renewed) => "was there, and is set anew".to_owned(),
            Err(trouble) => format!("could not be set up: {}", mended(trouble)),
        };
        if !json {
            out::line(&format!("{}: {says}", caller.words()));
        }
        rows.push(json!({ "of": caller.words(), "ok": done.is_ok(), "says": says }));
    }
    if json {
        out::json(&rows)?;
    }
    Ok(if failed { Exit::NotMet.code() } else { 0 })
}

/// What to do about it.
fn mended(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Unauthorized { .. } | Trouble::Gone { .. } => {
            format!("{trouble} (it takes an administrator: ask one to set up what `stewards hooks` prints)")
        }
        other => other.to_string(),
    }
}
