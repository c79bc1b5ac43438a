//! Writes to the pretend outside: they happen, their answers may be lost, and what is
//! there is found by a probe.

use crate::outside::Outside;
use crate::plants::Plant;
use crate::sim::Sim;
use stewards_core::entity::Entity;
use stewards_core::machine::{Answer, Caller, Effect, Event};
use stewards_core::threads::Thread;
use stewards_core::tickets::{Known, TicketWrite};
use stewards_core::trouble::Trouble;
use stewards_engine::Started;

impl Sim {
    pub(crate) fn write_happens(&mut self, started: Started) {
        let before = self.outside.clone();
        let result = match started.effect.clone() {
            Effect::Write { write, .. } => {
                // The worst moment for a push is between the judgement and the merge.
                if self.weather.pushes > 0 && self.rng.chance(300) {
                    self.somebody_pushes();
                }
                let done = started.probe.then(|| self.outside.probe(&write)).flatten();
                match done {
                    Some(found) => Ok(found),
                    None => self.outside.write(&write, self.plant != Some(Plant::BlindMerge)),
                }
            }
            Effect::WriteTicket { write, .. } => {
                let done = started.probe.then(|| self.outside.written(&write)).flatten();
                done.map_or_else(|| self.outside.write_ticket(&write), Ok)
            }
            _ => return,
        };
        let lost = self.rng.chance(self.weather.writes_flaky);
        let result = if lost { Err(Trouble::Flaky { says: "the connection broke".into() }) } else { result };
        self.news_since(&before);
        let wait = self.rng.between(20, 1_500);
        // A plant that never looks first does not after a lost answer either.
        let mut started = started;
        started.probe = false;
        self.answer(wait, started, Answer::Written(result), 1);
    }

    /// A thread says something on its ticket, as a tool would have it say it.
    pub(crate) fn says_on_its_ticket(&mut self, thread: &Thread, words: &str) {
        let binding = thread.binding.as_ref().and_then(|b| self.world().bindings.get(b));
        let Some(Entity::Ticket { uuid }) = binding.map(|b| b.entity.clone()) else { return };
        self.said += 1;
        let id = format!("10000000-0000-4000-8000-{:012}", self.said);
        let ticket = Known { name: uuid.clone(), id: uuid };
        let write = Box::new(TicketWrite::Comment { id, ticket, body: words.to_owned() });
        self.act(Event::TicketWriteAsked { caller: Caller::Thread(thread.id.clone()), write });
    }
}

impl Outside {
    /// A change of a ticket really happens; the same words twice are a sin.
    fn write_ticket(&mut self, write: &TicketWrite) -> Result<String, Trouble> {
        let gone = || Trouble::Gone { says: "no ticket".into() };
        match write {
            TicketWrite::Comment { id, ticket, body } => {
                let row = self.tickets.get_mut(&ticket.id).ok_or_else(gone)?;
                if row.comments.iter().any(|c| c.body == *body) {
                    self.sins.push(format!("the same comment was written twice on {}: {body}", row.identifier));
                }
                row.comments.push(crate::outside::comment(id.clone(), crate::outside::me(), body));
                Ok(format!("{}#{id}", row.url))
            }
            TicketWrite::Update { ticket, state: Some(state), .. } => {
                let row = self.tickets.get_mut(&ticket.id).ok_or_else(gone)?;
                row.state.name.clone_from(&state.name);
                Ok(row.url.clone())
            }
            TicketWrite::Update { .. } | TicketWrite::Create { .. } | TicketWrite::Reply { .. } => {
                Err(Trouble::Refused { says: "nobody does that here".into() })
            }
        }
    }

    fn written(&self, write: &TicketWrite) -> Option<String> {
        let TicketWrite::Comment { id, ticket, .. } = write else { return None };
        let row = self.tickets.get(&ticket.id)?;
        row.comments.iter().any(|c| c.id == *id).then(|| format!("{}#{id}", row.url))
    }
}
