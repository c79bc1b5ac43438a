//! Marks in text: who of us wrote it, and the reviewer's machine line.

use crate::text::one_line;
use serde::{Deserialize, Serialize};

const SIGNED: &str = "<!-- stewards:signed ";

/// Adds the line by which we know our own words again, whatever account posted
/// them. `who` is a thread, or `stewards` for the system; `marker` names the
/// effect, so that it can be found after a crash.
pub fn sign(body: &str, who: &str, marker: Option<&str>) -> String {
    let marker = marker.map(|m| format!(" {m}")).unwrap_or_default();
    format!("{}\n\n{SIGNED}{who}{marker} -->", body.trim_end())
}

/// Written by one of our threads or by the system. This is how one's own acts
/// are told from the owner's, who posts from the same account; it is no proof
/// against a stranger, who could only silence his own words with it.
pub fn is_signed(body: &str) -> bool {
    body.contains(SIGNED)
}

/// The reviewer's machine line: the first line of its comment.
///
/// `<!-- bb-review lane=reviewed verdict=approved sha=<40 hex> -->`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// reviewed: an approving marker on green checks is enough.
    /// owner-reviewed: the owner approves too.
    pub lane: String,
    pub approved: bool,
    /// The head that was reviewed.
    pub sha: String,
}

pub const LANES: [&str; 2] = ["reviewed", "owner-reviewed"];

/// The marker of a comment's first line; `None` if it is no marker, or one that
/// is not complete. An unknown lane counts as the owner's.
pub fn parse_marker(body: &str) -> Option<Marker> {
    let line = body.trim_start().lines().next()?.trim();
    let inner = line.strip_prefix("<!-- bb-review ")?.strip_suffix("-->")?;
    let field = |name: &str| {
        inner
            .split_whitespace()
            .find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == name).map(|(_, v)| v.to_owned()))
    };
    let lane = field("lane")?;
    let lane = if LANES.contains(&lane.as_str()) { lane } else { "owner-reviewed".to_owned() };
    let sha = field("sha")?;
    let whole = sha.len() == 40 && sha.chars().all(|c| c.is_ascii_hexdigit());
    whole.then(|| Marker {
        lane,
        approved: field("verdict").is_some_and(|v| v == "approved"),
        sha: sha.to_ascii_lowercase(),
    })
}

/// The first line of a text, for a list.
pub fn headline(body: &str) -> String {
    let visible = body.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with("<!--")).unwrap_or("");
    crate::text::cut(&one_line(visible), 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_counts_only_as_the_first_line_and_whole() {
        let sha = "a".repeat(40);
        let good = format!("<!-- bb-review lane=reviewed verdict=approved sha={sha} -->\nFine.");
        assert_eq!(parse_marker(&good), Some(Marker { lane: "reviewed".into(), approved: true, sha: sha.clone() }));
        assert_eq!(parse_marker(&format!("Hi\n{good}")), None);
        assert_eq!(parse_marker("<!-- bb-review lane=reviewed verdict=approved sha=abc -->"), None);
        let odd = parse_marker(&format!("<!-- bb-review lane=fast verdict=rejected sha={sha} -->")).unwrap();
        assert_eq!((odd.lane.as_str(), odd.approved), ("owner-reviewed", false));
    }

    #[test]
    fn what_we_write_is_known_again() {
        assert!(is_signed(&sign("Done.", "thr_1", None)));
        assert!(!is_signed("Done."));
        assert_eq!(headline("<!-- x -->\n\nLooks  good\nmore"), "Looks good");
    }
}
