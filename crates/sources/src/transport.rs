//! One HTTP exchange: limits of time and size, and what a broken one means.

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Url, redirect, retry};
use serde::de::DeserializeOwned;
use std::error::Error;
use std::time::Duration;
use stewards_core::trouble::Trouble;

/// The largest answer that is read, in bytes. A page of a hundred check runs is
/// about a hundredth of it.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// The most of a service's own words that is passed on, in characters.
const MAX_SAYS: usize = 400;

/// An answer that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    /// A header as text; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// The body as a type, or `Flaky` when it is something else.
    pub fn json<T: DeserializeOwned>(&self, service: &str) -> Result<T, Trouble> {
        serde_json::from_slice(&self.body)
            .map_err(|e| flaky(format!("{service} answered {} with an unreadable body: {e}", self.status)))
    }
}

/// A client that can fail only when it is used: a server without a TLS set-up
/// starts all the same and says so at the first request.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Result<Client, String>,
}

impl Transport {
    /// `url` is where the service is.
    pub fn new(url: &str) -> Transport {
        let mut builder = Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(20))
            .user_agent(concat!("stewards/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed by hand: by default a POST becomes a GET on the way.
            .redirect(redirect::Policy::none())
            // Whether to try again is the engine's to decide, for writes above all.
            .retry(retry::never());
        if Url::parse(url).is_ok_and(|u| is_loopback(&u)) {
            builder = builder.no_proxy();
        }
        Transport { client: builder.build().map_err(|e| whole(&e)) }
    }

    pub fn client(&self) -> Result<&Client, Trouble> {
        self.client.as_ref().map_err(|why| flaky(format!("the HTTP client could not be made: {why}")))
    }

    /// Sends and reads the answer, whatever its status.
    pub async fn send(&self, request: RequestBuilder, service: &str) -> Result<Reply, Trouble> {
        let failed = |e: reqwest::Error| {
            let what = if e.is_timeout() { "did not answer in time" } else { "cannot be reached" };
            let why = whole(&e.without_url());
            flaky(format!("{service} {what}: {why}{}", help(&why)))
        };
        let mut response = request.send().await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(flaky(format!("{service} answered with more than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        tracing::debug!(service, status = response.status().as_u16(), bytes = body.len(), "answered");
        Ok(Reply { status: response.status().as_u16(), headers: response.headers().clone(), body })
    }
}

/// No proxy can reach this machine's own loopback.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What to do about a certificate that nobody vouches for: a company's network has its own authority.
fn help(why: &str) -> &'static str {
    match why.contains("certificate") {
        true => " (an authority of your network's own: add it to the system's, or name its PEM file in SSL_CERT_FILE)",
        false => "",
    }
}

/// An error with its causes: reqwest's own text names only the outermost.
fn whole(error: &dyn Error) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        out.push_str(": ");
        out.push_str(&cause.to_string());
        next = cause.source();
    }
    out
}

pub(crate) fn flaky(says: impl Into<String>) -> Trouble {
    Trouble::Flaky { says: says.into() }
}

/// A service's words, cut to a length that fits a message.
pub(crate) fn brief(words: &str) -> String {
    match words.char_indices().nth(MAX_SAYS) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_owned(),
    }
}
