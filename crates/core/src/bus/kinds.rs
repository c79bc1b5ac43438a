//! The kind table. Verbs, help, validation and refusals are derived from it: a
//! new kind is one row and a test.

use crate::refusal::Refusal;

/// Whether a message may interrupt a live turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Steers a live turn where the agent can be steered.
    Immediate,
    /// Waits for the end of a live turn.
    Queue,
}

/// One kind of message.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    /// Required fields in order, `ref` and `ack_of` among them. There are no others.
    pub fields: &'static [&'static str],
    /// The addressee owes an ack.
    pub ack: bool,
    pub wake: Wake,
    /// The prefix that the ref must have, where the kind forces one.
    pub ref_prefix: Option<&'static str>,
    /// Fields with a closed set of values.
    pub choices: &'static [(&'static str, &'static [&'static str])],
}

impl Kind {
    /// `a note`, `an ack`.
    pub fn with_article(&self) -> String {
        let vowel = self.name.starts_with(['a', 'e', 'i', 'o', 'u']);
        format!("{} {}", if vowel { "an" } else { "a" }, self.name)
    }
}

const fn row(name: &'static str, fields: &'static [&'static str], ack: bool, wake: Wake) -> Kind {
    Kind { name, fields, ack, wake, ref_prefix: None, choices: &[] }
}

pub const KINDS: [Kind; 12] = [
    row("claim", &["resource", "ttl", "reason"], false, Wake::Immediate),
    row("release", &["resource"], false, Wake::Queue),
    row("handoff", &["ref", "done", "next"], true, Wake::Immediate),
    row("help", &["ref", "blocked_on"], true, Wake::Immediate),
    Kind { ref_prefix: Some("pr:"), ..row("merge-ready", &["ref", "gate"], true, Wake::Immediate) },
    row("question", &["ref", "ask"], true, Wake::Immediate),
    Kind {
        choices: &[("status", &["working", "blocked", "done"])],
        ..row("report", &["ref", "status", "next"], false, Wake::Queue)
    },
    row("done", &["ref", "evidence"], false, Wake::Queue),
    row("decision", &["ref", "ruling", "by"], false, Wake::Queue),
    row("finding", &["ref", "what", "filed"], false, Wake::Queue),
    row("ack", &["ack_of", "answer"], false, Wake::Queue),
    row("note", &[], false, Wake::Queue),
];

/// Exact and case-sensitive.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.name == name)
}

/// The kind, or a refusal that lists them.
pub fn known_kind(name: &str) -> Result<&'static Kind, Refusal> {
    kind(name).ok_or_else(|| {
        let all: Vec<_> = KINDS.iter().map(|k| k.name).collect();
        let says = format!("`{name}` is no kind of message");
        Refusal::usage("unknown_kind", says, format!("kinds are {}", all.join(", ")))
    })
}

/// `report: ref, status (working|blocked|done), next`.
pub fn schema_line(kind: &Kind) -> String {
    if kind.fields.is_empty() {
        return format!("{}: no fields, body only", kind.name);
    }
    let fields: Vec<String> = kind
        .fields
        .iter()
        .map(|f| match kind.choices.iter().find(|(name, _)| name == f) {
            Some((_, set)) => format!("{f} ({})", set.join("|")),
            None => (*f).to_owned(),
        })
        .collect();
    format!("{}: {}", kind.name, fields.join(", "))
}

/// The table for documents, as Markdown: `docs/bus.md` has it word for word.
pub fn table() -> String {
    let mut text =
        String::from("| kind | fields, all of them | owes an ack | goes into a live turn |\n|---|---|---|---|\n");
    for kind in &KINDS {
        let line = schema_line(kind);
        let fields = line.split_once(": ").map_or("", |(_, fields)| fields).replace('|', "\\|");
        let forced = kind.ref_prefix.map(|p| format!("; its ref is a `{p}`")).unwrap_or_default();
        let yes = |so: bool| if so { "yes" } else { "" };
        text.push_str(&format!(
            "| `{}` | {fields}{forced} | {} | {} |\n",
            kind.name,
            yes(kind.ack),
            yes(kind.wake == Wake::Immediate)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_owed_for_four_kinds_and_five_interrupt() {
        let acks: Vec<_> = KINDS.iter().filter(|k| k.ack).map(|k| k.name).collect();
        assert_eq!(acks, ["handoff", "help", "merge-ready", "question"]);
        let immediate: Vec<_> = KINDS.iter().filter(|k| k.wake == Wake::Immediate).map(|k| k.name).collect();
        assert_eq!(immediate, ["claim", "handoff", "help", "merge-ready", "question"]);
    }

    #[test]
    fn the_schema_line_names_the_closed_sets() {
        assert_eq!(schema_line(kind("report").unwrap()), "report: ref, status (working|blocked|done), next");
        assert_eq!(schema_line(kind("note").unwrap()), "note: no fields, body only");
        assert!(kind("Handoff").is_none() && kind("merge_ready").is_none());
    }
}
