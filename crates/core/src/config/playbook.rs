//! A playbook: YAML front matter and one `##` section a phase.

use super::Problem;
use crate::Millis;
use crate::threads::ModelName;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaybookKind {
    Ticket,
    Pr,
    Review,
    Ops,
}

/// The closed list of what a phase can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Triage,
    Spec,
    Build,
    Review,
    Merge,
    Deploy,
    Done,
}

impl Stage {
    pub fn word(self) -> &'static str {
        match self {
            Stage::Triage => "triage",
            Stage::Spec => "spec",
            Stage::Build => "build",
            Stage::Review => "review",
            Stage::Merge => "merge",
            Stage::Deploy => "deploy",
            Stage::Done => "done",
        }
    }
}

/// What one state of the entity means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub stage: Stage,
    /// Longer in this state is stuck.
    pub stuck: Option<Millis>,
}

/// What has to hold before work starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub checklist: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    pub steward: Option<ModelName>,
    pub worker: Option<ModelName>,
    pub reviewer: Option<ModelName>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    pub title: String,
    /// The text below the heading, trimmed.
    pub text: String,
}

/// One playbook, whole and checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playbook {
    pub name: String,
    pub kind: PlaybookKind,
    /// State name → meaning.
    pub phases: BTreeMap<String, Phase>,
    /// States that end the work; at least one, except for ops.
    pub terminal: Vec<String>,
    pub ready: Ready,
    /// What the steward may do without asking, such as `comment` or `merge`.
    pub may: Vec<String>,
    pub models: Models,
    /// Wakes the steward when nothing else did.
    pub requeue: Option<Millis>,
    pub follow_through: Millis,
    /// Logins whose comments never wake.
    pub skip_authors: Vec<String>,
    pub sections: Vec<Section>,
    /// Hash of the whole file.
    pub version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Front {
    name: String,
    kind: PlaybookKind,
    source: Option<String>,
    #[serde(default)]
    phases: BTreeMap<String, FrontPhase>,
    #[serde(default)]
    terminal: Vec<String>,
    ready: Option<FrontReady>,
    promote: Option<serde_json::Value>,
    #[serde(default)]
    may: Vec<String>,
    #[serde(default)]
    models: Models,
    requeue_default: Option<String>,
    follow_through: Option<String>,
    #[serde(default)]
    skip_authors: Vec<String>,
    deployment: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontPhase {
    stage: Stage,
    stuck: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontReady {
    #[serde(default)]
    checklist: Vec<String>,
    substantial: Option<serde_json::Value>,
    approval: Option<serde_json::Value>,
}

impl Playbook {
    /// Reads one file. Every problem names its line in the whole file.
    pub fn parse(path: &str, text: &str) -> Result<Playbook, Vec<Problem>> {
        let bad = |line: usize, says: String| Problem { file: path.to_owned(), line, says, fatal: true };
        let clean = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        let (front_text, body) = split(&clean).map_err(|(line, says)| vec![bad(line, says.into())])?;
        let front: Front = serde_saphyr::from_str(front_text).map_err(|e| {
            let line = e.location().map_or(1, |l| l.line() as usize);
            vec![bad(line + 1, crate::text::cut(e.to_string().lines().next().unwrap_or_default(), 300))]
        })?;
        let mut problems = Vec::new();
        let mut span = |key: &str, value: &Option<String>| -> Option<Millis> {
            let value = value.as_ref()?;
            let read = parse_span(value);
            if read.is_none() {
                problems.push(bad(
                    line_of(&clean, key),
                    format!("`{value}` is not a length of time such as 30m, 6h or 2d"),
                ));
            }
            read
        };
        let mut phases = BTreeMap::new();
        for (state, phase) in &front.phases {
            let stuck = span(state, &phase.stuck);
            phases.insert(state.clone(), Phase { stage: phase.stage, stuck });
        }
        let requeue = span("requeue-default", &front.requeue_default);
        let follow_through = span("follow-through", &front.follow_through).unwrap_or(6 * 3_600_000);
        let ops = front.kind == PlaybookKind::Ops;
        if !ops && front.terminal.is_empty() {
            problems.push(bad(1, "`terminal` must name at least one state".into()));
        }
        if ops && !(front.phases.is_empty() && front.terminal.is_empty()) {
            problems.push(bad(1, "an ops playbook has no phases and no terminal states".into()));
        }
        let sections = sections(body);
        if !ops {
            for state in front.phases.keys() {
                if !sections.iter().any(|s| s.title.eq_ignore_ascii_case(state)) {
                    let says = format!("the phase `{state}` has no `## {state}` section");
                    problems.push(bad(line_of(&clean, state), says));
                }
            }
        }
        if let Some(source) = &front.source
            && !["linear", "github", "k8s", "sentry"].contains(&source.as_str())
        {
            problems.push(bad(line_of(&clean, "source"), format!("`{source}` is not linear, github, k8s or sentry")));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        // Read and kept valid now; what they do comes with approvals and deployments.
        let _later = (front.promote, front.deployment, front.ready.as_ref().map(|r| (&r.substantial, &r.approval)));
        Ok(Playbook {
            name: front.name,
            kind: front.kind,
            phases,
            terminal: front.terminal,
            ready: Ready { checklist: front.ready.map(|r| r.checklist).unwrap_or_default() },
            may: front.may,
            models: front.models,
            requeue,
            follow_through,
            skip_authors: front.skip_authors,
            sections,
            version: crate::text::hash(&clean)[..12].to_owned(),
        })
    }

    pub fn stage_of(&self, state: &str) -> Option<Stage> {
        self.phases.iter().find(|(s, _)| s.eq_ignore_ascii_case(state)).map(|(_, p)| p.stage)
    }

    pub fn is_terminal(&self, state: &str) -> bool {
        self.terminal.iter().any(|t| t.eq_ignore_ascii_case(state))
    }

    pub fn section(&self, title: &str) -> Option<&str> {
        self.sections.iter().find(|s| s.title.eq_ignore_ascii_case(title)).map(|s| s.text.as_str())
    }

    pub fn allows(&self, what: &str) -> bool {
        self.may.iter().any(|m| m.eq_ignore_ascii_case(what))
    }
}

/// The text between the fences and what follows them.
pub(super) fn split(text: &str) -> Result<(&str, &str), (usize, &'static str)> {
    let Some(rest) = text.strip_prefix("---").and_then(|r| r.trim_start_matches([' ', '\t']).strip_prefix('\n')) else {
        return Err((1, "the file must begin with a line `---` and front matter"));
    };
    let mut from = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&rest[..from], &rest[from + line.len()..]));
        }
        from += line.len();
    }
    Err((1, "the front matter is not closed by a line `---`"))
}

/// One section for each second-level heading. A `##` inside a code block is no heading.
fn sections(body: &str) -> Vec<Section> {
    let mut heads: Vec<(String, usize, usize)> = Vec::new();
    let mut title: Option<(String, usize)> = None;
    for (event, range) in Parser::new(body).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => title = Some((String::new(), range.start)),
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => {
                if let Some((text, start)) = title.take() {
                    heads.push((text.trim().to_owned(), start, range.end));
                }
            }
            Event::Text(t) | Event::Code(t) => {
                if let Some((text, _)) = &mut title {
                    text.push_str(&t);
                }
            }
            _ => {}
        }
    }
    (0..heads.len())
        .map(|i| {
            let end = heads.get(i + 1).map_or(body.len(), |next| next.1);
            Section { title: heads[i].0.clone(), text: body[heads[i].2..end].trim().to_owned() }
        })
        .collect()
}

fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|l| l.trim_start().trim_start_matches('"').starts_with(key)).map_or(1, |n| n + 1)
}

/// `30s`, `45m`, `6h` or `2d`; never zero.
pub(crate) fn parse_span(text: &str) -> Option<Millis> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let n: i64 = number.parse().ok().filter(|n| *n > 0)?;
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    n.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "---\nname: t\nkind: ticket\nsource: linear\nphases:\n  Todo: { stage: triage, stuck: 2d }\n  Done: { stage: done }\nterminal: [Done]\n---\nIntro\n\n## Todo\nDo it.\n```\n## not a heading\n```\n\n## Done\nWrap up.\n";

    #[test]
    fn a_playbook_has_its_phases_and_a_section_for_each() {
        let p = Playbook::parse("p.md", GOOD).unwrap();
        assert_eq!(p.stage_of("todo"), Some(Stage::Triage));
        assert_eq!(p.phases["Todo"].stuck, Some(2 * 86_400_000));
        assert!(p.section("Todo").unwrap().contains("## not a heading"));
        assert_eq!(p.section("Done"), Some("Wrap up."));
        assert!(p.is_terminal("done"));
    }

    #[test]
    fn crlf_and_a_byte_order_mark_change_nothing() {
        let p = Playbook::parse("p.md", &format!("\u{feff}{}", GOOD.replace('\n', "\r\n"))).unwrap();
        assert_eq!(p.section("Done"), Some("Wrap up."));
    }

    #[track_caller]
    fn refused(text: &str, line: usize, word: &str) {
        let problems = Playbook::parse("p.md", text).unwrap_err();
        assert!(problems.iter().any(|p| p.line == line && p.says.contains(word)), "{problems:?}");
    }

    #[test]
    fn a_broken_front_matter_is_named_by_its_line() {
        refused("name: x\n", 1, "---");
        refused("---\nname: x\n", 1, "not closed");
        refused(&GOOD.replace("kind: ticket", "kind: tickets"), 3, "tickets");
        refused(&GOOD.replace("source: linear", "sauce: linear"), 4, "sauce");
        refused(&GOOD.replace("name: t\n", "name: t\nname: u\n"), 3, "name");
        refused(&GOOD.replace("stuck: 2d", "stuck: soon"), 6, "soon");
        refused(&GOOD.replace("## Done", "## Ready"), 7, "Done");
        refused(&GOOD.replace("terminal: [Done]\n", ""), 1, "terminal");
    }
}
