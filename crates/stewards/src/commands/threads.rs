//! Threads from the command line.

use super::{lists, said, text_file};
use crate::cli::{InteractionVerb, ModeArg, PermissionArg, RoleArg, Spawn, Switch, ThreadVerb};
use crate::client::{Client, escape};
use crate::out::{self, Outcome};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use stewards_core::entity::RepoName;
use stewards_core::ids::{AskId, MessageId, ThreadId};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::text::{cut, one_line};
use stewards_core::threads::{EnvironmentAsk, Permission, Role, SendMode, SpawnAsk, Update};
use stewards_web::Ask;

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Role {
        match role {
            RoleArg::Worker => Role::Worker,
            RoleArg::Reviewer => Role::Reviewer,
            RoleArg::Thread => Role::Plain,
        }
    }
}

impl From<ModeArg> for SendMode {
    fn from(mode: ModeArg) -> SendMode {
        match mode {
            ModeArg::Start => SendMode::Start,
            ModeArg::Auto => SendMode::Auto,
            ModeArg::Steer => SendMode::Steer,
            ModeArg::SteerIfActive => SendMode::SteerIfActive,
            ModeArg::QueueIfActive => SendMode::QueueIfActive,
        }
    }
}

impl From<PermissionArg> for Permission {
    fn from(permission: PermissionArg) -> Permission {
        match permission {
            PermissionArg::Full => Permission::Full,
            PermissionArg::AcceptEdits => Permission::AcceptEdits,
            PermissionArg::Ask => Permission::Ask,
        }
    }
}

fn on(switch: Switch) -> bool {
    matches!(switch, Switch::On)
}

pub fn run(dir: Option<&Path>, verb: ThreadVerb, json: bool) -> Outcome {
    let act = |ask: Ask| said(json, Client::new(dir)?.act(&ask)?);
    let update = |id: String, update| act(Ask::Update { thread: ThreadId(id), update });
    let read = |read| Update { read: Some(read), ..Update::default() };
    match verb {
        ThreadVerb::Spawn(args) => act(spawn(args)?),
        ThreadVerb::Tell { id, text, message_file, mode } => {
            let text = match message_file {
                Some(file) => text_file(&file)?,
                None => text.unwrap_or_default(),
            };
            act(Ask::Tell { to: ThreadId(id), text, mode: mode.into() })
        }
        ThreadVerb::Stop { id } => act(Ask::Stop { thread: ThreadId(id) }),
        ThreadVerb::Archive { id, yes } => act(Ask::Archive { thread: ThreadId(id), yes }),
        ThreadVerb::Unarchive { id } => act(Ask::Unarchive { thread: ThreadId(id) }),
        ThreadVerb::Delete { id, yes } => act(Ask::Delete { thread: ThreadId(id), yes }),
        ThreadVerb::Retry { id } => act(Ask::Retry { thread: ThreadId(id) }),
        ThreadVerb::Compact { id } => act(Ask::Compact { thread: ThreadId(id) }),
        ThreadVerb::Fork { id, title, prompt_file } => {
            act(Ask::Fork { thread: ThreadId(id), title, prompt: text_file(&prompt_file)? })
        }
        ThreadVerb::Read { id } => update(id, read(true)),
        ThreadVerb::Unread { id } => update(id, read(false)),
        ThreadVerb::Update { id, title, permission, parent_notifications, metadata } => {
            let metadata = metadata.iter().map(|m| named_value(m)).collect::<anyhow::Result<_>>()?;
            let (permission, notify) = (permission.map(Into::into), parent_notifications.map(on));
            let changes = Update { title, permission, notify, read: None, metadata };
            if changes == Update::default() {
                let hint = "--title, --permission, --parent-notifications or --metadata";
                return Err(Refusal::usage("nothing_to_do", "nothing is named to be changed", hint).into());
            }
            update(id, changes)
        }
        ThreadVerb::Queue { drop: Some(message), .. } => act(Ask::Drop { message: MessageId(message) }),
        ThreadVerb::Queue { id, drop: None } => queue(dir, &id, json),
        ThreadVerb::Interactions { verb: Some(InteractionVerb::Answer { id, choice }), .. } => {
            act(Ask::Answer { ask: AskId(id), choice: choice.join(" ") })
        }
        ThreadVerb::Interactions { thread, verb: None } => interactions(dir, thread.as_deref(), json),
        ThreadVerb::List { all } => lists::threads(dir, all, json),
        ThreadVerb::Show { id } => lists::thread(dir, &id, json),
        ThreadVerb::Log { id, lines, follow } => log(dir, &id, lines, follow, json),
        ThreadVerb::Wait { id, timeout } => wait(dir, &id, Duration::from_secs(timeout), json),
    }
}

fn spawn(args: Spawn) -> anyhow::Result<Ask> {
    let prompt = args.prompt_file.as_deref().map(text_file).transpose()?;
    let environment = args.environment.map(|named| match named.as_str() {
        "worktree" => Ok(EnvironmentAsk::Worktree),
        "checkout" => Ok(EnvironmentAsk::Checkout),
        path => directory(Path::new(path)),
    });
    let repo = args.repo.map(|name| {
        let says = format!("`{name}` is no repository");
        RepoName::parse(&name).ok_or_else(|| Refusal::usage("bad_repo", says, "write <owner>/<name>"))
    });
    let ask = SpawnAsk {
        role: args.role.into(),
        parent: args.parent.map(ThreadId),
        project: None,
        title: args.title,
        prompt,
        model: args.model,
        repo: repo.transpose()?,
        environment: environment.transpose()?,
        owner: args.owner.map(ThreadId),
        permission: args.permission.map(Into::into),
        notify: args.parent_notifications.map(on),
        hidden: args.hidden,
    };
    Ok(Ask::Spawn { project: args.project, ask: Box::new(ask) })
}

fn directory(path: &Path) -> anyhow::Result<EnvironmentAsk> {
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(EnvironmentAsk::Directory { path }),
        _ => {
            let says = format!("{} is no directory", path.display());
            Err(Refusal::usage("bad_directory", says, "write worktree, checkout, or the path of a directory").into())
        }
    }
}

/// `name=value`, where the value is JSON if it can be.
fn named_value(text: &str) -> anyhow::Result<(String, Value)> {
    let Some((name, value)) = text.split_once('=') else {
        let says = format!("`{text}` has no value");
        return Err(Refusal::usage("bad_metadata", says, "write --metadata name=value").into());
    };
    let value = match value {
        "" => Value::Null,
        value => serde_json::from_str(value).unwrap_or_else(|_| value.into()),
    };
    Ok((name.to_owned(), value))
}

fn text(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}

fn queue(dir: Option<&Path>, id: &str, json: bool) -> Outcome {
    let found: Value = Client::new(dir)?.get(&format!("/api/threads/{}?limit=1", escape(id)))?;
    let mut waiting: Vec<Value> = found["messages"].as_array().cloned().unwrap_or_default();
    waiting.retain(|m| m["state"] == "queued");
    if json {
        return out::json(&waiting);
    }
    for message in &waiting {
        let words = cut(&one_line(&text(&message["text"])), 120);
        out::line(&format!("{}  {}: {words}", text(&message["id"]), text(&message["cause"])));
    }
    match found["thread"]["waits"].as_str() {
        _ if waiting.is_empty() => out::line("Nothing waits."),
        Some(why) => out::line(&format!("It waits because {why}.")),
        None => {}
    }
    Ok(0)
}

fn interactions(dir: Option<&Path>, thread: Option<&str>, json: bool) -> Outcome {
    let path = match thread {
        Some(id) => format!("/api/interactions?thread={}", escape(id)),
        None => "/api/interactions".to_owned(),
    };
    let all: Vec<Value> = Client::new(dir)?.get(&path)?;
    if json {
        return out::json(&all);
    }
    for ask in &all {
        out::line(&format!("{}  {}", text(&ask["id"]), text(&ask["text"])));
        for (n, choice) in ask["choices"].as_array().into_iter().flatten().enumerate() {
            out::line(&format!("    {}. {}", n + 1, text(choice)));
        }
        out::line(&format!("    {}", text(&ask["command"])));
    }
    if all.is_empty() {
        out::line("No agent waits for you.");
    }
    Ok(0)
}

fn log(dir: Option<&Path>, id: &str, lines: u32, follow: bool, json: bool) -> Outcome {
    let client = Client::new(dir)?;
    let mut path = format!("/api/threads/{}?limit={lines}", escape(id));
    let mut last = 0;
    loop {
        let found: Value = client.get(&path)?;
        let fresh = found["transcript"].as_array().cloned().unwrap_or_default();
        if json {
            for line in &fresh {
                out::line(&line.to_string());
            }
        } else {
            lists::transcript(&fresh);
        }
        last = fresh.last().and_then(|l| l["id"].as_i64()).unwrap_or(last);
        if !follow {
            return Ok(0);
        }
        path = format!("/api/threads/{}?after={last}&limit=10000", escape(id));
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Exits 0 when it rests, 1 when it failed or something else than its own work
/// keeps it, 75 when the time is over.
fn wait(dir: Option<&Path>, id: &str, timeout: Duration, json: bool) -> Outcome {
    let client = Client::new(dir)?;
    let began = Instant::now();
    loop {
        let left = timeout.saturating_sub(began.elapsed()).as_millis().min(30_000);
        let found: Value = client.get(&format!("/api/threads/{}/settled?wait_ms={left}", escape(id)))?;
        let settled = found["settled"] == true;
        if !settled && began.elapsed() < timeout {
            continue;
        }
        let thread = &found["thread"];
        let asks = thread["asks"].as_u64().unwrap_or(0);
        let (code, how) = match thread["waits"].as_str() {
            _ if !settled => (Exit::Busy.code(), "still at work".to_owned()),
            _ if thread["status"] == "deleted" => (Exit::NotMet.code(), "was deleted".to_owned()),
            _ if thread["archived"] == true => (Exit::NotMet.code(), "is archived".to_owned()),
            _ if asks > 0 => (Exit::NotMet.code(), "waits for you: stewards thread interactions".to_owned()),
            Some(why) => (Exit::NotMet.code(), why.to_owned()),
            None => match thread["error"].as_str() {
                Some(error) => (Exit::NotMet.code(), format!("failed: {error}")),
                None => (0, text(&thread["status"])),
            },
        };
        if json {
            out::json(&found)?;
        } else {
            out::line(&format!("{id}: {how}"));
        }
        return Ok(code);
    }
}
