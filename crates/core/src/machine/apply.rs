//! The only way the world changes.

use super::{Fact, Project, Subject, World};
use crate::config::Config;
use crate::ids::{BindingId, NeedId, ProjectId};
use crate::moment::Moment;
use crate::ports::Service;
use crate::snapshot::{Beat, PullState};
use crate::stewards::{Binding, LinkedPull, Need, News, RingWindow, Standing};
use std::collections::BTreeMap;

/// Folds one fact into the rows. `at` is the moment of the event that left it;
/// a fact about a row that is not there changes nothing.
pub fn apply(world: &mut World, subject: &Subject, fact: &Fact, at: &Moment) {
    match subject {
        Subject::Host => host(world, fact, at),
        Subject::Project(id) => project(world, id, fact, at),
        Subject::Binding(id) => binding(world, id, fact, at),
        Subject::Thread(id) => super::apply_thread::apply(world, id, fact, at),
        Subject::Claims => claims(world, fact, at),
        Subject::Need(id) => need(world, id, fact, at),
    }
}

fn host(world: &mut World, fact: &Fact, at: &Moment) {
    let host = &mut world.host;
    match fact {
        Fact::RunBegan { run, settings } => {
            host.run = *run;
            host.settings = settings.clone();
        }
        Fact::DeliveryTaken { source, .. } => {
            if let Some(service) = Service::ALL.into_iter().find(|s| s.word() == source) {
                host.polls.entry(service).or_default().heard = Some(at.wall);
            }
        }
        Fact::PollBegan { service, next, running } => {
            let poll = host.polls.entry(*service).or_default();
            poll.next = Some(next.clone());
            poll.running = *running;
        }
        Fact::PollEnded { service, missed, trouble, again } => {
            let poll = host.polls.entry(*service).or_default();
            poll.running = false;
            poll.ended = Some(at.wall);
            poll.trouble = trouble.clone();
            if *missed {
                poll.missed = Some(at.wall);
                poll.next = Some(at.after(host.settings.poll.min(host.settings.sweep)));
            }
            if let Some(again) = again {
                poll.next = Some(again.clone());
            }
        }
        Fact::AllStopped { on } => host.stopped = *on,
        Fact::ProviderLimited { provider, limit } => {
            host.limits.insert(provider.clone(), limit.clone());
        }
        Fact::MeasureBegan { next } => host.measure = Some(next.clone()),
        Fact::LimitLifted { provider } => {
            host.limits.remove(provider);
        }
        _ => {}
    }
}

fn project(world: &mut World, id: &ProjectId, fact: &Fact, at: &Moment) {
    if let Fact::ProjectAdded { name, repo, remote } = fact {
        let row = Project {
            id: id.clone(),
            name: name.clone(),
            repo: repo.clone(),
            remote: remote.clone(),
            created: at.wall,
            deleted: None,
            on: false,
            checkout: None,
            config: Config::default(),
            unread: None,
            steward: None,
            next_sweep: None,
            sweeping: false,
            swept: None,
            trouble: None,
        };
        world.projects.insert(id.clone(), row);
        return;
    }
    let Some(row) = world.projects.get_mut(id) else { return };
    match fact {
        Fact::SwitchedOn => {
            row.on = true;
            row.next_sweep = None;
        }
        Fact::SwitchedOff => row.on = false,
        Fact::ProjectDeleted => {
            row.deleted = Some(at.wall);
            row.on = false;
            row.config = Config::default();
            row.unread = None;
            row.trouble = None;
        }
        Fact::CheckoutReady { path } => row.checkout = Some(path.clone()),
        Fact::ProjectStewardNamed { thread } => row.steward = Some(thread.clone()),
        Fact::ConfigRead { config } => {
            // A first configuration makes a sweep worth while at once.
            if row.config.project.is_none() && config.project.is_some() {
                row.next_sweep = None;
            }
            row.config = config.as_ref().clone();
            row.unread = None;
        }
        Fact::ConfigUnreadable { says } => row.unread = Some(says.clone()),
        Fact::SweepBegan { next } => {
            row.next_sweep = Some(next.clone());
            row.sweeping = true;
        }
        Fact::SweepEnded { trouble, .. } => {
            row.sweeping = false;
            row.trouble = trouble.clone();
            row.swept = Some(at.wall);
        }
        _ => {}
    }
}

fn binding(world: &mut World, id: &BindingId, fact: &Fact, at: &Moment) {
    if let Fact::CandidateSeen { project, entity, key } = fact {
        if let Some(former) = world.bindings.get_mut(id) {
            // What is known of it stays; an adoption begins the rest anew.
            former.standing = Standing::Candidate;
            former.project = project.clone();
            former.window = None;
            former.look = None;
            former.look_again = None;
            return;
        }
        let row = Binding {
            id: id.clone(),
            project: project.clone(),
            entity: entity.clone(),
            key: key.clone(),
            title: String::new(),
            url: String::new(),
            standing: Standing::Candidate,
            steward: None,
            state: None,
            observed: None,
            pulls: Vec::new(),
            window: None,
            look: None,
            look_again: None,
            computing: 0,
            sets: None,
            beats: BTreeMap::new(),
            full_look: None,
            failed_looks: 0,
            trouble: None,
            news: Vec::new(),
            carried: Vec::new(),
            wake_by: None,
            ready: Vec::new(),
            leave: false,
            report: None,
            asked: false,
            merging: None,
            adopted: None,
            ended: None,
        };
        world.bindings.insert(id.clone(), row);
        return;
    }
    if *fact == Fact::BindingPurged {
        world.bindings.remove(id);
        return;
    }
    if let Fact::CandidateDropped { .. } = fact {
        match world.bindings.get_mut(id) {
            Some(row) if row.ended.is_some() => {
                row.standing = Standing::Ended;
                row.window = None;
                row.look = None;
                row.look_again = None;
            }
            _ => world.bindings.remove(id),
        }
        return;
    }
    let debounce = world.host.settings.debounce;
    let Some(row) = world.bindings.get_mut(id) else { return };
    match fact {
        Fact::RingJoined { why, closes } => {
            // There is something new to be read, however often the last was read again.
            row.computing = 0;
            let window = row.window.get_or_insert_with(|| RingWindow { closes: closes.clone(), why: Vec::new() });
            if !window.why.contains(why) && window.why.len() < 20 {
                window.why.push(why.clone());
            }
        }
        Fact::LookBegan { effect } => {
            row.look = Some(effect.clone());
            row.window = None;
            row.look_again = None;
        }
        Fact::LookFailed { says, again } => {
            row.look = None;
            row.trouble = Some(says.clone());
            row.failed_looks += 1;
            row.look_again = Some(again.clone());
        }
        Fact::Observed { snapshot, title, url, key, state, pulls, behind, full_look } => {
            row.look = None;
            row.trouble = None;
            row.failed_looks = 0;
            row.observed = Some(snapshot.clone());
            row.title = title.clone();
            row.url = url.clone();
            row.key = key.clone();
            if row.state != *state {
                row.sets = None;
            }
            row.state = state.clone();
            row.pulls = merged_pulls(&row.pulls, pulls);
            row.full_look = full_look.clone();
            if !row.computing_now() && !behind {
                row.computing = 0;
            }
        }
        Fact::BeatIs { key, beat } => {
            let known = row.beats.get(key).and_then(|b| b.merges);
            let merges = beat.merges.or(known);
            row.beats.insert(key.clone(), Beat { merges, ..beat.clone() });
        }
        Fact::StateIsSet { state } => row.sets = state.clone(),
        Fact::LookAgain { at } => {
            row.look_again = Some(at.clone());
            row.computing += 1;
        }
        Fact::Adopted { steward } => {
            row.standing = Standing::Open;
            row.steward = Some(steward.clone());
            row.adopted = Some(at.wall);
            row.ended = None;
            row.ready.clear();
            row.leave = false;
            row.report = None;
            row.asked = false;
            row.merging = None;
            row.wake_by = None;
        }
        Fact::Learned { news } => {
            row.news.extend(news.iter().cloned());
            if row.due() && row.wake_by.is_none() {
                row.wake_by = Some(at.after(debounce.saturating_mul(6)));
            }
        }
        Fact::Woken { .. } => {
            row.carried = std::mem::take(&mut row.news);
            row.wake_by = None;
            row.asked = row.carried.iter().any(|n| n.cause == "report");
        }
        Fact::WakeDone => row.carried.clear(),
        Fact::WakeCut { cause } => {
            let mut news = std::mem::take(&mut row.carried);
            let line =
                "your last turn was cut before it was finished: look at what is done already and go on".to_owned();
            news.retain(|n| n.cause != *cause);
            news.push(News { cause: cause.clone(), line, wakes: true, at: at.wall });
            news.append(&mut row.news);
            row.news = news;
            row.wake_by = Some(at.after(0));
        }
        Fact::Reported { report, ready } => {
            for item in ready {
                if !row.ready.contains(item) {
                    row.ready.push(item.clone());
                }
            }
            row.report = Some(report.clone());
        }
        Fact::LeaveGiven => row.leave = true,
        Fact::PullLinked { pull, branch, by } if row.pull(pull).is_none() => {
            row.pulls.push(LinkedPull::named(pull.clone(), branch, by.clone()));
        }
        Fact::EndingBegan { reason } => row.standing = Standing::Ending { reason: reason.clone() },
        Fact::EndingTakenBack => row.standing = Standing::Open,
        Fact::Ended { reason } => {
            row.standing = Standing::Ended;
            row.ended = Some((reason.clone(), at.wall));
            row.window = None;
            row.look_again = None;
            row.news.clear();
            row.carried.clear();
            row.leave = false;
        }
        Fact::MergeBegan { pull, head_sha, .. } => row.merging = Some((pull.clone(), head_sha.clone())),
        Fact::MergeDone { pull, merge_sha } => {
            row.merging = None;
            if let Some(linked) = row.pulls.iter_mut().find(|p| p.key == *pull) {
                linked.state = PullState::Merged;
                linked.merge_sha = Some(merge_sha.clone());
            }
        }
        Fact::MergeFailed { .. } => row.merging = None,
        _ => {}
    }
}

/// What a look saw, plus pulls that are known and were not seen this time: a
/// read that came back short unlinks nothing.
fn merged_pulls(known: &[LinkedPull], seen: &[LinkedPull]) -> Vec<LinkedPull> {
    let mut all = seen.to_vec();
    for old in known {
        match all.iter_mut().find(|p| p.key == old.key) {
            // A stale read does not take a merge back that was confirmed to us.
            Some(new) if old.merge_sha.is_some() && new.merge_sha.is_none() => *new = old.clone(),
            Some(_) => {}
            None => all.push(old.clone()),
        }
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

fn claims(world: &mut World, fact: &Fact, at: &Moment) {
    match fact {
        Fact::BusSent { message } => {
            let book = &mut world.claims;
            book.given.message = message.seq;
            book.given.used(at);
            if message.owes() {
                book.owed.insert(message.seq, message.clone());
            }
            if let Some(answered) = message.answers() {
                book.owed.remove(&answered);
            }
        }
        Fact::BusForgotten { given, .. } => world.claims.given = given.clone(),
        Fact::OwedClosed { message, .. } => world.claims.owed.remove(message),
        Fact::ClaimTaken { claim, .. } => {
            let given = &mut world.claims.given;
            given.epoch = given.epoch.max(claim.epoch);
            given.used(at);
            world.claims.held.insert(claim.key.clone(), claim.as_ref().clone());
        }
        Fact::ClaimAwaited { waiter } => {
            world.claims.given.waiter = world.claims.given.waiter.max(waiter.seq);
            world.claims.waiters.insert(waiter.seq, waiter.as_ref().clone());
        }
        Fact::ClaimUnawaited { seq, .. } => world.claims.waiters.remove(seq),
        Fact::ClaimRenewed { key, .. } | Fact::ClaimWanted { key, .. } | Fact::ClaimWarned { key } => {
            let Some(row) = world.claims.held.get_mut(key) else { return };
            match fact {
                Fact::ClaimRenewed { expires, .. } => row.expires = expires.clone(),
                Fact::ClaimWanted { by, .. } => row.wanted_by.push(by.clone()),
                _ => row.warned = true,
            }
        }
        Fact::ClaimReleased { key, .. } => world.claims.held.remove(key),
        _ => {}
    }
}

fn need(world: &mut World, id: &NeedId, fact: &Fact, at: &Moment) {
    match fact {
        Fact::NeedFiled { project, binding, kind, text } => {
            let row = Need {
                id: id.clone(),
                project: project.clone(),
                binding: binding.clone(),
                kind: kind.clone(),
                text: text.clone(),
                filed: at.wall,
                closed: None,
            };
            world.needs.insert(id.clone(), row);
        }
        Fact::NeedClosed { how } => {
            if let Some(row) = world.needs.get_mut(id) {
                row.closed = Some((at.wall, how.clone()));
            }
        }
        _ => {}
    }
}
