//! What belongs to a pull beside its own answer: files, comments on lines, and the issues
//! that it closes.

use crate::github::GitHub;
use crate::github_http::Failed;
use crate::github_wire::{self as wire, FileBody, InlineBody};
use stewards_core::entity::PullKey;
use stewards_core::snapshot::{ChangedFile, Inline};
use stewards_core::trouble::Trouble;

/// Of a pull with more files only so many are read.
const MAX_FILES: usize = 300;

impl GitHub {
    /// Comments on lines; `None` where the login may not read them.
    pub(crate) async fn inline(&self, key: &PullKey, viewer: &str) -> Result<Option<Vec<Inline>>, Trouble> {
        let url = self.rest().repo_url(&key.repo, &["pulls", &key.number.to_string(), "comments"])?;
        let read = readable(self.rest().pages::<Vec<InlineBody>>(url).await)?;
        let inline = |body: InlineBody| wire::inline(body, viewer);
        Ok(read.map(|pages| {
            let mut all: Vec<Inline> = pages.into_iter().flatten().map(inline).collect();
            all.sort_by_key(|c| c.comment.at);
            all
        }))
    }

    /// The files that it changes, the first three hundred; `None` where the login may not
    /// read them.
    pub(crate) async fn files(&self, key: &PullKey) -> Result<Option<Vec<ChangedFile>>, Trouble> {
        let url = self.rest().repo_url(&key.repo, &["pulls", &key.number.to_string(), "files"])?;
        let read = readable(self.rest().first_pages::<Vec<FileBody>>(url, MAX_FILES / 100).await)?;
        Ok(read.map(|pages| pages.into_iter().flatten().filter_map(wire::file).collect()))
    }
}

/// Parts that the login may not read are missing from a pull, not the pull.
pub(crate) fn readable<T>(read: Result<T, Failed>) -> Result<Option<T>, Trouble> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Failed { status: Some(403 | 404), trouble: Trouble::Unauthorized { .. } | Trouble::Gone { .. } }) => {
            Ok(None)
        }
        Err(failed) => Err(failed.trouble),
    }
}

/// The issues that a description says it closes, as `owner/name#7`: after close, fix or
/// resolve in any of their forms, by number, by name or by address.
pub(crate) fn closes(key: &PullKey, text: &str) -> Vec<String> {
    const WORDS: [&str; 9] = ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];
    let mut found = Vec::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let word = pair[0].trim_end_matches(':').trim_start_matches(|c: char| !c.is_alphanumeric());
        if !WORDS.contains(&word.to_ascii_lowercase().as_str()) {
            continue;
        }
        let named = pair[1].trim_end_matches(|c: char| !c.is_ascii_digit());
        let issue = match named.split_once("://") {
            Some((_, rest)) => {
                let parts: Vec<&str> = rest.split('/').collect();
                match parts.as_slice() {
                    [.., owner, name, "issues", number] => PullKey::parse(&format!("{owner}/{name}#{number}")),
                    _ => None,
                }
            }
            None => match named.strip_prefix('#') {
                Some(number) => PullKey::parse(&format!("{}#{number}", key.repo)),
                None => PullKey::parse(named),
            },
        };
        found.extend(issue.map(|i| i.to_string()));
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issues_that_a_description_closes_are_found_by_their_words() {
        let key = PullKey::parse("o/r#7").unwrap();
        let text = "Fixes #12, and (closes: o/other#3).\nResolved https://github.com/a/b/issues/9. Closing #1, fix 5; \
                    prefix #4, fixes #x, closes";
        assert_eq!(closes(&key, text), ["a/b#9", "o/other#3", "o/r#12"]);
        assert!(closes(&key, "").is_empty());
    }
}
