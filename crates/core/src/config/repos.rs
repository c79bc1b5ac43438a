//! `.bb/repos.json`: the further repositories of a project.

use super::Problem;
use crate::entity::RepoName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const REPOS_FILE: &str = "repos.json";

/// A repository of the project beside the primary one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherRepo {
    pub name: RepoName,
    /// What `git clone` takes.
    pub remote: String,
    /// The branch that work starts from, where it is not the default one.
    pub base: Option<String>,
}

/// Reads the file: a list, or an object with a list under `repos`. An entry is a
/// URL, or an object with `url` and perhaps `branch`; `dir`, by which others name a
/// directory for it, is of no use here and passed over.
pub fn parse(text: &str) -> Result<Vec<FurtherRepo>, Problem> {
    let bad = |line: usize, says: String| Problem { file: REPOS_FILE.into(), line, says, fatal: true };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text).map_err(|e| bad(e.line(), e.to_string()))?;
    let list = value.as_array().or_else(|| value.get("repos")?.as_array());
    let list = list.ok_or_else(|| bad(1, "must be a list of repositories, or have one under `repos`".into()))?;
    let mut all: Vec<FurtherRepo> = Vec::new();
    for entry in list {
        let no = |says: &str| bad(0, format!("{entry}: {says}"));
        let url = entry.as_str().or_else(|| entry.get("url")?.as_str()).map(str::trim);
        let remote = url.filter(|u| !u.is_empty()).ok_or_else(|| no("needs a `url`"))?;
        let name = RepoName::of_remote(remote).ok_or_else(|| no("its url names no owner and repository"))?;
        let base = match entry.get("branch") {
            None | Some(Value::Null) => None,
            Some(Value::String(branch)) if !branch.trim().is_empty() => Some(branch.trim().to_owned()),
            Some(_) => return Err(no("its `branch` must be a name")),
        };
        if let Some(key) =
            entry.as_object().and_then(|o| o.keys().find(|k| !["url", "branch", "dir"].contains(&k.as_str())))
        {
            return Err(no(&format!("`{key}` is none of url, branch and dir")));
        }
        if all.iter().any(|r| r.name == name) {
            return Err(no("is there twice"));
        }
        all.push(FurtherRepo { name, remote: remote.to_owned(), base });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_named_by_url_and_what_is_wrong_is_said() {
        let text = r#"{"repos": ["https://github.com/acme/api", {"url": "git@github.com:acme/docs.git", "branch": "next", "dir": "d"}]}"#;
        let all = parse(text).unwrap();
        assert_eq!((all[0].name.0.as_str(), all[0].base.as_deref()), ("acme/api", None));
        assert_eq!((all[1].name.0.as_str(), all[1].base.as_deref()), ("acme/docs", Some("next")));
        assert_eq!(parse("[]"), Ok(Vec::new()));
        for bad in [
            "{}",
            "[1]",
            "[\"x\"]",
            "[{\"url\": \"https://h/a/b\", \"branch\": 1}]",
            "[{\"url\": \"https://h/a/b\", \"brnch\": \"x\"}]",
            "[\"https://h/a/b\", \"https://h/A/b.git\"]",
        ] {
            assert!(parse(bad).unwrap_err().fatal, "{bad}");
        }
        assert_eq!(parse("[\n  x\n]").unwrap_err().line, 2);
    }
}
