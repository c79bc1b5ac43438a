//! Tools for agents: an MCP server in stateless JSON mode. Who calls is known
//! by the thread's own token, per request.

mod bus;
mod linear;
mod linear_write;

use crate::Web;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde::Deserialize;
use std::sync::Arc;
use stewards_core::ids::ThreadId;
use stewards_core::machine::{Caller, Event};
use stewards_core::refusal::Refusal;
use stewards_core::stewards::{Actor, Report, after_report};

#[derive(Clone)]
struct Tools {
    web: Web,
    tool_router: ToolRouter<Tools>,
}

/// Who acts next.
#[derive(Debug, Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Who {
    User,
    Steward,
    Other,
}

/// The status record that ends a steward's turn.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReportInput {
    /// The entity's state as you see it.
    phase: Option<String>,
    /// What is so, in a sentence or two.
    summary: String,
    /// What comes next, in a few words.
    next_action: String,
    /// Who acts next.
    actor: Who,
    /// Numbers of the ready gate's items that hold.
    #[serde(default)]
    ready: Vec<serde_json::Value>,
    /// What the work waits for: a worker, a pull request, a check.
    waiting_on: Option<String>,
    /// No further pull request will be opened.
    #[serde(default)]
    no_more_pulls: bool,
    /// Keeps a finished effort open, and says what for.
    follow_through: Option<String>,
}

#[tool_router]
impl Tools {
    fn new(web: Web) -> Self {
        Tools {
            web,
            tool_router: bus::with_kinds(
                Self::tool_router() + Self::bus_router() + Self::linear_router() + Self::linear_write_router(),
            ),
        }
    }

    #[tool(description = "Ends a steward's turn with its status record. It is taken whole or refused whole.")]
    async fn steward_report(
        &self,
        Parameters(input): Parameters<ReportInput>,
        Extension(parts): Extension<http::request::Parts>,
    ) -> Result<CallToolResult, ErrorData> {
        let Some(thread) = parts.extensions.get::<ThreadId>().cloned() else {
            return Err(ErrorData::invalid_request("the call carries no thread's token", None));
        };
        let report = Report {
            phase: input.phase,
            summary: input.summary,
            next_action: input.next_action,
            actor: match input.actor {
                Who::User => Actor::User,
                Who::Steward => Actor::Steward,
                Who::Other => Actor::Other,
            },
            ready: input.ready,
            waiting_on: input.waiting_on,
            no_more_pulls: input.no_more_pulls,
            follow_through: input.follow_through,
        };
        let told = self.web.engine.tell(Event::Reported { caller: Caller::Thread(thread.clone()), report }).await;
        Ok(match told {
            Ok(reply) => {
                let mut says = reply.says;
                says.extend(after_report(&self.web.engine.now().world, &thread));
                CallToolResult::success(vec![ContentBlock::text(says.join("\n"))])
            }
            Err(refusal) => refused(&refusal),
        })
    }
}

fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{}\n{}", refusal.says, refusal.hint))])
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions("Tools of Stewards, the host of this thread.")
    }
}

pub(crate) fn router(web: &Web) -> Router<Web> {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let for_tools = web.clone();
    let make = move || Ok(Tools::new(for_tools.clone()));
    let service = StreamableHttpService::new(make, Arc::new(LocalSessionManager::default()), config);
    Router::new().route_service("/mcp", service).route_layer(middleware::from_fn_with_state(web.clone(), whose))
}

/// Only a thread's own token opens the tools, and it names the thread.
async fn whose(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let bearer = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|a| a.to_str().ok())
        .and_then(|a| a.strip_prefix("Bearer "));
    let Some(thread) = bearer.and_then(|token| web.passes.who(token)) else {
        return (StatusCode::UNAUTHORIZED, "a thread's own token is needed\n").into_response();
    };
    request.extensions_mut().insert(thread);
    next.run(request).await
}
