//! The clients against the twin and against answers made up here, and the bells
//! against every recorded webhook.

mod bells;
mod documents;
mod github;
mod linear;
mod linear_write;
mod logins;
mod polls;
mod recorded;
mod replay;
mod stub;
mod twin;
