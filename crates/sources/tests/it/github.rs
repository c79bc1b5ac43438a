//! The client of GitHub.

use crate::stub::{Stub, answer, ok};
use crate::twin::Twin;
use serde_json::json;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ports::Pulls;
use stewards_core::snapshot::{Author, Mergeable, Pull, PullState, Rollup};
use stewards_core::trouble::Trouble;
use stewards_sources::GitHub;

fn key() -> PullKey {
    PullKey::parse("acme/shop#1").unwrap()
}

/// Reads until what is computed in the background is there.
async fn settled(github: &GitHub) -> Pull {
    for _ in 0..200 {
        let pull = github.pull(&key()).await.unwrap();
        if pull.rollup.settled() && pull.mergeable != Mergeable::Computing {
            return pull;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the pull never settled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_is_read_with_checks_reviews_and_comments_and_then_merged_at_its_head() {
    let twin = Twin::start().await;
    let head = twin.pull().await;
    let on = json!({"repo": "acme/shop", "number": 1, "by": "bob", "body": "fine"});
    let with = |extra: &str, value: &str| {
        let mut body = on.clone();
        body[extra] = json!(value);
        body
    };
    twin.control("comment", with("on", "pull")).await;
    twin.control("review", with("event", "APPROVE")).await;
    twin.control("review", with("event", "")).await;
    let github = twin.github();
    let pull = settled(&github).await;
    assert_eq!((pull.state, pull.mergeable, pull.rollup), (PullState::Open, Mergeable::Yes, Rollup::Green));
    assert_eq!((pull.head_branch.as_str(), &pull.head_sha, pull.base_branch.as_str()), ("fix", &head, "main"));
    assert_eq!((pull.title.as_str(), pull.body.as_str()), ("Greet", "for DEMO-1"));
    assert!(pull.author.me);
    // An open pull has a test commit at the host, which is no merge.
    assert_eq!(pull.merge_sha, None);
    assert_eq!(pull.checks.len(), 1);
    assert_eq!(pull.checks[0].state, "success");
    let [review] = pull.reviews.as_slice() else { panic!("{:?}", pull.reviews) };
    assert_eq!((review.verdict.as_str(), &review.commit, review.author.login.as_str()), ("approved", &head, "bob"));
    let [comment] = pull.comments.as_slice() else { panic!("{:?}", pull.comments) };
    assert_eq!((comment.body.as_str(), comment.author.me), ("fine", false));

    let id = github.comment(&key(), "done").await.unwrap();
    let read = github.pull(&key()).await.unwrap();
    let mine = read.comments.iter().find(|c| c.id == id).unwrap();
    assert!(mine.author.me && mine.body == "done");

    let repo = RepoName("ACME/shop".into());
    assert_eq!(github.of_branch(&repo, "fix").await.unwrap(), [key()]);
    assert_eq!(github.of_branch(&repo, "fi").await.unwrap(), []);

    let wrong = github.merge(&key(), &"0".repeat(40), "Greet").await;
    assert!(matches!(wrong, Err(Trouble::Refused { .. })), "{wrong:?}");
    let none = github.merge(&key(), "", "Greet").await;
    assert!(matches!(none, Err(Trouble::Refused { .. })), "{none:?}");
    let sha = github.merge(&key(), &head, "Greet (#1)").await.unwrap();
    let merged = github.pull(&key()).await.unwrap();
    assert_eq!((merged.state, merged.merge_sha), (PullState::Merged, Some(sha)));
    let again = github.merge(&key(), &head, "Greet (#1)").await;
    assert!(matches!(again, Err(Trouble::Refused { .. })), "{again:?}");
    assert_eq!(github.of_branch(&repo, "fix").await.unwrap(), [key()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_of_github_has_its_own_trouble() {
    let twin = Twin::start().await;
    let head = twin.pull().await;
    let github = twin.github();
    assert!(matches!(github.pull(&PullKey::parse("acme/shop#99").unwrap()).await, Err(Trouble::Gone { .. })));
    twin.fault("/github/repos/acme/shop/pulls/1", 502, 1).await;
    assert!(matches!(github.pull(&key()).await, Err(Trouble::Flaky { .. })));
    // One list that fails fails the whole.
    twin.fault("/github/repos/acme/shop/issues/1/comments", 500, 1).await;
    assert!(matches!(github.pull(&key()).await, Err(Trouble::Flaky { .. })));
    twin.fault("/github/repos/acme/shop/pulls/1/merge", 504, 1).await;
    assert!(matches!(github.merge(&key(), &head, "x").await, Err(Trouble::Flaky { .. })));
    twin.fault("/github/repos/acme/shop/issues/1/comments", 500, 1).await;
    assert!(matches!(github.comment(&key(), "x").await, Err(Trouble::Flaky { .. })));
    assert!(github.pull(&key()).await.unwrap().comments.is_empty());
    let stranger = GitHub::new(format!("{}/github", twin.base), "wrong".into());
    assert!(matches!(stranger.pull(&key()).await, Err(Trouble::Unauthorized { .. })));
    let nowhere = GitHub::new("http://127.0.0.1:1".into(), "gh".into());
    assert!(matches!(nowhere.viewer().await, Err(Trouble::Flaky { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_comments_on_lines_and_who_is_asked_are_read_and_a_part_may_be_missing() {
    let twin = Twin::start().await;
    let head = twin.pull().await;
    let place = "/github/repos/acme/shop/pulls/1";
    let line = json!({"body": "why?", "path": "more.txt", "line": 1, "by": "bob"});
    twin.post(&format!("{place}/comments"), line).await;
    twin.post(&format!("{place}/requested_reviewers"), json!({"reviewers": ["bob"]})).await;
    let pull = twin.github().pull(&key()).await.unwrap();
    assert_eq!((&pull.requested, pull.changed_files), (&vec!["bob".to_owned()], 1));
    assert_eq!((pull.files[0].path.as_str(), pull.files[0].status.as_str()), ("more.txt", "added"));
    let inline = &pull.inline[0];
    assert_eq!((inline.path.as_str(), inline.line, &inline.commit), ("more.txt", Some(1), &head));
    assert_eq!((inline.comment.body.as_str(), inline.comment.author.login.as_str()), ("why?", "bob"));
    assert!(pull.unread.is_empty() && !pull.files_cut());
    twin.fault(&format!("{place}/comments"), 403, 1).await;
    twin.fault(&format!("{place}/files"), 404, 1).await;
    let pull = twin.github().pull(&key()).await.unwrap();
    assert_eq!(pull.unread, ["comments on lines", "files"]);
    assert!(pull.files_cut() && pull.inline.is_empty() && pull.requested.len() == 1);
    twin.fault(&format!("{place}/files"), 502, 1).await;
    assert!(matches!(twin.github().pull(&key()).await, Err(Trouble::Flaky { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_may_not_be_read_leave_the_rest_of_the_pull() {
    for status in [403, 404] {
        let twin = Twin::start().await;
        let head = twin.pull().await;
        twin.fault(&format!("/github/repos/acme/shop/commits/{head}/check-runs"), status, 1).await;
        let pull = twin.github().pull(&key()).await.unwrap();
        assert_eq!((pull.rollup, pull.head_sha), (Rollup::Unreadable, head.clone()));
        // A server that is down is not a missing grant.
        twin.fault(&format!("/github/repos/acme/shop/commits/{head}/status"), 503, 1).await;
        assert!(matches!(twin.github().pull(&key()).await, Err(Trouble::Flaky { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_read_and_a_failing_check_on_the_last_one_is_red() {
    let twin = Twin::start().await;
    twin.pull().await;
    for n in 0..130 {
        let body = json!({"on": "pull", "repo": "acme/shop", "number": 1, "by": "bob", "body": format!("{n}")});
        twin.control("comment", body).await;
    }
    assert_eq!(twin.github().pull(&key()).await.unwrap().comments.len(), 130);

    let stub = Stub::start(|base, asked| {
        let run = |bad: bool| json!({"name": "m", "status": "completed", "conclusion": if bad { "failure" } else { "success" }});
        match asked.path.split('?').next().unwrap() {
            "/user" => ok(&json!({"login": "ann"})),
            "/repos/acme/shop/pulls/1" => ok(&json!({"number": 1, "head": {"sha": "abc"}})),
            "/repos/acme/shop/commits/abc/check-runs" if !asked.path.contains("page=2") => {
                let link = format!("<{base}/repositories/5/runs?page=2>; rel=\"next\"");
                let runs: Vec<_> = (0..100).map(|_| run(false)).collect();
                answer(200, &[("link", &link)], &json!({"total_count": 101, "check_runs": runs}).to_string())
            }
            "/repositories/5/runs" => ok(&json!({"total_count": 101, "check_runs": [run(true)]})),
            "/repos/acme/shop/commits/abc/status" => ok(&json!({"state": "pending", "statuses": []})),
            _ => ok(&json!([])),
        }
    })
    .await;
    let pull = GitHub::new(stub.base.clone(), "gh".into()).pull(&key()).await.unwrap();
    assert_eq!((pull.rollup, pull.checks.len()), (Rollup::Red, 101));
    // A deleted account wrote it.
    assert_eq!(pull.author, Author::ghost());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_answer_is_taken_from_the_cache() {
    let stub = Stub::start(|_, asked| {
        if asked.headers.get("if-none-match").is_some_and(|t| t == "W/\"a\"") {
            return answer(304, &[], "");
        }
        let body = if asked.path == "/user" { json!({"login": "ann"}) } else { json!([]) };
        answer(200, &[("etag", "W/\"a\"")], &body.to_string())
    })
    .await;
    let github = GitHub::new(stub.base.clone(), "gh".into());
    let repo = RepoName("acme/shop".into());
    for _ in 0..3 {
        assert_eq!(github.of_branch(&repo, "fix").await.unwrap(), []);
    }
    let asked = stub.asked.lock().unwrap();
    let tagged = asked.iter().filter(|a| a.headers.contains_key("if-none-match")).count();
    assert_eq!((asked.len(), tagged), (3, 2));
    let path = "/repos/acme/shop/pulls?state=all&head=acme%3Afix&per_page=100";
    assert!(asked.iter().all(|a| a.path == path), "{asked:?}");
    let headers = &asked[0].headers;
    assert_eq!(headers["authorization"], "Bearer gh");
    assert_eq!(headers["accept"], "application/vnd.github+json");
    assert!(headers["user-agent"].to_str().unwrap().starts_with("stewards/"));
    assert!(headers.contains_key("x-github-api-version"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_repository_is_followed_with_the_same_method() {
    let stub = Stub::start(|base, asked| match asked.path.as_str() {
        "/repos/acme/shop/pulls/1/merge" => {
            answer(307, &[("location", &format!("{base}/repositories/5/pulls/1/merge"))], "")
        }
        "/repositories/5/pulls/1/merge" => ok(&json!({"merged": true, "sha": "m"})),
        "/repos/acme/shop/issues/1/comments" => answer(301, &[("location", "/repositories/5/comments")], ""),
        _ => answer(201, &[], "{\"id\": 12}"),
    })
    .await;
    let github = GitHub::new(stub.base.clone(), "gh".into());
    assert_eq!(github.merge(&key(), "abc", "t").await.unwrap(), "m");
    assert_eq!(github.comment(&key(), "x").await.unwrap(), "12");
    let methods: Vec<String> = stub.asked.lock().unwrap().iter().map(|a| a.method.clone()).collect();
    assert_eq!(methods, ["PUT", "PUT", "POST", "POST"]);
    let body = stub.asked.lock().unwrap()[1].body.clone();
    assert!(body.contains("\"squash\"") && body.contains("\"abc\""), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_never_follows_to_another_host() {
    let other = Stub::start(|_, _| ok(&json!({"login": "ann"}))).await;
    let to = other.base.clone();
    let stub = Stub::start(move |_, asked| match asked.path.as_str() {
        "/user" => answer(301, &[("location", &format!("{to}/user"))], ""),
        _ => answer(200, &[("link", &format!("<{to}/x>; rel=\"next\""))], "[]"),
    })
    .await;
    let github = GitHub::new(stub.base.clone(), "gh".into());
    assert!(matches!(github.viewer().await, Err(Trouble::Refused { .. })));
    let pulls = github.of_branch(&RepoName("acme/shop".into()), "fix").await;
    assert!(matches!(pulls, Err(Trouble::Refused { .. })));
    assert!(other.paths().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_fails_is_sent_once_and_told_by_its_words() {
    let base_moved = r#"{"message":"Base branch was modified. Review and try the merge again.","status":"405"}"#;
    let cases = [
        (405, base_moved, "flaky"),
        (405, r#"{"message":"Pull Request is not mergeable"}"#, "refused"),
        (409, r#"{"message":"Head branch was modified. Review and try the merge again."}"#, "refused"),
        (409, r#"{"message":"Base branch was modified"}"#, "refused"),
        (403, r#"{"message":"Resource not accessible by integration"}"#, "refused"),
        (403, r#"{"message":"You have exceeded a secondary rate limit"}"#, "later"),
        (422, r#"{"message":"Validation Failed"}"#, "refused"),
        (404, r#"{"message":"Not Found"}"#, "gone"),
        (401, r#"{"message":"Bad credentials"}"#, "unauthorized"),
        (502, "<html>", "flaky"),
        (200, r#"{"merged":false,"message":"no"}"#, "refused"),
        (200, r#"{"merged":true}"#, "flaky"),
        (200, "<html>", "flaky"),
    ];
    for (status, body, wanted) in cases {
        let stub = Stub::start(move |_, _| answer(status, &[], body)).await;
        let found = match GitHub::new(stub.base.clone(), "gh".into()).merge(&key(), "abc", "t").await {
            Ok(_) => "merged",
            Err(Trouble::Unauthorized { .. }) => "unauthorized",
            Err(Trouble::Later { .. }) => "later",
            Err(Trouble::Gone { .. }) => "gone",
            Err(Trouble::Refused { .. }) => "refused",
            Err(Trouble::Flaky { .. }) => "flaky",
        };
        assert_eq!(found, wanted, "{status} {body}");
        assert_eq!(stub.paths(), ["PUT /repos/acme/shop/pulls/1/merge"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_200_that_is_no_pull_is_flaky() {
    for body in [r#"{"message":"Branch not found"}"#, r#"{"number":2,"head":{"sha":"a"}}"#, "[]", "<html>"] {
        let stub = Stub::start(move |_, asked| match asked.path.as_str() {
            "/user" => ok(&json!({"login": "ann"})),
            _ => answer(200, &[], body),
        })
        .await;
        let read = GitHub::new(stub.base.clone(), "gh".into()).pull(&key()).await;
        assert!(matches!(read, Err(Trouble::Flaky { .. })), "{body}: {read:?}");
    }
}

#[tokio::test]
async fn a_client_for_the_real_services_can_be_made() {
    // Making the TLS client must not panic for want of a crypto provider.
    // Nothing listens on port 1.
    let github = GitHub::new("https://127.0.0.1:1".into(), "gh".into());
    let says = github.viewer().await.unwrap_err().to_string();
    assert!(says.contains("cannot be reached"), "{says}");
}
