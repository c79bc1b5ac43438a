//! Logins that are kept, renewed and ended, against the twin.

use crate::twin::Twin;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use stewards_core::ports::{Pulls, Tickets};
use stewards_core::trouble::Trouble;
use stewards_sources::oauth::{Failed, Way};
use stewards_sources::{GitHub, How, Linear, Login, Logins, Renewal, Service, Token};

fn way(twin: &Twin) -> Way {
    Way::linear(&format!("{}/linear/graphql", twin.base), "app-1")
}

/// Says yes as a browser would; answers the code that it brings back.
async fn browser(url: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    let to = answer.headers()["location"].to_str().unwrap().to_owned();
    let query = to.split_once('?').unwrap().1;
    query.split('&').find_map(|p| p.strip_prefix("code=")).unwrap_or(query).to_owned()
}

/// Logged in at Linear in the browser.
async fn logged_in(twin: &Twin) -> Arc<Logins> {
    let way = way(twin);
    let asked = way.in_browser("http://127.0.0.1:9/callback").unwrap();
    let code = browser(&asked.url).await;
    let tokens = way.take(asked, &code).await.ok().unwrap();
    let renewal = Renewal { token: tokens.refresh.unwrap(), url: way.tokens.clone(), client: way.client.clone() };
    let login =
        Login { renewal: Some(renewal), expires: tokens.expires, ..Login::of_token(How::Browser, &tokens.token) };
    let logins = Arc::new(Logins::new(twin.dir.path().join("logins.json")));
    logins.put(Service::Linear, login).unwrap();
    logins
}

fn linear(twin: &Twin, logins: &Arc<Logins>) -> Linear {
    Linear::new(format!("{}/linear/graphql", twin.base), Token::Kept(logins.clone(), Service::Linear))
}

async fn renewed(twin: &Twin) -> u64 {
    twin.control("logins", json!({})).await["renewed"].as_u64().unwrap()
}

#[tokio::test]
async fn a_login_in_the_browser_brings_a_token_that_is_kept_for_its_owner_alone() {
    let twin = Twin::start().await;
    let logins = logged_in(&twin).await;
    assert_eq!(linear(&twin, &logins).viewer().await.unwrap().name, "Ann");
    let file = twin.dir.path().join("logins.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let kept = logins.get(Service::Linear).unwrap().unwrap();
    let told = format!("{kept:?} {:?}", kept.renewal);
    assert!(!told.contains(&kept.token) && !told.contains(&kept.renewal.unwrap().token), "{told}");
    logins.remove(Service::Linear).unwrap().unwrap();
    let Trouble::Unauthorized { says } = linear(&twin, &logins).viewer().await.unwrap_err() else { panic!("no login") };
    assert!(says.contains("stewards login linear"), "{says}");
}

#[tokio::test]
async fn a_code_is_good_once_and_for_whoever_asked() {
    let twin = Twin::start().await;
    let way = way(&twin);
    let asked = way.in_browser("http://127.0.0.1:9/callback").unwrap();
    let stolen = browser(&asked.url).await;
    // Another's proof does not fit.
    let thief = way.in_browser("http://127.0.0.1:9/callback").unwrap();
    assert!(matches!(way.take(thief, &stolen).await, Err(Failed::Ended(_))));
    assert!(matches!(way.take(asked, &stolen).await, Err(Failed::Ended(_))), "it was used");
    twin.control("logins", json!({"denies": true})).await;
    let denied = way.in_browser("http://127.0.0.1:9/callback").unwrap();
    let brought = browser(&denied.url).await;
    assert!(brought.contains("access_denied") && brought.contains(&denied.state), "{brought}");
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_once_for_all_who_ask_and_the_new_one_is_kept() {
    let twin = Twin::start().await;
    twin.control("logins", json!({"lasts_s": 30})).await;
    let logins = logged_in(&twin).await;
    twin.control("logins", json!({"lasts_s": 3_600})).await;
    let before = logins.get(Service::Linear).unwrap().unwrap();
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let logins = logins.clone();
            tokio::spawn(async move { logins.token(Service::Linear).await })
        })
        .collect();
    let mut tokens = Vec::new();
    for one in asking {
        tokens.push(one.await.unwrap().unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), renewed(&twin).await), (1, 1));
    let after = logins.get(Service::Linear).unwrap().unwrap();
    assert!(after.token == tokens[0] && after.renewal != before.renewal && after.expires > before.expires);
    assert_eq!((after.since, after.how), (before.since, How::Browser));
    // A new process reads what the last one kept.
    let other = Arc::new(Logins::new(twin.dir.path().join("logins.json")));
    linear(&twin, &other).viewer().await.unwrap();
    assert_eq!(renewed(&twin).await, 1);
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_and_the_request_sent_again_once() {
    let twin = Twin::start().await;
    let logins = logged_in(&twin).await;
    twin.control("logins", json!({"end": "access"})).await;
    assert_eq!(linear(&twin, &logins).viewer().await.unwrap().name, "Ann");
    assert_eq!(renewed(&twin).await, 1);
    // A token that cannot be renewed is refused once and no more.
    let fixed = Linear::new(format!("{}/linear/graphql", twin.base), "wrong".into());
    assert!(matches!(fixed.viewer().await, Err(Trouble::Unauthorized { .. })));
}

#[tokio::test]
async fn a_login_that_has_ended_is_said_and_not_asked_for_again() {
    let twin = Twin::start().await;
    twin.control("logins", json!({"lasts_s": 30})).await;
    let logins = logged_in(&twin).await;
    twin.control("logins", json!({"end": "all"})).await;
    for _ in 0..3 {
        let Err(Trouble::Unauthorized { says }) = logins.token(Service::Linear).await else { panic!("it has ended") };
        assert!(says.contains("has ended") && says.contains("stewards login linear"), "{says}");
    }
    assert!(logins.get(Service::Linear).unwrap().unwrap().ended.is_some());
    // One who logs in anew goes on.
    logins.put(Service::Linear, Login::of_token(How::Token, "lin")).unwrap();
    assert_eq!(linear(&twin, &logins).viewer().await.unwrap().name, "Ann");
}

#[tokio::test]
async fn while_the_service_is_away_a_token_is_used_to_its_end() {
    let twin = Twin::start().await;
    twin.control("logins", json!({"lasts_s": 60})).await;
    let logins = logged_in(&twin).await;
    twin.fault("/linear/oauth", 503, 5).await;
    let kept = logins.get(Service::Linear).unwrap().unwrap();
    assert_eq!(logins.token(Service::Linear).await.unwrap(), kept.token);
    let past = Login { expires: Some(jiff::Timestamp::now()), ..kept };
    logins.put(Service::Linear, past).unwrap();
    assert!(matches!(logins.token(Service::Linear).await, Err(Trouble::Flaky { .. })));
    assert!(logins.get(Service::Linear).unwrap().unwrap().ended.is_none(), "away is not ended");
}

#[tokio::test]
async fn a_device_code_is_waited_for_until_it_is_typed_in_or_denied() {
    let twin = Twin::start().await;
    let api = format!("{}/github", twin.base);
    let way = Way::github(&api, "app-2");
    let device = way.device().await.ok().unwrap();
    let typing = async {
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        twin.control("logins", json!({"typed": device.user_code().secret()})).await;
    };
    let (tokens, _) = tokio::join!(way.wait(&device), typing);
    let token = tokens.ok().unwrap().token;
    assert_eq!(GitHub::new(api, token.into()).viewer().await.unwrap().login, "ann");
    let device = way.device().await.ok().unwrap();
    twin.control("logins", json!({"denies": true})).await;
    assert!(matches!(way.wait(&device).await, Err(Failed::Ended(_))));
}

#[test]
fn an_enterprise_server_has_its_own_pages() {
    let at = |api| (Way::github(api, "x").ask, stewards_sources::oauth::github_host(api).unwrap());
    assert_eq!(at("https://api.github.com"), ("https://github.com/login/device/code".into(), "github.com".into()));
    assert_eq!(
        at("https://git.acme.dev/api/v3/"),
        ("https://git.acme.dev/login/device/code".into(), "git.acme.dev".into())
    );
    let linear = Way::linear("https://api.linear.app/graphql", "x");
    assert_eq!(
        (linear.ask.as_str(), linear.tokens.as_str(), linear.revoke.as_str()),
        (
            "https://linear.app/oauth/authorize",
            "https://api.linear.app/oauth/token",
            "https://api.linear.app/oauth/revoke"
        )
    );
}
