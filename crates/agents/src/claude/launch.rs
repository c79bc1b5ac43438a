//! How Claude Code is started for a thread.

use crate::setup::{McpEndpoint, Setup};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use stewards_core::ports::TurnJob;
use stewards_core::threads::Permission;

/// The arguments after the provider's own. The thread's token and its context go
/// into files that only this user reads: arguments are seen by everybody.
///
/// Leave is always asked of us, since what a thread may do is decided there, and
/// since the modes that never ask are refused to root.
pub(crate) fn arguments(
    setup: &Setup,
    job: &TurnJob,
    endpoint: &McpEndpoint,
    session: &str,
) -> Result<Vec<OsString>, String> {
    let mcp = json!({"mcpServers": {"stewards": {
        "type": "http",
        "url": endpoint.url,
        "headers": {"Authorization": format!("Bearer {}", endpoint.token)},
        // Else the tools hide behind a search.
        "alwaysLoad": true,
    }}});
    let mcp = write(&setup.dir, &format!("{}.mcp.json", job.thread), &mcp.to_string())?;
    let mode = match job.permission {
        Permission::AcceptEdits => "acceptEdits",
        Permission::Full | Permission::Ask => "default",
    };
    let mut all: Vec<OsString> = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        mode,
        "--strict-mcp-config",
        "--mcp-config",
    ]
    .map(OsString::from)
    .to_vec();
    all.push(mcp.into());
    match &job.session {
        Some(old) if job.forks => {
            all.extend(["--resume".into(), old.into(), "--fork-session".into(), "--session-id".into(), session.into()]);
        }
        Some(_) => all.extend(["--resume".into(), session.into()]),
        None => all.extend(["--session-id".into(), session.into()]),
    }
    if !job.model.model.is_empty() {
        all.extend(["--model".into(), job.model.model.clone().into()]);
    }
    if let Some(level) = &job.model.level {
        all.extend(["--effort".into(), level.into()]);
    }
    if !job.context.is_empty() {
        let context = write(&setup.dir, &format!("{}.context.md", job.thread), &job.context)?;
        all.extend(["--append-system-prompt-file".into(), context.into()]);
        // A recorded prompt would be used again as it was.
        all.extend(["--system-prompt-snapshot".into(), "off".into()]);
    }
    Ok(all)
}

fn write(dir: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = dir.join(name);
    let done = std::fs::create_dir_all(dir).and_then(|()| {
        let mut file = std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())
    });
    done.map_err(|e| format!("{} could not be written: {e}", path.display()))?;
    Ok(path)
}
