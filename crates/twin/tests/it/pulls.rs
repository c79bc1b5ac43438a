//! Pulls from push to merge, over HTTP and with the real git.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::world::{SECRET, Twin};

fn signature(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_goes_from_push_to_merge_and_its_ticket_follows() {
    let mut twin = Twin::start().await;
    let ticket = twin.seed().await;
    assert_eq!(ticket["identifier"], "DEMO-1");
    let work = twin.clone_repo().await;
    let sha = twin.push(&work, "demo-1-greet", "hello.txt", "hi\n").await;
    let pull = twin.open("demo-1-greet").await;
    assert_eq!((&pull["number"], &pull["head"]["sha"], &pull["mergeable"]), (&json!(1), &json!(sha), &Value::Null));
    assert_eq!(twin.verdict(&sha).await, "success");

    // The first read starts the computation, the second sees it.
    let at = "/github/repos/acme/shop/pulls/1";
    assert_eq!(twin.get(at).await["mergeable"], Value::Null);
    let read = twin.get(at).await;
    assert_eq!((&read["mergeable"], &read["mergeable_state"]), (&json!(true), &json!("clean")));
    assert_eq!((&read["commits"], &read["additions"], &read["changed_files"]), (&json!(1), &json!(1), &json!(1)));
    let files = twin.get(&format!("{at}/files")).await;
    assert_eq!((&files[0]["filename"], &files[0]["status"]), (&json!("hello.txt"), &json!("added")));
    assert_eq!(twin.get(&format!("{at}/commits")).await[0]["sha"], json!(sha));

    let state = twin.get("/control/state").await;
    assert_eq!(state["tickets"][0]["state"], "In Progress");
    assert_eq!(state["tickets"][0]["attachments"][0]["url"], pull["html_url"]);

    twin.post("/github/repos/acme/shop/issues/1/comments", json!({"body": "looks well"})).await;
    twin.post(
        "/control/comment",
        json!({"key": "c", "on": "pull", "repo": "acme/shop", "number": 1, "by": "bob", "body": "yes"}),
    )
    .await;
    twin.post(
        "/control/comment",
        json!({"key": "c", "on": "pull", "repo": "acme/shop", "number": 1, "by": "bob", "body": "yes"}),
    )
    .await;
    let comments = twin.get("/github/repos/acme/shop/issues/1/comments").await;
    assert_eq!(comments.as_array().unwrap().len(), 2);
    assert_eq!(comments[1]["user"]["login"], "bob");

    let merge = format!("{at}/merge");
    let wrong = json!({"merge_method": "squash", "sha": "0".repeat(40)});
    let (status, body) = twin.ask("PUT", &merge, wrong).await;
    assert_eq!((status, &body["message"]), (409, &json!("Head branch was modified. Review and try the merge again.")));
    let right = json!({"merge_method": "squash", "sha": sha, "commit_title": "Greet (#1)"});
    let (status, merged) = twin.ask("PUT", &merge, right.clone()).await;
    assert_eq!((status, &merged["merged"]), (200, &json!(true)), "{merged}");
    assert_eq!(twin.ask("PUT", &merge, right).await.0, 405);

    twin.git(&work, &["fetch", "-q", "origin"]).await;
    assert_eq!(json!(twin.git(&work, &["rev-parse", "origin/main"]).await), merged["sha"]);
    assert_eq!(twin.git(&work, &["show", "origin/main:hello.txt"]).await, "hi");
    assert_eq!(twin.verdict(merged["sha"].as_str().unwrap()).await, "success");

    twin.hook("merge", |h, b| {
        h.get("x-github-event").is_some_and(|e| e == "pull_request")
            && b["action"] == "closed"
            && b["pull_request"]["merged"] == true
    })
    .await;
    twin.hook("ticket done", |h, b| {
        h.get("linear-event").is_some_and(|e| e == "Issue")
            && b["data"]["state"]["type"] == "completed"
            && b["updatedFrom"]["stateId"].is_string()
    })
    .await;
    for event in ["push", "check_run", "check_suite", "issue_comment"] {
        twin.hook(event, |h, _| h.get("x-github-event").is_some_and(|e| e == event)).await;
    }
    for (service, headers, body) in twin.received.lock().unwrap().iter() {
        let (name, prefix) =
            if service == "linear" { ("linear-signature", "") } else { ("x-hub-signature-256", "sha256=") };
        assert_eq!(headers[name].to_str().unwrap(), format!("{prefix}{}", signature(body)));
    }

    twin.restart().await;
    let state = twin.get("/control/state").await;
    assert_eq!(state["tickets"][0]["state"], "Done");
    let pull = &state["repos"][0]["pulls"][0];
    assert_eq!(
        (&pull["merged"], &pull["merges"], &pull["merge_commit_sha"]),
        (&json!(true), &json!(1), &merged["sha"])
    );
    assert_eq!(pull["comments"].as_array().unwrap().len(), 2);
    twin.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_moves_an_open_pull_and_a_failing_script_fails_its_check() {
    let twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    twin.push(&work, "feature/x", "a.txt", "a\n").await;
    twin.open("feature/x").await;
    let sha = twin.push(&work, "feature/x", "README.md", "bye\n").await;
    let pull = twin.get("/github/repos/acme/shop/pulls/1").await;
    assert_eq!((&pull["head"]["sha"], &pull["commits"]), (&json!(sha), &json!(2)));
    assert_eq!(twin.verdict(&sha).await, "failure");
    assert_eq!(twin.get("/github/repos/acme/shop/branches/feature/x").await["commit"]["sha"], json!(sha));
    assert_eq!(twin.get("/github/repos/acme/shop/compare/main...feature/x").await["status"], "ahead");
    twin.hook("synchronize", |_, b| b["action"] == "synchronize" && b["after"] == json!(sha)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_pull_for_a_head_a_missing_head_and_an_empty_one_are_refused() {
    let twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    for (head, says) in [("one", "already exists"), ("none", "\"head\""), ("main", "No commits between")] {
        let body = json!({"title": "t", "head": head, "base": "main"});
        let (status, answer) = twin.ask("POST", "/github/repos/acme/shop/pulls", body).await;
        assert_eq!((status, &answer["message"]), (422, &json!("Validation Failed")));
        assert!(answer["errors"].to_string().contains(says), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_pull_reads_dirty_and_does_not_merge() {
    let twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    let head = twin.push(&work, "one", "README.md", "hello one\n").await;
    twin.open("one").await;
    twin.git(&work, &["checkout", "-q", "main"]).await;
    twin.push(&work, "main", "README.md", "hello two\n").await;
    twin.get("/github/repos/acme/shop/pulls/1").await;
    let pull = twin.get("/github/repos/acme/shop/pulls/1").await;
    assert_eq!((&pull["mergeable"], &pull["mergeable_state"]), (&json!(false), &json!("dirty")));
    let merge = json!({"merge_method": "squash", "sha": head});
    assert_eq!(twin.ask("PUT", "/github/repos/acme/shop/pulls/1/merge", merge).await.0, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_the_journal_missed_is_found_at_start() {
    let mut twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    twin.stop().await;
    // The kill between git and the journal: the ref has moved, the journal's last line is torn.
    let bare = twin.dir.path().join("twin/repos/acme/shop.git");
    let commit = twin.git(&work, &["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "more"]).await;
    twin.git(&work, &["push", "-q", bare.to_str().unwrap(), &format!("{commit}:refs/heads/one")]).await;
    let journal = twin.dir.path().join("twin/world.jsonl");
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str("{\"at\":\"2026-");
    std::fs::write(&journal, text).unwrap();
    twin.resume();
    let pull = twin.get("/github/repos/acme/shop/pulls/1").await;
    assert_eq!((&pull["head"]["sha"], &pull["commits"]), (&json!(commit), &json!(2)));
    assert_eq!(twin.verdict(&commit).await, "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_etags_pages_faults_and_muted_hooks_behave_as_the_real_services() {
    let twin = Twin::start().await;
    twin.seed().await;
    assert_eq!(twin.raw("/github/user", &[("authorization", "Bearer no")]).await.status(), 401);
    let first = twin.raw("/github/user", &[("authorization", "token gh")]).await;
    assert!(first.headers().contains_key("x-ratelimit-remaining"));
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let again = twin.raw("/github/user", &[("authorization", "Bearer gh"), ("if-none-match", &tag)]).await;
    assert_eq!(again.status(), 304);
    assert_eq!(twin.raw("/git/acme/shop.git/info/refs?service=git-upload-pack", &[]).await.status(), 401);

    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    let labels = twin.post("/github/repos/acme/shop/issues/1/labels", json!({"labels": ["steward"]})).await;
    assert_eq!(labels[0]["name"], "steward");
    let found = twin.get("/github/search/issues?q=is:pr+is:open+repo:acme/shop+label:steward+author:ann").await;
    assert_eq!(found["total_count"], 1);
    for n in 0..3 {
        twin.post("/github/repos/acme/shop/issues/1/comments", json!({"body": format!("c{n}")})).await;
    }
    let page =
        twin.raw("/github/repos/acme/shop/issues/1/comments?per_page=2", &[("authorization", "Bearer gh")]).await;
    assert!(page.headers()["link"].to_str().unwrap().contains("rel=\"next\""));

    twin.post("/control/fault", json!({"route_prefix": "/github/user", "status": 502, "times": 1})).await;
    assert_eq!(twin.ask("GET", "/github/user", Value::Null).await.0, 502);
    assert_eq!(twin.ask("GET", "/github/user", Value::Null).await.0, 200);
    twin.post("/control/hooks", json!({"mute": true})).await;
    twin.post("/github/repos/acme/shop/issues/1/comments", json!({"body": "unheard"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!twin.received.lock().unwrap().iter().any(|(_, _, b)| String::from_utf8_lossy(b).contains("unheard")));
}
