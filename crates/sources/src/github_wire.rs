//! The shapes of GitHub's answers, and what they become. Every field is
//! optional, null and absent are the same, and unknown fields are ignored.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::snapshot::{Author, Beat, ChangedFile, Comment, Inline, Mergeable, Pull, PullState, Review, Rollup};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct User {
    pub login: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Repo {
    pub id: Option<u64>,
    pub full_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Side {
    #[serde(rename = "ref")]
    pub name: Option<String>,
    pub sha: Option<String>,
    pub repo: Option<Repo>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Label {
    pub name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PullRequest {
    pub number: Option<u64>,
    pub html_url: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    pub user: Option<User>,
    pub state: Option<String>,
    pub draft: Option<bool>,
    pub merged: Option<bool>,
    pub merged_at: Option<String>,
    pub updated_at: Option<String>,
    pub mergeable: Option<bool>,
    pub merge_commit_sha: Option<String>,
    pub labels: Option<Vec<Label>>,
    pub requested_reviewers: Option<Vec<User>>,
    pub requested_teams: Option<Vec<TeamBody>>,
    pub changed_files: Option<u64>,
    pub head: Option<Side>,
    pub base: Option<Side>,
}

/// One line about a pull, of the GraphQL API.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PullBeat {
    pub updated_at: Option<Timestamp>,
    pub state: Option<String>,
    pub is_draft: Option<bool>,
    pub head_ref_oid: Option<String>,
    pub base_ref_name: Option<String>,
    pub mergeable: Option<String>,
    pub review_decision: Option<String>,
    pub status_check_rollup: Option<RollupState>,
    pub comments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RollupState {
    pub state: Option<String>,
}

impl PullBeat {
    pub fn beat(self) -> Beat {
        let rollup = self.status_check_rollup.and_then(|r| r.state);
        let parts = [self.state, self.head_ref_oid, self.base_ref_name, self.review_decision, rollup];
        let parts: Vec<String> = parts.into_iter().map(Option::unwrap_or_default).collect();
        let comments = self.comments.map(|c| c.to_string()).unwrap_or_default();
        Beat {
            what: format!("{} draft {} {comments}", parts.join(" "), self.is_draft.unwrap_or(false)),
            merges: match self.mergeable.as_deref() {
                Some("MERGEABLE") => Some(true),
                Some("CONFLICTING") => Some(false),
                _ => None,
            },
            updated: self.updated_at,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReviewBody {
    pub id: Option<u64>,
    pub user: Option<User>,
    pub state: Option<String>,
    pub commit_id: Option<String>,
    pub body: Option<String>,
    pub submitted_at: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct IssueComment {
    pub id: Option<u64>,
    pub user: Option<User>,
    pub body: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
}

/// A comment on a line of the difference.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct InlineBody {
    #[serde(flatten)]
    pub comment: IssueComment,
    pub path: Option<String>,
    /// Nothing once the line is not part of the difference any more.
    pub line: Option<u64>,
    pub original_line: Option<u64>,
    pub commit_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct FileBody {
    pub filename: Option<String>,
    pub status: Option<String>,
    pub previous_filename: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TeamBody {
    pub slug: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Suite {
    pub id: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct CheckRun {
    pub id: Option<u64>,
    pub name: Option<String>,
    pub status: Option<String>,
    pub conclusion: Option<String>,
    pub check_suite: Option<Suite>,
}

/// One page of check runs. Without its list it is no such page.
#[derive(Debug, Deserialize)]
pub(crate) struct CheckPage {
    pub check_runs: Vec<CheckRun>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Status {
    pub context: Option<String>,
    pub state: Option<String>,
}

/// One page of the combined status. Its own `state` is not read: it is
/// `pending` for a head that has no status at all.
#[derive(Debug, Deserialize)]
pub(crate) struct StatusPage {
    pub statuses: Vec<Status>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Merged {
    pub merged: Option<bool>,
    pub sha: Option<String>,
    pub message: Option<String>,
}

/// A user as the snapshot has them; `viewer` is this server's own login. A
/// deleted account is nobody.
pub(crate) fn author(user: Option<User>, viewer: &str) -> Author {
    let user = user.unwrap_or_default();
    let Some(login) = user.login.filter(|l| !l.is_empty()) else { return Author::ghost() };
    Author {
        name: user.name.filter(|n| !n.is_empty()).unwrap_or_else(|| login.clone()),
        bot: user.kind.as_deref() == Some("Bot"),
        me: login.eq_ignore_ascii_case(viewer),
        login,
    }
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// A review, unless it is still being written: such a one has no time, and only
/// its author sees it.
pub(crate) fn review(review: ReviewBody, viewer: &str) -> Option<Review> {
    let at = time(review.submitted_at.as_deref())?;
    let verdict = review.state.unwrap_or_default().to_ascii_lowercase();
    if verdict == "pending" {
        return None;
    }
    Some(Review {
        id: review.id.map(|id| id.to_string()).unwrap_or_default(),
        author: author(review.user, viewer),
        verdict,
        commit: review.commit_id.unwrap_or_default(),
        body: review.body.unwrap_or_default(),
        at,
    })
}

pub(crate) fn comment(comment: IssueComment, viewer: &str) -> Comment {
    let at = time(comment.created_at.as_deref()).unwrap_or(Timestamp::UNIX_EPOCH);
    Comment {
        id: comment.id.map(|id| id.to_string()).unwrap_or_default(),
        author: author(comment.user, viewer),
        body: comment.body.unwrap_or_default(),
        at,
        edited: time(comment.updated_at.as_deref()).filter(|t| *t > at),
    }
}

pub(crate) fn inline(body: InlineBody, viewer: &str) -> Inline {
    Inline {
        comment: comment(body.comment, viewer),
        path: body.path.unwrap_or_default(),
        line: body.line.or(body.original_line),
        commit: body.commit_id.unwrap_or_default(),
    }
}

pub(crate) fn file(body: FileBody) -> Option<ChangedFile> {
    let path = body.filename.filter(|f| !f.is_empty())?;
    Some(ChangedFile { path, status: body.status.unwrap_or_default(), from: body.previous_filename })
}

impl PullRequest {
    /// The head's commit; without one the answer is not a pull.
    pub fn head_sha(&self) -> Option<&str> {
        self.head.as_ref()?.sha.as_deref().filter(|s| !s.is_empty())
    }

    /// Whether its head is exactly this branch of the repository itself.
    pub fn is_of(&self, repo: &RepoName, branch: &str) -> bool {
        let Some(head) = &self.head else { return false };
        let Some(home) = &head.repo else { return false };
        let base = self.base.as_ref().and_then(|b| b.repo.as_ref()).and_then(|r| r.id);
        // The ids tell it even when the repository has been renamed since.
        let own = match (home.id, base) {
            (Some(home), Some(base)) => home == base,
            _ => home.full_name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&repo.0)),
        };
        own && head.name.as_deref() == Some(branch)
    }

    /// The pull without what other addresses tell: checks, reviews, comments.
    pub fn bare(self, key: &PullKey, viewer: &str) -> Pull {
        let merged = self.merged == Some(true) || self.merged_at.is_some();
        let state = match self.state.as_deref() {
            _ if merged => PullState::Merged,
            Some("closed") => PullState::Closed,
            _ => PullState::Open,
        };
        let head = self.head.unwrap_or_default();
        let mut labels: Vec<String> = self.labels.into_iter().flatten().filter_map(|l| l.name).collect();
        labels.sort();
        let people = self.requested_reviewers.into_iter().flatten().filter_map(|u| u.login);
        let teams = self.requested_teams.into_iter().flatten().filter_map(|t| t.slug).map(|slug| format!("@{slug}"));
        let mut requested: Vec<String> = people.chain(teams).collect();
        requested.sort();
        Pull {
            key: key.clone(),
            url: self.html_url.unwrap_or_default(),
            title: self.title.unwrap_or_default(),
            body: self.body.unwrap_or_default(),
            author: author(self.user, viewer),
            state,
            draft: self.draft.unwrap_or(false),
            labels,
            head_branch: head.name.unwrap_or_default(),
            head_sha: head.sha.unwrap_or_default(),
            base_branch: self.base.and_then(|b| b.name).unwrap_or_default(),
            mergeable: match self.mergeable {
                Some(true) => Mergeable::Yes,
                Some(false) => Mergeable::No,
                None => Mergeable::Computing,
            },
            merge_sha: self.merge_commit_sha.filter(|s| merged && !s.is_empty()),
            updated: time(self.updated_at.as_deref()),
            rollup: Rollup::None,
            checks: Vec::new(),
            reviews: Vec::new(),
            comments: Vec::new(),
            requested,
            inline: Vec::new(),
            files: Vec::new(),
            changed_files: self.changed_files.unwrap_or(0),
            closes: Vec::new(),
            unread: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pull(v: Value) -> Pull {
        let key = PullKey::parse("o/r#7").unwrap();
        serde_json::from_value::<PullRequest>(v).unwrap().bare(&key, "me")
    }

    #[test]
    fn mergeable_has_three_answers() {
        assert_eq!(pull(json!({"mergeable": true})).mergeable, Mergeable::Yes);
        assert_eq!(pull(json!({"mergeable": false})).mergeable, Mergeable::No);
        assert_eq!(pull(json!({"mergeable": null})).mergeable, Mergeable::Computing);
        assert_eq!(pull(json!({})).mergeable, Mergeable::Computing);
    }

    #[test]
    fn the_merge_commit_counts_only_once_merged() {
        let open = pull(json!({"state": "open", "merged": false, "merge_commit_sha": "test"}));
        assert_eq!((open.state, open.merge_sha), (PullState::Open, None));
        let closed = pull(json!({"state": "closed", "merged": false, "merge_commit_sha": "test"}));
        assert_eq!((closed.state, closed.merge_sha), (PullState::Closed, None));
        let merged = pull(json!({"state": "closed", "merged": true, "merge_commit_sha": "real"}));
        assert_eq!((merged.state, merged.merge_sha.as_deref()), (PullState::Merged, Some("real")));
    }

    #[test]
    fn a_review_still_being_written_is_skipped() {
        let read = |v: Value| review(serde_json::from_value(v).unwrap(), "me");
        assert!(read(json!({"id": 1, "state": "PENDING"})).is_none());
        assert!(read(json!({"id": 1, "state": "PENDING", "submitted_at": "2026-01-01T00:00:00Z"})).is_none());
        let at = "2026-01-01T00:00:00Z";
        let done = read(json!({"id": 1, "state": "CHANGES_REQUESTED", "submitted_at": at, "user": null})).unwrap();
        assert_eq!((done.verdict.as_str(), done.author), ("changes_requested", Author::ghost()));
    }

    #[test]
    fn my_login_is_known_in_any_case_and_a_ghost_is_nobody() {
        let of = |v: Value| author(serde_json::from_value(v).unwrap(), "Ann");
        assert!(of(json!({"login": "aNN", "type": "User"})).me);
        let bot = of(json!({"login": "ci[bot]", "type": "Bot"}));
        assert!(bot.bot && !bot.me);
        assert_eq!(of(Value::Null), Author::ghost());
        assert_eq!(author(None, ""), Author::ghost());
    }

    #[test]
    fn a_comment_is_edited_only_when_its_times_differ() {
        let at = |updated: &str| {
            let v = json!({"id": 1, "created_at": "2026-01-01T00:00:00Z", "updated_at": updated});
            comment(serde_json::from_value(v).unwrap(), "me").edited
        };
        assert_eq!(at("2026-01-01T00:00:00Z"), None);
        assert!(at("2026-01-01T00:00:01Z").is_some());
    }

    #[test]
    fn a_branch_of_a_fork_is_another_branch() {
        let repo = RepoName("o/r".into());
        let is = |v: Value| serde_json::from_value::<PullRequest>(v).unwrap().is_of(&repo, "fix");
        assert!(is(json!({"head": {"ref": "fix", "repo": {"full_name": "O/R"}}})));
        let renamed =
            json!({"head": {"ref": "fix", "repo": {"id": 1, "full_name": "o/new"}}, "base": {"repo": {"id": 1}}});
        assert!(is(renamed));
        assert!(!is(json!({"head": {"ref": "fix", "repo": {"id": 2}}, "base": {"repo": {"id": 1}}})));
        assert!(!is(json!({"head": {"ref": "fix-2", "repo": {"full_name": "o/r"}}})));
        assert!(!is(json!({"head": {"ref": "fix", "repo": {"full_name": "x/r"}}})));
        assert!(!is(json!({"head": {"ref": "fix", "repo": null}})));
        assert!(!is(json!({})));
    }
}
