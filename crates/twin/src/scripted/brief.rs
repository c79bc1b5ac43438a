//! What a thread is told of itself.

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Steward,
    Worker,
    Reviewer,
    /// A project steward, or something that is not known here.
    Other,
}

/// What the system context says.
#[derive(Clone, Debug)]
pub(super) struct Brief {
    pub me: String,
    pub role: Role,
    /// The ticket's key.
    pub key: String,
    /// Whom a worker reports to.
    pub steward: Option<String>,
    /// Whom a reviewer reports to.
    pub worker: Option<String>,
    /// The command that starts a worker.
    pub start_worker: Option<String>,
    /// The command that starts a reviewer.
    pub start_reviewer: Option<String>,
}

impl Brief {
    pub(super) fn read(text: &str) -> Brief {
        let first = text.lines().next().unwrap_or_default().trim().trim_end_matches('.');
        let (me, what) = first
            .strip_prefix("You are thread ")
            .and_then(|rest| rest.split_once(" of Stewards, a "))
            .unwrap_or_default();
        let (role, key) = what.split_once(" for ").unwrap_or((what, ""));
        let role = match role {
            "steward" => Role::Steward,
            "worker" => Role::Worker,
            "reviewer" => Role::Reviewer,
            _ => Role::Other,
        };
        Brief {
            me: me.to_owned(),
            role,
            key: key.to_owned(),
            steward: word_after(text, "stewards bus done --to ")
                .or_else(|| word_after(text, "Your steward is thread ")),
            worker: word_after(text, "stewards bus report --to "),
            start_worker: spawn(text, "worker"),
            start_reviewer: spawn(text, "reviewer"),
        }
    }
}

fn word_after(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    let word = rest.split_whitespace().next()?.trim_end_matches('.');
    // "(none)" is no thread.
    word.starts_with("thr_").then(|| word.to_owned())
}

fn spawn(text: &str, role: &str) -> Option<String> {
    let wanted = format!("--role {role} ");
    let mut lines = text.lines().map(str::trim);
    lines.find(|l| l.starts_with("stewards thread spawn ") && l.contains(&wanted)).map(str::to_owned)
}
