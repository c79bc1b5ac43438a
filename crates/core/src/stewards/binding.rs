//! The watch kept on one entity.

use super::gate::LinkedPull;
use super::report::Report;
use crate::entity::{Entity, PullKey};
use crate::ids::{BindingId, EffectId, NeedId, ProjectId, ThreadId};
use crate::moment::Deadline;
use crate::snapshot::{Beats, Mergeable, PullState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How far the watch has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Rung or found, and not looked at yet. It has no steward.
    Candidate,
    Open,
    /// The last turn is due or live: the wrap-up or the stop turn.
    Ending {
        reason: EndReason,
    },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The entity reached this terminal state.
    Terminal {
        state: String,
    },
    LabelRemoved,
    Unassigned,
    /// Trashed or not found.
    Gone,
    /// The project's switch was turned off.
    SwitchedOff,
    /// A person let it go.
    Detached,
}

impl EndReason {
    pub fn words(&self) -> String {
        match self {
            EndReason::Terminal { state } => format!("reached {state}"),
            EndReason::LabelRemoved => "label removed".into(),
            EndReason::Unassigned => "no longer assigned to this account".into(),
            EndReason::Gone => "gone".into(),
            EndReason::SwitchedOff => "switched off".into(),
            EndReason::Detached => "detached".into(),
        }
    }
}

/// One line about what happened. With `wakes` it makes the binding due; without
/// it is a note for the next wake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// adopted, phase, comment, review, checks, push, pull, spec, worker, item,
    /// leave, report, restart or stop.
    pub cause: String,
    pub line: String,
    pub wakes: bool,
    pub at: Timestamp,
}

/// Rings that wait together for one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingWindow {
    /// Set by the first ring; later ones do not lengthen it.
    pub closes: Deadline,
    pub why: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub id: BindingId,
    pub project: ProjectId,
    pub entity: Entity,
    /// As people read it: `DEMO-1`.
    pub key: String,
    pub title: String,
    pub url: String,
    pub standing: Standing,
    pub steward: Option<ThreadId>,
    /// The entity's state by its own name.
    pub state: Option<String>,
    /// What polls said last, by entity.
    #[serde(default)]
    pub beats: Beats,
    /// It is looked at then, whatever is heard until.
    #[serde(default)]
    pub full_look: Option<Deadline>,
    /// A thread of its own set this state; once it is seen, it is no news.
    #[serde(default)]
    pub sets: Option<String>,
    /// Hash of the snapshot observed last.
    pub observed: Option<String>,
    pub pulls: Vec<LinkedPull>,
    pub window: Option<RingWindow>,
    /// The look in the air.
    pub look: Option<EffectId>,
    /// A failed look is made again then.
    pub look_again: Option<Deadline>,
    /// Looks in a row that found a pull whose mergeability was being computed.
    #[serde(default)]
    pub computing: u32,
    /// Looks that failed in a row.
    #[serde(default)]
    pub failed_looks: u32,
    /// Why the last look failed; what was known stays.
    pub trouble: Option<String>,
    /// Not told yet.
    pub news: Vec<News>,
    /// Told by the wake whose turn is live: news again if that is cut.
    pub carried: Vec<News>,
    /// Waking news does not wait for a look beyond this.
    pub wake_by: Option<Deadline>,
    /// The words of the ready items that were reported as met.
    pub ready: Vec<String>,
    /// Workers may be started.
    pub leave: bool,
    pub report: Option<Report>,
    /// A missing report was asked for once already.
    pub asked: bool,
    /// The pull being merged here, and at which head.
    pub merging: Option<(PullKey, String)>,
    pub adopted: Option<Timestamp>,
    pub ended: Option<(EndReason, Timestamp)>,
}

impl Binding {
    pub fn pull(&self, key: &PullKey) -> Option<&LinkedPull> {
        self.pulls.iter().find(|p| &p.key == key)
    }

    /// News that makes it due.
    pub fn due(&self) -> bool {
        self.news.iter().any(|n| n.wakes)
    }

    /// Whether some open pull merges is still being computed where it lives.
    pub fn computing_now(&self) -> bool {
        self.pulls.iter().any(|p| p.state == PullState::Open && p.mergeable == Mergeable::Computing)
    }

    /// There is a steward to wake.
    pub fn live(&self) -> bool {
        matches!(self.standing, Standing::Open | Standing::Ending { .. })
    }

    pub fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        for news in self.news.iter().filter(|n| n.wakes) {
            if !causes.contains(&news.cause) {
                causes.push(news.cause.clone());
            }
        }
        causes
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedKind {
    /// The pull's gate is met and only the person merges here.
    Merge { pull: PullKey },
    /// A thread failed and is not tried again by itself.
    Failed { thread: ThreadId },
    /// A thread has messages and had its turns of this hour.
    Capped { thread: ThreadId },
}

impl NeedKind {
    pub fn word(&self) -> &'static str {
        match self {
            NeedKind::Merge { .. } => "merge",
            NeedKind::Failed { .. } => "failed",
            NeedKind::Capped { .. } => "capped",
        }
    }
}

/// Something only the person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    pub id: NeedId,
    pub project: ProjectId,
    pub binding: Option<BindingId>,
    pub kind: NeedKind,
    /// One sentence.
    pub text: String,
    pub filed: Timestamp,
    /// When and how it was closed.
    pub closed: Option<(Timestamp, String)>,
}
