//! Polling: asking whether anything has changed, where no webhook tells of it.
//!
//! A poll asks for one line an entity, many in one request, and rings for those whose line
//! is another now. Where a service's webhooks reach this machine it is only the backstop
//! of lost ones, as rare as a sweep; else it is the doorbell itself.

use super::binding::Binding;
use super::rings::{find, ring};
use crate::Millis;
use crate::entity::{Entity, PullKey, RepoName};
use crate::machine::{Effect, Fact, Outcome, Subject, World};
use crate::moment::{Deadline, Moment};
use crate::ports::Service;
use crate::snapshot::{Beat, Beats, PullState, Snapshot};
use crate::threads::Role;
use crate::trouble::Trouble;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A webhook may be so late that a poll sees the change first.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// What is known of one service's doorbell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    pub next: Option<Deadline>,
    /// One is in the air.
    pub running: bool,
    /// The newest webhook.
    pub heard: Option<Timestamp>,
    /// A poll found what no webhook had told of.
    pub missed: Option<Timestamp>,
    /// When the last poll ended, well or not.
    pub ended: Option<Timestamp>,
    /// Why it failed.
    pub trouble: Option<String>,
}

impl Poll {
    /// Webhooks come, and none was missing since.
    pub fn hears(&self) -> bool {
        self.heard.is_some_and(|heard| self.missed.is_none_or(|missed| missed < heard))
    }
}

/// How long from one poll of a service to the next.
pub fn interval(world: &World, service: Service) -> Millis {
    let settings = &world.host.settings;
    match world.host.polls.get(&service).is_some_and(Poll::hears) {
        true => settings.sweep,
        false => settings.poll.min(settings.sweep),
    }
}

/// There is something to ask for.
fn wanted(world: &World) -> bool {
    world.projects.values().any(|p| p.on) || world.bindings.values().any(Binding::live)
}

/// The services that are to be asked now.
pub fn due(world: &World, now: &Moment) -> Vec<Service> {
    if !wanted(world) {
        return Vec::new();
    }
    let is_due = |service: &Service| {
        world.host.polls.get(service).is_none_or(|p| !p.running && p.next.as_ref().is_none_or(|d| d.due(now)))
    };
    Service::ALL.into_iter().filter(is_due).collect()
}

pub fn deadlines(world: &World) -> impl Iterator<Item = &Deadline> {
    let any = wanted(world);
    world.host.polls.values().filter(move |p| any && !p.running).filter_map(|p| p.next.as_ref())
}

/// Asks one service about everything that is watched there.
pub fn poll_due(out: &mut Outcome, service: Service) {
    let next = out.now.after(interval(&out.world, service));
    let hears = out.world.host.polls.get(&service).is_some_and(Poll::hears);
    let live = || out.world.bindings.values().filter(|b| b.live());
    let effect = match service {
        Service::Linear => {
            let uuids: BTreeSet<String> = live()
                .filter_map(|b| match &b.entity {
                    Entity::Ticket { uuid } => Some(uuid.clone()),
                    Entity::Pull(_) => None,
                })
                .collect();
            (!uuids.is_empty()).then(|| Effect::PollTickets { uuids: uuids.into_iter().collect() })
        }
        Service::GitHub => {
            let pulls: BTreeSet<PullKey> = live().flat_map(watched).collect();
            let branches: BTreeSet<(RepoName, String)> = live().flat_map(|b| without_pull(&out.world, b)).collect();
            (!pulls.is_empty() || !branches.is_empty()).then(|| Effect::PollPulls {
                pulls: pulls.into_iter().collect(),
                branches: branches.into_iter().collect(),
            })
        }
    };
    let running = effect.is_some();
    out.fact(Subject::Host, Fact::PollBegan { service, next, running });
    if let Some(effect) = effect {
        out.effect(effect);
    }
    // Where no webhook names what may be adopted, it has to be looked for.
    if service == Service::Linear && !hears {
        let on: Vec<_> = out.world.projects.values().filter(|p| p.on && !p.sweeping).map(|p| p.id.clone()).collect();
        for project in on {
            find(out, &project);
        }
    }
}

/// The pulls of an effort that may still change.
fn watched(binding: &Binding) -> Vec<PullKey> {
    let own = match &binding.entity {
        Entity::Pull(key) => Some(key.clone()),
        Entity::Ticket { .. } => None,
    };
    let linked = binding.pulls.iter().filter(|p| p.state == PullState::Open).map(|p| p.key.clone());
    linked.chain(own).collect()
}

/// Branches of its workers that have no pull yet, as far as is known.
fn without_pull(world: &World, binding: &Binding) -> Vec<(RepoName, String)> {
    world
        .threads_of(&binding.id, Role::Worker)
        .filter(|t| t.archived.is_none() && !binding.pulls.iter().any(|p| p.by.as_ref() == Some(&t.id)))
        .filter_map(|t| Some((world.spec_of(t)?.name, t.branch()?.to_owned())))
        .collect()
}

/// The keys of beats, one an entity.
pub mod key {
    use super::{PullKey, RepoName};

    pub fn ticket(uuid: &str) -> String {
        format!("ticket:{uuid}")
    }

    pub fn pull(key: &PullKey) -> String {
        format!("pull:{key}")
    }

    pub fn branch(repo: &RepoName, branch: &str) -> String {
        format!("branch:{repo}:{branch}")
    }
}

/// The keys that an effort has in a poll of a service.
fn keys(world: &World, binding: &Binding, service: Service) -> Vec<String> {
    match (service, &binding.entity) {
        (Service::Linear, Entity::Ticket { uuid }) => vec![key::ticket(uuid)],
        (Service::Linear, Entity::Pull(_)) => Vec::new(),
        (Service::GitHub, _) => {
            let branches = without_pull(world, binding);
            let branches = branches.iter().map(|(repo, branch)| key::branch(repo, branch));
            watched(binding).iter().map(key::pull).chain(branches).collect()
        }
    }
}

/// A poll came back. What is another than before rings; what is not answered for changes
/// nothing that is known.
pub fn polled(out: &mut Outcome, service: Service, answer: &Result<Beats, Trouble>) {
    let beats = match answer {
        Ok(beats) => beats,
        Err(trouble) => {
            let says = crate::text::one_line(&trouble.to_string());
            let again = match trouble {
                Trouble::Later { .. } => crate::trouble::again(trouble, 1, &out.now),
                // Until somebody logs in, asking every minute helps nobody.
                Trouble::Unauthorized { .. } => Some(out.now.after(out.world.host.settings.sweep)),
                _ => None,
            };
            return out.fact(Subject::Host, Fact::PollEnded { service, missed: false, trouble: Some(says), again });
        }
    };
    let live: Vec<Binding> = out.world.bindings.values().filter(|b| b.live()).cloned().collect();
    let mut changed = false;
    for binding in &live {
        let mut rings = false;
        for key in keys(&out.world, binding, service) {
            let Some(beat) = beats.get(&key) else { continue };
            let before = binding.beats.get(&key);
            if before.is_some_and(|b| !beat.differs(b)) {
                continue;
            }
            rings = true;
            // The first line of an entity may be of before or after the look.
            changed |= before.is_some();
            out.binding(&binding.id, Fact::BeatIs { key, beat: beat.clone() });
        }
        if rings {
            ring(out, &binding.id, "poll");
        }
    }
    let heard = out.world.host.polls.get(&service).and_then(|p| p.heard);
    let silent = heard.is_some_and(|heard| out.now.wall.duration_since(heard) > LATE);
    out.fact(Subject::Host, Fact::PollEnded { service, missed: changed && silent, trouble: None, again: None });
}

/// Whether an answer is older than what a poll has seen: services answer from copies.
pub fn behind(binding: &Binding, snapshot: &Snapshot) -> bool {
    let older = |key: String, updated: Option<Timestamp>| {
        let seen = binding.beats.get(&key).and_then(|b: &Beat| b.updated);
        matches!((seen, updated), (Some(seen), Some(updated)) if updated < seen)
    };
    snapshot.ticket.as_ref().is_some_and(|t| older(key::ticket(&t.uuid), t.updated))
        || snapshot.pulls.iter().any(|p| older(key::pull(&p.key), p.updated))
}

/// Everything is looked at whole once a day, whatever polls and webhooks say.
pub(super) fn full_look(now: &Moment) -> Deadline {
    const DAY: Millis = 86_400_000;
    now.after(DAY)
}

/// Its last whole look is a day ago.
pub fn full_look_is_due(binding: &Binding, now: &Moment) -> bool {
    binding.live() && binding.full_look.as_ref().is_some_and(|d| d.passed(now))
}

/// How it is heard what changes at a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRow {
    pub service: Service,
    /// Its webhooks come, and none was missed since the last.
    pub hears: bool,
    /// The newest webhook.
    pub heard: Option<Timestamp>,
    /// When a poll found what no webhook had told of.
    pub missed: Option<Timestamp>,
    /// When it was polled last.
    pub polled: Option<Timestamp>,
    /// Milliseconds between two polls as it is now.
    pub every: Millis,
    /// Why the last poll failed.
    pub trouble: Option<String>,
}

pub fn service_rows(world: &World) -> Vec<ServiceRow> {
    let row = |service: Service| {
        let poll = world.host.polls.get(&service).cloned().unwrap_or_default();
        ServiceRow {
            service,
            hears: poll.hears(),
            heard: poll.heard,
            missed: poll.missed,
            polled: poll.ended,
            every: interval(world, service),
            trouble: poll.trouble,
        }
    };
    Service::ALL.into_iter().map(row).collect()
}
