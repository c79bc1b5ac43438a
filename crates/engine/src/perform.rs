//! Carrying out effects through the ports. Each answers with what came of it.

use crate::heart::Started;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use stewards_core::entity::{Entity, PullKey};
use stewards_core::ids::{ThreadId, TurnId};
use stewards_core::machine::{Answer, Effect, Write};
use stewards_core::ports::{Agents, Pulls, Repo, Steered, Tickets, TurnEnd, TurnEvent, TurnSink};
use stewards_core::snapshot::{LookAsk, PullState, Snapshot};
use stewards_core::stewards::{no_longer_mergeable, pull_of_url};
use stewards_core::text::cut;
use stewards_core::threads::{ContextUse, Tokens};
use stewards_core::tickets::TicketWrite;
use stewards_core::trouble::Trouble;

/// The outside, as the binary introduced it.
#[derive(Clone)]
pub struct Ports {
    pub tickets: Arc<dyn Tickets>,
    pub pulls: Arc<dyn Pulls>,
    pub agents: Arc<dyn Agents>,
    pub repo: Arc<dyn Repo>,
}

/// Does what was started. `sink` hears what an agent does during a turn.
pub async fn perform(ports: &Ports, started: &Started, sink: Arc<dyn TurnSink>) -> Answer {
    match &started.effect {
        Effect::Checkout { spec } => Answer::Checkout(ports.repo.checkout(spec).await),
        Effect::ReadBb { spec } => Answer::Bb(ports.repo.read_bb(spec).await),
        Effect::FindAdoptable { ask, .. } => Answer::Adoptable(match ports.tickets.room() {
            Ok(()) => ports.tickets.adoptable(ask).await,
            Err(full) => Err(full),
        }),
        Effect::Look { ask, .. } => Answer::Look(Box::new(look(ports, ask).await)),
        Effect::PollTickets { uuids } => Answer::Polled(match ports.tickets.room() {
            Ok(()) => ports.tickets.beats(uuids).await,
            Err(full) => Err(full),
        }),
        Effect::PollPulls { pulls, branches } => Answer::Polled(match ports.pulls.room() {
            Ok(()) => ports.pulls.beats(pulls, branches).await,
            Err(full) => Err(full),
        }),
        Effect::MakeEnvironment { thread, spec, branch } => {
            Answer::EnvironmentMade(ports.repo.add_worktree(spec, thread, branch).await)
        }
        Effect::RemoveEnvironment { thread, spec, branch } => {
            Answer::EnvironmentRemoved(ports.repo.remove_worktree(spec, thread, branch).await)
        }
        Effect::Measure { places } => {
            let sizes = ports.repo.disk(places.values().cloned().collect()).await;
            let of = |(thread, path): (&ThreadId, _)| Some((thread.clone(), *sizes.get(path)?));
            Answer::Measured(places.iter().filter_map(of).collect())
        }
        Effect::Stop { thread } => {
            ports.agents.stop(thread).await;
            // What of it ran git may have been killed in the middle.
            ports.repo.unlock().await;
            Answer::Stopped
        }
        Effect::Turn { .. } => turn(ports, started, sink).await,
        Effect::Steer { thread, turn } => Answer::Steered(match &started.words {
            Some(words) => ports.agents.steer(thread, turn, words.clone()).await,
            None => Steered::NotTaken,
        }),
        Effect::Answer { thread, key, reply } => Answer::Replied(ports.agents.answer(thread, key, reply).await),
        Effect::Release { thread } => {
            ports.agents.release(thread).await;
            Answer::Released
        }
        Effect::WriteTicket { write, .. } => Answer::Written(change_ticket(ports, write, started.probe).await),
        Effect::Write { write, .. } => {
            if started.probe {
                match probe(ports, write).await {
                    Ok(Some(done)) => return Answer::Written(Ok(done)),
                    Ok(None) => {}
                    Err(trouble) => return Answer::Written(Err(trouble)),
                }
            }
            Answer::Written(match write {
                Write::Merge { pull, head_sha, title } => ports.pulls.merge(pull, head_sha, title).await,
                Write::Comment { pull, body, .. } => ports.pulls.comment(pull, body).await,
            })
        }
    }
}

/// Changes a ticket, unless that has been done already.
async fn change_ticket(ports: &Ports, write: &TicketWrite, probe: bool) -> Result<String, Trouble> {
    if probe && let Some(done) = ports.tickets.written(write).await? {
        return Ok(done);
    }
    ports.tickets.write(write).await
}

/// Whether a write has happened already, and as what.
pub async fn probe(ports: &Ports, write: &Write) -> Result<Option<String>, Trouble> {
    match write {
        Write::Merge { pull, head_sha, .. } => {
            let read = ports.pulls.pull(pull).await?;
            if read.state == PullState::Merged {
                return Ok(Some(read.merge_sha.unwrap_or_default()));
            }
            // It was judged some time ago: what was read now has the last word.
            match no_longer_mergeable(&read, head_sha) {
                Some(says) => Err(Trouble::Refused { says }),
                None => Ok(None),
            }
        }
        Write::Comment { pull, marker, .. } => {
            let read = ports.pulls.pull(pull).await?;
            let ours = format!(" {marker} -->");
            Ok(read.comments.into_iter().find(|c| c.body.contains(&ours)).map(|c| c.id))
        }
    }
}

/// Reads an entity whole: the ticket, and every pull that is linked to it by
/// name, by a worker's branch or by the ticket's own links.
async fn look(ports: &Ports, ask: &LookAsk) -> Result<Snapshot, Trouble> {
    let mut snapshot = Snapshot::default();
    let mut keys: BTreeSet<PullKey> = ask.pulls.iter().cloned().collect();
    if matches!(ask.entity, Entity::Ticket { .. }) {
        ports.tickets.room()?;
    }
    if !keys.is_empty() || !ask.branches.is_empty() {
        ports.pulls.room()?;
    }
    match &ask.entity {
        Entity::Ticket { uuid } => {
            let ticket = ports.tickets.ticket(uuid).await?;
            for (repo, _) in &ask.branches {
                keys.extend(ticket.links.iter().filter_map(|url| pull_of_url(url, repo)));
            }
            snapshot.ticket = Some(ticket);
        }
        Entity::Pull(key) => {
            keys.insert(key.clone());
        }
    }
    for (repo, branch) in &ask.branches {
        // A repository that is not found is one that this login cannot read: the
        // ticket is where it was.
        let found = ports.pulls.of_branch(repo, branch).await.map_err(|trouble| match trouble {
            Trouble::Gone { says } => Trouble::Unauthorized { says },
            other => other,
        })?;
        keys.extend(found);
    }
    for key in keys {
        match ports.pulls.pull(&key).await {
            Ok(pull) => snapshot.pulls.push(pull),
            // A link may lead nowhere; only the entity itself can be gone.
            Err(Trouble::Gone { .. }) if ask.entity != Entity::Pull(key.clone()) => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(snapshot)
}

async fn turn(ports: &Ports, started: &Started, sink: Arc<dyn TurnSink>) -> Answer {
    let Some(job) = started.job.clone() else {
        let end = TurnEnd::Failed { says: "its environment was gone when the turn was to begin".into() };
        return not_begun(end);
    };
    if let Some((spec, branch)) = &job.worktree
        && let Err(trouble) = ports.repo.add_worktree(spec, &job.thread, branch).await
    {
        let end = TurnEnd::Failed { says: format!("its worktree could not be made again: {trouble}") };
        return not_begun(end);
    }
    let given = job.context.chars().count() + job.prompt.chars().count();
    let record = Arc::new(Record { sink, heard: Mutex::new(Heard::default()) });
    let end = ports.agents.turn(job, record.clone()).await;
    let heard = record.heard.lock().unwrap_or_else(PoisonError::into_inner);
    let tokens = heard.tokens.unwrap_or_else(|| Tokens {
        // About four characters a token: good enough to compare, and marked so.
        input: given as u64 / 4,
        output: heard.chars as u64 / 4,
        estimated: true,
    });
    Answer::TurnEnded { end, tokens, context: heard.context, last_words: cut(heard.words.trim(), 4_000) }
}

/// No agent was asked anything.
fn not_begun(end: TurnEnd) -> Answer {
    Answer::TurnEnded { end, tokens: Tokens::default(), context: None, last_words: String::new() }
}

#[derive(Default)]
struct Heard {
    /// What was said since the last tool call.
    words: String,
    chars: usize,
    tokens: Option<Tokens>,
    context: Option<ContextUse>,
}

/// Passes everything on and keeps what the turn's end is to tell.
struct Record {
    sink: Arc<dyn TurnSink>,
    heard: Mutex<Heard>,
}

impl TurnSink for Record {
    fn take(&self, thread: &ThreadId, turn: &TurnId, event: TurnEvent) {
        {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            match &event {
                TurnEvent::Text { text } => {
                    heard.chars += text.chars().count();
                    heard.words.push_str(text);
                }
                TurnEvent::ToolCall { .. } => heard.words.clear(),
                TurnEvent::Usage(tokens) => heard.tokens = Some(*tokens),
                TurnEvent::Context(context) => heard.context = Some(*context),
                TurnEvent::Confirmed { .. }
                | TurnEvent::ToolResult { .. }
                | TurnEvent::Compacted { .. }
                | TurnEvent::Asks(_)
                | TurnEvent::Unasks { .. } => {}
            }
        }
        self.sink.take(thread, turn, event);
    }
}
