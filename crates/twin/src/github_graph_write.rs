//! The changes that GitHub's GraphQL API takes here. Each is what the other API does.

use async_graphql::{Context, Enum, Error as Refused, ErrorExtensions, ID, InputObject, Object, SimpleObject};
use axum::body::Bytes;
use axum::extract::{Path, State as Ext};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::github::Refusal;
use crate::github_graph::{Answer, GitObjectId, app, not_found, pull_by_node, state};
use crate::github_graph_pull::{IssueComment, PullRequest};
use crate::github_json as js;
use crate::{github_issues, github_merge, github_pulls};

#[derive(InputObject)]
pub struct AddCommentInput {
    subject_id: ID,
    body: String,
}

#[derive(SimpleObject)]
pub struct IssueCommentEdge {
    node: Option<IssueComment>,
}

#[derive(SimpleObject)]
pub struct AddCommentPayload {
    comment_edge: Option<IssueCommentEdge>,
}

#[derive(InputObject)]
pub struct CreatePullRequestInput {
    repository_id: ID,
    head_ref_name: String,
    base_ref_name: String,
    title: String,
    body: Option<String>,
    draft: Option<bool>,
    maintainer_can_modify: Option<bool>,
}

#[derive(SimpleObject)]
pub struct CreatePullRequestPayload {
    pull_request: Option<PullRequest>,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestMergeMethod {
    Merge,
    Squash,
    Rebase,
}

#[derive(InputObject)]
pub struct MergePullRequestInput {
    pull_request_id: ID,
    merge_method: Option<PullRequestMergeMethod>,
    commit_headline: Option<String>,
    commit_body: Option<String>,
    expected_head_oid: Option<GitObjectId>,
    author_email: Option<String>,
}

#[derive(SimpleObject)]
pub struct MergePullRequestPayload {
    client_mutation_id: Option<String>,
    pull_request: Option<PullRequest>,
}

pub struct Mutation;

/// The body of an answer of the other API, or its refusal.
async fn told(answer: Result<Response, Refusal>) -> Answer<Value> {
    let (good, response) = match answer {
        Ok(response) => (response.status().is_success(), response),
        Err(refusal) => (false, refusal.into_response()),
    };
    let bytes = axum::body::to_bytes(response.into_body(), 1_000_000).await.unwrap_or_default();
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if good {
        return Ok(value);
    }
    let first = value.pointer("/errors/0/message").or_else(|| value.get("message"));
    let says = first.and_then(Value::as_str).unwrap_or("Something went wrong").to_owned();
    Err(Refused::new(says).extend_with(|_, e| e.set("type", "UNPROCESSABLE")))
}

fn text(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

#[Object]
impl Mutation {
    async fn add_comment(&self, ctx: &Context<'_>, input: AddCommentInput) -> Answer<Option<AddCommentPayload>> {
        let pull = pull_by_node(&*state(ctx)?, &input.subject_id)?;
        let (owner, name) = pull.repo.split_once('/').unwrap_or_default();
        let place = Path((owner.to_owned(), name.to_owned(), pull.number));
        let body = text(&json!({"body": input.body}));
        let made = told(github_issues::add_comment(Ext(app(ctx)?.clone()), place, body).await).await?;
        let id = made["id"].as_u64().unwrap_or(0);
        let node = state(ctx)?.pull_comments.get(&id).cloned().map(IssueComment);
        Ok(Some(AddCommentPayload { comment_edge: Some(IssueCommentEdge { node }) }))
    }

    async fn create_pull_request(
        &self,
        ctx: &Context<'_>,
        input: CreatePullRequestInput,
    ) -> Answer<Option<CreatePullRequestPayload>> {
        let known = state(ctx)?;
        let repo = known.repos.values().find(|r| js::node("Repository", r.id) == *input.repository_id);
        let repo = repo.ok_or_else(|| not_found("node"))?.clone();
        let _ = input.maintainer_can_modify;
        let body = json!({
            "title": input.title, "head": input.head_ref_name, "base": input.base_ref_name, "body": input.body,
            "draft": input.draft.unwrap_or(false),
        });
        let place = Path((repo.owner.clone(), repo.name.clone()));
        let made = told(github_pulls::create(Ext(app(ctx)?.clone()), place, text(&body)).await).await?;
        let key = (repo.full(), made["number"].as_u64().unwrap_or(0));
        Ok(Some(CreatePullRequestPayload { pull_request: state(ctx)?.pulls.get(&key).cloned().map(PullRequest) }))
    }

    async fn merge_pull_request(
        &self,
        ctx: &Context<'_>,
        input: MergePullRequestInput,
    ) -> Answer<Option<MergePullRequestPayload>> {
        let pull = pull_by_node(&*state(ctx)?, &input.pull_request_id)?;
        let (owner, name) = pull.repo.split_once('/').unwrap_or_default();
        let method = match input.merge_method {
            Some(PullRequestMergeMethod::Squash) => "squash",
            Some(PullRequestMergeMethod::Rebase) => "rebase",
            _ => "merge",
        };
        let mut body = json!({"merge_method": method});
        // Without a head whatever is there is merged.
        body["sha"] = input.expected_head_oid.map_or_else(|| json!(pull.head_sha), |oid| json!(oid.0));
        if let Some(title) = input.commit_headline {
            body["commit_title"] = json!(title);
        }
        if let Some(message) = input.commit_body {
            body["commit_message"] = json!(message);
        }
        let _ = input.author_email;
        let place = Path((owner.to_owned(), name.to_owned(), pull.number));
        told(github_merge::merge(Ext(app(ctx)?.clone()), place, text(&body)).await).await?;
        let key = (pull.repo.clone(), pull.number);
        let merged = state(ctx)?.pulls.get(&key).cloned().map(PullRequest);
        Ok(Some(MergePullRequestPayload { client_mutation_id: None, pull_request: merged }))
    }
}
