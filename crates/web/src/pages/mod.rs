//! Pages: plain HTML first.

use crate::{Web, session};
use axum::Router;
use axum::routing::get;

pub(crate) fn router(_web: &Web) -> Router<Web> {
    Router::new().route("/enter", get(session::enter))
}
