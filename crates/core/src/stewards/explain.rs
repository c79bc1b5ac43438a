//! A fact as a sentence: the story that the terminal, `explain` and the page tell.

use super::binding::Binding;
use super::gate::short;
use crate::ids::ThreadId;
use crate::machine::{Fact, Subject, World};
use crate::ports::TurnEnd;
use crate::snapshot::{PullState, Rollup};
use crate::text::{cut, one_line};
use crate::threads::{ChangeState, EnvironmentState};

/// Whom a subject is about, as people call it.
pub fn about(world: &World, subject: &Subject) -> String {
    match subject {
        Subject::Binding(id) => world.bindings.get(id).map_or_else(|| id.to_string(), |b| b.key.clone()),
        Subject::Project(id) => world.projects.get(id).map_or_else(|| id.to_string(), |p| p.name.clone()),
        Subject::Thread(id) => {
            world.threads.get(id).map_or_else(|| id.to_string(), |t| format!("{} {id}", t.role.word()))
        }
        Subject::Claims => "bus".into(),
        Subject::Need(id) => format!("item {id}"),
        Subject::Host => "daemon".into(),
    }
}

/// The subjects whose facts may belong to an effort's story.
pub fn concerns(world: &World, binding: &Binding) -> Vec<Subject> {
    let mut all = vec![Subject::Binding(binding.id.clone()), Subject::Claims];
    let threads = world.threads.values().filter(|t| t.binding.as_ref() == Some(&binding.id));
    all.extend(threads.map(|t| Subject::Thread(t.id.clone())));
    let needs = world.needs.values().filter(|n| n.binding.as_ref() == Some(&binding.id));
    all.extend(needs.map(|n| Subject::Need(n.id.clone())));
    all
}

/// Of the bus, only what the effort's own threads did.
pub fn belongs(world: &World, binding: &Binding, subject: &Subject, fact: &Fact) -> bool {
    let own = |id: &ThreadId| world.threads.get(id).is_some_and(|t| t.binding.as_ref() == Some(&binding.id));
    match (subject, fact) {
        (Subject::Claims, Fact::BusSent { message }) => own(&message.to) || message.from.as_ref().is_some_and(own),
        (Subject::Claims, Fact::ClaimTaken { claim, .. }) => claim.holder.as_ref().is_some_and(own),
        (Subject::Claims, Fact::ClaimReleased { key, .. }) => {
            binding.pulls.iter().any(|p| *key == format!("pr:{}#{}", p.key.repo.folded(), p.key.number))
        }
        _ => true,
    }
}

/// One line, or nothing for a fact that only the machine cares about.
pub fn line(fact: &Fact) -> Option<String> {
    Some(match fact {
        Fact::RunBegan { run, .. } => format!("the daemon began run {run}"),
        Fact::DeliveryTaken { .. } => return None,
        Fact::RingIgnored { what, why } => format!("no look for `{what}`: {why}"),
        Fact::Refused { says, .. } => format!("refused: {says}"),
        Fact::EffectFailed { key, says, .. } => format!("{key} failed: {says}"),
        Fact::ProjectAdded { name, repo, .. } => format!("project {name} was added ({repo})"),
        Fact::SwitchedOn => "stewarding was switched on".into(),
        Fact::SwitchedOff => "stewarding was switched off".into(),
        Fact::CheckoutReady { .. } => "the checkout is ready".into(),
        Fact::ProjectStewardNamed { thread } => format!("its project steward is {thread}"),
        Fact::ConfigRead { config } => match config.problems.len() {
            0 => format!("read .bb at {}", short(&config.commit)),
            n => format!("read .bb at {}, with {n} problem(s): {}", short(&config.commit), config.problems[0]),
        },
        Fact::ConfigUnreadable { says } => format!(".bb could not be read, so the last one counts: {says}"),
        Fact::SweepBegan { .. } => return None,
        Fact::SweepEnded { trouble: Some(says), .. } => format!("the sweep failed: {says}"),
        Fact::SweepEnded { found, trouble: None } => {
            return (*found > 0).then(|| format!("a sweep found {found} to manage"));
        }
        Fact::CandidateSeen { key, .. } => format!("{key} may be one to manage: it is looked at"),
        Fact::BindingPurged => "its project was deleted".into(),
        Fact::ProjectDeleted => "the project was deleted".into(),
        Fact::CandidateDropped { why } => format!("not adopted: {why}"),
        Fact::RingJoined { why, .. } => format!("rang: {why}"),
        Fact::LookBegan { .. } => "looking".into(),
        Fact::LookFailed { says, .. } => format!("could not be read, so nothing changes: {says}"),
        Fact::PollBegan { .. } | Fact::BeatIs { .. } | Fact::PollEnded { missed: false, trouble: None, .. } => {
            return None;
        }
        Fact::PollEnded { service, trouble: Some(says), .. } => {
            format!("{} could not be asked what changed: {says}", service.name())
        }
        Fact::PollEnded { service, .. } => {
            format!("a webhook of {} was missed: it is asked more often until one comes", service.name())
        }
        Fact::LookAgain { .. } | Fact::StateIsSet { .. } => return None,
        Fact::Observed { state, pulls, .. } => observed(state.as_deref(), pulls),
        Fact::Adopted { steward } => format!("adopted: its steward is {steward}"),
        Fact::Learned { news } => {
            let lines: Vec<String> = news
                .iter()
                .map(|n| format!("{} ({}): {}", if n.wakes { "wakes" } else { "noted" }, n.cause, n.line))
                .collect();
            cut(&lines.join("; "), 400)
        }
        Fact::Woken { causes } => format!("woken for {}", causes.join(", ")),
        Fact::WakeDone => return None,
        Fact::WakeCut { cause } => format!("due again: {cause}"),
        Fact::Reported { report, .. } => format!(
            "reported: {} Next ({:?}): {}",
            cut(&one_line(&report.summary), 160),
            report.actor,
            report.next_action
        ),
        Fact::LeaveGiven => "ready gate met: workers may start".into(),
        Fact::PullLinked { pull, .. } => format!("{pull} was opened"),
        Fact::EndingBegan { reason } => format!("ending: {}", reason.words()),
        Fact::EndingTakenBack => "the ending was taken back".into(),
        Fact::Ended { reason } => format!("ended: {}", reason.words()),
        Fact::MergeBegan { pull, head_sha, by } => format!("{by} merges {pull} at {}", short(head_sha)),
        Fact::MergeDone { pull, merge_sha } => format!("{pull} merged as {}", short(merge_sha)),
        Fact::MergeFailed { pull, says } => format!("{pull} was not merged: {says}"),
        Fact::Commented { pull, .. } => format!("commented on {pull}"),
        Fact::ThreadCreated { title, role, model, .. } => format!("{} made on {model}: {title}", role.word()),
        Fact::MessageAccepted { message } => {
            return (message.cause == "resume").then(|| "told to look at what is done and go on".into());
        }
        Fact::EnvironmentIs { state } => match state {
            EnvironmentState::Ready { path } => format!("its environment is ready at {}", path.display()),
            EnvironmentState::Failed { says } => format!("its environment could not be made: {says}"),
            EnvironmentState::Removed => "its worktree is gone".into(),
            EnvironmentState::MovedAside { path, why } => format!("its worktree was kept at {}: {why}", path.display()),
            EnvironmentState::Unmade | EnvironmentState::Making | EnvironmentState::Removing => return None,
        },
        Fact::TurnBegan { turn, causes, .. } => format!("{turn} began ({})", causes.join(", ")),
        Fact::TurnConfirmed { .. } => return None,
        Fact::TurnEnded { turn, end, last_words, .. } => {
            let how = match end {
                TurnEnd::Finished => String::new(),
                TurnEnd::Cancelled => " (stopped)".into(),
                TurnEnd::Failed { says } => format!(" (failed: {})", cut(&one_line(says), 200)),
                TurnEnd::Limited { says, .. } => format!(" (a limit: {})", cut(&one_line(says), 200)),
            };
            let words = cut(&one_line(last_words), 160);
            format!("{turn} ended{how}{}{words}", if words.is_empty() { "" } else { ": " })
        }
        Fact::TurnCut { turn, .. } => format!("{turn} was cut by a restart"),
        Fact::Steering { .. } | Fact::NoticesTold => return None,
        Fact::Steered { messages, .. } => format!("took {} into its turn", words(messages.len(), "message")),
        Fact::SteeredBack { messages } => {
            format!("{} wait for the turn's end", words(messages.len(), "message"))
        }
        Fact::SteerLost { messages, known: true } => {
            format!("{} came too late", words(messages.len(), "message"))
        }
        Fact::SteerLost { messages, known: false } => {
            format!("nobody knows whether it took {}; not sent again", words(messages.len(), "message"))
        }
        Fact::AgentAsked { pending } => {
            format!("asks the person ({}): {}", pending.id, cut(&one_line(&pending.ask.title), 160))
        }
        Fact::AskPassed { title, by, .. } => format!("allowed by {by}: {title}"),
        Fact::AskSettled { ask, how, .. } => format!("{ask}: {how}"),
        Fact::Deleted => "deleted".into(),
        Fact::Updated { update } => {
            let mut said = Vec::new();
            said.extend(update.title.as_ref().map(|t| format!("titled {t}")));
            said.extend(update.permission.map(|p| format!("may do {}", p.word())));
            let hears = |n| format!("its parent hears {}", if n { "of its turns" } else { "nothing" });
            said.extend(update.notify.map(hears));
            said.extend(update.metadata.keys().map(|name| format!("metadata {name} was set")));
            if said.is_empty() {
                return None;
            }
            said.join(", ")
        }
        Fact::Held => "held until the next message".into(),
        Fact::MessageDropped { message } => format!("{message} was taken back"),
        Fact::MessagesRead { messages, .. } => {
            format!("read {} before the delivery", words(messages.len(), "message"))
        }
        Fact::Released => "its idle agent was released".into(),
        Fact::Noticed { notice, .. } => format!("hears that {} {}", notice.child, notice.what),
        Fact::AllStopped { on: true } => "all agents were stopped".into(),
        Fact::AllStopped { on: false } => "agents go on".into(),
        Fact::ProviderLimited { provider, limit } => {
            format!("{provider} takes no turns until {}: {}", limit.until.wall.strftime("%F %H:%M UTC"), limit.says)
        }
        Fact::MeasureBegan { .. } => return None,
        Fact::LimitLifted { provider } => format!("{provider} is tried again"),
        Fact::Stopping => return None,
        Fact::Stopped => "stopped".into(),
        Fact::Archived { .. } => "archived".into(),
        Fact::Unarchived => "brought back from the archive".into(),
        Fact::TicketChangeBegan { change } => format!("changes a ticket: {}", change.what),
        Fact::TicketChangeEnded { state: ChangeState::Failed { says }, .. } => {
            format!("its change was not made: {says}")
        }
        Fact::TicketChangeEnded { .. } => "its change is made".into(),
        Fact::Wrote { pull, what } => format!("{what} on {pull}"),
        Fact::Retried => "tries again".into(),
        Fact::ReportTaken => return None,
        Fact::BusSent { message } => {
            let fields: Vec<String> =
                message.fields.iter().map(|(k, v)| format!("{k}={}", cut(&one_line(v), 80))).collect();
            format!("#{} {} to {}: {}", message.seq, message.kind, message.to, fields.join(" "))
        }
        Fact::ClaimTaken { claim, .. } => format!("{} holds {}: {}", claim.holder_name(), claim.key, claim.reason),
        Fact::BusForgotten { before, up_to, .. } => {
            format!("messages up to #{up_to} and what was before {before} were forgotten")
        }
        Fact::OwedClosed { message, why } => format!("#{message} gets no answer: {why}"),
        Fact::ClaimRenewed { key, expires } => format!("{key} was renewed until {}", expires.wall),
        Fact::ClaimWanted { key, by } => format!("{by} wants {key}; its holder was told"),
        Fact::ClaimWarned { key } => format!("the holder of {key} was told that its holding ends"),
        Fact::ClaimAwaited { waiter } => format!("{} waits for {}: {}", waiter.who, waiter.key, waiter.reason),
        Fact::ClaimUnawaited { seq, key, why } => format!("place {seq} in line for {key} is gone: {why}"),
        Fact::ClaimReleased { key, why } => format!("{key} is free: {why}"),
        Fact::NeedFiled { text, .. } => format!("needs you: {text}"),
        Fact::NeedClosed { how } => format!("closed: {how}"),
    })
}

fn words(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn observed(state: Option<&str>, pulls: &[super::LinkedPull]) -> String {
    let mut parts = vec![format!("seen in {}", state.unwrap_or("no state"))];
    for pull in pulls {
        let state = match (pull.state, pull.rollup) {
            (PullState::Merged, _) => "merged".to_owned(),
            (PullState::Closed, _) => "closed".to_owned(),
            (PullState::Open, Rollup::None) => "open".to_owned(),
            (PullState::Open, rollup) => format!("open, checks {}", rollup.word()),
        };
        parts.push(format!("{} {state}", pull.key));
    }
    parts.join("; ")
}
