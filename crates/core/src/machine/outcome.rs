//! What a decision leaves behind.

use super::{Effect, Fact, Subject, World};
use crate::ids::{AskId, BindingId, EffectId, MessageId, NeedId, ProjectId, ThreadId, TurnId};
use crate::moment::{Deadline, Moment};
use crate::refusal::Refusal;
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

/// What the asker is told once it is committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Sentences for people and agents, a line each.
    pub says: Vec<String>,
    /// Ids that programs want: `thread`, `project`, `message`, `effect`, …
    pub ids: std::collections::BTreeMap<String, String>,
    /// What became of each message that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// One message, accepted for one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub to: ThreadId,
    /// Its number on the bus, where it went over that.
    pub bus: Option<u64>,
    /// Nothing where it goes into nobody's queue: an answer to the owner, and what was
    /// sent before under the same key.
    pub message: Option<MessageId>,
    pub how: How,
    /// What it waits for.
    pub waits_for: Option<String>,
}

impl Receipt {
    pub(crate) fn of(to: &ThreadId, bus: Option<u64>, how: How) -> Receipt {
        Receipt { to: to.clone(), bus, message: None, how, waits_for: None }
    }
}

/// How far a message has come when its sender hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It is about to begin a turn.
    BeginsTurn,
    /// It is handed to the live turn.
    IntoTurn,
    /// It waits, as its kind or mode says.
    Queued,
    /// It was to go into the live turn or begin one, and waits.
    Deferred,
    /// It stands in the log, for the owner to read.
    Logged,
    /// Its key was used before, so nothing was sent.
    SentBefore,
}

/// What becomes of the effect that an `Answered` event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Done,
    /// It stays in the outbox and is tried again then.
    Again(Deadline),
}

/// Facts, effects and a reply. Facts are applied to a working copy as they are
/// pushed, so that a later step of one decision sees what an earlier one made.
#[derive(Debug)]
pub struct Outcome {
    pub facts: Vec<(Subject, Fact)>,
    pub effects: Vec<(EffectId, Effect)>,
    pub reply: Reply,
    pub fate: Fate,
    /// Told instead of the reply, where a no leaves something behind: somebody was told
    /// of it, or a place in line was taken.
    pub refused: Option<Refusal>,
    /// Snapshots to keep, each under its content's hash.
    pub keep: Vec<(String, Snapshot)>,
    /// The world as it stands with the facts so far.
    pub world: World,
    pub now: Moment,
    minted: u32,
}

impl Outcome {
    pub fn new(world: &World, now: &Moment) -> Outcome {
        Outcome {
            facts: Vec::new(),
            effects: Vec::new(),
            reply: Reply::default(),
            fate: Fate::Done,
            refused: None,
            keep: Vec::new(),
            world: world.clone(),
            now: now.clone(),
            minted: 0,
        }
    }

    /// Adds a fact and applies it.
    pub fn fact(&mut self, subject: Subject, fact: Fact) {
        super::apply(&mut self.world, &subject, &fact, &self.now);
        self.facts.push((subject, fact));
    }

    pub fn thread(&mut self, id: &ThreadId, fact: Fact) {
        self.fact(Subject::Thread(id.clone()), fact);
    }

    pub fn binding(&mut self, id: &BindingId, fact: Fact) {
        self.fact(Subject::Binding(id.clone()), fact);
    }

    pub fn project(&mut self, id: &ProjectId, fact: Fact) {
        self.fact(Subject::Project(id.clone()), fact);
    }

    /// Something to be done outside once this is committed.
    pub fn effect(&mut self, effect: Effect) -> EffectId {
        let id = EffectId::minted(self.now.no, self.nth());
        self.effects.push((id.clone(), effect));
        id
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.reply.says.push(line.into());
    }

    pub fn id(&mut self, name: &str, value: impl ToString) {
        self.reply.ids.insert(name.to_owned(), value.to_string());
    }

    fn nth(&mut self) -> u32 {
        let nth = self.minted;
        self.minted += 1;
        nth
    }

    pub fn mint_thread(&mut self) -> ThreadId {
        ThreadId::minted(self.now.no, self.nth())
    }
    pub fn mint_turn(&mut self) -> TurnId {
        TurnId::minted(self.now.no, self.nth())
    }
    pub fn mint_message(&mut self) -> MessageId {
        MessageId::minted(self.now.no, self.nth())
    }
    pub fn mint_ask(&mut self) -> AskId {
        AskId::minted(self.now.no, self.nth())
    }
    pub fn mint_need(&mut self) -> NeedId {
        NeedId::minted(self.now.no, self.nth())
    }
    pub fn mint_project(&mut self) -> ProjectId {
        ProjectId::minted(self.now.no, self.nth())
    }
}
