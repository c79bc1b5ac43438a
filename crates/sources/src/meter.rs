//! What the services grant, what is left of it, and what was asked.

use jiff::{SignedDuration, Timestamp};
use reqwest::header::HeaderMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use stewards_core::ports::{Quota, Service};
use stewards_core::trouble::Trouble;

/// This share of a quota is kept free for its owner.
pub(crate) const FREE: f64 = 0.4;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Default)]
struct Line {
    limit: u64,
    remaining: u64,
    reset: Option<Timestamp>,
    /// When each request that counts was made, within the last hour.
    asked: VecDeque<Timestamp>,
    /// When each answer came that cost nothing.
    unchanged: VecDeque<Timestamp>,
}

/// Quotas of one service, by the service's own names for them.
#[derive(Debug)]
pub(crate) struct Meter {
    service: Service,
    lines: Mutex<BTreeMap<String, Line>>,
}

impl Meter {
    pub fn new(service: Service) -> Meter {
        Meter { service, lines: Mutex::default() }
    }

    /// Takes what an answer says of its quota. `free` ones do not count.
    pub fn read(&self, headers: &HeaderMap, free: bool, now: Timestamp) {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let number = |name: &str| text(name).and_then(|v| v.trim().parse::<u64>().ok());
        let (name, prefix, reset) = match self.service {
            Service::GitHub => {
                let reset = text("x-ratelimit-reset").and_then(crate::limits::seconds);
                (text("x-ratelimit-resource").unwrap_or("core"), "x-ratelimit", reset)
            }
            Service::Linear => {
                let reset = text("x-ratelimit-requests-reset").and_then(crate::limits::millis);
                ("requests", "x-ratelimit-requests", reset)
            }
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(name.to_owned()).or_default();
        if let (Some(limit), Some(remaining)) =
            (number(&format!("{prefix}-limit")), number(&format!("{prefix}-remaining")))
        {
            (line.limit, line.remaining, line.reset) = (limit, remaining, reset);
        }
        if free { &mut line.unchanged } else { &mut line.asked }.push_back(now);
        line.forget(now);
    }

    /// Whether something may be asked in the background now.
    pub fn room(&self, now: Timestamp) -> Result<(), Trouble> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, line) in lines.iter() {
            let Some(reset) = line.reset.filter(|r| *r > now && line.limit > 0) else { continue };
            if (line.remaining as f64) < FREE * line.limit as f64 {
                let (left, of) = (line.remaining, line.limit);
                let says = format!(
                    "{left} of {of} requests ({name}) are left at {}, and 40 % are kept free for you",
                    self.service.name()
                );
                return Err(Trouble::Later { at: crate::limits::until(Some(reset), now), says });
            }
        }
        Ok(())
    }

    /// How each quota stands.
    pub fn quotas(&self, now: Timestamp) -> Vec<Quota> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |(name, line): (&String, &mut Line)| {
            line.forget(now);
            Quota {
                service: self.service,
                name: name.clone(),
                limit: line.limit,
                remaining: line.remaining,
                reset: line.reset,
                asked: line.asked.len() as u64,
                unchanged: line.unchanged.len() as u64,
            }
        };
        lines.iter_mut().map(row).collect()
    }
}

impl Line {
    fn forget(&mut self, now: Timestamp) {
        for all in [&mut self.asked, &mut self.unchanged] {
            while all.front().is_some_and(|t| now.duration_since(*t) > HOUR) {
                all.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| ((*k).parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn below_forty_percent_nothing_is_asked_in_the_background_until_the_quota_is_full_again() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let meter = Meter::new(Service::GitHub);
        assert_eq!(meter.room(now), Ok(()));
        let of = |left: &'static str| {
            headers(&[
                ("x-ratelimit-limit", "5000"),
                ("x-ratelimit-remaining", left),
                ("x-ratelimit-reset", "1772367000"),
                ("x-ratelimit-resource", "graphql"),
            ])
        };
        meter.read(&of("2000"), false, now);
        assert_eq!(meter.room(now), Ok(()));
        meter.read(&of("1999"), false, now);
        let Err(Trouble::Later { at, says }) = meter.room(now) else { panic!("there is room") };
        assert_eq!(at.to_string(), "2026-03-01T12:10:00Z");
        assert!(says.starts_with("1999 of 5000 requests (graphql) are left at GitHub"), "{says}");
        assert_eq!(meter.room(at), Ok(()));
        meter.read(&HeaderMap::new(), true, now);
        let quotas = meter.quotas(now);
        assert_eq!(quotas.iter().map(|q| (q.asked, q.unchanged)).collect::<Vec<_>>(), [(0, 1), (2, 0)]);
        let later = now.checked_add(SignedDuration::from_hours(2)).unwrap();
        assert!(meter.quotas(later).iter().all(|q| q.asked + q.unchanged == 0));
    }

    #[test]
    fn linears_quota_is_told_in_its_own_headers() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let meter = Meter::new(Service::Linear);
        let given = [
            ("x-ratelimit-requests-limit", "1200"),
            ("x-ratelimit-requests-remaining", "100"),
            ("x-ratelimit-requests-reset", "1772367000000"),
        ];
        meter.read(&headers(&given), false, now);
        assert!(matches!(meter.room(now), Err(Trouble::Later { .. })));
        assert_eq!(meter.quotas(now)[0].limit, 1_200);
    }
}
