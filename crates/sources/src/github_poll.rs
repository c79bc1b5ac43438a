//! What has changed of many pulls, asked in one query of GitHub's GraphQL API.

use crate::github::GitHub;
use crate::github_http::Failed;
use crate::github_wire::PullBeat;
use crate::limits;
use crate::transport::{brief, flaky};
use jiff::Timestamp;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::snapshot::{Beat, Beats};
use stewards_core::stewards::key;
use stewards_core::trouble::Trouble;

const BEAT: &str = include_str!("documents/github/pull_beat.graphql");

/// Pulls and branches of one query at most: GitHub gives up after ten seconds.
const BATCH: usize = 50;

/// One thing to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Pull(PullKey),
    /// Pulls from a branch of the repository itself.
    Branch(RepoName, String),
}

impl Asked {
    fn repo(&self) -> &RepoName {
        match self {
            Asked::Pull(key) => &key.repo,
            Asked::Branch(repo, _) => repo,
        }
    }

    fn key(&self) -> String {
        match self {
            Asked::Pull(pull) => key::pull(pull),
            Asked::Branch(repo, branch) => key::branch(repo, branch),
        }
    }
}

/// One query over what is asked, with its variables and where in the answer each stands.
pub fn poll_query(asked: &[Asked]) -> (String, Value, BTreeMap<String, String>) {
    let mut repos: BTreeMap<&RepoName, Vec<(usize, &Asked)>> = BTreeMap::new();
    for (n, one) in asked.iter().enumerate() {
        repos.entry(one.repo()).or_default().push((n, one));
    }
    let (mut head, mut body, mut variables) = (Vec::new(), String::new(), Map::new());
    let mut places = BTreeMap::new();
    let mut pulls = false;
    for (r, (repo, all)) in repos.into_iter().enumerate() {
        head.push(format!("$o{r}: String!, $n{r}: String!"));
        variables.insert(format!("o{r}"), json!(repo.owner()));
        variables.insert(format!("n{r}"), json!(repo.name()));
        body.push_str(&format!("  r{r}: repository(owner: $o{r}, name: $n{r}) {{\n"));
        for (n, one) in all {
            places.insert(one.key(), format!("/data/r{r}/a{n}"));
            match one {
                Asked::Pull(key) => {
                    pulls = true;
                    body.push_str(&format!("    a{n}: pullRequest(number: {}) {{ ...PullBeat }}\n", key.number));
                }
                Asked::Branch(_, branch) => {
                    head.push(format!("$b{n}: String!"));
                    variables.insert(format!("b{n}"), json!(branch));
                    body.push_str(&format!(
                        "    a{n}: pullRequests(headRefName: $b{n}, first: 5) {{ nodes {{ number isCrossRepository }} }}\n"
                    ));
                }
            }
        }
        body.push_str("  }\n");
    }
    let fragment = if pulls { BEAT } else { "" };
    (format!("query Poll({}) {{\n{body}}}\n{fragment}", head.join(", ")), Value::Object(variables), places)
}

/// One entry of `errors`.
#[derive(Debug, Default, Deserialize)]
struct GraphError {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    path: Option<Vec<Value>>,
}

impl GraphError {
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// Where the answer is null for it: `/data/r0/a3`.
    fn pointer(&self) -> String {
        let step = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        format!("/data/{}", self.path.iter().flatten().map(step).collect::<Vec<_>>().join("/"))
    }
}

#[derive(Debug, Default, Deserialize)]
struct Errors {
    errors: Option<Vec<GraphError>>,
}

/// Where the GraphQL API is, by the address of the REST API: below it, or beside it on an
/// Enterprise server (`/api/v3` and `/api/graphql`).
pub(crate) fn graphql_url(rest: &Url) -> Option<Url> {
    let mut url = rest.clone();
    {
        let mut path = url.path_segments_mut().ok()?;
        path.pop_if_empty();
    }
    let path = url.path().to_owned();
    url.set_path(&match path.strip_suffix("/api/v3") {
        Some(root) => format!("{root}/api/graphql"),
        None => format!("{}/graphql", path.trim_end_matches('/')),
    });
    Some(url)
}

impl GitHub {
    pub(crate) async fn poll(&self, pulls: &[PullKey], branches: &[(RepoName, String)]) -> Result<Beats, Trouble> {
        let pulls = pulls.iter().cloned().map(Asked::Pull);
        let branches = branches.iter().cloned().map(|(repo, branch)| Asked::Branch(repo, branch));
        let all: Vec<Asked> = pulls.chain(branches).collect();
        let mut beats = Beats::new();
        for batch in all.chunks(BATCH) {
            self.poll_batch(batch, &mut beats).await?;
        }
        Ok(beats)
    }

    async fn poll_batch(&self, batch: &[Asked], beats: &mut Beats) -> Result<(), Trouble> {
        let (query, variables, places) = poll_query(batch);
        let (answer, errors) = self.graphql(&query, variables).await?;
        for one in batch {
            let Some(place) = places.get(&one.key()) else { continue };
            match answer.pointer(place).filter(|v| !v.is_null()) {
                Some(value) => {
                    beats.insert(one.key(), beat(one, value)?);
                }
                // Only a clear "not found" means gone; what may not be read is not told of.
                None => {
                    let gone = errors.iter().any(|e| e.is("NOT_FOUND") && e.pointer() == *place);
                    if gone && matches!(one, Asked::Pull(_)) {
                        beats.insert(one.key(), Beat::gone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks the GraphQL API; answers what there is and what could not be read of it. An
    /// answer without any data is a failure.
    async fn graphql(&self, query: &str, variables: Value) -> Result<(Value, Vec<GraphError>), Trouble> {
        let url = self.rest().base().and_then(|b| graphql_url(&b)).ok_or_else(|| flaky("GitHub's address is none"))?;
        let body = json!({"query": query, "variables": variables});
        let reply = self.rest().ask(Method::POST, url, Some(&body)).await.map_err(|Failed { trouble, .. }| trouble)?;
        let answer: Value = reply.json("GitHub")?;
        let errors = serde_json::from_value::<Errors>(answer.clone()).unwrap_or_default().errors.unwrap_or_default();
        if let Some(limited) = errors.iter().find(|e| e.is("RATE_LIMITED") || e.is("RATE_LIMIT")) {
            let end = reply.header("x-ratelimit-reset").and_then(limits::seconds);
            let says = format!("GitHub: {}", brief(limited.message.as_deref().unwrap_or("limited")));
            return Err(Trouble::Later { at: limits::until(end, Timestamp::now()), says });
        }
        if answer.get("data").is_none_or(Value::is_null) {
            let says = errors.first().and_then(|e| e.message.clone()).unwrap_or_else(|| "no data".into());
            return Err(flaky(format!("GitHub answered a query without data: {}", brief(&says))));
        }
        Ok((answer, errors))
    }
}

fn beat(one: &Asked, value: &Value) -> Result<Beat, Trouble> {
    match one {
        Asked::Branch(..) => {
            let own = |v: &&Value| v["isCrossRepository"].as_bool() != Some(true);
            let all = value["nodes"].as_array().into_iter().flatten().filter(own);
            let mut numbers: Vec<u64> = all.filter_map(|v| v["number"].as_u64()).collect();
            numbers.sort_unstable();
            Ok(Beat { what: format!("pulls {numbers:?}"), ..Beat::default() })
        }
        Asked::Pull(key) => {
            let read: PullBeat = serde_json::from_value(value.clone())
                .map_err(|e| flaky(format!("GitHub's line about {key} is unreadable: {e}")))?;
            Ok(read.beat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graphql_api_is_below_or_beside_the_rest_api() {
        let at = |rest: &str| graphql_url(&rest.parse().unwrap()).unwrap().to_string();
        assert_eq!(at("https://api.github.com"), "https://api.github.com/graphql");
        assert_eq!(at("https://api.github.com/"), "https://api.github.com/graphql");
        assert_eq!(at("https://git.example.com/api/v3/"), "https://git.example.com/api/graphql");
        assert_eq!(at("http://127.0.0.1:9/github"), "http://127.0.0.1:9/github/graphql");
    }
}
