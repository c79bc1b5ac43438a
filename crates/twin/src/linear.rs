//! Linear's GraphQL endpoint: token, limits and mutations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_graphql::{Context, Object, SimpleObject};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Ext;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};

use crate::github::{Shared, json_answer};
use crate::linear_hooks::{self, WebhookCreateInput, WebhookPayload, WebhookUpdateInput};
use crate::linear_input::{
    AttachmentCreateInput, CommentCreateInput, CommentUpdateInput, IssueCreateInput, IssueUpdateInput,
};
use crate::linear_ops::{self, Actor};
use crate::linear_schema::{Answer, Attachment, Comment, Issue, Linear, app, not_found, refused, schema};
use crate::linear_sessions::{self, AgentActivityCreateInput, AgentActivityPayload};
use crate::model::{Event, Note, State, Ticket};
use crate::world::Tx;
use crate::{App, Error};

/// An error of a mutation: a refusal, or the twin's own trouble.
struct Trouble(async_graphql::Error);

impl From<Error> for Trouble {
    fn from(e: Error) -> Self {
        Self(async_graphql::Error::new(e.to_string()))
    }
}

impl From<async_graphql::Error> for Trouble {
    fn from(e: async_graphql::Error) -> Self {
        Self(e)
    }
}

#[derive(SimpleObject)]
pub struct CommentPayload {
    last_sync_id: f64,
    comment: Comment,
    success: bool,
}

#[derive(SimpleObject)]
pub struct IssuePayload {
    last_sync_id: f64,
    issue: Option<Issue>,
    success: bool,
}

#[derive(SimpleObject)]
pub struct AttachmentPayload {
    last_sync_id: f64,
    attachment: Attachment,
    success: bool,
}

/// The entry of writes. Everything is done as the viewer.
pub struct Mutation;

fn change<T>(ctx: &Context<'_>, build: impl FnOnce(&App, &mut Tx, &Actor) -> Result<T, Trouble>) -> Answer<(T, f64)> {
    let app = app(ctx)?;
    app.change(|tx| {
        let me = Actor::User(tx.state.me());
        let out = build(app, tx, &me)?;
        Ok((out, tx.state.next as f64))
    })
    .map_err(|e: Trouble| e.0)
}

fn known_labels(state: &State, team: &str, ids: &[String]) -> Answer<()> {
    for id in ids {
        let label = state.labels.get(id).ok_or_else(|| not_found("IssueLabel"))?;
        if label.team.as_deref().is_some_and(|t| t != team) {
            return Err(refused("LabelIds for incorrect team"));
        }
        if label.group {
            return Err(refused("A label group cannot be applied to an issue"));
        }
    }
    Ok(())
}

fn known_column(state: &State, team: &str, id: &str) -> Answer<()> {
    let known = state.teams.get(team).is_some_and(|t| t.states.iter().any(|s| s.id == id));
    if known { Ok(()) } else { Err(not_found("WorkflowState")) }
}

fn known_user(state: &State, id: &str) -> Answer<()> {
    state.user_by_uuid(id).map(|_| ()).ok_or_else(|| not_found("User"))
}

/// A client may choose an id, but only a UUID that is still free.
fn free_id(id: &str, taken: bool, entity: &str) -> Answer<()> {
    let shape = id.len() == 36
        && id.chars().enumerate().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        });
    if !shape {
        return Err(refused("Argument Validation Error: id must be a UUID"));
    }
    if taken { Err(refused(&format!("{entity} with id {id} already exists"))) } else { Ok(()) }
}

#[Object]
impl Mutation {
    async fn comment_create(&self, ctx: &Context<'_>, input: CommentCreateInput) -> Answer<CommentPayload> {
        let (note, last_sync_id) = change(ctx, |app, tx, me| {
            let asked = input.issue_id.as_deref().unwrap_or("");
            let ticket = tx.state.ticket(asked).map(|t| t.id.clone()).ok_or_else(|| not_found("Issue"))?;
            let body = input.body.filter(|b| !b.trim().is_empty());
            let body = body.ok_or_else(|| refused("Argument Validation Error: body must not be empty"))?;
            if let Some(id) = &input.id {
                free_id(id, tx.state.notes.contains_key(id), "Comment")?;
            }
            if input.parent_id.as_ref().is_some_and(|p| !tx.state.notes.contains_key(p)) {
                return Err(not_found("Comment").into());
            }
            let note = Note {
                id: input.id.unwrap_or_else(|| tx.uuid("comment")),
                ticket,
                body,
                user: Some(tx.state.me().uuid),
                parent: input.parent_id,
                created_at: tx.now,
                updated_at: tx.now,
                edited_at: None,
            };
            linear_ops::save_note(app, tx, me, note.clone());
            Ok(note)
        })?;
        Ok(CommentPayload { last_sync_id, comment: Comment(note), success: true })
    }

    async fn comment_update(&self, ctx: &Context<'_>, id: String, input: CommentUpdateInput) -> Answer<CommentPayload> {
        let (note, last_sync_id) = change(ctx, |app, tx, me| {
            let mut note = tx.state.notes.get(&id).cloned().ok_or_else(|| not_found("Comment"))?;
            if let Some(body) = input.body {
                note.body = body;
                note.edited_at = Some(tx.now);
                note.updated_at = tx.now;
                linear_ops::save_note(app, tx, me, note.clone());
            }
            Ok(note)
        })?;
        Ok(CommentPayload { last_sync_id, comment: Comment(note), success: true })
    }

    async fn issue_create(&self, ctx: &Context<'_>, input: IssueCreateInput) -> Answer<IssuePayload> {
        let (ticket, last_sync_id) = change(ctx, |app, tx, me| {
            let team = tx.state.teams.values().find(|t| t.id == input.team_id).cloned();
            let mut team = team.ok_or_else(|| not_found("Team"))?;
            let title = input.title.filter(|t| !t.trim().is_empty());
            let title = title.ok_or_else(|| refused("Argument Validation Error: title must not be empty"))?;
            let labels = input.label_ids.unwrap_or_default();
            known_labels(&tx.state, &team.key, &labels)?;
            if let Some(id) = &input.assignee_id {
                known_user(&tx.state, id)?;
            }
            if let Some(id) = &input.id {
                free_id(id, tx.state.tickets.contains_key(id), "Issue")?;
            }
            let parent = match &input.parent_id {
                Some(p) => Some(tx.state.ticket(p).map(|t| t.id.clone()).ok_or_else(|| not_found("Issue"))?),
                None => None,
            };
            // Without a state a ticket starts at the front of the backlog.
            let first = team.first("backlog").or_else(|| team.states.first()).map(|c| c.id.clone());
            let state_id = input.state_id.or(first).ok_or_else(|| not_found("WorkflowState"))?;
            known_column(&tx.state, &team.key, &state_id)?;
            let number = team.next_number;
            team.next_number += 1;
            let key = team.key.clone();
            tx.put(Event::Team(team));
            let ticket = Ticket {
                id: input.id.unwrap_or_else(|| tx.uuid("issue")),
                team: key,
                number,
                title,
                description: input.description,
                priority: input.priority.unwrap_or(0),
                state_id,
                assignee: input.assignee_id,
                creator: Some(tx.state.me().uuid),
                labels,
                parent,
                delegate: None,
                blocked_by: Vec::new(),
                previous_identifiers: Vec::new(),
                trashed: false,
                archived_at: None,
                created_at: tx.now,
                updated_at: tx.now,
            };
            Ok(linear_ops::save_ticket(app, tx, me, ticket))
        })?;
        Ok(IssuePayload { last_sync_id, issue: Some(Issue(ticket)), success: true })
    }

    async fn issue_update(&self, ctx: &Context<'_>, id: String, input: IssueUpdateInput) -> Answer<IssuePayload> {
        let (ticket, last_sync_id) = change(ctx, |app, tx, me| {
            let mut t = tx.state.ticket(&id).cloned().ok_or_else(|| not_found("Issue"))?;
            if let Some(title) = input.title {
                t.title = title;
            }
            if !input.description.is_undefined() {
                t.description = input.description.take();
            }
            if let Some(state) = input.state_id {
                known_column(&tx.state, &t.team, &state)?;
                t.state_id = state;
            }
            if !input.assignee_id.is_undefined() {
                let assignee = input.assignee_id.take();
                if let Some(id) = &assignee {
                    known_user(&tx.state, id)?;
                }
                t.assignee = assignee;
            }
            if let Some(ids) = input.label_ids {
                known_labels(&tx.state, &t.team, &ids)?;
                t.labels = ids;
            }
            let added = input.added_label_ids.unwrap_or_default();
            known_labels(&tx.state, &t.team, &added)?;
            let removed = input.removed_label_ids.unwrap_or_default();
            t.labels.retain(|l| !removed.contains(l));
            for label in added {
                if !t.labels.contains(&label) {
                    t.labels.push(label);
                }
            }
            let groups: Vec<&String> =
                t.labels.iter().filter_map(|id| tx.state.labels.get(id)?.parent.as_ref()).collect();
            if groups.iter().enumerate().any(|(i, g)| groups[..i].contains(g)) {
                return Err(refused("Only one label in a group can be applied").into());
            }
            if let Some(priority) = input.priority {
                t.priority = priority;
            }
            if !input.trashed.is_undefined() {
                t.trashed = input.trashed.take().unwrap_or(false);
                t.archived_at = t.trashed.then_some(tx.now);
            }
            Ok(linear_ops::save_ticket(app, tx, me, t))
        })?;
        Ok(IssuePayload { last_sync_id, issue: Some(Issue(ticket)), success: true })
    }

    async fn agent_activity_create(
        &self,
        ctx: &Context<'_>,
        input: AgentActivityCreateInput,
    ) -> Answer<AgentActivityPayload> {
        linear_sessions::create(ctx, input)
    }

    async fn webhook_create(&self, ctx: &Context<'_>, input: WebhookCreateInput) -> Answer<WebhookPayload> {
        linear_hooks::create(ctx, input)
    }

    async fn webhook_update(&self, ctx: &Context<'_>, id: String, input: WebhookUpdateInput) -> Answer<WebhookPayload> {
        linear_hooks::update(ctx, &id, input)
    }

    async fn attachment_create(&self, ctx: &Context<'_>, input: AttachmentCreateInput) -> Answer<AttachmentPayload> {
        let (a, last_sync_id) = change(ctx, |app, tx, me| {
            let ticket = tx.state.ticket(&input.issue_id).map(|t| t.id.clone()).ok_or_else(|| not_found("Issue"))?;
            Ok(linear_ops::save_attachment(app, tx, me, &ticket, &input.url, &input.title, input.id))
        })?;
        Ok(AttachmentPayload { last_sync_id, attachment: Attachment(a), success: true })
    }
}

/// Requests counted against the hourly limit, which the twin shows but does not enforce.
static USED: AtomicU64 = AtomicU64::new(0);

fn answer(status: u16, body: &Value) -> Response {
    const LIMIT: u64 = 5000;
    let used = (USED.fetch_add(1, Ordering::Relaxed) + 1) % LIMIT;
    let hour = (jiff::Timestamp::now().as_second() / 3600 + 1) * 3600 * 1000;
    let mut out = json_answer(status, body);
    for (name, value) in [
        ("x-ratelimit-requests-limit", LIMIT.to_string()),
        ("x-ratelimit-requests-remaining", (LIMIT - used).to_string()),
        ("x-ratelimit-requests-reset", hour.to_string()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            out.headers_mut().insert(name, value);
        }
    }
    out
}

/// One error in Linear's shape, for what fails before execution.
pub fn failure(message: &str, kind: &str, code: &str) -> Value {
    json!({"errors": [{
        "message": message,
        "extensions": {"type": kind, "code": code, "userError": true, "userPresentableMessage": message},
    }]})
}

async fn graphql(schema: Linear, app: Arc<App>, headers: HeaderMap, body: Bytes) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or("");
    let sent = sent.strip_prefix("Bearer ").unwrap_or(sent);
    if !app.linear_knows(sent) {
        let message = "Authentication required, not authenticated";
        return answer(401, &failure(message, "authentication error", "AUTHENTICATION_ERROR"));
    }
    let Ok(request) = serde_json::from_slice::<async_graphql::Request>(&body) else {
        return answer(400, &failure("The request is not a GraphQL request", "graphql error", "BAD_REQUEST"));
    };
    let response = schema.execute(request).await;
    // What fails before any field is resolved has no path, and is a bad request.
    let invalid = !response.errors.is_empty() && response.errors.iter().all(|e| e.path.is_empty());
    let mut out = serde_json::to_value(&response).unwrap_or(Value::Null);
    if invalid && let Some(errors) = out["errors"].as_array_mut() {
        for error in errors {
            error["extensions"] = json!({
                "type": "graphql error", "code": "GRAPHQL_VALIDATION_FAILED", "http": {"status": 400},
                "userError": true,
            });
        }
    }
    answer(if invalid { 400 } else { 200 }, &out)
}

/// The route of Linear.
pub fn router(app: &Arc<App>) -> Router<Arc<App>> {
    let schema = schema(app.clone());
    let handler = move |Ext(app): Shared, headers: HeaderMap, body: Bytes| graphql(schema.clone(), app, headers, body);
    Router::new().route("/linear/graphql", post(handler))
}
