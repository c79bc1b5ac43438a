//! Projects: their repositories, and their end.

use stewards_core::bus::ClaimAsk;
use stewards_core::entity::RepoName;
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Event};
use stewards_core::stewards::brief;
use stewards_core::threads::{EnvironmentAsk, EnvironmentState, Role, SpawnAsk};
use stewards_testkit::{MINUTE, REPO, Sim, Weather};

/// A ticket in the middle of its work.
fn at_work() -> Sim {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    let repos = r#"{"repos": [{"url": "https://git.example/acme/api.git", "branch": "next"}]}"#;
    sim.outside.bb.insert("repos.json".into(), repos.into());
    sim.run(MINUTE, |_| false);
    sim.outside(|o| drop(o.ticket()));
    sim.run(5 * MINUTE, |s| s.world().needs.values().any(|n| n.closed.is_none()));
    sim
}

fn delete(sim: &Sim, caller: Caller, yes: bool) -> Event {
    Event::ProjectDeleted { caller, project: sim.project(), yes }
}

#[test]
fn a_deleted_project_takes_its_threads_efforts_and_items_along_and_another_may_take_them_up() {
    let mut sim = at_work();
    let steward = sim.world().threads.values().find(|t| t.role == Role::Steward).unwrap().id.clone();
    assert_eq!(sim.tell(delete(&sim, Caller::Thread(steward), true)).unwrap_err().code, "person_only");
    let preview = sim.tell(delete(&sim, Caller::Person, false)).unwrap_err();
    assert!(preview.code == "needs_yes" && preview.says.contains("1 live efforts"), "{}", preview.says);
    sim.tell(delete(&sim, Caller::Person, true)).unwrap();
    let world = sim.world();
    assert!(world.threads.values().all(|t| t.deleted.is_some()) && world.bindings.is_empty());
    assert!(world.live_projects().next().is_none());
    let turns = sim.turns();
    sim.run(sim.now + 60 * MINUTE, |_| false);
    assert!(sim.world().needs.values().all(|n| n.closed.is_some()) && sim.outside.worktrees.is_empty());
    assert_eq!(sim.turns(), turns, "nothing of it goes on");
    assert_eq!(sim.tell(delete(&sim, Caller::Person, true)).unwrap_err().code, "unknown_project");
    // The same repository as a new project: the ticket is adopted again.
    let (name, repo, remote) = ("again".to_owned(), RepoName(REPO.into()), "file:///remote".to_owned());
    let added = sim.tell(Event::ProjectAdded { name, repo, remote }).unwrap();
    let project = stewards_core::ids::ProjectId(added.ids["project"].clone());
    sim.tell(Event::Switched { project, on: true }).unwrap();
    sim.run(sim.now + 30 * MINUTE, |s| s.world().needs.values().any(|n| n.closed.is_none()));
    assert!(sim.world().bindings.values().any(|b| b.live()) && sim.turns() > turns);
}

#[test]
fn a_worktree_is_of_the_repository_that_is_named_and_so_is_a_bare_pull() {
    let mut sim = at_work();
    let spawn = |sim: &mut Sim, repo: &str, environment| {
        let mut ask = SpawnAsk::of(Role::Plain, "elsewhere", "work");
        ask.project = Some(sim.project());
        ask.model = Some("sim".into());
        ask.repo = Some(RepoName(repo.into()));
        ask.environment = environment;
        sim.tell(Event::Spawned { caller: Caller::Person, ask: Box::new(ask) })
    };
    let refusal = spawn(&mut sim, "acme/none", None).unwrap_err();
    assert!(refusal.code == "unknown_repo" && refusal.hint.contains("acme/api"), "{}", refusal.hint);
    assert_eq!(spawn(&mut sim, "acme/api", Some(EnvironmentAsk::Checkout)).unwrap_err().code, "no_worktree");
    let id = ThreadId(spawn(&mut sim, "acme/api", None).unwrap().ids["thread"].clone());
    sim.run(sim.now + 5 * MINUTE, |s| s.world().threads.get(&id).is_some_and(|t| t.turns > 0));
    let thread = sim.world().threads.get(&id).unwrap();
    assert!(matches!(thread.environment.state, EnvironmentState::Ready { .. }));
    let spec = sim.world().spec_of(thread).unwrap();
    assert_eq!((spec.name.0.as_str(), spec.base.as_deref()), ("acme/api", Some("next")));
    sim.tell(Event::Claimed { caller: Caller::Thread(id), ask: ClaimAsk::of("pr:7", "x") }).unwrap();
    assert!(sim.world().claims.held.values().any(|c| c.key == "pr:acme/api#7"));
    let steward = sim.world().threads.values().find(|t| t.role == Role::Steward).unwrap();
    assert!(brief(sim.world(), steward).contains("--repo <one of acme/api>"));
}
