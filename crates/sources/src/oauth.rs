//! Tokens by OAuth: in the browser with a proof of its own (PKCE), by a device code, and
//! renewed. A public client: it has no secret.

use crate::logins::Renewal;
use crate::transport::Transport;
use jiff::{SignedDuration, Timestamp};
use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AsyncHttpClient, AuthUrl, AuthorizationCode, ClientId, CsrfToken, DeviceAuthorizationUrl, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, TokenResponse, TokenUrl,
};
use reqwest::Url;
use std::pin::Pin;
use std::time::Duration;
use stewards_core::trouble::Trouble;

/// What a token endpoint gave.
pub struct Tokens {
    pub token: String,
    pub refresh: Option<String>,
    pub expires: Option<Timestamp>,
}

/// Why it gave none.
#[derive(Debug)]
pub enum Failed {
    /// The grant is of no use any more, for good.
    Ended(String),
    Not(Trouble),
}

/// A way into a service: its addresses and our name there.
#[derive(Clone, Debug)]
pub struct Way {
    /// Where the person is asked, in the browser or for a device code.
    pub ask: String,
    /// Where tokens are had.
    pub tokens: String,
    /// Where they are taken back; empty where that cannot be done.
    pub revoke: String,
    /// The client id of an application that is registered with the service.
    pub client: String,
    /// As the service separates them.
    pub scopes: String,
}

/// What is needed to take a code that the browser brings back.
pub struct Asked {
    /// What the person opens.
    pub url: String,
    /// What the browser has to bring back with the code.
    pub state: String,
    proof: PkceCodeVerifier,
    redirect: String,
}

fn bad(e: impl std::fmt::Display) -> Failed {
    Failed::Not(Trouble::Refused { says: format!("an address of the login is none: {e}") })
}

/// The host of the pages that belong to an API of GitHub's: `github.com` to its own, the
/// same host to an Enterprise server's.
pub fn github_host(api: &str) -> Option<String> {
    let url = Url::parse(api).ok()?;
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str()?),
        None => url.host_str()?.to_owned(),
    };
    Some(if host == "api.github.com" { "github.com".to_owned() } else { host })
}

impl Way {
    /// Linear's: its API stands beside its token endpoint, and people are asked on its
    /// own pages.
    pub fn linear(graphql: &str, client: &str) -> Way {
        let beside = graphql.trim_end_matches('/').rsplit_once('/').map_or("", |(beside, _)| beside);
        let pages = if beside == "https://api.linear.app" { "https://linear.app" } else { beside };
        Way {
            ask: format!("{pages}/oauth/authorize"),
            tokens: format!("{beside}/oauth/token"),
            revoke: format!("{beside}/oauth/revoke"),
            client: client.to_owned(),
            scopes: "read,write".into(),
        }
    }

    /// GitHub's, or that of an Enterprise server (`https://<host>/api/v3`).
    pub fn github(api: &str, client: &str) -> Way {
        let api = api.trim_end_matches('/');
        let pages = match api {
            "https://api.github.com" => "https://github.com",
            other => other.strip_suffix("/api/v3").unwrap_or(other),
        };
        Way {
            ask: format!("{pages}/login/device/code"),
            tokens: format!("{pages}/login/oauth/access_token"),
            revoke: String::new(),
            client: client.to_owned(),
            scopes: "repo read:org workflow".into(),
        }
    }

    /// Begins a login in the browser, which ends at `redirect`.
    pub fn in_browser(&self, redirect: &str) -> Result<Asked, Failed> {
        let client = BasicClient::new(ClientId::new(self.client.clone()))
            .set_auth_uri(AuthUrl::new(self.ask.clone()).map_err(bad)?)
            .set_redirect_uri(RedirectUrl::new(redirect.to_owned()).map_err(bad)?);
        let (challenge, proof) = PkceCodeChallenge::new_random_sha256();
        let (url, state) = client
            .authorize_url(CsrfToken::new_random)
            .add_scope(Scope::new(self.scopes.clone()))
            .set_pkce_challenge(challenge)
            .url();
        Ok(Asked { url: url.to_string(), state: state.secret().clone(), proof, redirect: redirect.to_owned() })
    }

    /// Takes the code that the browser brought.
    pub async fn take(&self, asked: Asked, code: &str) -> Result<Tokens, Failed> {
        let client = BasicClient::new(ClientId::new(self.client.clone()))
            .set_token_uri(TokenUrl::new(self.tokens.clone()).map_err(bad)?)
            .set_redirect_uri(RedirectUrl::new(asked.redirect.clone()).map_err(bad)?);
        let http = Http::new(&self.tokens);
        let code = client.exchange_code(AuthorizationCode::new(code.to_owned())).set_pkce_verifier(asked.proof);
        tokens(code.request_async(&http).await)
    }

    /// A code for the person to type in where the answer says.
    pub async fn device(&self) -> Result<StandardDeviceAuthorizationResponse, Failed> {
        let client = BasicClient::new(ClientId::new(self.client.clone()))
            .set_device_authorization_url(DeviceAuthorizationUrl::new(self.ask.clone()).map_err(bad)?);
        let http = Http::new(&self.ask);
        let asked = client.exchange_device_code().add_scope(Scope::new(self.scopes.clone()));
        asked.request_async(&http).await.map_err(failed)
    }

    /// Waits until the person has typed it in, as slowly as the service wants, and no
    /// longer than the code is good for.
    pub async fn wait(&self, device: &StandardDeviceAuthorizationResponse) -> Result<Tokens, Failed> {
        let client = BasicClient::new(ClientId::new(self.client.clone()))
            .set_token_uri(TokenUrl::new(self.tokens.clone()).map_err(bad)?);
        let http = Http::new(&self.tokens);
        let asked = client.exchange_device_access_token(device);
        let answer = asked.request_async(&http, tokio::time::sleep, None).await;
        match answer {
            Ok(found) => Ok(taken(&found)),
            Err(RequestTokenError::ServerResponse(e)) => Err(Failed::Ended(e.to_string())),
            Err(other) => Err(Failed::Not(Trouble::Flaky { says: format!("the login did not end: {other}") })),
        }
    }
}

/// Has a token renewed.
pub(crate) async fn renew(renewal: &Renewal) -> Result<Tokens, Failed> {
    let client = BasicClient::new(ClientId::new(renewal.client.clone()))
        .set_token_uri(TokenUrl::new(renewal.url.clone()).map_err(bad)?);
    let http = Http::new(&renewal.url);
    let token = RefreshToken::new(renewal.token.clone());
    tokens(client.exchange_refresh_token(&token).request_async(&http).await)
}

/// Has a token made useless at the service.
pub async fn revoke(url: &str, token: &str) -> Result<(), Trouble> {
    let transport = Transport::new(url);
    let request = transport.client()?.post(url).bearer_auth(token);
    let reply = transport.send(request, "the service").await?;
    match reply.status {
        200..=299 => Ok(()),
        status => Err(Trouble::Refused { says: format!("it answered {status}") }),
    }
}

type Told = RequestTokenError<Trouble, BasicErrorResponse>;

fn tokens(answer: Result<BasicTokenResponse, Told>) -> Result<Tokens, Failed> {
    answer.map(|found| taken(&found)).map_err(failed)
}

fn taken(found: &BasicTokenResponse) -> Tokens {
    let lasts = found.expires_in().and_then(|d| SignedDuration::try_from(d).ok());
    Tokens {
        token: found.access_token().secret().clone(),
        refresh: found.refresh_token().map(|t| t.secret().clone()),
        expires: lasts.and_then(|d| Timestamp::now().checked_add(d).ok()),
    }
}

fn failed(error: Told) -> Failed {
    match error {
        RequestTokenError::ServerResponse(told) => match told.error() {
            BasicErrorResponseType::InvalidGrant
            | BasicErrorResponseType::InvalidClient
            | BasicErrorResponseType::UnauthorizedClient => Failed::Ended(told.to_string()),
            _ => Failed::Not(Trouble::Refused { says: told.to_string() }),
        },
        RequestTokenError::Request(trouble) => Failed::Not(trouble),
        RequestTokenError::Parse(error, _) => {
            Failed::Not(Trouble::Flaky { says: format!("the login's answer is unreadable: {error}") })
        }
        RequestTokenError::Other(says) => Failed::Not(Trouble::Flaky { says }),
    }
}

/// The requests of a login go out as all others do.
struct Http {
    transport: Transport,
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = Trouble;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Trouble>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

impl Http {
    fn new(url: &str) -> Http {
        Http { transport: Transport::new(url) }
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Trouble> {
        let (parts, body) = request.into_parts();
        let method = reqwest::Method::from_bytes(parts.method.as_str().as_bytes())
            .map_err(|_| Trouble::Refused { says: "no such method".into() })?;
        let mut asked = self.transport.client()?.request(method, parts.uri.to_string()).body(body);
        for (name, value) in &parts.headers {
            asked = asked.header(name.as_str(), value.as_bytes());
        }
        let reply = self.transport.send(asked.timeout(Duration::from_secs(20)), "the login").await?;
        // GitHub says "not yet" and "no" with 200.
        let error = serde_json::from_slice::<serde_json::Value>(&reply.body).is_ok_and(|b| b["error"].is_string());
        let status = if reply.status == 200 && error { 400 } else { reply.status };
        if status >= 500 || status == 429 {
            return Err(Trouble::Flaky { says: format!("the login answered {status}") });
        }
        http::Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(reply.body)
            .map_err(|e| Trouble::Flaky { says: e.to_string() })
    }
}
