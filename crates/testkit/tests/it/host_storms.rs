//! Seeded weather over threads alone: people who write, stop, archive and bring
//! back, agents that ask and fail, crashes. `SEED=n` runs that one alone and
//! `SEEDS=n` so many.

use stewards_core::threads::Permission;
use stewards_testkit::{MINUTE, Plant, Rng, Sim, Weather};

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn storm(seed: u64, plant: Option<Plant>) -> Vec<String> {
    let mut rng = Rng::new(seed ^ 0x7057);
    let weather = Weather::host_storm(&mut rng);
    let mut sim = Sim::new(seed, Weather { crash: 0, ..weather.clone() }, plant);
    sim.settings.max_live = 3;
    sim.settings.turns_per_hour = if rng.chance(300) { 12 } else { 0 };
    sim.settings.compact_at = if rng.chance(500) { 120_000 } else { 0 };
    sim.settings.idle_release = 2 * MINUTE;
    sim.restart();
    sim.run(MINUTE, |_| false);
    let parent = sim.plain(None, Permission::Full);
    for n in 0..4 {
        let permission = if n % 2 == 0 { Permission::Full } else { Permission::Ask };
        sim.plain(Some(&parent).filter(|_| n > 1), permission);
    }
    sim.weather = weather;
    sim.meddle_until = sim.now + rng.between(5 * MINUTE, 30 * MINUTE);
    sim.run(sim.meddle_until, |s| !s.sins.is_empty());
    // Then everybody leaves them alone: what was accepted comes to its end.
    let until = sim.now + 10 * 60 * MINUTE;
    sim.weather =
        Weather { tells: 0, meddles: 0, asks: 0, turns_fail: 0, turns_unheard: 0, limits: 0, crash: 0, ..sim.weather };
    sim.run(until, |s| s.host_rests() || !s.sins.is_empty());
    let mut bad = sim.host_faults();
    if !sim.up() || !sim.host_rests() {
        bad.extend(sim.host_unrest());
    }
    bad
}

#[test]
fn no_storm_over_threads_loses_or_doubles_a_message() {
    let seeds = match env("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("SEEDS").unwrap_or(80),
    };
    for seed in seeds {
        let bad = storm(seed, None);
        assert!(bad.is_empty(), "SEED={seed}: {bad:#?}");
    }
}

#[test]
fn every_bug_planted_into_threads_is_caught() {
    for plant in Plant::OF_THREADS {
        assert!((0..60).any(|seed| !storm(seed, Some(plant)).is_empty()), "nobody noticed {plant:?}");
    }
}
