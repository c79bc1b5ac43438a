//! Webhooks that GitHub could not deliver, because this server was down or not reached:
//! its log tells them, where one's login may read it. Each is a ring like any other, and
//! one that was taken before counts for nothing.

use crate::settings::Settings;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use stewards_core::machine::Event;
use stewards_core::ports::Service;
use stewards_engine::Engine;
use stewards_sources::{GitHub, hook_address};

/// GitHub keeps its log for three days.
const KEPT: SignedDuration = SignedDuration::from_hours(72);
/// Between two looks into the log.
const EVERY: Duration = Duration::from_secs(3_600);

/// Looks now and every hour. Without an address of this server no webhook is ours.
pub async fn watch(engine: Engine, github: GitHub, settings: Settings) {
    let Some(base) = settings.public_url else { return };
    let url = hook_address(&base, Service::GitHub);
    let mut since = Timestamp::now().checked_sub(KEPT).unwrap_or(Timestamp::MIN);
    loop {
        let now = Timestamp::now();
        for project in engine.now().world.projects.values().filter(|p| p.on) {
            let repos = std::iter::once(&project.repo).chain(project.config.repos.iter().map(|r| &r.name));
            for repo in repos {
                // Where the log cannot be read, polls find the same a little later.
                for ring in github.undelivered(repo, &url, since).await.unwrap_or_default() {
                    let _ = engine.tell(Event::Rang(ring)).await;
                }
            }
        }
        since = now;
        tokio::time::sleep(EVERY).await;
    }
}
