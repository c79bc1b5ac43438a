//! The roll-up of a head's checks. GitHub has two systems, check runs and
//! commit statuses, and both count.

use crate::github_wire::{CheckRun, Status};
use std::collections::BTreeMap;
use stewards_core::snapshot::{Check, Rollup};

/// How one check stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Pending,
    Green,
    Red,
}

/// What was read of a head; `None` is what may not be read.
pub(crate) struct Seen {
    pub runs: Option<Vec<CheckRun>>,
    pub statuses: Option<Vec<Status>>,
}

/// The roll-up and the checks it is made of, by name.
pub(crate) fn rollup(seen: Seen) -> (Rollup, Vec<Check>) {
    let blind = seen.runs.is_none() || seen.statuses.is_none();
    let mut all: Vec<(Check, Stand)> = latest(seen.runs.unwrap_or_default()).into_iter().map(of_run).collect();
    all.extend(seen.statuses.unwrap_or_default().into_iter().map(of_status));
    all.sort_by(|a, b| (&a.0.name, &a.0.state).cmp(&(&b.0.name, &b.0.state)));
    let has = |stand: Stand| all.iter().any(|(_, s)| *s == stand);
    let rollup = if blind {
        Rollup::Unreadable
    } else if all.is_empty() {
        Rollup::None
    } else if has(Stand::Pending) {
        Rollup::Pending
    } else if has(Stand::Red) {
        Rollup::Red
    } else {
        Rollup::Green
    };
    (rollup, all.into_iter().map(|(check, _)| check).collect())
}

/// The newest run of each name within its suite. Suites are kept apart: two
/// workflows may have jobs of the same name, and both must pass.
fn latest(runs: Vec<CheckRun>) -> Vec<CheckRun> {
    let mut newest: BTreeMap<(u64, String), CheckRun> = BTreeMap::new();
    let mut out = Vec::new();
    for run in runs {
        let Some(suite) = run.check_suite.as_ref().and_then(|s| s.id) else {
            out.push(run);
            continue;
        };
        let key = (suite, run.name.clone().unwrap_or_default());
        if newest.get(&key).is_none_or(|old| old.id <= run.id) {
            newest.insert(key, run);
        }
    }
    out.extend(newest.into_values());
    out
}

fn of_run(run: CheckRun) -> (Check, Stand) {
    let word = |text: Option<String>| text.unwrap_or_default().to_ascii_lowercase();
    let (status, conclusion) = (word(run.status), word(run.conclusion));
    let name = run.name.unwrap_or_default();
    // Completed without a conclusion is a re-run that has not begun.
    if status != "completed" || conclusion.is_empty() {
        let state = if status.is_empty() || status == "completed" { "pending".into() } else { status };
        return (Check { name, state }, Stand::Pending);
    }
    // A conclusion that is not known to be fine is not fine.
    let fine = matches!(conclusion.as_str(), "success" | "neutral" | "skipped");
    (Check { name, state: conclusion }, if fine { Stand::Green } else { Stand::Red })
}

fn of_status(status: Status) -> (Check, Stand) {
    let state = status.state.unwrap_or_default().to_ascii_lowercase();
    let stand = match state.as_str() {
        "success" => Stand::Green,
        "pending" | "expected" | "" => Stand::Pending,
        _ => Stand::Red,
    };
    let state = if state.is_empty() { "pending".into() } else { state };
    (Check { name: status.context.unwrap_or_default(), state }, stand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(runs: Value, statuses: Value) -> Rollup {
        let runs = serde_json::from_value(runs).unwrap();
        rollup(Seen { runs: Some(runs), statuses: Some(serde_json::from_value(statuses).unwrap()) }).0
    }

    fn run(status: &str, conclusion: Value) -> Value {
        json!({"name": "build", "status": status, "conclusion": conclusion})
    }

    #[test]
    fn conclusions_map_to_green_red_or_pending() {
        for fine in ["success", "neutral", "skipped"] {
            assert_eq!(of(json!([run("completed", json!(fine))]), json!([])), Rollup::Green, "{fine}");
        }
        let bad = ["failure", "timed_out", "cancelled", "action_required", "startup_failure", "stale", "unheard_of"];
        for bad in bad {
            let runs = json!([run("completed", json!("success")), run("completed", json!(bad))]);
            assert_eq!(of(runs, json!([])), Rollup::Red, "{bad}");
        }
        for busy in ["queued", "in_progress", "waiting", "requested", "pending", ""] {
            let runs = json!([run("completed", json!("failure")), run(busy, Value::Null)]);
            assert_eq!(of(runs, json!([])), Rollup::Pending, "{busy}");
        }
        assert_eq!(of(json!([run("completed", Value::Null)]), json!([])), Rollup::Pending);
        assert_eq!(of(json!([{}]), json!([])), Rollup::Pending);
    }

    #[test]
    fn statuses_count_beside_runs() {
        let good = || json!([run("completed", json!("success"))]);
        assert_eq!(of(json!([]), json!([])), Rollup::None);
        assert_eq!(of(good(), json!([{"context": "ci", "state": "success"}])), Rollup::Green);
        assert_eq!(of(good(), json!([{"context": "ci", "state": "pending"}])), Rollup::Pending);
        assert_eq!(of(good(), json!([{"context": "ci", "state": "failure"}])), Rollup::Red);
        assert_eq!(of(json!([]), json!([{"context": "ci", "state": "error"}])), Rollup::Red);
    }

    #[test]
    fn what_may_not_be_read_is_never_green() {
        let good = vec![serde_json::from_value(run("completed", json!("success"))).unwrap()];
        let (found, checks) = rollup(Seen { runs: Some(good), statuses: None });
        assert_eq!((found, checks.len()), (Rollup::Unreadable, 1));
        assert_eq!(rollup(Seen { runs: None, statuses: Some(Vec::new()) }).0, Rollup::Unreadable);
    }

    #[test]
    fn the_newest_run_of_a_suite_wins_and_suites_stay_apart() {
        let one = |id: u64, suite: u64, conclusion: &str| json!({"id": id, "name": "build", "status": "completed", "conclusion": conclusion, "check_suite": {"id": suite}});
        assert_eq!(of(json!([one(2, 1, "success"), one(1, 1, "failure")]), json!([])), Rollup::Green);
        assert_eq!(of(json!([one(1, 1, "success"), one(2, 1, "failure")]), json!([])), Rollup::Red);
        assert_eq!(of(json!([one(1, 1, "failure"), one(2, 2, "success")]), json!([])), Rollup::Red);
    }
}
