//! What can be asked for: one list for page, command line and threads.

use crate::Web;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use stewards_core::bus::{ClaimAsk, Draft};
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ids::{AskId, MessageId, NeedId, ProjectId, ThreadId};
use stewards_core::machine::{Caller, Event, Reply};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::threads::{Role, SendMode, SpawnAsk, Update};
use stewards_core::trouble::Trouble;

/// How long a merge is waited for before the asker is told to look later.
const MERGE_PATIENCE: Duration = Duration::from_secs(60);

/// A request that may change something.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    AddProject {
        name: String,
        repo: String,
        remote: String,
    },
    Switch {
        project: Option<String>,
        on: bool,
    },
    DeleteProject {
        project: String,
        yes: bool,
    },
    Merge {
        pull: String,
    },
    Done {
        need: String,
    },
    /// `project` is a project's name or id.
    Spawn {
        project: Option<String>,
        ask: Box<SpawnAsk>,
    },
    Tell {
        to: ThreadId,
        text: String,
        mode: SendMode,
    },
    Stop {
        thread: ThreadId,
    },
    StopAll {
        on: bool,
    },
    Archive {
        thread: ThreadId,
        yes: bool,
    },
    Unarchive {
        thread: ThreadId,
    },
    Delete {
        thread: ThreadId,
        yes: bool,
    },
    Retry {
        thread: ThreadId,
    },
    Compact {
        thread: ThreadId,
    },
    Fork {
        thread: ThreadId,
        title: Option<String>,
        prompt: String,
    },
    Update {
        thread: ThreadId,
        update: Update,
    },
    Drop {
        message: MessageId,
    },
    Answer {
        ask: AskId,
        choice: String,
    },
    PullOpened {
        pull: String,
        branch: String,
    },
    Wrote {
        pull: String,
        what: String,
    },
    BusSend(Draft),
    Claim(ClaimAsk),
    Heartbeat {
        resource: String,
    },
    Withdraw {
        message: u64,
    },
    /// These were shown to the thread that asks.
    BusRead {
        messages: Vec<u64>,
    },
    BusRetry {
        message: u64,
    },
    Release {
        resource: String,
        force: Option<String>,
    },
}

/// A refusal as an answer: 409 for what is not so, 400 for what is wrong.
pub(crate) fn refused(refusal: &Refusal) -> Response {
    let status = match refusal.exit {
        Exit::Usage => StatusCode::BAD_REQUEST,
        Exit::NotMet | Exit::Busy => StatusCode::CONFLICT,
        Exit::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Exit::Configuration => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, Json(serde_json::json!({ "refusal": refusal }))).into_response()
}

pub(crate) fn pull_key(text: &str) -> Result<PullKey, Refusal> {
    PullKey::parse(text).ok_or_else(|| {
        Refusal::usage("bad_pull", format!("`{text}` is no pull request"), "write <owner>/<repo>#<number>")
    })
}

pub(crate) fn unreadable(what: &str, trouble: &Trouble) -> Refusal {
    Refusal::new(
        Exit::Unreachable,
        "unreadable",
        format!("{what} cannot be read: {trouble}"),
        "try again when it can be reached",
    )
}

/// The project that is named, or the only one.
pub(crate) fn project(web: &Web, named: Option<&str>) -> Result<ProjectId, Refusal> {
    let world = &web.engine.now().world;
    let mut all = world.live_projects();
    let found = match named {
        Some(name) => all.find(|p| p.name == name || p.id.as_str() == name),
        None => all.next().filter(|_| all.next().is_none()),
    };
    found.map(|p| p.id.clone()).ok_or_else(|| {
        let names: Vec<_> = world.live_projects().map(|p| p.name.as_str()).collect();
        let says = named
            .map_or_else(|| "there is not exactly one project".to_owned(), |n| format!("no project is called {n}"));
        let hint = match names.is_empty() {
            true => "add one: stewards project add".to_owned(),
            false => format!("name one with --project: {}", names.join(", ")),
        };
        Refusal::usage("unknown_project", says, hint)
    })
}

/// Carries an ask out. A merge is waited for, so that the answer can be trusted.
pub(crate) async fn act(web: &Web, caller: Caller, ask: Ask) -> Result<Reply, Refusal> {
    let event = match ask {
        Ask::AddProject { name, repo, remote } => {
            caller.person_only("adds projects", "say what you need in your report")?;
            let repo = RepoName::parse(&repo).ok_or_else(|| {
                Refusal::usage("bad_repo", format!("`{repo}` is no repository"), "write <owner>/<name>")
            })?;
            Event::ProjectAdded { name, repo, remote }
        }
        Ask::Switch { project: named, on } => {
            caller.person_only("turns stewarding on or off", "say what you need in your report")?;
            Event::Switched { project: project(web, named.as_deref())?, on }
        }
        Ask::DeleteProject { project: named, yes } => {
            Event::ProjectDeleted { caller, project: project(web, Some(&named))?, yes }
        }
        Ask::Merge { pull } => return merge(web, caller, &pull_key(&pull)?).await,
        Ask::Done { need } => Event::NeedDone { caller, need: NeedId(need) },
        Ask::Spawn { project: named, mut ask } => {
            if ask.role == Role::Plain && ask.parent.is_none() && caller == Caller::Person {
                ask.project = Some(project(web, named.as_deref())?);
            }
            Event::Spawned { caller, ask }
        }
        Ask::Tell { to, text, mode } => Event::Told { caller, to, text, mode, revive: false },
        Ask::Stop { thread } => Event::Stopped { caller, thread },
        Ask::StopAll { on } => Event::AllStopped { caller, on },
        Ask::Archive { thread, yes } => Event::Archived { caller, thread, yes },
        Ask::Unarchive { thread } => Event::Unarchived { caller, thread },
        Ask::Delete { thread, yes } => Event::Deleted { caller, thread, yes },
        Ask::Retry { thread } => Event::Retried { caller, thread },
        Ask::Compact { thread } => Event::Compacted { caller, thread },
        Ask::Fork { thread, title, prompt } => Event::Forked { caller, thread, title, prompt },
        Ask::Update { thread, update } => Event::Updated { caller, thread, update },
        Ask::Drop { message } => Event::MessageDropped { caller, message },
        Ask::Answer { ask, choice } => Event::AskAnswered { caller, ask, choice },
        Ask::PullOpened { pull, branch } => Event::PullOpened { caller, pull: pull_key(&pull)?, branch },
        Ask::Wrote { pull, what } => Event::Wrote { caller, pull: pull_key(&pull)?, what },
        Ask::BusSend(draft) => Event::BusSent { caller, draft },
        Ask::Claim(ask) => Event::Claimed { caller, ask },
        Ask::BusRead { messages } => Event::BusRead { caller, messages },
        Ask::BusRetry { message } => Event::BusRetried { caller, message },
        Ask::Withdraw { message } => Event::Withdrawn { caller, message },
        Ask::Heartbeat { resource } => Event::Heartbeat { caller, resource },
        Ask::Release { resource, force } => Event::Released { caller, resource, force },
    };
    web.engine.tell(event).await
}

/// Re-reads, re-checks, merges and waits for what came of it.
async fn merge(web: &Web, caller: Caller, key: &PullKey) -> Result<Reply, Refusal> {
    if web.engine.now().world.binding_of_pull(key).is_none() {
        return Err(Refusal::usage("unknown_pull", format!("no effort has {key}"), "see: stewards list"));
    }
    let fresh = web.engine.read_pull(key).await.map_err(|t| unreadable(&key.to_string(), &t))?;
    let mut reply = web.engine.tell(Event::MergePressed { caller, pull: key.clone(), fresh: Box::new(fresh) }).await?;
    if !reply.ids.contains_key("effect") {
        return Ok(reply);
    }
    let pressed = web.engine.now().world.binding_of_pull(key).map(|b| b.id.clone());
    let Some(binding) = pressed else { return Ok(reply) };
    let settled = web
        .engine
        .until(MERGE_PATIENCE, |world| world.bindings.get(&binding).is_none_or(|b| b.merging.is_none()))
        .await;
    let published = web.engine.now();
    let linked = published.world.bindings.get(&binding).and_then(|b| b.pull(key));
    match linked.and_then(|l| l.merge_sha.clone()) {
        Some(sha) => {
            reply.says = vec![format!("merged {key} as {sha}")];
            reply.ids.insert("merged".into(), sha);
            Ok(reply)
        }
        None if settled => {
            let says = "the merge did not happen; the host refused it or the head moved";
            Err(Refusal::not_met("not_merged", says, format!("see: stewards gate {key}")))
        }
        None => Ok(reply),
    }
}
