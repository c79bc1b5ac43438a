//! A pull and its parts in GitHub's GraphQL API.

use async_graphql::{Context, Enum, ID, InputObject, Object};

use crate::github_graph::{
    Actor, Answer, DateTime, GitObjectId, OrderDirection, Repository, RepositoryOwner, Uri, User, app, connection,
    state,
};
use crate::github_graph_parts::*;
use crate::github_json as js;
use crate::model;

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    Closed,
    Merged,
}

pub(crate) fn state_of(pull: &model::Pull) -> PullRequestState {
    match (pull.merged, pull.open) {
        (true, _) => PullRequestState::Merged,
        (false, true) => PullRequestState::Open,
        (false, false) => PullRequestState::Closed,
    }
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum MergeableState {
    Mergeable,
    Conflicting,
    Unknown,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum MergeStateStatus {
    Clean,
    Dirty,
    Unknown,
    Unstable,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestReviewDecision {
    ChangesRequested,
    Approved,
    ReviewRequired,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum PullRequestReviewState {
    Approved,
    ChangesRequested,
    Commented,
    Dismissed,
    Pending,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum CommentAuthorAssociation {
    Owner,
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

pub struct IssueComment(pub model::PullComment);

#[Object]
impl IssueComment {
    async fn id(&self) -> ID {
        js::node("IssueComment", self.0.id).into()
    }
    async fn author(&self, ctx: &Context<'_>) -> Answer<Option<Actor>> {
        Ok(Some(Actor::User(User(state(ctx)?.user(&self.0.user)))))
    }
    async fn author_association(&self) -> CommentAuthorAssociation {
        CommentAuthorAssociation::Owner
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
    async fn includes_created_edit(&self) -> bool {
        self.0.updated_at > self.0.created_at
    }
    async fn is_minimized(&self) -> bool {
        false
    }
    async fn minimized_reason(&self) -> Option<&str> {
        None
    }
    async fn reaction_groups(&self) -> Option<Vec<ReactionGroup>> {
        Some(Vec::new())
    }
    async fn viewer_did_author(&self, ctx: &Context<'_>) -> Answer<bool> {
        Ok(state(ctx)?.me().login == self.0.user)
    }
    async fn url(&self, ctx: &Context<'_>) -> Answer<Uri> {
        let base = &app(ctx)?.base;
        Ok(Uri(format!("{base}/{}/pull/{}#issuecomment-{}", self.0.repo, self.0.number, self.0.id)))
    }
}
connection!(IssueCommentConnection, IssueComment);

pub struct PullRequestReview(model::Review);

#[Object]
impl PullRequestReview {
    async fn id(&self) -> ID {
        js::node("PullRequestReview", self.0.id).into()
    }
    async fn author(&self, ctx: &Context<'_>) -> Answer<Option<Actor>> {
        Ok(Some(Actor::User(User(state(ctx)?.user(&self.0.user)))))
    }
    async fn author_association(&self) -> CommentAuthorAssociation {
        CommentAuthorAssociation::Owner
    }
    async fn body(&self) -> &str {
        &self.0.body
    }
    async fn submitted_at(&self) -> Option<DateTime> {
        self.0.submitted_at.map(DateTime)
    }
    async fn state(&self) -> PullRequestReviewState {
        match self.0.state.as_str() {
            "APPROVED" => PullRequestReviewState::Approved,
            "CHANGES_REQUESTED" => PullRequestReviewState::ChangesRequested,
            "DISMISSED" => PullRequestReviewState::Dismissed,
            "PENDING" => PullRequestReviewState::Pending,
            _ => PullRequestReviewState::Commented,
        }
    }
    async fn commit(&self) -> Option<Commit> {
        let (repo, sha) = (self.0.repo.clone(), self.0.commit_id.clone());
        Some(Commit { repo, sha, headline: String::new(), at: self.0.submitted_at.unwrap_or_default() })
    }
    async fn reaction_groups(&self) -> Option<Vec<ReactionGroup>> {
        Some(Vec::new())
    }
}
connection!(PullRequestReviewConnection, PullRequestReview);

pub struct PullRequest(pub model::Pull);

fn number(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[Object]
impl PullRequest {
    pub async fn id(&self) -> ID {
        js::node("PullRequest", self.0.id).into()
    }
    async fn number(&self) -> i32 {
        number(self.0.number)
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
    async fn author(&self, ctx: &Context<'_>) -> Answer<Option<Actor>> {
        Ok(Some(Actor::User(User(state(ctx)?.user(&self.0.user)))))
    }
    async fn state(&self) -> PullRequestState {
        state_of(&self.0)
    }
    async fn closed(&self) -> bool {
        !self.0.open
    }
    async fn merged(&self) -> bool {
        self.0.merged
    }
    async fn merge_commit(&self) -> Option<Commit> {
        let sha = self.0.merge_commit_sha.clone().filter(|_| self.0.merged)?;
        let (repo, at) = (self.0.repo.clone(), self.0.merged_at.unwrap_or_default());
        Some(Commit { repo, sha, headline: self.0.title.clone(), at })
    }
    async fn is_draft(&self) -> bool {
        self.0.draft
    }
    async fn is_cross_repository(&self) -> bool {
        false
    }
    async fn maintainer_can_modify(&self) -> bool {
        false
    }
    async fn head_ref_name(&self) -> &str {
        &self.0.head_ref
    }
    async fn head_ref_oid(&self) -> GitObjectId {
        GitObjectId(self.0.head_sha.clone())
    }
    async fn head_repository(&self, ctx: &Context<'_>) -> Answer<Option<Repository>> {
        Ok(state(ctx)?.repos.get(&self.0.repo).cloned().map(Repository))
    }
    async fn head_repository_owner(&self, ctx: &Context<'_>) -> Answer<Option<RepositoryOwner>> {
        let state = state(ctx)?;
        Ok(state.repos.get(&self.0.repo).map(|r| RepositoryOwner::User(User(state.user(&r.owner)))))
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
    async fn additions(&self) -> i32 {
        number(self.0.stats.additions)
    }
    async fn deletions(&self) -> i32 {
        number(self.0.stats.deletions)
    }
    async fn changed_files(&self) -> i32 {
        number(self.0.stats.changed_files)
    }
    async fn mergeable(&self) -> MergeableState {
        match self.0.mergeable {
            Some(true) if self.0.open => MergeableState::Mergeable,
            Some(false) if self.0.open => MergeableState::Conflicting,
            _ => MergeableState::Unknown,
        }
    }
    async fn merge_state_status(&self, ctx: &Context<'_>) -> Answer<MergeStateStatus> {
        let state = state(ctx)?;
        let green = state.runs_of(&self.0.repo, &self.0.head_sha).all(|r| r.conclusion.as_deref() == Some("success"));
        Ok(match self.0.mergeable.filter(|_| self.0.open) {
            None => MergeStateStatus::Unknown,
            Some(false) => MergeStateStatus::Dirty,
            Some(true) if green => MergeStateStatus::Clean,
            Some(true) => MergeStateStatus::Unstable,
        })
    }
    /// No rule asks for a review here.
    async fn review_decision(&self) -> Option<PullRequestReviewDecision> {
        None
    }
    async fn milestone(&self) -> Option<Milestone> {
        None
    }
    async fn reaction_groups(&self) -> Option<Vec<ReactionGroup>> {
        Some(Vec::new())
    }
    async fn status_check_rollup(&self, ctx: &Context<'_>) -> Answer<Option<StatusCheckRollup>> {
        Ok(StatusCheckRollup::of(&*state(ctx)?, &app(ctx)?.base, &self.0.repo, &self.0.head_sha))
    }
    /// Of its commits only the head is known without asking git.
    async fn commits(&self, first: Option<i32>, last: Option<i32>) -> PullRequestCommitConnection {
        let (repo, sha) = (self.0.repo.clone(), self.0.head_sha.clone());
        let head = Commit { repo, sha, headline: self.0.title.clone(), at: self.0.updated_at };
        PullRequestCommitConnection::ends(vec![PullRequestCommit { commit: head }], first, last)
    }
    async fn comments(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        last: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
        order_by: Option<IssueCommentOrder>,
    ) -> Answer<IssueCommentConnection> {
        let state = state(ctx)?;
        let mut all: Vec<&model::PullComment> = state.comments_of(&self.0.repo, self.0.number).collect();
        if let Some(IssueCommentOrder { field: IssueCommentOrderField::UpdatedAt, direction }) = order_by {
            all.sort_by_key(|c| (c.updated_at, c.id));
            if direction == OrderDirection::Desc {
                all.reverse();
            }
        }
        Ok(IssueCommentConnection::ends(all.into_iter().cloned().map(IssueComment).collect(), first, last))
    }
    async fn reviews(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        last: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
    ) -> Answer<Option<PullRequestReviewConnection>> {
        let state = state(ctx)?;
        let all = state.reviews_of(&self.0.repo, self.0.number).cloned().map(PullRequestReview).collect();
        Ok(Some(PullRequestReviewConnection::ends(all, first, last)))
    }
    async fn review_requests(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        last: Option<i32>,
    ) -> Answer<Option<ReviewRequestConnection>> {
        let state = state(ctx)?;
        let asked = |login: &String| ReviewRequest {
            requested_reviewer: Some(RequestedReviewer::User(User(state.user(login)))),
        };
        Ok(Some(ReviewRequestConnection::ends(self.0.requested.iter().map(asked).collect(), first, last)))
    }
    async fn labels(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        last: Option<i32>,
    ) -> Answer<Option<LabelConnection>> {
        let state = state(ctx)?;
        let repo = state.repos.get(&self.0.repo);
        let label = |name: &String| {
            let id = repo.and_then(|r| r.labels.get(name)).copied().unwrap_or(0);
            let (name, color) = (name.clone(), "ededed".to_owned());
            Label { id: js::node("Label", id).into(), name, description: None, color }
        };
        Ok(Some(LabelConnection::ends(self.0.labels.iter().map(label).collect(), first, last)))
    }
    async fn assignees(&self, first: Option<i32>, last: Option<i32>) -> UserConnection {
        UserConnection::ends(Vec::new(), first, last)
    }
    async fn project_cards(&self, first: Option<i32>, last: Option<i32>) -> ProjectCardConnection {
        ProjectCardConnection::ends(Vec::new(), first, last)
    }
    /// Files are told by the other API.
    async fn files(&self, first: Option<i32>, last: Option<i32>) -> Option<PullRequestChangedFileConnection> {
        Some(PullRequestChangedFileConnection::ends(Vec::new(), first, last))
    }
}
