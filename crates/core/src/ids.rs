//! Names of things. All but a binding's come from the number of the event that
//! made them, so that a replay or a storm makes the same ones again.

use serde::{Deserialize, Serialize};
use std::fmt;

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

        /// By length first, so that older ones come first: `thr_9` before `thr_10`.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
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
