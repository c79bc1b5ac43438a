//! What a prompt holds: a task, messages, or a word to go on with them.

use super::bus::Message;

/// A prompt, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Its own words, without quotes and without messages; empty if it has none.
    pub words: String,
    pub messages: Vec<Message>,
}

impl Heard {
    /// Reads a prompt. Of a word to go on it reads what the cut turn had begun
    /// with; every other quote is data.
    pub(super) fn read(prompt: &str) -> Heard {
        let again = prompt.lines().any(is_go_on);
        let mut heard = Heard::default();
        let mut began = false;
        let mut words = Vec::new();
        for line in prompt.lines() {
            if again && line == "It began with:" {
                began = true;
                continue;
            }
            let line = match (began, line.starts_with('>')) {
                (true, true) => unquoted(line),
                (true, false) => {
                    began = false;
                    line
                }
                (false, _) => line,
            };
            if let Some(message) = Message::header(line) {
                heard.messages.push(message);
            } else if !line.starts_with('>') && !line.starts_with("[bus] ") && !is_go_on(line) {
                words.push(line);
            }
        }
        heard.words = words.join("\n").trim().to_owned();
        heard
    }
}

/// The host's line after a turn that was cut.
fn is_go_on(line: &str) -> bool {
    !line.starts_with('>') && line.contains("go on from there; do nothing twice.")
}

/// A line without its quote mark.
pub(super) fn unquoted(line: &str) -> &str {
    let bare = line.strip_prefix('>').unwrap_or(line);
    bare.strip_prefix(' ').unwrap_or(bare)
}

/// The number of the pull request that a text names.
pub(super) fn pull_number(text: &str) -> Option<u64> {
    let digits = |rest: &str| {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        number.parse::<u64>().ok().filter(|n| *n > 0)
    };
    ["pull request #", "pr:", "/pull/", "#"].iter().find_map(|mark| text.split(mark).skip(1).find_map(digits))
}
