//! What is shown. Without a daemon the lists read the file.

use crate::client::{Client, escape};
use crate::out::{self, Outcome};
use crate::settings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use stewards_core::machine::World;
use stewards_core::moment::Moment;
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::stewards;
use stewards_core::text::{cut, one_line};
use stewards_core::threads::Role;
use stewards_store::Reader;

/// From the daemon, or, where none runs, from the file.
pub fn view<T: DeserializeOwned>(
    dir: Option<&Path>,
    path: &str,
    offline: impl Fn(&Reader, &World) -> anyhow::Result<Option<Value>>,
) -> anyhow::Result<T> {
    let error = match Client::new(dir).and_then(|c| c.get(path)) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    if !no_daemon(&error) {
        return Err(error);
    }
    let file = settings::dir(dir)?.join(stewards_store::FILE);
    let Ok(reader) = Reader::open(&file) else { return Err(error) };
    match offline(&reader, &reader.world()?)? {
        Some(value) => {
            as_it_stood();
            Ok(serde_json::from_value(value)?)
        }
        None => Err(error),
    }
}

/// It went wrong because none runs, and not otherwise.
pub fn no_daemon(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|r| r.code == "no_daemon")
}

/// Says that what is shown is from the file.
pub fn as_it_stood() {
    eprintln!("No daemon runs: this is how things stood when the last one ended.");
}

pub fn value<T: serde::Serialize>(of: &T) -> Option<Value> {
    serde_json::to_value(of).ok()
}

/// An effort's key, which is not empty.
fn keyed(key: &str) -> anyhow::Result<String> {
    if key.trim().is_empty() {
        return Err(
            Refusal::usage("no_key", "the effort's key is empty", "give one, such as DEMO-1: stewards list").into()
        );
    }
    Ok(escape(key.trim()))
}

pub fn text(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

fn rows(all: &[Value], fields: &[&str]) -> Vec<Vec<String>> {
    all.iter().map(|v| fields.iter().map(|f| text(&v[*f])).collect()).collect()
}

pub fn efforts(dir: Option<&Path>, json: bool) -> Outcome {
    let all: Vec<Value> = view(dir, "/api/list", |_, w| Ok(value(&stewards::rows(w))))?;
    if json {
        return out::json(&all);
    }
    out::table(&["effort", "", "phase", "now", "title"], &rows(&all, &["key", "glyph", "phase", "phrase", "title"]));
    Ok(0)
}

pub fn projects(dir: Option<&Path>, json: bool) -> Outcome {
    let all: Vec<Value> = view(dir, "/api/projects", |_, w| Ok(value(&stewards::project_rows(w))))?;
    if json {
        return out::json(&all);
    }
    out::table(
        &["project", "on", "efforts", "needs", "repo"],
        &rows(&all, &["name", "on", "efforts", "needs", "repo"]),
    );
    for project in &all {
        for problem in project["problems"].as_array().into_iter().flatten() {
            out::line(&format!("{}: {}", text(&project["name"]), text(problem)));
        }
    }
    Ok(0)
}

/// One project, by its name or id.
pub fn project(dir: Option<&Path>, named: &str, json: bool) -> Outcome {
    let all: Vec<Value> = view(dir, "/api/projects", |_, w| Ok(value(&stewards::project_rows(w))))?;
    let Some(project) = all.iter().find(|p| p["name"] == named || p["id"] == named) else {
        let says = format!("no project is called {named}");
        return Err(Refusal::usage("unknown_project", says, "see: stewards project list").into());
    };
    if json {
        return out::json(project);
    }
    let on = if project["on"] == true { "on" } else { "off" };
    out::line(&format!("{} {}: stewarding is {on}", text(&project["id"]), text(&project["name"])));
    out::line(&format!("repository: {} from {}", text(&project["repo"]), text(&project["remote"])));
    let further: Vec<String> = project["repos"].as_array().into_iter().flatten().map(text).collect();
    if !further.is_empty() {
        out::line(&format!("further ones: {}", further.join(", ")));
    }
    out::line(&format!("checkout: {}", text(&project["checkout"])));
    out::line(&format!("efforts: {}, items for you: {}", text(&project["efforts"]), text(&project["needs"])));
    for problem in project["problems"].as_array().into_iter().flatten() {
        out::line(&format!("problem: {}", text(problem)));
    }
    Ok(0)
}

pub fn needs(dir: Option<&Path>, json: bool) -> Outcome {
    let all: Vec<Value> = view(dir, "/api/needs", |_, w| Ok(value(&stewards::needs(w))))?;
    if json {
        return out::json(&all);
    }
    for need in &all {
        out::line(&format!("{}  {}", text(&need["id"]), text(&need["text"])));
        match need["why_not"].as_str() {
            Some(why) => out::line(&format!("    not now: {why}")),
            None => out::line(&format!("    {}", text(&need["command"]))),
        }
    }
    if all.is_empty() {
        out::line("Nothing waits for you.");
    }
    Ok(0)
}

/// As a decision would see time, were there a daemon.
pub fn offline(world: &World) -> Moment {
    Moment { wall: jiff::Timestamp::now(), elapsed: 0, run: world.host.run + 1, no: 0 }
}

/// Agents as they are installed, whether a daemon runs or not.
pub fn all_agents(dir: Option<&Path>) -> anyhow::Result<Vec<Value>> {
    match Client::new(dir).and_then(|c| c.get("/api/agents")) {
        Err(error) if no_daemon(&error) => crate::agents::known_without_daemon(&settings::dir(dir)?),
        found => found,
    }
}

pub fn agents(dir: Option<&Path>, json: bool) -> Outcome {
    let all = all_agents(dir)?;
    if json {
        return out::json(&all);
    }
    out::table(
        &["agent", "protocol", "version", "command"],
        &rows(&all, &["provider", "protocol", "version", "command"]),
    );
    for agent in &all {
        if let Some(missing) = agent["missing"].as_str() {
            out::line(&format!("{}: {missing}", text(&agent["provider"])));
        }
    }
    Ok(0)
}

/// All skills, or the text of one. Without a daemon those that are shipped.
pub fn skills(dir: Option<&Path>, project: Option<&str>, name: Option<&str>, json: bool) -> Outcome {
    let path = project.map_or_else(|| "/api/skills".to_owned(), |p| format!("/api/skills?project={}", escape(p)));
    let all: Vec<Value> = view(dir, &path, |_, w| {
        let mut all = w.live_projects();
        let own = all.next().filter(|_| all.next().is_none()).map(|p| p.config.skills.clone());
        Ok(value(&stewards_core::config::skills(&own.unwrap_or_default())))
    })?;
    let Some(name) = name else {
        if json {
            return out::json(&all);
        }
        out::table(&["skill", "own", "description"], &rows(&all, &["name", "own", "description"]));
        return Ok(0);
    };
    let Some(skill) = all.iter().find(|s| s["name"] == name) else {
        let names: Vec<String> = all.iter().map(|s| text(&s["name"])).collect();
        let says = format!("no skill is called {name}");
        return Err(Refusal::usage("unknown_skill", says, format!("there are {}", names.join(", "))).into());
    };
    if json {
        return out::json(skill);
    }
    out::line(text(&skill["text"]).trim_end());
    Ok(0)
}

pub fn environments(dir: Option<&Path>, json: bool) -> Outcome {
    let all: Vec<Value> =
        view(dir, "/api/environments", |_, w| Ok(value(&stewards_core::threads::environment_rows(w))))?;
    if json {
        return out::json(&all);
    }
    let mut shown = all.clone();
    for row in &mut shown {
        if let Some(bytes) = row["bytes"].as_u64() {
            row["bytes"] = size(bytes).into();
        }
    }
    out::table(
        &["thread", "kind", "state", "disk", "branch", "path"],
        &rows(&shown, &["thread", "kind", "state", "bytes", "branch", "path"]),
    );
    for row in &all {
        if let Some(says) = row["says"].as_str() {
            out::line(&format!("{}: {says}", text(&row["thread"])));
        }
        if let Some(at) = row["removed_at"].as_str().filter(|_| row["archived"] == true) {
            out::line(&format!("{}: is removed at {at}", text(&row["thread"])));
        }
    }
    let total: u64 = all.iter().filter_map(|r| r["bytes"].as_u64()).sum();
    if total > 0 {
        out::line(&format!("{} in all", size(total)));
    }
    Ok(0)
}

pub fn size(bytes: u64) -> String {
    let mut n = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if n < 1_000.0 {
            return format!("{n:.0} {unit}");
        }
        n /= 1_000.0;
    }
    format!("{n:.1} TB")
}

/// Archived threads only where they are asked for; JSON has them always.
pub fn threads(dir: Option<&Path>, archived: bool, json: bool) -> Outcome {
    let mut all: Vec<Value> =
        view(dir, "/api/threads", |_, w| Ok(value(&stewards_core::threads::thread_rows(w, &offline(w)))))?;
    if json {
        return out::json(&all);
    }
    all.retain(|t| archived || t["archived"] != true);
    out::table(
        &["thread", "role", "status", "turns", "effort", "title"],
        &rows(&all, &["id", "role", "status", "turns", "key", "title"]),
    );
    for thread in &all {
        let held = [&thread["error"], &thread["waits"]].into_iter().find_map(Value::as_str);
        if let Some(why) = held.filter(|_| thread["archived"] != true) {
            out::line(&format!("{}: {}", text(&thread["id"]), cut(&one_line(why), 160)));
        }
    }
    Ok(0)
}

pub fn show(dir: Option<&Path>, key: &str, json: bool) -> Outcome {
    let offline =
        |_: &Reader, w: &World| Ok(w.binding_by_key(key).and_then(|b| value(&stewards::detail(w, b, &offline(w)))));
    let effort: Value = view(dir, &format!("/api/show/{}", keyed(key)?), offline)?;
    if json {
        return out::json(&effort);
    }
    out::line(&format!("{} {}", text(&effort["key"]), text(&effort["title"])));
    out::line(&format!("{} in {}: {}", text(&effort["kind"]), text(&effort["phase"]), text(&effort["phrase"])));
    if let Some(report) = effort["report"].as_object() {
        out::line(&format!("report: {}", text(&report["summary"])));
        out::line(&format!("next ({}): {}", text(&report["actor"]), text(&report["nextAction"])));
    }
    let items = |name: &str| effort[name].as_array().cloned().unwrap_or_default();
    for item in items("ready") {
        let mark = if item["met"] == true { "met" } else { "open" };
        out::line(&format!("ready {}. [{mark}] {}", text(&item["number"]), text(&item["text"])));
    }
    for pull in items("pulls") {
        let unmet: Vec<String> = pull["gate"]["unmet"].as_array().into_iter().flatten().map(text).collect();
        let gate = if unmet.is_empty() { "gate met".into() } else { unmet.join("; ") };
        out::line(&format!(
            "pull {}: {gate}",
            text(&pull["gate"]["pull"]["repo"]) + "#" + &text(&pull["gate"]["pull"]["number"])
        ));
    }
    for thread in items("threads") {
        out::line(&format!(
            "{} {} {} ({} turns)",
            text(&thread["role"]),
            text(&thread["id"]),
            text(&thread["status"]),
            text(&thread["turns"])
        ));
    }
    for note in items("notes_pending") {
        out::line(&format!("note: {}", text(&note)));
    }
    for need in items("needs") {
        out::line(&format!("needs you: {} ({})", text(&need["text"]), text(&need["command"])));
    }
    Ok(0)
}

pub fn explain(dir: Option<&Path>, key: &str, json: bool) -> Outcome {
    let lines: Vec<Value> = view(dir, &format!("/api/explain/{}", keyed(key)?), |reader, world| {
        let Some(binding) = world.binding_by_key(key) else { return Ok(None) };
        Ok(value(&reader.story(world, binding)?))
    })?;
    if json {
        return out::json(&lines);
    }
    let mut last = None;
    for line in &lines {
        let at: Option<jiff::Timestamp> = line["at"].as_str().and_then(|t| t.parse().ok());
        let at = at.map(|t| t.strftime("%F %T").to_string()).unwrap_or_default();
        let said = text(&line["line"]);
        // What a sweep finds again and again says nothing; --json has it all.
        if said == "looking" || said == "rang: sweep" || Some(&said) == last.as_ref() {
            continue;
        }
        out::line(&format!("{at}  {}: {said}", text(&line["about"])));
        last = Some(said);
    }
    Ok(0)
}

pub fn brief(dir: Option<&Path>, key: &str, json: bool) -> Outcome {
    let found: Value = Client::new(dir)?.get(&format!("/api/brief/{}", keyed(key)?))?;
    if json {
        return out::json(&found);
    }
    out::line(text(&found["brief"]).trim_end());
    Ok(0)
}

pub fn spawn_flags(dir: Option<&Path>, key: Option<&str>, role: Role, json: bool) -> Outcome {
    let mut path = format!("/api/spawn-flags?role={}", role.word());
    if let Some(key) = key {
        path.push_str(&format!("&key={}", escape(key)));
    }
    let found: Value = Client::new(dir)?.get(&path)?;
    if json {
        return out::json(&found);
    }
    out::line(&text(&found["command"]));
    Ok(0)
}

/// Exits 0 when the gate is met and 1 when it is not.
pub fn gate(dir: Option<&Path>, pull: &str, json: bool) -> Outcome {
    let verdict: Value = Client::new(dir)?.get(&format!("/api/gate?pull={}", escape(pull)))?;
    let met = verdict["met"] == true;
    if json {
        out::json(&verdict)?;
    } else {
        out::line(&format!("gate met: {}", if met { "yes" } else { "no" }));
        for why in verdict["unmet"].as_array().into_iter().flatten() {
            out::line(&format!("  {}", text(why)));
        }
        out::line(&format!(
            "lane {}, checks {}, approval: {}",
            text(&verdict["lane"]),
            text(&verdict["checks"]),
            text(&verdict["approval"])
        ));
    }
    Ok(if met { 0 } else { Exit::NotMet.code() })
}

pub fn thread(dir: Option<&Path>, id: &str, json: bool) -> Outcome {
    let found: Value = Client::new(dir)?.get(&format!("/api/threads/{}", keyed(id)?))?;
    if json {
        return out::json(&found);
    }
    let thread = &found["thread"];
    out::line(&format!(
        "{} {}: {} ({})",
        text(&thread["role"]),
        text(&thread["id"]),
        text(&thread["title"]),
        text(&thread["status"])
    ));
    for message in found["messages"].as_array().into_iter().flatten() {
        out::line(&format!(
            "message {} ({}): {}",
            text(&message["id"]),
            text(&message["state"]),
            cut(&one_line(&text(&message["text"])), 120)
        ));
    }
    if let Some(marks) = thread["metadata"].as_object() {
        marks.iter().for_each(|(name, value)| out::line(&format!("metadata {name}: {value}")));
    }
    if let Some(error) = thread["error"].as_str() {
        out::line(&format!("failed: {error}"));
    }
    if let Some(waits) = thread["waits"].as_str() {
        out::line(&format!("what is sent to it waits: {waits}"));
    }
    let used = thread["context"]["used"].as_u64();
    out::line(&match (used, thread["context"]["window"].as_u64()) {
        (Some(used), Some(window)) => format!("context: {used} of {window} tokens"),
        (Some(used), None) => format!("context: {used} tokens"),
        (None, _) => "context: unknown".to_owned(),
    });
    for ask in found["interactions"].as_array().into_iter().flatten() {
        out::line(&format!("{} {} ({})", text(&ask["id"]), text(&ask["text"]), text(&ask["command"])));
    }
    transcript(found["transcript"].as_array().map_or(&[], Vec::as_slice));
    Ok(0)
}

/// Crumbs of text are joined; a call and its result have a line each.
pub fn transcript(lines: &[Value]) {
    let mut words = String::new();
    let mut turn = &Value::Null;
    for line in lines {
        if line["turn"] != *turn {
            say(&mut words);
            turn = &line["turn"];
        }
        let body = &line["body"];
        if let Some(more) = body["text"]["text"].as_str() {
            words.push_str(more);
            continue;
        }
        say(&mut words);
        if let Some(title) = body["tool_call"]["title"].as_str() {
            out::line(&format!("> {}", cut(&one_line(title), 160)));
        }
        if let Some(result) = body.get("tool_result") {
            let mark = if result["ok"] == true { "ok" } else { "failed" };
            out::line(&format!("  {mark}: {}", cut(&one_line(&text(&result["text"])), 160)));
        }
    }
    say(&mut words);
}

/// Says what was gathered, if anything.
fn say(words: &mut String) {
    if !words.trim().is_empty() {
        out::line(words.trim());
    }
    words.clear();
}

/// What the daemon was built from, and whether this client is another build.
pub fn build(dir: Option<&Path>, json: bool) -> Outcome {
    let mut found: Value = Client::new(dir)?.get("/api/build")?;
    let same = found["commit"] == crate::serve::COMMIT;
    found["client"] = crate::serve::COMMIT.into();
    found["same"] = same.into();
    if json {
        return out::json(&found);
    }
    out::line(&format!(
        "daemon {} ({}), pid {}, up since {}",
        text(&found["commit"]),
        text(&found["version"]),
        text(&found["pid"]),
        text(&found["started"])
    ));
    if !same {
        out::line(&format!("this client is another build: {}", crate::serve::COMMIT));
    }
    Ok(0)
}
