//! Bus messages: as they stand in a prompt, and as the log lists them.

use serde_json::Value;

/// A typed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub seq: u64,
    pub kind: String,
    pub from: String,
    pub fields: Vec<(String, String)>,
}

impl Message {
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str())
    }

    /// The number of the pull request that it is about.
    pub(super) fn pull(&self) -> Option<u64> {
        let rest = self.field("ref").strip_prefix("pr:")?;
        rest.rsplit_once('#').map_or(rest, |(_, n)| n).parse().ok()
    }

    /// A review's end.
    pub(super) fn is_verdict(&self) -> bool {
        self.kind == "report" && self.field("status") == "done" && self.pull().is_some()
    }

    /// `[bus #4 done from thr_1 at 2026-…] ref="pr:7" evidence="…"`
    pub(super) fn header(line: &str) -> Option<Message> {
        let (head, mut rest) = line.strip_prefix("[bus #")?.split_once(']')?;
        let (head, _at) = head.rsplit_once(" at ")?;
        let (head, from) = head.split_once(" from ")?;
        let (seq, kind) = head.split_once(' ')?;
        let mut fields = Vec::new();
        while let Some((name, after)) = rest.trim_start().split_once('=') {
            let mut values = serde_json::Deserializer::from_str(after).into_iter::<String>();
            let Some(Ok(value)) = values.next() else { break };
            fields.push((name.to_owned(), value));
            rest = &after[values.byte_offset()..];
        }
        Some(Message { seq: seq.parse().ok()?, kind: kind.to_owned(), from: from.to_owned(), fields })
    }

    /// A row of `stewards bus log --json`.
    pub(super) fn row(row: &Value) -> Option<Message> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let fields = row["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
        Some(Message {
            seq: row["seq"].as_u64()?,
            kind: text(&row["kind"]),
            from: text(&row["from"]),
            fields: fields.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        })
    }
}
