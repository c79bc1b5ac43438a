//! The story in the terminal: one line a fact.

use crate::client::Client;
use crate::out;
use serde_json::Value;
use std::collections::BTreeMap;

pub struct Story {
    quiet: bool,
    after: u64,
    /// What was said of each subject last: the same again is no news.
    last: BTreeMap<String, String>,
}

impl Story {
    pub fn new(quiet: bool) -> Story {
        Story { quiet, after: 0, last: BTreeMap::new() }
    }

    pub fn line(&self, text: &str) {
        if !self.quiet {
            out::line(&format!("{}  {text}", jiff::ZonedDateTime::now().strftime("%T")));
        }
    }

    /// Tells what the journal has since last time; says whether there was any.
    pub fn follow(&mut self, client: &Client) -> anyhow::Result<bool> {
        let found: Value = client.get(&format!("/api/journal?after={}", self.after))?;
        self.after = found["last"].as_u64().unwrap_or(self.after);
        let mut any = false;
        for line in found["lines"].as_array().into_iter().flatten() {
            let (about, said) = (line["about"].as_str().unwrap_or(""), line["line"].as_str().unwrap_or(""));
            let routine = said == "looking" || said.starts_with("rang: sweep");
            if routine || self.last.get(about).is_some_and(|l| l == said) {
                continue;
            }
            self.last.insert(about.to_owned(), said.to_owned());
            any = true;
            if !self.quiet {
                let at: Option<jiff::Timestamp> = line["at"].as_str().and_then(|t| t.parse().ok());
                let at = at
                    .map(|t| t.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%T").to_string())
                    .unwrap_or_default();
                out::line(&format!("{at}  {about}: {said}"));
            }
        }
        Ok(any)
    }
}

/// Nothing of the effort is left to be done: threads archived, worktrees gone.
pub fn settled(client: &Client, key: &str) -> bool {
    let Ok(threads) = client.get::<Vec<Value>>("/api/threads") else { return false };
    threads.iter().filter(|t| t["key"] == key).all(|t| {
        let id = t["id"].as_str().unwrap_or_default();
        let whole: Value = client.get(&format!("/api/threads/{id}")).unwrap_or(Value::Null);
        let (kind, state) = (&whole["environment"]["kind"], &whole["environment"]["state"]);
        let gone = kind == "checkout" || state == "removed" || state == "unmade" || state["moved_aside"].is_object();
        t["archived"] == true && t["status"] != "stopping" && gone
    })
}

/// The numbers at the end.
pub fn closing(summary: &Value) {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    out::line("");
    match summary["outcome"].as_str() {
        Some("done") => {
            out::line(&format!("{} is done: {} was merged.", text(&summary["ticket"]), text(&summary["pull"])))
        }
        Some("ended") => {
            let how = text(&summary["stuck"]["phrase"]);
            out::line(&format!("{} ended without a merge: {how}.", text(&summary["ticket"])));
        }
        other => {
            out::line(&format!("{} is not done ({}).", text(&summary["ticket"]), other.unwrap_or("unknown")));
            out::line(&format!(
                "It stands in {}: {}",
                text(&summary["stuck"]["phase"]),
                text(&summary["stuck"]["phrase"])
            ));
        }
    }
    for thread in summary["threads"].as_array().into_iter().flatten() {
        let tokens = &thread["tokens"];
        let about = if tokens["estimated"] == true { " (estimated)" } else { "" };
        let causes: Vec<String> = thread["causes"].as_array().into_iter().flatten().map(text).collect();
        out::line(&format!(
            "  {} {}: {} turn(s) for {}; {} tokens in, {} out{about}",
            text(&thread["role"]),
            text(&thread["thread"]),
            thread["turns"],
            causes.join(" | "),
            tokens["input"],
            tokens["output"],
        ));
    }
    for wake in summary["wakes"].as_array().into_iter().flatten() {
        out::line(&format!("  wake of {}: {}", text(&wake["thread"]), text(&wake["cause"])));
    }
    if summary["turns"].is_null() {
        return out::line("  What it cost could not be asked.");
    }
    out::line(&format!("  {} ring(s); what woke nobody:", summary["rings"]));
    for (why, n) in summary["quiet"].as_object().into_iter().flatten() {
        out::line(&format!("    {n} × {why}"));
    }
    out::line(&format!("  {} turn(s) in all, {} seconds", summary["turns"], summary["seconds"]));
}
