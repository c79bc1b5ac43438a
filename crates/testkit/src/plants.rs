//! Planted bugs: wrappers that alter an outcome or lie in a port. The storms
//! must catch every one; nothing in core knows of them.

use stewards_core::machine::{Event, Fact, Outcome, View, decide};
use stewards_core::moment::Moment;
use stewards_core::refusal::Refusal;

/// One bug that somebody might have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// After a restart, turns that were cut are not settled.
    LostWake,
    /// After a restart, writes are repeated without a look first.
    NoProbe,
    /// The merge does not pass the head that was judged.
    BlindMerge,
    /// A ring that comes during a look is thrown away.
    DeafDuringLook,
    /// A call that starts a thread is carried out twice.
    DoubleSpawn,
    /// Notes wake.
    NotesWake,
    /// A released claim stays in the book.
    StickyClaim,
    /// An agent's last word now and then does not count.
    LostEnd,
    /// A removed worktree is still there.
    LeftWorktree,
    /// What a cut turn had begun with is sent again as it was.
    SentAgain,
    /// What an agent took into its turn waits for the next one all the same.
    SteeredTwice,
    /// What nobody knows the fate of is queued again.
    UnknownAgain,
    /// An agent's question is forgotten with the run in which it was asked.
    LostQuestion,
}

impl Plant {
    /// Those that only threads alone can show.
    pub const OF_THREADS: [Plant; 3] = [Plant::SteeredTwice, Plant::UnknownAgain, Plant::LostQuestion];

    pub const ALL: [Plant; 10] = [
        Plant::LostWake,
        Plant::NoProbe,
        Plant::BlindMerge,
        Plant::DeafDuringLook,
        Plant::DoubleSpawn,
        Plant::NotesWake,
        Plant::StickyClaim,
        Plant::LostEnd,
        Plant::LeftWorktree,
        Plant::SentAgain,
    ];
}

/// Core's `decide`, or what is made of it.
pub(crate) fn decider(plant: Option<Plant>) -> stewards_engine::Decider {
    Box::new(move |view: &View<'_>, event: &Event, now: &Moment| -> Result<Outcome, Refusal> {
        let outcome = decide(view, event, now)?;
        let alter: fn(&mut Fact) -> bool = match plant {
            Some(Plant::NotesWake) => |fact| {
                if let Fact::Learned { news } = fact {
                    news.iter_mut().for_each(|n| n.wakes = true);
                }
                true
            },
            Some(Plant::StickyClaim) => |fact| !matches!(fact, Fact::ClaimReleased { .. }),
            Some(Plant::SteeredTwice) => |fact| {
                if let Fact::Steered { messages, .. } = fact {
                    *fact = Fact::SteeredBack { messages: std::mem::take(messages) };
                }
                true
            },
            Some(Plant::UnknownAgain) => |fact| {
                if let Fact::SteerLost { messages, known: false } = fact {
                    *fact = Fact::SteeredBack { messages: std::mem::take(messages) };
                }
                true
            },
            Some(Plant::LostQuestion) => |fact| !matches!(fact, Fact::AgentAsked { .. }),
            _ => return Ok(outcome),
        };
        let mut altered = Outcome::new(view.world, now);
        for (subject, mut fact) in outcome.facts {
            if alter(&mut fact) {
                altered.fact(subject, fact);
            }
        }
        (altered.effects, altered.reply) = (outcome.effects, outcome.reply);
        (altered.fate, altered.keep) = (outcome.fate, outcome.keep);
        Ok(altered)
    })
}
