//! One stream a page: after a change it carries the regions that look
//! different now, and nothing else.

use super::draw::{Missing, Region, draw};
use super::no_session;
use super::parts::Form;
use super::place::Place;
use super::transcript::Lines;
use crate::{Stopping, Web};
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use stewards_engine::Published;
use tokio::sync::watch;

/// Changes that come close together are shown together.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// A transcript grows without a commit that says so.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
pub(super) struct Asked {
    page: String,
}

#[derive(Serialize)]
struct Piece<'a> {
    id: &'a str,
    within: Option<&'static str>,
    html: &'a str,
}

struct Stream {
    web: Web,
    place: Place,
    form: Form,
    stop: Stopping,
    watch: watch::Receiver<Arc<Published>>,
    /// The newest event that was drawn.
    drawn: Option<u64>,
    /// What the page shows, by region.
    sent: BTreeMap<String, String>,
    lines: Lines,
    over: bool,
}

/// What a drawing came to.
enum Step {
    Regions(Vec<Region>),
    Same,
    Gone,
}

pub(super) async fn events(
    State(web): State<Web>,
    Extension(stop): Extension<Stopping>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Response {
    let Some(session) = web.sessions.of(&headers) else { return no_session() };
    let Some(place) = Place::parse(&asked.page) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let form = Form { csrf: web.sessions.csrf(&session), page: place.path(), refused: None };
    let watch = web.engine.watch();
    let state = Stream {
        web,
        place,
        form,
        stop,
        watch,
        drawn: None,
        sent: BTreeMap::new(),
        lines: Lines::default(),
        over: false,
    };
    let events = stream::unfold(state, |state| async move { state.next().await });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

impl Stream {
    /// The next event. The first one has every region: what changed between the
    /// page and its stream is in it.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Stream)> {
        if self.over {
            return None;
        }
        if self.drawn.is_none() {
            self.watch.borrow_and_update();
        }
        loop {
            if self.drawn.is_some() && !self.wait().await {
                return None;
            }
            let (back, step) = tokio::task::spawn_blocking(move || self.step()).await.ok()?;
            self = back;
            let event = match step {
                Ok(Step::Same) => continue,
                Ok(Step::Regions(regions)) => self.event(&regions)?,
                Ok(Step::Gone) => {
                    self.over = true;
                    Some(Event::default().event("gone").data("{}"))
                }
                Err(error) => {
                    tracing::warn!(%error, "a page's stream could not read the store");
                    return None;
                }
            };
            if let Some(event) = event {
                return Some((Ok(event), self));
            }
        }
    }

    /// Waits for something that may show; false when the daemon stops.
    async fn wait(&mut self) -> bool {
        let grows = matches!(self.place, Place::Thread(_));
        let changed = tokio::select! {
            () = self.stop.0.cancelled() => return false,
            changed = self.watch.changed() => match changed {
                Ok(()) => true,
                Err(_) => return false,
            },
            () = tokio::time::sleep(LOOK), if grows => false,
        };
        if changed {
            tokio::select! {
                () = self.stop.0.cancelled() => return false,
                () = tokio::time::sleep(DEBOUNCE) => {}
            }
            self.watch.borrow_and_update();
        }
        true
    }

    /// Draws again if there can be anything new.
    fn step(mut self) -> (Stream, Result<Step, stewards_store::StoreError>) {
        let no = self.web.engine.now().no;
        if self.drawn == Some(no) {
            let Place::Thread(id) = &self.place else { return (self, Ok(Step::Same)) };
            let id = stewards_core::ids::ThreadId(id.clone());
            match self.web.reader().and_then(|r| self.lines.read(&r, &id)) {
                Ok(true) => {}
                Ok(false) => return (self, Ok(Step::Same)),
                Err(error) => return (self, Err(error)),
            }
        }
        let step = match draw(&self.web, &self.place, &self.form, &mut self.lines) {
            Ok(page) => Ok(Step::Regions(page.regions)),
            Err(Missing::Unknown(_)) => Ok(Step::Gone),
            Err(Missing::Unreadable(error)) => Err(error),
        };
        self.drawn = Some(no);
        (self, step)
    }

    /// The regions whose HTML is not what was sent; no event if there is none.
    /// The outer `None` ends the stream.
    fn event(&mut self, regions: &[Region]) -> Option<Option<Event>> {
        let other: Vec<&Region> = regions.iter().filter(|r| self.sent.get(&r.id) != Some(&r.html)).collect();
        if other.is_empty() {
            return Some(None);
        }
        let pieces: Vec<Piece<'_>> =
            other.iter().map(|r| Piece { id: &r.id, within: r.within, html: &r.html }).collect();
        let data = serde_json::to_string(&pieces).ok()?;
        for region in other {
            self.sent.insert(region.id.clone(), region.html.clone());
        }
        Some(Some(Event::default().event("regions").data(data)))
    }
}
