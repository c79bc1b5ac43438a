//! Changes of Linear's side: tickets, comments, attachments and their webhooks,
//! and what Linear's GitHub integration does when a pull opens or merges.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::App;
use crate::model::{Attachment, Event, Note, Pull, State, Ticket, User, uuid_from};
use crate::world::{Hook, Tx};

/// RFC 3339 in UTC to the millisecond, as Linear writes it.
pub fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Where a person would read a ticket.
pub fn ticket_url(app: &App, t: &Ticket) -> String {
    format!("{}/linear/issue/{}/{}", app.base, t.identifier(), slug(&t.title))
}

/// Linear's suggestion for a branch name.
pub fn branch_name(state: &State, t: &Ticket) -> String {
    format!("{}/{}-{}", state.me().login, t.identifier().to_lowercase(), slug(&t.title))
}

fn slug(title: &str) -> String {
    let dashed: String =
        title.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = dashed.split('-').filter(|w| !w.is_empty()).collect();
    words.join("-").chars().take(60).collect()
}

/// Who did something: a person, or the integration.
pub enum Actor {
    User(User),
    GitHub,
}

fn actor(app: &App, who: &Actor) -> Value {
    match who {
        Actor::User(u) => json!({
            "id": u.uuid, "name": u.name, "email": u.email, "type": "user",
            "url": format!("{}/linear/profiles/{}", app.base, u.login),
        }),
        Actor::GitHub => json!({"id": uuid_from("integration", 0), "service": "github", "type": "integration"}),
    }
}

fn small_user(u: &User) -> Value {
    json!({"id": u.uuid, "name": u.name, "email": u.email})
}

/// A ticket as webhooks carry it.
pub fn ticket_data(app: &App, state: &State, t: &Ticket) -> Value {
    let column = state.column(t);
    let team = state.teams.get(&t.team);
    let labels: Vec<Value> = t
        .labels
        .iter()
        .filter_map(|id| state.labels.get(id))
        .map(|l| json!({"id": l.id, "name": l.name, "color": "#bec2c8", "parentId": null}))
        .collect();
    let names = ["No priority", "Urgent", "High", "Medium", "Low"];
    json!({
        "id": t.id, "createdAt": time(t.created_at), "updatedAt": time(t.updated_at),
        "archivedAt": t.archived_at.map(time), "number": t.number, "identifier": t.identifier(),
        "title": t.title, "description": t.description, "priority": t.priority,
        "priorityLabel": usize::try_from(t.priority).ok().and_then(|p| names.get(p)).unwrap_or(&names[0]),
        "sortOrder": 0, "previousIdentifiers": t.previous_identifiers, "labelIds": t.labels, "labels": labels,
        "teamId": team.map(|x| &x.id), "stateId": t.state_id, "assigneeId": t.assignee, "creatorId": t.creator,
        "parentId": t.parent, "url": ticket_url(app, t), "subscriberIds": [], "reactionData": [],
        "trashed": t.trashed.then_some(true),
        "state": column.map(|c| json!({"id": c.id, "name": c.name, "color": "#bec2c8", "type": c.kind})),
        "team": team.map(|x| json!({"id": x.id, "key": x.key, "name": x.name})),
        "assignee": t.assignee.as_ref().and_then(|a| state.user_by_uuid(a)).map(|u| small_user(&u)),
    })
}

fn note_data(state: &State, n: &Note) -> Value {
    let ticket = state.tickets.get(&n.ticket);
    json!({
        "id": n.id, "createdAt": time(n.created_at), "updatedAt": time(n.updated_at), "archivedAt": null,
        "editedAt": n.edited_at.map(time), "body": n.body, "issueId": n.ticket, "parentId": n.parent,
        "userId": n.user, "reactionData": [],
        "user": n.user.as_ref().and_then(|u| state.user_by_uuid(u)).map(|u| small_user(&u)),
        "issue": ticket.map(|t| json!({
            "id": t.id, "title": t.title, "identifier": t.identifier(),
            "teamId": state.teams.get(&t.team).map(|x| &x.id),
        })),
    })
}

fn attachment_data(a: &Attachment) -> Value {
    json!({
        "id": a.id, "createdAt": time(a.created_at), "updatedAt": time(a.updated_at), "archivedAt": null,
        "title": a.title, "subtitle": null, "url": a.url, "issueId": a.ticket, "metadata": {},
        "groupBySource": false,
    })
}

#[expect(clippy::too_many_arguments, reason = "the parts of one webhook")]
fn send(
    app: &App,
    tx: &mut Tx,
    who: &Actor,
    action: &str,
    entity: &'static str,
    data: Value,
    url: String,
    from: Option<Value>,
) {
    let mut body = json!({
        "action": action, "actor": actor(app, who), "createdAt": time(tx.now),
        "data": data, "url": url, "type": entity,
    });
    if let Some(from) = from {
        body["updatedFrom"] = from;
    }
    tx.hook(Hook::Linear { entity, body });
}

/// Saves a ticket, new or changed; `updatedFrom` names what changed.
pub fn save_ticket(app: &App, tx: &mut Tx, who: &Actor, mut ticket: Ticket) -> Ticket {
    let old = tx.state.tickets.get(&ticket.id).cloned();
    let before = old.as_ref().map(|o| ticket_data(app, &tx.state, o));
    // Two changes in one millisecond still show in order.
    ticket.updated_at = match &old {
        Some(o) if o.updated_at >= tx.now => o.updated_at + jiff::SignedDuration::from_millis(1),
        _ => tx.now,
    };
    tx.put(Event::Ticket(ticket.clone()));
    let data = ticket_data(app, &tx.state, &ticket);
    let url = ticket_url(app, &ticket);
    match before {
        None => send(app, tx, who, "create", "Issue", data, url, None),
        Some(before) => {
            let mut from = json!({});
            for key in [
                "updatedAt",
                "title",
                "description",
                "priority",
                "stateId",
                "assigneeId",
                "labelIds",
                "parentId",
                "trashed",
            ] {
                if before[key] != data[key] {
                    from[key] = before[key].clone();
                }
            }
            send(app, tx, who, "update", "Issue", data, url, Some(from));
        }
    }
    ticket
}

/// Saves a comment, new or changed, and touches its ticket.
pub fn save_note(app: &App, tx: &mut Tx, who: &Actor, note: Note) {
    let old = tx.state.notes.get(&note.id).cloned();
    tx.put(Event::Note(note.clone()));
    let Some(mut ticket) = tx.state.tickets.get(&note.ticket).cloned() else { return };
    let data = note_data(&tx.state, &note);
    let url = format!("{}#comment-{}", ticket_url(app, &ticket), &note.id.get(..8).unwrap_or(&note.id));
    match old {
        None => {
            // A comment counts as activity of its issue.
            ticket.updated_at = tx.now.max(ticket.updated_at);
            tx.put(Event::Ticket(ticket));
            send(app, tx, who, "create", "Comment", data, url, None);
        }
        Some(old) => {
            let from =
                json!({"body": old.body, "updatedAt": time(old.updated_at), "editedAt": old.edited_at.map(time)});
            send(app, tx, who, "update", "Comment", data, url, Some(from));
        }
    }
}

/// Hangs a link on a ticket; the same link again only renews its title.
pub fn save_attachment(
    app: &App,
    tx: &mut Tx,
    who: &Actor,
    ticket: &str,
    url: &str,
    title: &str,
    id: Option<String>,
) -> Attachment {
    let old = tx.state.attachments.values().find(|a| a.ticket == ticket && a.url == url).cloned();
    let action = if old.is_some() { "update" } else { "create" };
    let from = old.as_ref().map(|o| json!({"title": o.title, "updatedAt": time(o.updated_at)}));
    let mut a = match old {
        Some(a) => a,
        None => Attachment {
            id: id.unwrap_or_else(|| tx.uuid("attachment")),
            ticket: ticket.into(),
            title: String::new(),
            url: url.into(),
            created_at: tx.now,
            updated_at: tx.now,
        },
    };
    a.title = title.into();
    a.updated_at = tx.now;
    tx.put(Event::Attachment(a.clone()));
    let at = tx.state.tickets.get(ticket).map(|t| ticket_url(app, t)).unwrap_or_default();
    send(app, tx, who, action, "Attachment", attachment_data(&a), at, from);
    a
}

/// The tickets that a pull names in its branch, title or body.
fn named(state: &State, pull: &Pull) -> Vec<Ticket> {
    let text = format!("{}\n{}\n{}", pull.head_ref, pull.title, pull.body.as_deref().unwrap_or("")).to_uppercase();
    let named = |t: &&Ticket| {
        let mut names = std::iter::once(t.identifier()).chain(t.previous_identifiers.iter().cloned());
        names.any(|n| has_word(&text, &n.to_uppercase()))
    };
    state.tickets.values().filter(named).cloned().collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part) && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// How far along a kind of column is; terminal kinds share the last place.
fn rank(kind: &str) -> u8 {
    match kind {
        "triage" => 0,
        "backlog" => 1,
        "unstarted" => 2,
        "started" => 3,
        _ => 4,
    }
}

/// A pull was opened: link it and move its tickets into work.
pub fn pull_opened(app: &App, tx: &mut Tx, pull: &Pull) {
    let url = crate::github_json::pull_html(app, pull);
    for ticket in named(&tx.state, pull) {
        save_attachment(app, tx, &Actor::GitHub, &ticket.id, &url, &format!("#{} {}", pull.number, pull.title), None);
        forward(app, tx, ticket, "started");
    }
}

/// A pull was merged: its tickets are done.
pub fn pull_merged(app: &App, tx: &mut Tx, pull: &Pull) {
    for ticket in named(&tx.state, pull) {
        forward(app, tx, ticket, "completed");
    }
}

/// Moves a ticket to the first column of a kind, never backwards.
fn forward(app: &App, tx: &mut Tx, mut ticket: Ticket, kind: &str) {
    let Some(here) = tx.state.column(&ticket).map(|c| rank(&c.kind)) else { return };
    let Some(to) = tx.state.teams.get(&ticket.team).and_then(|t| t.first(kind)).cloned() else { return };
    if here < rank(&to.kind) {
        ticket.state_id = to.id;
        save_ticket(app, tx, &Actor::GitHub, ticket);
    }
}
