//! What a failed answer of Linear means. Its status says little: a limit comes
//! as HTTP 400 and a refusal as HTTP 200, so the body is asked first.

use crate::limits;
use crate::transport::{Reply, brief, flaky};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use stewards_core::trouble::Trouble;

/// One entry of `errors`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct GraphError {
    message: Option<String>,
    path: Option<Vec<Value>>,
    extensions: Option<Extensions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extensions {
    #[serde(rename = "type")]
    kind: Option<Value>,
    code: Option<Value>,
    status_code: Option<Value>,
    user_presentable_message: Option<Value>,
}

impl GraphError {
    fn extension(&self, pick: impl Fn(&Extensions) -> &Option<Value>) -> String {
        let value = self.extensions.as_ref().and_then(|e| pick(e).as_ref());
        value.and_then(Value::as_str).unwrap_or("").to_ascii_lowercase()
    }

    fn kind(&self) -> String {
        self.extension(|e| &e.kind)
    }

    fn code(&self) -> String {
        self.extension(|e| &e.code)
    }

    fn status(&self) -> u64 {
        self.extensions.as_ref().and_then(|e| e.status_code.as_ref()).and_then(Value::as_u64).unwrap_or(0)
    }

    /// The text meant for people, else the plain one.
    fn says(&self) -> String {
        let shown = self.extensions.as_ref().and_then(|e| e.user_presentable_message.as_ref()).and_then(Value::as_str);
        brief(shown.or(self.message.as_deref()).unwrap_or("no message"))
    }

    fn is_limit(&self) -> bool {
        self.kind() == "ratelimited" || self.code() == "ratelimited" || self.status() == 429
    }

    fn is_login(&self) -> bool {
        matches!(self.kind().as_str(), "authentication error" | "forbidden")
            || matches!(self.code().as_str(), "authentication_error" | "forbidden")
            || matches!(self.status(), 401 | 403)
    }

    /// Whether it says that the entity asked for does not exist. An error of a
    /// field below it (its assignee is gone, say) is another matter.
    fn is_missing(&self, id: Option<&str>) -> bool {
        if self.path.as_ref().is_some_and(|p| p.len() > 1) {
            return false;
        }
        let all = format!("{}\n{}", self.message.as_deref().unwrap_or(""), self.says()).to_ascii_lowercase();
        let named = id.is_some_and(|id| !id.is_empty() && all.contains(&id.to_ascii_lowercase()));
        all.contains("entity not found") || (self.kind() == "invalid input" && named)
    }

    /// The part of a ticket that it says may not be read, if it says just that.
    pub(crate) fn part(&self) -> Option<&str> {
        let path = self.path.as_deref()?;
        let [top, part, ..] = path else { return None };
        (top == "issue" && self.is_login()).then(|| part.as_str())?
    }

    fn is_refusal(&self) -> bool {
        matches!(
            self.kind().as_str(),
            "user error" | "invalid input" | "graphql error" | "usage limit exceeded" | "feature not accessible"
        ) || (400..500).contains(&self.status())
    }
}

/// The trouble of an answer that is not a whole, fine one. `id` is the entity
/// asked for, where one was: only then can something be gone.
pub(crate) fn trouble(reply: &Reply, errors: &[GraphError], id: Option<&str>, now: Timestamp) -> Trouble {
    let says = match errors {
        [] => format!("Linear answered {}", reply.status),
        [first, ..] => format!("Linear answered {}: {}", reply.status, first.says()),
    };
    if reply.status == 429 || errors.iter().any(GraphError::is_limit) {
        return Trouble::Later { at: limits::until(limit_end(reply, now), now), says };
    }
    if reply.status >= 500 {
        return flaky(says);
    }
    if reply.status == 401 || errors.iter().any(GraphError::is_login) {
        return Trouble::Unauthorized { says };
    }
    if errors.is_empty() {
        return flaky(says);
    }
    // One error of another kind is enough to doubt the rest.
    if id.is_some() && errors.iter().all(|e| e.is_missing(id)) {
        return Trouble::Gone { says };
    }
    if errors.iter().all(GraphError::is_refusal) {
        return Trouble::Refused { says };
    }
    let client_fault = (400..500).contains(&reply.status) && errors.iter().all(|e| e.kind().is_empty());
    if client_fault { Trouble::Refused { says } } else { flaky(says) }
}

/// The bucket that is empty tells when it fills again. Resets are in
/// milliseconds.
fn limit_end(reply: &Reply, now: Timestamp) -> Option<Timestamp> {
    let reset = |what: &str| reply.header(&format!("x-ratelimit-{what}-reset")).and_then(limits::millis);
    let empty = |what: &str| reply.header(&format!("x-ratelimit-{what}-remaining")) == Some("0");
    let of_empty = ["requests", "complexity"].into_iter().filter(|w| empty(w)).filter_map(reset).max();
    of_empty
        .or_else(|| reply.header("retry-after").and_then(|v| limits::retry_after(v, now)))
        .or_else(|| reset("requests"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    const ID: &str = "2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9";

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn judge(status: u16, headers: &[(&str, &str)], errors: Value) -> Trouble {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let reply = Reply { status, headers: map, body: Vec::new() };
        let errors: Vec<GraphError> = serde_json::from_value(errors).unwrap();
        trouble(&reply, &errors, Some(ID), now())
    }

    fn word(status: u16, errors: Value) -> &'static str {
        match judge(status, &[], errors) {
            Trouble::Unauthorized { .. } => "unauthorized",
            Trouble::Later { .. } => "later",
            Trouble::Gone { .. } => "gone",
            Trouble::Refused { .. } => "refused",
            Trouble::Flaky { .. } => "flaky",
        }
    }

    fn typed(message: &str, kind: &str) -> Value {
        serde_json::json!([{"message": message, "extensions": {"type": kind}}])
    }

    #[test]
    fn each_kind_of_error_is_told_by_its_body() {
        let limit = serde_json::json!([{"message": "slow", "extensions": {"code": "RATELIMITED", "statusCode": 429}}]);
        assert_eq!(word(400, limit), "later");
        assert_eq!(word(400, typed("Entity not found: Team", "ratelimited")), "later");
        assert_eq!(word(401, serde_json::json!([])), "unauthorized");
        assert_eq!(word(400, typed("no", "authentication error")), "unauthorized");
        assert_eq!(word(200, typed("no", "forbidden")), "unauthorized");
        assert_eq!(word(200, typed("Entity not found: Issue", "invalid input")), "gone");
        assert_eq!(word(400, typed(&format!("Argument Validation Error: {ID}"), "invalid input")), "gone");
        assert_eq!(word(400, typed("Argument Validation Error: first", "invalid input")), "refused");
        assert_eq!(word(400, typed("Cannot query field", "graphql error")), "refused");
        assert_eq!(word(200, typed("busy", "lock timeout")), "flaky");
        assert_eq!(word(200, typed("oops", "internal error")), "flaky");
        assert_eq!(word(500, typed("Entity not found: Issue", "invalid input")), "flaky");
        assert_eq!(word(502, serde_json::json!([])), "flaky");
        assert_eq!(word(200, serde_json::json!([{"message": "?"}])), "flaky");
        assert_eq!(word(400, serde_json::json!([{"message": "Syntax Error"}])), "refused");
        assert_eq!(word(200, serde_json::json!([{}])), "flaky");
    }

    #[test]
    fn a_missing_field_below_the_ticket_is_not_a_missing_ticket() {
        let below = serde_json::json!([{
            "message": "Entity not found: User", "path": ["issue", "assignee"], "extensions": {"type": "invalid input"},
        }]);
        assert_eq!(word(200, below), "refused");
        let mixed = serde_json::json!([
            {"message": "Entity not found: Issue", "path": ["issue"], "extensions": {"type": "invalid input"}},
            {"message": "oops", "extensions": {"type": "internal error"}},
        ]);
        assert_eq!(word(200, mixed), "flaky");
    }

    #[test]
    fn a_limit_ends_when_the_empty_bucket_fills() {
        let errors = || typed("slow", "ratelimited");
        let at = |headers: &[(&str, &str)]| match judge(400, headers, errors()) {
            Trouble::Later { at, .. } => at.to_string(),
            other => panic!("{other:?}"),
        };
        let requests = [
            ("x-ratelimit-requests-remaining", "0"),
            ("x-ratelimit-requests-reset", "1772367000000"),
            ("x-ratelimit-complexity-remaining", "971913"),
            ("x-ratelimit-complexity-reset", "1772369000000"),
        ];
        assert_eq!(at(&requests), "2026-03-01T12:10:00Z");
        let complexity = [
            ("x-ratelimit-requests-remaining", "9"),
            ("x-ratelimit-requests-reset", "1772367000000"),
            ("x-ratelimit-complexity-remaining", "0"),
            ("x-ratelimit-complexity-reset", "1772367600000"),
        ];
        assert_eq!(at(&complexity), "2026-03-01T12:20:00Z");
        assert_eq!(at(&[("retry-after", "5")]), "2026-03-01T12:00:05Z");
        assert_eq!(at(&[]), "2026-03-01T12:01:00Z");
    }
}
