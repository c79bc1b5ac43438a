//! Tickets as tools: what is changed of them, as the owner and signed by the thread.

use super::Tools;
use super::bus::{Called, thread};
use super::linear::refusal;
use rmcp::handler::server::tool::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{schemars, tool, tool_router};
use serde::Deserialize;
use std::time::Duration;
use stewards_core::machine::{Caller, Event};
use stewards_core::refusal::Refusal;
use stewards_core::threads::{CHANGE_PATIENCE, ChangeState, TicketChange};
use stewards_core::tickets::TicketAsk;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommentInput {
    /// The ticket's key, such as ENG-12.
    key: String,
    /// Markdown. Beyond 20,000 characters its longest sections are shortened.
    body: String,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReplyInput {
    /// The session's id, as the wake names it.
    session: String,
    /// Markdown. Beyond 20,000 characters its longest sections are shortened.
    body: String,
}

#[derive(Debug, Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Priority {
    None,
    Urgent,
    High,
    Medium,
    Low,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdateInput {
    /// The ticket's key, such as ENG-12.
    key: String,
    /// A state of its team, by name.
    state: Option<String>,
    /// me, nobody, or somebody's name or address.
    assignee: Option<String>,
    /// Names of labels, at most 20.
    #[serde(default)]
    add_labels: Vec<String>,
    /// Names of labels, at most 20.
    #[serde(default)]
    remove_labels: Vec<String>,
    priority: Option<Priority>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateInput {
    /// A team's key.
    team: String,
    /// At most 500 characters.
    title: String,
    /// Markdown. Beyond 50,000 characters its longest sections are shortened.
    description: Option<String>,
    /// A state of the team, by name; otherwise the team's first.
    state: Option<String>,
    /// me, or somebody's name or address; otherwise nobody.
    assignee: Option<String>,
    /// Names of labels, at most 20.
    #[serde(default)]
    labels: Vec<String>,
    priority: Option<Priority>,
    /// The key of the ticket that it is a part of, of the same team.
    parent: Option<String>,
}

/// Labels that one call names at most.
const LABELS: usize = 20;

fn too_much(says: &str, hint: &str) -> CallToolResult {
    super::refused(&Refusal::usage("too_long", says, hint))
}

fn change_of<'a>(web: &'a stewards_core::machine::World, thread: &str, effect: &str) -> Option<&'a TicketChange> {
    let thread = web.threads.get(&stewards_core::ids::ThreadId(thread.to_owned()))?;
    thread.changes.iter().find(|c| c.effect.as_str() == effect)
}

impl Tools {
    /// Finds the names, puts the change on its way and waits for what comes of it.
    async fn change(&self, parts: &http::request::Parts, ask: TicketAsk) -> Called {
        let thread = thread(parts)?;
        let id = uuid::Uuid::new_v4().to_string();
        let write = match self.web.engine.resolve_ticket(&ask, &id).await {
            Ok(write) => Box::new(write),
            Err(trouble) => return Ok(super::refused(&refusal(&trouble))),
        };
        let event = Event::TicketWriteAsked { caller: Caller::Thread(thread.clone()), write };
        let reply = match self.web.engine.tell(event).await {
            Ok(reply) => reply,
            Err(refusal) => return Ok(super::refused(&refusal)),
        };
        let effect = reply.ids.get("effect").cloned().unwrap_or_default();
        let patience = Duration::from_millis(CHANGE_PATIENCE.unsigned_abs());
        let waits = |c: &TicketChange| c.state == ChangeState::Waits;
        self.web
            .engine
            .until(patience, |world| change_of(world, thread.as_str(), &effect).is_none_or(|c| !waits(c)))
            .await;
        let published = self.web.engine.now();
        let Some(change) = change_of(&published.world, thread.as_str(), &effect) else {
            return Ok(too_much("the change was lost from sight", "look at the ticket: linear_issue"));
        };
        let mut lines = reply.says;
        match &change.state {
            ChangeState::Done { url } => lines.push(format!("Done: {}. {url}", change.what)),
            ChangeState::Failed { says } => {
                let says = format!("not done: {}: {says}", change.what);
                return Ok(super::refused(&Refusal::not_met("refused", says, "mend what it says and ask again")));
            }
            ChangeState::Waits => lines.push(format!(
                "Not done yet: {}. It is kept and tried again; do not ask for it again. You hear of it if it fails.",
                change.what
            )),
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(lines.join("\n"))]))
    }
}

fn number(priority: Priority) -> u8 {
    match priority {
        Priority::None => 0,
        Priority::Urgent => 1,
        Priority::High => 2,
        Priority::Medium => 3,
        Priority::Low => 4,
    }
}

#[tool_router(router = linear_write_router, vis = "pub(super)")]
impl Tools {
    #[tool(description = "Comments on a Linear ticket, as the owner and signed by this thread. The same words again \
                          within an hour are not written twice.")]
    async fn linear_comment(
        &self,
        Parameters(input): Parameters<CommentInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        self.change(&parts, TicketAsk::Comment { key: input.key, body: input.body }).await
    }

    #[tool(description = "Answers a Linear session in which somebody mentioned the agent. A session has one answer: \
                          a second one is not written.")]
    async fn linear_session_reply(
        &self,
        Parameters(input): Parameters<ReplyInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        self.change(&parts, TicketAsk::Reply { session: input.session, body: input.body }).await
    }

    #[tool(description = "Changes state, assignee, labels or priority of a Linear ticket. What is left out stays. \
                          A name that fits nothing is answered with what there is.")]
    async fn linear_update_issue(
        &self,
        Parameters(input): Parameters<UpdateInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let UpdateInput { key, state, assignee, add_labels: add, remove_labels: remove, priority } = input;
        if add.len() > LABELS || remove.len() > LABELS {
            return Ok(too_much("more than 20 labels are named", "change them in several calls"));
        }
        self.change(&parts, TicketAsk::Update { key, state, assignee, add, remove, priority: priority.map(number) })
            .await
    }

    #[tool(description = "Files a Linear ticket, as the owner and signed by this thread. The same one again within \
                          an hour is not filed twice.")]
    async fn linear_create_issue(
        &self,
        Parameters(input): Parameters<CreateInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        if input.title.chars().count() > 500 {
            return Ok(too_much("the title has more than 500 characters", "say the rest in the description"));
        }
        if input.labels.len() > LABELS {
            return Ok(too_much("more than 20 labels are named", "name fewer"));
        }
        let CreateInput { team, title, description, state, assignee, labels, priority, parent } = input;
        let description = description.unwrap_or_default();
        let priority = priority.map(number);
        let ask = TicketAsk::Create { team, title, description, state, assignee, labels, priority, parent };
        self.change(&parts, ask).await
    }
}
