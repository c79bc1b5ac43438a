//! Tickets, read over Linear's GraphQL API.

use crate::linear_errors;
use crate::linear_wire::{self as wire, Envelope, Issue, Page, TicketBeat, User};
use crate::logins::{Me, Service, Token};
use crate::meter::Meter;
use crate::transport::{Transport, flaky};
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stewards_core::entity::Entity;
use stewards_core::ports::{Quota, TicketLine, TicketSearch, Tickets, Try};
use stewards_core::snapshot::{self, AdoptAsk, Author, Beat, Beats, Found, Ticket};
use stewards_core::stewards::key;
use stewards_core::tickets::{TicketAsk, TicketWrite};
use stewards_core::trouble::Trouble;

const VIEWER: &str = include_str!("documents/linear/viewer.graphql");
const TICKET: &str = include_str!("documents/linear/ticket.graphql");
const COMMENTS: &str = include_str!("documents/linear/ticket_comments.graphql");
const LABELS: &str = include_str!("documents/linear/ticket_labels.graphql");
const ATTACHMENTS: &str = include_str!("documents/linear/ticket_attachments.graphql");
const BEATS: &str = include_str!("documents/linear/beats.graphql");
const ADOPTABLE: &str = include_str!("documents/linear/adoptable.graphql");

/// Categories of a ticket that nobody works on any more.
pub(crate) const OVER: [&str; 3] = ["completed", "canceled", "duplicate"];

/// A list that goes on for longer is not read: 10,000 items.
const MAX_PAGES: usize = 200;

/// A client of Linear.
///
/// Safe to share; it keeps nothing but its own account.
pub struct Linear {
    url: String,
    token: Token,
    http: Transport,
    me: Me,
    meter: Meter,
}

impl Linear {
    /// `url` is the GraphQL endpoint (`https://api.linear.app/graphql`), `token`
    /// a personal key (`lin_api_…`) or an OAuth access token. Nothing is sent yet.
    pub fn new(url: String, token: Token) -> Linear {
        let http = Transport::new(&url);
        Linear { url, token, http, me: Me::default(), meter: Meter::new(Service::Linear) }
    }

    /// Personal keys are sent as they are, access tokens as Bearer.
    fn authorization(token: &str) -> Result<HeaderValue, Trouble> {
        let plain = token.starts_with("lin_api_") || token.starts_with("Bearer ");
        let text = if plain { token.to_owned() } else { format!("Bearer {token}") };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| Trouble::Unauthorized { says: "Linear's token has characters that no token has".into() })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Runs a query and answers its data. An answer with any error in it is an
    /// error: what it still holds is not the whole. `id` is the entity asked for.
    pub(crate) async fn ask(&self, query: &str, variables: Value, id: Option<&str>) -> Result<Value, Trouble> {
        Ok(self.ask_parts(query, &variables, id, &[]).await?.0)
    }

    /// The same; but of these parts of a ticket some may be unreadable, and are named then.
    async fn ask_parts(
        &self,
        query: &str,
        variables: &Value,
        id: Option<&str>,
        parts: &[&str],
    ) -> Result<(Value, Vec<String>), Trouble> {
        let token = self.token.now().await?;
        match self.ask_as(&token, query, variables, id, parts).await {
            // A token that is refused has done nothing yet.
            Err(Trouble::Unauthorized { says }) => match self.token.instead_of(&token).await {
                Some(other) => self.ask_as(&other, query, variables, id, parts).await,
                None => Err(Trouble::Unauthorized { says }),
            },
            answer => answer,
        }
    }

    async fn ask_as(
        &self,
        token: &str,
        query: &str,
        variables: &Value,
        id: Option<&str>,
        parts: &[&str],
    ) -> Result<(Value, Vec<String>), Trouble> {
        let request = self
            .http
            .client()?
            .post(&self.url)
            .header(AUTHORIZATION, Linear::authorization(token)?)
            .json(&json!({"query": query, "variables": variables}));
        let reply = self.http.send(request, "Linear").await?;
        self.meter.read(&reply.headers, false, Timestamp::now());
        let envelope = serde_json::from_slice::<Envelope>(&reply.body);
        let errors = envelope.as_ref().ok().and_then(|e| e.errors.as_deref()).unwrap_or(&[]);
        let unread: Option<Vec<&str>> = errors.iter().map(|e| e.part().filter(|p| parts.contains(p))).collect();
        let unread: Vec<String> = match unread {
            Some(unread) if reply.status == 200 => unread.into_iter().map(str::to_owned).collect(),
            _ => return Err(linear_errors::trouble(&reply, errors, id, Timestamp::now())),
        };
        let data = envelope.map_err(|e| flaky(format!("Linear answered with an unreadable body: {e}")))?.data;
        Ok((data.ok_or_else(|| flaky("Linear answered without data"))?, unread))
    }

    /// One field of an answer's data, as a type.
    pub(crate) async fn field<T: DeserializeOwned>(
        &self,
        query: &str,
        variables: Value,
        id: Option<&str>,
        pointer: &str,
    ) -> Result<T, Trouble> {
        let mut data = self.ask(query, variables, id).await?;
        let value = data.pointer_mut(pointer).map(Value::take).unwrap_or(Value::Null);
        if value.is_null() {
            return Err(flaky(format!("Linear answered without {pointer}")));
        }
        serde_json::from_value(value).map_err(|e| flaky(format!("Linear's {pointer} is unreadable: {e}")))
    }

    /// A ticket's list from its first page to its last.
    async fn rest<T: DeserializeOwned>(
        &self,
        uuid: &str,
        first: Option<Page<T>>,
        query: &str,
        pointer: &str,
    ) -> Result<Vec<T>, Trouble> {
        let first = first.ok_or_else(|| flaky(format!("Linear answered without {pointer}")))?;
        let ask = |after: String| async move {
            self.field(query, json!({"id": uuid, "after": after}), Some(uuid), pointer).await
        };
        all_pages(first, ask).await
    }

    pub(crate) async fn who(&self) -> Result<Author, Trouble> {
        self.me
            .of(&self.token, async {
                let user: User = self.field(VIEWER, json!({}), None, "/viewer").await?;
                let id = user.id.clone().filter(|id| !id.is_empty());
                let id = id.ok_or_else(|| flaky("Linear did not say whose token this is"))?;
                Ok(wire::person(user, &id))
            })
            .await
    }

    /// A ticket, and which of its lists the login may not read.
    async fn ticket_parts(&self, uuid: &str) -> Result<(Issue, Vec<String>), Trouble> {
        let parts = ["comments", "attachments"];
        let (mut data, unread) = self.ask_parts(TICKET, &json!({"id": uuid}), Some(uuid), &parts).await?;
        let issue = data.pointer_mut("/issue").map(Value::take).filter(|v| !v.is_null());
        let issue = issue.ok_or_else(|| flaky("Linear answered without /issue"))?;
        Ok((serde_json::from_value(issue).map_err(|e| flaky(format!("Linear's ticket is unreadable: {e}")))?, unread))
    }

    async fn read(&self, uuid: &str) -> Result<Ticket, Trouble> {
        let me = self.who().await?;
        let viewer = me.login.as_str();
        let (mut issue, unread): (Issue, Vec<String>) = self.ticket_parts(uuid).await?;
        let missing = |part: &str| unread.iter().any(|u| u == part);
        let labels = self.rest(uuid, issue.labels.take(), LABELS, "/issue/labels").await?;
        let links = match missing("attachments") {
            true => Vec::new(),
            false => self.rest(uuid, issue.attachments.take(), ATTACHMENTS, "/issue/attachments").await?,
        };
        let notes = match missing("comments") {
            true => Vec::new(),
            false => self.rest(uuid, issue.comments.take(), COMMENTS, "/issue/comments").await?,
        };
        let mut ticket = wire::ticket(issue, viewer, labels, links, notes, uuid);
        let named = |part: &String| if part == "comments" { snapshot::COMMENTS } else { snapshot::LINKS }.to_owned();
        ticket.unread = unread.iter().map(named).collect();
        Ok(ticket)
    }

    /// A hundred tickets a query. One that is not answered for is gone.
    async fn poll(&self, uuids: &[String]) -> Result<Beats, Trouble> {
        const BATCH: usize = 100;
        let mut beats = Beats::new();
        for batch in uuids.chunks(BATCH) {
            let page: Page<TicketBeat> = self.field(BEATS, json!({"ids": batch}), None, "/issues").await?;
            beats.extend(batch.iter().map(|uuid| (key::ticket(uuid), Beat::gone())));
            for TicketBeat { id, updated_at: updated, rest } in page.nodes {
                let what = Value::Object(rest).to_string();
                beats.insert(key::ticket(&wire::said(id)), Beat { what, merges: None, updated });
            }
        }
        Ok(beats)
    }

    async fn candidates(&self, ask: &AdoptAsk) -> Result<Vec<Found>, Trouble> {
        // No team, or no label, must never come to mean all of them.
        if ask.teams.is_empty() || ask.label.is_empty() {
            return Ok(Vec::new());
        }
        let page = |after: Option<String>| {
            let variables = json!({"teams": ask.teams, "label": ask.label, "over": OVER, "after": after});
            self.field::<Page<Issue>>(ADOPTABLE, variables, None, "/issues")
        };
        let issues = all_pages(page(None).await?, |after| page(Some(after))).await?;
        let mut found: Vec<Found> = Vec::new();
        for issue in issues.into_iter().filter(|i| i.trashed != Some(true)) {
            let Some(uuid) = issue.id.filter(|id| !id.is_empty()) else { continue };
            let entity = Entity::Ticket { uuid };
            if !found.iter().any(|f| f.entity == entity) {
                found.push(Found { entity, key: wire::said(issue.identifier) });
            }
        }
        Ok(found)
    }
}

/// Follows cursors to the end of a list.
pub(crate) async fn all_pages<T, F>(first: Page<T>, ask: impl Fn(String) -> F) -> Result<Vec<T>, Trouble>
where
    F: Future<Output = Result<Page<T>, Trouble>>,
{
    let mut next = first.next();
    let mut out = first.nodes;
    let mut pages = 1;
    while let Some(after) = next {
        if pages == MAX_PAGES {
            return Err(Trouble::Refused { says: format!("a list of Linear's has more than {} items", out.len()) });
        }
        let page = ask(after.clone()).await?;
        next = page.next();
        if next.as_ref() == Some(&after) {
            return Err(flaky("Linear answered the same page twice"));
        }
        out.extend(page.nodes);
        pages += 1;
    }
    Ok(out)
}

impl Tickets for Linear {
    fn viewer(&self) -> Try<'_, Author> {
        Box::pin(self.who())
    }

    /// A ticket in the trash is answered as such; `Gone` is only what Linear
    /// says does not exist.
    fn ticket<'a>(&'a self, uuid: &'a str) -> Try<'a, Ticket> {
        Box::pin(self.read(uuid))
    }

    fn adoptable<'a>(&'a self, ask: &'a AdoptAsk) -> Try<'a, Vec<Found>> {
        Box::pin(self.candidates(ask))
    }

    fn beats<'a>(&'a self, uuids: &'a [String]) -> Try<'a, Beats> {
        Box::pin(self.poll(uuids))
    }

    fn room(&self) -> Result<(), Trouble> {
        self.meter.room(Timestamp::now())
    }

    fn quotas(&self) -> Vec<Quota> {
        self.meter.quotas(Timestamp::now())
    }

    fn search<'a>(&'a self, ask: &'a TicketSearch) -> Try<'a, Vec<TicketLine>> {
        Box::pin(self.look_for(ask))
    }

    fn query<'a>(&'a self, query: &'a str, variables: &'a Value) -> Try<'a, Value> {
        Box::pin(self.question(query, variables))
    }

    fn resolve<'a>(&'a self, ask: &'a TicketAsk, id: &'a str) -> Try<'a, TicketWrite> {
        Box::pin(self.resolve_names(ask, id))
    }

    /// After `Flaky` it may or may not be done: see [`Tickets::written`] before trying again.
    fn write<'a>(&'a self, write: &'a TicketWrite) -> Try<'a, String> {
        Box::pin(self.carry_out(write))
    }

    fn written<'a>(&'a self, write: &'a TicketWrite) -> Try<'a, Option<String>> {
        Box::pin(self.read_back(write))
    }
}
