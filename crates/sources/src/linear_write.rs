//! Changes of tickets: from names to ids, carried out, and read back.

use crate::linear::{Linear, OVER, all_pages};
use crate::linear_wire::{Issue, LabelNode, Page, Team, User, said};
use crate::transport::flaky;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stewards_core::tickets::{Known, TicketAsk, TicketWrite};
use stewards_core::trouble::Trouble;

const COMMENT_CREATE: &str = include_str!("documents/linear/comment_create.graphql");
const ISSUE_CREATE: &str = include_str!("documents/linear/issue_create.graphql");
const ISSUE_UPDATE: &str = include_str!("documents/linear/issue_update.graphql");
const SESSION: &str = include_str!("documents/linear/session.graphql");
const SESSION_REPLY: &str = include_str!("documents/linear/session_reply.graphql");
const ACTIVITY: &str = include_str!("documents/linear/activity.graphql");
const COMMENT: &str = include_str!("documents/linear/comment.graphql");
const ISSUE_NOW: &str = include_str!("documents/linear/issue_now.graphql");
const TEAM: &str = include_str!("documents/linear/team.graphql");
const STATES: &str = include_str!("documents/linear/states.graphql");
const LABELS: &str = include_str!("documents/linear/labels.graphql");
const USERS: &str = include_str!("documents/linear/users.graphql");

/// So many choices are listed where a name fits none.
const CHOICES: usize = 50;

#[derive(Debug, Default, Deserialize)]
struct Done {
    success: Option<bool>,
    #[serde(alias = "issue", alias = "comment")]
    made: Option<Made>,
}

#[derive(Debug, Default, Deserialize)]
struct Made {
    url: Option<String>,
}

/// The names of a team's states and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamNames {
    pub key: String,
    pub states: Vec<String>,
    /// Its own and everybody's.
    pub labels: Vec<String>,
}

/// A session in which somebody mentioned the agent.
#[derive(Debug, Default, Deserialize)]
struct Session {
    id: Option<String>,
    issue: Option<Issue>,
}

/// A reply that mentions the agent would begin another session.
fn unmentioned(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('@') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let word: String = after[1..].chars().take_while(|c| c.is_alphanumeric()).collect();
        if !word.eq_ignore_ascii_case("bb") {
            out.push('@');
        }
        rest = &after[1..];
    }
    out + rest
}

fn refused<T>(says: String) -> Result<T, Trouble> {
    Err(Trouble::Refused { says })
}

/// What is called so, in any case; otherwise what there is.
fn choose(kind: &str, asked: &str, all: &[Known]) -> Result<Known, Trouble> {
    let asked = asked.trim();
    match all.iter().find(|k| k.name.to_lowercase() == asked.to_lowercase()) {
        Some(found) => Ok(found.clone()),
        None => refused(format!("no {kind} is called {asked}; there are {}", listed(all.iter().map(|k| &k.name)))),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<&str> = names.map(String::as_str).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(CHOICES);
    names.truncate(CHOICES);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names.join(", "))
}

impl Linear {
    /// A change with its names found. `id` is a fresh UUID for what it makes.
    pub(crate) async fn resolve_names(&self, ask: &TicketAsk, id: &str) -> Result<TicketWrite, Trouble> {
        let id = id.to_owned();
        match ask {
            TicketAsk::Comment { key, body } => {
                if body.trim().is_empty() {
                    return refused("the comment is empty".into());
                }
                let (ticket, _) = self.ticket_and_team(key).await?;
                Ok(TicketWrite::Comment { id, ticket, body: body.clone() })
            }
            TicketAsk::Reply { session, body } => {
                if body.trim().is_empty() {
                    return refused("the reply is empty".into());
                }
                let session = self.session(session.trim()).await?;
                Ok(TicketWrite::Reply { id, session, body: unmentioned(body) })
            }
            TicketAsk::Update { key, state, assignee, add, remove, priority } => {
                let nothing = state.is_none() && assignee.is_none() && priority.is_none();
                if nothing && add.is_empty() && remove.is_empty() {
                    return refused("nothing is to be changed".into());
                }
                let (ticket, team) = self.ticket_and_team(key).await?;
                let labels = self.labels(&team, add.iter().chain(remove)).await?;
                Ok(TicketWrite::Update {
                    ticket,
                    state: self.state(&team, state.as_deref()).await?,
                    assignee: match assignee {
                        Some(name) => Some(self.assignee(name).await?),
                        None => None,
                    },
                    add: labels[..add.len()].to_vec(),
                    remove: labels[add.len()..].to_vec(),
                    priority: *priority,
                })
            }
            TicketAsk::Create { team, title, description, state, assignee, labels, priority, parent } => {
                if title.trim().is_empty() {
                    return refused("the title is empty".into());
                }
                let team = self.team(team).await?;
                let parent = match parent {
                    None => None,
                    Some(key) => {
                        let (parent, of) = self.ticket_and_team(key).await?;
                        if of.id != team.id {
                            return refused(format!("{} is of the team {}, not {}", parent.name, of.name, team.name));
                        }
                        Some(parent)
                    }
                };
                Ok(TicketWrite::Create {
                    id,
                    title: title.trim().to_owned(),
                    description: description.clone(),
                    state: self.state(&team, state.as_deref()).await?,
                    assignee: match assignee {
                        Some(name) => self.assignee(name).await?,
                        None => None,
                    },
                    labels: self.labels(&team, labels.iter()).await?,
                    priority: *priority,
                    parent,
                    team,
                })
            }
        }
    }

    async fn now(&self, key: &str) -> Result<Issue, Trouble> {
        self.field(ISSUE_NOW, json!({"id": key}), Some(key), "/issue").await
    }

    async fn session(&self, id: &str) -> Result<Known, Trouble> {
        let found = self.field::<Session>(SESSION, json!({"id": id}), Some(id), "/agentSession").await;
        match found {
            Err(Trouble::Gone { .. }) => refused(format!("there is no session {id}")),
            found => {
                let session = found?;
                let key = session.issue.and_then(|i| i.identifier).unwrap_or_else(|| "no ticket".into());
                Ok(Known { id: said(session.id), name: key })
            }
        }
    }

    async fn ticket_and_team(&self, key: &str) -> Result<(Known, Known), Trouble> {
        let issue = match self.now(key.trim()).await {
            Err(Trouble::Gone { .. }) => return refused(format!("no ticket has the key {}", key.trim())),
            issue => issue?,
        };
        let team = issue.team.and_then(known_team).ok_or_else(|| flaky("Linear named no team of a ticket"))?;
        let ticket = Known { id: said(issue.id), name: said(issue.identifier) };
        Ok((ticket, team))
    }

    pub(crate) async fn team(&self, key: &str) -> Result<Known, Trouble> {
        let found: Page<Team> = self.field(TEAM, json!({"key": key.trim()}), None, "/teams").await?;
        match found.nodes.into_iter().find_map(known_team) {
            Some(team) => Ok(team),
            None => refused(format!("no team has the key {}; there are {}", key.trim(), self.team_keys().await?)),
        }
    }

    async fn state(&self, team: &Known, asked: Option<&str>) -> Result<Option<Known>, Trouble> {
        let Some(asked) = asked else { return Ok(None) };
        let all: Vec<Known> = self
            .all(STATES, json!({"team": team.id}), "/workflowStates")
            .await?
            .into_iter()
            .map(|LabelNode { id, name, .. }| Known { id: said(id), name: said(name) })
            .collect();
        choose(&format!("state of {}", team.name), asked, &all).map(Some)
    }

    /// What a team's tickets go through and can carry.
    pub async fn team_names(&self, key: &str) -> Result<TeamNames, Trouble> {
        let team = self.team(key).await?;
        let name = |all: Vec<LabelNode>| all.into_iter().filter(|l| l.is_group != Some(true)).filter_map(|l| l.name);
        let states: Vec<LabelNode> = self.all(STATES, json!({"team": team.id}), "/workflowStates").await?;
        let labels: Vec<LabelNode> = self.all(LABELS, json!({"team": team.id}), "/issueLabels").await?;
        Ok(TeamNames { key: team.name, states: name(states).collect(), labels: name(labels).collect() })
    }

    /// Labels of the team and of everybody. A group is no label, only what is in it.
    async fn labels(&self, team: &Known, asked: impl Iterator<Item = &String>) -> Result<Vec<Known>, Trouble> {
        let asked: Vec<&String> = asked.collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let mut all: Vec<LabelNode> = self.all(LABELS, json!({"team": team.id}), "/issueLabels").await?;
        // Where both have one of the name, the team's own is meant.
        all.sort_by_key(|l| l.team.is_none());
        let known = |l: &LabelNode| Known { id: said(l.id.clone()), name: said(l.name.clone()) };
        let (groups, labels): (Vec<_>, Vec<_>) = all.iter().partition(|l| l.is_group == Some(true));
        let labels_known: Vec<Known> = labels.iter().map(|l| known(l)).collect();
        let find = |name: &String| {
            // `Area/Shop` is the label Shop of the group Area.
            let grouped = name.split_once('/').and_then(|(group, own)| {
                let is =
                    |text: Option<&String>, asked: &str| text.is_some_and(|t| t.eq_ignore_ascii_case(asked.trim()));
                let of = |l: &&&LabelNode| {
                    is(l.name.as_ref(), own) && is(l.parent.as_ref().and_then(|p| p.name.as_ref()), group)
                };
                labels.iter().find(of).map(|l| known(l))
            });
            if let Some(label) = grouped {
                return Ok(label);
            }
            let group = groups.iter().find(|g| said(g.name.clone()).eq_ignore_ascii_case(name.trim()));
            let own = labels_known.iter().any(|k| k.name.eq_ignore_ascii_case(name.trim()));
            if let (Some(group), false) = (group, own) {
                let inside = labels.iter().filter(|l| l.parent.as_ref().is_some_and(|p| p.name == group.name));
                let names: Vec<String> = inside.map(|l| said(l.name.clone())).collect();
                return refused(format!("{name} is a group of labels; in it are {}", listed(names.iter())));
            }
            choose("label", name, &labels_known)
        };
        asked.into_iter().map(find).collect()
    }

    /// Somebody by name or address; nothing for `nobody`.
    async fn assignee(&self, asked: &str) -> Result<Option<Known>, Trouble> {
        let asked = asked.trim();
        if asked.eq_ignore_ascii_case("nobody") {
            return Ok(None);
        }
        if asked.eq_ignore_ascii_case("me") {
            let me = self.who().await?;
            return Ok(Some(Known { id: me.login, name: me.name }));
        }
        let all: Vec<User> = self.all(USERS, json!({}), "/users").await?;
        let is = |text: &Option<String>| text.as_deref().is_some_and(|t| t.to_lowercase() == asked.to_lowercase());
        let fits: Vec<&User> = all.iter().filter(|u| is(&u.email) || is(&u.name) || is(&u.display_name)).collect();
        let shown = |u: &User| said(u.name.clone().filter(|n| !n.is_empty()).or_else(|| u.display_name.clone()));
        match fits.as_slice() {
            [one] => Ok(Some(Known { id: said(one.id.clone()), name: shown(one) })),
            [] => {
                let names: Vec<String> = all.iter().map(shown).collect();
                refused(format!("nobody is called {asked}; there are {}", listed(names.iter())))
            }
            several => {
                let addresses: Vec<String> = several.iter().map(|u| said(u.email.clone())).collect();
                refused(format!("several are called {asked}; name one by address: {}", listed(addresses.iter())))
            }
        }
    }

    async fn all<T: DeserializeOwned>(&self, query: &str, variables: Value, pointer: &str) -> Result<Vec<T>, Trouble> {
        let page = |after: Option<String>| {
            let mut variables = variables.clone();
            variables["after"] = json!(after);
            self.field::<Page<T>>(query, variables, None, pointer)
        };
        all_pages(page(None).await?, |after| page(Some(after))).await
    }

    /// Carries a change out, once.
    pub(crate) async fn carry_out(&self, write: &TicketWrite) -> Result<String, Trouble> {
        let (query, variables, pointer) = match write {
            TicketWrite::Comment { id, ticket, body } => {
                let input = json!({"id": id, "issueId": ticket.id, "body": body});
                (COMMENT_CREATE, json!({"input": input}), "/commentCreate")
            }
            TicketWrite::Reply { id, session, body } => {
                let content = json!({"type": "response", "body": body});
                let input = json!({"id": id, "agentSessionId": session.id, "content": content});
                (SESSION_REPLY, json!({"input": input}), "/agentActivityCreate")
            }
            TicketWrite::Update { ticket, .. } => {
                (ISSUE_UPDATE, json!({"id": ticket.id, "input": update_input(write)}), "/issueUpdate")
            }
            TicketWrite::Create { .. } => (ISSUE_CREATE, json!({"input": create_input(write)}), "/issueCreate"),
        };
        let done: Done = self.field(query, variables, None, pointer).await?;
        if done.success == Some(false) {
            return refused(format!("Linear did not take it: {}", write.words()));
        }
        Ok(said(done.made.and_then(|m| m.url)))
    }

    /// Where a change can be seen, if it was carried out already.
    pub(crate) async fn read_back(&self, write: &TicketWrite) -> Result<Option<String>, Trouble> {
        let found = match write {
            TicketWrite::Comment { id, .. } => {
                self.field::<Made>(COMMENT, json!({"id": id}), Some(id), "/comment").await.map(|m| Some(said(m.url)))
            }
            TicketWrite::Reply { id, .. } => {
                let found = self.field::<Value>(ACTIVITY, json!({"id": id}), Some(id), "/agentActivity").await;
                found.map(|_| Some(String::new()))
            }
            TicketWrite::Create { id, .. } => self.now(id).await.map(|issue| Some(said(issue.url))),
            TicketWrite::Update { ticket, .. } => {
                let now = self.now(&ticket.id).await;
                return now.map(|issue| is_so(&issue, write).then(|| said(issue.url)));
            }
        };
        match found {
            Err(Trouble::Gone { .. }) => Ok(None),
            found => found,
        }
    }
}

fn known_team(team: Team) -> Option<Known> {
    Some(Known { id: team.id?, name: said(team.key) })
}

fn ids(all: &[Known]) -> Vec<&str> {
    all.iter().map(|k| k.id.as_str()).collect()
}

/// Labels go as what is added and what is removed: others may change them meanwhile.
fn update_input(write: &TicketWrite) -> Value {
    let mut input = Map::new();
    if let TicketWrite::Update { state, assignee, add, remove, priority, .. } = write {
        input.extend(state.as_ref().map(|s| ("stateId".into(), json!(s.id))));
        input.extend(assignee.as_ref().map(|a| ("assigneeId".into(), json!(a.as_ref().map(|k| &k.id)))));
        input.extend((!add.is_empty()).then(|| ("addedLabelIds".into(), json!(ids(add)))));
        input.extend((!remove.is_empty()).then(|| ("removedLabelIds".into(), json!(ids(remove)))));
        input.extend(priority.map(|p| ("priority".into(), json!(p))));
    }
    Value::Object(input)
}

fn create_input(write: &TicketWrite) -> Value {
    let mut input = Map::new();
    if let TicketWrite::Create { id, team, title, description, state, assignee, labels, priority, parent } = write {
        input.insert("id".into(), json!(id));
        input.insert("teamId".into(), json!(team.id));
        input.insert("title".into(), json!(title));
        input.insert("description".into(), json!(description));
        input.extend(state.as_ref().map(|s| ("stateId".into(), json!(s.id))));
        input.extend(assignee.as_ref().map(|a| ("assigneeId".into(), json!(a.id))));
        input.extend((!labels.is_empty()).then(|| ("labelIds".into(), json!(ids(labels)))));
        input.extend(priority.map(|p| ("priority".into(), json!(p))));
        input.extend(parent.as_ref().map(|p| ("parentId".into(), json!(p.id))));
    }
    Value::Object(input)
}

/// Whether a ticket is already as an update wants it.
fn is_so(issue: &Issue, write: &TicketWrite) -> bool {
    let TicketWrite::Update { state, assignee, add, remove, priority, .. } = write else { return false };
    let labels = issue.label_ids.as_deref().unwrap_or_default();
    let has = |k: &Known| labels.contains(&k.id);
    let id = |user: &Option<User>| user.as_ref().and_then(|u| u.id.clone());
    state.as_ref().is_none_or(|s| issue.state.as_ref().and_then(|x| x.id.as_ref()) == Some(&s.id))
        && assignee.as_ref().is_none_or(|a| id(&issue.assignee) == a.as_ref().map(|k| k.id.clone()))
        && add.iter().all(has)
        && !remove.iter().any(has)
        && priority.is_none_or(|p| crate::linear_wire::priority(issue.priority) == p)
}

/// Whether a ticket in this category is still to be done.
pub(crate) fn is_open(category: Option<&str>) -> bool {
    category.is_none_or(|c| !OVER.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: &str) -> Known {
        Known { id: id.into(), name: id.to_uppercase() }
    }

    #[test]
    fn labels_are_changed_by_delta_and_nobody_is_null() {
        let write = TicketWrite::Update {
            ticket: known("t"),
            state: None,
            assignee: Some(None),
            add: vec![known("a")],
            remove: vec![known("r")],
            priority: Some(0),
        };
        let expected = json!({"assigneeId": null, "addedLabelIds": ["a"], "removedLabelIds": ["r"], "priority": 0});
        assert_eq!(update_input(&write), expected);
        let issue = |v: Value| serde_json::from_value::<Issue>(v).unwrap();
        assert!(is_so(&issue(json!({"labelIds": ["a", "b"], "assignee": null, "priority": 0.0})), &write));
        assert!(!is_so(&issue(json!({"labelIds": ["a", "r"], "priority": 0})), &write));
        assert!(!is_so(&issue(json!({"labelIds": ["a"], "assignee": {"id": "x"}})), &write));
    }

    #[test]
    fn a_reply_mentions_the_agent_no_more() {
        assert_eq!(unmentioned("@bb did it, @ann; x@bb.example @BBC @"), "bb did it, @ann; xbb.example @BBC @");
    }

    #[test]
    fn a_name_of_nothing_is_answered_with_what_there_is() {
        let all: Vec<Known> = (0..60).map(|n| known(&format!("s{n:02}"))).collect();
        assert_eq!(choose("state", " S07 ", &all).unwrap().id, "s07");
        let Err(Trouble::Refused { says }) = choose("state", "gone", &all) else { panic!() };
        assert!(says.starts_with("no state is called gone; there are S00, S01") && says.ends_with("and 10 more"));
    }
}
