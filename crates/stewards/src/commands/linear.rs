//! Linear, read as whoever is logged in.

use super::lists::text;
use crate::cli::LinearVerb;
use crate::out::{self, Outcome, unreachable};
use crate::settings::{self, LOGINS, Settings};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use stewards_core::ports::{TicketSearch, Tickets};
use stewards_core::refusal::Refusal;
use stewards_core::trouble::Trouble;
use stewards_sources::{Linear, Logins, Service, Token};

/// Rows that a search answers where nothing else is said.
const LIMIT: u32 = 20;

pub fn run(dir: Option<&Path>, verb: LinearVerb, json: bool) -> Outcome {
    let home = settings::dir(dir)?;
    let set: Settings = settings::read(&home.join("settings.json"))?;
    let logins = Arc::new(Logins::new(home.join(LOGINS)));
    let linear = Linear::new(set.linear_url, Token::Kept(logins, Service::Linear));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match verb {
            LinearVerb::Issue { key } => issue(&linear, key.trim(), json).await,
            LinearVerb::Search { text, team, state, assignee, all, limit } => {
                let text = text.join(" ");
                let limit = limit.unwrap_or(LIMIT);
                let ask = TicketSearch { text, team, state, assignee, over: all, limit };
                search(&linear, &ask, json).await
            }
            LinearVerb::Query { query, variables } => {
                let variables = match variables {
                    None => Value::Null,
                    Some(text) => serde_json::from_str(&text).map_err(|e| {
                        let says = format!("the variables are no JSON: {e}");
                        Refusal::usage("bad_variables", says, "write an object, such as {\"id\": \"ENG-1\"}")
                    })?,
                };
                out::json(&linear.query(&query, &variables).await.map_err(failed)?)
            }
        }
    })
}

fn failed(trouble: Trouble) -> anyhow::Error {
    match trouble {
        Trouble::Refused { says } => Refusal::usage("refused", says, "ask for something else").into(),
        Trouble::Gone { says } => Refusal::usage("gone", says, "look for it: stewards linear search").into(),
        Trouble::Unauthorized { says } => Refusal::not_met("not_allowed", says, "see: stewards whoami").into(),
        other => unreachable("linear", other.to_string(), "try again a little later"),
    }
}

async fn issue(linear: &Linear, key: &str, json: bool) -> Outcome {
    if key.is_empty() {
        return Err(Refusal::usage("no_key", "the key is empty", "give one, such as ENG-12").into());
    }
    let ticket = linear.ticket(key).await.map_err(failed)?;
    if json {
        return out::json(&ticket);
    }
    let assignee = ticket.assignee.as_ref().map_or("nobody", |a| a.name.as_str());
    out::line(&format!("{} {}", ticket.identifier, ticket.title));
    out::line(&ticket.url);
    out::line(&format!("{}, priority {}, assigned to {assignee}", ticket.state.name, ticket.priority));
    if !ticket.labels.is_empty() {
        out::line(&format!("labels {}", ticket.labels.join(", ")));
    }
    if let Some(parent) = &ticket.parent {
        out::line(&format!("part of {parent}"));
    }
    if !ticket.blocked_by.is_empty() {
        out::line(&format!("blocked by {}", ticket.blocked_by.join(", ")));
    }
    out::line(&format!("\n{}", ticket.description));
    for comment in &ticket.comments {
        out::line(&format!("\n{} at {}:\n{}", comment.author.name, comment.at, comment.body));
    }
    Ok(0)
}

async fn search(linear: &Linear, ask: &TicketSearch, json: bool) -> Outcome {
    let found = linear.search(ask).await.map_err(failed)?;
    if json {
        return out::json(&found);
    }
    if found.is_empty() {
        out::line("Nothing fits.");
        return Ok(0);
    }
    let rows: Vec<Vec<String>> =
        found.iter().map(|t| vec![t.key.clone(), t.state.clone(), text(&json!(t.assignee)), t.title.clone()]).collect();
    out::table(&["key", "state", "assignee", "title"], &rows);
    Ok(0)
}
