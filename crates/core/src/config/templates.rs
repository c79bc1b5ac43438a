//! The starting points that `stewards init` writes.

use super::{PLAYBOOKS, PROJECT_FILE};
use std::collections::BTreeMap;

/// What the templates have to know.
#[derive(Clone, Debug)]
pub struct Starting<'a> {
    /// The Linear team's key.
    pub team: &'a str,
    /// `provider/model/level` for each role.
    pub steward: &'a str,
    pub worker: &'a str,
    pub reviewer: &'a str,
}

/// Path below `.bb/` → text.
pub fn starting_files(with: &Starting<'_>) -> BTreeMap<String, String> {
    let project = format!(
        r#"{{
  "linear": {{ "teams": ["{team}"] }},
  "label": "bb-managed",
  "playbooks": {{ "ticket": "linear-tickets.md" }},
  "adoption": {{ "perPass": 10 }},
  "projectSteward": {{ "model": "{steward}" }},
  "standingRules": [
    "Never push to the default branch; every change goes through a pull request.",
    "A change comes with the test that fails without it."
  ]
}}
"#,
        team = with.team,
        steward = with.steward
    );
    let tickets = format!(
        r#"---
name: Linear tickets
kind: ticket
source: linear
phases:
  Backlog: {{ stage: triage }}
  Todo: {{ stage: spec, stuck: 3d }}
  In Progress: {{ stage: build, stuck: 2d }}
  In Review: {{ stage: review, stuck: 2d }}
  Done: {{ stage: done }}
  Canceled: {{ stage: done }}
terminal: [Done, Canceled]
ready:
  checklist:
    - The ticket says what has to be different afterwards.
    - It is clear how that will be tested.
may: [comment, start workers]
models:
  steward: {steward}
  worker: {worker}
  reviewer: {reviewer}
follow-through: 6h
---

# How a ticket is managed here

## Backlog

Leave it alone until somebody moves it to Todo.

## Todo

Read the ticket. Report each item of the ready gate that holds. Once leave to start workers is given, start one worker
with the command in your brief and a prompt that says what to change and how it is tested.

## In Progress

The worker builds. Answer its questions from the ticket and the guidance; do not build yourself.

## In Review

The reviewer and the checks have the word. When the worker says that it is done, check its evidence and report what the
ticket still waits for.

## Done

Make sure that nothing is left open, then report the state in one sentence.

## Canceled

Stop. Report why it was canceled in one sentence.
"#,
        steward = with.steward,
        worker = with.worker,
        reviewer = with.reviewer
    );
    BTreeMap::from([(PROJECT_FILE.to_owned(), project), (format!("{PLAYBOOKS}linear-tickets.md"), tickets)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_starting_points_parse_without_a_problem() {
        let files = starting_files(&Starting {
            team: "DEMO",
            steward: "claude/opus",
            worker: "claude",
            reviewer: "codex/gpt/high",
        });
        let config = Config::read(&Config::default(), "c0ffee", &files);
        assert_eq!(config.problems, []);
        assert_eq!(config.ticket_playbook().unwrap().ready.checklist.len(), 2);
    }

    #[test]
    fn a_file_that_stops_parsing_keeps_its_last_good_version() {
        let mut files = starting_files(&Starting { team: "DEMO", steward: "s", worker: "w", reviewer: "r" });
        let good = Config::read(&Config::default(), "one", &files);
        files.insert("stewards/playbooks/linear-tickets.md".into(), "---\nname: [\n---\n".into());
        files.insert("stewards/project.json".into(), "{".into());
        let next = Config::read(&good, "two", &files);
        assert_eq!(next.ticket_playbook(), good.ticket_playbook());
        assert_eq!(next.project, good.project);
        assert_eq!(next.problems.len(), 2);
        assert!(next.problems.iter().all(|p| p.fatal && p.line > 0));
    }
}
