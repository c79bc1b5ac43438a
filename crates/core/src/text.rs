//! Handling of words that come from outside.

use sha2::{Digest, Sha256};

/// At most `cap` characters; what is cut is said in the last of them.
pub fn cut(text: &str, cap: usize) -> String {
    if text.chars().count() <= cap {
        return text.to_owned();
    }
    let keep: String = text.chars().take(cap.saturating_sub(1)).collect();
    format!("{keep}…")
}

/// At most `most` characters of a text in Markdown. The longest sections are cut first, at
/// the end of a line, and each cut says how much it left out.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let sections = sections(text);
    let mut lengths: Vec<usize> = sections.iter().map(|s| s.chars().count()).collect();
    lengths.sort_unstable();
    // What each section may keep, so that all fit: the short ones stay whole.
    let mut room = most;
    let mut each = 0;
    for (i, length) in lengths.iter().enumerate() {
        each = room / (lengths.len() - i);
        if *length > each {
            break;
        }
        room -= length;
    }
    let out: String = sections.iter().map(|s| kept(s, each)).collect();
    cut(&out, most)
}

/// A heading with what stands below it; what stands before the first one is one, too.
fn sections(text: &str) -> Vec<&str> {
    let (mut starts, mut at, mut fenced) = (vec![0], 0, false);
    for line in text.split_inclusive('\n') {
        fenced ^= line.trim_start().starts_with("```");
        if at > 0 && !fenced && line.starts_with('#') {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(from, to)| &text[*from..to]).collect()
}

/// The first lines of a section, with a word about the rest.
fn kept(section: &str, most: usize) -> String {
    const WORDS: usize = 60;
    let long = section.chars().count();
    if long <= most {
        return section.to_owned();
    }
    let (mut out, mut count, mut fenced) = (String::new(), 0, false);
    for line in section.split_inclusive('\n') {
        let more = line.chars().count();
        if count + more + WORDS > most {
            // One line that is as long as all is cut in the middle.
            if out.is_empty() {
                let part: String = line.chars().take(most.saturating_sub(WORDS)).collect();
                count = part.chars().count();
                out = part + "\n";
            }
            break;
        }
        fenced ^= line.trim_start().starts_with("```");
        out.push_str(line);
        count += more;
    }
    let close = if fenced { "```\n" } else { "" };
    format!("{out}{close}(shortened: {} characters left out)\n\n", long - count)
}

/// One line for a terminal or a header: line breaks and other control
/// characters become spaces, runs of blanks one blank.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for part in text.split(|c: char| c.is_whitespace() || c.is_control() || turns(c)) {
        if part.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(part);
    }
    out
}

/// Removes control characters, and those that turn the direction of what follows, but
/// keeps line breaks and tabs.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| (!c.is_control() || *c == '\n' || *c == '\t') && !turns(*c)).collect()
}

/// It makes what follows look as if it stood elsewhere.
fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How long in words: `8 s`, `3 min`, `2 h 5 min`.
pub fn lasting(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match (seconds / 3_600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A stranger's words as a block of quoted data: every line is marked, so that
/// no line of it can pass for a heading or an instruction of ours.
pub fn quoted(text: &str) -> String {
    plain(text).lines().map(|l| format!("> {l}\n")).collect()
}

/// Quotes one argument for a POSIX shell.
pub fn shell(arg: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+#%".contains(c);
    if !arg.is_empty() && arg.chars().all(safe) && !arg.starts_with('#') {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', "'\\''"))
}

/// Lower-case hex of the SHA-256 of the text.
pub fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_turns_words_is_left_out() {
        assert_eq!(plain("a\u{202e}b\u{2066}c\x1b[2Jd\n"), "abc[2Jd\n");
        assert_eq!(one_line("a\u{202e}b \x07 c"), "a b c");
    }

    #[test]
    fn a_length_of_time_is_said_in_two_parts_at_most() {
        let said = [-5, 0, 59_999, 60_000, 3_599_000, 3_600_000, 7_500_000].map(lasting);
        assert_eq!(said, ["0 s", "0 s", "59 s", "1 min", "59 min", "1 h", "2 h 5 min"]);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("héllo wörld", 6), "héllo…");
        assert_eq!(cut("héllo", 5), "héllo");
        assert_eq!(cut("👩‍👩‍👧‍👦x", 2).chars().count(), 2);
    }

    #[test]
    fn what_is_too_long_is_shortened_where_it_is_longest_and_says_so() {
        let long =
            format!("Short.\n\n# A\nkept\n\n# B\n```\n{}```\n\n# C\nkept too\n", "a line of a log\n".repeat(100));
        let short = shorten(&long, 600);
        assert!(short.chars().count() <= 600, "{short}");
        for part in ["Short.", "# A\nkept\n", "# B\n```\na line of a log\n", "```\n(shortened: ", "# C\nkept too"] {
            assert!(short.contains(part), "{part} is not in {short}");
        }
        assert_eq!(short.matches("shortened").count(), 1, "{short}");
        assert_eq!(shorten(&long, 10_000), long);
        let one = shorten(&"é".repeat(1_000), 100);
        assert!(one.chars().count() <= 100 && one.contains("characters left out"), "{one}");
    }

    #[test]
    fn a_shell_argument_survives_quotes_blanks_and_hashes() {
        assert_eq!(shell("DEMO-1"), "DEMO-1");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell("#7"), "'#7'");
        assert_eq!(shell("$(rm x)"), "'$(rm x)'");
    }

    #[test]
    fn strangers_words_stay_marked_line_by_line() {
        assert_eq!(quoted("a\n## Ready gate\x1b[2J\nb"), "> a\n> ## Ready gate[2J\n> b\n");
    }
}
