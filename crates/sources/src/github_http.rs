//! Requests to GitHub's REST API: headers, redirects, pages, ETags, and what a
//! failed answer means.

use crate::cache::{Cache, Kept};
use crate::limits;
use crate::logins::{Service, Token};
use crate::meter::Meter;
use crate::transport::{Reply, Transport, brief, flaky};
use jiff::Timestamp;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use stewards_core::entity::RepoName;
use stewards_core::trouble::Trouble;

/// A list that goes on for longer is not read: 10,000 items.
const MAX_PAGES: usize = 100;
/// A renamed and then moved repository needs two.
const MAX_HOPS: usize = 5;

/// A failure with the status that told it, where there was an answer.
#[derive(Debug)]
pub(crate) struct Failed {
    pub status: Option<u16>,
    pub trouble: Trouble,
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Trouble {
        failed.trouble
    }
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        Failed { status: None, trouble }
    }
}

/// The API at one address with one login.
pub(crate) struct Rest {
    api: String,
    token: Token,
    http: Transport,
    cache: Mutex<Cache>,
    meter: Meter,
}

impl Rest {
    pub fn new(api: String, token: Token) -> Rest {
        let http = Transport::new(&api);
        Rest { api, token, http, cache: Mutex::default(), meter: Meter::new(Service::GitHub) }
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The address of the API itself.
    pub fn base(&self) -> Option<Url> {
        Url::parse(&self.api).ok()
    }

    /// An address below the API; each segment is escaped.
    pub fn url(&self, segments: &[&str]) -> Result<Url, Trouble> {
        let bad = || Trouble::Refused { says: format!("{} is not an address of an API", self.api) };
        let mut url = Url::parse(&self.api).map_err(|_| bad())?;
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(segments);
        Ok(url)
    }

    /// An address below a repository.
    pub fn repo_url(&self, repo: &RepoName, tail: &[&str]) -> Result<Url, Trouble> {
        // A name such as `..` would lead out of the repository.
        if RepoName::parse(&repo.0).is_none() {
            return Err(Trouble::Refused { says: format!("{repo} is not a repository's name") });
        }
        let mut segments = vec!["repos", repo.owner(), repo.name()];
        segments.extend(tail);
        self.url(&segments)
    }

    fn headers(token: &str) -> Result<HeaderMap, Trouble> {
        let mut token = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Trouble::Unauthorized { says: "GitHub's token has characters that no token has".into() })?;
        token.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, token);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
        headers.insert("x-github-api-version", HeaderValue::from_static("2022-11-28"));
        Ok(headers)
    }

    /// One request. Redirects within the same host are followed with the same
    /// method; nothing is ever sent twice otherwise.
    pub async fn ask(&self, method: Method, url: Url, body: Option<&Value>) -> Result<Reply, Failed> {
        let token = self.token.now().await?;
        match self.ask_as(&token, method.clone(), url.clone(), body).await {
            // A token that is refused has done nothing yet.
            Err(failed) if failed.status == Some(401) => match self.token.instead_of(&token).await {
                Some(other) => self.ask_as(&other, method, url, body).await,
                None => Err(failed),
            },
            answer => answer,
        }
    }

    async fn ask_as(&self, token: &str, method: Method, url: Url, body: Option<&Value>) -> Result<Reply, Failed> {
        let headers = Rest::headers(token)?;
        let mut url = url;
        for _ in 0..MAX_HOPS {
            let kept = if method == Method::GET { self.cached(&url) } else { None };
            let mut request = self.http.client()?.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(etag) = kept.as_ref().and_then(|k| HeaderValue::from_str(&k.etag).ok()) {
                request = request.header(header::IF_NONE_MATCH, etag);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let reply = self.http.send(request, "GitHub").await?;
            self.meter.read(&reply.headers, reply.status == 304, Timestamp::now());
            match (reply.status, kept) {
                (200..=299, _) => {
                    if method == Method::GET {
                        self.keep(&url, &reply);
                    }
                    return Ok(reply);
                }
                (304, Some(kept)) => {
                    return Ok(Reply { status: 200, headers: kept.headers.clone(), body: kept.body.clone() });
                }
                (301 | 302 | 307 | 308, _) => url = target(&url, &reply)?,
                _ => return Err(failure(&reply, method != Method::GET, Timestamp::now())),
            }
        }
        Err(flaky("GitHub redirects in a circle").into())
    }

    /// One object.
    pub async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, Failed> {
        Ok(self.ask(Method::GET, url, None).await?.json("GitHub")?)
    }

    /// Every page of a list, in order. All of them, or a failure.
    pub async fn pages<T: DeserializeOwned>(&self, url: Url) -> Result<Vec<T>, Failed> {
        let (pages, more) = self.some_pages(url, MAX_PAGES).await?;
        if more {
            let says = format!("a list of GitHub's has more than {MAX_PAGES} pages");
            return Err(Trouble::Refused { says }.into());
        }
        Ok(pages)
    }

    /// The first pages of a list, a hundred items each.
    pub async fn first_pages<T: DeserializeOwned>(&self, url: Url, most: usize) -> Result<Vec<T>, Failed> {
        Ok(self.some_pages(url, most).await?.0)
    }

    /// At most so many pages, and whether there are more.
    async fn some_pages<T: DeserializeOwned>(&self, mut url: Url, most: usize) -> Result<(Vec<T>, bool), Failed> {
        url.query_pairs_mut().append_pair("per_page", "100");
        let mut out = Vec::new();
        let mut next = Some(url);
        while let Some(url) = next {
            if out.len() == most {
                return Ok((out, true));
            }
            let reply = self.ask(Method::GET, url.clone(), None).await?;
            out.push(reply.json("GitHub")?);
            next = match reply.header("link").and_then(next_link) {
                Some(link) => Some(same_host(&url, link)?),
                None => None,
            };
        }
        Ok((out, false))
    }

    fn cached(&self, url: &Url) -> Option<std::sync::Arc<Kept>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(url.as_str())
    }

    fn keep(&self, url: &Url, reply: &Reply) {
        let Some(etag) = reply.header("etag").filter(|_| reply.status == 200) else { return };
        // Only the way to the next page is needed again.
        let mut headers = HeaderMap::new();
        if let Some(link) = reply.headers.get(header::LINK) {
            headers.insert(header::LINK, link.clone());
        }
        let kept = Kept { etag: etag.to_owned(), headers, body: reply.body.clone() };
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).put(url.to_string(), kept);
    }
}

/// An address that an answer names, if it is on the same host: the token goes
/// with the request.
fn same_host(from: &Url, to: &str) -> Result<Url, Trouble> {
    let url = from.join(to).map_err(|_| flaky("GitHub named an address that is none"))?;
    if url.origin() != from.origin() {
        let host = url.host_str().unwrap_or("another host");
        return Err(Trouble::Refused { says: format!("GitHub pointed to {host}, which is not followed") });
    }
    Ok(url)
}

fn target(from: &Url, reply: &Reply) -> Result<Url, Trouble> {
    let location = reply.header("location").ok_or_else(|| flaky("GitHub redirected to nowhere"))?;
    same_host(from, location)
}

/// The address with `rel="next"`. Addresses may hold commas, so they are found
/// by their brackets.
fn next_link(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let (url, tail) = after.split_once('>')?;
        let params = tail.split('<').next().unwrap_or("");
        if params.split([';', ',']).any(|p| matches!(p.trim(), "rel=\"next\"" | "rel=next")) {
            return Some(url);
        }
        rest = tail;
    }
    None
}

/// What an answer other than a success means. A write that is forbidden was
/// refused; a read that is forbidden lacks a grant.
pub(crate) fn failure(reply: &Reply, write: bool, now: Timestamp) -> Failed {
    let message = message(reply);
    let says = format!("GitHub answered {}: {message}", reply.status);
    let limit = if matches!(reply.status, 403 | 429) { limited(reply, &message, now) } else { None };
    let trouble = match reply.status {
        _ if limit.is_some() => Trouble::Later { at: limits::until(limit.flatten(), now), says },
        401 => Trouble::Unauthorized { says },
        403 if !write => Trouble::Unauthorized { says },
        404 | 410 => Trouble::Gone { says },
        408 => flaky(says),
        400..=499 => Trouble::Refused { says },
        _ => flaky(says),
    };
    Failed { status: Some(reply.status), trouble }
}

/// Whether an answer is about a limit, and then its end where it tells one.
/// A plain 403 is about permission.
fn limited(reply: &Reply, message: &str, now: Timestamp) -> Option<Option<Timestamp>> {
    let after = reply.header("retry-after").map(|v| limits::retry_after(v, now));
    let spent = reply.header("x-ratelimit-remaining") == Some("0");
    let reset = reply.header("x-ratelimit-reset").filter(|_| spent).and_then(limits::seconds);
    let told = message.to_ascii_lowercase();
    let worded = ["secondary rate limit", "rate limit exceeded", "abuse detection"].iter().any(|w| told.contains(w));
    let yes = after.is_some() || spent || worded || reply.header("gh-limited-by").is_some() || reply.status == 429;
    yes.then(|| after.flatten().max(reset))
}

/// The service's own words, with the first detail of a validation.
pub(crate) fn message(reply: &Reply) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else { return "no message".into() };
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).filter(|t| !t.is_empty());
    let first = text("/message").unwrap_or("no message");
    match text("/errors/0/message").or_else(|| text("/errors/0")) {
        Some(detail) => brief(&format!("{first}: {detail}")),
        None => brief(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderName;

    fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        Reply { status, headers: map, body: body.as_bytes().to_vec() }
    }

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn read(status: u16, headers: &[(&str, &str)], message: &str) -> Trouble {
        failure(&reply(status, headers, &format!("{{\"message\":\"{message}\"}}")), false, now()).trouble
    }

    fn later(at: &str) -> impl Fn(Trouble) -> bool {
        let at: Timestamp = at.parse().unwrap();
        move |t| matches!(t, Trouble::Later { at: end, .. } if end == at)
    }

    #[test]
    fn limits_are_told_from_forbidden_reads() {
        let spent = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772367000")];
        assert!(later("2026-03-01T12:10:00Z")(read(403, &spent, "API rate limit exceeded for user")));
        assert!(later("2026-03-01T12:10:00Z")(read(429, &spent, "x")));
        let some_left = [("x-ratelimit-remaining", "4000"), ("x-ratelimit-reset", "1772367000"), ("retry-after", "8")];
        assert!(later("2026-03-01T12:00:08Z")(read(403, &some_left, "x")));
        let dated = [("retry-after", "Sun, 01 Mar 2026 12:02:00 GMT")];
        assert!(later("2026-03-01T12:02:00Z")(read(429, &dated, "x")));
        let text = "You have exceeded a secondary rate limit. Please wait";
        assert!(later("2026-03-01T12:01:00Z")(read(403, &[("x-ratelimit-remaining", "21")], text)));
        assert!(later("2026-03-01T12:01:00Z")(read(429, &[], "x")));
        assert!(later("2026-03-01T12:01:00Z")(read(403, &[("gh-limited-by", "search")], "x")));
        let plain = read(403, &[("x-ratelimit-remaining", "4999")], "Resource not accessible by personal access token");
        assert!(matches!(plain, Trouble::Unauthorized { .. }));
    }

    #[test]
    fn other_statuses_have_one_meaning_each() {
        assert!(matches!(read(401, &[], "Bad credentials"), Trouble::Unauthorized { .. }));
        assert!(matches!(read(404, &[], "Not Found"), Trouble::Gone { .. }));
        assert!(matches!(read(422, &[], "x"), Trouble::Refused { .. }));
        assert!(matches!(read(409, &[], "x"), Trouble::Refused { .. }));
        for status in [408, 500, 502, 503, 504, 304] {
            assert!(matches!(read(status, &[], "x"), Trouble::Flaky { .. }), "{status}");
        }
        let write = failure(&reply(403, &[], "<html>"), true, now());
        assert_eq!(write.trouble, Trouble::Refused { says: "GitHub answered 403: no message".into() });
        let detailed = r#"{"message":"Validation Failed","errors":[{"message":"too long"}]}"#;
        assert_eq!(message(&reply(422, &[], detailed)), "Validation Failed: too long");
    }

    #[test]
    fn the_next_page_is_found_among_its_neighbours() {
        let link = "<https://h/repositories/1/x?a=1,2&page=1>; rel=\"prev\", <https://h/x?a=1,2&page=3>; rel=\"next\", \
                    <https://h/x?page=9>; rel=\"last\"";
        assert_eq!(next_link(link), Some("https://h/x?a=1,2&page=3"));
        assert_eq!(next_link("<https://h/x?page=9>; rel=\"last\""), None);
        assert_eq!(next_link("nonsense"), None);
        assert_eq!(next_link("<https://h/x"), None);
    }

    #[test]
    fn addresses_are_escaped_and_stay_below_the_api() {
        let rest = Rest::new("https://api.example.com/github/".into(), "t".into());
        let repo = RepoName("o/r".into());
        let url = rest.repo_url(&repo, &["commits", "a/b?c", "status"]).unwrap();
        assert_eq!(url.as_str(), "https://api.example.com/github/repos/o/r/commits/a%2Fb%3Fc/status");
        for bad in ["../r", "o/..", "o", "o/r/x", ""] {
            assert!(rest.repo_url(&RepoName(bad.into()), &[]).is_err(), "{bad}");
        }
        assert!(Rest::new("not an address".into(), "t".into()).url(&["user"]).is_err());
    }
}
