//! Webhooks of teams that were set up over Linear's API.

use std::sync::{Mutex, PoisonError};

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};

use crate::linear_schema::{Answer, Team, app, not_found, refused};
use crate::model::uuid_from;

/// One webhook.
#[derive(Clone, Debug)]
pub(crate) struct TeamHook {
    pub id: String,
    /// Id of the team.
    pub team: String,
    pub url: String,
    pub secret: String,
    pub types: Vec<String>,
    pub enabled: bool,
    pub label: Option<String>,
}

/// Kept while the twin runs.
#[derive(Debug, Default)]
pub(crate) struct TeamHooks(Mutex<Vec<TeamHook>>);

impl TeamHooks {
    /// Those that want a kind of entity of a team.
    pub fn wanting(&self, team: &str, entity: &str) -> Vec<TeamHook> {
        let wants = |h: &TeamHook| h.enabled && h.team == team && h.types.iter().any(|t| t == entity);
        self.all().into_iter().filter(wants).collect()
    }

    pub fn all(&self) -> Vec<TeamHook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, hook: TeamHook) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|h| h.id != hook.id);
        all.push(hook);
    }
}

#[derive(Clone)]
pub struct Webhook(TeamHook);

impl Webhook {
    pub(crate) fn of(hook: TeamHook) -> Webhook {
        Webhook(hook)
    }

    pub(crate) fn key(&self) -> String {
        self.0.id.clone()
    }
}

#[Object]
impl Webhook {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn url(&self) -> Option<&str> {
        Some(&self.0.url)
    }
    async fn label(&self) -> Option<&str> {
        self.0.label.as_deref()
    }
    async fn enabled(&self) -> bool {
        self.0.enabled
    }
    async fn resource_types(&self) -> &[String] {
        &self.0.types
    }
    async fn team(&self, ctx: &Context<'_>) -> Answer<Option<Team>> {
        let state = app(ctx)?.world.state();
        Ok(state.teams.values().find(|t| t.id == self.0.team).cloned().map(Team))
    }
}

#[derive(SimpleObject)]
pub struct WebhookPayload {
    last_sync_id: f64,
    webhook: Webhook,
    success: bool,
}

#[derive(InputObject)]
pub struct WebhookCreateInput {
    label: Option<String>,
    enabled: Option<bool>,
    secret: Option<String>,
    url: String,
    resource_types: Vec<String>,
    team_id: Option<String>,
}

#[derive(InputObject)]
pub struct WebhookUpdateInput {
    enabled: Option<bool>,
    secret: Option<String>,
    url: Option<String>,
    resource_types: Option<Vec<String>>,
}

pub(crate) fn create(ctx: &Context<'_>, input: WebhookCreateInput) -> Answer<WebhookPayload> {
    let app = app(ctx)?;
    let team = input.team_id.ok_or_else(|| refused("Argument Validation Error: teamId or allPublicTeams"))?;
    if !app.world.state().teams.values().any(|t| t.id == team) {
        return Err(not_found("Team"));
    }
    let n = app.team_hooks.all().len() as u64 + 2;
    let hook = TeamHook {
        id: uuid_from("webhook", n),
        team,
        url: input.url,
        secret: input.secret.unwrap_or_default(),
        types: input.resource_types,
        enabled: input.enabled.unwrap_or(true),
        label: input.label,
    };
    app.team_hooks.put(hook.clone());
    Ok(WebhookPayload { last_sync_id: 0.0, webhook: Webhook(hook), success: true })
}

pub(crate) fn update(ctx: &Context<'_>, id: &str, input: WebhookUpdateInput) -> Answer<WebhookPayload> {
    let app = app(ctx)?;
    let known = app.team_hooks.all().into_iter().find(|h| h.id == id).ok_or_else(|| not_found("Webhook"))?;
    let hook = TeamHook {
        url: input.url.unwrap_or(known.url),
        secret: input.secret.unwrap_or(known.secret),
        types: input.resource_types.unwrap_or(known.types),
        enabled: input.enabled.unwrap_or(known.enabled),
        ..known
    };
    app.team_hooks.put(hook.clone());
    Ok(WebhookPayload { last_sync_id: 0.0, webhook: Webhook(hook), success: true })
}
