//! Polls: a line an entity, another one whenever something is another.

use crate::twin::Twin;
use serde_json::json;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ports::{Pulls, Tickets};
use stewards_core::snapshot::Beat;
use stewards_core::stewards::key;
use stewards_core::tickets::TicketAsk;

#[tokio::test(flavor = "multi_thread")]
async fn a_pulls_line_changes_with_it_and_a_missing_one_is_said_to_be_gone() {
    let twin = Twin::start().await;
    twin.pull().await;
    let github = twin.github();
    let repo = RepoName("acme/shop".into());
    let pull = PullKey { repo: repo.clone(), number: 1 };
    let none = PullKey { repo: repo.clone(), number: 99 };
    let asked = [pull.clone(), none.clone()];
    let branches = [(repo.clone(), "fix".to_owned()), (repo.clone(), "nothing".to_owned())];
    // Until its check is over the line may change by itself.
    for _ in 0..200 {
        let beats = github.beats(&asked, &[]).await.unwrap();
        if beats[&key::pull(&pull)].what.contains("SUCCESS") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let first = github.beats(&asked, &branches).await.unwrap();
    let line = |beats: &stewards_core::snapshot::Beats| beats[&key::pull(&pull)].clone();
    assert!(line(&first).updated.is_some() && line(&first).what.contains("SUCCESS"), "{first:?}");
    assert_eq!(first[&key::pull(&none)], Beat::gone());
    assert_eq!(first[&key::branch(&repo, "fix")].what, "pulls [1]");
    assert_eq!(first[&key::branch(&repo, "nothing")].what, "pulls []");
    assert!(!line(&github.beats(&asked, &[]).await.unwrap()).differs(&line(&first)));
    twin.post("/github/repos/acme/shop/issues/1/comments", json!({"body": "hello"})).await;
    assert!(line(&github.beats(&asked, &[]).await.unwrap()).differs(&line(&first)));
    // What a repository that is not there would say is not known to be gone.
    let other = PullKey { repo: RepoName("acme/none".into()), number: 1 };
    assert!(github.beats(&[other], &[]).await.unwrap_err().to_string().contains("Could not resolve"));
    // A part that may not be read leaves the rest.
    let partial = json!({"route_prefix": "/github/graphql", "null": "/data/r0/a0/statusCheckRollup"});
    twin.control("fault", partial).await;
    assert!(!line(&github.beats(&asked, &[]).await.unwrap()).what.contains("SUCCESS"));
    let quotas = github.quotas();
    let graphql = quotas.iter().find(|q| q.name == "graphql").unwrap();
    assert!(graphql.limit == 5_000 && graphql.asked > 3, "{quotas:?}");
}

#[tokio::test]
async fn a_tickets_line_changes_with_it_and_a_missing_one_is_said_to_be_gone() {
    let twin = Twin::start().await;
    let one = twin.ticket("DEMO-1", Some("bb-managed"), Some("ann"), "Todo").await;
    let two = twin.ticket("DEMO-2", None, None, "Todo").await;
    let linear = twin.linear();
    let gone = "5d0ba1bd-2f0a-4f44-8c7e-000000000009".to_owned();
    let asked = [one.clone(), two.clone(), gone.clone()];
    let first = linear.beats(&asked).await.unwrap();
    assert_eq!(first[&key::ticket(&gone)], Beat::gone());
    let changed = |beats: &stewards_core::snapshot::Beats| -> Vec<bool> {
        [&one, &two].map(|id| beats[&key::ticket(id)].differs(&first[&key::ticket(id)])).to_vec()
    };
    assert_eq!(changed(&linear.beats(&asked).await.unwrap()), [false, false]);
    let ask = TicketAsk::Comment { key: "DEMO-2".into(), body: "Hello.".into() };
    let write = linear.resolve(&ask, "5d0ba1bd-2f0a-4f44-8c7e-000000000001").await.unwrap();
    linear.write(&write).await.unwrap();
    assert_eq!(changed(&linear.beats(&asked).await.unwrap()), [false, true]);
    assert!(linear.quotas().iter().any(|q| q.name == "requests" && q.limit == 5_000));
}
