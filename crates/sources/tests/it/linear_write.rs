//! Changing tickets, against the twin.

use crate::twin::Twin;
use serde_json::json;
use stewards_core::ports::Tickets;
use stewards_core::tickets::{TicketAsk, TicketWrite};
use stewards_core::trouble::Trouble;

fn id(n: u32) -> String {
    format!("5d0ba1bd-2f0a-4f44-8c7e-{n:012}")
}

fn update(key: &str) -> TicketAsk {
    TicketAsk::Update {
        key: key.into(),
        state: None,
        assignee: None,
        add: Vec::new(),
        remove: Vec::new(),
        priority: None,
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Trouble>) -> String {
    match result {
        Err(Trouble::Refused { says }) => says,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_written_is_there_once_and_is_found_again_by_its_own_id() {
    let twin = Twin::start().await;
    twin.ticket("DEMO-1", Some("bb-managed"), Some("ann"), "Todo").await;
    let linear = twin.linear();
    let ask = TicketAsk::Comment { key: "demo-1".into(), body: "Hello.".into() };
    let write = linear.resolve(&ask, &id(1)).await.unwrap();
    assert_eq!(linear.written(&write).await, Ok(None));
    let url = linear.write(&write).await.unwrap();
    assert!(url.contains("#comment-"), "{url}");
    assert_eq!(linear.written(&write).await, Ok(Some(url)));
    // The service itself does not take an id twice.
    assert!(refusal(linear.write(&write).await).contains("already exists"));
    let ask = TicketAsk::Create {
        team: "demo".into(),
        title: "More".into(),
        description: "please".into(),
        state: Some("in progress".into()),
        assignee: Some("Bob".into()),
        labels: vec!["BB-managed".into()],
        priority: Some(1),
        parent: Some("DEMO-1".into()),
    };
    let write = linear.resolve(&ask, &id(2)).await.unwrap();
    assert_eq!(linear.written(&write).await, Ok(None));
    let url = linear.write(&write).await.unwrap();
    assert_eq!(linear.written(&write).await, Ok(Some(url)));
    let ticket = linear.ticket(&id(2)).await.unwrap();
    assert_eq!((ticket.state.name.as_str(), ticket.priority, ticket.labels.len()), ("In Progress", 1, 1));
    assert_eq!((ticket.parent.as_deref(), ticket.assignee.unwrap().name.as_str()), (Some("DEMO-1"), "Bob"));
    assert_eq!(linear.ticket("DEMO-1").await.unwrap().comments.len(), 1);
}

#[tokio::test]
async fn a_session_is_answered_and_the_answer_is_found_again() {
    let twin = Twin::start().await;
    twin.ticket("DEMO-1", None, None, "Todo").await;
    let session = twin.control("session", json!({"ticket": "DEMO-1"})).await["id"].as_str().unwrap().to_owned();
    let linear = twin.linear();
    let ask = |session: &str| TicketAsk::Reply { session: session.into(), body: "Done, @bb.".into() };
    let write = linear.resolve(&ask(&session), &id(7)).await.unwrap();
    assert!(
        matches!(&write, TicketWrite::Reply { session, body, .. } if session.name == "DEMO-1" && body == "Done, bb.")
    );
    assert_eq!(linear.written(&write).await, Ok(None));
    linear.write(&write).await.unwrap();
    assert_eq!(linear.written(&write).await, Ok(Some(String::new())));
    assert!(refusal(linear.resolve(&ask(&id(8)), &id(9)).await).contains("there is no session"));
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let twin = Twin::start().await;
    twin.ticket("DEMO-1", Some("bb-managed"), Some("ann"), "Todo").await;
    twin.control("label", json!({"name": "Urgent"})).await;
    twin.control("label", json!({"team": "DEMO", "name": "Shop", "group": "Area"})).await;
    twin.control("label", json!({"team": "DEMO", "name": "Stock", "group": "Area"})).await;
    let linear = twin.linear();
    let change = |add: &[&str], remove: &[&str], assignee: Option<&str>, state: Option<&str>| TicketAsk::Update {
        key: "DEMO-1".into(),
        state: state.map(str::to_owned),
        assignee: assignee.map(str::to_owned),
        add: add.iter().map(|l| (*l).to_owned()).collect(),
        remove: remove.iter().map(|l| (*l).to_owned()).collect(),
        priority: None,
    };
    let done = async |ask: TicketAsk| {
        let write = linear.resolve(&ask, "").await.unwrap();
        linear.write(&write).await.unwrap();
        assert!(linear.written(&write).await.unwrap().is_some(), "{write:?}");
        linear.ticket("DEMO-1").await.unwrap()
    };
    let ticket = done(change(&["urgent", "area/shop"], &[], None, None)).await;
    assert_eq!(ticket.labels, ["Shop", "Urgent", "bb-managed"]);
    assert_eq!(ticket.groups.get("Shop").map(String::as_str), Some("Area"));
    assert_eq!((ticket.state.name.as_str(), ticket.assignee.unwrap().me), ("Todo", true));
    let ticket = done(change(&["Stock"], &["Shop"], Some("nobody"), Some("in review"))).await;
    assert_eq!((ticket.labels, ticket.assignee), (vec!["Stock".into(), "Urgent".into(), "bb-managed".into()], None));
    assert_eq!(ticket.state.name, "In Review");
    assert!(done(change(&[], &[], Some("me"), None)).await.assignee.unwrap().me);
    // Two of one group: the service says no, and that is said.
    let write = linear.resolve(&change(&["Shop"], &[], None, None), "").await.unwrap();
    assert!(refusal(linear.write(&write).await).contains("Only one label in a group"));
    assert_eq!(linear.written(&write).await, Ok(None));
}

#[tokio::test]
async fn a_name_of_nothing_is_answered_with_what_there_is() {
    let twin = Twin::start().await;
    twin.ticket("DEMO-1", Some("bb-managed"), Some("ann"), "Todo").await;
    twin.control("label", json!({"team": "DEMO", "name": "Shop", "group": "Area"})).await;
    let linear = twin.linear();
    let says = async |ask: TicketAsk| refusal(linear.resolve(&ask, &id(3)).await);
    let with = |set: fn(&mut TicketAsk)| {
        let mut ask = update("DEMO-1");
        set(&mut ask);
        ask
    };
    for (ask, words) in [
        (update("DEMO-1"), "nothing is to be changed"),
        (TicketAsk::Comment { key: "DEMO-9".into(), body: "x".into() }, "no ticket has the key DEMO-9"),
        (TicketAsk::Comment { key: "DEMO-1".into(), body: " ".into() }, "the comment is empty"),
        (
            with(|a| {
                if let TicketAsk::Update { state, .. } = a {
                    *state = Some("Doing".into())
                }
            }),
            "no state of DEMO is called Doing; there are Backlog, Canceled, Done",
        ),
        (
            with(|a| {
                if let TicketAsk::Update { assignee, .. } = a {
                    *assignee = Some("Eve".into())
                }
            }),
            "nobody is called Eve; there are Ann, Bob",
        ),
        (
            with(|a| {
                if let TicketAsk::Update { add, .. } = a {
                    add.push("Area".into())
                }
            }),
            "Area is a group of labels; in it are Shop",
        ),
        (
            with(|a| {
                if let TicketAsk::Update { remove, .. } = a {
                    remove.push("gone".into())
                }
            }),
            "no label is called gone; there are Shop, bb-managed",
        ),
    ] {
        assert!(says(ask.clone()).await.contains(words), "{ask:?}");
    }
    let create = TicketAsk::Create {
        team: "NOPE".into(),
        title: "x".into(),
        description: String::new(),
        state: None,
        assignee: None,
        labels: Vec::new(),
        priority: None,
        parent: None,
    };
    assert_eq!(says(create).await, "no team has the key NOPE; there are DEMO");
}

#[tokio::test]
async fn a_ticket_says_what_blocks_it_and_what_it_is_a_part_of() {
    let twin = Twin::start().await;
    for (key, state, more) in [
        ("DEMO-1", "Todo", json!({})),
        ("DEMO-2", "Done", json!({})),
        ("DEMO-3", "Todo", json!({"blocked_by": "DEMO-1", "parent": "DEMO-2"})),
        ("DEMO-4", "Todo", json!({"blocked_by": "DEMO-2"})),
    ] {
        let mut body = json!({"key": key, "team": "DEMO", "title": key, "labels": [], "state": state});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        twin.control("ticket", body).await;
    }
    let linear = twin.linear();
    let ticket = linear.ticket("DEMO-3").await.unwrap();
    assert_eq!((ticket.blocked_by, ticket.parent.as_deref()), (vec!["DEMO-1".to_owned()], Some("DEMO-2")));
    // What is over blocks nothing.
    assert!(linear.ticket("DEMO-4").await.unwrap().blocked_by.is_empty());
    let write = TicketWrite::Update {
        ticket: stewards_core::tickets::Known { id: ticket.uuid, name: "DEMO-3".into() },
        state: None,
        assignee: None,
        add: Vec::new(),
        remove: Vec::new(),
        priority: Some(4),
    };
    assert_eq!(linear.written(&write).await, Ok(None));
    linear.write(&write).await.unwrap();
    assert_eq!(linear.ticket("DEMO-3").await.unwrap().priority, 4);
}
