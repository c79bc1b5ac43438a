//! What a repository says about how it is stewarded: the files under
//! `.bb`, read from the default branch's tip at the remote.

mod playbook;
mod project;
mod repos;
mod roles;
pub mod schemas;
mod skill;
mod templates;

pub use playbook::{Models, Phase, Playbook, PlaybookKind, Ready, Section, Stage};
pub use project::ProjectFile;
pub use repos::{FurtherRepo, REPOS_FILE};
pub use roles::{Alerts, Role, Roles};
pub use skill::{Skill, skills};
pub use templates::{Starting, starting_files};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something wrong in one of the files: `stewards/playbooks/x.md:4: …`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Below `.bb/`.
    pub file: String,
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    pub says: String,
    /// The file could not be used; otherwise it was, and this is advice.
    pub fatal: bool,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, ".bb/{}: {}", self.file, self.says),
            line => write!(f, ".bb/{}:{line}: {}", self.file, self.says),
        }
    }
}

/// All files of one commit, as far as they could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The commit that was read last, even if a file of it did not parse.
    pub commit: String,
    pub project: Option<ProjectFile>,
    /// By file name below `playbooks/`. A file that stopped parsing keeps its
    /// last good version here.
    pub playbooks: BTreeMap<String, Playbook>,
    /// The project's own, by name.
    pub skills: BTreeMap<String, Skill>,
    /// Beside the primary one.
    #[serde(default)]
    pub repos: Vec<FurtherRepo>,
    #[serde(default)]
    pub roles: Roles,
    pub problems: Vec<Problem>,
}

pub const PROJECT_FILE: &str = "stewards/project.json";
pub const ROLES_FILE: &str = "stewards/roles.json";
pub const PLAYBOOKS: &str = "stewards/playbooks/";

impl Config {
    /// Reads the files of a commit on top of what was good before. A file that
    /// does not parse leaves its last good version in force and a problem.
    pub fn read(last: &Config, commit: &str, files: &BTreeMap<String, String>) -> Config {
        let mut next = Config { commit: commit.to_owned(), skills: skill::of_files(files), ..Config::default() };
        match files.get(PROJECT_FILE) {
            None => {}
            Some(text) => match ProjectFile::parse(text) {
                Ok((file, advice)) => {
                    next.project = Some(file);
                    next.problems.extend(advice);
                }
                Err(problem) => {
                    next.project = last.project.clone();
                    next.problems.push(problem);
                }
            },
        }
        for (path, text) in files {
            let Some(name) = path.strip_prefix(PLAYBOOKS).filter(|n| n.ends_with(".md")) else { continue };
            match Playbook::parse(path, text) {
                Ok(playbook) => {
                    next.playbooks.insert(name.to_owned(), playbook);
                }
                Err(problems) => {
                    next.problems.extend(problems);
                    if let Some(good) = last.playbooks.get(name) {
                        next.playbooks.insert(name.to_owned(), good.clone());
                    }
                }
            }
        }
        if let Some(text) = files.get(REPOS_FILE) {
            match repos::parse(text) {
                Ok(all) => next.repos = all,
                Err(problem) => {
                    next.repos = last.repos.clone();
                    next.problems.push(problem);
                }
            }
        }
        if let Some(text) = files.get(ROLES_FILE) {
            match roles::parse(text) {
                Ok(all) => {
                    let teams = next.project.as_ref().map_or(&[][..], |p| &p.teams);
                    next.problems.extend(roles::advice(&all, text, teams));
                    next.roles = all;
                }
                Err(problem) => {
                    next.roles = last.roles.clone();
                    next.problems.push(problem);
                }
            }
        }
        if let Some(project) = &next.project {
            for (kind, name) in &project.playbooks {
                if !next.playbooks.contains_key(name) && !files.contains_key(&format!("{PLAYBOOKS}{name}")) {
                    next.problems.push(Problem {
                        file: PROJECT_FILE.into(),
                        line: 0,
                        says: format!("the playbook `{name}` for {kind} is not in {PLAYBOOKS}"),
                        fatal: false,
                    });
                }
            }
        }
        next
    }

    /// The playbook that governs tickets, if there is one.
    pub fn ticket_playbook(&self) -> Option<&Playbook> {
        let project = self.project.as_ref()?;
        match project.playbooks.get("ticket") {
            Some(name) => self.playbooks.get(name),
            None => self.playbooks.values().find(|p| p.kind == PlaybookKind::Ticket),
        }
    }
}
