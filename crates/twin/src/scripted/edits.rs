//! The changes that a task asks for, in the one form that is understood here:
//! In `path`, replace `old` with `new`.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub path: String,
    pub old: String,
    pub new: String,
}

/// What a file says to a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The text to write.
    Change(String),
    /// It is done already.
    Done,
    /// Neither the old words nor the new ones are there.
    Missing,
}

/// All replacements of a text, in its order.
pub(super) fn edits(text: &str) -> Vec<Edit> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, after) = (&rest[..at], &rest[at..]);
        if last_word_is(before, "in")
            && let Some((edit, left)) = edit(after)
        {
            found.push(edit);
            rest = left;
        } else {
            rest = &after[1..];
        }
    }
    found
}

fn last_word_is(text: &str, word: &str) -> bool {
    text.ends_with(char::is_whitespace)
        && text
            .split(|c: char| !c.is_alphanumeric())
            .rfind(|w| !w.is_empty())
            .is_some_and(|w| w.eq_ignore_ascii_case(word))
}

fn edit(text: &str) -> Option<(Edit, &str)> {
    let (path, rest) = ticked(text)?;
    let rest = rest.trim_start();
    let rest = word(rest.strip_prefix(',').unwrap_or(rest), "replace")?;
    let (old, rest) = ticked(rest)?;
    let (new, rest) = ticked(word(rest, "with")?)?;
    let edit = Edit { path: path.to_owned(), old: old.to_owned(), new: new.to_owned() };
    (!old.is_empty()).then_some((edit, rest))
}

fn ticked(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('`')?.split_once('`')
}

fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

impl Edit {
    /// The file, if it lies in the working tree.
    pub(super) fn file(&self, cwd: &Path) -> Option<PathBuf> {
        let path = Path::new(&self.path);
        let inside = path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        inside.then(|| cwd.join(path))
    }

    /// What the replacement makes of a text. New words that hold the old ones
    /// are left alone, so that a second time changes nothing.
    pub(super) fn on(&self, text: &str) -> Found {
        let changed = if self.new.contains(&self.old) {
            let parts: Vec<String> = text.split(&self.new).map(|part| part.replace(&self.old, &self.new)).collect();
            parts.join(&self.new)
        } else {
            text.replace(&self.old, &self.new)
        };
        if changed != text {
            Found::Change(changed)
        } else if self.new.is_empty() || text.contains(&self.new) {
            Found::Done
        } else {
            Found::Missing
        }
    }
}

/// `(take 20 seconds)`: how long a task wants to take.
pub(super) fn pause(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("(take ")?;
    let (seconds, _) = rest.split_once(" second")?;
    seconds.trim().parse().ok().filter(|s| *s <= 3_600).map(Duration::from_secs)
}
