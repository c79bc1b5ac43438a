//! How everything stands, on one screen.

use super::lists::{self, no_daemon, offline, size, text, value};
use super::login;
use crate::client::Client;
use crate::out::{self, Outcome};
use crate::settings::{self, Secrets};
use serde_json::{Value, json};
use std::path::Path;
use stewards_core::stewards::{needs, project_rows};
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
    let [projects, threads, waits, places] = match &client {
        Ok(client) if daemon.is_some() => {
            let [a, b, c, d] = ["/api/projects", "/api/threads", "/api/needs", "/api/environments"];
            [client.get(a)?, client.get(b)?, client.get(c)?, client.get(d)?]
        }
        _ if file.exists() => {
            let w = Reader::open(&file)?.world()?;
            lists::as_it_stood();
            let rows = [
                value(&project_rows(&w)),
                value(&thread_rows(&w, &offline(&w))),
                value(&needs(&w)),
                value(&environment_rows(&w)),
            ];
            rows.map(Option::unwrap_or_default)
        }
        // Nothing has ever run here.
        _ => Default::default(),
    };
    let [projects, threads, waits, places] =
        [projects, threads, waits, places].map(|rows: Value| rows.as_array().cloned().unwrap_or_default());
    let secrets: Secrets = settings::read(&home.join("secrets.json"))?;
    let hooks = json!({ "linear": !secrets.linear_webhook.is_empty(), "github": !secrets.github_webhook.is_empty() });
    let database = std::fs::metadata(&file).map_or(0, |m| m.len());
    let worktrees: u64 = places.iter().filter_map(|p| p["bytes"].as_u64()).sum();
    let live = threads.iter().filter(|t| ["starting", "active"].contains(&text(&t["status"]).as_str())).count();
    let open = threads.iter().filter(|t| t["archived"] != true).count();
    let disk = json!({ "database": database, "worktrees": worktrees });
    if json {
        return out::json(&json!({
            "directory": home, "daemon": daemon, "logins": logins, "agents": agents, "projects": projects,
            "threads": { "open": open, "live": live }, "needs": waits, "hooks": hooks, "disk": disk,
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
    let set = |name: &str| if hooks[name] == true { "secret set" } else { "no secret, so its webhooks are refused" };
    out::line(&format!("Webhooks: /hooks/linear ({}), /hooks/github ({})", set("linear"), set("github")));
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
