//! Logging in at Linear and GitHub, as oneself.

use super::lists::text;
use crate::cli::{Login as Args, ServiceArg};
use crate::out::{self, Outcome};
use crate::settings::{self, LOGINS, Settings};
use axum::extract::{Query, State};
use axum::response::Html;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stewards_core::ports::{Pulls, Tickets};
use stewards_core::refusal::{Exit, Refusal};
use stewards_core::snapshot::Author;
use stewards_core::trouble::Trouble;
use stewards_sources::oauth::{Failed, Tokens, Way};
use stewards_sources::{GitHub, How, Linear, Login, Logins, Renewal, Service, Token};
use tokio::sync::oneshot;

/// So long the person has to say yes in the browser.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

pub fn login(dir: Option<&Path>, args: &Args, json: bool) -> Outcome {
    let (settings, logins, service) = all(dir, args.service)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut found = obtain(&settings, service, args).await?;
        let me = who(&settings, service, Token::from(found.token.as_str())).await;
        found.who = called(service, me.map_err(|trouble| not_taken(service, &trouble))?);
        logins.put(service, found.clone())?;
        if json {
            return out::json(&row(service, &found));
        }
        out::line(&format!("Logged in at {} as {}.", service.name(), found.who));
        Ok(0)
    })
}

pub fn logout(dir: Option<&Path>, service: ServiceArg, json: bool) -> Outcome {
    let (settings, logins, service) = all(dir, service)?;
    let Some(gone) = logins.remove(service)? else {
        let says = format!("nobody is logged in at {}", service.name());
        return Err(Refusal::not_met("no_login", says, format!("log in: stewards login {}", service.word())).into());
    };
    // The token of `gh` stays of use to `gh`, and a pasted one is its owner's to take back.
    let ours = gone.how == How::Browser && service == Service::Linear;
    if ours {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let way = Way::linear(&settings.linear_url, "");
        if let Err(trouble) = runtime.block_on(stewards_sources::oauth::revoke(&way.revoke, &gone.token)) {
            eprintln!("The token was forgotten here, and could not be taken back there: {trouble}");
        }
    }
    if json {
        return out::json(&json!({ "service": service, "who": gone.who }));
    }
    out::line(&format!("Logged out at {}.", service.name()));
    Ok(0)
}

/// Who one is at each service, asked now. Exit 1 where nobody is logged in anywhere, or a
/// login is of no use.
pub fn whoami(dir: Option<&Path>, json: bool) -> Outcome {
    let rows = asked(&settings::dir(dir)?)?;
    let fine = !rows.is_empty() && rows.iter().all(|r| r["trouble"].is_null());
    match json {
        true => drop(out::json(&rows)?),
        false => said(&rows),
    }
    Ok(u8::from(!fine))
}

/// The logins of a data directory, each asked now whether it is good.
pub fn asked(dir: &Path) -> anyhow::Result<Vec<Value>> {
    let settings: Settings = settings::read(&dir.join("settings.json"))?;
    let logins = Arc::new(Logins::new(dir.join(LOGINS)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for service in Service::ALL {
        let Some(kept) = logins.get(service)? else { continue };
        let asked = runtime.block_on(who(&settings, service, Token::Kept(logins.clone(), service)));
        let mut row = row(service, &kept);
        match asked {
            Ok(me) => row["who"] = json!(called(service, me)),
            Err(trouble) => row["trouble"] = json!(trouble.to_string()),
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A line for each service.
pub fn said(rows: &[Value]) {
    for service in Service::ALL {
        let name = service.name();
        match rows.iter().find(|r| r["service"] == json!(service)) {
            None => out::line(&format!("{name}: not logged in (stewards login {})", service.word())),
            Some(row) if row["trouble"].is_null() => {
                let until = row["expires"].as_str().map(|at| format!(", renewed before {at}")).unwrap_or_default();
                out::line(&format!("{name}: {} ({}{until})", text(&row["who"]), text(&row["how"])));
            }
            Some(row) => out::line(&format!("{name}: {} ({})", text(&row["trouble"]), text(&row["how"]))),
        }
    }
}

/// A login for people: never its token.
fn row(service: Service, login: &Login) -> Value {
    json!({
        "service": service, "who": login.who, "how": login.how, "since": login.since, "expires": login.expires,
        "ended": login.ended, "trouble": null,
    })
}

fn all(dir: Option<&Path>, service: ServiceArg) -> anyhow::Result<(Settings, Logins, Service)> {
    if std::env::var_os("STEWARDS_THREAD").is_some() {
        let hint = "say what you need in your report";
        return Err(Refusal::not_met("person_only", "only the owner logs in and out", hint).into());
    }
    let dir = settings::dir(dir)?;
    stewards_store::private_dir(&dir)?;
    let settings = settings::read(&dir.join("settings.json"))?;
    Ok((settings, Logins::new(dir.join(LOGINS)), service.into()))
}

async fn who(settings: &Settings, service: Service, token: Token) -> Result<Author, Trouble> {
    match service {
        Service::Linear => Linear::new(settings.linear_url.clone(), token).viewer().await,
        Service::GitHub => GitHub::new(settings.github_api.clone(), token).viewer().await,
    }
}

/// As people know it there: Linear compares accounts by an id that nobody knows.
fn called(service: Service, me: Author) -> String {
    match service {
        Service::Linear => me.name,
        Service::GitHub => me.login,
    }
}

fn not_taken(service: Service, trouble: &Trouble) -> Refusal {
    let says = format!("{} does not take this login: {trouble}", service.name());
    match trouble {
        Trouble::Unauthorized { .. } => Refusal::not_met("not_taken", says, "nothing was kept: try another token"),
        _ => Refusal::new(Exit::Unreachable, "not_taken", says, "nothing was kept: try again when it can be reached"),
    }
}

async fn obtain(settings: &Settings, service: Service, args: &Args) -> anyhow::Result<Login> {
    let client = args.client_id.clone().or(match service {
        Service::Linear => settings.linear_client_id.clone(),
        Service::GitHub => settings.github_client_id.clone(),
    });
    if args.with_token {
        return pasted(service, std::io::stdin());
    }
    let by_gh = (service == Service::GitHub && !args.web).then(|| gh_token(&settings.github_api)).flatten();
    if let Some(token) = by_gh {
        return Ok(Login::of_token(How::Gh, &token));
    }
    match (service, client) {
        (Service::Linear, Some(client)) => {
            let way = Way::linear(&settings.linear_url, &client);
            let tokens = in_browser(&way, settings.login_port, args.no_browser).await?;
            Ok(granted(How::Browser, tokens, &way))
        }
        (Service::GitHub, Some(client)) => {
            let way = Way::github(&settings.github_api, &client);
            let device = way.device().await.map_err(failed)?;
            let at = device.verification_uri().as_str();
            eprintln!("Open {at} and type in: {}", device.user_code().secret());
            show(at, args.no_browser);
            let tokens = way.wait(&device).await.map_err(failed)?;
            Ok(granted(How::Device, tokens, &way))
        }
        (_, None) if args.web => {
            let name = format!("{}_client_id", service.word());
            let says = format!("a login in the browser needs an application that is registered at {}", service.name());
            let hint = format!("give its client id with --client-id, or as `{name}` in settings.json");
            Err(Refusal::usage("no_client", says, hint).into())
        }
        (_, None) if std::io::stdin().is_terminal() => {
            let ask = format!("Paste {} (it is not shown): ", what_to_paste(service));
            let token = rpassword::prompt_password(ask)?;
            pasted(service, token.as_bytes())
        }
        (_, None) => {
            let says = format!("there is nobody to ask for {}", what_to_paste(service));
            let hint = format!("pipe it in: stewards login {} --with-token < file", service.word());
            Err(Refusal::usage("no_token", says, hint).into())
        }
    }
}

fn what_to_paste(service: Service) -> &'static str {
    match service {
        Service::Linear => "a personal API key of Linear (Settings, Security & access)",
        Service::GitHub => "a personal access token of GitHub that may read and write your repositories",
    }
}

fn pasted(service: Service, from: impl Read) -> anyhow::Result<Login> {
    let mut token = String::new();
    from.take(10_000).read_to_string(&mut token)?;
    let token = token.trim();
    if token.is_empty() || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let says = format!("that is not one token: {} is one word", what_to_paste(service));
        return Err(Refusal::usage("bad_token", says, "paste the token alone").into());
    }
    Ok(Login::of_token(How::Token, token))
}

/// The token of this machine's own `gh`, where it is there and logged in.
fn gh_token(api: &str) -> Option<String> {
    let host = stewards_sources::oauth::github_host(api)?;
    let asked = Command::new("gh")
        .args(["auth", "token", "--hostname", &host])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|o| o.status.success())?;
    let token = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

fn granted(how: How, tokens: Tokens, way: &Way) -> Login {
    let renewal = tokens.refresh.map(|token| Renewal { token, url: way.tokens.clone(), client: way.client.clone() });
    Login { renewal, expires: tokens.expires, ..Login::of_token(how, &tokens.token) }
}

fn failed(failed: Failed) -> anyhow::Error {
    match failed {
        Failed::Ended(why) => {
            Refusal::not_met("not_granted", format!("the login was not granted: {why}"), "try again").into()
        }
        Failed::Not(trouble) => {
            let says = format!("the login could not be made: {trouble}");
            Refusal::new(Exit::Unreachable, "login", says, "try again when the service can be reached").into()
        }
    }
}

/// Opens an address where a person sits before a screen.
fn show(url: &str, no_browser: bool) {
    if no_browser || !std::io::stderr().is_terminal() {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let _ = Command::new(opener).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

#[derive(Deserialize)]
struct Back {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// What the browser brought: a code, or why there is none.
type Brought = oneshot::Sender<Result<String, String>>;

async fn in_browser(way: &Way, port: u16, no_browser: bool) -> anyhow::Result<Tokens> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.map_err(|e| {
        let says = format!("port {port} on 127.0.0.1, where the browser comes back to, cannot be taken: {e}");
        Refusal::new(Exit::Unreachable, "port", says, "set another `login_port`, and register that callback")
    })?;
    let redirect = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
    let asked = way.in_browser(&redirect).map_err(failed)?;
    eprintln!("Open this and say yes (the application's callback has to be {redirect}):\n{}", asked.url);
    show(&asked.url, no_browser);
    let (brought, wait) = oneshot::channel();
    let kept: Arc<(String, Mutex<Option<Brought>>)> = Arc::new((asked.state.clone(), Mutex::new(Some(brought))));
    let router = axum::Router::new().route("/callback", get(back)).with_state(kept);
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let came = tokio::time::timeout(PATIENCE, wait).await;
    // The page that says so is still on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    serving.abort();
    match came {
        Ok(Ok(Ok(code))) => way.take(asked, &code).await.map_err(failed),
        Ok(Ok(Err(why))) => Err(failed(Failed::Ended(why))),
        _ => Err(failed(Failed::Ended("nobody said yes within five minutes".into()))),
    }
}

/// The browser comes back. What does not bring our word back is somebody else's.
async fn back(
    State(kept): State<Arc<(String, Mutex<Option<Brought>>)>>,
    Query(back): Query<Back>,
) -> (http::StatusCode, Html<&'static str>) {
    if back.state.as_deref() != Some(kept.0.as_str()) {
        return (http::StatusCode::BAD_REQUEST, Html("<p>This is not the login that waits here."));
    }
    let found = match (back.code, back.error) {
        (Some(code), None) => Ok(code),
        (_, error) => Err(error.unwrap_or_else(|| "it brought no code".into())),
    };
    let good = found.is_ok();
    let brought = kept.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    if let Some(brought) = brought {
        let _ = brought.send(found);
    }
    match good {
        true => (http::StatusCode::OK, Html("<p>Logged in. You may close this page.")),
        false => (http::StatusCode::OK, Html("<p>Not logged in. You may close this page.")),
    }
}
