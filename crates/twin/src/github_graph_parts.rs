//! What hangs on a pull in GitHub's GraphQL API: labels, requests, files, checks, commits.

use async_graphql::{ComplexObject, Context, Enum, ID, Object, SimpleObject, Union};
use jiff::Timestamp;

use crate::github_graph::{Answer, DateTime, GitObjectId, Uri, User, app, connection, state};
use crate::model::{self, State};

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum CheckConclusionState {
    Success,
    Failure,
}

#[derive(Enum, Copy, Clone, PartialEq, Eq)]
pub enum CheckStatusState {
    Queued,
    InProgress,
    Completed,
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
pub enum ReactionContent {
    ThumbsUp,
}

#[derive(SimpleObject)]
pub struct ReactingUserConnection {
    total_count: i32,
}

/// Nobody reacts here; the types are there because they may be asked for.
#[derive(SimpleObject)]
pub struct ReactionGroup {
    content: ReactionContent,
    users: ReactingUserConnection,
}

#[derive(SimpleObject)]
pub struct Project {
    name: String,
}

#[derive(SimpleObject)]
pub struct ProjectColumn {
    name: String,
}

#[derive(SimpleObject)]
pub struct ProjectCard {
    project: Project,
    column: Option<ProjectColumn>,
}
connection!(ProjectCardConnection, ProjectCard);

#[derive(SimpleObject)]
pub struct Milestone {
    pub number: i32,
    pub title: String,
    pub description: Option<String>,
    pub due_on: Option<DateTime>,
}

#[derive(SimpleObject)]
pub struct Label {
    pub id: ID,
    pub name: String,
    pub description: Option<String>,
    pub color: String,
}
connection!(LabelConnection, Label);
connection!(UserConnection, User);

#[derive(SimpleObject)]
pub struct Organization {
    login: String,
}

#[derive(SimpleObject)]
pub struct Team {
    name: String,
    slug: String,
    organization: Organization,
}

#[derive(Union)]
pub enum RequestedReviewer {
    Team(Team),
    User(User),
}

#[derive(SimpleObject)]
pub struct ReviewRequest {
    pub requested_reviewer: Option<RequestedReviewer>,
}
connection!(ReviewRequestConnection, ReviewRequest);

#[derive(SimpleObject)]
pub struct PullRequestChangedFile {
    path: String,
    additions: i32,
    deletions: i32,
}
connection!(PullRequestChangedFileConnection, PullRequestChangedFile);

#[derive(SimpleObject)]
pub struct Workflow {
    name: String,
}

#[derive(SimpleObject)]
pub struct WorkflowRun {
    workflow: Workflow,
}

#[derive(SimpleObject)]
pub struct CheckSuite {
    workflow_run: Option<WorkflowRun>,
}

#[derive(SimpleObject)]
#[graphql(complex)]
pub struct CheckRun {
    name: String,
    status: CheckStatusState,
    conclusion: Option<CheckConclusionState>,
    started_at: Option<DateTime>,
    completed_at: Option<DateTime>,
    details_url: Option<Uri>,
    check_suite: CheckSuite,
}

#[ComplexObject]
impl CheckRun {
    /// No rule asks for a check here.
    async fn is_required(&self, #[graphql(name = "pullRequestId")] _pull: Option<ID>) -> bool {
        false
    }
}

#[derive(SimpleObject)]
#[graphql(complex)]
pub struct StatusContext {
    context: String,
    state: StatusState,
    target_url: Option<Uri>,
    created_at: DateTime,
}

#[ComplexObject]
impl StatusContext {
    async fn is_required(&self, #[graphql(name = "pullRequestId")] _pull: Option<ID>) -> bool {
        false
    }
}

/// Nobody posts statuses here; the type is there because it may be asked for.
#[derive(Union)]
pub enum StatusCheckRollupContext {
    CheckRun(CheckRun),
    StatusContext(StatusContext),
}
connection!(StatusCheckRollupContextConnection, StatusCheckRollupContext);

pub struct StatusCheckRollup {
    runs: Vec<model::CheckRun>,
    base: String,
}

impl StatusCheckRollup {
    /// Of a head; nothing where no check has begun.
    pub fn of(state: &State, base: &str, repo: &str, sha: &str) -> Option<StatusCheckRollup> {
        let runs: Vec<model::CheckRun> = state.runs_of(repo, sha).cloned().collect();
        (!runs.is_empty()).then(|| StatusCheckRollup { runs, base: base.to_owned() })
    }
}

#[Object]
impl StatusCheckRollup {
    async fn state(&self) -> StatusState {
        let bad = |r: &model::CheckRun| r.conclusion.as_deref().is_some_and(|c| c != "success");
        match (self.runs.iter().any(bad), self.runs.iter().all(|r| r.status == "completed")) {
            (true, _) => StatusState::Failure,
            (false, true) => StatusState::Success,
            (false, false) => StatusState::Pending,
        }
    }

    async fn contexts(
        &self,
        first: Option<i32>,
        last: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
    ) -> StatusCheckRollupContextConnection {
        let run = |r: &model::CheckRun| {
            StatusCheckRollupContext::CheckRun(CheckRun {
                name: r.name.clone(),
                status: match r.status.as_str() {
                    "completed" => CheckStatusState::Completed,
                    "queued" => CheckStatusState::Queued,
                    _ => CheckStatusState::InProgress,
                },
                conclusion: r.conclusion.as_deref().map(|c| match c {
                    "success" => CheckConclusionState::Success,
                    _ => CheckConclusionState::Failure,
                }),
                started_at: Some(DateTime(r.started_at)),
                completed_at: r.completed_at.map(DateTime),
                details_url: Some(Uri(format!("{}/{}/runs/{}", self.base, r.repo, r.id))),
                check_suite: CheckSuite { workflow_run: None },
            })
        };
        StatusCheckRollupContextConnection::ends(self.runs.iter().map(run).collect(), first, last)
    }
}

#[derive(SimpleObject)]
pub struct GitActor {
    name: Option<String>,
    email: Option<String>,
    user: Option<User>,
}
connection!(GitActorConnection, GitActor);

/// A commit as far as it is known without asking git.
pub struct Commit {
    pub repo: String,
    pub sha: String,
    pub headline: String,
    pub at: Timestamp,
}

#[Object]
impl Commit {
    async fn oid(&self) -> GitObjectId {
        GitObjectId(self.sha.clone())
    }
    async fn message_headline(&self) -> &str {
        &self.headline
    }
    async fn message_body(&self) -> &str {
        ""
    }
    async fn committed_date(&self) -> DateTime {
        DateTime(self.at)
    }
    async fn authored_date(&self) -> DateTime {
        DateTime(self.at)
    }
    async fn authors(&self, first: Option<i32>, last: Option<i32>) -> GitActorConnection {
        GitActorConnection::ends(Vec::new(), first, last)
    }
    async fn status_check_rollup(&self, ctx: &Context<'_>) -> Answer<Option<StatusCheckRollup>> {
        Ok(StatusCheckRollup::of(&*state(ctx)?, &app(ctx)?.base, &self.repo, &self.sha))
    }
}

#[derive(SimpleObject)]
pub struct PullRequestCommit {
    pub commit: Commit,
}
connection!(PullRequestCommitConnection, PullRequestCommit);
