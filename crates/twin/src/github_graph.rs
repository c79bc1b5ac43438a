//! GitHub's GraphQL API: a subset of the official schema over the twin's world.

use std::sync::Arc;

use async_graphql::{
    Context, EmptyMutation, EmptySubscription, Enum, Error as Refused, ErrorExtensions, ID, InputObject, Object,
    Scalar, ScalarType, Schema, SimpleObject, Value,
};
use axum::body::Bytes;
use axum::extract::State as Ext;
use jiff::Timestamp;

use crate::App;
use crate::github::{Answer as Http, Refusal, Shared, json_answer};
use crate::github_json as js;
use crate::model::{self, State};

type Answer<T> = Result<T, Refused>;

fn app<'a>(ctx: &'a Context<'_>) -> Answer<&'a Arc<App>> {
    ctx.data::<Arc<App>>()
}

fn state(ctx: &Context<'_>) -> Answer<Arc<State>> {
    Ok(app(ctx)?.world.state())
}

/// The official type of an error stands beside its message, not in its extensions; the
/// handler moves it there.
fn not_found(what: &str) -> Refused {
    Refused::new(format!("Could not resolve to a {what}")).extend_with(|_, e| e.set("type", "NOT_FOUND"))
}

/// An instant, to the second.
#[derive(Clone, Copy)]
pub struct DateTime(Timestamp);

#[Scalar(name = "DateTime")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> async_graphql::InputValueResult<Self> {
        match &value {
            Value::String(s) => Ok(Self(s.parse().map_err(|_| async_graphql::InputValueError::custom("not a date"))?)),
            _ => Err(async_graphql::InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(js::time(self.0))
    }
}

/// A text under an official scalar's name.
macro_rules! text_scalar {
    ($name:ident, $official:literal) => {
        #[derive(Clone)]
        pub struct $name(String);

        #[Scalar(name = $official)]
        impl ScalarType for $name {
            fn parse(value: Value) -> async_graphql::InputValueResult<Self> {
                match value {
                    Value::String(s) => Ok(Self(s)),
                    _ => Err(async_graphql::InputValueError::expected_type(value)),
                }
            }

            fn to_value(&self) -> Value {
                Value::String(self.0.clone())
            }
        }
    };
}
text_scalar!(GitObjectId, "GitObjectID");
text_scalar!(Uri, "URI");

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    Closed,
    Merged,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum MergeableState {
    Mergeable,
    Conflicting,
    Unknown,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum StatusState {
    Expected,
    Error,
    Failure,
    Pending,
    Success,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestReviewDecision {
    ChangesRequested,
    Approved,
    ReviewRequired,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum OrderDirection {
    Asc,
    Desc,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum IssueCommentOrderField {
    UpdatedAt,
}

#[derive(InputObject)]
pub struct IssueCommentOrder {
    field: IssueCommentOrderField,
    direction: OrderDirection,
}

#[derive(SimpleObject)]
pub struct StatusCheckRollup {
    state: StatusState,
}

#[derive(SimpleObject)]
pub struct IssueComment {
    id: ID,
    body: String,
    updated_at: DateTime,
    created_at: DateTime,
    url: Uri,
}

#[derive(SimpleObject)]
pub struct IssueCommentConnection {
    nodes: Option<Vec<Option<IssueComment>>>,
    total_count: i32,
}

#[derive(SimpleObject)]
pub struct PullRequestConnection {
    nodes: Option<Vec<Option<PullRequest>>>,
    total_count: i32,
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// The first or the last of a list, as asked for.
fn ends<T>(mut all: Vec<T>, first: Option<i32>, last: Option<i32>) -> Option<Vec<Option<T>>> {
    let size = |n: i32| usize::try_from(n).unwrap_or(0);
    if let Some(n) = first {
        all.truncate(size(n));
    }
    if let Some(n) = last {
        all.drain(..all.len().saturating_sub(size(n)));
    }
    // The official lists are of nullable entries.
    Some(all.into_iter().map(Some).collect())
}

pub struct PullRequest(model::Pull);

#[Object]
impl PullRequest {
    async fn id(&self) -> ID {
        js::node("PullRequest", self.0.id).into()
    }
    async fn number(&self) -> i32 {
        i32::try_from(self.0.number).unwrap_or(i32::MAX)
    }
    async fn title(&self) -> &str {
        &self.0.title
    }
    async fn body(&self) -> &str {
        self.0.body.as_deref().unwrap_or("")
    }
    async fn url(&self, ctx: &Context<'_>) -> Answer<Uri> {
        Ok(Uri(js::pull_html(app(ctx)?, &self.0)))
    }
    async fn state(&self) -> PullRequestState {
        match (self.0.merged, self.0.open) {
            (true, _) => PullRequestState::Merged,
            (false, true) => PullRequestState::Open,
            (false, false) => PullRequestState::Closed,
        }
    }
    async fn is_draft(&self) -> bool {
        self.0.draft
    }
    async fn is_cross_repository(&self) -> bool {
        false
    }
    async fn head_ref_name(&self) -> &str {
        &self.0.head_ref
    }
    async fn head_ref_oid(&self) -> GitObjectId {
        GitObjectId(self.0.head_sha.clone())
    }
    async fn base_ref_name(&self) -> &str {
        &self.0.base_ref
    }
    async fn base_ref_oid(&self) -> GitObjectId {
        GitObjectId(self.0.base_sha.clone())
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> DateTime {
        DateTime(self.0.updated_at)
    }
    async fn mergeable(&self) -> MergeableState {
        match self.0.mergeable {
            Some(true) if self.0.open => MergeableState::Mergeable,
            Some(false) if self.0.open => MergeableState::Conflicting,
            _ => MergeableState::Unknown,
        }
    }
    /// No rule asks for a review here.
    async fn review_decision(&self) -> Option<PullRequestReviewDecision> {
        None
    }
    async fn status_check_rollup(&self, ctx: &Context<'_>) -> Answer<Option<StatusCheckRollup>> {
        let state = state(ctx)?;
        let runs: Vec<&model::CheckRun> = state.runs_of(&self.0.repo, &self.0.head_sha).collect();
        if runs.is_empty() {
            return Ok(None);
        }
        let bad = |r: &&model::CheckRun| r.conclusion.as_deref().is_some_and(|c| c != "success");
        let state = match (runs.iter().any(bad), runs.iter().all(|r| r.status == "completed")) {
            (true, _) => StatusState::Failure,
            (false, true) => StatusState::Success,
            (false, false) => StatusState::Pending,
        };
        Ok(Some(StatusCheckRollup { state }))
    }
    async fn comments(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        last: Option<i32>,
        order_by: Option<IssueCommentOrder>,
    ) -> Answer<IssueCommentConnection> {
        let (app, state) = (app(ctx)?, state(ctx)?);
        let mut all: Vec<&model::PullComment> = state.comments_of(&self.0.repo, self.0.number).collect();
        if let Some(IssueCommentOrder { field: IssueCommentOrderField::UpdatedAt, direction }) = order_by {
            all.sort_by_key(|c| (c.updated_at, c.id));
            if direction == OrderDirection::Desc {
                all.reverse();
            }
        }
        let total_count = count(all.len());
        let html = js::pull_html(app, &self.0);
        let node = |c: &model::PullComment| IssueComment {
            id: js::node("IssueComment", c.id).into(),
            body: c.body.clone(),
            updated_at: DateTime(c.updated_at),
            created_at: DateTime(c.created_at),
            url: Uri(format!("{html}#issuecomment-{}", c.id)),
        };
        let nodes = ends(all.into_iter().map(node).collect(), first, last);
        Ok(IssueCommentConnection { nodes, total_count })
    }
}

pub struct Repository(model::Repo);

#[Object]
impl Repository {
    async fn id(&self) -> ID {
        js::node("Repository", self.0.id).into()
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn name_with_owner(&self) -> String {
        self.0.full()
    }
    async fn pull_request(&self, ctx: &Context<'_>, number: i32) -> Answer<Option<PullRequest>> {
        let key = (self.0.full(), u64::try_from(number).unwrap_or(0));
        let found = state(ctx)?.pulls.get(&key).cloned().map(PullRequest);
        found.map(Some).ok_or_else(|| not_found(&format!("PullRequest with the number of {number}.")))
    }
    async fn pull_requests(
        &self,
        ctx: &Context<'_>,
        head_ref_name: Option<String>,
        states: Option<Vec<PullRequestState>>,
        first: Option<i32>,
        last: Option<i32>,
    ) -> Answer<PullRequestConnection> {
        let state = state(ctx)?;
        let is = |p: &model::Pull| match (p.merged, p.open) {
            (true, _) => PullRequestState::Merged,
            (false, true) => PullRequestState::Open,
            (false, false) => PullRequestState::Closed,
        };
        let all: Vec<PullRequest> = state
            .pulls
            .values()
            .filter(|p| p.repo == self.0.full())
            .filter(|p| head_ref_name.as_ref().is_none_or(|h| *h == p.head_ref))
            .filter(|p| states.as_ref().is_none_or(|s| s.contains(&is(p))))
            .cloned()
            .map(PullRequest)
            .collect();
        let total_count = count(all.len());
        Ok(PullRequestConnection { nodes: ends(all, first, last), total_count })
    }
}

pub struct Query;

#[Object]
impl Query {
    async fn repository(&self, ctx: &Context<'_>, owner: String, name: String) -> Answer<Option<Repository>> {
        let found = crate::github::repo(&*state(ctx)?, &owner, &name).ok().map(Repository);
        found.map(Some).ok_or_else(|| not_found(&format!("Repository with the name '{owner}/{name}'.")))
    }
}

/// The schema that the twin executes.
pub type GitHubGraph = Schema<Query, EmptyMutation, EmptySubscription>;

/// Builds the schema around a twin.
pub(crate) fn schema(app: Arc<App>) -> GitHubGraph {
    Schema::build(Query, EmptyMutation, EmptySubscription).data(app).finish()
}

/// The schema as text, for a test that compares it with the official one.
pub fn sdl() -> String {
    Schema::build(Query, EmptyMutation, EmptySubscription).finish().sdl()
}

/// Executes a query; errors get the official shape, with their type beside the message.
pub async fn graphql(Ext(app): Shared, body: Bytes) -> Http {
    let request: async_graphql::Request =
        serde_json::from_slice(&body).map_err(|_| Refusal::new(400, "Problems parsing JSON"))?;
    let answer = schema(app.clone()).execute(request).await;
    let mut value = serde_json::to_value(&answer).map_err(|_| Refusal::new(500, "Server Error"))?;
    for error in value["errors"].as_array_mut().into_iter().flatten() {
        if let Some(kind) = error.pointer("/extensions/type").cloned() {
            error["type"] = kind;
        }
        if let Some(object) = error.as_object_mut() {
            object.remove("extensions");
        }
    }
    Ok(json_answer(200, &value))
}
