//! Thin, tolerant clients of the two services where the work lives, and the
//! bells that they ring.
//!
//! [`Linear`] reads and changes tickets over GraphQL, [`GitHub`] reads and merges pulls
//! over REST and polls many at once over GraphQL; [`LinearBell`] and [`GitHubBell`] verify webhooks. Nothing here
//! decides anything: answers become snapshots, failures become a
//! [`Trouble`](stewards_core::trouble::Trouble), and a webhook becomes a ring
//! that only says where to look.
//!
//! Both services add and drop fields as they like. So everything that comes
//! from outside is optional, null means absent, and what is unknown is ignored.
//! The opposite holds for wholeness: a list of which one page failed is a
//! failure, never a shorter list.

mod bells;
mod bells_github;
mod cache;
mod github;
mod github_checks;
mod github_http;
mod github_parts;
mod github_poll;
mod github_tool;
mod github_wire;
mod hooks;
mod limits;
mod linear;
mod linear_errors;
mod linear_search;
mod linear_wire;
mod linear_write;
mod logins;
mod meter;
pub mod oauth;
mod transport;

pub use bells::LinearBell;
pub use bells_github::GitHubBell;
pub use github::GitHub;
pub use github_poll::{Asked, poll_query};
pub use hooks::{GITHUB_EVENTS, Installed, LINEAR_TYPES, hook_address, reachable};
pub use linear::Linear;
pub use linear_write::TeamNames;
pub use logins::{How, Login, Logins, Renewal, Service, Token};
