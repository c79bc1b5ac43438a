//! Faults by script: what the twin is told to do wrong, it does.

use crate::world::Twin;
use serde_json::{Value, json};
use std::time::Duration;

async fn asked(twin: &Twin, body: &Value) -> (u16, Value) {
    twin.ask("POST", "/linear/graphql", body.clone()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_lost_late_old_or_in_part_as_the_script_says() {
    let twin = Twin::start().await;
    twin.seed().await;
    let viewer = json!({"query": "query Who { viewer { name email } }"});
    let script = json!([
        {"route_prefix": "/linear", "contains": "Who", "skip": 1, "status": 503},
        {"route_prefix": "/github/user", "null": "/name", "times": 1},
    ]);
    twin.post("/control/fault", script).await;
    assert_eq!(asked(&twin, &json!({"query": "{ viewer { name } }"})).await.0, 200);
    let statuses = [asked(&twin, &viewer).await.0, asked(&twin, &viewer).await.0, asked(&twin, &viewer).await.0];
    assert_eq!(statuses, [200, 503, 200]);
    // A part that may not be read: the rest is there, and it is said.
    twin.post("/control/fault", json!({"route_prefix": "/linear", "null": "/data/viewer/email"})).await;
    let (status, partial) = asked(&twin, &viewer).await;
    assert_eq!((status, &partial["data"]["viewer"]["email"]), (200, &Value::Null));
    assert!(partial["data"]["viewer"]["name"].is_string());
    assert_eq!(partial["errors"][0]["path"], json!(["viewer", "email"]));
    // The work is done and nobody hears of it.
    let comment = |body: &str| json!({"title": body, "body": body});
    let lost = json!({"route_prefix": "/github/repos/acme/shop/issues", "status": 502, "after": true});
    twin.post("/control/fault", lost).await;
    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    let place = "/github/repos/acme/shop/issues/1/comments";
    assert_eq!(twin.ask("POST", place, comment("kept")).await.0, 502);
    assert_eq!(twin.get(place).await.as_array().unwrap().len(), 1);
    // The first answer again, whatever has changed.
    twin.post("/control/fault", json!({"route_prefix": place, "stale": true, "times": 1})).await;
    let first = twin.get(place).await;
    twin.post(place, comment("later")).await;
    assert_eq!(twin.get(place).await, first);
    assert_eq!(twin.get(place).await.as_array().unwrap().len(), 2);
    // The connection breaks, or the answer is late.
    twin.post("/control/fault", json!({"route_prefix": "/github/user", "drop": true})).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let broken = async || client.get(format!("{}/github/user", twin.base)).send().await?.text().await;
    assert!(broken().await.is_err());
    twin.post("/control/fault", json!({"route_prefix": "/github/user", "delay_ms": 120})).await;
    let began = std::time::Instant::now();
    twin.get("/github/user").await;
    assert!(began.elapsed() >= Duration::from_millis(120));
    assert_eq!(twin.get("/control/fault").await, json!([]));
    assert_eq!(twin.ask("POST", "/control/fault", json!({"route_prefix": "/x", "status": 7})).await.0, 422);
    assert_eq!(twin.ask("POST", "/control/fault", json!({"route": "/x"})).await.0, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_lost_doubled_and_turned_round() {
    let twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    let script = json!([
        {"route_prefix": "hook:github", "contains": "lost words", "drop": true},
        {"route_prefix": "hook:github", "contains": "twice words", "twice": true},
        {"route_prefix": "hook:github", "contains": "late words", "delay_ms": 400},
    ]);
    twin.post("/control/fault", script).await;
    for words in ["lost words", "twice words", "late words", "last words"] {
        twin.post("/github/repos/acme/shop/issues/1/comments", json!({"body": words})).await;
    }
    let heard = || -> Vec<(String, String)> {
        let all = twin.received.lock().unwrap();
        let of = |headers: &axum::http::HeaderMap| headers["x-github-delivery"].to_str().unwrap().to_owned();
        all.iter()
            .filter(|(_, headers, _)| headers.get("x-github-event").is_some_and(|e| e == "issue_comment"))
            .map(|(_, headers, body)| {
                let body: Value = serde_json::from_slice(body).unwrap();
                (body["comment"]["body"].as_str().unwrap().to_owned(), of(headers))
            })
            .collect()
    };
    for _ in 0..100 {
        if heard().len() == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let all = heard();
    let words: Vec<&str> = all.iter().map(|(w, _)| w.as_str()).collect();
    assert_eq!(words.iter().filter(|w| **w == "twice words").count(), 2, "{words:?}");
    assert_eq!(words.last(), Some(&"late words"), "{words:?}");
    let twice: Vec<&String> = all.iter().filter(|(w, _)| w == "twice words").map(|(_, d)| d).collect();
    assert_eq!(twice[0], twice[1]);
}
