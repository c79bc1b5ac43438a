//! What polls see of the pretend outside.

use crate::outside::Outside;
use jiff::Timestamp;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::snapshot::{Beat, Beats, Mergeable, Pull, Ticket};
use stewards_core::stewards::key;

impl Outside {
    /// Marks what is another than before as changed later than all before.
    pub(crate) fn touch(&mut self, before: &Outside) {
        let now = Timestamp::from_second(i64::try_from(self.id()).unwrap_or(0)).ok();
        for (uuid, ticket) in &mut self.tickets {
            if before.tickets.get(uuid) != Some(ticket) {
                ticket.updated = now;
            }
        }
        for (key, pull) in &mut self.pulls {
            if before.pulls.get(key) != Some(pull) {
                pull.updated = now;
            }
        }
    }

    pub(crate) fn ticket_beats(&self, uuids: &[String]) -> Beats {
        let beat = |uuid: &String| {
            let line = |t: &Ticket| {
                let what = serde_json::to_string(&Ticket { updated: None, ..t.clone() }).unwrap_or_default();
                Beat { what, merges: None, updated: t.updated }
            };
            (key::ticket(uuid), self.tickets.get(uuid).map_or_else(Beat::gone, line))
        };
        uuids.iter().map(beat).collect()
    }

    pub(crate) fn pull_beats(&self, pulls: &[PullKey], branches: &[(RepoName, String)]) -> Beats {
        let line = |p: &Pull| {
            let same = Pull { updated: None, mergeable: Mergeable::Computing, ..p.clone() };
            let merges = match p.mergeable {
                Mergeable::Yes => Some(true),
                Mergeable::No => Some(false),
                Mergeable::Computing => None,
            };
            Beat { what: serde_json::to_string(&same).unwrap_or_default(), merges, updated: p.updated }
        };
        let of_pull = |k: &PullKey| (key::pull(k), self.pulls.get(k).map_or_else(Beat::gone, line));
        let of_branch = |(repo, branch): &(RepoName, String)| {
            let all = self.pulls.values().filter(|p| p.key.repo == *repo && p.head_branch == *branch);
            let what = format!("{:?}", all.map(|p| p.key.number).collect::<Vec<_>>());
            (key::branch(repo, branch), Beat { what, ..Beat::default() })
        };
        pulls.iter().map(of_pull).chain(branches.iter().map(of_branch)).collect()
    }
}
