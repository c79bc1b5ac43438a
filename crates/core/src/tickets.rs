//! Changes of tickets: as somebody asks for them, and as they are carried out.

use serde::{Deserialize, Serialize};

/// A change in the words of whoever asks: keys and names, in any case. What may be left
/// out and is, stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketAsk {
    Comment {
        key: String,
        body: String,
    },
    /// The one reply to a session in which somebody mentioned the agent.
    Reply {
        session: String,
        body: String,
    },
    Update {
        key: String,
        state: Option<String>,
        /// `me`, `nobody`, or somebody's name or address.
        assignee: Option<String>,
        add: Vec<String>,
        remove: Vec<String>,
        /// 0 none, 1 urgent, 2 high, 3 medium, 4 low.
        priority: Option<u8>,
    },
    Create {
        /// A team's key.
        team: String,
        title: String,
        description: String,
        state: Option<String>,
        /// `me`, `nobody`, or somebody's name or address.
        assignee: Option<String>,
        labels: Vec<String>,
        priority: Option<u8>,
        /// The key of a ticket of the same team.
        parent: Option<String>,
    },
}

/// Something of the service: the id that it goes by, and how people call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub id: String,
    pub name: String,
}

/// A change with every name found. A comment and a new ticket carry an id of ours, by
/// which it is known later whether they were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketWrite {
    Comment {
        /// A UUID that was never used before.
        id: String,
        ticket: Known,
        body: String,
    },
    Reply {
        /// A UUID that was never used before.
        id: String,
        /// Its id, and the ticket's key where it is about one.
        session: Known,
        body: String,
    },
    Update {
        ticket: Known,
        state: Option<Known>,
        /// `Some(None)` takes the assignee away.
        assignee: Option<Option<Known>>,
        add: Vec<Known>,
        remove: Vec<Known>,
        priority: Option<u8>,
    },
    Create {
        /// A UUID that was never used before.
        id: String,
        team: Known,
        title: String,
        description: String,
        state: Option<Known>,
        assignee: Option<Known>,
        labels: Vec<Known>,
        priority: Option<u8>,
        parent: Option<Known>,
    },
}

impl TicketWrite {
    /// What it does, in a few words: `comment on DEMO-1`.
    pub fn words(&self) -> String {
        match self {
            TicketWrite::Comment { ticket, .. } => format!("comment on {}", ticket.name),
            TicketWrite::Reply { session, .. } => format!("reply to the session {} on {}", session.id, session.name),
            TicketWrite::Create { team, title, .. } => {
                format!("new ticket in {}: {}", team.name, crate::text::cut(&crate::text::one_line(title), 60))
            }
            TicketWrite::Update { ticket, state, assignee, add, remove, priority } => {
                let names = |all: &[Known]| all.iter().map(|k| k.name.as_str()).collect::<Vec<_>>().join(", ");
                let mut parts = Vec::new();
                parts.extend(state.as_ref().map(|s| format!("to {}", s.name)));
                match assignee {
                    Some(Some(who)) => parts.push(format!("assigned to {}", who.name)),
                    Some(None) => parts.push("assigned to nobody".into()),
                    None => {}
                }
                if !add.is_empty() {
                    parts.push(format!("with {}", names(add)));
                }
                if !remove.is_empty() {
                    parts.push(format!("without {}", names(remove)));
                }
                parts.extend(priority.map(|p| format!("priority {p}")));
                format!("{} {}", ticket.name, parts.join(", "))
            }
        }
    }

    /// The same for two writes that would do the same, whatever ids of ours they carry.
    pub fn digest(&self) -> String {
        let mut same = self.clone();
        match &mut same {
            TicketWrite::Comment { id, .. } | TicketWrite::Create { id, .. } => id.clear(),
            // There is one reply, whatever it says.
            TicketWrite::Reply { id, body, .. } => {
                id.clear();
                body.clear();
            }
            TicketWrite::Update { .. } => {}
        }
        crate::text::hash(&serde_json::to_string(&same).unwrap_or_default())
    }

    /// Doing it twice leaves something twice.
    pub fn adds(&self) -> bool {
        !matches!(self, TicketWrite::Update { .. })
    }
}
