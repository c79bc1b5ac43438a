//! Tickets over GraphQL, and the schema against the official one.

use std::collections::BTreeMap;
use std::path::Path;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use serde_json::{Value, json};

use crate::world::Twin;

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_posted_twice_with_one_key_is_one_ticket() {
    let twin = Twin::start().await;
    let first = twin.seed().await;
    assert_eq!(twin.ticket().await, first);
    assert_eq!(twin.get("/control/state").await["tickets"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_are_found_by_filter_and_by_either_name() {
    let twin = Twin::start().await;
    let ticket = twin.seed().await;
    let query = "query($f: IssueFilter) { issues(filter: $f, first: 5, orderBy: updatedAt) { nodes { id identifier \
        priority state { type } team { key } labels { nodes { name } } assignee { displayName } trashed } \
        pageInfo { hasNextPage endCursor } } }";
    let hit = json!({"team": {"key": {"eq": "DEMO"}}, "labels": {"some": {"name": {"eq": "steward"}}},
        "assignee": {"isMe": {"eq": true}}, "state": {"type": {"nin": ["completed", "canceled"]}},
        "updatedAt": {"gt": "2020-01-01T00:00:00Z"}});
    let found = twin.graphql(query, json!({"f": hit})).await;
    assert_eq!(found["data"]["issues"]["nodes"][0]["id"], ticket["id"], "{found}");
    let miss = json!({"labels": {"name": {"eq": "other"}}});
    assert_eq!(twin.graphql(query, json!({"f": miss})).await["data"]["issues"]["nodes"], json!([]));
    let one = "query($id: String!) { issue(id: $id) { id } }";
    for name in ["DEMO-1", ticket["id"].as_str().unwrap()] {
        assert_eq!(twin.graphql(one, json!({"id": name})).await["data"]["issue"]["id"], ticket["id"]);
    }
    let none = twin.graphql(one, json!({"id": "DEMO-9"})).await;
    assert_eq!(none["errors"][0]["message"], "Entity not found: Issue");
    assert_eq!(none["errors"][0]["extensions"]["code"], "INPUT_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_with_a_chosen_id_is_made_once_and_can_be_edited() {
    let twin = Twin::start().await;
    let ticket = twin.seed().await;
    let id = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d";
    let create = "mutation($i: CommentCreateInput!) { commentCreate(input: $i) { success comment { id body user { displayName } } } }";
    let input = json!({"i": {"id": id, "issueId": ticket["id"], "body": "on it"}});
    assert_eq!(twin.graphql(create, input.clone()).await["data"]["commentCreate"]["comment"]["id"], id);
    let again = twin.graphql(create, input).await;
    assert!(again["errors"][0]["message"].as_str().unwrap().contains("exists"), "{again}");
    let update =
        "mutation($id: String!) { commentUpdate(id: $id, input: {body: \"done\"}) { comment { body editedAt } } }";
    let edited = twin.graphql(update, json!({"id": id})).await;
    assert!(edited["data"]["commentUpdate"]["comment"]["editedAt"].is_string(), "{edited}");
    let clear = "mutation($id: String!) { issueUpdate(id: $id, input: {assigneeId: null}) { issue { assignee { id } comments { nodes { body } } } } }";
    let issue = twin.graphql(clear, json!({"id": "DEMO-1"})).await["data"]["issueUpdate"]["issue"].clone();
    assert_eq!(issue, json!({"assignee": null, "comments": {"nodes": [{"body": "done"}]}}));
    twin.hook("comment", |h, b| h.get("linear-event").is_some_and(|e| e == "Comment") && b["data"]["id"] == id).await;
    let (status, _) = twin.ask("POST", "/linear/graphql", json!({"query": "{ nothing }"})).await;
    assert_eq!(status, 400);
}

/// Type name to field name to type text.
fn fields(sdl: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut out: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for definition in parse_schema(sdl).unwrap().definitions {
        let TypeSystemDefinition::Type(t) = definition else { continue };
        let into = out.entry(t.node.name.node.to_string()).or_default();
        match t.node.kind {
            TypeKind::Object(o) => {
                for f in o.fields {
                    let f = f.node;
                    for a in f.arguments {
                        into.insert(format!("{}({})", f.name.node, a.node.name.node), a.node.ty.node.to_string());
                    }
                    into.insert(f.name.node.to_string(), f.ty.node.to_string());
                }
            }
            TypeKind::InputObject(o) => {
                for f in o.fields {
                    into.insert(f.node.name.node.to_string(), f.node.ty.node.to_string());
                }
            }
            TypeKind::Enum(e) => {
                for v in e.values {
                    into.insert(v.node.value.node.to_string(), String::new());
                }
            }
            _ => {}
        }
    }
    out
}

#[test]
fn every_field_of_our_schemas_stands_in_the_official_ones_with_the_same_type() {
    fits(&stewards_twin::sdl(), "linear/schema.graphql");
    fits(&stewards_twin::github_sdl(), "github/graphql/schema.dedup.graphql");
}

fn fits(sdl: &str, official: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures").join(official);
    let Ok(official) = std::fs::read_to_string(&path) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the official schema is missing");
        println!("left out: the official schema is not at {}", path.display());
        return;
    };
    let official = fields(&official);
    let mut wrong = Vec::new();
    for (name, ours) in fields(sdl) {
        for (field, kind) in ours {
            let theirs = official.get(&name).and_then(|t| t.get(&field));
            if theirs != Some(&kind) {
                wrong.push(format!("{name}.{field}: {kind} against {theirs:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mention_of_the_agent_is_told_by_a_webhook_of_its_own() {
    let twin = Twin::start().await;
    twin.seed().await;
    let began = twin.post("/control/session", json!({"ticket": "DEMO-1", "by": "bob", "body": "@stewards why?"})).await;
    let heard = || {
        let all = twin.received.lock().unwrap().clone();
        let (_, headers, body) =
            all.into_iter().find(|(_, h, _)| h.get("linear-event").is_some_and(|e| e == "AgentSessionEvent"))?;
        Some((headers, serde_json::from_slice::<Value>(&body).unwrap()))
    };
    for _ in 0..100 {
        if heard().is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let (_, body) = heard().expect("no webhook came");
    assert_eq!((&body["action"], &body["agentSession"]["id"]), (&json!("created"), &began["id"]));
    assert_eq!(body["agentSession"]["issue"]["identifier"], "DEMO-1");
    assert_eq!(
        (&body["agentSession"]["creator"]["name"], &body["promptContext"]),
        (&json!("Bob"), &json!("@stewards why?"))
    );
    assert_ne!(body["agentSession"]["creatorId"], body["appUserId"]);
}
