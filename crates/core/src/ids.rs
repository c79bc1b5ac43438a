//! Names of things. All but a binding's come from the number of the event that
//! made them, so that a replay or a storm makes the same ones again.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Part by part; of two numbers the one with fewer digits is the smaller.
fn by_numbers(one: &str, other: &str) -> std::cmp::Ordering {
    let parts = |id| str::split(id, '_').map(|part| (part.len(), part));
    parts(one).cmp(parts(other))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// The `nth` id of this kind that event `no` makes.
            pub fn minted(no: u64, nth: u32) -> Self {
                if nth == 0 {
                    Self(format!("{}_{no}", $prefix))
                } else {
                    Self(format!("{}_{no}_{nth}", $prefix))
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// By their numbers, so that older ones come first: `thr_9`, `thr_10`, `thr_10_1`, `thr_11`.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                by_numbers(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(ProjectId, "prj");
id!(ThreadId, "thr");
id!(TurnId, "turn");
id!(MessageId, "msg");
id!(NeedId, "need");
id!(
    /// Something that an agent asked the person.
    AskId,
    "ask"
);
id!(EffectId, "fx");
id!(
    /// A hash of the entity, so that adoption by ring and by sweep meet in one row.
    BindingId,
    "bnd"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_ids_come_first_also_where_one_event_made_several() {
        let mut ids: Vec<MessageId> = [(999, 0), (10, 1), (9, 0), (10, 0), (1_000, 0), (10, 12), (10, 2)]
            .map(|(no, nth)| MessageId::minted(no, nth))
            .into();
        ids.sort();
        let names: Vec<&str> = ids.iter().map(MessageId::as_str).collect();
        assert_eq!(names, ["msg_9", "msg_10", "msg_10_1", "msg_10_2", "msg_10_12", "msg_999", "msg_1000"]);
    }
}
