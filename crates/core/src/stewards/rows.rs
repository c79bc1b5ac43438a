//! Efforts as people see them: described once, shown by page and command line.

use super::binding::{Binding, NeedKind, Standing};
use super::gate::{LinkedPull, Verdict, gate};
use super::report::Report;
use crate::machine::{Project, World};
use crate::moment::Moment;
use crate::text::{cut, one_line};
use crate::threads::{Pending, Role, Thread, ThreadRow, thread_row};
use serde::Serialize;
use std::path::PathBuf;

/// How an effort stands, at a glance. The first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Glyph {
    /// It waits on the person.
    You,
    /// It cannot go on.
    Blocked,
    Running,
    Quiet,
}

/// One effort in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub key: String,
    pub kind: &'static str,
    pub title: String,
    pub url: String,
    pub project: String,
    /// The entity's state by its own name.
    pub phase: Option<String>,
    pub glyph: Glyph,
    /// What it is about now, in a few words.
    pub phrase: String,
    /// user, steward or other, by the last report.
    pub actor: Option<String>,
    pub steward: Option<String>,
    pub open: bool,
    /// Notes that the next wake tells.
    pub notes: usize,
    pub needs: Vec<NeedRow>,
}

/// What a person can press, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeedRow {
    pub id: String,
    pub kind: &'static str,
    pub text: String,
    /// The effort's key.
    pub effort: Option<String>,
    pub pull: Option<String>,
    pub link: Option<String>,
    /// The button's word, while its preconditions hold.
    pub button: Option<&'static str>,
    /// What can be chosen instead of one button.
    pub choices: Vec<String>,
    /// The thread it is about.
    pub thread: Option<String>,
    /// Why there is no button.
    pub why_not: Option<String>,
    /// The same from a command line.
    pub command: String,
}

/// One effort whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    #[serde(flatten)]
    pub row: Row,
    pub report: Option<Report>,
    pub leave: bool,
    pub ready: Vec<ReadyItem>,
    pub notes_pending: Vec<String>,
    pub trouble: Option<String>,
    pub threads: Vec<ThreadRow>,
    pub pulls: Vec<PullRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadyItem {
    pub number: usize,
    pub text: String,
    pub met: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullRow {
    #[serde(flatten)]
    pub linked: LinkedPull,
    pub gate: Verdict,
}

/// One project with its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectRow {
    pub id: String,
    pub name: String,
    pub repo: String,
    /// What `git clone` takes.
    pub remote: String,
    /// Further repositories, by name.
    pub repos: Vec<String>,
    /// Where the primary one is checked out.
    pub checkout: Option<PathBuf>,
    pub on: bool,
    pub commit: String,
    pub problems: Vec<String>,
    /// When its last sweep ended, well or not.
    pub swept: Option<jiff::Timestamp>,
    pub steward: Option<String>,
    pub efforts: usize,
    pub needs: usize,
}

pub fn row(world: &World, binding: &Binding) -> Row {
    let mut needs: Vec<NeedRow> = world.open_needs(&binding.id).map(|n| need_row(world, n)).collect();
    let own = world.threads.values().filter(|t| t.binding.as_ref() == Some(&binding.id));
    needs.extend(own.flat_map(|t| t.asks.iter().map(|p| ask_row(world, t, p))));
    let busy = world
        .threads
        .values()
        .filter(|t| t.binding.as_ref() == Some(&binding.id) && t.role != Role::Steward && t.status.busy());
    let running = busy.count();
    let steward = binding.steward.as_ref().and_then(|s| world.threads.get(s));
    let stewarding = steward.is_some_and(|t| t.status.busy());
    let open = binding.standing != Standing::Ended;
    let glyph = if !needs.is_empty() {
        Glyph::You
    } else if open && binding.trouble.is_some() {
        Glyph::Blocked
    } else if running > 0 || stewarding {
        Glyph::Running
    } else {
        Glyph::Quiet
    };
    let phrase = match (&binding.standing, &binding.ended) {
        (Standing::Ended, Some((reason, at))) => format!("{}, {}", reason.words(), at.strftime("%F %H:%M")),
        _ if !needs.is_empty() => format!("needs you: {}", needs[0].text),
        _ if running > 0 => format!("{running} thread{} running", if running == 1 { "" } else { "s" }),
        (Standing::Ending { reason }, _) => format!("ending: {}", reason.words()),
        (Standing::Candidate, _) => "to be looked at".into(),
        _ if stewarding => "the steward is at work".into(),
        _ if binding.trouble.is_some() => format!("cannot be read: {}", binding.trouble.as_deref().unwrap_or("")),
        _ => binding.report.as_ref().map_or_else(|| "no report yet".into(), |r| r.next_action.clone()),
    };
    Row {
        key: binding.key.clone(),
        kind: binding.entity.kind(),
        title: binding.title.clone(),
        url: binding.url.clone(),
        project: world.projects.get(&binding.project).map(|p| p.name.clone()).unwrap_or_default(),
        phase: binding.state.clone(),
        glyph,
        phrase,
        actor: binding.report.as_ref().map(|r| format!("{:?}", r.actor).to_lowercase()),
        steward: binding.steward.as_ref().map(ToString::to_string),
        open,
        notes: binding.news.iter().filter(|n| !n.wakes).count(),
        needs,
    }
}

/// Efforts, open ones first, then by key.
pub fn rows(world: &World) -> Vec<Row> {
    let mut all: Vec<Row> = world.bindings.values().map(|b| row(world, b)).collect();
    all.sort_by(|a, b| (!a.open, &a.key).cmp(&(!b.open, &b.key)));
    all
}

pub fn need_row(world: &World, need: &super::Need) -> NeedRow {
    let binding = need.binding.as_ref().and_then(|b| world.bindings.get(b));
    let (pull, link, button, why_not, command) = match &need.kind {
        NeedKind::Merge { pull } => {
            let linked = binding.and_then(|b| Some((b, b.pull(pull)?)));
            let why_not = match linked {
                None => Some("the pull is not known any more".to_owned()),
                Some((b, _)) if b.merging.is_some() => Some("it is being merged".to_owned()),
                Some((b, l)) => {
                    let verdict = gate(world, b, l);
                    (!verdict.met).then(|| verdict.unmet.join("; "))
                }
            };
            let link = linked.map(|(_, l)| l.url.clone());
            (Some(pull.to_string()), link, "Merge", why_not, format!("stewards merge {pull}"))
        }
        NeedKind::Failed { .. } => (None, None, "Try again", None, format!("stewards done {}", need.id)),
        NeedKind::Capped { .. } => (None, None, "Let it go on", None, format!("stewards done {}", need.id)),
    };
    let thread = match &need.kind {
        NeedKind::Merge { .. } => None,
        NeedKind::Failed { thread } | NeedKind::Capped { thread } => Some(thread.to_string()),
    };
    NeedRow {
        id: need.id.to_string(),
        kind: need.kind.word(),
        text: need.text.clone(),
        effort: binding.map(|b| b.key.clone()),
        pull,
        link,
        button: why_not.is_none().then_some(button),
        choices: Vec::new(),
        thread,
        why_not,
        command,
    }
}

/// What an agent asked the person, as an item.
fn ask_row(world: &World, thread: &Thread, pending: &Pending) -> NeedRow {
    let ask = &pending.ask;
    let what = if ask.permission { "asks for leave" } else { "asks" };
    let detail = cut(&one_line(&ask.detail), 300);
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    NeedRow {
        id: pending.id.to_string(),
        kind: if ask.permission { "permission" } else { "question" },
        text: format!("{} {} {what}: {}{detail}", thread.role.word(), thread.id, one_line(&ask.title)),
        effort: thread.binding.as_ref().and_then(|b| world.bindings.get(b)).map(|b| b.key.clone()),
        pull: None,
        link: None,
        button: None,
        choices: ask.options.iter().map(|o| o.label.clone()).collect(),
        thread: Some(thread.id.to_string()),
        why_not: None,
        command: format!("stewards thread interactions answer {} <choice>", pending.id),
    }
}

/// What agents asked and wait for, of one thread or of all.
pub fn ask_rows(world: &World, of: Option<&crate::ids::ThreadId>) -> Vec<NeedRow> {
    let threads = world.threads.values().filter(|t| of.is_none_or(|id| t.id == *id));
    threads.flat_map(|t| t.asks.iter().map(|p| ask_row(world, t, p))).collect()
}

/// Open items, oldest first, then what agents wait for.
pub fn needs(world: &World) -> Vec<NeedRow> {
    let mut all: Vec<NeedRow> =
        world.needs.values().filter(|n| n.closed.is_none()).map(|n| need_row(world, n)).collect();
    all.extend(ask_rows(world, None));
    all
}

pub fn detail(world: &World, binding: &Binding, now: &Moment) -> Detail {
    let project = world.projects.get(&binding.project);
    let checklist =
        project.and_then(|p| p.config.ticket_playbook()).map(|p| p.ready.checklist.clone()).unwrap_or_default();
    Detail {
        row: row(world, binding),
        report: binding.report.clone(),
        leave: binding.leave,
        ready: checklist
            .into_iter()
            .enumerate()
            .map(|(n, text)| ReadyItem { number: n + 1, met: binding.ready.contains(&text), text })
            .collect(),
        notes_pending: binding.news.iter().map(|n| format!("{}: {}", n.cause, n.line)).collect(),
        trouble: binding.trouble.clone(),
        threads: world
            .threads
            .values()
            .filter(|t| t.binding.as_ref() == Some(&binding.id))
            .map(|t| thread_row(world, t, now))
            .collect(),
        pulls: binding.pulls.iter().map(|p| PullRow { linked: p.clone(), gate: gate(world, binding, p) }).collect(),
    }
}

pub fn project_row(world: &World, project: &Project) -> ProjectRow {
    let mut problems: Vec<String> = project.config.problems.iter().map(ToString::to_string).collect();
    let counts = if project.config.commit.is_empty() { "" } else { ", so the last one counts" };
    problems.extend(project.unread.iter().map(|s| format!(".bb could not be read{counts}: {s}")));
    problems.extend(project.trouble.iter().map(|s| format!("the last sweep failed: {s}")));
    if project.config.project.is_none() && project.config.commit.is_empty() {
        problems.push("the configuration was not read yet".into());
    } else if project.config.project.is_none() {
        problems.push("there is no .bb/stewards/project.json on the default branch: stewards init writes one".into());
    } else if !project.on {
        problems.push("configured, but off here: stewards enable turns it on".into());
    }
    ProjectRow {
        id: project.id.to_string(),
        name: project.name.clone(),
        repo: project.repo.to_string(),
        remote: project.remote.clone(),
        repos: project.config.repos.iter().map(|r| r.name.to_string()).collect(),
        checkout: project.checkout.clone(),
        on: project.on,
        commit: project.config.commit.clone(),
        problems,
        swept: project.swept,
        steward: project.steward.as_ref().map(ToString::to_string),
        efforts: world.bindings.values().filter(|b| b.project == project.id && b.standing != Standing::Ended).count(),
        needs: world.needs.values().filter(|n| n.closed.is_none() && n.project == project.id).count(),
    }
}

pub fn project_rows(world: &World) -> Vec<ProjectRow> {
    world.live_projects().map(|p| project_row(world, p)).collect()
}
