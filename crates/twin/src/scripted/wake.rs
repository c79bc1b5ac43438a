//! What a wake says.

/// An item of the ready gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub number: u64,
    pub met: bool,
}

/// A pull request of the effort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pull {
    /// `owner/repo#7`.
    pub key: String,
    /// Open, Closed or Merged.
    pub state: String,
    pub met: bool,
}

/// A steward's wake.
#[derive(Clone, Debug, Default)]
pub(super) struct Wake {
    pub key: String,
    pub title: String,
    pub phase: Option<String>,
    pub stage: String,
    pub gate: Vec<Item>,
    pub leave: bool,
    /// A worker that is in flight.
    pub worker: Option<String>,
    pub pulls: Vec<Pull>,
    /// The effort ends.
    pub ending: bool,
    /// The ticket's own words, without quote marks.
    pub description: String,
}

impl Wake {
    /// The wake in a prompt, if it holds one. Strangers' lines are quoted and
    /// therefore never pass for its headings.
    pub(super) fn read(prompt: &str) -> Option<Wake> {
        let start = prompt.lines().position(|l| l.starts_with("# Wake:"))?;
        let lines: Vec<&str> = prompt.lines().skip(start).collect();
        let mut wake = Wake::default();
        let head = lines.first()?.strip_prefix("# Wake:")?.trim();
        let (key, title) = head.split_once(' ').unwrap_or((head, ""));
        (wake.key, wake.title) = (key.to_owned(), title.trim().to_owned());
        let mut section = "";
        for line in &lines {
            if let Some(heading) = line.strip_prefix("## ") {
                section = heading.trim();
                if let Some(phase) = section.strip_prefix("Phase: ") {
                    wake.phase(phase);
                }
                continue;
            }
            wake.line(section, line);
        }
        wake.description = description(&lines);
        Some(wake)
    }

    fn phase(&mut self, heading: &str) {
        // A state's own name may hold brackets: the stage is in the last ones.
        let (state, stage) = heading.rsplit_once(" (").unwrap_or((heading, ""));
        self.phase = Some(state.to_owned());
        self.stage = stage.trim_end_matches(')').to_owned();
    }

    fn line(&mut self, section: &str, line: &str) {
        match section {
            "What changed" => {
                self.ending |=
                    line.contains("wrap up, then this effort ends") || line.contains("this effort ends with");
            }
            "Ready gate" => {
                self.leave |= line.starts_with("You have leave to start workers");
                self.gate.extend(item(line));
            }
            "Threads" => {
                if let Some(rest) = line.strip_prefix("- worker ") {
                    self.worker = rest.split_whitespace().next().map(str::to_owned);
                }
            }
            "Pull requests" => self.pulls.extend(pull(line)),
            _ => {}
        }
    }
}

fn item(line: &str) -> Option<Item> {
    let (number, rest) = line.split_once(". [")?;
    let (mark, _) = rest.split_once(']')?;
    Some(Item { number: number.trim().parse().ok()?, met: mark == "met" })
}

fn pull(line: &str) -> Option<Pull> {
    let mut words = line.strip_prefix("- ")?.split_whitespace();
    let key = words.next()?.to_owned();
    let state = words.next()?.trim_end_matches(',').to_owned();
    Some(Pull { key, state, met: line.ends_with("gate met") })
}

fn description(lines: &[&str]) -> String {
    let after = lines.iter().skip_while(|l| !l.starts_with("Description, as its author wrote it:")).skip(1);
    let block = after.skip_while(|l| l.trim().is_empty()).take_while(|l| l.starts_with('>'));
    let words: Vec<&str> = block.map(|l| super::prompt::unquoted(l)).collect();
    words.join("\n").trim().to_owned()
}
