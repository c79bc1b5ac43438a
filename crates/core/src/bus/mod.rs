//! The bus between threads: typed messages and claims.

mod claims;
mod kinds;
mod refs;
mod send;

pub use claims::{Claim, ClaimsBook, DEFAULT_TTL, MAX_TTL, claim, parse_ttl, release, release_all};
pub use kinds::{KINDS, Kind, Wake, kind, schema_line};
pub use refs::{check_ref, claim_key};
pub use send::{BODY_CAP, BusMessage, Draft, send};
