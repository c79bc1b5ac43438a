//! A page as regions: what the first answer writes whole is what the stream
//! later sends in pieces, drawn by the same functions.

use super::parts::Form;
use super::place::Place;
use super::transcript::Lines;
use super::{board, bus, effort, samples, thread};
use crate::Web;
use maud::Markup;
use stewards_core::ids::ThreadId;
use stewards_store::StoreError;

/// A part of a page that is replaced when it changes.
pub(super) struct Region {
    pub(super) id: String,
    pub(super) class: &'static str,
    /// The list that it is appended to when the page does not have it yet.
    pub(super) within: Option<&'static str>,
    pub(super) html: String,
}

impl Region {
    pub(super) fn new(id: &str, class: &'static str, html: Markup) -> Region {
        Region { id: id.to_owned(), class, within: None, html: html.into_string() }
    }

    pub(super) fn listed(id: String, class: &'static str, within: &'static str, html: Markup) -> Region {
        Region { id, class, within: Some(within), html: html.into_string() }
    }
}

pub(super) struct Page {
    pub(super) title: String,
    pub(super) regions: Vec<Region>,
    /// Lists that are there from the beginning, empty or not, in this order.
    pub(super) lists: &'static [&'static str],
}

/// Why there is no page.
pub(super) enum Missing {
    Unknown(String),
    Unreadable(StoreError),
}

impl From<StoreError> for Missing {
    fn from(error: StoreError) -> Missing {
        Missing::Unreadable(error)
    }
}

/// Draws a page from the world as it was committed last. Reads the file, so it
/// is called where blocking is allowed; `lines` keeps what was read before.
pub(super) fn draw(web: &Web, place: &Place, form: &Form, lines: &mut Lines) -> Result<Page, Missing> {
    let now = web.engine.now();
    match place {
        Place::Board => Ok(board::draw(&now.world, &now.now, form)),
        Place::Bus => Ok(bus::draw(&now.world, &now.now, &bus::kept(&web.reader()?)?)),
        Place::Parts => Ok(samples::draw(form)),
        Place::Effort(key) => {
            let Some(binding) = now.world.binding_by_key(key) else {
                return Err(Missing::Unknown(format!("no effort is called {key}")));
            };
            let story = effort::story(&web.reader()?, &now.world, binding)?;
            Ok(effort::draw(&now.world, &now.now, binding, &story, form))
        }
        Place::Thread(id) => {
            let id = ThreadId(id.clone());
            let Some(found) = now.world.threads.get(&id) else {
                return Err(Missing::Unknown(format!("no thread is called {id}")));
            };
            let reader = web.reader()?;
            lines.read(&reader, &id)?;
            let messages = reader.messages_of(&id)?;
            Ok(thread::draw(&now.world, &now.now, found, &messages, lines, form))
        }
    }
}
