//! The one turn that a process may have, shared by those who hear the agent and
//! those who answer it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::ports::{TurnEvent, TurnSink};
use stewards_core::threads::{Ask, AskReply, Can};
use tokio::sync::oneshot;

/// The longest tool result that is passed on, in characters.
pub(crate) const RESULT_CHARS: usize = 20_000;

pub(crate) struct Live {
    turn: Mutex<Option<LiveTurn>>,
    sign: Mutex<Instant>,
    asks: Mutex<Asks>,
}

struct LiveTurn {
    thread: ThreadId,
    turn: TurnId,
    session: String,
    sink: Arc<dyn TurnSink>,
    confirmed: bool,
}

#[derive(Default)]
struct Asks {
    made: u64,
    open: BTreeMap<String, oneshot::Sender<AskReply>>,
}

pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(crate) fn new() -> Live {
        Live { turn: Mutex::new(None), sign: Mutex::new(Instant::now()), asks: Mutex::default() }
    }

    /// The agent showed a sign of life.
    pub(crate) fn touch(&self) {
        *locked(&self.sign) = Instant::now();
    }

    /// When it last did; now, while it waits for an answer of ours.
    pub(crate) fn last_sign(&self) -> Instant {
        if !locked(&self.asks).open.is_empty() {
            self.touch();
        }
        *locked(&self.sign)
    }

    /// From here on what the agent does belongs to this turn.
    pub(crate) fn begin(&self, thread: &ThreadId, turn: &TurnId, session: &str, sink: Arc<dyn TurnSink>) {
        let (thread, turn, session) = (thread.clone(), turn.clone(), session.to_owned());
        *locked(&self.turn) = Some(LiveTurn { thread, turn, session, sink, confirmed: false });
        self.touch();
    }

    /// Nothing that comes after this belongs to the turn; nobody waits for answers.
    pub(crate) fn over(&self) {
        // In this order, so that no ask slips in and is waited for when nobody answers.
        let Some(turn) = locked(&self.turn).take() else { return };
        for key in std::mem::take(&mut locked(&self.asks).open).into_keys() {
            turn.take(TurnEvent::Unasks { key });
        }
    }

    pub(crate) fn busy(&self) -> bool {
        locked(&self.turn).is_some()
    }

    pub(crate) fn is(&self, turn: &TurnId) -> bool {
        locked(&self.turn).as_ref().is_some_and(|t| t.turn == *turn)
    }

    pub(crate) fn session(&self) -> Option<String> {
        locked(&self.turn).as_ref().map(|t| t.session.clone())
    }

    /// The agent may name its session only once it runs.
    pub(crate) fn is_session(&self, session: &str) {
        if let Some(turn) = locked(&self.turn).as_mut() {
            turn.session = session.to_owned();
        }
    }

    /// Told once a turn.
    pub(crate) fn confirm(&self, can: Can) {
        // The lock is held while the sink takes an event, so that events stay in order.
        if let Some(turn) = locked(&self.turn).as_mut().filter(|t| !t.confirmed) {
            turn.confirmed = true;
            turn.take(TurnEvent::Confirmed { session: turn.session.clone(), can });
        }
    }

    pub(crate) fn emit(&self, event: TurnEvent) {
        if let Some(turn) = locked(&self.turn).as_ref() {
            turn.take(event);
        }
    }

    /// Asks; the answer comes by [`Live::answer`], or never, when the turn is over.
    /// The ask gets its key here.
    pub(crate) fn ask(&self, mut ask: Ask) -> (String, oneshot::Receiver<AskReply>) {
        let (answer, wait) = oneshot::channel();
        let key = {
            let mut asks = locked(&self.asks);
            asks.made += 1;
            let key = format!("ask-{}", asks.made);
            if self.busy() {
                asks.open.insert(key.clone(), answer);
            }
            key
        };
        ask.key.clone_from(&key);
        self.emit(TurnEvent::Asks(Box::new(ask)));
        (key, wait)
    }

    /// Says whether somebody still waited for it.
    pub(crate) fn answer(&self, key: &str, reply: &AskReply) -> bool {
        self.touch();
        let waits = locked(&self.asks).open.remove(key);
        waits.is_some_and(|answer| answer.send(reply.clone()).is_ok())
    }

    /// The agent does not wait for it any more.
    pub(crate) fn unask(&self, key: &str) {
        if locked(&self.asks).open.remove(key).is_some() {
            self.emit(TurnEvent::Unasks { key: key.to_owned() });
        }
    }
}

impl LiveTurn {
    fn take(&self, event: TurnEvent) {
        self.sink.take(&self.thread, &self.turn, event);
    }
}

/// A text of an agent, short enough to be shown.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(1_000).collect()
}
