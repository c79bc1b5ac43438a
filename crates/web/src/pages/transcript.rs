//! What a thread said and did, turn by turn. A turn is a region of its own, so
//! that text which arrives redraws one turn and not the whole thread.

use super::draw::Region;
use super::parts::when;
use jiff::Timestamp;
use maud::{Markup, html};
use stewards_core::ids::ThreadId;
use stewards_core::ports::TurnEvent;
use stewards_core::text::{cut, one_line};
use stewards_core::threads::{Sender, Tokens};
use stewards_store::{MessageRow, Reader, StoreError, TranscriptLine};

/// Lines read at once.
const BATCH: u32 = 1_000;
/// Lines of a thread that are shown; the oldest ones go first.
const SHOWN: usize = 5_000;
/// The list on the page that turns are appended to.
pub(super) const LIST: &str = "turns";

/// The lines read so far. A stream keeps one, so that only new lines are read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) all: Vec<TranscriptLine>,
    /// The newest line read.
    pub(super) last: i64,
    /// Older lines were left out.
    pub(super) shortened: bool,
}

impl Lines {
    /// Reads on from where it was; says whether there was anything new.
    pub(super) fn read(&mut self, reader: &Reader, thread: &ThreadId) -> Result<bool, StoreError> {
        let before = self.last;
        if before == 0 {
            // The end first: of a long thread nobody reads the beginning here.
            self.all = reader.transcript_end(thread, SHOWN as u32 + 1)?;
            self.shortened = self.all.len() > SHOWN;
            self.all.drain(..self.all.len().saturating_sub(SHOWN));
            self.last = self.all.last().map_or(0, |l| l.id);
            return Ok(self.last != before);
        }
        loop {
            let more = reader.transcript(thread, self.last, BATCH)?;
            let whole = more.len() == BATCH as usize;
            if let Some(newest) = more.last() {
                self.last = newest.id;
            }
            self.all.extend(more);
            if self.all.len() > SHOWN {
                self.all.drain(..self.all.len() - SHOWN);
                self.shortened = true;
            }
            if !whole {
                return Ok(self.last != before);
            }
        }
    }
}

/// A piece of a turn, with what belongs together put together.
enum Piece {
    Said(String),
    Tool { id: String, title: String, result: Option<(bool, String)> },
    Used(Tokens),
    Compacted { before: Option<u64>, after: Option<u64> },
}

struct Turn<'a> {
    id: &'a str,
    at: i64,
    pieces: Vec<Piece>,
}

fn turns(lines: &[TranscriptLine]) -> Vec<Turn<'_>> {
    let mut all: Vec<Turn<'_>> = Vec::new();
    for line in lines {
        if all.last().is_none_or(|t| t.id != line.turn) {
            all.push(Turn { id: &line.turn, at: line.at, pieces: Vec::new() });
        }
        // A line of a form that this build does not know is passed over.
        if let (Some(turn), Ok(event)) = (all.last_mut(), serde_json::from_value(line.body.clone())) {
            add(&mut turn.pieces, event);
        }
    }
    all
}

fn add(pieces: &mut Vec<Piece>, event: TurnEvent) {
    match event {
        TurnEvent::Confirmed { .. } | TurnEvent::Context(_) | TurnEvent::Asks(_) | TurnEvent::Unasks { .. } => {}
        TurnEvent::Compacted { before, after } => pieces.push(Piece::Compacted { before, after }),
        // Text comes in crumbs; a paragraph is read whole.
        TurnEvent::Text { text } => match pieces.last_mut() {
            Some(Piece::Said(said)) => said.push_str(&text),
            _ => pieces.push(Piece::Said(text)),
        },
        TurnEvent::ToolCall { id, title } => {
            let again = pieces.iter_mut().rev().find_map(|p| match p {
                Piece::Tool { id: of, title, result: None } if *of == id => Some(title),
                _ => None,
            });
            match again {
                Some(old) => *old = title,
                None => pieces.push(Piece::Tool { id, title, result: None }),
            }
        }
        TurnEvent::ToolResult { id, ok, text } => {
            let open = pieces.iter_mut().rev().find_map(|p| match p {
                Piece::Tool { id: of, result, .. } if *of == id => Some(result),
                _ => None,
            });
            match open {
                Some(result) => *result = Some((ok, text)),
                None => pieces.push(Piece::Tool {
                    id,
                    title: "a tool whose call was not seen".into(),
                    result: Some((ok, text)),
                }),
            }
        }
        TurnEvent::Usage(tokens) => pieces.push(Piece::Used(tokens)),
    }
}

/// A region for each turn, with the messages that began it.
pub(super) fn regions(lines: &[TranscriptLine], messages: &[MessageRow], live: Option<&str>) -> Vec<Region> {
    let mut shown = turns(lines);
    // A turn that has its messages and no word yet is there already.
    if let Some(id) = live.filter(|id| shown.iter().all(|t| t.id != *id)) {
        let at = messages.iter().filter(|m| m.turn.as_deref() == Some(id)).map(|m| m.at).max().unwrap_or_default();
        shown.push(Turn { id, at, pieces: Vec::new() });
    }
    shown
        .iter()
        .map(|t| {
            let began: Vec<&MessageRow> = messages.iter().filter(|m| m.turn.as_deref() == Some(t.id)).collect();
            Region::listed(t.id.to_owned(), "turn", LIST, turn(t, &began, live == Some(t.id)))
        })
        .collect()
}

fn turn(t: &Turn<'_>, began: &[&MessageRow], live: bool) -> Markup {
    let at = Timestamp::from_millisecond(t.at).unwrap_or_default();
    html! {
        h3 {
            (t.id) " " (when(at, "%m-%d %H:%M:%S"))
            @if live { " " span.glyph.small.running role="img" aria-label="at work" {} }
        }
        @for m in began { (message(m)) }
        @for piece in &t.pieces { (self::piece(piece, live)) }
        @if t.pieces.is_empty() { p.none { "No word yet." } }
    }
}

fn piece(piece: &Piece, live: bool) -> Markup {
    html! {
        @match piece {
            Piece::Said(text) => p.said { (text.trim_end()) },
            Piece::Tool { title, result, .. } => details.tool {
                summary {
                    span.what { (one_line(title)) }
                    @match result {
                        Some((true, _)) => span.ok { "done" },
                        Some((false, _)) => span.bad { "failed" },
                        None if live => span { "running" },
                        None => span { "no result" },
                    }
                }
                @match result {
                    Some((_, text)) if !text.trim().is_empty() => pre tabindex="0" { (text) },
                    Some(_) => p.none { "It said nothing." },
                    None => p.none { "It has said nothing yet." },
                }
            },
            Piece::Used(tokens) => p.used { (self::tokens(*tokens)) },
            Piece::Compacted { before, after } => p.used {
                "Its context was compacted"
                @if let Some(before) = before { " from " (grouped(*before)) }
                @if let Some(after) = after { " to " (grouped(*after)) }
                "."
            },
        }
    }
}

/// What was counted, marked where it is only an estimate.
pub(super) fn tokens(t: Tokens) -> Markup {
    html! {
        (grouped(t.input)) " in, " (grouped(t.output)) " out"
        @if t.estimated { " " span.estimate title="The agent does not count; this is worked out from the text." { "estimated" } }
    }
}

pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A message with its receipt: how far it has come.
pub(super) fn message(m: &MessageRow) -> Markup {
    let from = match &m.sender {
        Sender::Person => "you",
        Sender::Thread { id } => id.as_str(),
        Sender::System => "stewards",
    };
    let class = match m.state.as_str() {
        "failed" | "unknown" => "bad",
        "consumed" => "ok",
        _ => "",
    };
    html! {
        details.message id=(m.id) {
            summary {
                span.from { (m.cause) " from " (from) }
                span.what { (cut(&one_line(&m.text), 120)) }
                span.receipt class=(class) { (m.state) }
            }
            pre tabindex="0" { (m.text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(id: i64, turn: &str, body: serde_json::Value) -> TranscriptLine {
        TranscriptLine { id, turn: turn.into(), at: 0, body }
    }

    #[test]
    fn crumbs_of_text_are_one_paragraph_and_a_result_joins_its_call() {
        let lines = [
            line(1, "turn_1", json!({ "text": { "text": "Hel" } })),
            line(2, "turn_1", json!({ "text": { "text": "lo <script>" } })),
            line(3, "turn_1", json!({ "tool_call": { "id": "a", "title": "run" } })),
            line(4, "turn_1", json!({ "tool_result": { "id": "a", "ok": true, "text": "<b>" } })),
            line(5, "turn_2", json!({ "something_new": {} })),
        ];
        let drawn = regions(&lines, &[], None);
        assert_eq!(drawn.len(), 2);
        assert!(drawn[0].html.contains("Hello &lt;script&gt;"), "{}", drawn[0].html);
        assert!(drawn[0].html.contains("&lt;b&gt;") && drawn[0].html.matches("<details").count() == 1);
        assert!(drawn[1].html.contains("No word yet"));
    }

    #[test]
    fn a_live_turn_is_there_before_its_first_word() {
        let drawn = regions(&[], &[], Some("turn_9"));
        assert_eq!((drawn.len(), drawn[0].id.as_str()), (1, "turn_9"));
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(12), "12");
    }
}
