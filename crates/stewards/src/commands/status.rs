//! How everything stands, on one screen.

use super::lists::{self, no_daemon, offline, size, text, value};
use super::login;
use crate::client::Client;
use crate::out::{self, Outcome};
use crate::settings::{self, Settings};
use serde_json::{Value, json};
use std::path::Path;
use stewards_core::stewards::{needs, project_rows, service_rows};
use stewards_core::threads::{environment_rows, thread_rows};
use stewards_store::Reader;

pub fn status(dir: Option<&Path>, json: bool) -> Outcome {
    let home = settings::dir(dir)?;
    let client = Client::new(dir);
    let daemon: Option<Value> = match client.as_ref().map(|c| c.get("/api/build")) {
        Ok(Ok(build)) => Some(build),
        Ok(Err(error)) if !no_daemon(&error) => return Err(error),
        _ => None,
    };
    let logins = login::asked(&home)?;
    let agents = lists::all_agents(dir)?;
    let file = home.join(stewards_store::FILE);
    let [projects, threads, waits, places, services] = match &client {
        Ok(client) if daemon.is_some() => {
            let get = |what: &str| client.get(&format!("/api/{what}"));
            [get("projects")?, get("threads")?, get("needs")?, get("environments")?, get("services")?]
        }
        _ if file.exists() => {
            let w = Reader::open(&file)?.world()?;
            lists::as_it_stood();
            let rows = [
                value(&project_rows(&w)),
                value(&thread_rows(&w, &offline(&w))),
                value(&needs(&w)),
                value(&environment_rows(&w)),
                value(&service_rows(&w)),
            ];
            rows.map(Option::unwrap_or_default)
        }
        // Nothing has ever run here.
        _ => Default::default(),
    };
    let [projects, threads, waits, places, services] =
        [projects, threads, waits, places, services].map(|rows: Value| rows.as_array().cloned().unwrap_or_default());
    let public = settings::read::<Settings>(&home.join("settings.json"))?.public_url;
    let database = std::fs::metadata(&file).map_or(0, |m| m.len());
    let worktrees: u64 = places.iter().filter_map(|p| p["bytes"].as_u64()).sum();
    let live = threads.iter().filter(|t| ["starting", "active"].contains(&text(&t["status"]).as_str())).count();
    let open = threads.iter().filter(|t| t["archived"] != true).count();
    let quotas: Vec<Value> = match &client {
        Ok(client) if daemon.is_some() => client.get("/api/quotas")?,
        _ => Vec::new(),
    };
    let disk = json!({ "database": database, "worktrees": worktrees });
    if json {
        return out::json(&json!({
            "directory": home, "daemon": daemon, "logins": logins, "agents": agents, "projects": projects,
            "threads": { "open": open, "live": live }, "needs": waits, "public": public, "disk": disk,
            "services": services, "quotas": quotas,
        }));
    }
    out::line(&match &daemon {
        Some(d) => format!("Daemon: pid {}, up since {}, {}", text(&d["pid"]), text(&d["started"]), text(&d["commit"])),
        None => "Daemon: not running (stewards serve start)".to_owned(),
    });
    login::said(&logins);
    let there = agents.iter().filter(|a| a["missing"].is_null());
    let there: Vec<String> = there.map(|a| format!("{} {}", text(&a["provider"]), text(&a["version"]))).collect();
    out::line(&match there.is_empty() {
        true => "Agents: none is installed (stewards agents says how)".to_owned(),
        false => format!("Agents: {}", there.join(", ")),
    });
    out::line(&match &public {
        Some(url) => format!("Webhooks: {url}/hooks/linear and /hooks/github (stewards hooks)"),
        None => "Webhooks: no public address, so the services are polled (stewards hooks)".to_owned(),
    });
    for service in &services {
        out::line(&heard(service));
    }
    for quota in &quotas {
        out::line(&left(quota));
    }
    out::line(&format!("Threads: {open} open, {live} at work"));
    out::line(&format!("Disk: database {}, worktrees {}", size(database), size(worktrees)));
    for project in &projects {
        let on = if project["on"] == true { "on" } else { "off" };
        let swept = project["swept"].as_str().map_or("not swept yet".to_owned(), |at| format!("last swept {at}"));
        out::line(&format!("Project {} ({}): {on}, {swept}", text(&project["name"]), text(&project["repo"])));
        for problem in project["problems"].as_array().into_iter().flatten() {
            out::line(&format!("  {}", text(problem)));
        }
    }
    if projects.is_empty() {
        out::line("Projects: none (stewards project add)");
    }
    match waits.len() {
        0 => out::line("Needs you: nothing"),
        n => out::line(&format!("Needs you: {n} (stewards needs)")),
    }
    Ok(0)
}

/// How it is heard what changes at a service: `Linear: polled every 1 min, last …`.
fn heard(row: &Value) -> String {
    let service = if row["service"] == "github" { "GitHub" } else { "Linear" };
    let every = stewards_core::text::lasting(row["every"].as_i64().unwrap_or_default());
    let hooks = match (&row["hears"], &row["heard"]) {
        (Value::Bool(true), at) => format!("webhooks come, the last {}", text(at)),
        (_, Value::Null) => "no webhook has come yet".to_owned(),
        (_, at) => format!("a webhook was missed since the last of {}", text(at)),
    };
    let polled = row["polled"].as_str().map_or("not polled yet".to_owned(), |at| format!("polled {at}"));
    let trouble = row["trouble"].as_str().map_or(String::new(), |t| format!("; failed: {t}"));
    format!("News of {service}: {hooks}; {polled}, every {every}{trouble}")
}

/// What is left of a quota: `Quota of GitHub (core): 4,200 of 5,000 left until …`.
fn left(row: &Value) -> String {
    let service = if row["service"] == "github" { "GitHub" } else { "Linear" };
    let asked = format!("{} asked within the hour, {} more unchanged", row["asked"], row["unchanged"]);
    match row["limit"].as_u64() {
        None | Some(0) => format!("Quota of {service} ({}): not said; {asked}", text(&row["name"])),
        Some(limit) => format!(
            "Quota of {service} ({}): {} of {limit} left, full again {}; {asked}",
            text(&row["name"]),
            row["remaining"],
            text(&row["reset"])
        ),
    }
}

/// What was asked of the services within the hour, and what is left.
pub fn quotas(dir: Option<&Path>, json: bool) -> Outcome {
    let all: Vec<Value> = Client::new(dir)?.get("/api/quotas")?;
    if json {
        return out::json(&all);
    }
    match all.is_empty() {
        true => out::line("Nothing was asked of Linear or GitHub yet."),
        false => all.iter().for_each(|row| out::line(&left(row))),
    }
    out::line("In the background nothing is asked once less than 40 % of a quota is left.");
    Ok(0)
}
