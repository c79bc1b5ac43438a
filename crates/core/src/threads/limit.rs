//! Limits of a provider, read from what it says.

use crate::moment::Deadline;
use jiff::civil::{Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

/// A provider takes no more turns until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub until: Deadline,
    pub says: String,
}

/// Without a time in it a limit is tried again after a quarter of an hour.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(15);
/// No limit is believed to last longer.
const LONGEST: SignedDuration = SignedDuration::from_hours(8 * 24);

/// Words that tell a limit from another failure.
const SIGNS: [&str; 12] = [
    "usage limit",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "hit your limit",
    "session limit",
    "weekly limit",
    "too many requests",
    "quota exceeded",
    "exceeded your current quota",
    "limit reached",
    "429",
];

/// A zone by its name. The table is the one that is built in, so that a decision
/// never depends on files of the machine.
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

/// When a provider that said this takes turns again; nothing where it is no
/// limit. Understood are a Unix time, an RFC 3339 time, a wait (`in 3h 20m`,
/// `retry after 60 seconds`), and a time of day with or without am and pm, in the
/// zone that is named or else in `zone`.
pub fn limit_in(says: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let text = says.to_ascii_lowercase();
    if !SIGNS.iter().any(|sign| text.contains(sign)) {
        return None;
    }
    let found = unix(&text, now)
        .or_else(|| stamp(says, now))
        .or_else(|| wait(&text).map(|w| now.saturating_add(w).unwrap_or(Timestamp::MAX)))
        .or_else(|| of_day(says, now, zone));
    let usual = now.saturating_add(UNKNOWN).unwrap_or(Timestamp::MAX);
    let last = now.saturating_add(LONGEST).unwrap_or(Timestamp::MAX);
    // A second later than said: clocks differ.
    let until = found.map_or(usual, |at| at.saturating_add(SignedDuration::from_secs(1)).unwrap_or(at));
    Some(if until <= now { usual } else { until.min(last) })
}

/// A number of ten digits (seconds) or thirteen (milliseconds) that lies ahead.
fn unix(text: &str, now: Timestamp) -> Option<Timestamp> {
    text.split(|c: char| !c.is_ascii_digit()).find_map(|word| {
        let n: i64 = word.parse().ok()?;
        let at = match word.len() {
            10 => Timestamp::from_second(n).ok()?,
            13 => Timestamp::from_millisecond(n).ok()?,
            _ => return None,
        };
        (at > now).then_some(at)
    })
}

fn stamp(text: &str, now: Timestamp) -> Option<Timestamp> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '(' | ')'));
    words.filter_map(|w| w.trim_end_matches(['.', ';']).parse::<Timestamp>().ok()).find(|at| *at > now)
}

/// Numbers with their units after `in`, `after` or `retry`: `3h 20m`, `45 seconds`, `1 day`.
fn wait(text: &str) -> Option<SignedDuration> {
    let starts = ["in ", "after ", "after: ", "after=", "after\": ", "within "];
    starts.iter().find_map(|start| {
        let mut from = 0;
        while let Some(found) = text[from..].find(start) {
            let at = from + found;
            let word_begins = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if let Some(sum) = word_begins.then(|| amount(&text[at + start.len()..])).flatten() {
                return Some(sum);
            }
            from = at + start.len();
        }
        None
    })
}

fn amount(text: &str) -> Option<SignedDuration> {
    let mut rest = text.trim_start_matches(['~', '"']).trim_start();
    let mut sum = SignedDuration::ZERO;
    let mut any = false;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(n) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "d" | "day" | "days" => 86_400.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "ms" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            // A bare number counts seconds, as in the header.
            "" if !any => 1.0,
            _ => break,
        };
        sum = sum.checked_add(SignedDuration::try_from_secs_f64(n * seconds).ok()?)?;
        any = true;
        rest = rest[letters..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    any.then_some(sum)
}

/// `resets 3pm (Europe/Berlin)`, `resets at 15:30`, `try again at 9:05 AM`.
fn of_day(says: &str, now: Timestamp, usual: &TimeZone) -> Option<Timestamp> {
    let text = says.to_ascii_lowercase();
    let at = ["resets at ", "resets ", "reset at ", "again at ", "until "]
        .iter()
        .find_map(|w| Some(text.find(w)? + w.len()))?;
    let rest = &text[at..];
    let here = says[at..]
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';'))
        .filter(|w| w.contains('/') || w.eq_ignore_ascii_case("utc"))
        .find_map(|w| zone(w.trim_end_matches('.')))
        .unwrap_or_else(|| usual.clone());
    let time = clock(rest)?;
    let today = here.to_datetime(now).date();
    let at = |day: Date| here.to_timestamp(day.to_datetime(time)).ok();
    match named_day(rest, today) {
        Some(day) => at(day),
        // A time of day that is over today means tomorrow's.
        None => at(today).filter(|t| *t > now).or_else(|| at(today.checked_add(1.day()).ok()?)),
    }
}

/// `dec 3`, `december 3rd, 2026`; without a year in this one or the next.
fn named_day(text: &str, today: Date) -> Option<Date> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.iter().enumerate().find_map(|(n, word)| {
        let month = i8::try_from(MONTHS.iter().position(|m| word.starts_with(m))? + 1).ok()?;
        let day: i8 = words.get(n + 1)?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        let of = |year: i16| Date::new(year, month, day).ok();
        match words.get(n + 2).filter(|w| w.len() == 4).and_then(|w| w.parse().ok()) {
            Some(year) => of(year),
            None => of(today.year()).filter(|d| *d >= today).or_else(|| of(today.year() + 1)),
        }
    })
}

fn clock(text: &str) -> Option<Time> {
    let digits = |t: &str| t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
    // A date may stand before it (`Dec 3, 9am`): the first number with a colon or am or pm counts.
    let mut rest = text;
    loop {
        let start = rest.find(|c: char| c.is_ascii_digit())?;
        rest = &rest[start..];
        let n = digits(rest);
        // A year is no hour.
        let hour: i8 = rest[..n].parse().unwrap_or(i8::MAX);
        let mut after = &rest[n..];
        let mut minute = 0;
        let colon = after.starts_with(':');
        if colon {
            let m = digits(&after[1..]);
            minute = after[1..1 + m].parse().ok()?;
            after = &after[1 + m..];
        }
        let half = after.trim_start();
        let hour = match (half.starts_with("am"), half.starts_with("pm")) {
            _ if hour > 24 => None,
            (true, _) => Some(hour % 12),
            (_, true) => Some(hour % 12 + 12),
            _ if colon => Some(hour),
            _ => None,
        };
        if let Some(hour) = hour {
            return Time::new(hour, minute, 0, 0).ok();
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(says: &str, expected: Option<&str>) {
        // A Tuesday noon in UTC, one in the afternoon in Berlin, seven in the morning in New York.
        let now: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        let zone = zone("Europe/Berlin").unwrap();
        let found = limit_in(says, now, &zone).map(|t| t.to_string());
        assert_eq!(found.as_deref(), expected, "{says}");
    }

    #[test]
    fn the_reset_time_of_a_limit_is_read_in_the_wordings_that_providers_use() {
        check("Claude AI usage limit reached|1796140800", Some("2026-12-01T16:00:01Z"));
        check("You've hit your limit · resets 3pm (America/New_York)", Some("2026-12-01T20:00:01Z"));
        check("5-hour limit reached ∙ resets 7:30pm", Some("2026-12-01T18:30:01Z"));
        check("usage limit: resets 11am", Some("2026-12-02T10:00:01Z"));
        check("You've hit your usage limit. Try again in 2 hours 5 minutes.", Some("2026-12-01T14:05:01Z"));
        check("Rate limit exceeded, retry after 60 seconds", Some("2026-12-01T12:01:01Z"));
        check("429 Too Many Requests (retry-after: 30)", Some("2026-12-01T12:00:31Z"));
        check("weekly limit, resets at 2026-12-03T09:00:00Z", Some("2026-12-03T09:00:01Z"));
        check("rate limit reached for gpt-x. Please try again in 1.5s.", Some("2026-12-01T12:00:02.5Z"));
        check("Weekly limit reached · resets Dec 3, 9am (UTC)", Some("2026-12-03T09:00:01Z"));
        check("You’ve hit your usage limit. Try again at Dec 2nd, 2026 1:46 AM.", Some("2026-12-02T00:46:01Z"));
        check("usage limit reached, try again at December 31, 2025 9:00 PM", Some("2026-12-01T12:15:00Z"));
        check("You have exceeded your current quota", Some("2026-12-01T12:15:00Z"));
    }

    #[test]
    fn other_failures_are_no_limits_and_no_limit_lasts_for_ever() {
        check("401 invalid x-api-key", None);
        check("the agent's process ended", None);
        check("rate limit: try again in 400 days", Some("2026-12-09T12:00:00Z"));
        check("rate limit 日本 in ﷽ minutes", Some("2026-12-01T12:15:00Z"));
    }
}
