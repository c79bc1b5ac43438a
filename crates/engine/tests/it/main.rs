//! Carrying out effects, with ports that answer as they are told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use stewards_core::entity::{Entity, PullKey, RepoName};
use stewards_core::ids::{BindingId, EffectId, ThreadId, TurnId};
use stewards_core::machine::{Answer, Effect, Write};
use stewards_core::ports::*;
use stewards_core::snapshot::*;
use stewards_core::stewards::sign;
use stewards_core::threads::AskReply;
use stewards_core::tickets::{Known, TicketAsk, TicketWrite};
use stewards_core::trouble::Trouble;
use stewards_engine::{Ports, Started, perform};

/// Everything outside; writes are counted.
#[derive(Default)]
struct Outside {
    tickets: BTreeMap<String, Ticket>,
    pulls: BTreeMap<PullKey, Pull>,
    merges: Mutex<u32>,
    /// Nothing may be asked in the background.
    full: Option<Trouble>,
}

fn gone<T>(what: &str) -> Result<T, Trouble> {
    Err(Trouble::Gone { says: what.to_owned() })
}

impl Tickets for Outside {
    fn viewer(&self) -> Try<'_, Author> {
        Box::pin(async { Ok(me()) })
    }
    fn ticket<'a>(&'a self, uuid: &'a str) -> Try<'a, Ticket> {
        Box::pin(async move { self.tickets.get(uuid).cloned().map_or_else(|| gone(uuid), Ok) })
    }
    fn adoptable<'a>(&'a self, _: &'a AdoptAsk) -> Try<'a, Vec<Found>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn beats<'a>(&'a self, _: &'a [String]) -> Try<'a, Beats> {
        Box::pin(async { Ok(Beats::new()) })
    }
    fn room(&self) -> Result<(), Trouble> {
        self.full.clone().map_or(Ok(()), Err)
    }
    fn quotas(&self) -> Vec<Quota> {
        Vec::new()
    }
    fn search<'a>(&'a self, _: &'a TicketSearch) -> Try<'a, Vec<TicketLine>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn query<'a>(&'a self, _: &'a str, _: &'a serde_json::Value) -> Try<'a, serde_json::Value> {
        Box::pin(async { Ok(serde_json::Value::Null) })
    }
    fn resolve<'a>(&'a self, _: &'a TicketAsk, _: &'a str) -> Try<'a, TicketWrite> {
        Box::pin(async { gone("names") })
    }
    fn write<'a>(&'a self, _: &'a TicketWrite) -> Try<'a, String> {
        Box::pin(async {
            *self.merges.lock().unwrap() += 1;
            Ok("written".into())
        })
    }
    fn written<'a>(&'a self, write: &'a TicketWrite) -> Try<'a, Option<String>> {
        let known = matches!(write, TicketWrite::Comment { id, .. } if id == "there");
        Box::pin(async move { Ok(known.then(|| "found".into())) })
    }
}

impl Pulls for Outside {
    fn viewer(&self) -> Try<'_, Author> {
        Box::pin(async { Ok(me()) })
    }
    fn pull<'a>(&'a self, key: &'a PullKey) -> Try<'a, Pull> {
        Box::pin(async move { self.pulls.get(key).cloned().map_or_else(|| gone("the pull"), Ok) })
    }
    fn beats<'a>(&'a self, _: &'a [PullKey], _: &'a [(RepoName, String)]) -> Try<'a, Beats> {
        Box::pin(async { Ok(Beats::new()) })
    }
    fn room(&self) -> Result<(), Trouble> {
        self.full.clone().map_or(Ok(()), Err)
    }
    fn quotas(&self) -> Vec<Quota> {
        Vec::new()
    }
    fn of_branch<'a>(&'a self, _: &'a RepoName, _: &'a str) -> Try<'a, Vec<PullKey>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn merge<'a>(&'a self, _: &'a PullKey, _: &'a str, _: &'a str) -> Try<'a, String> {
        Box::pin(async {
            *self.merges.lock().unwrap() += 1;
            Ok("m".repeat(40))
        })
    }
    fn comment<'a>(&'a self, _: &'a PullKey, _: &'a str) -> Try<'a, String> {
        Box::pin(async { Ok("1".into()) })
    }
}

impl Agents for Outside {
    fn turn<'a>(&'a self, _: TurnJob, _: Arc<dyn TurnSink>) -> Soon<'a, TurnEnd> {
        Box::pin(async { TurnEnd::Finished })
    }
    fn steer<'a>(&'a self, _: &'a ThreadId, _: &'a TurnId, _: String) -> Soon<'a, Steered> {
        Box::pin(async { Steered::NotTaken })
    }
    fn answer<'a>(&'a self, _: &'a ThreadId, _: &'a str, _: &'a AskReply) -> Soon<'a, bool> {
        Box::pin(async { false })
    }
    fn release<'a>(&'a self, _: &'a ThreadId) -> Soon<'a, ()> {
        Box::pin(async {})
    }
    fn known(&self) -> Soon<'_, Vec<AgentInfo>> {
        Box::pin(async { Vec::new() })
    }
    fn stop<'a>(&'a self, _: &'a ThreadId) -> Soon<'a, ()> {
        Box::pin(async {})
    }
    fn end_strays(&self) -> Soon<'_, usize> {
        Box::pin(async { 0 })
    }
}

impl Repo for Outside {
    fn unlock(&self) -> Soon<'_, usize> {
        Box::pin(async { 0 })
    }
    fn checkout<'a>(&'a self, _: &'a RepoSpec) -> Try<'a, PathBuf> {
        Box::pin(async { gone("the repository") })
    }
    fn read_bb<'a>(&'a self, _: &'a RepoSpec) -> Try<'a, BbFiles> {
        Box::pin(async { gone("the repository") })
    }
    fn add_worktree<'a>(&'a self, _: &'a RepoSpec, _: &'a ThreadId, _: &'a str) -> Try<'a, PathBuf> {
        Box::pin(async { gone("the repository") })
    }
    fn disk(&self, _: Vec<PathBuf>) -> Soon<'_, BTreeMap<PathBuf, u64>> {
        Box::pin(async { BTreeMap::new() })
    }
    fn remove_worktree<'a>(&'a self, _: &'a RepoSpec, _: &'a ThreadId, _: &'a str) -> Try<'a, Removed> {
        Box::pin(async { Ok(Removed::Gone) })
    }
}

struct Silent;

impl TurnSink for Silent {
    fn take(&self, _: &ThreadId, _: &TurnId, _: TurnEvent) {}
}

fn me() -> Author {
    Author { login: "me".into(), name: "Me".into(), bot: false, me: true }
}

fn key(number: u64) -> PullKey {
    PullKey { repo: RepoName("acme/shop".into()), number }
}

/// Green, and approved by a reviewer at its head.
fn pull(number: u64) -> Pull {
    let head = "a".repeat(40);
    let marker = sign(&format!("<!-- bb-review lane=reviewed verdict=approved sha={head} -->"), "thr_3", None);
    let at = jiff::Timestamp::UNIX_EPOCH;
    Pull {
        key: key(number),
        url: format!("https://github.com/acme/shop/pull/{number}"),
        title: "t".into(),
        body: String::new(),
        author: me(),
        state: PullState::Open,
        draft: false,
        labels: Vec::new(),
        head_branch: "b".into(),
        head_sha: head,
        base_branch: "main".into(),
        mergeable: Mergeable::Yes,
        updated: None,
        requested: Vec::new(),
        inline: Vec::new(),
        files: Vec::new(),
        changed_files: 0,
        closes: Vec::new(),
        unread: Vec::new(),
        merge_sha: None,
        rollup: Rollup::Green,
        checks: Vec::new(),
        reviews: Vec::new(),
        comments: vec![Comment { id: "1".into(), author: me(), body: marker, at, edited: None }],
    }
}

fn ticket(links: &[String]) -> Ticket {
    Ticket {
        uuid: "u".into(),
        identifier: "DEMO-1".into(),
        title: "t".into(),
        team: "DEMO".into(),
        state: TicketState { name: "Todo".into(), category: "unstarted".into() },
        links: links.to_vec(),
        ..Ticket::default()
    }
}

async fn done(outside: Outside, effect: Effect, probe: bool) -> (Answer, u32) {
    let outside = Arc::new(outside);
    let ports =
        Ports { tickets: outside.clone(), pulls: outside.clone(), agents: outside.clone(), repo: outside.clone() };
    let started = Started { id: EffectId("fx_1".into()), effect, attempts: 0, probe, job: None, words: None };
    let answer = perform(&ports, &started, Arc::new(Silent)).await;
    let merges = *outside.merges.lock().unwrap();
    (answer, merges)
}

fn look() -> Effect {
    let branches = vec![(RepoName("acme/shop".into()), "stewards/demo-1".into())];
    let ask = LookAsk { entity: Entity::Ticket { uuid: "u".into() }, pulls: vec![key(9)], branches };
    Effect::Look { binding: BindingId("bnd_1".into()), ask }
}

#[tokio::test]
async fn a_link_that_leads_nowhere_does_not_make_its_ticket_gone() {
    let links = [99, 7].map(|n| format!("https://github.com/acme/shop/pull/{n}"));
    let mut outside = Outside::default();
    outside.tickets.insert("u".into(), ticket(&links));
    outside.pulls.insert(key(7), pull(7));
    let Answer::Look(read) = done(outside, look(), false).await.0 else { panic!("no look") };
    let snapshot = read.expect("the ticket is there");
    assert_eq!(snapshot.pulls.iter().map(|p| p.key.number).collect::<Vec<_>>(), [7]);
    let Answer::Look(read) = done(Outside::default(), look(), false).await.0 else { panic!("no look") };
    assert!(matches!(*read, Err(Trouble::Gone { .. })));
}

#[tokio::test]
async fn a_merge_that_is_found_undone_is_tried_again_only_if_all_is_still_well() {
    let head_sha = "a".repeat(40);
    let write = Write::Merge { pull: key(7), head_sha, title: "t".into() };
    let effect = Effect::Write { binding: BindingId("bnd_1".into()), write };
    let with = |change: fn(&mut Pull)| {
        let mut read = pull(7);
        change(&mut read);
        Outside { pulls: BTreeMap::from([(key(7), read)]), ..Outside::default() }
    };
    let (answer, merges) = done(with(|_| {}), effect.clone(), true).await;
    assert_eq!((answer, merges), (Answer::Written(Ok("m".repeat(40))), 1));
    let done_already = with(|p| {
        p.state = PullState::Merged;
        p.merge_sha = Some("e".repeat(40));
    });
    assert_eq!(done(done_already, effect.clone(), true).await, (Answer::Written(Ok("e".repeat(40))), 0));
    let changes: [fn(&mut Pull); 4] = [
        |p| p.rollup = Rollup::Red,
        |p| p.head_sha = "b".repeat(40),
        |p| p.comments.clear(),
        |p| p.state = PullState::Closed,
    ];
    for change in changes {
        let (answer, merges) = done(with(change), effect.clone(), true).await;
        assert!(matches!(answer, Answer::Written(Err(Trouble::Refused { .. }))), "{answer:?}");
        assert_eq!(merges, 0);
    }
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_looked_for_before_it_is_written_again() {
    let comment = |id: &str| {
        let ticket = Known { id: "u".into(), name: "DEMO-1".into() };
        let write = TicketWrite::Comment { id: id.into(), ticket, body: "Hello.".into() };
        Effect::WriteTicket { thread: ThreadId("thr_1".into()), write: Box::new(write) }
    };
    assert!(!comment("x").repeatable());
    assert_eq!(done(Outside::default(), comment("there"), true).await, (Answer::Written(Ok("found".into())), 0));
    assert_eq!(done(Outside::default(), comment("lost"), true).await, (Answer::Written(Ok("written".into())), 1));
}

#[tokio::test]
async fn where_the_owners_share_begins_nothing_is_asked_in_the_background() {
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let full = || Outside {
        full: Some(Trouble::Later { at, says: "40 % are kept free".into() }),
        tickets: BTreeMap::from([("u".to_owned(), ticket(&[]))]),
        ..Outside::default()
    };
    let later = |answer: &Answer| match answer {
        Answer::Look(look) => matches!(look.as_ref(), Err(Trouble::Later { .. })),
        Answer::Polled(Err(Trouble::Later { .. })) | Answer::Adoptable(Err(Trouble::Later { .. })) => true,
        _ => false,
    };
    let ask = AdoptAsk { label: "bb-managed".into(), teams: vec!["DEMO".into()] };
    for effect in [
        look(),
        Effect::PollTickets { uuids: vec!["u".into()] },
        Effect::PollPulls { pulls: vec![key(7)], branches: Vec::new() },
        Effect::FindAdoptable { project: stewards_core::ids::ProjectId("p".into()), ask },
    ] {
        let (answer, _) = done(full(), effect.clone(), false).await;
        assert!(later(&answer), "{effect:?}: {answer:?}");
    }
    // What somebody waits for is asked.
    let write = Write::Comment { pull: key(7), marker: "m".into(), body: "b".into() };
    let effect = Effect::Write { binding: BindingId("b".into()), write };
    assert_eq!(done(full(), effect, false).await.0, Answer::Written(Ok("1".into())));
}
