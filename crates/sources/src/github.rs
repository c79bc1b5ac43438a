//! Pulls, read and merged over GitHub's REST API.

use crate::github_checks::{Seen, rollup};
use crate::github_http::{Failed, Rest, message};
use crate::github_parts::{closes, readable};
use crate::github_wire::{self as wire, CheckPage, IssueComment, Merged, PullRequest, ReviewBody, StatusPage, User};
use crate::logins::{Me, Token};
use crate::transport::flaky;
use jiff::Timestamp;
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ports::{Pulls, Quota, Try};
use stewards_core::snapshot::{Author, Beats, FILES, INLINE, Pull};
use stewards_core::trouble::Trouble;

/// A client of GitHub.
///
/// Safe to share; it keeps its own account and up to 500 answers by ETag.
pub struct GitHub {
    rest: Rest,
    me: Me,
}

impl GitHub {
    /// `api` is the address of the REST API (`https://api.github.com`), `token`
    /// any token that may read the repositories. Nothing is sent yet.
    pub fn new(api: String, token: Token) -> GitHub {
        GitHub { rest: Rest::new(api, token), me: Me::default() }
    }

    pub(crate) fn rest(&self) -> &Rest {
        &self.rest
    }

    async fn who(&self) -> Result<Author, Trouble> {
        self.me
            .of(self.rest.token(), async {
                let user: User = self.rest.get(self.rest.url(&["user"])?).await?;
                let login = user.login.clone().filter(|l| !l.is_empty());
                let login = login.ok_or_else(|| flaky("GitHub did not say whose token this is"))?;
                Ok(wire::author(Some(user), &login))
            })
            .await
    }

    async fn read(&self, key: &PullKey) -> Result<Pull, Trouble> {
        let me = self.who().await?;
        let viewer = me.login.as_str();
        let number = key.number.to_string();
        let request: PullRequest = self.rest.get(self.rest.repo_url(&key.repo, &["pulls", &number])?).await?;
        // A status of 200 alone is no promise of the right shape.
        let sha = request.head_sha().filter(|_| request.number == Some(key.number));
        let sha = sha.ok_or_else(|| flaky(format!("GitHub's answer for {key} is not a pull")))?.to_owned();
        let reviews = self.list::<ReviewBody>(self.rest.repo_url(&key.repo, &["pulls", &number, "reviews"])?).await?;
        let comments = self.list::<IssueComment>(self.rest.repo_url(&key.repo, &["issues", &number, "comments"])?);
        let comments = comments.await?;
        let mut pull = request.bare(key, viewer);
        (pull.rollup, pull.checks) = rollup(self.checks(&key.repo, &sha).await?);
        pull.reviews = reviews.into_iter().filter_map(|r| wire::review(r, viewer)).collect();
        pull.reviews.sort_by_key(|r| r.at);
        pull.comments = comments.into_iter().map(|c| wire::comment(c, viewer)).collect();
        pull.comments.sort_by_key(|c| c.at);
        match self.inline(key, viewer).await? {
            Some(inline) => pull.inline = inline,
            None => pull.unread.push(INLINE.into()),
        }
        match self.files(key).await? {
            Some(files) => pull.files = files,
            None => pull.unread.push(FILES.into()),
        }
        pull.closes = closes(key, &pull.body);
        Ok(pull)
    }

    async fn list<T: DeserializeOwned>(&self, url: Url) -> Result<Vec<T>, Trouble> {
        Ok(self.rest.pages::<Vec<T>>(url).await?.into_iter().flatten().collect())
    }

    async fn checks(&self, repo: &RepoName, sha: &str) -> Result<Seen, Trouble> {
        let runs = self.rest.pages::<CheckPage>(self.rest.repo_url(repo, &["commits", sha, "check-runs"])?).await;
        let runs = readable(runs)?.map(|pages| pages.into_iter().flat_map(|p| p.check_runs).collect());
        let statuses = self.rest.pages::<StatusPage>(self.rest.repo_url(repo, &["commits", sha, "status"])?).await;
        let statuses = readable(statuses)?.map(|pages| pages.into_iter().flat_map(|p| p.statuses).collect());
        Ok(Seen { runs, statuses })
    }

    async fn branch_pulls(&self, repo: &RepoName, branch: &str) -> Result<Vec<PullKey>, Trouble> {
        let mut url = self.rest.repo_url(repo, &["pulls"])?;
        url.query_pairs_mut().append_pair("state", "all").append_pair("head", &format!("{}:{branch}", repo.owner()));
        // A filter that GitHub does not understand is ignored by it, so each is looked at.
        let pulls = self.list::<PullRequest>(url).await?.into_iter().filter(|p| p.is_of(repo, branch));
        let mut keys: Vec<PullKey> =
            pulls.filter_map(|p| p.number).map(|number| PullKey { repo: repo.clone(), number }).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn squash(&self, key: &PullKey, head_sha: &str, title: &str) -> Result<String, Trouble> {
        // Without a head the host would merge whatever is there.
        if head_sha.is_empty() {
            return Err(Trouble::Refused { says: format!("{key} is not merged without naming its head") });
        }
        let mut body = json!({"merge_method": "squash", "sha": head_sha});
        if !title.is_empty() {
            body["commit_title"] = json!(title);
        }
        let url = self.rest.repo_url(&key.repo, &["pulls", &key.number.to_string(), "merge"])?;
        let reply = self.rest.ask(Method::PUT, url, Some(&body)).await.map_err(merge_trouble)?;
        let answer: Merged = reply.json("GitHub")?;
        if answer.merged == Some(false) {
            let why = answer.message.unwrap_or_else(|| message(&reply));
            return Err(Trouble::Refused { says: format!("GitHub did not merge {key}: {why}") });
        }
        answer
            .sha
            .filter(|s| !s.is_empty())
            .ok_or_else(|| flaky(format!("GitHub did not name the merge commit of {key}")))
    }

    async fn say(&self, key: &PullKey, body: &str) -> Result<String, Trouble> {
        let url = self.rest.repo_url(&key.repo, &["issues", &key.number.to_string(), "comments"])?;
        let reply = self.rest.ask(Method::POST, url, Some(&json!({"body": body}))).await?;
        let answer: Value = reply.json("GitHub")?;
        let id = answer.get("id").and_then(Value::as_u64);
        id.map(|id| id.to_string()).ok_or_else(|| flaky("GitHub did not name the comment that it took"))
    }
}

/// 405 mostly means no; but when the base moved in the meantime, the same pull
/// at the same head may merge a moment later.
fn merge_trouble(failed: Failed) -> Trouble {
    match failed {
        Failed { status: Some(405), trouble: Trouble::Refused { says } }
            if says.to_ascii_lowercase().contains("base branch was modified") =>
        {
            Trouble::Flaky { says }
        }
        other => other.trouble,
    }
}

impl Pulls for GitHub {
    fn viewer(&self) -> Try<'_, Author> {
        Box::pin(self.who())
    }

    fn pull<'a>(&'a self, key: &'a PullKey) -> Try<'a, Pull> {
        Box::pin(self.read(key))
    }

    fn beats<'a>(&'a self, pulls: &'a [PullKey], branches: &'a [(RepoName, String)]) -> Try<'a, Beats> {
        Box::pin(self.poll(pulls, branches))
    }

    fn room(&self) -> Result<(), Trouble> {
        self.rest.meter().room(Timestamp::now())
    }

    fn quotas(&self) -> Vec<Quota> {
        self.rest.meter().quotas(Timestamp::now())
    }

    fn of_branch<'a>(&'a self, repo: &'a RepoName, branch: &'a str) -> Try<'a, Vec<PullKey>> {
        Box::pin(self.branch_pulls(repo, branch))
    }

    /// After `Flaky` the pull may or may not be merged: read it before trying again.
    fn merge<'a>(&'a self, key: &'a PullKey, head_sha: &'a str, title: &'a str) -> Try<'a, String> {
        Box::pin(self.squash(key, head_sha, title))
    }

    /// After `Flaky` the comment may or may not be there: read the pull before trying again.
    fn comment<'a>(&'a self, key: &'a PullKey, body: &'a str) -> Try<'a, String> {
        Box::pin(self.say(key, body))
    }
}
