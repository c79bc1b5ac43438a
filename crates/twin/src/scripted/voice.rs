//! What the client sees while a turn works.

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, SessionId, SessionNotification, SessionUpdate, TextContent, ToolCall, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

/// The kinds of work that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A shell command.
    Shell,
    /// A change of a file.
    Edit,
    /// A tool of an MCP server.
    Tool,
}

/// Where a turn says what it does.
pub(super) trait Voice: Send + Sync {
    /// A sentence of the agent.
    fn say(&self, text: &str);
    /// A call begins.
    fn began(&self, id: &str, title: &str, kind: Kind, input: Value);
    /// A call is over.
    fn ended(&self, id: &str, ok: bool, text: &str);
}

/// Tells an ACP client.
pub(super) struct AcpVoice {
    link: ConnectionTo<Client>,
    session: SessionId,
}

impl AcpVoice {
    pub(super) fn new(link: ConnectionTo<Client>, session: SessionId) -> AcpVoice {
        AcpVoice { link, session }
    }

    fn update(&self, update: SessionUpdate) {
        // A client that is gone ends the turn by itself.
        let _ = self.link.send_notification(SessionNotification::new(self.session.clone(), update));
    }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

impl Voice for AcpVoice {
    fn say(&self, words: &str) {
        // Chunks are joined by the client, so each sentence brings its own line.
        self.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text(&format!("{words}\n")))));
    }

    fn began(&self, id: &str, title: &str, kind: Kind, input: Value) {
        let kind = match kind {
            Kind::Shell => ToolKind::Execute,
            Kind::Edit => ToolKind::Edit,
            Kind::Tool => ToolKind::Other,
        };
        let call = ToolCall::new(id.to_owned(), title).kind(kind).status(ToolCallStatus::InProgress).raw_input(input);
        self.update(SessionUpdate::ToolCall(call));
    }

    fn ended(&self, id: &str, ok: bool, words: &str) {
        let status = if ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let fields = ToolCallUpdateFields::new().status(status).content(vec![ToolCallContent::from(text(words))]);
        self.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields)));
    }
}
