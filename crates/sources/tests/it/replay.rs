//! Recorded exchanges of GitHub, answered again to our own client.

use crate::recorded::fixtures;
use crate::stub::{Asked, Stub, answer, ok};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use stewards_core::entity::PullKey;
use stewards_core::ports::Pulls;
use stewards_core::snapshot::{Mergeable, PullState, Rollup};
use stewards_core::trouble::Trouble;
use stewards_sources::GitHub;

/// One recorded exchange: method, path with query, status, headers, body.
type Exchange = (String, String, u16, Vec<(String, String)>, Value);

fn headers(value: &Value) -> Vec<(String, String)> {
    let of = |(name, v): (&String, &Value)| Some((name.to_lowercase(), v.as_str()?.to_owned()));
    value.as_object().into_iter().flatten().filter_map(of).collect()
}

/// A scenario of either collection, in its order.
fn scenario(file: &str) -> Option<Vec<Exchange>> {
    let text = std::fs::read_to_string(fixtures()?.join("github").join(file)).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let exchange = |e: &Value| {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let request = &e["request"];
        let (method, path) = match request.is_object() {
            true => (text(&request["method"]), text(&request["url"])),
            false => (text(&e["method"]).to_uppercase(), text(&e["path"])),
        };
        // The one collection calls the answer `body`, the other `response`.
        let body = if request.is_object() { &e["body"] } else { &e["response"] };
        let status = u16::try_from(e["status"].as_u64().unwrap_or(200)).unwrap();
        (method, path, status, headers(&e["headers"]), body.clone())
    };
    Some(all.iter().map(exchange).collect())
}

/// How many items a page has is ours to say; what is asked for is compared without.
fn plain(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut rest: Vec<&str> = query.split('&').filter(|p| !p.is_empty() && !p.starts_with("per_page=")).collect();
    rest.sort_unstable();
    if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) }
}

/// What was recorded for a request, each answer once and the last one for good; lists that
/// nobody recorded are empty.
async fn replayed(exchanges: Vec<Exchange>) -> Stub {
    let served: Mutex<HashMap<String, usize>> = Mutex::default();
    Stub::start(move |base, asked| {
        let wanted = format!("{} {}", asked.method, plain(&asked.path));
        let fits: Vec<&Exchange> = exchanges.iter().filter(|e| format!("{} {}", e.0, plain(&e.1)) == wanted).collect();
        let mut served = served.lock().unwrap();
        let turn = served.entry(wanted).or_default();
        let Some((_, _, status, headers, body)) = fits.get((*turn).min(fits.len().saturating_sub(1))) else {
            return unrecorded(asked);
        };
        *turn += 1;
        let kept = ["link", "location", "etag", "retry-after"];
        let headers: Vec<(&str, String)> = headers
            .iter()
            .filter(|(name, _)| kept.contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), value.replace("https://api.github.com", base)))
            .collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        answer(*status, &headers, &body.to_string())
    })
    .await
}

fn unrecorded(asked: &Asked) -> Response {
    match asked.path.split('?').next().unwrap().rsplit('/').next().unwrap() {
        "check-runs" => ok(&json!({"total_count": 0, "check_runs": []})),
        "status" => ok(&json!({"state": "pending", "statuses": []})),
        "user" => ok(&json!({"login": "hub4j"})),
        _ => ok(&json!([])),
    }
}

async fn client(file: &str) -> Option<(GitHub, Stub)> {
    let stub = replayed(scenario(file)?).await;
    Some((GitHub::new(stub.base.clone(), "gh".into()), stub))
}

fn key(number: u64) -> PullKey {
    PullKey::parse(&format!("hub4j-test-org/github-api#{number}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_it_merges_is_computed_first_and_a_test_merge_is_no_merge() {
    let Some((github, _stub)) = client("http-hub4j/GHPullRequestTest.mergeCommitSHA.json").await else { return };
    let mut seen = Vec::new();
    for _ in 0..3 {
        let pull = github.pull(&key(309)).await.unwrap();
        assert_eq!((pull.state, pull.merge_sha, pull.rollup), (PullState::Open, None, Rollup::None));
        assert_eq!(pull.head_sha, "b036909fcf45565c82c888ee326ebd0e382f6173");
        assert!(pull.updated.is_some());
        seen.push(pull.mergeable);
    }
    assert_eq!(seen, [Mergeable::Computing, Mergeable::Computing, Mergeable::Yes]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_that_is_still_being_written_is_not_seen() {
    let Some(mut exchanges) = scenario("http-hub4j/GHPullRequestTest.pullRequestReviews.json") else { return };
    // The pull itself was only recorded as it was made.
    let made = exchanges.iter().find(|e| e.0 == "POST" && e.1.ends_with("/pulls")).unwrap().clone();
    exchanges.push(("GET".into(), "/repos/hub4j-test-org/github-api/pulls/482".into(), 200, Vec::new(), made.4));
    let pending = exchanges.iter().rfind(|e| e.0 == "GET" && e.1.ends_with("/482/reviews")).unwrap();
    assert_eq!(pending.4[0]["state"], "PENDING");
    let stub = replayed(exchanges).await;
    let github = GitHub::new(stub.base.clone(), "gh".into());
    for _ in 0..2 {
        assert!(github.pull(&key(482)).await.unwrap().reviews.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drafts_and_whose_review_is_asked_for_are_read() {
    let Some((github, _stub)) = client("http-hub4j/GHPullRequestTest.createDraftPullRequest.json").await else {
        return;
    };
    assert!(github.pull(&key(321)).await.unwrap().draft);
    let file = "http-hub4j/GHPullRequestTest.testPullRequestReviewRequests.json";
    let Some((github, _stub)) = client(file).await else { return };
    assert_eq!(github.pull(&key(299)).await.unwrap().requested, ["kohsuke2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_squash_names_its_commit() {
    let Some((github, stub)) = client("http-hub4j/GHPullRequestTest.squashMerge.json").await else { return };
    let head = "a".repeat(40);
    let merged = github.merge(&key(267), &head, "title").await.unwrap();
    assert_eq!(merged, "ecec449372b1e8270524a35c1a5aa8fdaf0e6676");
    let sent: Value = serde_json::from_str(&stub.asked.lock().unwrap()[0].body).unwrap();
    assert_eq!((&sent["merge_method"], &sent["sha"]), (&json!("squash"), &json!(head)));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_go_on_under_the_repositorys_number_are_read_to_their_end() {
    let Some(mut exchanges) = scenario("http-hub4j/GHRepositoryTest.getCheckRuns.json") else { return };
    let head = "78b9ff49d47daaa158eb373c4e2e040f739df8b9";
    let pull = json!({"number": 1, "state": "open", "head": {"sha": head}});
    exchanges.push(("GET".into(), "/repos/hub4j/github-api/pulls/1".into(), 200, Vec::new(), pull));
    let stub = replayed(exchanges).await;
    let github = GitHub::new(stub.base.clone(), "gh".into());
    let pull = github.pull(&PullKey::parse("hub4j/github-api#1").unwrap()).await.unwrap();
    assert_eq!((pull.rollup, pull.checks.len()), (Rollup::Green, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_repository_is_found_under_its_number_with_the_same_method() {
    let Some((github, stub)) = client("http/octokit-fixtures.rename-repository.json").await else { return };
    // The first answer of a change is of before the renaming.
    let body = json!({"name": "rename-repository-newname"});
    let path = "repos/octokit-fixture-org/rename-repository";
    for _ in 0..2 {
        let answer = github.call("PATCH", path, Some(&body)).await.unwrap();
        assert_eq!(answer["name"], "rename-repository-newname");
    }
    let answer = github.call("GET", path, None).await.unwrap();
    assert_eq!((&answer["id"], &answer["name"]), (&json!(1000), &json!("rename-repository-newname")));
    let paths = stub.paths();
    assert!(paths.contains(&"PATCH /repositories/1000".to_owned()), "{paths:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_says_why() {
    let Some((github, _stub)) = client("http/octokit-fixtures.errors.json").await else { return };
    let refused = github.call("POST", "repos/octokit-fixture-org/errors/labels", Some(&json!({}))).await;
    assert!(matches!(&refused, Err(Trouble::Refused { says }) if says.contains("Validation Failed")), "{refused:?}");
}
