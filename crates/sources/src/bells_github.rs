//! GitHub's webhooks.

use crate::bells::{body_name, object, signed, text};
use serde_json::Value;
use std::collections::BTreeMap;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ports::{About, BadRing, Doorbell, Ring};

/// The bell of GitHub webhooks that share a secret.
pub struct GitHubBell {
    secret: String,
}

impl GitHubBell {
    /// `secret` is the webhook's secret. An empty one verifies nothing.
    pub fn new(secret: String) -> GitHubBell {
        GitHubBell { secret }
    }
}

impl Doorbell for GitHubBell {
    fn verify(&self, headers: &BTreeMap<String, String>, raw: &[u8], _now_ms: i64) -> Result<Ring, BadRing> {
        let header = |name: &str| headers.get(name).map_or("", |v| v.trim());
        let signature = header("x-hub-signature-256").strip_prefix("sha256=").ok_or(BadRing::Signature)?;
        if !signed(&self.secret, raw, signature) {
            return Err(BadRing::Signature);
        }
        let body = object(raw)?;
        let event = header("x-github-event");
        // Two hooks get the same delivery id for one event, so it names a
        // delivery only together with its hook.
        let delivery = match header("x-github-delivery") {
            "" => body_name(raw),
            id => id.to_owned(),
        };
        Ok(ring(event, header("x-github-hook-id"), &delivery, &body))
    }
}

/// The ring of an event, however it was heard of.
pub(crate) fn ring(event: &str, hook: &str, delivery: &str, body: &Value) -> Ring {
    Ring {
        delivery: format!("{hook}:{delivery}"),
        source: "github".into(),
        what: words(event, body),
        about: about(event, body),
        // These deliveries carry no time of sending.
        stale: false,
    }
}

/// `pull_request opened`, as far as headers and body say it.
fn words(event: &str, body: &Value) -> String {
    let event = if event.is_empty() { "unknown" } else { event };
    match text(body, "/action") {
        Some(action) => format!("{event} {action}"),
        None => event.to_owned(),
    }
}

/// What an event names. Its action does not matter: new ones appear, and a ring
/// only says where to look.
fn about(event: &str, body: &Value) -> About {
    let Some(repo) = text(body, "/repository/full_name").and_then(RepoName::parse) else { return About::Nothing };
    let found = match event {
        "pull_request" | "pull_request_review" | "pull_request_review_comment" => pull(body, repo),
        "issue_comment" => comment(body, repo),
        "check_run" => {
            let sha = text(body, "/check_run/head_sha").or_else(|| text(body, "/check_run/check_suite/head_sha"));
            let branch = text(body, "/check_run/check_suite/head_branch");
            head(body, repo, "/check_run/pull_requests", sha, branch)
        }
        "check_suite" => {
            let sha = text(body, "/check_suite/head_sha");
            head(body, repo, "/check_suite/pull_requests", sha, text(body, "/check_suite/head_branch"))
        }
        "workflow_run" => {
            // A run of a fork has the fork's branch, which is none of ours.
            let home = text(body, "/workflow_run/head_repository/full_name").and_then(RepoName::parse);
            let ours = home.is_none_or(|h| h == repo);
            let branch = text(body, "/workflow_run/head_branch").filter(|_| ours);
            head(body, repo, "/workflow_run/pull_requests", text(body, "/workflow_run/head_sha"), branch)
        }
        "status" => head(body, repo, "/pull_requests", text(body, "/sha"), only_branch(body)),
        "push" => text(body, "/ref")
            .and_then(|r| r.strip_prefix("refs/heads/"))
            .filter(|b| !b.is_empty())
            .map(|branch| About::Push { repo, branch: branch.into() }),
        _ => None,
    };
    found.unwrap_or(About::Nothing)
}

fn numbered(repo: RepoName, number: Option<&Value>) -> Option<PullKey> {
    Some(PullKey { repo, number: number?.as_u64().filter(|n| *n > 0)? })
}

fn pull(body: &Value, repo: RepoName) -> Option<About> {
    let number = body.pointer("/pull_request/number").or_else(|| body.get("number"));
    // A fork may have a branch of the same name; only the repo's own are named.
    let home = text(body, "/pull_request/head/repo/full_name").and_then(RepoName::parse);
    let branch = text(body, "/pull_request/head/ref").filter(|_| home.as_ref() == Some(&repo)).map(str::to_owned);
    Some(About::Pull { pull: numbered(repo, number)?, branch })
}

/// Pulls are issues too; only theirs have the link to the pull.
fn comment(body: &Value, repo: RepoName) -> Option<About> {
    body.pointer("/issue/pull_request").filter(|p| !p.is_null())?;
    Some(About::Pull { pull: numbered(repo, body.pointer("/issue/number"))?, branch: None })
}

/// The one pull that a check belongs to, else its commit: checks of forks name
/// no pull, and a commit can be the head of several.
fn head(body: &Value, repo: RepoName, list: &str, sha: Option<&str>, branch: Option<&str>) -> Option<About> {
    let branch = branch.map(str::to_owned);
    let home = body.pointer("/repository/id").and_then(Value::as_u64);
    // The list also has pulls of other repositories in the same network.
    let here = |p: &&Value| match (p.pointer("/base/repo/id").and_then(Value::as_u64), home) {
        (Some(base), Some(home)) => base == home,
        _ => true,
    };
    let pulls: Vec<&Value> = body.pointer(list).and_then(Value::as_array).into_iter().flatten().filter(here).collect();
    if let [one] = pulls.as_slice()
        && let Some(pull) = numbered(repo.clone(), one.get("number"))
    {
        return Some(About::Pull { pull, branch });
    }
    Some(About::Head { repo, sha: sha?.into(), branch })
}

/// A status lists every branch that has its commit; a single one is its own.
fn only_branch(body: &Value) -> Option<&str> {
    match body.get("branches")?.as_array()?.as_slice() {
        [one] => text(one, "/name"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repo() -> RepoName {
        RepoName("o/r".into())
    }

    fn key(number: u64) -> PullKey {
        PullKey { repo: repo(), number }
    }

    fn seen(event: &str, mut body: Value) -> About {
        body["repository"] = json!({"full_name": "o/r", "id": 5});
        about(event, &body)
    }

    #[test]
    fn events_of_a_pull_name_it_and_only_its_own_branch() {
        let own = json!({"number": 7, "head": {"ref": "fix", "repo": {"full_name": "O/R"}}});
        for event in ["pull_request", "pull_request_review", "pull_request_review_comment"] {
            let found = seen(event, json!({"action": "brand_new", "pull_request": own}));
            assert_eq!(found, About::Pull { pull: key(7), branch: Some("fix".into()) }, "{event}");
        }
        let fork = json!({"number": 7, "head": {"ref": "fix", "repo": {"full_name": "x/r"}}});
        assert_eq!(seen("pull_request", json!({"pull_request": fork})), About::Pull { pull: key(7), branch: None });
        assert_eq!(seen("pull_request", json!({"number": 8})), About::Pull { pull: key(8), branch: None });
        let on_pull = json!({"issue": {"number": 9, "pull_request": {}}});
        assert_eq!(seen("issue_comment", on_pull), About::Pull { pull: key(9), branch: None });
    }

    #[test]
    fn a_check_names_its_only_pull_or_its_commit() {
        let one = json!([{"number": 3, "base": {"repo": {"id": 5}}}]);
        let two = json!([{"number": 3}, {"number": 4}]);
        let elsewhere = json!([{"number": 3, "base": {"repo": {"id": 6}}}]);
        let at = |branch: Option<&str>| About::Head { repo: repo(), sha: "abc".into(), branch: branch.map(Into::into) };
        for what in ["check_suite", "workflow_run"] {
            let with = |pulls: &Value, branch: Value| {
                seen(what, json!({what: {"head_sha": "abc", "head_branch": branch, "pull_requests": pulls}}))
            };
            assert_eq!(with(&one, json!("b")), About::Pull { pull: key(3), branch: Some("b".into()) }, "{what}");
            assert_eq!(with(&two, json!("b")), at(Some("b")), "{what}");
            assert_eq!(with(&elsewhere, json!("b")), at(Some("b")), "{what}");
            assert_eq!(with(&json!([]), Value::Null), at(None), "{what}");
            assert_eq!(with(&Value::Null, json!("b")), at(Some("b")), "{what}");
        }
        let run = json!({"check_run": {"head_sha": "abc", "check_suite": {"head_branch": "b"}, "pull_requests": one}});
        assert_eq!(seen("check_run", run), About::Pull { pull: key(3), branch: Some("b".into()) });
        let fork = json!({"head_sha": "abc", "head_branch": "main", "head_repository": {"full_name": "x/r"}});
        assert_eq!(seen("workflow_run", json!({"workflow_run": fork})), at(None));
        assert_eq!(seen("status", json!({"sha": "abc", "branches": [{"name": "b"}]})), at(Some("b")));
        assert_eq!(seen("status", json!({"sha": "abc", "branches": [{"name": "b"}, {"name": "c"}]})), at(None));
    }

    #[test]
    fn a_push_names_its_branch_and_a_tag_nothing() {
        let push = |r: &str| seen("push", json!({"ref": r}));
        assert_eq!(push("refs/heads/a/b"), About::Push { repo: repo(), branch: "a/b".into() });
        assert_eq!(push("refs/tags/v1"), About::Nothing);
        assert_eq!(push("refs/heads/"), About::Nothing);
    }

    #[test]
    fn what_concerns_no_pull_concerns_nothing() {
        assert_eq!(seen("ping", json!({"zen": "x"})), About::Nothing);
        assert_eq!(seen("issue_comment", json!({"issue": {"number": 9}})), About::Nothing);
        assert_eq!(seen("issue_comment", json!({"issue": {"number": 9, "pull_request": null}})), About::Nothing);
        assert_eq!(seen("pull_request", json!({"number": 0})), About::Nothing);
        assert_eq!(seen("check_run", json!({"check_run": []})), About::Nothing);
        assert_eq!(seen("novelty", json!({})), About::Nothing);
        assert_eq!(about("push", &json!({"ref": "refs/heads/a"})), About::Nothing);
        assert_eq!(about("push", &json!({"ref": "refs/heads/a", "repository": {"full_name": "../x"}})), About::Nothing);
    }
}
