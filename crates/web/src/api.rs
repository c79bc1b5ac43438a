//! The JSON API: what the pages show, and what can be asked for.

use crate::Web;
use crate::act::{self, Ask, refused, unreadable};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use stewards_core::bus::{Claim, ClaimRow, OwedRow, check_epoch, claim_key, claim_rows, filter, owed_between};
use stewards_core::config::Skill;
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, World};
use stewards_core::ports::{AgentInfo, Quota};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::stewards::{self, Binding, LinkedPull};
use stewards_core::threads::{
    EnvironmentRow, Role, Status, ThreadRow, environment_rows, known, thread_row, thread_rows, unknown,
};
use stewards_store::{BusFilter, BusRow, BusStats, StoreError, Told};

pub(crate) fn router() -> Router<Web> {
    Router::new()
        .route("/list", get(list))
        .route("/projects", get(projects))
        .route("/show/{key}", get(show))
        .route("/explain/{key}", get(explain))
        .route("/brief/{key}", get(brief))
        .route("/spawn-flags", get(spawn_flags))
        .route("/gate", get(gate))
        .route("/needs", get(needs))
        .route("/threads", get(threads))
        .route("/threads/{id}", get(thread))
        .route("/threads/{id}/settled", get(settled))
        .route("/interactions", get(interactions))
        .route("/environments", get(environments))
        .route("/agents", get(agents))
        .route("/services", get(services))
        .route("/quotas", get(quotas))
        .route("/skills", get(skills))
        .route("/claims", get(claims))
        .route("/claims/check", get(claim))
        .route("/claims/history", get(claim_history))
        .route("/bus", get(bus))
        .route("/bus/stats", get(bus_stats))
        .route("/owed", get(owed))
        .route("/journal", get(journal))
        .route("/summary", get(summary))
        .route("/build", get(build))
        .route("/link", post(link))
        .route("/act", post(act))
}

/// An answer, or a refusal with its status.
type Answer<T> = Result<Json<T>, Response>;

fn store_failed(error: &StoreError) -> Response {
    tracing::error!(%error, "the store could not be read");
    let says = Refusal::new(
        Exit::Unreachable,
        "store",
        format!("the store could not be read: {error}"),
        "see the daemon's log",
    );
    (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "refusal": says }))).into_response()
}

fn no(refusal: Refusal) -> Response {
    refused(&refusal)
}

/// The effort that a key names; inside a thread, its own by default.
fn effort<'a>(world: &'a World, caller: &Caller, key: Option<&str>) -> Result<&'a Binding, Refusal> {
    let own = || match caller {
        Caller::Thread(id) => world.threads.get(id)?.binding.as_ref().and_then(|b| world.bindings.get(b)),
        Caller::Person => None,
    };
    match key {
        Some(key) => world.binding_by_key(key).ok_or_else(|| {
            Refusal::usage("unknown_effort", format!("no effort is called {key}"), "see: stewards list")
        }),
        None => own().ok_or_else(|| {
            Refusal::usage("no_key", "outside a thread the effort has to be named", "add its key, such as DEMO-1")
        }),
    }
}

async fn list(State(web): State<Web>) -> Json<Vec<stewards::Row>> {
    Json(stewards::rows(&web.engine.now().world))
}

async fn projects(State(web): State<Web>) -> Json<Vec<stewards::ProjectRow>> {
    Json(stewards::project_rows(&web.engine.now().world))
}

async fn needs(State(web): State<Web>) -> Json<Vec<stewards::NeedRow>> {
    Json(stewards::needs(&web.engine.now().world))
}

async fn threads(State(web): State<Web>) -> Json<Vec<ThreadRow>> {
    let now = web.engine.now();
    Json(thread_rows(&now.world, &now.now))
}

async fn environments(State(web): State<Web>) -> Json<Vec<EnvironmentRow>> {
    let now = web.engine.now();
    let mut rows = environment_rows(&now.world);
    let paths: Vec<_> = rows.iter().filter(|r| r.kind == "worktree").filter_map(|r| r.path.clone()).collect();
    let sizes = web.engine.disk(paths).await;
    for row in &mut rows {
        row.bytes = row.path.as_ref().and_then(|p| sizes.get(p)).copied();
    }
    Json(rows)
}

async fn services(State(web): State<Web>) -> Json<Vec<stewards::ServiceRow>> {
    Json(stewards::service_rows(&web.engine.now().world))
}

async fn quotas(State(web): State<Web>) -> Json<Vec<Quota>> {
    Json(web.engine.quotas())
}

async fn agents(State(web): State<Web>) -> Json<Vec<AgentInfo>> {
    Json(web.engine.agents().await)
}

#[derive(Deserialize)]
struct OfProject {
    project: Option<String>,
}

/// The skills of a project; inside a thread, of its own. Without one, those that are shipped.
async fn skills(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Query(q): Query<OfProject>,
) -> Answer<Vec<Skill>> {
    let now = web.engine.now();
    let of_caller = match &caller {
        Caller::Thread(id) => now.world.threads.get(id).map(|t| t.project.clone()),
        Caller::Person => None,
    };
    let project = match (of_caller, &q.project) {
        (Some(own), _) => Some(own),
        (None, Some(named)) => Some(act::project(&web, Some(named)).map_err(no)?),
        (None, None) => act::project(&web, None).ok(),
    };
    let own = project.and_then(|p| now.world.projects.get(&p)).map(|p| p.config.skills.clone());
    Ok(Json(stewards_core::config::skills(&own.unwrap_or_default())))
}

#[derive(Deserialize)]
struct OfThread {
    thread: Option<ThreadId>,
}

async fn interactions(State(web): State<Web>, Query(q): Query<OfThread>) -> Answer<Vec<stewards::NeedRow>> {
    let now = web.engine.now();
    if let Some(thread) = &q.thread {
        known(&now.world, thread).map_err(no)?;
    }
    Ok(Json(stewards::ask_rows(&now.world, q.thread.as_ref())))
}

#[derive(Deserialize)]
struct Wait {
    /// At most so long, and at most 60 s.
    #[serde(default)]
    wait_ms: u64,
}

/// Answers once nothing of the thread is at work or about to be, or it waits for
/// something that only time or a person changes, or the wait is over.
async fn settled(State(web): State<Web>, Path(id): Path<String>, Query(q): Query<Wait>) -> Answer<Value> {
    let id = ThreadId(id);
    let rests = |p: &stewards_engine::Published| {
        p.world.threads.get(&id).is_none_or(|t| {
            let idle = t.turn.is_none() && t.queue.is_empty() && t.steering.is_empty() && t.status != Status::Stopping;
            let over = (!t.live() && t.status != Status::Stopping) || !t.asks.is_empty();
            idle || over || (t.turn.is_none() && thread_row(&p.world, t, &p.now).waits.is_some())
        })
    };
    let mut watch = web.engine.watch();
    let patience = Duration::from_millis(q.wait_ms.min(60_000));
    let settled = rests(&web.engine.now())
        || tokio::time::timeout(patience, watch.wait_for(|p| rests(p))).await.is_ok_and(|w| w.is_ok());
    let now = web.engine.now();
    let Some(thread) = now.world.threads.get(&id) else { return Err(no(unknown(&id))) };
    Ok(Json(json!({ "settled": settled, "thread": thread_row(&now.world, thread, &now.now) })))
}

async fn show(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> Answer<stewards::Detail> {
    let now = web.engine.now();
    let binding = effort(&now.world, &caller, Some(&key)).map_err(no)?;
    Ok(Json(stewards::detail(&now.world, binding, &now.now)))
}

#[derive(Deserialize)]
struct Transcript {
    /// Only what came after this line.
    after: Option<i64>,
    limit: Option<u32>,
}

/// The newest lines of the transcript, or those after a known one; oldest first.
async fn thread(State(web): State<Web>, Path(id): Path<String>, Query(q): Query<Transcript>) -> Answer<Value> {
    let now = web.engine.now();
    let id = ThreadId(id);
    let Some(thread) = now.world.threads.get(&id) else { return Err(no(unknown(&id))) };
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let messages = reader.messages_of(&id).map_err(|e| store_failed(&e))?;
    let limit = q.limit.unwrap_or(1_000).min(10_000);
    let transcript = match q.after {
        Some(after) => reader.transcript(&id, after, limit),
        None => reader.transcript_end(&id, limit),
    };
    let transcript = transcript.map_err(|e| store_failed(&e))?;
    Ok(Json(json!({
        "thread": thread_row(&now.world, thread, &now.now),
        "environment": thread.environment,
        "interactions": stewards::ask_rows(&now.world, Some(&id)),
        "messages": messages,
        "transcript": transcript,
    })))
}

async fn explain(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> Answer<Vec<Told>> {
    let now = web.engine.now();
    let binding = effort(&now.world, &caller, Some(&key)).map_err(no)?;
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let lines = reader.story(&now.world, binding).map_err(|e| store_failed(&e))?;
    Ok(Json(lines))
}

async fn brief(State(web): State<Web>, Extension(caller): Extension<Caller>, Path(key): Path<String>) -> Answer<Value> {
    let now = web.engine.now();
    let binding = effort(&now.world, &caller, Some(&key)).map_err(no)?;
    let steward = binding.steward.as_ref().and_then(|s| now.world.threads.get(s));
    let Some(steward) = steward else {
        return Err(no(Refusal::not_met(
            "no_steward",
            format!("{} has no steward", binding.key),
            "it is only a candidate yet",
        )));
    };
    Ok(Json(json!({ "thread": steward.id, "brief": stewards::brief(&now.world, steward) })))
}

#[derive(Deserialize)]
struct SpawnFlags {
    key: Option<String>,
    role: Option<Role>,
}

async fn spawn_flags(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<SpawnFlags>,
) -> Answer<Value> {
    let now = web.engine.now();
    let binding = effort(&now.world, &caller, asked.key.as_deref()).map_err(no)?;
    let role = asked.role.unwrap_or(Role::Worker);
    let playbook = now.world.projects.get(&binding.project).and_then(|p| p.config.ticket_playbook());
    let model = playbook.and_then(|p| match role {
        Role::Worker => p.models.worker.clone(),
        Role::Reviewer => p.models.reviewer.clone(),
        Role::Steward | Role::ProjectSteward | Role::Plain => None,
    });
    let Some(model) = model else {
        let says = format!("no model is configured for a {}", role.word());
        let hint = format!("add models.{} to the playbook's front matter", role.word());
        return Err(no(Refusal::new(Exit::Configuration, "no_model", says, hint)));
    };
    Ok(Json(json!({ "command": stewards::spawn_command(role, &model) })))
}

#[derive(Deserialize)]
struct OnePull {
    pull: String,
}

async fn gate(State(web): State<Web>, Query(asked): Query<OnePull>) -> Answer<stewards::Verdict> {
    let key = act::pull_key(&asked.pull).map_err(no)?;
    if web.engine.now().world.binding_of_pull(&key).is_none() {
        return Err(no(Refusal::usage("unknown_pull", format!("no effort has {key}"), "see: stewards list")));
    }
    let fresh = web.engine.read_pull(&key).await.map_err(|t| no(unreadable(&key.to_string(), &t)))?;
    let now = web.engine.now();
    let Some(binding) = now.world.binding_of_pull(&key) else {
        return Err(no(Refusal::usage("unknown_pull", format!("no effort has {key}"), "see: stewards list")));
    };
    let by = binding.pull(&key).and_then(|l| l.by.clone());
    Ok(Json(stewards::gate(&now.world, binding, &LinkedPull::read(&fresh, by))))
}

async fn claims(State(web): State<Web>) -> Json<Vec<ClaimRow>> {
    let now = web.engine.now();
    Json(claim_rows(&now.world, &now.now))
}

#[derive(Deserialize)]
struct OneResource {
    resource: String,
    epoch: Option<u64>,
    limit: Option<u32>,
}

/// Whether a resource is held, and in the epoch that is named.
async fn claim(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Query(q): Query<OneResource>,
) -> Answer<Claim> {
    let now = web.engine.now();
    let key = claim_key(&q.resource, &now.world.home(&caller, None)).map_err(no)?;
    let epoch =
        q.epoch.ok_or_else(|| no(Refusal::usage("no_epoch", "no epoch is named", "claim prints it: --epoch N")))?;
    Ok(Json(check_epoch(&now.world, &now.now, &key, epoch).map_err(no)?))
}

/// What became of a resource, oldest first, the newest so many.
async fn claim_history(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Query(q): Query<OneResource>,
) -> Answer<Vec<Told>> {
    let now = web.engine.now();
    let key = claim_key(&q.resource, &now.world.home(&caller, None)).map_err(no)?;
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let found = reader.claim_history(&now.world, &key, q.limit.unwrap_or(50).min(1_000));
    Ok(Json(found.map_err(|e| store_failed(&e))?))
}

#[derive(Deserialize)]
struct OfThreads {
    from: Option<String>,
    to: Option<String>,
}

/// What is owed an answer, oldest first.
async fn owed(State(web): State<Web>, Query(q): Query<OfThreads>) -> Answer<Vec<OwedRow>> {
    let now = web.engine.now();
    Ok(Json(owed_between(&now.world, [q.from.as_deref(), q.to.as_deref()]).map_err(no)?))
}

#[derive(Deserialize)]
struct BusLog {
    kind: Option<String>,
    from: Option<String>,
    to: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Milliseconds.
    since: Option<i64>,
    before: Option<i64>,
    /// Only what was sent to the caller and not given to it yet.
    #[serde(default)]
    unread: bool,
    /// Only what waits, failed, or may have been lost with the daemon.
    #[serde(default)]
    undelivered: bool,
    limit: Option<u32>,
}

async fn bus(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    Query(q): Query<BusLog>,
) -> Answer<Vec<BusRow>> {
    let now = web.engine.now();
    let home = now.world.home(&caller, None);
    let whom = [q.from.as_deref(), q.to.as_deref()];
    let about = filter(&now.world, &home, q.kind.as_deref(), whom, q.reference.as_deref()).map_err(no)?;
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let limit = q.limit.unwrap_or(50).clamp(1, 1_000);
    let found = match (&caller, q.unread, q.undelivered) {
        (Caller::Thread(me), true, _) => reader.bus_unread(me, limit),
        (Caller::Person, true, _) => {
            let says = "the owner is sent nothing on the bus, so nothing is unread";
            return Err(no(Refusal::usage("not_a_thread", says, "see what waits: stewards bus log --undelivered")));
        }
        (_, false, true) => reader.bus_undelivered(limit),
        (_, false, false) => {
            let BusLog { kind, from, to, since, before, .. } = q;
            reader.bus_log(&BusFilter { kind, from, to, about, since, before, limit })
        }
    };
    Ok(Json(found.map_err(|e| store_failed(&e))?))
}

#[derive(Deserialize)]
struct Since {
    /// Milliseconds.
    since: Option<i64>,
}

async fn bus_stats(State(web): State<Web>, Query(q): Query<Since>) -> Answer<BusStats> {
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    Ok(Json(reader.bus_stats(q.since.unwrap_or(i64::MIN)).map_err(|e| store_failed(&e))?))
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
    /// Waits so long for something new, at most 30 s.
    #[serde(default)]
    wait_ms: u64,
    limit: Option<u32>,
}

async fn journal(State(web): State<Web>, Query(q): Query<After>) -> Answer<Value> {
    if q.wait_ms > 0 && web.engine.now().no <= q.after {
        let mut watch = web.engine.watch();
        let patience = Duration::from_millis(q.wait_ms.min(30_000));
        let _ = tokio::time::timeout(patience, watch.wait_for(|p| p.no > q.after)).await;
    }
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let lines = reader.journal(q.after, q.limit.unwrap_or(500).min(5_000)).map_err(|e| store_failed(&e))?;
    let last = lines.last().map_or(q.after, |l| l.no);
    let now = web.engine.now();
    let told: Vec<Told> = lines.iter().filter_map(|l| l.told(&now.world)).collect();
    Ok(Json(json!({ "last": last, "lines": told })))
}

/// Turns, wakes and quiet rings since the beginning, counted from the journal.
async fn summary(State(web): State<Web>) -> Answer<Value> {
    let reader = web.reader().map_err(|e| store_failed(&e))?;
    let mut counts = stewards::Counts::default();
    let mut after = 0;
    loop {
        let lines = reader.journal(after, 5_000).map_err(|e| store_failed(&e))?;
        let Some(last) = lines.last() else { break };
        after = last.no;
        for line in &lines {
            counts.add(line.no, &line.subject, &line.fact);
        }
    }
    Ok(Json(counts.summary(&web.engine.now().world)))
}

async fn build(State(web): State<Web>) -> Json<crate::Build> {
    Json(web.build.clone())
}

async fn link(State(web): State<Web>, Extension(caller): Extension<Caller>) -> Answer<Value> {
    caller.person_only("opens the page", "use the command line").map_err(no)?;
    Ok(Json(json!({ "code": web.sessions.link() })))
}

async fn act(
    State(web): State<Web>,
    Extension(caller): Extension<Caller>,
    body: Result<Json<Ask>, axum::extract::rejection::JsonRejection>,
) -> Response {
    let ask = match body {
        Ok(Json(ask)) => ask,
        Err(e) => {
            let says = stewards_core::text::one_line(&e.body_text());
            return refused(&Refusal::usage(
                "bad_request",
                format!("this is not understood: {says}"),
                "see: stewards --help",
            ));
        }
    };
    match act::act(&web, caller, ask).await {
        Ok(reply) => Json(reply).into_response(),
        Err(refusal) => refused(&refusal),
    }
}
