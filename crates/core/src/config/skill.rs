//! Skills: texts that teach an agent a way of working. Some are shipped; a project
//! may put one of the same name in their place, or add its own.

use super::playbook::split;
use crate::text::{cut, one_line};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a project keeps them, below `.bb/`: `skills/<name>/SKILL.md`.
pub const SKILLS: &str = "skills/";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    pub name: String,
    /// One line: when to read it.
    pub description: String,
    /// The whole text, front matter and all.
    pub text: String,
    /// The project's own, rather than a shipped one.
    pub own: bool,
}

const SHIPPED: [(&str, &str); 3] = [
    ("bus", include_str!("../../../../skills/bus/SKILL.md")),
    ("build-tickets", include_str!("../../../../skills/build-tickets/SKILL.md")),
    ("pr-reviewer", include_str!("../../../../skills/pr-reviewer/SKILL.md")),
];

impl Skill {
    /// A text without a front matter has no description and is taken all the same.
    fn read(name: &str, text: &str, own: bool) -> Skill {
        let front = split(text).map(|(front, _)| front.to_owned()).unwrap_or_default();
        let line = front.lines().find_map(|l| l.strip_prefix("description:"));
        let description = cut(&one_line(line.unwrap_or_default().trim().trim_matches(['"', '\''])), 200);
        Skill { name: name.to_owned(), description, text: text.to_owned(), own }
    }
}

/// The project's own skills among the files of `.bb`, by name.
pub(super) fn of_files(files: &BTreeMap<String, String>) -> BTreeMap<String, Skill> {
    let named = |path: &str| Some(path.strip_prefix(SKILLS)?.strip_suffix("/SKILL.md")?.to_owned());
    let own = files.iter().filter_map(|(path, text)| Some((named(path).filter(|n| !n.contains('/'))?, text)));
    own.map(|(name, text)| (name.clone(), Skill::read(&name, text, true))).collect()
}

/// All that a project's threads may read: its own before those that are shipped.
pub fn skills(own: &BTreeMap<String, Skill>) -> Vec<Skill> {
    let shipped = SHIPPED.iter().filter(|(name, _)| !own.contains_key(*name));
    let mut all: Vec<Skill> = shipped.map(|(name, text)| Skill::read(name, text, false)).collect();
    all.extend(own.values().cloned());
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_skill_takes_the_place_of_the_shipped_one_of_its_name() {
        let text = "---\nname: bus\ndescription: \"Ours\"\n---\nWrite little.\n";
        let files = BTreeMap::from([
            ("skills/bus/SKILL.md".to_owned(), text.to_owned()),
            ("skills/deploy/SKILL.md".to_owned(), "no front matter".to_owned()),
            ("skills/deep/er/SKILL.md".to_owned(), text.to_owned()),
        ]);
        let all = skills(&of_files(&files));
        let names: Vec<(&str, &str, bool)> =
            all.iter().map(|s| (s.name.as_str(), s.description.as_str(), s.own)).collect();
        assert_eq!(names[0].0, "build-tickets");
        assert_eq!((names[1], names[2]), (("bus", "Ours", true), ("deploy", "", true)));
        assert!(names[3].0 == "pr-reviewer" && !names[3].2);
        assert!(skills(&BTreeMap::new()).iter().all(|s| !s.own && !s.description.is_empty()));
    }

    #[test]
    fn the_bus_is_taught_in_less_than_eighty_lines_and_every_command_in_it_names_a_kind() {
        let text = SHIPPED[0].1;
        assert!(text.lines().count() < 80);
        let commands = text.lines().filter_map(|l| l.strip_prefix("stewards bus "));
        for command in commands {
            let verb = command.split(' ').next().unwrap_or_default();
            let Some(kind) = crate::bus::kind(verb).filter(|k| !["claim", "release"].contains(&k.name)) else {
                let verbs = ["claim", "release", "claims", "heartbeat", "check", "log", "unanswered", "withdraw"];
                assert!(verbs.contains(&verb), "{verb}");
                continue;
            };
            // Each example has all of its kind's fields.
            for field in kind.fields {
                let flag = if *field == "ref" { "--ref ".to_owned() } else { format!("--field {field}=") };
                assert!(command.contains(&flag), "{command} has no {field}");
            }
        }
    }
}
