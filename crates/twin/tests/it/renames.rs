//! A repository under the names that it has and had.

use crate::world::Twin;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn an_old_name_leads_to_the_number_and_git_and_graphql_know_both() {
    let mut twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    twin.push(&work, "one", "a.txt", "a\n").await;
    twin.open("one").await;
    twin.post("/control/rename", json!({"repo": "acme/shop", "to": "acme/store"})).await;
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let asked = async |method: &str, path: &str, body: &Value| {
        let request = client.request(method.parse().unwrap(), path).header("authorization", "Bearer gh");
        request.json(body).send().await.unwrap()
    };
    // A read is moved for good, and a write is to be sent again as it is.
    let old = format!("{}/github/repos/acme/shop/issues/1/comments", twin.base);
    let moved = asked("GET", &format!("{old}?per_page=5"), &Value::Null).await;
    let place = moved.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(moved.status().as_u16(), 301);
    assert!(place.contains("/github/repositories/") && place.ends_with("/issues/1/comments?per_page=5"), "{place}");
    let said = json!({"body": "under the number"});
    let write = asked("POST", &old, &said).await;
    assert_eq!(write.status().as_u16(), 307);
    let number = write.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(asked("POST", &number, &said).await.status().as_u16(), 201);
    assert_eq!(client.get(&place).send().await.unwrap().status().as_u16(), 401, "a number is no way round the token");
    assert_eq!(asked("GET", &number.replace("repositories/", "repositories/9"), &said).await.status().as_u16(), 404);
    assert_eq!(asked("GET", &format!("{}/github/repos/acme/none", twin.base), &said).await.status().as_u16(), 404);
    // What was there is there, under the new name.
    assert_eq!(twin.get("/github/repos/acme/store/pulls/1").await["base"]["repo"]["full_name"], "acme/store");
    assert_eq!(twin.get("/github/repos/acme/store/issues/1/comments").await[0]["body"], "under the number");
    let query = json!({"query": "{ repository(owner: \"acme\", name: \"shop\") { nameWithOwner } }"});
    let answer = twin.post("/github/graphql", query).await;
    assert_eq!(answer["data"]["repository"]["nameWithOwner"], "acme/store");
    // A clone of before still pushes, and a kill between the record and the disk is mended.
    twin.push(&work, "two", "b.txt", "b\n").await;
    twin.restart().await;
    let refs = twin.get("/control/state").await["repos"][0]["refs"].clone();
    assert!(refs["refs/heads/two"].is_string(), "{refs}");
    let taken = json!({"repo": "acme/store", "to": "acme/store"});
    assert_eq!(twin.ask("POST", "/control/rename", taken).await.0, 422);
    // The old name may be taken by another, which is then what it means.
    twin.post("/control/repo", json!({"owner": "acme", "name": "shop", "files": {}, "message": "again"})).await;
    assert_eq!(twin.get("/github/repos/acme/shop").await["full_name"], "acme/shop");
}
