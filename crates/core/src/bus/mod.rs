//! The bus between threads: typed messages and claims.

mod claim;
mod claims;
mod filter;
mod forget;
mod kinds;
mod owed;
mod reading;
mod refs;
mod send;
mod wait;

pub use claim::{ClaimAsk, REASON_CAP, claim, claim_one, heartbeat, release, release_all};
pub use claims::{
    Claim, ClaimRow, ClaimsBook, DEFAULT_TTL, MAX_HOLD, MAX_TTL, Waiter, check_epoch, claim_rows, overlap, parse_ttl,
};
pub use filter::filter;
pub use forget::{FORGET_STEP, Given, forget};
pub(crate) use forget::{forgetting_deadline, forgetting_is_due};
pub use kinds::{KINDS, Kind, Wake, kind, known_kind, schema_line, table};
pub use owed::{OwedRow, close_owed, owed_between, owed_rows, withdraw};
pub use reading::{read, retry};
pub use refs::{check_ref, claim_key};
pub use send::{BODY_CAP, BusMessage, Draft, OWNER, send};
pub use wait::settle;
pub(crate) use wait::{settling_deadlines, settling_is_due};
