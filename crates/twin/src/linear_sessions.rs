//! Agent sessions: somebody mentions the agent, and it answers.

use std::sync::{Mutex, PoisonError};

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use serde_json::{Value, json};

use crate::App;
use crate::linear_ops;
use crate::linear_schema::{Answer, Issue, app, not_found, refused};
use crate::model::{Ticket, User, uuid_from};
use crate::world::Tx;

/// One session, with what the agent said in it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub id: String,
    /// Id of the ticket.
    pub ticket: String,
    pub activities: Vec<Activity>,
}

#[derive(Clone, Debug)]
pub(crate) struct Activity {
    pub id: String,
    pub content: Value,
}

/// Kept while the twin runs.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Vec<Session>>);

impl Sessions {
    pub fn begin(&self, session: Session) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    pub fn all(&self) -> Vec<Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is shown of them by the control API.
    pub fn rows(&self) -> Vec<Value> {
        let row = |s: &Session| {
            let activities: Vec<&Value> = s.activities.iter().map(|a| &a.content).collect();
            json!({"id": s.id, "ticket": s.ticket, "activities": activities})
        };
        self.all().iter().map(row).collect()
    }
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum AgentSessionStatus {
    #[graphql(name = "active")]
    Active,
    #[graphql(name = "complete")]
    Complete,
}

pub struct AgentSession(Session);

#[Object]
impl AgentSession {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn status(&self) -> AgentSessionStatus {
        match self.0.activities.iter().any(|a| a.content["type"] == "response") {
            true => AgentSessionStatus::Complete,
            false => AgentSessionStatus::Active,
        }
    }
    async fn issue(&self, ctx: &Context<'_>) -> Answer<Option<Issue>> {
        Ok(app(ctx)?.world.state().tickets.get(&self.0.ticket).cloned().map(Issue))
    }
}

pub struct AgentActivity(Activity);

#[Object]
impl AgentActivity {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
}

#[derive(SimpleObject)]
pub struct AgentActivityPayload {
    last_sync_id: f64,
    agent_activity: AgentActivity,
    success: bool,
}

/// Any JSON object.
#[derive(Clone)]
pub struct JsonObject(Value);

#[async_graphql::Scalar(name = "JSONObject")]
impl async_graphql::ScalarType for JsonObject {
    fn parse(value: async_graphql::Value) -> async_graphql::InputValueResult<Self> {
        value.into_json().map(Self).map_err(|_| async_graphql::InputValueError::custom("not an object"))
    }

    fn to_value(&self) -> async_graphql::Value {
        async_graphql::Value::from_json(self.0.clone()).unwrap_or_default()
    }
}

#[derive(InputObject)]
pub struct AgentActivityCreateInput {
    id: Option<String>,
    agent_session_id: String,
    content: JsonObject,
}

/// The webhook of a session that `by` began with `words` on a ticket.
pub(crate) fn created(app: &App, tx: &Tx, id: &str, ticket: &Ticket, by: &User, words: &str) -> Value {
    let (now, agent) = (tx.now.to_string(), uuid_from("app-user", 0));
    let team = tx.state.teams.get(&ticket.team);
    let team = json!({"id": team.map(|t| &t.id), "key": ticket.team, "name": team.map(|t| &t.name)});
    let issue = json!({
        "id": ticket.id, "identifier": ticket.identifier(), "title": ticket.title, "description": ticket.description,
        "team": team, "teamId": team["id"], "url": linear_ops::ticket_url(app, ticket),
    });
    json!({
        "type": "AgentSessionEvent", "action": "created", "appUserId": agent, "createdAt": now,
        "oauthClientId": uuid_from("application", 0), "promptContext": words, "previousComments": [],
        "agentSession": {
            "id": id, "type": "commentThread", "status": "pending", "appUserId": agent, "creatorId": by.uuid,
            "creator": {"id": by.uuid, "name": by.name, "email": by.email, "url": ""}, "issueId": ticket.id,
            "issue": issue, "comment": {"id": uuid_from(id, 0), "body": words, "userId": by.uuid},
            "createdAt": now, "updatedAt": now,
        },
    })
}

pub(crate) fn session(ctx: &Context<'_>, id: &str) -> Answer<AgentSession> {
    let found = app(ctx)?.sessions.all().into_iter().find(|s| s.id == id);
    found.map(AgentSession).ok_or_else(|| not_found("AgentSession"))
}

pub(crate) fn activity(ctx: &Context<'_>, id: &str) -> Answer<AgentActivity> {
    let all = app(ctx)?.sessions.all();
    let found = all.into_iter().flat_map(|s| s.activities).find(|a| a.id == id);
    found.map(AgentActivity).ok_or_else(|| not_found("AgentActivity"))
}

pub(crate) fn create(ctx: &Context<'_>, input: AgentActivityCreateInput) -> Answer<AgentActivityPayload> {
    let app = app(ctx)?;
    if !["thought", "action", "elicitation", "response", "error"].iter().any(|t| input.content.0["type"] == *t) {
        return Err(refused("Argument Validation Error: content has no known type"));
    }
    let mut sessions = app.sessions.0.lock().unwrap_or_else(PoisonError::into_inner);
    let id = input.id.unwrap_or_else(|| uuid_from("activity", sessions.len() as u64));
    if sessions.iter().flat_map(|s| &s.activities).any(|a| a.id == id) {
        return Err(refused(&format!("AgentActivity with id {id} already exists")));
    }
    let session =
        sessions.iter_mut().find(|s| s.id == input.agent_session_id).ok_or_else(|| not_found("AgentSession"))?;
    let made = Activity { id, content: input.content.0 };
    session.activities.push(made.clone());
    Ok(AgentActivityPayload { last_sync_id: 0.0, agent_activity: AgentActivity(made), success: true })
}
