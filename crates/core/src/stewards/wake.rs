//! Wakes: when a steward gets a turn, and all that it needs for it.

use super::binding::{Binding, News, Standing};
use super::gate::gate;
use crate::config::Playbook;
use crate::ids::BindingId;
use crate::machine::{Fact, Outcome, View, World};
use crate::snapshot::{Comment, Snapshot};
use crate::text::{cut, one_line, quoted};
use crate::threads::{Parcel, Queued, Role, SendMode, Sender, deliver};

/// Characters of a wake. Beyond, its snapshot shrinks and nothing else.
pub const WAKE_CAP: usize = 30_000;

/// News for a binding.
pub fn learn(out: &mut Outcome, id: &BindingId, news: Vec<News>) {
    if !news.is_empty() {
        out.binding(id, Fact::Learned { news });
    }
}

pub fn learn_one(out: &mut Outcome, id: &BindingId, cause: &str, wakes: bool, line: String) {
    let news = News { cause: cause.to_owned(), line, wakes, at: out.now.wall };
    learn(out, id, vec![news]);
}

/// The steward is idle and there is news that wakes.
pub fn wake_due(out: &mut Outcome, view: &View<'_>, id: &BindingId) {
    let Some(binding) = out.world.bindings.get(id).filter(|b| b.due() && b.live()) else { return };
    let Some(steward) = binding.steward.clone() else { return };
    let causes = binding.causes();
    let empty = Snapshot::default();
    let text = compose(&out.world, binding, view.seen.unwrap_or(&empty));
    let parcel = Parcel { from: Sender::System, cause: "wake", text, wake: true, bus: None };
    if deliver(out, &steward, SendMode::Start, parcel).is_ok() {
        out.binding(id, Fact::Woken { causes });
    }
}

/// The wake's turn was cut: a wake is a level, so the binding is due again.
pub fn wake_cut(out: &mut Outcome, id: &BindingId, cause: &str) {
    let Some(binding) = out.world.bindings.get(id).filter(|b| b.live()) else { return };
    if !binding.carried.is_empty() {
        out.binding(id, Fact::WakeCut { cause: cause.to_owned() });
    }
}

/// Messages that a cut turn had begun with: they are told in the next wake,
/// because nobody knows whether the agent had them.
pub fn messages_cut(out: &mut Outcome, id: &BindingId, messages: &[&Queued]) {
    for message in messages {
        let line = format!("a turn that began with this was cut: {}", cut(&one_line(&message.text), 1_000));
        learn_one(out, id, "message", true, line);
    }
}

/// The ready gate is met and nothing stands against it.
pub fn leave_due(out: &mut Outcome, id: &BindingId) {
    let Some(binding) = out.world.bindings.get(id) else { return };
    let busy = binding.steward.as_ref().and_then(|s| out.world.threads.get(s)).is_some_and(|t| t.status.busy());
    out.binding(id, Fact::LeaveGiven);
    if !busy {
        // In a live turn the answer of its report has said it.
        learn_one(out, id, "leave", true, "you have leave to start workers".into());
    }
}

/// The whole text of a wake.
pub fn compose(world: &World, binding: &Binding, snapshot: &Snapshot) -> String {
    let project = world.projects.get(&binding.project);
    let playbook = project.and_then(|p| p.config.ticket_playbook());
    let mut head = format!(
        "# Wake: {} {}\n\nWoken for: {}.\n",
        binding.key,
        one_line(&binding.title),
        binding.causes().join(", ")
    );
    head.push_str("\n## What changed\n\n");
    for news in binding.news.iter().filter(|n| n.wakes) {
        head.push_str(&format!("- {}: {}\n", news.cause, news.line));
    }
    let notes: Vec<&News> = binding.news.iter().filter(|n| !n.wakes).collect();
    if !notes.is_empty() {
        head.push_str("\n## Noted since your last turn\n\n");
        for note in notes {
            head.push_str(&format!("- {}: {}\n", note.cause, note.line));
        }
    }
    if let (Some(playbook), Some(state)) = (playbook, &binding.state) {
        head.push_str(&phase(playbook, state));
        head.push_str(&ready_gate(playbook, binding));
    }
    head.push_str(&threads(world, binding));
    head.push_str(&pulls(world, binding));
    let tail = format!(
        "\n## Commands\n\n- stewards brief {key}: your standing instructions\n- stewards spawn-flags {key}: the command that starts a worker\n- stewards show {key}: this effort as it stands\n\nEnd this turn with steward_report.\n",
        key = binding.key
    );
    let room = WAKE_CAP.saturating_sub(head.chars().count() + tail.chars().count());
    format!("{head}{}{tail}", snapshot_text(binding, snapshot, room))
}

fn phase(playbook: &Playbook, state: &str) -> String {
    let stage = playbook.stage_of(state).map_or("no stage", |s| s.word());
    let text = playbook.section(state).unwrap_or("The playbook has no section for this state.");
    format!("\n## Phase: {state} ({stage})\n\n{text}\n")
}

fn ready_gate(playbook: &Playbook, binding: &Binding) -> String {
    if playbook.ready.checklist.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Ready gate\n\n");
    for (n, item) in playbook.ready.checklist.iter().enumerate() {
        let mark = if binding.ready.contains(item) { "met" } else { "open" };
        text.push_str(&format!("{}. [{mark}] {item}\n", n + 1));
    }
    text.push_str(match binding.leave {
        true => "\nYou have leave to start workers.\n",
        false => "\nReport the items that hold by their numbers; no worker starts before leave is given.\n",
    });
    text
}

fn threads(world: &World, binding: &Binding) -> String {
    let mut text = String::from("\n## Threads\n\n");
    let mut any = false;
    for thread in world.threads.values().filter(|t| t.binding.as_ref() == Some(&binding.id)) {
        if matches!(thread.role, Role::Worker | Role::Reviewer) && thread.archived.is_none() {
            any = true;
            text.push_str(&format!(
                "- {} {} ({}): {}\n",
                thread.role.word(),
                thread.id,
                thread.status.word(),
                thread.title
            ));
        }
    }
    if !any {
        text.push_str("No worker is in flight.\n");
    }
    text
}

fn pulls(world: &World, binding: &Binding) -> String {
    if binding.pulls.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Pull requests\n\n");
    for pull in &binding.pulls {
        let verdict = gate(world, binding, pull);
        let met =
            if verdict.met { "gate met".to_owned() } else { format!("gate not met: {}", verdict.unmet.join("; ")) };
        text.push_str(&format!("- {} {:?}, checks {}, {met}\n", pull.key, pull.state, pull.rollup.word()));
    }
    text
}

/// What was seen, as data. Words that others wrote are quoted line by line.
/// In less room comments go first, then the description; the heading and the
/// link stay.
fn snapshot_text(binding: &Binding, snapshot: &Snapshot, room: usize) -> String {
    let heading = format!("\n## Snapshot\n\n{} {}\n{}\n", binding.key, one_line(&binding.title), binding.url);
    let Some(ticket) = &snapshot.ticket else { return heading };
    let mut full = heading.clone();
    let assignee = ticket.assignee.as_ref().map_or("nobody", |a| a.name.as_str());
    let label = |l: &String| ticket.groups.get(l).map_or_else(|| l.clone(), |group| format!("{group}/{l}"));
    let labels: Vec<String> = ticket.labels.iter().map(label).collect();
    full.push_str(&format!(
        "State {}, priority {}, assigned to {}, labels {}.\n",
        ticket.state.name,
        ticket.priority,
        one_line(assignee),
        one_line(&labels.join(", "))
    ));
    if let Some(parent) = &ticket.parent {
        full.push_str(&format!("Part of {parent}.\n"));
    }
    if let Some(agent) = &ticket.delegate {
        full.push_str(&format!("Delegated to {}.\n", one_line(&agent.name)));
    }
    for (key, unread) in std::iter::once((&binding.key, &ticket.unread))
        .map(|(k, u)| (k.clone(), u))
        .chain(snapshot.pulls.iter().map(|p| (p.key.to_string(), &p.unread)))
        .filter(|(_, unread)| !unread.is_empty())
    {
        full.push_str(&format!("Could not be read of {key}: {}.\n", unread.join(", ")));
    }
    if !ticket.blocked_by.is_empty() {
        full.push_str(&format!("Blocked by {}.\n", ticket.blocked_by.join(", ")));
    }
    full.push_str(&format!("\nDescription, as its author wrote it:\n\n{}", quoted(&ticket.description)));
    let mut comment = |place: &str, c: &Comment| {
        full.push_str(&format!("\n{} on {place} at {}:\n\n{}", one_line(&c.author.name), c.at, quoted(&c.body)));
    };
    ticket.comments.iter().for_each(|c| comment("the ticket", c));
    for pull in &snapshot.pulls {
        pull.comments.iter().for_each(|c| comment(&pull.key.to_string(), c));
        for inline in &pull.inline {
            let line = inline.line.map(|n| format!(":{n}")).unwrap_or_default();
            comment(&format!("{} at {}{line}", pull.key, one_line(&inline.path)), &inline.comment);
        }
    }
    if full.chars().count() <= room {
        return full;
    }
    const SAID: &str = "\n(The snapshot was cut here: read the rest where it lives.)\n";
    let left = room.saturating_sub(SAID.chars().count());
    if left < heading.chars().count() {
        return format!("{heading}{SAID}");
    }
    format!("{}{SAID}", cut(&full, left))
}

/// A wake may be composed now: nothing is being read that it should tell of,
/// or it has waited long enough.
pub(crate) fn may_wake(world: &World, binding: &Binding, now: &crate::moment::Moment) -> bool {
    if !binding.live() || !binding.due() {
        return false;
    }
    let Some(steward) = binding.steward.as_ref().and_then(|s| world.threads.get(s)) else { return false };
    let free = steward.turn.is_none()
        && steward.queue.is_empty()
        && steward.live()
        && !steward.status.busy()
        && steward.status != crate::threads::Status::Stopping
        && steward.failures < crate::threads::MAX_FAILURES
        && crate::threads::hindrance(world, steward, now).is_none();
    let on = world.projects.get(&binding.project).is_some_and(|p| p.on && p.checkout.is_some())
        || matches!(binding.standing, Standing::Ending { .. });
    let settled = binding.window.is_none() && binding.look.is_none() && binding.merging.is_none();
    free && on && (settled || binding.wake_by.as_ref().is_some_and(|d| d.due(now)))
}
