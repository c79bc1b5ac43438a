//! The objects and queries of the GraphQL API: a subset of Linear's, by its names.

use std::sync::Arc;

use async_graphql::{
    Context, EmptySubscription, Enum, Error as Refused, ErrorExtensions, ID, Object, Schema, SimpleObject,
};

use crate::App;
use crate::linear::Mutation;
use crate::linear_hooks::Webhook;
use crate::linear_input::{DateTime, IssueFilter, IssueLabelFilter, TeamFilter, UserFilter, WorkflowStateFilter};
use crate::linear_ops;
use crate::linear_sessions::{self, AgentActivity, AgentSession};
use crate::model::{self, State};

/// What resolvers return.
pub type Answer<T> = Result<T, Refused>;

/// The shared twin of a resolver.
pub fn app<'a>(ctx: &'a Context<'_>) -> Answer<&'a Arc<App>> {
    ctx.data::<Arc<App>>()
}

fn state(ctx: &Context<'_>) -> Answer<Arc<State>> {
    Ok(app(ctx)?.world.state())
}

/// A refusal in Linear's shape.
pub fn refused(message: &str) -> Refused {
    Refused::new(message).extend_with(|_, e| {
        e.set("type", "invalid input");
        e.set("code", "INPUT_ERROR");
        e.set("statusCode", 400);
        e.set("userError", true);
        e.set("userPresentableMessage", message);
    })
}

/// The refusal for an id that names nothing.
pub fn not_found(entity: &str) -> Refused {
    refused(&format!("Entity not found: {entity}"))
}

#[derive(SimpleObject, Clone)]
pub struct PageInfo {
    has_next_page: bool,
    has_previous_page: bool,
    start_cursor: Option<String>,
    end_cursor: Option<String>,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PaginationOrderBy {
    #[graphql(name = "createdAt")]
    CreatedAt,
    #[graphql(name = "updatedAt")]
    UpdatedAt,
}

/// Cuts a list after a cursor; cursors are ids.
fn cut<T: Clone>(
    items: Vec<T>,
    id: impl Fn(&T) -> String,
    first: Option<i32>,
    after: Option<String>,
) -> Answer<(Vec<T>, PageInfo)> {
    let first = first.unwrap_or(50);
    if !(1..=250).contains(&first) {
        return Err(refused("Argument Validation Error: first must be between 1 and 250"));
    }
    let start = match &after {
        Some(cursor) => match items.iter().position(|i| id(i) == *cursor) {
            Some(at) => at + 1,
            None => return Err(refused("Argument Validation Error: after is not a known cursor")),
        },
        None => 0,
    };
    let total = items.len();
    let page: Vec<T> = items.into_iter().skip(start).take(usize::try_from(first).unwrap_or(50)).collect();
    let info = PageInfo {
        has_next_page: start + page.len() < total,
        has_previous_page: start > 0,
        start_cursor: page.first().map(&id),
        end_cursor: page.last().map(&id),
    };
    Ok((page, info))
}

macro_rules! connection {
    ($name:ident, $node:ident) => {
        #[derive(SimpleObject)]
        pub struct $name {
            nodes: Vec<$node>,
            page_info: PageInfo,
        }
    };
}
connection!(IssueConnection, Issue);
connection!(CommentConnection, Comment);
connection!(AttachmentConnection, Attachment);
connection!(IssueLabelConnection, IssueLabel);
connection!(TeamConnection, Team);
connection!(WorkflowStateConnection, WorkflowState);
connection!(UserConnection, User);
connection!(WebhookConnection, Webhook);
connection!(IssueRelationConnection, IssueRelation);

#[derive(Clone)]
pub struct User(pub model::User);

#[Object]
impl User {
    async fn id(&self) -> ID {
        self.0.uuid.clone().into()
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn display_name(&self) -> &str {
        &self.0.login
    }
    async fn email(&self) -> &str {
        &self.0.email
    }
    async fn active(&self) -> bool {
        true
    }
    async fn is_me(&self, ctx: &Context<'_>) -> Answer<bool> {
        Ok(state(ctx)?.me().uuid == self.0.uuid)
    }
}

/// Nobody here is a bot; the type is there because it may be asked for.
#[derive(SimpleObject)]
pub struct ActorBot {
    id: Option<ID>,
    name: Option<String>,
    #[graphql(name = "type")]
    kind: String,
}

/// Nobody here writes from elsewhere; the type is there because it may be asked for.
#[derive(SimpleObject)]
pub struct ExternalUser {
    id: ID,
    name: String,
}

/// One ticket that blocks another.
#[derive(SimpleObject, Clone)]
pub struct IssueRelation {
    #[graphql(name = "type")]
    kind: String,
    issue: Issue,
    related_issue: Issue,
}

#[derive(Clone)]
pub struct WorkflowState {
    column: model::Column,
    team: String,
}

#[Object]
impl WorkflowState {
    async fn id(&self) -> ID {
        self.column.id.clone().into()
    }
    async fn name(&self) -> &str {
        &self.column.name
    }
    #[graphql(name = "type")]
    async fn kind(&self) -> &str {
        &self.column.kind
    }
    async fn position(&self) -> f64 {
        self.column.position
    }
    async fn team(&self, ctx: &Context<'_>) -> Answer<Team> {
        team_by_key(ctx, &self.team)
    }
}

fn team_by_key(ctx: &Context<'_>, key: &str) -> Answer<Team> {
    state(ctx)?.teams.get(key).cloned().map(Team).ok_or_else(|| not_found("Team"))
}

#[derive(Clone)]
pub struct Team(pub model::Team);

#[Object]
impl Team {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn key(&self) -> &str {
        &self.0.key
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn states(&self, first: Option<i32>, after: Option<String>) -> Answer<WorkflowStateConnection> {
        let all = self.0.states.iter().map(|c| WorkflowState { column: c.clone(), team: self.0.key.clone() });
        let (nodes, page_info) = cut(all.collect(), |s| s.column.id.clone(), first, after)?;
        Ok(WorkflowStateConnection { nodes, page_info })
    }
    async fn labels(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<IssueLabelConnection> {
        let state = state(ctx)?;
        let all =
            state.labels.values().filter(|l| l.team.as_ref() == Some(&self.0.key)).cloned().map(IssueLabel).collect();
        let (nodes, page_info) = cut(all, |l: &IssueLabel| l.0.id.clone(), first, after)?;
        Ok(IssueLabelConnection { nodes, page_info })
    }
}

#[derive(Clone)]
pub struct IssueLabel(model::Label);

#[Object]
impl IssueLabel {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn is_group(&self) -> bool {
        self.0.group
    }
    async fn team(&self, ctx: &Context<'_>) -> Answer<Option<Team>> {
        self.0.team.as_ref().map(|key| team_by_key(ctx, key)).transpose()
    }
    async fn parent(&self, ctx: &Context<'_>) -> Answer<Option<IssueLabel>> {
        let state = state(ctx)?;
        Ok(self.0.parent.as_ref().and_then(|p| state.labels.get(p)).cloned().map(IssueLabel))
    }
}

#[derive(Clone)]
pub struct Comment(pub model::Note);

#[Object]
impl Comment {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn body(&self) -> &str {
        &self.0.body
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> DateTime {
        DateTime(self.0.updated_at)
    }
    async fn edited_at(&self) -> Option<DateTime> {
        self.0.edited_at.map(DateTime)
    }
    async fn user(&self, ctx: &Context<'_>) -> Answer<Option<User>> {
        let state = state(ctx)?;
        Ok(self.0.user.as_ref().and_then(|u| state.user_by_uuid(u)).map(User))
    }
    async fn bot_actor(&self) -> Option<ActorBot> {
        None
    }
    async fn external_user(&self) -> Option<ExternalUser> {
        None
    }
    async fn parent_id(&self) -> Option<&str> {
        self.0.parent.as_deref()
    }
    async fn issue_id(&self) -> Option<&str> {
        Some(&self.0.ticket)
    }
    async fn issue(&self, ctx: &Context<'_>) -> Answer<Option<Issue>> {
        Ok(state(ctx)?.tickets.get(&self.0.ticket).cloned().map(Issue))
    }
    async fn url(&self, ctx: &Context<'_>) -> Answer<String> {
        let state = state(ctx)?;
        let ticket = state.tickets.get(&self.0.ticket).ok_or_else(|| not_found("Issue"))?;
        let short = self.0.id.get(..8).unwrap_or(&self.0.id);
        Ok(format!("{}#comment-{short}", linear_ops::ticket_url(app(ctx)?, ticket)))
    }
}

#[derive(Clone)]
pub struct Attachment(pub model::Attachment);

#[Object]
impl Attachment {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn url(&self) -> &str {
        &self.0.url
    }
    async fn title(&self) -> &str {
        &self.0.title
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> DateTime {
        DateTime(self.0.updated_at)
    }
    async fn issue(&self, ctx: &Context<'_>) -> Answer<Issue> {
        state(ctx)?.tickets.get(&self.0.ticket).cloned().map(Issue).ok_or_else(|| not_found("Issue"))
    }
}

#[derive(Clone)]
pub struct Issue(pub model::Ticket);

#[Object]
impl Issue {
    async fn id(&self) -> ID {
        self.0.id.clone().into()
    }
    async fn identifier(&self) -> String {
        self.0.identifier()
    }
    async fn number(&self) -> f64 {
        self.0.number as f64
    }
    async fn title(&self) -> &str {
        &self.0.title
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn url(&self, ctx: &Context<'_>) -> Answer<String> {
        Ok(linear_ops::ticket_url(app(ctx)?, &self.0))
    }
    async fn priority(&self) -> f64 {
        self.0.priority.into()
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> DateTime {
        DateTime(self.0.updated_at)
    }
    async fn archived_at(&self) -> Option<DateTime> {
        self.0.archived_at.map(DateTime)
    }
    async fn trashed(&self) -> Option<bool> {
        self.0.trashed.then_some(true)
    }
    async fn state(&self, ctx: &Context<'_>) -> Answer<WorkflowState> {
        let state = state(ctx)?;
        let column = state.column(&self.0).cloned().ok_or_else(|| not_found("WorkflowState"))?;
        Ok(WorkflowState { column, team: self.0.team.clone() })
    }
    async fn team(&self, ctx: &Context<'_>) -> Answer<Team> {
        team_by_key(ctx, &self.0.team)
    }
    async fn assignee(&self, ctx: &Context<'_>) -> Answer<Option<User>> {
        let state = state(ctx)?;
        Ok(self.0.assignee.as_ref().and_then(|u| state.user_by_uuid(u)).map(User))
    }
    async fn creator(&self, ctx: &Context<'_>) -> Answer<Option<User>> {
        let state = state(ctx)?;
        Ok(self.0.creator.as_ref().and_then(|u| state.user_by_uuid(u)).map(User))
    }
    async fn label_ids(&self) -> &[String] {
        &self.0.labels
    }
    async fn labels(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<IssueLabelConnection> {
        let state = state(ctx)?;
        let all = self.0.labels.iter().filter_map(|id| state.labels.get(id)).cloned().map(IssueLabel).collect();
        let (nodes, page_info) = cut(all, |l: &IssueLabel| l.0.id.clone(), first, after)?;
        Ok(IssueLabelConnection { nodes, page_info })
    }
    async fn comments(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        order_by: Option<PaginationOrderBy>,
    ) -> Answer<CommentConnection> {
        let state = state(ctx)?;
        let mut all: Vec<Comment> =
            state.notes.values().filter(|n| n.ticket == self.0.id).cloned().map(Comment).collect();
        // The real service lists the newest first.
        let key = |c: &Comment| match order_by {
            Some(PaginationOrderBy::UpdatedAt) => c.0.updated_at,
            _ => c.0.created_at,
        };
        all.sort_by(|a, b| (key(b), &b.0.id).cmp(&(key(a), &a.0.id)));
        let (nodes, page_info) = cut(all, |c| c.0.id.clone(), first, after)?;
        Ok(CommentConnection { nodes, page_info })
    }
    async fn attachments(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<AttachmentConnection> {
        let state = state(ctx)?;
        let all = state.attachments.values().filter(|a| a.ticket == self.0.id).cloned().map(Attachment).collect();
        let (nodes, page_info) = cut(all, |a: &Attachment| a.0.id.clone(), first, after)?;
        Ok(AttachmentConnection { nodes, page_info })
    }
    async fn previous_identifiers(&self) -> &[String] {
        &self.0.previous_identifiers
    }
    async fn branch_name(&self, ctx: &Context<'_>) -> Answer<String> {
        Ok(linear_ops::branch_name(&*state(ctx)?, &self.0))
    }
    async fn parent(&self, ctx: &Context<'_>) -> Answer<Option<Issue>> {
        let state = state(ctx)?;
        Ok(self.0.parent.as_ref().and_then(|p| state.tickets.get(p)).cloned().map(Issue))
    }
    async fn delegate(&self, ctx: &Context<'_>) -> Answer<Option<User>> {
        let state = state(ctx)?;
        Ok(self.0.delegate.as_ref().and_then(|u| state.user_by_uuid(u)).map(User))
    }
    async fn inverse_relations(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<IssueRelationConnection> {
        let state = state(ctx)?;
        let blocks = |other: &model::Ticket| IssueRelation {
            kind: "blocks".into(),
            issue: Issue(other.clone()),
            related_issue: self.clone(),
        };
        let all = self.0.blocked_by.iter().filter_map(|id| state.tickets.get(id)).map(blocks).collect();
        let (nodes, page_info) = cut(all, |r: &IssueRelation| r.issue.0.id.clone(), first, after)?;
        Ok(IssueRelationConnection { nodes, page_info })
    }
}

/// The entry of reads.
pub struct Query;

#[Object]
impl Query {
    async fn viewer(&self, ctx: &Context<'_>) -> Answer<User> {
        Ok(User(state(ctx)?.me()))
    }

    async fn issue(&self, ctx: &Context<'_>, id: String) -> Answer<Issue> {
        state(ctx)?.ticket(&id).cloned().map(Issue).ok_or_else(|| not_found("Issue"))
    }

    async fn issues(
        &self,
        ctx: &Context<'_>,
        filter: Option<IssueFilter>,
        first: Option<i32>,
        after: Option<String>,
        include_archived: Option<bool>,
        order_by: Option<PaginationOrderBy>,
    ) -> Answer<IssueConnection> {
        let state = state(ctx)?;
        let archived = include_archived.unwrap_or(false);
        let mut all: Vec<Issue> = state
            .tickets
            .values()
            .filter(|t| archived || (t.archived_at.is_none() && !t.trashed))
            .filter(|t| filter.as_ref().is_none_or(|f| f.fits(&state, t)))
            .cloned()
            .map(Issue)
            .collect();
        // Newest first, as the real lists are.
        let key = |t: &Issue| match order_by {
            Some(PaginationOrderBy::UpdatedAt) => t.0.updated_at,
            _ => t.0.created_at,
        };
        all.sort_by(|a, b| (key(b), &b.0.id).cmp(&(key(a), &a.0.id)));
        let (nodes, page_info) = cut(all, |t| t.0.id.clone(), first, after)?;
        Ok(IssueConnection { nodes, page_info })
    }

    async fn teams(
        &self,
        ctx: &Context<'_>,
        filter: Option<TeamFilter>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<TeamConnection> {
        let state = state(ctx)?;
        let fits = |t: &&model::Team| filter.as_ref().is_none_or(|f| f.fits(&state, &t.key));
        let all = state.teams.values().filter(fits).cloned().map(Team).collect();
        let (nodes, page_info) = cut(all, |t: &Team| t.0.id.clone(), first, after)?;
        Ok(TeamConnection { nodes, page_info })
    }

    async fn comment(&self, ctx: &Context<'_>, id: Option<String>) -> Answer<Comment> {
        let id = id.unwrap_or_default();
        state(ctx)?.notes.get(&id).cloned().map(Comment).ok_or_else(|| not_found("Comment"))
    }

    async fn agent_session(&self, ctx: &Context<'_>, id: String) -> Answer<AgentSession> {
        linear_sessions::session(ctx, &id)
    }

    async fn agent_activity(&self, ctx: &Context<'_>, id: String) -> Answer<AgentActivity> {
        linear_sessions::activity(ctx, &id)
    }

    async fn webhooks(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<WebhookConnection> {
        let all = app(ctx)?.team_hooks.all().into_iter().map(Webhook::of).collect();
        let (nodes, page_info) = cut(all, Webhook::key, first, after)?;
        Ok(WebhookConnection { nodes, page_info })
    }

    async fn users(
        &self,
        ctx: &Context<'_>,
        filter: Option<UserFilter>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<UserConnection> {
        let state = state(ctx)?;
        let active = filter.as_ref().and_then(|f| f.active.as_ref()).and_then(|a| a.eq).unwrap_or(true);
        let everybody = state.users.values().cloned().map(User);
        let (nodes, page_info) =
            cut(everybody.filter(|_| active).collect(), |u: &User| u.0.uuid.clone(), first, after)?;
        Ok(UserConnection { nodes, page_info })
    }

    async fn issue_labels(
        &self,
        ctx: &Context<'_>,
        filter: Option<IssueLabelFilter>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<IssueLabelConnection> {
        let state = state(ctx)?;
        let fits = |l: &&model::Label| filter.as_ref().is_none_or(|f| f.fits(&state, l));
        let all = state.labels.values().filter(fits).cloned().map(IssueLabel).collect();
        let (nodes, page_info) = cut(all, |l: &IssueLabel| l.0.id.clone(), first, after)?;
        Ok(IssueLabelConnection { nodes, page_info })
    }

    async fn workflow_states(
        &self,
        ctx: &Context<'_>,
        filter: Option<WorkflowStateFilter>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Answer<WorkflowStateConnection> {
        let state = state(ctx)?;
        let mut all = Vec::new();
        for team in state.teams.values() {
            for column in &team.states {
                if filter.as_ref().is_none_or(|f| f.fits(&state, &team.key, column)) {
                    all.push(WorkflowState { column: column.clone(), team: team.key.clone() });
                }
            }
        }
        let (nodes, page_info) = cut(all, |s| s.column.id.clone(), first, after)?;
        Ok(WorkflowStateConnection { nodes, page_info })
    }
}

/// The schema that the twin executes.
pub type Linear = Schema<Query, Mutation, EmptySubscription>;

/// Builds the schema around a twin.
pub(crate) fn schema(app: Arc<App>) -> Linear {
    Schema::build(Query, Mutation, EmptySubscription).data(app).finish()
}

/// The schema as text, for a test that compares it with the official one.
pub fn sdl() -> String {
    Schema::build(Query, Mutation, EmptySubscription).finish().sdl()
}
