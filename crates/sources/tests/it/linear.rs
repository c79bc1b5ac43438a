//! The client of Linear.

use crate::stub::{Stub, answer, ok};
use crate::twin::Twin;
use serde_json::{Value, json};
use stewards_core::entity::Entity;
use stewards_core::ports::Tickets;
use stewards_core::snapshot::AdoptAsk;
use stewards_core::trouble::Trouble;
use stewards_sources::Linear;

const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

fn ask() -> AdoptAsk {
    AdoptAsk { label: "steward".into(), teams: vec!["DEMO".into()] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_read_with_all_its_comments_and_who_wrote_them() {
    let twin = Twin::start().await;
    let id = twin.ticket("one", Some("steward"), Some("ann"), "Todo").await;
    for n in 0..120 {
        let by = if n % 2 == 0 { "ann" } else { "bob" };
        twin.control("comment", json!({"on": "ticket", "id": id, "by": by, "body": format!("number {n}")})).await;
    }
    let linear = twin.linear();
    let me = linear.viewer().await.unwrap();
    let ticket = linear.ticket(&id).await.unwrap();
    assert_eq!((ticket.uuid.as_str(), ticket.identifier.as_str(), ticket.team.as_str()), (&*id, "DEMO-1", "DEMO"));
    assert_eq!((ticket.state.name.as_str(), ticket.state.category.as_str()), ("Todo", "unstarted"));
    assert_eq!(ticket.labels, ["steward"]);
    assert_eq!(ticket.description, "please");
    let assignee = ticket.assignee.unwrap();
    assert!(assignee.me && assignee == me);
    assert_eq!((assignee.login.as_str(), assignee.name.as_str()), (me.login.as_str(), "Ann"));
    assert!(!ticket.trashed);
    assert_eq!(ticket.comments.len(), 120);
    assert!(ticket.comments.is_sorted_by_key(|c| c.at));
    assert_eq!(ticket.comments.iter().filter(|c| c.author.me).count(), 60);
    let ids: std::collections::BTreeSet<_> = ticket.comments.iter().map(|c| &c.id).collect();
    assert_eq!(ids.len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_labelled_assigned_and_open_tickets_can_be_adopted() {
    let twin = Twin::start().await;
    let mut right = Vec::new();
    for n in 0..60 {
        right.push(twin.ticket(&format!("right {n}"), Some("steward"), Some("ann"), "Todo").await);
    }
    twin.ticket("no label", None, Some("ann"), "Todo").await;
    twin.ticket("other label", Some("bug"), Some("ann"), "Todo").await;
    twin.ticket("not mine", Some("steward"), Some("bob"), "Todo").await;
    twin.ticket("nobody's", Some("steward"), None, "Todo").await;
    twin.ticket("done", Some("steward"), Some("ann"), "Done").await;
    twin.ticket("canceled", Some("steward"), Some("ann"), "Canceled").await;
    let linear = twin.linear();
    let found = linear.adoptable(&ask()).await.unwrap();
    let mut uuids: Vec<String> = Vec::new();
    for f in &found {
        let Entity::Ticket { uuid } = &f.entity else { panic!("{f:?}") };
        uuids.push(uuid.clone());
        assert!(f.key.starts_with("DEMO-"));
    }
    uuids.sort();
    right.sort();
    assert_eq!(uuids, right);
    let elsewhere = AdoptAsk { label: "steward".into(), teams: vec!["OPS".into()] };
    assert_eq!(linear.adoptable(&elsewhere).await.unwrap(), []);
    let no_team = AdoptAsk { label: "steward".into(), teams: Vec::new() };
    assert_eq!(linear.adoptable(&no_team).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_of_linear_has_its_own_trouble() {
    let twin = Twin::start().await;
    let id = twin.ticket("one", None, None, "Todo").await;
    let linear = twin.linear();
    assert!(matches!(linear.ticket(NOBODY).await, Err(Trouble::Gone { .. })));
    twin.fault("/linear", 500, 1).await;
    assert!(matches!(linear.ticket(&id).await, Err(Trouble::Flaky { .. })));
    assert!(linear.ticket(&id).await.is_ok());
    let stranger = Linear::new(format!("{}/linear/graphql", twin.base), "wrong".into());
    assert!(matches!(stranger.ticket(&id).await, Err(Trouble::Unauthorized { .. })));
    let odd = Linear::new(format!("{}/linear/graphql", twin.base), "li\nn".into());
    assert!(matches!(odd.viewer().await, Err(Trouble::Unauthorized { .. })));
    // Nothing listens on port 1.
    let nowhere = Linear::new("http://127.0.0.1:1/graphql".into(), "lin".into());
    assert!(matches!(nowhere.viewer().await, Err(Trouble::Flaky { .. })));
    let no_address = Linear::new("nonsense".into(), "lin".into());
    assert!(no_address.viewer().await.is_err());
}

fn viewer_or(body: &str, then: Value) -> axum::response::Response {
    if body.contains("viewer") { ok(&json!({"data": {"viewer": {"id": "me"}}})) } else { ok(&then) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_data_and_errors_is_never_taken_as_whole() {
    let stub = Stub::start(|_, asked| {
        let errors =
            json!([{"message": "oops", "path": ["issue", "comments"], "extensions": {"type": "internal error"}}]);
        viewer_or(&asked.body, json!({"data": {"issue": {"id": "u", "title": "x"}}, "errors": errors}))
    })
    .await;
    let linear = Linear::new(stub.base.clone(), "lin".into());
    assert!(matches!(linear.ticket("u").await, Err(Trouble::Flaky { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_may_not_be_read_are_named_and_the_rest_is_there() {
    let answer = |part: &'static str, kind: &'static str| {
        Stub::start(move |_, asked| {
            let errors = json!([{"message": "no", "path": ["issue", part], "extensions": {"type": kind}}]);
            let empty = json!({"nodes": [], "pageInfo": {"hasNextPage": false}});
            let mut issue = json!({"id": "u", "title": "x", "labels": empty, "comments": empty, "attachments": empty});
            issue[part] = Value::Null;
            viewer_or(&asked.body, json!({"data": {"issue": issue}, "errors": errors}))
        })
    };
    let read = async |part, kind| {
        let stub = answer(part, kind).await;
        Linear::new(stub.base.clone(), "lin".into()).ticket("u").await
    };
    assert_eq!(read("comments", "forbidden").await.unwrap().unread, ["comments"]);
    assert_eq!(read("attachments", "forbidden").await.unwrap().unread, ["links"]);
    // Labels say whether it is ours: without them it was not read.
    assert!(matches!(read("labels", "forbidden").await, Err(Trouble::Unauthorized { .. })));
    assert!(matches!(read("comments", "internal error").await, Err(Trouble::Flaky { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_without_its_lists_is_not_a_ticket_without_comments() {
    for data in [json!({"issue": {"id": "u"}}), json!({"issue": null}), json!({}), Value::Null] {
        let stub = Stub::start(move |_, asked| viewer_or(&asked.body, json!({"data": data}))).await;
        let linear = Linear::new(stub.base.clone(), "lin".into());
        assert!(matches!(linear.ticket("u").await, Err(Trouble::Flaky { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_comes_as_a_bad_request_and_tells_its_end() {
    let reset = jiff::Timestamp::now().as_millisecond() + 600_000;
    let stub = Stub::start(move |_, _| {
        let body = r#"{"errors":[{"message":"x","extensions":{"code":"RATELIMITED","statusCode":429}}]}"#;
        let headers = [("x-ratelimit-requests-remaining", "0"), ("x-ratelimit-requests-reset", &*reset.to_string())];
        answer(400, &headers, body)
    })
    .await;
    let linear = Linear::new(stub.base.clone(), "lin".into());
    match linear.adoptable(&ask()).await {
        Err(Trouble::Later { at, .. }) => assert_eq!(at.as_millisecond(), reset),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_html_or_a_list_that_goes_in_a_circle_is_flaky() {
    let html = Stub::start(|_, _| answer(200, &[("content-type", "text/html")], "<html>")).await;
    let linear = Linear::new(html.base.clone(), "lin".into());
    assert!(matches!(linear.viewer().await, Err(Trouble::Flaky { .. })));
    let circle = Stub::start(|_, _| {
        let info = json!({"hasNextPage": true, "endCursor": "a"});
        ok(&json!({"data": {"issues": {"nodes": [{"id": "u"}], "pageInfo": info}}}))
    })
    .await;
    let linear = Linear::new(circle.base.clone(), "lin".into());
    assert!(matches!(linear.adoptable(&ask()).await, Err(Trouble::Flaky { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_is_asked_for_once_and_a_personal_key_is_sent_plain() {
    let stub = Stub::start(|_, asked| viewer_or(&asked.body, json!({}))).await;
    let linear = Linear::new(stub.base.clone(), "lin_api_x".into());
    linear.viewer().await.unwrap();
    linear.viewer().await.unwrap();
    let asked = stub.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].headers["authorization"], "lin_api_x");
}
