//! Signatures and the rings that come of them.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use std::collections::BTreeMap;
use stewards_core::ports::{About, BadRing, Doorbell, Ring};
use stewards_sources::{GitHubBell, LinearBell};

pub const SECRET: &str = "a secret of the tests";

pub fn hmac(secret: &str, raw: &[u8]) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(raw);
    hex::encode(mac.finalize().into_bytes())
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Rings Linear's bell with a right signature.
pub fn linear(raw: &[u8], now_ms: i64) -> Result<Ring, BadRing> {
    let headers = map(&[("linear-signature", &hmac(SECRET, raw)), ("linear-delivery", "d")]);
    LinearBell::new(SECRET.into()).verify(&headers, raw, now_ms)
}

/// Rings GitHub's bell with a right signature.
pub fn github(event: &str, raw: &[u8]) -> Result<Ring, BadRing> {
    let signature = format!("sha256={}", hmac(SECRET, raw));
    let headers = map(&[
        ("x-hub-signature-256", &signature),
        ("x-github-event", event),
        ("x-github-delivery", "d"),
        ("x-github-hook-id", "5"),
    ]);
    GitHubBell::new(SECRET.into()).verify(&headers, raw, 0)
}

/// GitHub's published example. Its body is not JSON, so a right signature is
/// seen by the body being what is complained of.
const EXAMPLE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

#[test]
fn githubs_published_signature_is_right() {
    let bell = GitHubBell::new("It's a Secret to Everybody".into());
    let verify = |signature: &str, raw: &[u8]| bell.verify(&map(&[("x-hub-signature-256", signature)]), raw, 0);
    assert!(matches!(verify(EXAMPLE, b"Hello, World!"), Err(BadRing::Body(_))));
    assert_eq!(verify(EXAMPLE, b"Hello, World?"), Err(BadRing::Signature));
    assert_eq!(verify(&EXAMPLE.replace("sha256=", ""), b"Hello, World!"), Err(BadRing::Signature));
    assert_eq!(verify(&EXAMPLE.replace("sha256=", "sha1="), b"Hello, World!"), Err(BadRing::Signature));
    assert_eq!(verify(&EXAMPLE[..EXAMPLE.len() - 2], b"Hello, World!"), Err(BadRing::Signature));
    assert_eq!(verify("", b"Hello, World!"), Err(BadRing::Signature));
    assert_eq!(bell.verify(&BTreeMap::new(), b"Hello, World!", 0), Err(BadRing::Signature));
    let other = GitHubBell::new("another".into());
    assert_eq!(other.verify(&map(&[("x-hub-signature-256", EXAMPLE)]), b"Hello, World!", 0), Err(BadRing::Signature));
}

#[test]
fn any_flipped_byte_is_refused() {
    let raw = br#"{"type":"Issue","action":"update","data":{"id":"u"},"webhookTimestamp":1}"#;
    let headers = map(&[("linear-signature", &hmac(SECRET, raw))]);
    let bell = LinearBell::new(SECRET.into());
    assert!(bell.verify(&headers, raw, 0).is_ok());
    for at in 0..raw.len() {
        let mut bent = raw.to_vec();
        bent[at] ^= 1;
        assert_eq!(bell.verify(&headers, &bent, 0), Err(BadRing::Signature), "byte {at}");
    }
}

#[test]
fn an_empty_secret_verifies_nothing() {
    let raw = b"{}";
    let signature = hmac("", raw);
    let linear = map(&[("linear-signature", &signature)]);
    assert_eq!(LinearBell::new(String::new()).verify(&linear, raw, 0), Err(BadRing::Signature));
    assert!(LinearBell::new(SECRET.into()).or(String::new()).verify(&linear, raw, 0).is_err());
    let github = map(&[("x-hub-signature-256", &format!("sha256={signature}"))]);
    assert_eq!(GitHubBell::new(String::new()).verify(&github, raw, 0), Err(BadRing::Signature));
}

#[test]
fn an_applications_own_secret_verifies_beside_the_teams() {
    let bell = LinearBell::new(SECRET.into()).or("the application's".into());
    for secret in [SECRET, "the application's"] {
        assert!(bell.verify(&map(&[("linear-signature", &hmac(secret, b"{}"))]), b"{}", 0).is_ok(), "{secret}");
    }
    let other = map(&[("linear-signature", &hmac("another", b"{}"))]);
    assert_eq!(bell.verify(&other, b"{}", 0), Err(BadRing::Signature));
}

#[test]
fn what_is_said_to_the_agent_is_one_delivery_however_often_it_comes() {
    let body = |sent: i64| {
        json!({"type": "AgentSessionEvent", "action": "created", "webhookTimestamp": sent, "appUserId": "app",
            "agentSession": {"id": "s", "creatorId": "ann", "issueId": "u"}})
        .to_string()
    };
    let name = |delivery: &str, sent: i64| {
        let raw = body(sent);
        let headers = map(&[("linear-signature", &hmac(SECRET, raw.as_bytes())), ("linear-delivery", delivery)]);
        LinearBell::new(SECRET.into()).verify(&headers, raw.as_bytes(), sent).unwrap().delivery
    };
    assert_eq!(name("one", 1), name("two", 2));
}

#[test]
fn a_wrong_signature_is_told_before_a_wrong_body() {
    let headers = map(&[("linear-signature", &hmac("another", b"not json"))]);
    assert_eq!(LinearBell::new(SECRET.into()).verify(&headers, b"not json", 0), Err(BadRing::Signature));
    assert!(matches!(linear(b"not json", 0), Err(BadRing::Body(_))));
    assert!(matches!(linear(b"[]", 0), Err(BadRing::Body(_))));
    assert!(matches!(github("push", b""), Err(BadRing::Body(_))));
}

#[test]
fn an_old_delivery_still_rings_and_a_fresh_header_does_not_help_it() {
    let raw = json!({"type": "Issue", "action": "update", "data": {"id": "u"}, "webhookTimestamp": 1_000_000});
    let raw = raw.to_string();
    assert!(!linear(raw.as_bytes(), 1_060_000).unwrap().stale);
    let headers = map(&[("linear-signature", &hmac(SECRET, raw.as_bytes())), ("linear-timestamp", "5000000")]);
    let ring = LinearBell::new(SECRET.into()).verify(&headers, raw.as_bytes(), 5_000_000).unwrap();
    assert!(ring.stale);
    assert!(matches!(ring.about, About::Ticket { .. }));
    let worded = r#"{"webhookTimestamp":"now"}"#;
    assert!(matches!(linear(worded.as_bytes(), 0), Err(BadRing::Body(_))));
}

#[test]
fn a_delivery_has_one_name_for_its_hook_and_its_event() {
    let raw = br#"{"action":"opened"}"#;
    let ring = github("pull_request", raw).unwrap();
    assert_eq!((ring.delivery.as_str(), ring.what.as_str()), ("5:d", "pull_request opened"));
    assert_eq!((ring.source.as_str(), ring.stale), ("github", false));
    let ring = linear(br#"{"type":"Issue","action":"update"}"#, 0).unwrap();
    assert_eq!((ring.delivery.as_str(), ring.what.as_str(), ring.source.as_str()), ("d", "Issue update", "linear"));
    let nameless = |raw: &[u8]| {
        let headers = map(&[("linear-signature", &hmac(SECRET, raw))]);
        LinearBell::new(SECRET.into()).verify(&headers, raw, 0).unwrap().delivery
    };
    assert_eq!(nameless(b"{}"), nameless(b"{}"));
    assert_ne!(nameless(b"{}"), nameless(b"{ }"));
}
