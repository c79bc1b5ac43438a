//! The daemon dies at every step of the calm path, over the real file.

use stewards_core::threads::Permission;
use stewards_testkit::{MINUTE, Plant, Sim, Weather};

/// What does not hold at the end.
fn ending(mut sim: Sim) -> Vec<String> {
    sim.run(60 * MINUTE, Sim::all_done);
    let mut bad = sim.left_over();
    bad.extend(sim.unsafe_things());
    bad
}

#[track_caller]
fn ends_well(sim: Sim, what: &str) {
    assert_eq!(ending(sim), Vec::<String>::new(), "{what}");
}

/// The calm path with a bug in it, killed after one step.
pub fn killed(at: u64, plant: Plant) -> Vec<String> {
    let mut sim = with_ticket(None, Some(plant));
    sim.crash_at = Some(at);
    ending(sim)
}

fn weather() -> Weather {
    Weather { sweep: MINUTE, ..Weather::calm() }
}

fn with_ticket(file: Option<std::path::PathBuf>, plant: Option<Plant>) -> Sim {
    let mut sim = Sim::with_store(7, weather(), plant, file);
    sim.outside(|o| {
        o.ticket();
    });
    sim
}

/// Steps of the whole path without a crash.
fn steps() -> u64 {
    let mut sim = with_ticket(None, None);
    sim.run(60 * MINUTE, Sim::all_done);
    assert!(sim.all_done());
    sim.steps
}

#[test]
fn a_death_after_any_commit_changes_nothing_in_the_end() {
    for at in 3..=steps() {
        let mut sim = with_ticket(None, None);
        sim.crash_at = Some(at);
        ends_well(sim, &format!("killed after step {at}"));
    }
}

#[test]
fn however_often_a_turn_is_cut_what_it_began_with_is_quoted_once() {
    let mut sim = Sim::new(1, Weather::calm(), None);
    sim.person_acts = false;
    sim.run(MINUTE, |_| false);
    let id = sim.plain(None, Permission::Full);
    let turn = |sim: &Sim| sim.up().then(|| sim.world().threads.get(&id).unwrap().turn.clone()).flatten();
    for _ in 0..4 {
        sim.run(sim.now + MINUTE, |s| turn(s).is_some_and(|t| t.confirmed));
        let began = turn(&sim).unwrap().messages.iter().map(|m| m.text.clone()).collect::<String>();
        assert_eq!((began.matches("first words").count(), began.contains("> >")), (1, false), "{began}");
        sim.crash();
        sim.run(sim.now + MINUTE, |s| s.up());
    }
}

#[test]
fn the_same_holds_over_the_real_file() {
    let all = steps();
    for at in (3..=all).step_by(9) {
        let dir = tempfile::tempdir().unwrap();
        let mut sim = with_ticket(Some(dir.path().join("stewards.db")), None);
        sim.crash_at = Some(at);
        ends_well(sim, &format!("killed after step {at}"));
    }
}
