//! Webhooks: setting them up where one's login may, and fetching from GitHub's delivery
//! log what could not be delivered.

use crate::bells_github::ring;
use crate::github::GitHub;
use crate::linear::{Linear, all_pages};
use crate::linear_wire::{Page, Team};
use crate::transport::is_loopback;
use jiff::Timestamp;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use stewards_core::entity::RepoName;
use stewards_core::ports::{Ring, Service};
use stewards_core::trouble::Trouble;

const WEBHOOKS: &str = include_str!("documents/linear/webhooks.graphql");
const WEBHOOK_CREATE: &str = include_str!("documents/linear/webhook_create.graphql");
const WEBHOOK_UPDATE: &str = include_str!("documents/linear/webhook_update.graphql");

/// What GitHub is asked to tell of a repository.
pub const GITHUB_EVENTS: [&str; 9] = [
    "check_run",
    "check_suite",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "status",
    "workflow_run",
];

/// What Linear is asked to tell of a team.
pub const LINEAR_TYPES: [&str; 3] = ["Attachment", "Comment", "Issue"];

/// Deliveries that are fetched at most at once.
const FETCHED: usize = 50;

/// What was done so that webhooks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    Made,
    /// It was there; its secret and events were set anew.
    Renewed,
}

#[derive(Debug, Deserialize)]
struct RepoHook {
    id: Option<u64>,
    config: Option<HookConfig>,
}

#[derive(Debug, Deserialize)]
struct HookConfig {
    url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delivery {
    id: Option<u64>,
    guid: Option<String>,
    event: Option<String>,
    status_code: Option<i64>,
    delivered_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
struct WebhookNode {
    id: Option<String>,
    url: Option<String>,
    team: Option<Team>,
}

/// Where a service's webhooks go, by the address of this server.
pub fn hook_address(base: &str, service: Service) -> String {
    format!("{}/hooks/{}", base.trim_end_matches('/'), service.word())
}

/// An address that a service could call: https, or this machine's own for one that runs
/// here; without a slash at its end. Says why it is none.
pub fn reachable(url: &str) -> Result<String, String> {
    let parsed = Url::parse(url.trim()).map_err(|e| format!("`{url}` is no address: {e}"))?;
    match parsed.scheme() {
        "https" => {}
        "http" if is_loopback(&parsed) => {}
        _ => return Err(format!("`{url}` is no https address")),
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(format!("`{url}` has more than a host and a path"));
    }
    Ok(url.trim().trim_end_matches('/').to_owned())
}

impl GitHub {
    async fn hooks(&self, repo: &RepoName, url: &str) -> Result<Vec<u64>, Trouble> {
        let pages = self.rest().pages::<Vec<RepoHook>>(self.rest().repo_url(repo, &["hooks"])?).await?;
        let ours = |h: &RepoHook| h.config.as_ref().and_then(|c| c.url.as_deref()) == Some(url);
        Ok(pages.into_iter().flatten().filter(ours).filter_map(|h| h.id).collect())
    }

    /// Whether a webhook of the repository calls this address. Only its administrators
    /// are told.
    pub async fn has_hook(&self, repo: &RepoName, url: &str) -> Result<bool, Trouble> {
        Ok(!self.hooks(repo, url).await?.is_empty())
    }

    /// Has the repository call `url`; one that does so already is set anew.
    pub async fn install_hook(&self, repo: &RepoName, url: &str, secret: &str) -> Result<Installed, Trouble> {
        let config = json!({"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"});
        let body = json!({"name": "web", "active": true, "events": GITHUB_EVENTS, "config": config});
        let (method, place, done) = match self.hooks(repo, url).await?.first() {
            Some(id) => (Method::PATCH, self.rest().repo_url(repo, &["hooks", &id.to_string()])?, Installed::Renewed),
            None => (Method::POST, self.rest().repo_url(repo, &["hooks"])?, Installed::Made),
        };
        self.rest().ask(method, place, Some(&body)).await?;
        Ok(done)
    }

    /// What our webhooks of a repository could not deliver since: GitHub does not try
    /// again by itself. What came through later is left out.
    pub async fn undelivered(&self, repo: &RepoName, url: &str, since: Timestamp) -> Result<Vec<Ring>, Trouble> {
        let mut rings = Vec::new();
        for hook in self.hooks(repo, url).await? {
            let mut place = self.rest().repo_url(repo, &["hooks", &hook.to_string(), "deliveries"])?;
            place.query_pairs_mut().append_pair("per_page", "100");
            let log: Vec<Delivery> = self.rest().get(place).await?;
            let good = |d: &&Delivery| d.status_code.is_some_and(|s| (200..300).contains(&s));
            let came: BTreeSet<&str> = log.iter().filter(good).filter_map(|d| d.guid.as_deref()).collect();
            let mut seen = BTreeSet::new();
            let lost = log.iter().filter(|d| d.delivered_at.is_some_and(|at| at > since));
            let lost = lost.filter(|d| d.guid.as_deref().is_some_and(|g| !came.contains(g) && seen.insert(g)));
            for delivery in lost.take(FETCHED) {
                let (Some(id), Some(guid)) = (delivery.id, &delivery.guid) else { continue };
                let tail = ["hooks", &hook.to_string(), "deliveries", &id.to_string()].map(str::to_owned);
                let tail: Vec<&str> = tail.iter().map(String::as_str).collect();
                let whole: Value = self.rest().get(self.rest().repo_url(repo, &tail)?).await?;
                let payload = whole.pointer("/request/payload").cloned().unwrap_or(Value::Null);
                let event = delivery.event.as_deref().unwrap_or_default();
                // That it is known says nothing of whether webhooks come.
                let source = "github-log".to_owned();
                rings.push(Ring { source, ..ring(event, &hook.to_string(), guid, &payload) });
            }
        }
        Ok(rings)
    }
}

impl Linear {
    async fn webhooks(&self) -> Result<Vec<WebhookNode>, Trouble> {
        let page = |after: Option<String>| {
            self.field::<Page<WebhookNode>>(WEBHOOKS, json!({"after": after}), None, "/webhooks")
        };
        all_pages(page(None).await?, |after| page(Some(after))).await
    }

    /// Whether a webhook of the team calls this address. Only administrators are told.
    pub async fn has_hook(&self, team: &str, url: &str) -> Result<bool, Trouble> {
        Ok(self.webhooks().await?.iter().any(|w| w.is_of(team, url)))
    }

    /// Has the team call `url`; one that does so already is set anew.
    pub async fn install_hook(&self, team: &str, url: &str, secret: &str) -> Result<Installed, Trouble> {
        let known = self.webhooks().await?.into_iter().find(|w| w.is_of(team, url)).and_then(|w| w.id);
        let mut input = json!({"url": url, "resourceTypes": LINEAR_TYPES, "secret": secret, "enabled": true});
        let done = match &known {
            Some(_) => Installed::Renewed,
            None => {
                input["teamId"] = json!(self.team(team).await?.id);
                input["label"] = json!("stewards");
                Installed::Made
            }
        };
        match known {
            Some(id) => self.ask(WEBHOOK_UPDATE, json!({"id": id, "input": input}), None).await?,
            None => self.ask(WEBHOOK_CREATE, json!({"input": input}), None).await?,
        };
        Ok(done)
    }
}

impl WebhookNode {
    fn is_of(&self, team: &str, url: &str) -> bool {
        let key = self.team.as_ref().and_then(|t| t.key.as_deref());
        self.url.as_deref() == Some(url) && key.is_some_and(|k| k.eq_ignore_ascii_case(team))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_a_service_could_call_is_taken() {
        assert_eq!(reachable(" https://x.example/stewards/ ").as_deref(), Ok("https://x.example/stewards"));
        assert_eq!(reachable("http://127.0.0.1:9").as_deref(), Ok("http://127.0.0.1:9"));
        for bad in ["x.example", "http://x.example", "ftp://x", "https://x.example/?a=b", "https://x.example/#a", ""] {
            assert!(reachable(bad).is_err(), "{bad}");
        }
        assert_eq!(hook_address("https://x.example/s/", Service::GitHub), "https://x.example/s/hooks/github");
    }
}
