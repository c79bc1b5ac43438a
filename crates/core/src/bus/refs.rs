//! What a message is about (a ref) and what a claim holds (a resource): two
//! vocabularies.

use crate::entity::{PullKey, RepoName};
use crate::refusal::Refusal;

const REFS: [&str; 5] = ["task:", "pr:", "path:", "thread:", "store:"];
const RESOURCES: [&str; 6] = ["pr:", "task:", "branch:", "path:", "store:", "thread:"];
const STORES: [&str; 3] = ["memory", "tasks", "bus"];

fn split<'a>(what: &str, value: &'a str, prefixes: &[&'static str]) -> Result<(&'static str, &'a str), Refusal> {
    let Some(prefix) = prefixes.iter().find(|p| value.starts_with(**p)) else {
        return Err(Refusal::usage(
            "bad_ref",
            format!("`{value}` is not a {what}"),
            format!("a {what} begins with one of {}", prefixes.join(" ")),
        ));
    };
    let rest = &value[prefix.len()..];
    if rest.trim().is_empty() {
        return Err(Refusal::usage(
            "empty_ref",
            format!("`{value}` names nothing"),
            format!("write something after `{prefix}`"),
        ));
    }
    Ok((prefix, rest))
}

/// A pull by number in `home`, or by `owner/repo#number`. `007` is `7`.
fn pull(value: &str, rest: &str, home: &RepoName) -> Result<PullKey, Refusal> {
    let bare = || rest.parse::<u64>().ok().filter(|n| *n > 0);
    let key = match bare() {
        Some(number) => Some(PullKey { repo: home.clone(), number }),
        None => PullKey::parse(rest),
    };
    key.ok_or_else(|| {
        Refusal::usage(
            "bad_pr",
            format!("`{value}` is not a pull request"),
            "write pr:<number> or pr:<owner>/<repo>#<number>",
        )
    })
}

fn store(value: &str, rest: &str) -> Result<(), Refusal> {
    if STORES.contains(&rest) {
        return Ok(());
    }
    Err(Refusal::usage("bad_store", format!("`{value}` is not a store"), "stores are memory, tasks and bus"))
}

/// Checks a ref. `forced` is the prefix that the kind wants.
pub fn check_ref(value: &str, home: &RepoName, forced: Option<&str>) -> Result<(), Refusal> {
    let (prefix, rest) = split("ref", value, &REFS)?;
    match prefix {
        "pr:" => {
            pull(value, rest, home)?;
        }
        "store:" => store(value, rest)?,
        _ => {}
    }
    if let Some(forced) = forced
        && prefix != forced
    {
        return Err(Refusal::usage(
            "wrong_ref",
            format!("`{value}` is no `{forced}` ref"),
            format!("this kind wants one: {forced}<number>"),
        ));
    }
    Ok(())
}

/// The complete key that two claims collide on: a pull, branch or path carries
/// its repository, so two projects never collide and two spellings of one
/// thing do.
pub fn claim_key(value: &str, home: &RepoName) -> Result<String, Refusal> {
    let (prefix, rest) = split("resource", value, &RESOURCES)?;
    Ok(match prefix {
        "pr:" => {
            let key = pull(value, rest, home)?;
            format!("pr:{}#{}", key.repo.folded(), key.number)
        }
        "store:" => {
            store(value, rest)?;
            value.to_owned()
        }
        "branch:" => {
            let (repo, name) = qualified(rest, home);
            format!("branch:{}:{name}", repo.folded())
        }
        "path:" => {
            let (repo, rest) = qualified(rest, home);
            format!("path:{}:{}", repo.folded(), path(value, rest)?)
        }
        // Trackers know their keys in either case.
        "task:" => format!("task:{}", rest.to_ascii_uppercase()),
        _ => value.to_owned(),
    })
}

/// What a ref is about, in the one spelling by which the log finds it.
pub fn about(value: &str, home: &RepoName) -> String {
    claim_key(value.trim(), home).unwrap_or_else(|_| value.trim().to_owned())
}

/// What stands before a colon is the repository, where it can be one.
fn qualified<'a>(rest: &'a str, home: &RepoName) -> (RepoName, &'a str) {
    let named = rest.split_once(':').and_then(|(repo, tail)| Some((RepoName::parse(repo)?, tail)));
    named.unwrap_or_else(|| (home.clone(), rest))
}

/// A path in the repository, without `.` and empty segments.
fn path(value: &str, rest: &str) -> Result<String, Refusal> {
    let mut parts = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                return Err(Refusal::usage(
                    "bad_path",
                    format!("`{value}` climbs with `..`"),
                    "write the path from the repository's root",
                ));
            }
            part => parts.push(part),
        }
    }
    if rest.starts_with('/') || parts.is_empty() {
        return Err(Refusal::usage(
            "bad_path",
            format!("`{value}` is no path in the repository"),
            "write it from the repository's root, without a leading /",
        ));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_one_pull_are_one_key() {
        let home = RepoName("Acme/Shop".into());
        for spelled in ["pr:7", "pr:007", "pr:acme/shop#7", "pr:ACME/Shop#7"] {
            assert_eq!(claim_key(spelled, &home).unwrap(), "pr:acme/shop#7");
        }
        assert_ne!(claim_key("pr:7", &RepoName("acme/other".into())).unwrap(), "pr:acme/shop#7");
        assert_eq!(claim_key("path:./src//a/", &home).unwrap(), "path:acme/shop:src/a");
        assert_eq!(claim_key("path:Acme/Shop:src/a", &RepoName("acme/other".into())).unwrap(), "path:acme/shop:src/a");
        assert_eq!(claim_key("branch:acme/shop:x/y", &RepoName("acme/other".into())).unwrap(), "branch:acme/shop:x/y");
    }

    #[test]
    fn what_is_not_in_the_vocabulary_is_refused_by_name() {
        let home = RepoName("acme/shop".into());
        for (value, code) in [
            ("pull:7", "bad_ref"),
            ("pr:", "empty_ref"),
            ("pr:x", "bad_pr"),
            ("store:x", "bad_store"),
            ("path:../x", "bad_path"),
            ("pr:0", "bad_pr"),
        ] {
            assert_eq!(claim_key(value, &home).unwrap_err().code, code, "{value}");
        }
        assert_eq!(check_ref("branch:x", &home, None).unwrap_err().code, "bad_ref");
        assert_eq!(check_ref("task:X-1", &home, Some("pr:")).unwrap_err().code, "wrong_ref");
    }
}
