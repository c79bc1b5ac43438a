//! GitHub's GraphQL API: a subset of the official schema over the twin's world.

use std::sync::Arc;

use async_graphql::{
    Context, EmptySubscription, Enum, Error as Refused, ErrorExtensions, ID, InputObject, Interface, Object, Scalar,
    ScalarType, Schema, SimpleObject, Value,
};
use axum::body::Bytes;
use axum::extract::State as Ext;
use jiff::Timestamp;

use crate::App;
use crate::github::{Answer as Http, Refusal, Shared, json_answer};
use crate::github_graph_pull::{PullRequest, PullRequestState, state_of};
use crate::github_graph_write::Mutation;
use crate::github_json as js;
use crate::model::{self, State};

pub(crate) type Answer<T> = Result<T, Refused>;

pub(crate) fn app<'a>(ctx: &'a Context<'_>) -> Answer<&'a Arc<App>> {
    ctx.data::<Arc<App>>()
}

pub(crate) fn state(ctx: &Context<'_>) -> Answer<Arc<State>> {
    Ok(app(ctx)?.world.state())
}

/// The official type of an error stands beside its message, not in its extensions; the
/// handler moves it there.
pub(crate) fn not_found(what: &str) -> Refused {
    Refused::new(format!("Could not resolve to a {what}")).extend_with(|_, e| e.set("type", "NOT_FOUND"))
}

/// An instant, to the second.
#[derive(Clone, Copy)]
pub struct DateTime(pub Timestamp);

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
        pub struct $name(pub String);

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
pub enum OrderDirection {
    Asc,
    Desc,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum IssueOrderField {
    CreatedAt,
    UpdatedAt,
}

#[derive(InputObject)]
pub struct IssueOrder {
    field: IssueOrderField,
    direction: OrderDirection,
}

/// Lists here fit on one page.
#[derive(SimpleObject)]
pub struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

impl PageInfo {
    pub fn only() -> PageInfo {
        PageInfo { has_next_page: false, end_cursor: None }
    }
}

/// A list as the official schema has it: of nullable entries.
macro_rules! connection {
    ($name:ident, $node:ident) => {
        #[derive(async_graphql::SimpleObject)]
        pub struct $name {
            nodes: Option<Vec<Option<$node>>>,
            page_info: crate::github_graph::PageInfo,
            total_count: i32,
        }

        impl $name {
            /// The first or the last of all, as asked for.
            pub fn ends(mut all: Vec<$node>, first: Option<i32>, last: Option<i32>) -> $name {
                let total_count = i32::try_from(all.len()).unwrap_or(i32::MAX);
                let size = |n: i32| usize::try_from(n).unwrap_or(0);
                if let Some(n) = first {
                    all.truncate(size(n));
                }
                if let Some(n) = last {
                    all.drain(..all.len().saturating_sub(size(n)));
                }
                let nodes = Some(all.into_iter().map(Some).collect());
                $name { nodes, page_info: crate::github_graph::PageInfo::only(), total_count }
            }
        }
    };
}
pub(crate) use connection;
connection!(PullRequestConnection, PullRequest);

#[derive(Clone)]
pub struct User(pub model::User);

#[Object]
impl User {
    async fn id(&self) -> ID {
        js::node("User", self.0.id).into()
    }
    async fn login(&self) -> &str {
        &self.0.login
    }
    async fn name(&self) -> Option<&str> {
        Some(&self.0.name)
    }
}

/// Whoever does something. Everybody here is a user.
#[derive(Interface)]
#[graphql(field(name = "login", ty = "&str"))]
pub enum Actor {
    User(User),
}

/// Whoever owns a repository. Everybody here is a user.
#[derive(Interface)]
#[graphql(field(name = "login", ty = "&str"), field(name = "id", ty = "ID"))]
pub enum RepositoryOwner {
    User(User),
}

/// Whoever has an id that is asked for again.
#[derive(Interface)]
#[graphql(field(name = "id", ty = "ID"))]
pub enum Node {
    PullRequest(Box<PullRequest>),
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum RepositoryPermission {
    Admin,
}

#[derive(SimpleObject)]
pub struct Ref {
    id: ID,
    name: String,
}

pub struct Repository(pub model::Repo);

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
    async fn owner(&self, ctx: &Context<'_>) -> Answer<RepositoryOwner> {
        Ok(RepositoryOwner::User(User(state(ctx)?.user(&self.0.owner))))
    }
    async fn is_private(&self) -> bool {
        true
    }
    async fn description(&self) -> Option<&str> {
        None
    }
    async fn has_wiki_enabled(&self) -> bool {
        false
    }
    async fn has_issues_enabled(&self) -> bool {
        true
    }
    async fn viewer_permission(&self) -> Option<RepositoryPermission> {
        Some(RepositoryPermission::Admin)
    }
    async fn merge_commit_allowed(&self) -> bool {
        true
    }
    async fn squash_merge_allowed(&self) -> bool {
        true
    }
    async fn rebase_merge_allowed(&self) -> bool {
        false
    }
    /// Nothing here is a fork.
    async fn parent(&self) -> Option<Repository> {
        None
    }
    async fn default_branch_ref(&self) -> Option<Ref> {
        Some(Ref { id: js::node("Ref", self.0.id).into(), name: self.0.default_branch.clone() })
    }
    async fn pull_request(&self, ctx: &Context<'_>, number: i32) -> Answer<Option<PullRequest>> {
        let key = (self.0.full(), u64::try_from(number).unwrap_or(0));
        let found = state(ctx)?.pulls.get(&key).cloned().map(PullRequest);
        found.map(Some).ok_or_else(|| not_found(&format!("PullRequest with the number of {number}.")))
    }
    #[expect(clippy::too_many_arguments, reason = "the official ones")]
    async fn pull_requests(
        &self,
        ctx: &Context<'_>,
        head_ref_name: Option<String>,
        base_ref_name: Option<String>,
        states: Option<Vec<PullRequestState>>,
        first: Option<i32>,
        last: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
        order_by: Option<IssueOrder>,
    ) -> Answer<PullRequestConnection> {
        let state = state(ctx)?;
        let full = self.0.full();
        let mut all: Vec<&model::Pull> = state
            .pulls
            .values()
            .filter(|p| p.repo == full)
            .filter(|p| head_ref_name.as_ref().is_none_or(|h| *h == p.head_ref))
            .filter(|p| base_ref_name.as_ref().is_none_or(|b| *b == p.base_ref))
            .filter(|p| states.as_ref().is_none_or(|s| s.contains(&state_of(p))))
            .collect();
        if let Some(IssueOrder { field, direction }) = order_by {
            all.sort_by_key(|p| match field {
                IssueOrderField::CreatedAt => (p.created_at, p.number),
                IssueOrderField::UpdatedAt => (p.updated_at, p.number),
            });
            if direction == OrderDirection::Desc {
                all.reverse();
            }
        }
        Ok(PullRequestConnection::ends(all.into_iter().cloned().map(PullRequest).collect(), first, last))
    }
}

pub struct Query;

#[Object]
impl Query {
    async fn viewer(&self, ctx: &Context<'_>) -> Answer<User> {
        Ok(User(state(ctx)?.me()))
    }

    async fn repository(&self, ctx: &Context<'_>, owner: String, name: String) -> Answer<Option<Repository>> {
        let found = crate::github::repo(&*state(ctx)?, &owner, &name).ok().map(Repository);
        found.map(Some).ok_or_else(|| not_found(&format!("Repository with the name '{owner}/{name}'.")))
    }

    async fn node(&self, ctx: &Context<'_>, id: ID) -> Answer<Option<Node>> {
        let pull = pull_by_node(&*state(ctx)?, &id)?;
        Ok(Some(Node::PullRequest(Box::new(PullRequest(pull)))))
    }
}

/// The pull with an id of this API.
pub(crate) fn pull_by_node(state: &State, id: &str) -> Answer<model::Pull> {
    let found = state.pulls.values().find(|p| js::node("PullRequest", p.id) == *id).cloned();
    found.ok_or_else(|| not_found(&format!("node with the global id of '{id}'")))
}

/// The schema that the twin executes.
pub type GitHubGraph = Schema<Query, Mutation, EmptySubscription>;

/// The schema as text, for a test that compares it with the official one.
pub fn sdl() -> String {
    Schema::build(Query, Mutation, EmptySubscription).finish().sdl()
}

/// Executes a query; errors get the official shape, with their type beside the message.
pub async fn graphql(Ext(app): Shared, body: Bytes) -> Http {
    let request: async_graphql::Request =
        serde_json::from_slice(&body).map_err(|_| Refusal::new(400, "Problems parsing JSON"))?;
    let schema: GitHubGraph = Schema::build(Query, Mutation, EmptySubscription).data(app).finish();
    let answer = schema.execute(request).await;
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
