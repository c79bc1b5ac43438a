//! The demo: starts the daemon and the twin, plays the person, tells the story.
//! It knows nothing that a user of the command line could not know.

mod children;
mod place;
mod story;
mod world;

use crate::cli;
use crate::client::Client;
use crate::out::{self, Outcome};
use anyhow::Context;
use children::Children;
use place::Place;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use stewards_web::Ask;
use story::Story;

/// Between two looks at how it stands.
const BEAT: Duration = Duration::from_millis(200);

pub fn run(dir: Option<&Path>, args: &cli::Demo, json: bool) -> Outcome {
    let place = Place::take(dir, args.agent.as_deref())?;
    if let Some(summary) = place.finished()? {
        return end(&summary, json);
    }
    let quiet = json;
    let say = |line: &str| {
        if !quiet {
            out::line(line);
        }
    };
    say(&format!("The demo's directory is {}", place.dir.display()));
    let began = Instant::now();
    let stop = interrupts()?;
    let mut children = Children::start(&place, quiet)?;
    let told = play(&place, args, &mut children, &stop, quiet, began);
    let summary = match told {
        Ok(summary) => summary,
        Err(error) => {
            children.end();
            return Err(error);
        }
    };
    let done = summary["outcome"] == "done";
    if done {
        place.finish(&summary)?;
    }
    if !args.yes && !stop.pressed() && done {
        say("\nDone. The page stays up until Ctrl-C.");
        while !stop.pressed() {
            children.watch(&place)?;
            std::thread::sleep(BEAT);
        }
    }
    children.end();
    if !done {
        let dir = stewards_core::text::shell(&place.dir.to_string_lossy());
        say(&format!("\nTo go on: stewards demo --dir {dir}"));
    }
    end(&summary, json)
}

/// Prints the summary; anything but done exits 1.
fn end(summary: &Value, json: bool) -> Outcome {
    let done = summary["outcome"] == "done";
    if json {
        out::json(summary)?;
    } else {
        story::closing(summary);
    }
    Ok(if done { 0 } else { 1 })
}

/// Ctrl-C, noticed.
pub struct Interrupts {
    pressed: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Interrupts {
    fn pressed(&self) -> bool {
        self.pressed.load(std::sync::atomic::Ordering::Relaxed)
    }
}

fn interrupts() -> anyhow::Result<Interrupts> {
    let pressed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let noticed = pressed.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(crate::serve::signalled());
        noticed.store(true, std::sync::atomic::Ordering::Relaxed);
    })?;
    Ok(Interrupts { pressed })
}

/// From an empty directory, or from where a former run was cut, to the end.
fn play(
    place: &Place,
    args: &cli::Demo,
    children: &mut Children,
    stop: &Interrupts,
    quiet: bool,
    began: Instant,
) -> anyhow::Result<Value> {
    let mut story = Story::new(quiet);
    let client =
        wait_for(children, place, stop, "the daemon", || client(place)?.get::<Value>("/api/build").map(|_| ()))
            .and_then(|()| client(place))?;
    wait_for(children, place, stop, "the twin", || world::seed(place))?;
    let code = client.post("/api/link", &Value::Null)?;
    story.line(&format!(
        "Open the page once with {}/enter?code={}",
        place.url()?,
        code["code"].as_str().unwrap_or_default()
    ));
    wait_for(children, place, stop, "the project", || {
        client.act(&Ask::AddProject { name: world::NAME.into(), repo: world::REPO.into(), remote: place.remote() })?;
        client.act(&Ask::Switch { project: Some(world::NAME.into()), on: true }).map(|_| ())
    })?;
    // The ticket comes once the project can be stewarded, so that its own ring is heard.
    wait_for(children, place, stop, "the configuration", || {
        let projects: Vec<Value> = client.get("/api/projects")?;
        let ready = projects.iter().any(|p| p["on"] == true && p["commit"].as_str().is_some_and(|c| !c.is_empty()));
        anyhow::ensure!(ready, "it was not read yet");
        Ok(())
    })?;
    let ticket = wait_for(children, place, stop, "the ticket", || world::ticket(place))?;
    let mut news = Instant::now();
    loop {
        children.watch(place)?;
        // A daemon that is just being started again is no reason to stop.
        if let Ok(true) = story.follow(&client) {
            news = Instant::now();
        }
        let row: Value = client.get::<Value>(&format!("/api/show/{ticket}")).unwrap_or(Value::Null);
        let ended = row["open"] == false;
        let stuck =
            news.elapsed() > Duration::from_secs(args.patience.unwrap_or(if place.scripted() { 120 } else { 1_800 }));
        let waiting = row["needs"].as_array().is_some_and(|n| !n.is_empty());
        if args.yes && waiting {
            press(&client, &row, &mut story);
        }
        let given_up = stuck && (args.yes || !waiting);
        let settled = ended && story::settled(&client, &ticket);
        if settled || given_up || stop.pressed() {
            let _ = story.follow(&client);
            let seconds = began.elapsed().as_secs_f64() + place.spent()?;
            place.spend(seconds)?;
            let counts: Value = client.get("/api/summary").unwrap_or(Value::Null);
            return Ok(summary(&ticket, &row, &counts, seconds, settled, stop.pressed()));
        }
        std::thread::sleep(BEAT);
    }
}

/// Never waits for long: the demo must hear Ctrl-C.
fn client(place: &Place) -> anyhow::Result<Client> {
    Client::of_socket(place.socket()?, Duration::from_secs(3))
}

/// What the person does with a button that is there.
fn press(client: &Client, row: &Value, story: &mut Story) {
    for need in row["needs"].as_array().into_iter().flatten().filter(|n| n["button"].is_string()) {
        let Some(pull) = need["pull"].as_str() else { continue };
        story.line(&format!("you press Merge on {pull}"));
        if let Err(error) = client.act(&Ask::Merge { pull: pull.to_owned() }) {
            story.line(&format!("Merge was refused: {error:#}"));
        }
    }
}

/// Tries until it works, a child ends for good, or half a minute is over.
fn wait_for<T>(
    children: &mut Children,
    place: &Place,
    stop: &Interrupts,
    what: &str,
    mut attempt: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        children.watch(place)?;
        match attempt() {
            Ok(found) => return Ok(found),
            Err(error) if stop.pressed() || Instant::now() > patience => {
                return Err(error)
                    .with_context(|| format!("{what} did not come up; its log is in {}", place.dir.display()));
            }
            Err(_) => std::thread::sleep(BEAT),
        }
    }
}

fn summary(ticket: &str, row: &Value, counts: &Value, seconds: f64, settled: bool, interrupted: bool) -> Value {
    let pull = &row["pulls"][0];
    let merged = pull["state"] == "merged";
    let outcome = match () {
        () if settled && merged => "done",
        () if interrupted => "interrupted",
        // Canceled, let go or switched off: it ended, and not by a merge.
        () if settled => "ended",
        () => "stuck",
    };
    let key = |k: &Value| k["repo"].as_str().map(|repo| format!("{repo}#{}", k["number"]));
    let mut all = json!({
        "outcome": outcome,
        "ticket": ticket,
        "pull": key(&pull["key"]),
        "merged": merged,
        "wakes": counts["wakes"],
        "notes": counts["notes"],
        "turns": counts["turns"],
        "seconds": (seconds * 10.0).round() / 10.0,
        "threads": counts["threads"],
        "rings": counts["rings"],
        "quiet": counts["quiet"],
        "cut": counts["cut"],
    });
    if outcome != "done" {
        let unknown = json!("unknown, because the daemon did not answer");
        let known = |name: &str| if row.is_null() { unknown.clone() } else { row[name].clone() };
        all["stuck"] = json!({ "phase": known("phase"), "phrase": known("phrase"), "needs": row["needs"], "notes": row["notes_pending"] });
    }
    all
}
