//! Stewards: how an entity is adopted, watched, woken for and ended.

mod binding;
mod brief;
mod counts;
mod diff;
mod ending;
mod explain;
mod gate;
mod looks;
mod marks;
mod merge;
mod polls;
mod report;
mod rings;
mod rows;
mod wake;

pub use binding::{Binding, EndReason, Need, NeedKind, News, RingWindow, Standing};
pub use brief::{brief, spawn_command};
pub use counts::Counts;
pub use diff::{Change, changes};
pub use ending::{
    cap_item_due, end_if_due, project_steward, steward_stopped, steward_turn_ended, switch_off, switch_on,
    thread_deleted, thread_failed, worker_stopped, worker_turn_ended,
};
pub use explain::{about, belongs, concerns, line};
pub use gate::{LinkedPull, Verdict, gate, no_longer_mergeable};
pub use looks::{look_due, look_failed, looked};
pub use marks::{Marker, is_signed, parse_marker, sign};
pub use merge::{merge_answered, merge_item_due, merge_pressed, need_done, pull_opened, wrote};
pub use polls::{Poll, ServiceRow, key, poll_due, polled, service_rows};
pub(crate) use polls::{deadlines as poll_deadlines, due as polls_due, full_look_is_due};
pub use report::{Actor, Report, after_report, reported};
pub use rings::{pull_of_url, rang, ring, sweep_due, swept};
pub use rows::{
    Detail, Glyph, NeedRow, ProjectRow, PullRow, ReadyItem, Row, ask_rows, detail, need_row, needs, project_row,
    project_rows, row, rows,
};
pub(crate) use wake::may_wake;
pub use wake::{WAKE_CAP, compose, leave_due, messages_cut, wake_cut, wake_due};
