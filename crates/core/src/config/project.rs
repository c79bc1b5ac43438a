//! `.bb/stewards/project.json`.

use super::{PROJECT_FILE, Problem};
use crate::threads::ModelName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The conventions of one project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    /// Keys of the Linear teams whose tickets may be adopted.
    pub teams: Vec<String>,
    /// The label that puts an entity under a steward's care.
    pub label: String,
    /// Kind → file name below `playbooks/`.
    pub playbooks: BTreeMap<String, String>,
    /// Adoptions per pass, at least 1.
    pub per_pass: usize,
    /// Shown in every approval and brief.
    pub standing_rules: Vec<String>,
    /// provider/model/level of the project steward.
    #[serde(default)]
    pub steward_model: Option<ModelName>,
    /// A sentence added to the Merged comment.
    pub restart_note: Option<String>,
}

const KEYS: [&str; 15] = [
    "$schema",
    "linear",
    "label",
    "github",
    "zone",
    "nightly",
    "playbooks",
    "reviews",
    "adoption",
    "bigDecisions",
    "standingRules",
    "lessons",
    "deps",
    "projectSteward",
    "restartNote",
];

/// Keys whose behaviour this version does not have yet.
const LATER: [&str; 6] = ["zone", "nightly", "reviews", "bigDecisions", "lessons", "deps"];

impl ProjectFile {
    /// Reads the file; an unknown key is a problem line, a wrong type refuses the file.
    pub fn parse(text: &str) -> Result<(ProjectFile, Vec<Problem>), Problem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let bad = |line: usize, says: String| Problem { file: PROJECT_FILE.into(), line, says, fatal: true };
        let value: Value = serde_json::from_str(text).map_err(|e| bad(e.line(), e.to_string()))?;
        let Value::Object(map) = value else {
            return Err(bad(1, "the file must be one JSON object".into()));
        };
        let mut advice = Vec::new();
        for key in map.keys() {
            let line = line_of(text, key);
            if !KEYS.contains(&key.as_str()) {
                let says = format!("unknown key `{key}`; known are {}", KEYS.join(", "));
                advice.push(Problem { file: PROJECT_FILE.into(), line, says, fatal: false });
            } else if LATER.contains(&key.as_str()) {
                let says = format!("`{key}` is read, but this version does not act on it yet");
                advice.push(Problem { file: PROJECT_FILE.into(), line, says, fatal: false });
            }
        }
        let at = |key: &str, says: &str| bad(line_of(text, key), format!("`{key}` {says}"));
        let teams = match map.get("linear").map(|l| l.get("teams")) {
            None => Vec::new(),
            Some(teams) => strings(teams).ok_or_else(|| at("linear", "needs `teams`, a list of team keys"))?,
        };
        let label = match map.get("label") {
            None => "bb-managed".to_owned(),
            Some(Value::String(s)) if !s.trim().is_empty() => s.clone(),
            Some(_) => return Err(at("label", "must be a name")),
        };
        let playbooks = match map.get("playbooks") {
            None => BTreeMap::new(),
            Some(v) => {
                serde_json::from_value(v.clone()).map_err(|_| at("playbooks", "must map a kind to a file name"))?
            }
        };
        let per_pass = match map.get("adoption").map(|a| a.get("perPass")) {
            None | Some(None) => 10,
            Some(Some(n)) => n
                .as_u64()
                .filter(|n| *n > 0)
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| at("adoption", "needs `perPass` as a number from 1"))?,
        };
        let standing_rules = match map.get("standingRules") {
            None => Vec::new(),
            some => strings(some).ok_or_else(|| at("standingRules", "must be a list of sentences"))?,
        };
        let steward_model = match map.get("projectSteward").map(|s| s.get("model")) {
            None => None,
            Some(model) => Some(
                model
                    .and_then(Value::as_str)
                    .and_then(|m| ModelName::parse(m).ok())
                    .ok_or_else(|| at("projectSteward", "needs `model` as provider/model/level"))?,
            ),
        };
        let restart_note = match map.get("restartNote") {
            None | Some(Value::Null) => None,
            Some(Value::String(s)) => Some(s.clone()),
            Some(_) => return Err(at("restartNote", "must be a sentence")),
        };
        Ok((ProjectFile { teams, label, playbooks, per_pass, standing_rules, steward_model, restart_note }, advice))
    }
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect()
}

/// The line of a key's first mention, from 1.
fn line_of(text: &str, key: &str) -> usize {
    let quoted = format!("\"{key}\"");
    text.lines().position(|l| l.contains(&quoted)).map_or(1, |n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_a_line_and_the_rest_counts() {
        let text = "{\n  \"linear\": {\"teams\": [\"DEMO\"]},\n  \"lable\": \"x\"\n}";
        let (file, advice) = ProjectFile::parse(text).unwrap();
        assert_eq!(file.teams, ["DEMO"]);
        assert_eq!(file.label, "bb-managed");
        assert_eq!(advice.len(), 1);
        assert_eq!(advice[0].line, 3);
        assert!(advice[0].says.contains("`lable`"));
    }

    #[test]
    fn a_wrong_type_refuses_the_file_with_its_line() {
        let text = "{\n  \"label\": \"x\",\n  \"linear\": {\"teams\": \"DEMO\"}\n}";
        let problem = ProjectFile::parse(text).unwrap_err();
        assert_eq!((problem.line, problem.fatal), (3, true));
        assert!(ProjectFile::parse("{\n  \"label\": ,\n}").unwrap_err().line == 2);
    }
}
