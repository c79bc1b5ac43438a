//! What an agent asks the person, and how that is settled.

use super::{Parcel, Permission, SendMode, begin_steer, deliver};
use crate::ids::{AskId, ThreadId, TurnId};
use crate::machine::{Caller, Effect, Fact, Outcome};
use crate::refusal::Refusal;
use crate::text::{cut, hash, one_line};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Settled asks that a thread remembers.
pub(crate) const SETTLED: usize = 20;

/// What choosing an option means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    AllowOnce,
    AllowAlways,
    DenyOnce,
    DenyAlways,
    /// One of the answers to a question.
    Choice,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    /// The agent's own name for it.
    pub id: String,
    pub label: String,
    pub means: Means,
}

/// A question of an agent, which waits for its answer within its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The runner's name for it, unique within the agent's process.
    pub key: String,
    /// Leave for a tool, rather than a question.
    pub permission: bool,
    /// The tool only changes files.
    pub edits: bool,
    /// One line: the tool, or the question.
    pub title: String,
    /// What exactly is asked for, such as a command or a path.
    pub detail: String,
    pub options: Vec<AskOption>,
    /// An answer in one's own words is taken.
    pub free: bool,
}

impl Ask {
    /// Two asks for the same thing have the same.
    pub fn fingerprint(&self) -> String {
        hash(&format!("{}\n{}\n{}", self.permission, self.title, self.detail))
    }

    fn option(&self, means: &[Means]) -> Option<&AskOption> {
        means.iter().find_map(|m| self.options.iter().find(|o| o.means == *m))
    }
}

/// The answer that an agent is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskReply {
    Option { id: String },
    Text { text: String },
}

/// An ask that waits for the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub id: AskId,
    pub ask: Ask,
    pub at: Timestamp,
    /// Its agent was ended by a restart: the answer is kept until it asks again.
    pub orphan: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    pub id: AskId,
    pub how: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub fingerprint: String,
    pub means: Means,
    pub reply: AskReply,
}

/// An agent asks. What the thread's permission covers is answered at once; the
/// rest waits for the person, however long that takes.
pub fn agent_asked(out: &mut Outcome, id: &ThreadId, turn: &TurnId, ask: Ask) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let live = thread.turn.as_ref().is_some_and(|t| t.id == *turn);
    if !live || thread.asks.iter().any(|p| !p.orphan && p.ask.key == ask.key) {
        return;
    }
    let fingerprint = ask.fingerprint();
    let remembered = thread.remembered.iter().find(|r| r.fingerprint == fingerprint).cloned();
    let covered = ask.permission
        && match thread.permission {
            Permission::Full => true,
            Permission::AcceptEdits => ask.edits,
            Permission::Ask => false,
        };
    let answer = match remembered {
        Some(known) => {
            let same = ask.option(&[known.means]).filter(|_| matches!(known.reply, AskReply::Option { .. }));
            let reply = same.map_or(known.reply, |o| AskReply::Option { id: o.id.clone() });
            Some((reply, "the person's answer from before the restart"))
        }
        None if covered => ask
            .option(&[Means::AllowOnce, Means::AllowAlways])
            .map(|o| (AskReply::Option { id: o.id.clone() }, "the thread's permission")),
        None => None,
    };
    if let Some((reply, by)) = answer {
        out.thread(id, Fact::AskPassed { fingerprint, title: cut(&one_line(&ask.title), 200), by: by.into() });
        out.effect(Effect::Answer { thread: id.clone(), key: ask.key, reply });
        return;
    }
    let pending = Pending { id: out.mint_ask(), ask, at: out.now.wall, orphan: false };
    let title = pending.ask.title.clone();
    out.thread(id, Fact::AgentAsked { pending: Box::new(pending) });
    super::notify(out, id, "waits for the person", &title);
}

/// The agent waits for this answer no longer.
pub fn agent_unasked(out: &mut Outcome, id: &ThreadId, key: &str) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let gone = thread.asks.iter().find(|p| !p.orphan && p.ask.key == key).map(|p| p.id.clone());
    if let Some(ask) = gone {
        out.thread(id, Fact::AskSettled { ask, how: "its agent took it back".into(), remember: None });
        begin_steer(out, id);
    }
}

/// The person answers. `choice` is an option's number, id or label, `allow` or
/// `deny` for a permission, or free words where the ask takes them.
pub fn answer_asked(out: &mut Outcome, caller: &Caller, ask: &AskId, choice: &str) -> Result<(), Refusal> {
    let hint = "the owner answers it on the page or the command line";
    caller.person_only("answers what an agent asks", hint)?;
    let found = out.world.threads.values().find_map(|t| Some((t.id.clone(), t.asks.iter().find(|p| p.id == *ask)?)));
    let Some((id, pending)) = found.map(|(id, p)| (id, p.clone())) else {
        let settled = out.world.threads.values().flat_map(|t| &t.settled).find(|s| s.id == *ask);
        return Err(match settled {
            Some(settled) => Refusal::not_met(
                "settled",
                format!("{ask} is settled: {}", settled.how),
                "see what is open: stewards thread interactions",
            ),
            None => Refusal::usage(
                "unknown_interaction",
                format!("nothing was asked as {ask}"),
                "see what is open: stewards thread interactions",
            ),
        });
    };
    let (reply, means, label) = chosen(&pending.ask, choice)?;
    let how = format!("answered: {}", cut(&one_line(&label), 200));
    let remember =
        pending.orphan.then(|| Remembered { fingerprint: pending.ask.fingerprint(), means, reply: reply.clone() });
    out.thread(&id, Fact::AskSettled { ask: ask.clone(), how: how.clone(), remember });
    out.say(format!("{ask} is {how}"));
    if pending.orphan {
        let text = format!(
            "Before the host was restarted you asked the owner:\n{}The owner's answer: {}\nIf you still need it, ask again: the same question is then answered at once.",
            crate::text::quoted(&format!("{}\n{}", pending.ask.title, pending.ask.detail)),
            one_line(&label)
        );
        let _ = deliver(out, &id, SendMode::QueueIfActive, Parcel::system("answer", text));
    } else {
        out.effect(Effect::Answer { thread: id.clone(), key: pending.ask.key, reply });
        begin_steer(out, &id);
    }
    Ok(())
}

fn chosen(ask: &Ask, choice: &str) -> Result<(AskReply, Means, String), Refusal> {
    let choice = choice.trim();
    let by_number = choice.parse::<usize>().ok().and_then(|n| ask.options.get(n.checked_sub(1)?));
    let by_name = ask.options.iter().find(|o| o.id == choice || o.label.eq_ignore_ascii_case(choice));
    let by_word = match choice.to_ascii_lowercase().as_str() {
        "allow" | "yes" | "y" => ask.option(&[Means::AllowOnce, Means::AllowAlways]),
        "deny" | "no" | "n" => ask.option(&[Means::DenyOnce, Means::DenyAlways]),
        _ => None,
    };
    if let Some(option) = by_name.or(by_number).or(by_word) {
        return Ok((AskReply::Option { id: option.id.clone() }, option.means, option.label.clone()));
    }
    if ask.free && !choice.is_empty() {
        return Ok((AskReply::Text { text: choice.to_owned() }, Means::Choice, choice.to_owned()));
    }
    let all: Vec<String> = ask.options.iter().enumerate().map(|(n, o)| format!("{} {}", n + 1, o.label)).collect();
    Err(Refusal::usage(
        "bad_choice",
        format!("`{}` is none of the answers", cut(choice, 100)),
        format!("choose one: {}", all.join(", ")),
    ))
}

/// A turn is over, or was stopped: nobody waits for its answers any more.
pub(super) fn withdraw(out: &mut Outcome, id: &ThreadId, how: &str) {
    let Some(thread) = out.world.threads.get(id) else { return };
    let open: Vec<AskId> = thread.asks.iter().map(|p| p.id.clone()).collect();
    for ask in open {
        out.thread(id, Fact::AskSettled { ask, how: how.to_owned(), remember: None });
    }
}
