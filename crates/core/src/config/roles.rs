//! `.bb/stewards/roles.json`: which login's server runs what.

use super::{Problem, ROLES_FILE};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GitHub login → what that login's server runs. Every server runs its own entry and no other.
pub type Roles = BTreeMap<String, Role>;

/// One login's entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Role {
    pub project_steward: bool,
    pub ops: Option<Ops>,
}

/// What is watched as the login's owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ops {
    pub k8s_namespaces: Vec<String>,
    /// The kubeconfig context; the current one where it is absent.
    pub context: Option<String>,
    /// The key of the team in which problems are filed; the project's first where it is absent.
    pub team: Option<String>,
    /// Priorities whose tickets are labelled as they are filed.
    pub auto_adopt: Vec<Priority>,
    pub sentry: Option<Sentry>,
    pub dependabot: Option<Alerts>,
}

/// Linear's five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Urgent,
    High,
    Medium,
    Low,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sentry {
    pub projects: Vec<SentryProject>,
    /// Whether an issue is resolved there once its ticket is done.
    #[serde(default)]
    pub resolve_on_done: bool,
}

/// Slugs, as they stand in Sentry's addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentryProject {
    pub org: String,
    pub project: String,
}

/// Repositories whose Dependabot alerts are watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`dependabot` must be \"all\" or a list of repositories")]
pub enum Alerts {
    Word(All),
    Repos(Vec<String>),
}

/// The word for all of the project's repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum All {
    #[serde(rename = "all")]
    All,
}

/// Reads the file. A mistake refuses it whole: half a role could leave a watch unrun.
pub fn parse(text: &str) -> Result<Roles, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bad = |line: usize, says: String| Problem { file: ROLES_FILE.into(), line, says, fatal: true };
    let roles: Roles = serde_json::from_str(text).map_err(|e| bad(e.line(), e.to_string()))?;
    let mut seen = BTreeMap::new();
    for login in roles.keys() {
        // GitHub takes a login in any case for the same.
        if let Some(other) = seen.insert(login.to_ascii_lowercase(), login) {
            return Err(bad(line_of(text, login), format!("`{login}` and `{other}` are the same login")));
        }
    }
    Ok(roles)
}

/// What is wrong between the entries, and with the project's teams. `text` is the file.
pub(super) fn advice(roles: &Roles, text: &str, teams: &[String]) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |word: &str, says: String, fatal: bool| {
        found.push(Problem { file: ROLES_FILE.into(), line: line_of(text, word), says, fatal });
    };
    let mut watches: BTreeMap<String, &str> = BTreeMap::new();
    for (login, role) in roles {
        let Some(ops) = &role.ops else { continue };
        if let Some(team) = ops.team.as_ref().filter(|t| !teams.iter().any(|k| k.eq_ignore_ascii_case(t))) {
            let says = format!("the team {team} of {login} is none of the project's: {}", teams.join(", "));
            say(team, says, true);
        }
        for (word, watch) in ops.watches() {
            if let Some(other) = watches.insert(watch.clone(), login) {
                say(&word, format!("{other} and {login} both watch {watch}: each problem would be filed twice"), false);
            }
        }
    }
    let leads: Vec<&str> = roles.iter().filter(|(_, r)| r.project_steward).map(|(login, _)| login.as_str()).collect();
    match leads[..] {
        [_] => {}
        [] => say("", "no login has `projectSteward`: escalations would reach no project steward".into(), false),
        [_, second, ..] => {
            say(second, format!("{} all have `projectSteward`: one login runs it", leads.join(", ")), false);
        }
    }
    say("", "roles are read, but this version does not act on them yet".into(), false);
    found
}

impl Ops {
    /// Everything that is watched: the word in the file, and its name among all watches.
    fn watches(&self) -> Vec<(String, String)> {
        let context = self.context.as_deref().map_or(String::new(), |c| format!(" of {c}"));
        let spaces = self.k8s_namespaces.iter().map(|n| (n.clone(), format!("the namespace {n}{context}")));
        let sentry = self.sentry.iter().flat_map(|s| &s.projects);
        let sentry = sentry.map(|p| (p.project.clone(), format!("the Sentry project {}/{}", p.org, p.project)));
        let repos = match &self.dependabot {
            Some(Alerts::Repos(repos)) => repos.clone(),
            Some(Alerts::Word(All::All)) => vec!["all".to_owned()],
            None => Vec::new(),
        };
        let alerts = repos.into_iter().map(|r| (r.clone(), format!("the alerts of {r}")));
        spaces.chain(sentry).chain(alerts).collect()
    }
}

/// The line of a word in quotes, from 1; 0 for no word or where it is not found.
fn line_of(text: &str, word: &str) -> usize {
    let quoted = format!("\"{word}\"");
    text.lines().position(|l| !word.is_empty() && l.contains(&quoted)).map_or(0, |n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_whole_and_a_mistake_has_its_line() {
        let text = r#"{"ann": {"projectSteward": true, "ops": {
            "k8sNamespaces": ["web"], "context": "prod", "team": "OPS", "autoAdopt": ["urgent", "high"],
            "sentry": {"projects": [{"org": "acme", "project": "api"}], "resolveOnDone": true},
            "dependabot": "all"}}, "bob": {}}"#;
        let roles = parse(text).unwrap();
        let ops = roles["ann"].ops.as_ref().unwrap();
        assert!(roles["ann"].project_steward && !roles["bob"].project_steward);
        assert_eq!((ops.dependabot.as_ref(), ops.auto_adopt.len()), (Some(&Alerts::Word(All::All)), 2));
        for (bad, says) in [
            ("{\n \"ann\": {\"ops\": {\"k8sNamespace\": []}}\n}", "k8sNamespace"),
            ("{\n \"ann\": {\"ops\": {\"dependabot\": \"some\"}}\n}", "must be \"all\""),
            ("{\n \"ann\": {\"ops\": {\"autoAdopt\": [\"mild\"]}}\n}", "mild"),
            ("{\n \"ann\": {\"projectSteward\": \"yes\"}\n}", "yes"),
        ] {
            let problem = parse(bad).unwrap_err();
            assert!(problem.fatal && problem.line == 2 && problem.says.contains(says), "{problem}");
        }
        assert!(parse("{\"Ann\": {}, \"ann\": {}}").unwrap_err().says.contains("same login"));
        assert!(parse("[]").is_err());
    }

    #[test]
    fn two_logins_on_one_watch_and_a_foreign_team_are_told() {
        let text = "{\n \"ann\": {\"projectSteward\": true, \"ops\": {\"k8sNamespaces\": [\"web\"], \"team\": \"X\"}},\n \
                    \"bob\": {\"projectSteward\": true, \"ops\": {\"k8sNamespaces\": [\"api\", \"web\"]}}\n}";
        let found = advice(&parse(text).unwrap(), text, &["DEMO".into()]);
        let says: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found[0].fatal && found[0].line == 2 && says[0].contains("DEMO"), "{says:?}");
        assert!(says[1].contains("ann and bob both watch the namespace web"), "{says:?}");
        assert!(found[2].line == 3 && says[2].contains("one login runs it"), "{says:?}");
        let none = advice(&parse("{}").unwrap(), "{}", &[]);
        assert!(none[0].says.contains("no login"), "{none:?}");
        let other = "{\"ann\": {\"projectSteward\": true, \"ops\": {\"k8sNamespaces\": [\"web\"], \"context\": \"a\"}},\
                     \"bob\": {\"ops\": {\"k8sNamespaces\": [\"web\"], \"context\": \"b\"}}}";
        assert_eq!(advice(&parse(other).unwrap(), other, &[]).len(), 1, "a namespace of another cluster is another");
    }
}
