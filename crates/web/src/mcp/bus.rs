//! The bus as tools: the same door as the command line's.

use super::Tools;
use crate::act::{self, Ask};
use rmcp::ErrorData;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::{schemars, tool, tool_router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use stewards_core::bus::{ClaimAsk, Draft, KINDS, Wake, check_epoch, claim_key, claim_rows, owed_rows, schema_line};
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Reply};
use stewards_core::refusal::Refusal;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendInput {
    kind: String,
    /// Threads. An ack needs none.
    to: Option<Vec<String>>,
    /// The kind's fields, all of them and no others.
    fields: Option<BTreeMap<String, String>>,
    /// At most 600 characters.
    body: Option<String>,
    /// A word of your own: what is sent again under it is not sent twice.
    dedupe_key: Option<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimInput {
    /// All or none: pr:7, task:KEY, branch:name, path:src, store:memory, thread:id.
    resources: Vec<String>,
    reason: String,
    /// 30m or 2h, at most 4h; 30m by default.
    ttl: Option<String>,
    /// To stand in line where somebody else holds it.
    #[serde(default)]
    wait: bool,
    /// 2h by default.
    max_wait: Option<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneInput {
    resource: String,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseInput {
    resource: String,
    /// Takes it from somebody else, who is told why.
    force_reason: Option<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckInput {
    resource: String,
    epoch: u64,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct WithdrawInput {
    /// The message's number.
    message: u64,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Only this thread's.
    #[serde(default)]
    mine: bool,
}

/// Messages that one call shows at most.
const UNREAD: u32 = 50;

pub(super) type Called = Result<CallToolResult, ErrorData>;

pub(super) fn thread(parts: &http::request::Parts) -> Result<ThreadId, ErrorData> {
    let thread = parts.extensions.get::<ThreadId>().cloned();
    thread.ok_or_else(|| ErrorData::invalid_request("the call carries no thread's token", None))
}

fn answer(told: Result<Reply, Refusal>) -> Called {
    Ok(match told {
        Ok(reply) => CallToolResult::success(vec![ContentBlock::text(reply.says.join("\n"))]),
        Err(refusal) => super::refused(&refusal),
    })
}

fn list(rows: &Value) -> Called {
    Ok(CallToolResult::success(vec![ContentBlock::text(rows.to_string())]))
}

#[tool_router(router = bus_router, vis = "pub(super)")]
impl Tools {
    async fn ask(&self, parts: &http::request::Parts, ask: Ask) -> Called {
        answer(act::act(&self.web, Caller::Thread(thread(parts)?), ask).await)
    }

    #[tool(description = "Sends a typed message to other threads.")]
    async fn bus_send(
        &self,
        Parameters(input): Parameters<SendInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let draft = Draft {
            kind: input.kind,
            to: input.to.unwrap_or_default().into_iter().map(ThreadId).collect(),
            fields: input.fields.unwrap_or_default().into_iter().collect(),
            body: input.body,
            dedupe: input.dedupe_key,
        };
        self.ask(&parts, Ask::BusSend(draft)).await
    }

    #[tool(description = "Holds resources for a while, so that no other thread works on them.")]
    async fn bus_claim(
        &self,
        Parameters(input): Parameters<ClaimInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let ClaimInput { resources, reason, ttl, wait, max_wait } = input;
        self.ask(&parts, Ask::Claim(ClaimAsk { resources, reason, ttl, wait, max_wait })).await
    }

    #[tool(description = "Keeps what this thread holds for its time to live from now on.")]
    async fn bus_heartbeat(
        &self,
        Parameters(input): Parameters<OneInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        self.ask(&parts, Ask::Heartbeat { resource: input.resource }).await
    }

    #[tool(description = "Gives a resource back, or leaves the line for it.")]
    async fn bus_release(
        &self,
        Parameters(input): Parameters<ReleaseInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        self.ask(&parts, Ask::Release { resource: input.resource, force: input.force_reason }).await
    }

    #[tool(description = "Says whether a resource is still held in an epoch; ask before acting on an old claim.")]
    async fn bus_check(
        &self,
        Parameters(input): Parameters<CheckInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let (caller, now) = (Caller::Thread(thread(&parts)?), self.web.engine.now());
        let held = claim_key(&input.resource, &now.world.home(&caller, None))
            .and_then(|key| check_epoch(&now.world, &now.now, &key, input.epoch));
        match held {
            Ok(claim) => list(&json!(claim)),
            Err(refusal) => Ok(super::refused(&refusal)),
        }
    }

    #[tool(description = "Lists what is held, by whom, and who waits for it.")]
    async fn bus_claims(
        &self,
        Parameters(input): Parameters<ListInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let (me, now) = (thread(&parts)?, self.web.engine.now());
        let mut rows = claim_rows(&now.world, &now.now);
        rows.retain(|c| !input.mine || c.holder.as_ref() == Some(&me));
        list(&json!(rows))
    }

    #[tool(description = "Lists messages that are owed an answer, with how each is answered.")]
    async fn bus_unanswered(
        &self,
        Parameters(input): Parameters<ListInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        let (me, now) = (thread(&parts)?, self.web.engine.now());
        let mut rows = owed_rows(&now.world);
        rows.retain(|m| !input.mine || m.to == me || m.from.as_ref() == Some(&me));
        list(&json!(rows))
    }

    #[tool(description = "What other threads sent to this one and waits for its turn's end. It counts as read then.")]
    async fn bus_unread(&self, Extension(parts): Extension<http::request::Parts>) -> Called {
        let me = thread(&parts)?;
        let found = self.web.reader().and_then(|reader| reader.bus_unread(&me, UNREAD));
        let rows = found.map_err(|e| ErrorData::internal_error(format!("the store could not be read: {e}"), None))?;
        let messages: Vec<u64> = rows.iter().map(|r| r.message.seq).collect();
        if messages.is_empty() {
            return Ok(CallToolResult::success(vec![ContentBlock::text("Nothing waits.")]));
        }
        let says: Vec<String> = rows.iter().map(|r| r.message.injected()).collect();
        match act::act(&self.web, Caller::Thread(me), Ask::BusRead { messages }).await {
            Ok(_) => Ok(CallToolResult::success(vec![ContentBlock::text(says.join("\n\n"))])),
            Err(refusal) => Ok(super::refused(&refusal)),
        }
    }

    #[tool(description = "Takes back what this thread asked: no answer is owed any more.")]
    async fn bus_withdraw(
        &self,
        Parameters(input): Parameters<WithdrawInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Called {
        self.ask(&parts, Ask::Withdraw { message: input.message }).await
    }
}

/// The kinds stand in the tool's own schema, from the one table that there is.
pub(super) fn with_kinds(mut router: ToolRouter<Tools>) -> ToolRouter<Tools> {
    let sent = || KINDS.iter().filter(|k| !matches!(k.name, "claim" | "release"));
    if let Some(route) = router.map.get_mut("bus_send") {
        let line = |kind: &stewards_core::bus::Kind| {
            let owes = if kind.ack { " (owes an ack)" } else { "" };
            let steers = if kind.wake == Wake::Immediate { " (interrupts)" } else { "" };
            format!("{}{owes}{steers}", schema_line(kind))
        };
        let lines: Vec<String> = sent().map(line).collect();
        let says = format!("Sends a typed message to other threads. Kinds and their fields:\n{}", lines.join("\n"));
        route.attr.description = Some(says.into());
        let schema = Arc::make_mut(&mut route.attr.input_schema);
        if let Some(kind) = schema.get_mut("properties").and_then(|p| p.get_mut("kind")) {
            kind["enum"] = sent().map(|k| k.name).collect();
        }
    }
    router
}
