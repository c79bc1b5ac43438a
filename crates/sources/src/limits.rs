//! When a limit ends, by the headers that tell it.

use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};

/// How long to wait when a limit does not say when it ends.
const DEFAULT_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// Both services count by the hour; anything beyond a day is a broken header.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The end of a limit. Without a usable end it is a minute from now: an end in
/// the past only says that the clocks differ.
pub(crate) fn until(end: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let fallback = now.checked_add(DEFAULT_WAIT).unwrap_or(now);
    let latest = now.checked_add(LONGEST).unwrap_or(Timestamp::MAX);
    end.filter(|at| *at > now).map_or(fallback, |at| at.min(latest))
}

/// `Retry-After`: seconds from now, or an HTTP date.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Timestamp> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return now.checked_add(SignedDuration::from_secs(seconds.into())).ok();
    }
    // An HTTP date is RFC 2822 but for the name of its zone.
    rfc2822::DateTimeParser::new().parse_timestamp(value.replace("GMT", "+0000")).ok()
}

/// Unix time in seconds.
pub(crate) fn seconds(value: &str) -> Option<Timestamp> {
    Timestamp::from_second(value.trim().parse().ok()?).ok()
}

/// Unix time in milliseconds.
pub(crate) fn millis(value: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(value.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let at = |v: &str| retry_after(v, now()).map(|t| t.to_string());
        assert_eq!(at("30").as_deref(), Some("2026-03-01T12:00:30Z"));
        assert_eq!(at("Sun, 01 Mar 2026 12:05:00 GMT").as_deref(), Some("2026-03-01T12:05:00Z"));
        assert_eq!(at("soon"), None);
        assert_eq!(at("-5"), None);
    }

    #[test]
    fn an_end_that_cannot_be_is_a_minute_and_never_more_than_a_day() {
        let end = |t: Option<&str>| until(t.map(|t| t.parse().unwrap()), now()).to_string();
        assert_eq!(end(None), "2026-03-01T12:01:00Z");
        assert_eq!(end(Some("2024-12-04T08:41:04Z")), "2026-03-01T12:01:00Z");
        assert_eq!(end(Some("2026-03-01T12:30:00Z")), "2026-03-01T12:30:00Z");
        assert_eq!(end(Some("2099-01-01T00:00:00Z")), "2026-03-02T12:00:00Z");
        assert_eq!(seconds("1772366400"), Some(now()));
        assert_eq!(millis("1772366400000"), Some(now()));
        assert_eq!(seconds("x"), None);
    }
}
