//! Where things live and what is watched.

use crate::ids::BindingId;
use crate::text;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A repository on the pull requests' host: `owner/name`.
///
/// Compared without regard to case, as GitHub does; kept as it was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RepoName(pub String);

impl RepoName {
    /// Reads `owner/name`; both parts of letters, digits, `_`, `.`, `-`.
    pub fn parse(text: &str) -> Option<RepoName> {
        let (owner, name) = text.split_once('/')?;
        let fine = |p: &str| {
            !p.is_empty() && p != "." && p != ".." && p.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        };
        (fine(owner) && fine(name)).then(|| RepoName(text.to_owned()))
    }

    /// The last two parts of what `git clone` takes: of an https or ssh address, or of a path.
    pub fn of_remote(remote: &str) -> Option<RepoName> {
        let path = remote.trim().trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let mut parts = path.rsplit(['/', ':']);
        let (name, owner) = (parts.next()?, parts.next()?);
        RepoName::parse(&format!("{owner}/{name}"))
    }

    pub fn owner(&self) -> &str {
        self.0.split('/').next().unwrap_or("")
    }

    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The form that two spellings share.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for RepoName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}
impl Eq for RepoName {}
impl PartialOrd for RepoName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for RepoName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.folded().cmp(&other.folded())
    }
}
impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pull request: `owner/name#7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PullKey {
    pub repo: RepoName,
    /// From 1.
    pub number: u64,
}

impl PullKey {
    /// Reads `owner/name#7`.
    pub fn parse(text: &str) -> Option<PullKey> {
        let (repo, number) = text.split_once('#')?;
        let number: u64 = number.parse().ok().filter(|n| *n > 0)?;
        Some(PullKey { repo: RepoName::parse(repo)?, number })
    }
}

impl fmt::Display for PullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

/// The thing watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entity {
    /// A Linear issue, by its UUID: the readable identifier changes when the
    /// issue moves to another team.
    Ticket { uuid: String },
    /// A pull request.
    Pull(PullKey),
}

impl Entity {
    pub fn kind(&self) -> &'static str {
        match self {
            Entity::Ticket { .. } => "ticket",
            Entity::Pull(_) => "pull",
        }
    }

    /// The same for every spelling of one entity.
    pub fn canonical(&self) -> String {
        match self {
            Entity::Ticket { uuid } => format!("linear:{}", uuid.to_ascii_lowercase()),
            Entity::Pull(pull) => format!("github:{}#{}", pull.repo.folded(), pull.number),
        }
    }

    pub fn binding(&self) -> BindingId {
        BindingId(format!("{}_{}", BindingId::PREFIX, &text::hash(&self.canonical())[..12]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_by_the_end_of_its_remote() {
        let of = |remote: &str| RepoName::of_remote(remote).map(|r| r.0);
        for remote in [
            "https://github.com/acme/shop.git",
            "git@github.com:acme/shop.git",
            "ssh://git@host:22/acme/shop/",
            "/srv/acme/shop",
        ] {
            assert_eq!(of(remote).as_deref(), Some("acme/shop"), "{remote}");
        }
        assert_eq!(of("shop.git"), None);
    }
}
