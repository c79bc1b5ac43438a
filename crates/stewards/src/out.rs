//! What a command says and exits with.

use std::fmt::Write as _;
use std::process::ExitCode;
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::text::plain;

/// A command's end: an exit code, or an error with its sentence and hint.
pub type Outcome = Result<u8, anyhow::Error>;

/// Says what went wrong, if anything, and gives the exit code. Programs that asked for
/// JSON have it on standard output as well.
pub fn finish(outcome: Outcome, as_json: bool) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => match error.downcast_ref::<Refusal>() {
            Some(refusal) => {
                if as_json {
                    line(&serde_json::json!({ "refusal": refusal }).to_string());
                }
                eprintln!("Error: {}\nHint: {}", plain(&refusal.says), plain(&refusal.hint));
                ExitCode::from(refusal.exit.code())
            }
            None => {
                eprintln!("Error: {}", plain(&format!("{error:#}")));
                ExitCode::from(1)
            }
        },
    }
}

/// What is wrong with a command line: its first paragraph is the sentence, and how it
/// is used the hint.
pub fn bad_arguments(error: &clap::Error) -> Refusal {
    let said = error.render().to_string();
    let mut paragraphs = said.split("\n\n");
    let lines: Vec<&str> = paragraphs.next().unwrap_or_default().lines().map(str::trim).collect();
    let (first, more) = lines.split_first().unwrap_or((&"", &[]));
    let says = format!("{} {}", first.trim_start_matches("error: "), more.join(", "));
    let rest: Vec<&str> = paragraphs.map(str::trim).collect();
    let usage = rest.iter().find_map(|p| p.strip_prefix("Usage: "));
    let usage = usage.map_or("see --help".to_owned(), |u| format!("usage: {u}"));
    let tip = rest.iter().find_map(|p| p.strip_prefix("tip: ")).map(|t| format!("{t}; ")).unwrap_or_default();
    Refusal::usage("bad_arguments", says, format!("{tip}{usage}"))
}

/// Something that is needed cannot be reached.
pub fn unreachable(code: &str, says: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal::new(Exit::Unreachable, code, says, hint).into()
}

/// Writes a line to standard output; a closed pipe ends the program quietly. What
/// agents and strangers say reaches people this way, so control characters, which a
/// terminal would obey, are left out.
pub fn line(text: &str) {
    use std::io::Write;
    if let Err(error) = writeln!(std::io::stdout(), "{}", plain(text)) {
        // As a program ends that a closed pipe stopped; a full disk is an error.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(141);
        }
        eprintln!("Error: standard output cannot be written: {error}\nHint: see where it goes");
        std::process::exit(1);
    }
}

pub fn json<T: serde::Serialize>(value: &T) -> Outcome {
    line(&serde_json::to_string_pretty(value)?);
    Ok(0)
}

/// Rows in aligned columns; the last column is as wide as it is.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let print = |cells: &[String]| {
        let mut text = String::new();
        for (n, cell) in cells.iter().enumerate() {
            let last = n + 1 == cells.len();
            let pad = if last { 0 } else { widths[n].saturating_sub(cell.chars().count()) + 2 };
            let _ = write!(text, "{cell}{}", " ".repeat(pad));
        }
        line(text.trim_end());
    };
    print(&head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>());
    for row in rows {
        print(row);
    }
}
