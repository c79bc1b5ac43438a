//! The shapes of Linear's answers, and what they become. Every field is
//! optional, null and absent are the same, and unknown fields are ignored.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use stewards_core::ports::TicketLine;
use stewards_core::snapshot::{Author, Comment, Ticket, TicketState};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct User {
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "displayName")]
    pub display_name: Option<String>,
    pub email: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct BotActor {
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageInfo {
    pub has_next_page: Option<bool>,
    pub end_cursor: Option<String>,
}

/// One page of a list. A list without its nodes is no list at all.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub nodes: Vec<T>,
    pub page_info: Option<PageInfo>,
}

impl<T> Page<T> {
    /// Where the next page starts, if there is one.
    pub fn next(&self) -> Option<String> {
        let info = self.page_info.as_ref()?;
        info.end_cursor.clone().filter(|_| info.has_next_page == Some(true))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Note {
    pub id: Option<String>,
    pub body: Option<String>,
    pub created_at: Option<String>,
    pub edited_at: Option<String>,
    pub user: Option<User>,
    pub bot_actor: Option<BotActor>,
    /// Somebody who wrote by mail or in another service.
    pub external_user: Option<User>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Named {
    pub name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Link {
    pub url: Option<String>,
}

/// A label, or something else with a name.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelNode {
    pub id: Option<String>,
    pub name: Option<String>,
    pub is_group: Option<bool>,
    /// Without one it is everybody's.
    pub team: Option<Team>,
    pub parent: Option<Named>,
}

/// `type` says what `issue` is to the ticket that was asked for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Relation {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub issue: Option<Box<Issue>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Team {
    pub id: Option<String>,
    pub key: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct State {
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// A ticket as one answer shows it; its lists may go on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Issue {
    pub id: Option<String>,
    pub identifier: Option<String>,
    pub url: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub priority: Option<f64>,
    pub trashed: Option<bool>,
    pub updated_at: Option<String>,
    pub team: Option<Team>,
    pub state: Option<State>,
    pub assignee: Option<User>,
    pub delegate: Option<User>,
    pub parent: Option<Box<Issue>>,
    pub inverse_relations: Option<Page<Relation>>,
    pub label_ids: Option<Vec<String>>,
    pub labels: Option<Page<LabelNode>>,
    pub attachments: Option<Page<Link>>,
    pub comments: Option<Page<Note>>,
}

/// One line about a ticket; all of it is compared as it is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TicketBeat {
    pub id: Option<String>,
    pub updated_at: Option<Timestamp>,
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

/// A team with what its tickets go through.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TeamStates {
    pub key: Option<String>,
    pub states: Option<Page<Named>>,
}

impl TeamStates {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.states.iter().flat_map(|s| &s.nodes).filter_map(|n| n.name.as_deref())
    }
}

/// A ticket as a search shows it.
pub(crate) fn line(found: Issue) -> TicketLine {
    TicketLine {
        key: said(found.identifier),
        title: said(found.title),
        url: said(found.url),
        team: said(found.team.and_then(|t| t.key)),
        state: said(found.state.and_then(|s| s.name)),
        assignee: found.assignee.map(|u| first([u.name, u.display_name])).filter(|n| !n.is_empty()),
        priority: priority(found.priority),
        updated: found.updated_at.and_then(|t| t.parse().ok()),
    }
}

/// The envelope of every answer.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Envelope {
    pub data: Option<Value>,
    pub errors: Option<Vec<crate::linear_errors::GraphError>>,
}

/// `""` where nothing was said.
pub(crate) fn said(text: Option<String>) -> String {
    text.unwrap_or_default()
}

/// The first of the texts that is there and not empty.
fn first(texts: [Option<String>; 2]) -> String {
    texts.into_iter().flatten().find(|t| !t.is_empty()).unwrap_or_default()
}

/// A person; `viewer` is the id of this server's own account.
pub(crate) fn person(user: User, viewer: &str) -> Author {
    let login = said(user.id);
    let me = !login.is_empty() && login == viewer;
    Author { name: first([user.name, user.display_name]), bot: false, me, login }
}

/// Who wrote a comment. Without a user it came from an integration.
fn writer(user: Option<User>, bot: Option<BotActor>, outside: Option<User>, viewer: &str) -> Author {
    if let (None, None, Some(user)) = (&user, &bot, &outside) {
        return Author { name: first([user.name.clone(), user.display_name.clone()]), ..Author::ghost() };
    }
    match (user, bot) {
        (Some(user), None) => person(user, viewer),
        (Some(user), Some(_)) => Author { bot: true, ..person(user, viewer) },
        (None, Some(bot)) => {
            let name = first([bot.name, bot.kind]);
            Author { login: said(bot.id), name, bot: true, me: false }
        }
        (None, None) => Author { bot: true, ..Author::ghost() },
    }
}

fn time(text: Option<String>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn comment(note: Note, viewer: &str) -> Comment {
    Comment {
        id: said(note.id),
        author: writer(note.user, note.bot_actor, note.external_user, viewer),
        body: said(note.body),
        at: time(note.created_at).unwrap_or(Timestamp::UNIX_EPOCH),
        edited: time(note.edited_at),
    }
}

/// The ticket with its lists read to their ends.
pub(crate) fn ticket(
    issue: Issue,
    viewer: &str,
    labels: Vec<LabelNode>,
    links: Vec<Link>,
    notes: Vec<Note>,
    uuid: &str,
) -> Ticket {
    let mut comments: Vec<Comment> = notes.into_iter().map(|n| comment(n, viewer)).collect();
    comments.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    // A comment that is written while the pages are read can shift one to the next.
    comments.dedup_by(|a, b| !a.id.is_empty() && a.id == b.id);
    let mut links: Vec<String> = links.into_iter().filter_map(|l| l.url).collect();
    links.sort();
    links.dedup();
    let group = |l: &LabelNode| Some((l.name.clone()?, l.parent.as_ref()?.name.clone()?));
    let groups = labels.iter().filter_map(group).collect();
    let mut labels: Vec<String> = labels.into_iter().filter_map(|l| l.name).collect();
    labels.sort();
    let state = issue.state.unwrap_or_default();
    Ticket {
        uuid: issue.id.filter(|id| !id.is_empty()).unwrap_or_else(|| uuid.to_owned()),
        identifier: said(issue.identifier),
        url: said(issue.url),
        title: said(issue.title),
        description: said(issue.description),
        team: said(issue.team.and_then(|t| t.key)),
        state: TicketState { name: said(state.name), category: said(state.kind) },
        labels,
        groups,
        assignee: issue.assignee.map(|u| person(u, viewer)),
        delegate: issue.delegate.map(|u| person(u, viewer)),
        parent: issue.parent.and_then(|p| p.identifier),
        blocked_by: issue.inverse_relations.map(blockers).unwrap_or_default(),
        priority: priority(issue.priority),
        trashed: issue.trashed.unwrap_or(false),
        updated: time(issue.updated_at),
        comments,
        links,
        unread: Vec::new(),
    }
}

/// The tickets of relations that block and are not over.
fn blockers(relations: Page<Relation>) -> Vec<String> {
    let blocks = relations.nodes.into_iter().filter(|r| r.kind.as_deref() == Some("blocks"));
    let open = |issue: &Issue| crate::linear_write::is_open(issue.state.as_ref().and_then(|s| s.kind.as_deref()));
    let mut keys: Vec<String> =
        blocks.filter_map(|r| r.issue).filter(|i| open(i)).filter_map(|i| i.identifier).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// A float on the wire; anything out of its range is none.
pub(crate) fn priority(value: Option<f64>) -> u8 {
    [1_u8, 2, 3, 4].into_iter().find(|p| value.is_some_and(|v| v.round() == f64::from(*p))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_empty_ticket_and_one_of_nulls_are_the_same() {
        let read = |v: Value| {
            ticket(serde_json::from_value(v).unwrap(), "me", Vec::new(), Vec::new(), Vec::new(), "some-uuid")
        };
        let nulls = json!({
            "id": null, "identifier": null, "title": null, "description": null, "priority": null, "trashed": null,
            "team": null, "state": null, "assignee": null, "labels": null, "comments": null, "new": {"field": []},
        });
        assert_eq!(read(json!({})), read(nulls));
        assert_eq!(read(json!({})).uuid, "some-uuid");
    }

    #[test]
    fn a_comment_without_a_user_is_a_bots_and_never_mine() {
        let author = |v: Value| comment(serde_json::from_value(v).unwrap(), "me").author;
        assert!(author(json!({"user": {"id": "me", "name": "Ann"}})).me);
        let other = author(json!({"user": {"id": "you", "displayName": "bob"}}));
        assert_eq!((other.login.as_str(), other.name.as_str(), other.me, other.bot), ("you", "bob", false, false));
        let bot = author(json!({"user": null, "botActor": {"id": "b", "name": null, "type": "github"}}));
        assert_eq!((bot.login.as_str(), bot.name.as_str(), bot.me, bot.bot), ("b", "github", false, true));
        let nobody = author(json!({}));
        assert_eq!((nobody.login.as_str(), nobody.me, nobody.bot), ("", false, true));
        assert!(!person(User::default(), "").me);
    }

    #[test]
    fn priority_is_a_float_between_none_and_low() {
        let all: Vec<u8> = [None, Some(0.0), Some(1.0), Some(4.0), Some(7.0), Some(-1.0), Some(f64::NAN)]
            .into_iter()
            .map(priority)
            .collect();
        assert_eq!(all, [0, 0, 1, 4, 0, 0, 0]);
    }
}
