//! Which page it is: one reading of an address for pages, streams and forms.

use std::fmt::Write;

/// A page that exists for everybody with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Board,
    /// By key or by id.
    Effort(String),
    Thread(String),
    Bus,
    Parts,
}

impl Place {
    /// Reads a path as the browser writes it, escapes and all.
    pub(super) fn parse(path: &str) -> Option<Place> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match parts[..] {
            [""] => Some(Place::Board),
            ["bus"] => Some(Place::Bus),
            ["parts"] => Some(Place::Parts),
            ["efforts", key] if !key.is_empty() => Some(Place::Effort(decoded(key)?)),
            ["threads", id] if !id.is_empty() => Some(Place::Thread(decoded(id)?)),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> String {
        match self {
            Place::Board => "/".to_owned(),
            Place::Effort(key) => format!("/efforts/{}", encoded(key)),
            Place::Thread(id) => format!("/threads/{}", encoded(id)),
            Place::Bus => "/bus".to_owned(),
            Place::Parts => "/parts".to_owned(),
        }
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let pair = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for place in [
            Place::Board,
            Place::Bus,
            Place::Parts,
            Place::Effort("DEMO-1".into()),
            Place::Effort("acme/über#3".into()),
            Place::Thread("thr_4".into()),
        ] {
            assert_eq!(Place::parse(&place.path()), Some(place));
        }
    }

    #[test]
    fn other_addresses_are_no_place() {
        for path in ["", "//evil.example", "/efforts/", "/efforts/a/b", "/threads/%zz", "/threads/%", "https://x/"] {
            assert_eq!(Place::parse(path), None, "{path}");
        }
    }
}
