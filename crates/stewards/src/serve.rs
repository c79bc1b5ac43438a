//! The daemon: introduces the adapters to the engine and serves.

use crate::out::{Outcome, unreachable};
use crate::settings::{self, DaemonFile, LOGINS, Settings};
use anyhow::Context;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stewards_agents::{Credentials, GitRepos, MARK, McpEndpoint, Runners, Setup, THREAD};
use stewards_core::ids::ThreadId;
use stewards_core::refusal::{Exit, Refusal};
use stewards_engine::{Engine, Passes, Ports};
use stewards_sources::{GitHub, GitHubBell, Linear, LinearBell, Logins, Service, Token};
use stewards_store::Store;
use stewards_web::{Build, Sessions, Web};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

/// The commit that this binary was built from.
pub const COMMIT: &str = env!("STEWARDS_COMMIT");

/// `quiet` prints no link to the page: whoever reads a log could log in with it.
pub fn run(dir: &Path, tied: bool, quiet: bool) -> Outcome {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("STEWARDS_LOG").unwrap_or_else(|_| "info,rmcp=warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let lock = settings::lock(dir, "the daemon")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(daemon(dir, tied, quiet));
    // Whatever still waits on the outside is taken up by the next run.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(lock);
    outcome
}

/// Ctrl-C or a polite kill.
pub async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Whoever started us is gone: its end of the pipe closed.
pub async fn stdin_closed() {
    use tokio::io::AsyncReadExt;
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0_u8; 64];
    while let Ok(n) = stdin.read(&mut buffer).await {
        if n == 0 {
            return;
        }
    }
}

/// The port of the page: set, or chosen once and kept.
async fn listen(dir: &Path, set: u16) -> anyhow::Result<TcpListener> {
    let kept = dir.join("port");
    let port = match set {
        0 => std::fs::read_to_string(&kept).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0),
        set => set,
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|e| {
        let hint =
            "another program has it: set `port` in settings.json, or remove the file `port` to have one chosen anew";
        unreachable("port", format!("port {port} on 127.0.0.1 cannot be taken: {e}"), hint)
    })?;
    std::fs::write(&kept, listener.local_addr()?.port().to_string())?;
    Ok(listener)
}

/// A socket's path may have about a hundred bytes; a deeper directory gets its
/// socket in the temporary directory.
fn socket_path(dir: &Path) -> PathBuf {
    let near = dir.join("stewards.sock");
    if near.as_os_str().len() <= 100 {
        return near;
    }
    let name = &stewards_core::text::hash(&dir.to_string_lossy())[..16];
    std::env::temp_dir().join(format!("stewards-{name}.sock"))
}

/// `bin` of the directory stands first in a thread's PATH.
fn link_commands(dir: &Path) -> anyhow::Result<PathBuf> {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin)?;
    let ours = std::env::current_exe()?;
    for name in ["stewards", "bb", "gh"] {
        let fresh = bin.join(format!(".{name}.new"));
        let _ = std::fs::remove_file(&fresh);
        std::os::unix::fs::symlink(&ours, &fresh)?;
        std::fs::rename(&fresh, bin.join(name))?;
    }
    Ok(bin)
}

/// Git asks our `gh` for the password, and only where it needs one.
fn git_credentials(logins: &Logins, gh: &Path, api: &str) -> BTreeMap<String, String> {
    let helper = format!("!{} auth git-credential", stewards_core::text::shell(&gh.to_string_lossy()));
    let login = logins.get(Service::GitHub).ok().flatten().filter(|l| l.ended.is_none());
    let mut env = BTreeMap::from([
        ("GIT_CONFIG_COUNT".into(), "2".into()),
        ("GIT_CONFIG_KEY_0".into(), "credential.helper".into()),
        // An empty one first: helpers of the system are not asked as well.
        ("GIT_CONFIG_VALUE_0".into(), String::new()),
        ("GIT_CONFIG_KEY_1".into(), "credential.helper".into()),
        ("GIT_CONFIG_VALUE_1".into(), helper),
        ("STEWARDS_GITHUB_API".into(), api.to_owned()),
    ]);
    env.extend(login.map(|l| ("GH_TOKEN".into(), l.token)));
    env
}

/// The thread whose agent a process belongs to: by the markers in its own
/// environment or in that of a process it descends from.
fn descent(mark: String) -> stewards_web::Descent {
    Arc::new(move |pid| {
        let environ = |pid: i32| std::fs::read(format!("/proc/{pid}/environ"));
        environ(pid).map_err(|_| ())?;
        let of = |pid: i32| {
            let environ = environ(pid).ok()?;
            let value = |name: &str| {
                let prefix = format!("{name}=");
                environ
                    .split(|b| *b == 0)
                    .find_map(|v| v.strip_prefix(prefix.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned()))
            };
            (value(MARK)? == mark).then(|| value(THREAD)).flatten()
        };
        let parent = |pid: i32| -> Option<i32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|p| *p > 1)
        };
        let mut at = pid;
        for _ in 0..64 {
            if let Some(thread) = of(at) {
                return Ok(Some(ThreadId(thread)));
            }
            match parent(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(None)
    })
}

async fn daemon(dir: &Path, tied: bool, quiet: bool) -> Outcome {
    let settings: Settings = settings::read(&dir.join("settings.json"))?;
    let secrets = settings::secrets(dir)?;
    let tcp = listen(dir, settings.port).await?;
    let url = format!("http://127.0.0.1:{}", tcp.local_addr()?.port());
    let socket = socket_path(dir);
    let bin = link_commands(dir)?;
    let mark = dir.to_string_lossy().into_owned();
    let file = dir.join(stewards_store::FILE);
    let store = Store::open(&file).map_err(|e| {
        let says = format!("{} could not be opened: {e}", file.display());
        Refusal::new(
            Exit::Configuration,
            "database",
            says,
            "put a good copy of it there, or move it away to begin anew",
        )
    })?;

    let passes = Arc::new(Passes::default());
    let logins = Arc::new(Logins::new(dir.join(LOGINS)));
    let credentials: Credentials = {
        let (logins, gh, api) = (logins.clone(), bin.join("gh"), settings.github_api.clone());
        Arc::new(move || git_credentials(&logins, &gh, &api))
    };
    let providers = crate::agents::providers(&settings)?;
    let setup = Setup {
        providers: providers.clone(),
        mark: mark.clone(),
        dir: dir.join("agents"),
        mcp: {
            let (passes, url) = (passes.clone(), format!("{url}/mcp"));
            Arc::new(move |thread| McpEndpoint { url: url.clone(), token: passes.of(thread) })
        },
        thread_env: {
            let (passes, credentials, socket) = (passes.clone(), credentials.clone(), socket.clone());
            let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
            Arc::new(move |thread| {
                let mut env = credentials();
                env.insert("PATH".into(), path.clone());
                env.insert("STEWARDS_SOCKET".into(), socket.to_string_lossy().into_owned());
                env.insert("STEWARDS_TOKEN".into(), passes.of(thread));
                env
            })
        },
        silence: Duration::from_secs(settings.silence_s.max(1)),
    };
    let agents = Arc::new(Runners::new(setup));
    let ports = Ports {
        tickets: Arc::new(Linear::new(settings.linear_url.clone(), Token::Kept(logins.clone(), Service::Linear))),
        pulls: Arc::new(GitHub::new(settings.github_api.clone(), Token::Kept(logins.clone(), Service::GitHub))),
        agents: agents.clone(),
        repo: Arc::new(
            GitRepos::new(dir.to_owned(), credentials).with_script_limit(Duration::from_secs(settings.setup_s.max(1))),
        ),
    };
    let set = settings.of_the_machine(providers.into_keys().collect());
    let engine = Engine::start(store, set, ports).await.context("the engine could not start")?;

    let log = GitHub::new(settings.github_api.clone(), Token::Kept(logins, Service::GitHub));
    let missed = tokio::spawn(crate::missed::watch(engine.clone(), log, settings));

    let _ = std::fs::remove_file(&socket);
    let line = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    let started = jiff::Timestamp::now();
    let build =
        Build { commit: COMMIT.into(), version: env!("CARGO_PKG_VERSION").into(), pid: std::process::id(), started };
    let sessions = Arc::new(Sessions::new(secrets.page_key.clone()));
    let web = Web {
        engine: engine.clone(),
        file,
        passes,
        sessions: sessions.clone(),
        bells: BTreeMap::from([
            (
                "linear",
                Arc::new(LinearBell::new(secrets.linear_webhook.clone()).or(secrets.linear_app.clone())) as Arc<_>,
            ),
            ("github", Arc::new(GitHubBell::new(secrets.github_webhook.clone())) as Arc<_>),
        ]),
        build,
        descent: descent(mark),
    };
    let stop = CancellationToken::new();
    let serving = tokio::spawn(stewards_web::serve(web, tcp, line, stop.clone()));
    let found =
        DaemonFile { pid: std::process::id(), started, socket: socket.clone(), url: url.clone(), build: COMMIT.into() };
    settings::write_private(&dir.join("daemon.json"), &found)?;
    crate::out::line(&format!("Stewards serves {} at {url}", dir.display()));
    match quiet {
        true => crate::out::line("For a link to the page: stewards link"),
        false => crate::out::line(&format!("Open it once with {url}/enter?code={}", sessions.link())),
    }

    let died = tokio::select! {
        () = signalled() => None,
        () = stdin_closed(), if tied => None,
        said = engine.ended() => Some(said),
    };
    // Nothing is recorded any more: turns that are live now are taken up as cut.
    missed.abort();
    engine.close().await;
    stop.cancel();
    agents.stop_all().await;
    let _ = std::fs::remove_file(dir.join("daemon.json"));
    let _ = std::fs::remove_file(&socket);
    let _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    match died {
        None => Ok(0),
        Some(said) => anyhow::bail!("the engine stopped, nothing half was left behind: {said}"),
    }
}
