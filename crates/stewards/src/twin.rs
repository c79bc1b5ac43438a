//! The twin as a process of its own: for the demo, and for people who develop playbooks.

use crate::cli;
use crate::out::{self, Outcome};
use crate::settings::{self, LOGINS, Settings};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stewards_core::refusal::Refusal;
use stewards_sources::{How, Login, Logins, Service};

/// What a twin is started with; written by the demo, readable by its owner alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TwinFile {
    pub dir: PathBuf,
    pub linear_url: String,
    pub linear_secret: String,
    pub github_url: String,
    pub github_secret: String,
    pub linear_token: String,
    pub github_token: String,
    pub ci_delay_ms: u64,
    /// Where `gh` finds it, by its setting `http_unix_socket`.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

/// Runs it until it is told to end.
pub fn run(dir: Option<&Path>, args: &cli::Twin, json: bool) -> Outcome {
    if args.config.is_none() && dir.is_none() && std::env::var_os("STEWARDS_DIR").is_none() {
        let says = "a pretend Linear and GitHub needs a data directory of its own";
        return Err(Refusal::usage("no_dir", says, "name one: stewards --dir <dir> twin").into());
    }
    let home = settings::dir(dir)?;
    let home = home.as_path();
    let (file, port) = match &args.config {
        Some(config) => {
            let text = std::fs::read_to_string(config).with_context(|| config.display().to_string())?;
            (serde_json::from_str(&text)?, args.port.unwrap_or(0))
        }
        None => own(home, args.port)?,
    };
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).map_err(|e| {
        let says = format!("the port {port} cannot be taken: {e}");
        Refusal::busy("port", says, "end what has it, or name another with --port")
    })?;
    listener.set_nonblocking(true)?;
    if args.config.is_none() {
        said(home, &file, listener.local_addr()?.port(), json)?;
    }
    let config = stewards_twin::Config {
        dir: file.dir,
        listener,
        socket: file.socket,
        hooks: stewards_twin::Hooks {
            linear_url: file.linear_url,
            linear_secret: file.linear_secret,
            github_url: file.github_url,
            github_secret: file.github_secret,
        },
        linear_token: file.linear_token,
        github_token: file.github_token,
        ci_delay: Duration::from_millis(file.ci_delay_ms),
    };
    let tied = args.tied;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = async move {
            tokio::select! {
                () = crate::serve::signalled() => {}
                () = crate::serve::stdin_closed(), if tied => {}
            }
        };
        stewards_twin::serve(config, stop).await.context("the twin")
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(0)
}

/// A twin of one's own beside a data directory: its tokens and its port stay.
fn own(home: &Path, port: Option<u16>) -> anyhow::Result<(TwinFile, u16)> {
    stewards_store::private_dir(home).with_context(|| home.display().to_string())?;
    let place = home.join("twin.json");
    #[derive(Default, Serialize, Deserialize)]
    struct Kept {
        #[serde(flatten)]
        file: TwinFile,
        #[serde(default)]
        port: u16,
    }
    let mut kept: Kept = match place.exists() {
        true => settings::read(&place)?,
        false => Kept::default(),
    };
    if kept.file.linear_token.is_empty() {
        kept.file = TwinFile {
            dir: home.join("twin"),
            linear_token: format!("lin_api_{}", stewards_engine::secret()),
            github_token: format!("ghp_{}", stewards_engine::secret()),
            ci_delay_ms: 1_500,
            socket: Some(home.join("gh.sock")),
            ..TwinFile::default()
        };
    }
    if let Some(port) = port {
        kept.port = port;
    }
    if kept.port == 0 {
        kept.port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    }
    settings::write_private(&place, &kept)?;
    connect(home, &kept.file, kept.port)?;
    Ok((kept.file, kept.port))
}

/// Has the data directory work with the twin: its addresses, and logins. One that works with
/// real services is left alone.
fn connect(home: &Path, file: &TwinFile, port: u16) -> anyhow::Result<()> {
    let place = home.join("settings.json");
    let base = format!("http://127.0.0.1:{port}");
    let mut set: Settings = settings::read(&place)?;
    let usual = Settings::default();
    let logins = Logins::new(home.join(LOGINS));
    let real = set.linear_url == usual.linear_url && set.github_api == usual.github_api;
    if real && (logins.get(Service::Linear)?.is_some() || logins.get(Service::GitHub)?.is_some()) {
        let says = format!("{} works with the real Linear and GitHub", home.display());
        return Err(Refusal::not_met("real", says, "use a directory of its own: stewards --dir <dir> twin").into());
    }
    set.linear_url = format!("{base}/linear/graphql");
    set.github_api = format!("{base}/github");
    settings::write_private(&place, &set)?;
    for (service, token) in [(Service::Linear, &file.linear_token), (Service::GitHub, &file.github_token)] {
        logins.put(service, Login::of_token(How::Token, token))?;
    }
    Ok(())
}

fn said(home: &Path, file: &TwinFile, port: u16, json: bool) -> anyhow::Result<()> {
    let base = format!("http://127.0.0.1:{port}");
    if json {
        return out::json(&json!({
            "linear": format!("{base}/linear/graphql"), "linear_token": file.linear_token,
            "github": format!("{base}/github"), "github_token": file.github_token,
            "git": format!("{base}/git/<owner>/<name>.git"), "control": format!("{base}/control"),
            "socket": file.socket,
        }))
        .map(drop);
    }
    let dir = home.display();
    for line in [
        format!("A pretend Linear and GitHub at {base}. {dir} works with it, and is logged in to both."),
        format!("Linear:  {base}/linear/graphql, key {}", file.linear_token),
        format!("GitHub:  {base}/github, token {}", file.github_token),
        format!("git:     {base}/git/<owner>/<name>.git (any user, the token as password)"),
        format!("gh:      http_unix_socket: {}", file.socket.as_deref().unwrap_or(Path::new("-")).display()),
        String::new(),
        "What happens in it, you say (a person, a team, a repository, a ticket, a comment of somebody):".into(),
        format!("  alias twin='curl -s -H \"Authorization: Bearer {}\" -d'", file.github_token),
        format!("  twin '{{\"login\":\"ann\",\"name\":\"Ann\",\"me\":true}}' {base}/control/user"),
        format!("  twin '{{\"key\":\"DEMO\",\"name\":\"Demo\"}}' {base}/control/team"),
        format!(
            "  twin '{{\"owner\":\"acme\",\"name\":\"shop\",\"files\":{{\"README.md\":\"hello\"}}}}' {base}/control/repo"
        ),
        format!(
            "  twin '{{\"key\":\"one\",\"team\":\"DEMO\",\"title\":\"A first ticket\",\"description\":\"…\",\"labels\":[\"bb-managed\"],\"assignee\":\"ann\",\"state\":\"Todo\"}}' {base}/control/ticket"
        ),
        format!("  twin '{{\"route_prefix\":\"/github\",\"status\":502,\"times\":3}}' {base}/control/fault"),
        String::new(),
        format!("Then: stewards --dir {dir} serve start, and hooks install --url <its address>. Ctrl-C ends the twin."),
    ] {
        out::line(&line);
    }
    Ok(())
}
