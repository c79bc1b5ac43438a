//! What the `gh` of a thread needs beyond the port.

use crate::github::GitHub;
use crate::github_wire::PullRequest;
use crate::transport::flaky;
use reqwest::Method;
use serde_json::{Value, json};
use stewards_core::entity::RepoName;
use stewards_core::trouble::Trouble;

impl GitHub {
    /// Opens a pull from a branch of the repository itself; answers its number
    /// and address. Not repeated by itself.
    pub async fn open_pull(
        &self,
        repo: &RepoName,
        title: &str,
        body: &str,
        head: &str,
        base: &str,
        draft: bool,
    ) -> Result<(u64, String), Trouble> {
        let asked = json!({"title": title, "body": body, "head": head, "base": base, "draft": draft});
        let reply = self.rest().ask(Method::POST, self.rest().repo_url(repo, &["pulls"])?, Some(&asked)).await?;
        let answer: Value = reply.json("GitHub")?;
        let number = answer.get("number").and_then(Value::as_u64);
        let url = answer.get("html_url").and_then(Value::as_str).unwrap_or_default();
        number.map(|n| (n, url.to_owned())).ok_or_else(|| flaky("GitHub did not name the pull that it opened"))
    }

    /// Whether one's login may push to a repository.
    pub async fn may_push(&self, repo: &RepoName) -> Result<bool, Trouble> {
        let answer: Value = self.rest().get(self.rest().repo_url(repo, &[])?).await?;
        // Without a word about it, nothing stands against it.
        Ok(answer.pointer("/permissions/push").and_then(Value::as_bool).unwrap_or(true))
    }

    /// Whether there is an account of this login.
    pub async fn has_user(&self, login: &str) -> Result<bool, Trouble> {
        match self.rest().get::<Value>(self.rest().url(&["users", login])?).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.status == Some(404) => Ok(false),
            Err(failed) => Err(failed.into()),
        }
    }

    /// The branch that pulls go into by default.
    pub async fn default_branch(&self, repo: &RepoName) -> Result<String, Trouble> {
        let answer: Value = self.rest().get(self.rest().repo_url(repo, &[])?).await?;
        let name = answer.get("default_branch").and_then(Value::as_str);
        name.map(str::to_owned).ok_or_else(|| flaky(format!("GitHub did not name the default branch of {repo}")))
    }

    /// The body of a pull, which a snapshot has too, and its number by branch:
    /// the open one first.
    pub async fn pull_of_branch(&self, repo: &RepoName, branch: &str) -> Result<Option<u64>, Trouble> {
        let mut url = self.rest().repo_url(repo, &["pulls"])?;
        url.query_pairs_mut().append_pair("state", "all").append_pair("head", &format!("{}:{branch}", repo.owner()));
        let all: Vec<PullRequest> = self.rest().get(url).await?;
        let mut ours: Vec<_> = all.into_iter().filter(|p| p.is_of(repo, branch)).collect();
        ours.sort_by_key(|p| (p.state.as_deref() != Some("open"), std::cmp::Reverse(p.number)));
        Ok(ours.into_iter().find_map(|p| p.number))
    }

    /// Any call of the API: `path` is below its address and may carry a query.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Trouble> {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .map_err(|_| Trouble::Refused { says: format!("`{method}` is no method") })?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        if segments.contains(&"..") {
            return Err(Trouble::Refused { says: format!("`{path}` leads out of the API") });
        }
        let mut url = self.rest().url(&segments)?;
        url.set_query(Some(query).filter(|q| !q.is_empty()));
        let reply = self.rest().ask(method, url, body).await?;
        if reply.body.is_empty() {
            return Ok(Value::Null);
        }
        reply.json("GitHub")
    }
}
