//! Webhooks in: verified over the raw bytes, on record before they are answered.

use crate::Web;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use std::collections::BTreeMap;
use stewards_core::machine::Event;
use stewards_core::ports::BadRing;

/// GitHub sends no more than 25 MB; all above is not from it.
const BODY: usize = 25 * 1024 * 1024;

pub(crate) fn router() -> Router<Web> {
    Router::new().route("/hooks/{source}", post(hook)).layer(DefaultBodyLimit::max(BODY))
}

async fn hook(
    State(web): State<Web>,
    Path(source): Path<String>,
    headers: HeaderMap,
    raw: Bytes,
) -> (StatusCode, String) {
    let Some(bell) = web.bells.get(source.as_str()) else {
        return (StatusCode::NOT_FOUND, format!("no webhooks of `{source}` are taken here\n"));
    };
    let named: BTreeMap<String, String> = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    let now = jiff::Timestamp::now().as_millisecond();
    match bell.verify(&named, &raw, now) {
        Ok(ring) => match web.engine.tell(Event::Rang(ring)).await {
            Ok(_) => (StatusCode::OK, "taken\n".into()),
            Err(refusal) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", refusal.says)),
        },
        Err(bad @ BadRing::Signature) => (StatusCode::UNAUTHORIZED, format!("{bad}\n")),
        Err(bad @ BadRing::Body(_)) => {
            tracing::warn!(source, %bad, "a webhook was signed rightly and not understood");
            (StatusCode::BAD_REQUEST, format!("{bad}\n"))
        }
    }
}
