//! `stewards bus`: verbs from the kind table.

use super::lists::{self, value, view};
use super::{said, text_file};
use crate::cli::{BusLog, BusVerb, KindArgs, Message};
use crate::client::{Client, escape};
use crate::out::{self, Outcome};
use clap::Parser;
use serde_json::Value;
use std::path::Path;
use stewards_core::bus::{BusMessage, ClaimAsk, Draft, claim_rows, filter, known_kind, owed_between, schema_line};
use stewards_core::ids::ThreadId;
use stewards_core::machine::Caller;
use stewards_core::refusal::Refusal;
use stewards_core::text::lasting;
use stewards_store::{BusFilter, BusStats};
use stewards_web::Ask;

pub fn run(dir: Option<&Path>, verb: BusVerb, json: bool) -> Outcome {
    match verb {
        BusVerb::Claim { resources, reason, ttl, wait, max_wait } => {
            let resources = resources.iter().map(|r| resource(r)).collect::<anyhow::Result<_>>()?;
            let ask = ClaimAsk { resources, reason, ttl, wait, max_wait };
            said(json, Client::new(dir)?.act(&Ask::Claim(ask))?)
        }
        BusVerb::Heartbeat { resource: typed } => {
            said(json, Client::new(dir)?.act(&Ask::Heartbeat { resource: resource(&typed)? })?)
        }
        BusVerb::Check { resource: typed, epoch } => check(dir, &resource(&typed)?, epoch, json),
        BusVerb::Release { resource: typed, force, reason } => {
            let resource = resource(&typed)?;
            let force = if force { reason } else { None };
            said(json, Client::new(dir)?.act(&Ask::Release { resource, force })?)
        }
        BusVerb::Claims { history: Some(typed), .. } => history(dir, &resource(&typed)?, json),
        BusVerb::Claims { mine, stale, .. } => claims(dir, mine, stale, json),
        BusVerb::Log(asked) => log(dir, &asked, json),
        BusVerb::Stats { since } => stats(dir, since, json),
        BusVerb::Retry { message } => said(json, Client::new(dir)?.act(&Ask::BusRetry { message })?),
        BusVerb::Unanswered { minutes, from, to, limit } => {
            unanswered(dir, minutes, from.as_deref(), to.as_deref(), limit as usize, json)
        }
        BusVerb::Withdraw { message } => said(json, Client::new(dir)?.act(&Ask::Withdraw { message })?),
        BusVerb::Send { kind, message } => send(dir, &kind, message, json),
        BusVerb::Kind(args) => by_kind(dir, &args, json),
    }
}

/// As it is known from any folder.
fn resource(typed: &str) -> anyhow::Result<String> {
    Ok(crate::paths::resolve(typed, &std::env::current_dir()?)?)
}

/// `bus <kind> …`: the same as `bus send --kind <kind> …`.
fn by_kind(dir: Option<&Path>, args: &[String], json: bool) -> Outcome {
    let name = args.first().map_or("", String::as_str);
    let known = known_kind(name).map_err(|refusal| {
        let says = format!("`{name}` is neither a verb of the bus nor a kind of message");
        Refusal::usage(&refusal.code, says, refusal.hint)
    })?;
    let rest = &args[1..];
    if name == "help" && rest.is_empty() {
        return help();
    }
    if rest.iter().any(|a| a == "--help" || a == "-h") {
        out::line(&schema_line(known));
        return Ok(0);
    }
    let parsed = KindArgs::try_parse_from(rest)
        .map_err(|e| Refusal::usage("bad_arguments", out::bad_arguments(&e).says, schema_line(known)))?;
    send(parsed.dir.as_deref().or(dir), known.name, parsed.message, json || parsed.json)
}

fn send(dir: Option<&Path>, kind: &str, message: Message, json: bool) -> Outcome {
    if message.body.is_some() {
        let says = "there is no --body: what is piped or quoted gets lost on the way";
        return Err(Refusal::usage("no_body_flag", says, "write the body to a file: --body-file <path>").into());
    }
    let mut fields = Vec::new();
    fields.extend(message.reference.map(|r| ("ref".to_owned(), r)));
    for pair in &message.fields {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Refusal::usage("bad_field", format!("`{pair}` is no field"), "write --field name=value").into());
        };
        fields.push((name.to_owned(), value.to_owned()));
    }
    for (_, value) in fields.iter_mut().filter(|(name, value)| name == "ref" && value.starts_with("path:")) {
        *value = resource(value)?;
    }
    let body = message.body_file.as_deref().map(text_file).transpose()?;
    let to = message.to.into_iter().map(ThreadId).collect();
    said(
        json,
        Client::new(dir)?.act(&Ask::BusSend(Draft {
            kind: kind.to_owned(),
            to,
            fields,
            body,
            dedupe: message.dedupe_key,
        }))?,
    )
}

fn claims(dir: Option<&Path>, mine: bool, stale: bool, json: bool) -> Outcome {
    let mut all: Vec<Value> = view(dir, "/api/claims", |_, w| Ok(value(&claim_rows(w, &lists::offline(w)))))?;
    if mine {
        let me = std::env::var("STEWARDS_THREAD").unwrap_or_default();
        all.retain(|c| c["holder"].as_str().unwrap_or_default() == me);
    }
    all.retain(|c| !stale || c["stale"] == true);
    if json {
        return out::json(&all);
    }
    let text = |v: &Value| v.as_str().unwrap_or("the owner").to_owned();
    for claim in &all {
        let state = match (claim["stale"] == true, claim["granted"] == true) {
            (true, _) => "EXPIRED",
            (false, true) => "granted until",
            (false, false) => "held until",
        };
        let (key, spelled) = (text(&claim["key"]), text(&claim["spelled"]));
        let name = if key == spelled { key } else { format!("{spelled} = {key}") };
        out::line(&format!(
            "{name}  {}  {state} {} (epoch {})  {}",
            text(&claim["holder"]),
            text(&claim["expires"]),
            claim["epoch"],
            text(&claim["reason"])
        ));
        for (n, waiter) in claim["waiters"].as_array().into_iter().flatten().enumerate() {
            out::line(&format!(
                "    {}. {} waits since {}, until {}: {}",
                n + 1,
                text(&waiter["thread"]),
                text(&waiter["since"]),
                text(&waiter["gives_up"]),
                text(&waiter["reason"])
            ));
        }
    }
    if all.is_empty() {
        out::line("Nothing is held.");
    }
    Ok(0)
}

fn unanswered(
    dir: Option<&Path>,
    minutes: u32,
    from: Option<&str>,
    to: Option<&str>,
    limit: usize,
    json: bool,
) -> Outcome {
    let mut path = "/api/owed?".to_owned();
    for (name, given) in [("from", from), ("to", to)] {
        path.push_str(&given.map_or(String::new(), |g| format!("&{name}={}", escape(g))));
    }
    let mut all: Vec<Value> = view(dir, &path, |_, w| Ok(value(&owed_between(w, [from, to])?)))?;
    let until = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes.into());
    let old = |m: &Value| m["at"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok()).is_none_or(|at| at <= until);
    all.retain(old);
    all.truncate(limit);
    if json {
        return out::json(&all);
    }
    for message in &all {
        let text = |name: &str| message[name].as_str().unwrap_or("the owner").to_owned();
        let fields: Vec<String> = message["fields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|f| format!("{}={}", f[0].as_str().unwrap_or_default(), f[1]))
            .collect();
        let (seq, kind) = (&message["seq"], text("kind"));
        out::line(&format!("#{seq} {}  {} -> {}  [{kind}] {}", text("at"), text("from"), text("to"), fields.join(" ")));
        out::line(&format!("    {}", text("command")));
    }
    if all.is_empty() {
        out::line("Nothing is owed an answer.");
    }
    Ok(0)
}

fn help() -> Outcome {
    use clap::CommandFactory;
    if let Some(bus) = crate::cli::Cli::command().find_subcommand_mut("bus") {
        out::line(bus.render_help().to_string().trim_end());
    }
    Ok(0)
}

fn check(dir: Option<&Path>, resource: &str, epoch: u64, json: bool) -> Outcome {
    let path = format!("/api/claims/check?resource={}&epoch={epoch}", escape(resource));
    let held: Value = Client::new(dir)?.get(&path)?;
    if json {
        return out::json(&held);
    }
    let holder = held["holder"].as_str().unwrap_or("the owner");
    out::line(&format!("{} is held by {holder} in epoch {epoch}", held["key"].as_str().unwrap_or(resource)));
    Ok(0)
}

fn history(dir: Option<&Path>, resource: &str, json: bool) -> Outcome {
    let all: Vec<Value> = Client::new(dir)?.get(&format!("/api/claims/history?resource={}", escape(resource)))?;
    if json {
        return out::json(&all);
    }
    for line in &all {
        out::line(&format!(
            "{}  {}",
            line["at"].as_str().unwrap_or_default(),
            line["line"].as_str().unwrap_or_default()
        ));
    }
    if all.is_empty() {
        out::line("Nobody ever held it.");
    }
    Ok(0)
}

fn log(dir: Option<&Path>, asked: &BusLog, json: bool) -> Outcome {
    let reference = match &asked.reference {
        Some(typed) if typed.starts_with("path:") => Some(resource(typed)?),
        other => other.clone(),
    };
    let mut path = format!("/api/bus?limit={}&unread={}&undelivered={}", asked.limit, asked.unread, asked.undelivered);
    for (name, given) in [("kind", &asked.kind), ("from", &asked.from), ("to", &asked.to), ("ref", &reference)] {
        if let Some(given) = given {
            path.push_str(&format!("&{name}={}", escape(given)));
        }
    }
    for (name, given) in [("since", asked.since), ("before", asked.before)] {
        if let Some(given) = given {
            path.push_str(&format!("&{name}={}", given.as_millisecond()));
        }
    }
    let all: Vec<Value> = view(dir, &path, |reader, world| {
        let BusLog { kind, from, to, since, before, .. } = asked;
        let (home, whom) = (world.home(&Caller::Person, None), [from.as_deref(), to.as_deref()]);
        let about = filter(world, &home, kind.as_deref(), whom, reference.as_deref())?;
        let ms = |at: &Option<jiff::Timestamp>| at.map(|t| t.as_millisecond());
        let filter = BusFilter {
            kind: kind.clone(),
            from: from.clone(),
            to: to.clone(),
            about,
            since: ms(since),
            before: ms(before),
            limit: asked.limit,
        };
        let found = match (asked.unread, asked.undelivered) {
            (true, _) => return Ok(None),
            (false, true) => reader.bus_undelivered(asked.limit),
            (false, false) => reader.bus_log(&filter),
        };
        Ok(value(&found?))
    })?;
    let messages: Vec<u64> = all.iter().filter_map(|row| row["seq"].as_u64()).collect();
    if json {
        out::json(&all)?;
    } else {
        for row in all {
            let state = row["state"].as_str().unwrap_or("gone").to_owned();
            let message: BusMessage = serde_json::from_value(row)?;
            out::line(&format!("to {} ({state}): {}", message.to, message.injected()));
        }
    }
    // Only now: what could not be printed was not read.
    if asked.unread && !messages.is_empty() {
        Client::new(dir)?.act(&Ask::BusRead { messages })?;
    }
    Ok(0)
}

fn stats(dir: Option<&Path>, since: Option<jiff::Timestamp>, json: bool) -> Outcome {
    let ms = since.map_or(i64::MIN, |t| t.as_millisecond());
    let path = format!("/api/bus/stats?since={ms}");
    let stats: BusStats = view(dir, &path, |reader, _| Ok(value(&reader.bus_stats(ms)?)))?;
    if json {
        return out::json(&stats);
    }
    let row = |name: &str, messages: u64| {
        vec![name.to_owned(), messages.to_string(), percent(messages as f64 / stats.messages.max(1) as f64)]
    };
    let kinds: Vec<_> = stats.kinds.iter().map(|k| row(&k.kind, k.messages)).collect();
    out::table(&["kind", "messages", "share"], &kinds);
    let senders = stats.senders.iter().map(|s| row(&s.sender, s.messages));
    out::line("");
    out::table(&["sender", "messages", "share"], &senders.collect::<Vec<_>>());
    out::line("");
    out::line(&format!("{} messages, {} of them notes.", stats.messages, percent(stats.note_share)));
    out::line(&match stats.median_ms_to_answer {
        Some(ms) => format!("{} answers, within {} at the median.", stats.answers, lasting(ms)),
        None => "No answers.".to_owned(),
    });
    let undelivered: Vec<String> = stats.undelivered.iter().map(|(state, n)| format!("{n} {state}")).collect();
    out::line(&match undelivered.is_empty() {
        true => "Everything was delivered.".to_owned(),
        false => format!("Not delivered: {} (see: stewards bus log --undelivered).", undelivered.join(", ")),
    });
    Ok(0)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
