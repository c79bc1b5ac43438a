//! Linear's webhooks, and what both bells share.
//!
//! The signature is checked in constant time over the bytes as they came, and
//! only then is the body parsed. The body is walked by name and nothing in it
//! is required: these payloads differ from their own published types.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use stewards_core::ports::{About, BadRing, Doorbell, Ring};

/// How far a delivery's time may be from ours, in milliseconds.
const WINDOW_MS: i64 = 60_000;

/// Whether `signature` (hex) is the HMAC-SHA256 of the bytes. An empty secret
/// signs nothing: anyone could know it.
pub(crate) fn signed(secret: &str, raw: &[u8], signature: &str) -> bool {
    if secret.is_empty() {
        return false;
    }
    let (Ok(given), Ok(mut mac)) = (hex::decode(signature), Hmac::<Sha256>::new_from_slice(secret.as_bytes())) else {
        return false;
    };
    mac.update(raw);
    mac.verify_slice(&given).is_ok()
}

/// The body as an object.
pub(crate) fn object(raw: &[u8]) -> Result<Value, BadRing> {
    match serde_json::from_slice::<Value>(raw) {
        Ok(body) if body.is_object() => Ok(body),
        Ok(_) => Err(BadRing::Body("not a JSON object".into())),
        Err(e) => Err(BadRing::Body(format!("not JSON (the hook must send application/json): {e}"))),
    }
}

/// A delivery's name where the sender gave none: the same body, the same name.
pub(crate) fn body_name(raw: &[u8]) -> String {
    format!("body-{}", hex::encode(Sha256::digest(raw)))
}

/// A text below a path such as `/data/id`; empty counts as absent.
pub(crate) fn text<'a>(body: &'a Value, path: &str) -> Option<&'a str> {
    body.pointer(path)?.as_str().filter(|t| !t.is_empty())
}

/// The bell of one Linear webhook.
pub struct LinearBell {
    secrets: Vec<String>,
}

impl LinearBell {
    /// `secret` is the webhook's signing secret. An empty one verifies nothing.
    pub fn new(secret: String) -> LinearBell {
        LinearBell { secrets: vec![secret] }
    }

    /// Another secret that verifies as well: an application's own webhook, which tells of
    /// mentions, has one that Linear makes.
    pub fn or(mut self, secret: String) -> LinearBell {
        self.secrets.push(secret);
        self
    }
}

impl Doorbell for LinearBell {
    fn verify(&self, headers: &BTreeMap<String, String>, raw: &[u8], now_ms: i64) -> Result<Ring, BadRing> {
        let signature = headers.get("linear-signature").map_or("", |s| s.trim());
        if !self.secrets.iter().any(|secret| signed(secret, raw, signature)) {
            return Err(BadRing::Signature);
        }
        let body = object(raw)?;
        let named = || headers.get("linear-delivery").map(|d| d.trim()).filter(|d| !d.is_empty()).map(str::to_owned);
        Ok(Ring {
            delivery: said(&body).or_else(named).unwrap_or_else(|| body_name(raw)),
            source: "linear".into(),
            what: words(&body),
            about: about(&body),
            stale: is_stale(&body, now_ms)?,
        })
    }
}

/// `Issue update`, as far as the body says it.
fn words(body: &Value) -> String {
    let kind = text(body, "/type").unwrap_or("unknown");
    match text(body, "/action") {
        Some(action) => format!("{kind} {action}"),
        None => kind.to_owned(),
    }
}

/// The time in the signed body alone counts: the header of the same purpose is
/// not signed. Without one a delivery cannot be shown to be fresh.
fn is_stale(body: &Value, now_ms: i64) -> Result<bool, BadRing> {
    let sent = match body.get("webhookTimestamp") {
        None | Some(Value::Null) => return Ok(true),
        Some(Value::Number(n)) => n.as_f64().unwrap_or(0.0),
        Some(_) => return Err(BadRing::Body("webhookTimestamp is not a number".into())),
    };
    Ok((now_ms as f64 - sent).abs() > WINDOW_MS as f64)
}

/// The name of what was said to the agent in a session. Its words are to be acted on once,
/// so their own ids count and not how often they were delivered.
fn said(body: &Value) -> Option<String> {
    if text(body, "/type") != Some("AgentSessionEvent") {
        return None;
    }
    let session = text(body, "/agentSession/id")?;
    match text(body, "/action")? {
        "created" => Some(format!("session-{session}")),
        "prompted" => Some(format!("session-{session}-{}", text(body, "/agentActivity/id")?)),
        _ => None,
    }
}

/// The ticket in whose session somebody spoke to the agent. What the agent's own account
/// began or said concerns nothing.
fn about_session(body: &Value) -> About {
    let by = match text(body, "/action") {
        Some("created") => text(body, "/agentSession/creatorId").or_else(|| text(body, "/agentSession/creator/id")),
        Some("prompted") => text(body, "/agentActivity/userId").or_else(|| text(body, "/agentActivity/user/id")),
        _ => return About::Nothing,
    };
    let own = text(body, "/appUserId").or_else(|| text(body, "/agentSession/appUserId"));
    let uuid = text(body, "/agentSession/issueId").or_else(|| text(body, "/agentSession/issue/id"));
    let Some(uuid) = uuid.filter(|_| by.is_none() || by != own) else { return About::Nothing };
    let key = text(body, "/agentSession/issue/identifier").unwrap_or("");
    let team = text(body, "/agentSession/issue/team/key").unwrap_or("");
    About::Ticket { uuid: uuid.into(), key: key.into(), team: team.into() }
}

fn about(body: &Value) -> About {
    if text(body, "/type") == Some("AgentSessionEvent") {
        return about_session(body);
    }
    if !matches!(text(body, "/action"), Some("create" | "update" | "remove" | "restore")) {
        return About::Nothing;
    }
    let (uuid, key, team) = match text(body, "/type") {
        Some("Issue") => (text(body, "/data/id"), text(body, "/data/identifier"), text(body, "/data/team/key")),
        Some("Comment" | "Attachment") => (
            text(body, "/data/issueId").or_else(|| text(body, "/data/issue/id")),
            text(body, "/data/issue/identifier"),
            text(body, "/data/issue/team/key"),
        ),
        _ => return About::Nothing,
    };
    // A comment can be on something other than an issue.
    let Some(uuid) = uuid else { return About::Nothing };
    About::Ticket { uuid: uuid.into(), key: key.unwrap_or("").into(), team: team.unwrap_or("").into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_linear_event_names_the_ticket_that_it_concerns() {
        let ticket = |u: &str, k: &str, t: &str| About::Ticket { uuid: u.into(), key: k.into(), team: t.into() };
        let data = json!({"id": "u", "identifier": "DEMO-1", "team": {"key": "DEMO"}});
        for action in ["create", "update", "remove", "restore"] {
            assert_eq!(about(&json!({"type": "Issue", "action": action, "data": data})), ticket("u", "DEMO-1", "DEMO"));
        }
        let bare = json!({"type": "Issue", "action": "update", "data": {"id": "u", "team": null}});
        assert_eq!(about(&bare), ticket("u", "", ""));
        let by_id = json!({"type": "Comment", "action": "create", "data": {"id": "c", "issueId": "u"}});
        assert_eq!(about(&by_id), ticket("u", "", ""));
        let nested = json!({"type": "Comment", "action": "create", "data": {"id": "c", "issue": data}});
        assert_eq!(about(&nested), ticket("u", "DEMO-1", "DEMO"));
        let linked = json!({"type": "Attachment", "action": "create", "data": {"id": "a", "issueId": "u"}});
        assert_eq!(about(&linked), ticket("u", "", ""));
    }

    #[test]
    fn what_concerns_no_ticket_concerns_nothing() {
        for body in [
            json!({}),
            json!({"type": "Issue", "action": "update"}),
            json!({"type": "Issue", "action": "vanish", "data": {"id": "u"}}),
            json!({"type": "Issue", "data": {"id": "u"}}),
            json!({"type": "IssueLabel", "action": "create", "data": {"id": "l"}}),
            json!({"type": "Comment", "action": "create", "data": {"id": "c", "projectId": "p"}}),
            json!({"type": "Novelty", "action": "create", "data": {"issueId": "u"}}),
            json!({"type": 7, "action": [], "data": "x"}),
        ] {
            assert_eq!(about(&body), About::Nothing, "{body}");
        }
    }

    #[test]
    fn words_to_the_agent_ring_their_ticket_and_its_own_do_not() {
        let created = json!({"type": "AgentSessionEvent", "action": "created", "appUserId": "app", "agentSession":
            {"id": "s", "creatorId": "ann", "issue": {"id": "u", "identifier": "DEMO-1", "team": {"key": "DEMO"}}}});
        let ticket = About::Ticket { uuid: "u".into(), key: "DEMO-1".into(), team: "DEMO".into() };
        assert_eq!((about(&created), said(&created).as_deref()), (ticket.clone(), Some("session-s")));
        let mut prompted = created.clone();
        prompted["action"] = json!("prompted");
        prompted["agentActivity"] = json!({"id": "a", "userId": "bob", "content": {"type": "prompt", "body": "go"}});
        assert_eq!((about(&prompted), said(&prompted).as_deref()), (ticket.clone(), Some("session-s-a")));
        prompted["agentActivity"]["userId"] = json!("app");
        assert_eq!(about(&prompted), About::Nothing);
        let mut own = created.clone();
        own["agentSession"]["creatorId"] = json!("app");
        assert_eq!(about(&own), About::Nothing);
        // An automation began it: nobody's words, and news all the same.
        let mut nobody = created.clone();
        nobody["agentSession"]["creatorId"] = Value::Null;
        assert_eq!(about(&nobody), ticket);
        let mut elsewhere = created;
        elsewhere["agentSession"]["issue"] = Value::Null;
        assert_eq!(about(&elsewhere), About::Nothing);
        assert_eq!(
            said(&json!({"type": "AgentSessionEvent", "action": "prompted", "agentSession": {"id": "s"}})),
            None
        );
    }

    #[test]
    fn a_delivery_is_stale_a_minute_away_or_without_a_time() {
        let stale = |v: Value| is_stale(&json!({"webhookTimestamp": v}), 1_000_000);
        assert_eq!(stale(json!(1_000_000)), Ok(false));
        assert_eq!(stale(json!(940_000)), Ok(false));
        assert_eq!(stale(json!(939_999)), Ok(true));
        assert_eq!(stale(json!(1_060_001.0)), Ok(true));
        assert_eq!(stale(json!(-9.0e300)), Ok(true));
        assert_eq!(stale(json!(u64::MAX)), Ok(true));
        assert_eq!(stale(Value::Null), Ok(true));
        assert_eq!(is_stale(&json!({}), 0), Ok(true));
        assert!(matches!(stale(json!("1000000")), Err(BadRing::Body(_))));
        assert!(matches!(stale(json!([1])), Err(BadRing::Body(_))));
    }
}
