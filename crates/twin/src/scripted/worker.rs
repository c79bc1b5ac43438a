//! What a worker does: change, test, commit, push, open a pull request, have
//! it reviewed, say that it is done. Every step looks first whether it is done.

use serde_json::Value;

use super::brief::Brief;
use super::bus::Message;
use super::edits::{Edit, Found, edits, pause};
use super::prompt::Heard;
use super::shell::quote;
use super::turn::{Halt, Scratch, Step, Turn};

/// Characters of a field of a message, with some room.
const FIELD: usize = 380;

/// One turn. `task` is what is remembered of the session.
pub(super) async fn turn(t: &Turn, brief: &Brief, prompt: &str, task: &mut Option<String>) -> Step<()> {
    t.say("I look at where the work stands.").await?;
    let heard = Heard::read(prompt);
    if let Some(verdict) = verdict_told(t, brief, &heard).await? {
        return reviewed(t, brief, &verdict).await;
    }
    // A first prompt is a task even where it cannot be understood; a later word is not.
    if !edits(&heard.words).is_empty() || (task.is_none() && heard.messages.is_empty() && !heard.words.is_empty()) {
        *task = Some(heard.words.clone());
    }
    match task.clone() {
        Some(words) => build(t, brief, &words).await,
        None => match last_verdict(t, brief, None).await? {
            Some(verdict) => reviewed(t, brief, &verdict).await,
            None => t.say("There is nothing new to do; I wait.").await,
        },
    }
}

/// The verdict that the prompt tells, if it is the own reviewer's.
async fn verdict_told(t: &Turn, brief: &Brief, heard: &Heard) -> Step<Option<Message>> {
    let Some(told) = heard.messages.iter().rev().find(|m| m.is_verdict()) else { return Ok(None) };
    let threads = t.list("stewards thread list --json").await?;
    // An archived reviewer may be missing from the list; a stranger is in it.
    let stranger = threads.iter().any(|row| {
        row["id"] == told.from.as_str() && (row["role"] != "reviewer" || row["parent"] != brief.me.as_str())
    });
    Ok((!stranger).then(|| told.clone()))
}

async fn log(t: &Turn, filter: &str) -> Step<Vec<Message>> {
    let rows = t.list(&format!("stewards bus log {filter} --json")).await?;
    Ok(rows.iter().filter_map(Message::row).collect())
}

async fn last_verdict(t: &Turn, brief: &Brief, pull: Option<u64>) -> Step<Option<Message>> {
    let all = log(t, &format!("--to {} --kind report", quote(&brief.me))).await?;
    let fits = |m: &Message| m.is_verdict() && (pull.is_none() || m.pull() == pull);
    Ok(all.into_iter().filter(fits).max_by_key(|m| m.seq))
}

/// From the first change to the reviewer, skipping what is done.
async fn build(t: &Turn, brief: &Brief, words: &str) -> Step<()> {
    t.sh("git status --short --branch && git log --oneline -n 5").await?;
    let edits = edits(words);
    if edits.is_empty() {
        return ask(
            t,
            brief,
            "the task names no change that I can read; I can read: In `file`, replace `old` with `new`",
        )
        .await;
    }
    if let Err(says) = change(t, &edits).await? {
        return ask(t, brief, &says).await;
    }
    if t.cwd.join("test.sh").is_file() {
        t.say("I run the tests.").await?;
        let ran = t.sh("sh ./test.sh").await?;
        if !ran.ok {
            return ask(t, brief, &format!("the tests fail with the change, what now? {}", ran.complaint())).await;
        }
    }
    let title = title(brief, words, &edits);
    commit(t, &edits, &title, words).await?;
    let branch = t.sure("git rev-parse --abbrev-ref HEAD").await?.out.trim().to_owned();
    let head = t.sure("git rev-parse HEAD").await?.out.trim().to_owned();
    // Looked up before the push: a merged branch is gone and must not come back.
    let known = find_pull(t).await?;
    if let Some(pull) = known.as_ref().filter(|p| p.state == "MERGED") {
        return t.say(&format!("Pull request #{} is merged; nothing is left to do.", pull.number)).await;
    }
    if let Some(pull) = known.as_ref().filter(|p| p.state == "CLOSED") {
        return ask(t, brief, &format!("pull request #{} was closed; what now?", pull.number)).await;
    }
    if known.is_none() && !ahead(t).await? {
        return ask(t, brief, "the default branch has this change already; is there anything left to do?").await;
    }
    let there = t.sure(&format!("git ls-remote origin {}", quote(&format!("refs/heads/{branch}")))).await?;
    if there.out.split_whitespace().next() != Some(head.as_str()) {
        t.say("I push the branch.").await?;
        t.sure("git push -u origin HEAD").await?;
    }
    let pull = match known {
        Some(pull) => pull,
        None => match open_pull(t, brief, &branch, &title, &edits).await? {
            Ok(pull) => pull,
            Err(says) => return ask(t, brief, &says).await,
        },
    };
    review(t, brief, &pull, &title).await
}

async fn change(t: &Turn, edits: &[Edit]) -> Step<Result<(), String>> {
    for edit in edits {
        let Some(file) = edit.file(&t.cwd) else {
            return Ok(Err(format!("`{}` does not lie in the repository; which file is meant?", edit.path)));
        };
        let Ok(text) = std::fs::read_to_string(&file) else {
            return Ok(Err(format!("there is no file `{}`; which one is meant?", edit.path)));
        };
        match edit.on(&text) {
            Found::Change(changed) => {
                t.say(&format!("I change {}.", edit.path)).await?;
                t.write(&file, &changed).await?;
            }
            Found::Done => {}
            Found::Missing => {
                return Ok(Err(format!("`{}` holds no `{}`; what is to be replaced?", edit.path, edit.old)));
            }
        }
    }
    Ok(Ok(()))
}

fn title(brief: &Brief, words: &str, edits: &[Edit]) -> String {
    let first = words.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default();
    let bare = first.strip_prefix(&brief.key).map_or(first, |rest| rest.trim_start_matches([':', ' ']));
    let files: Vec<&str> = edits.iter().map(|e| e.path.as_str()).collect();
    let what = if bare.is_empty() { format!("change {}", files.join(", ")) } else { bare.to_owned() };
    format!("{}: {}", brief.key, what.chars().take(80).collect::<String>())
}

async fn commit(t: &Turn, edits: &[Edit], title: &str, words: &str) -> Step<()> {
    let paths: Vec<String> = edits.iter().map(|e| quote(&e.path)).collect();
    let paths = paths.join(" ");
    if t.sure(&format!("git status --porcelain -- {paths}")).await?.out.trim().is_empty() {
        return Ok(());
    }
    if let Some(time) = pause(words) {
        t.say(&format!("This takes {} seconds.", time.as_secs())).await?;
        t.sleep(time).await?;
    }
    t.say("I commit.").await?;
    let named = t.sh("git config user.email").await?.ok;
    // A name for this one commit where none is set; nothing is set for good.
    let who = if named { "" } else { "-c user.name=scripted-agent -c user.email=scripted-agent@localhost " };
    let command = format!("git add -- {paths} && git {who}commit -m {} -- {paths}", quote(title));
    let ran = t.sh(&command).await?;
    if ran.ok {
        return Ok(());
    }
    if ran.err.contains("index.lock") {
        // The working tree is this thread's own: the lock is a cut turn's.
        t.sh("rm -f \"$(git rev-parse --git-dir)/index.lock\"").await?;
    }
    t.sure(&command).await.map(drop)
}

/// Whether the branch has anything that the default branch has not. Where that
/// cannot be told it is taken to be so: opening the pull request will tell.
async fn ahead(t: &Turn) -> Step<bool> {
    let base = base(t).await?;
    let count = t.sh(&format!("git rev-list --count {}..HEAD", quote(&format!("origin/{base}")))).await?;
    Ok(!count.ok || count.out.trim() != "0")
}

/// The default branch, as the remote names it.
pub(super) async fn base(t: &Turn) -> Step<String> {
    let said = t.sure("git ls-remote --symref origin HEAD").await?.out;
    let named = said.lines().find_map(|l| l.strip_prefix("ref: refs/heads/")?.split_whitespace().next());
    named.map(str::to_owned).ok_or_else(|| Halt::Broken("the remote names no default branch".to_owned()))
}

struct Pull {
    number: u64,
    url: String,
    state: String,
}

async fn find_pull(t: &Turn) -> Step<Option<Pull>> {
    let ran = t.sh("gh pr view --json number,url,headRefOid,state").await?;
    let Some(row) = ran.ok.then(|| serde_json::from_str::<Value>(&ran.out).ok()).flatten() else { return Ok(None) };
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    Ok(row["number"].as_u64().map(|number| Pull { number, url: text("url"), state: text("state") }))
}

async fn open_pull(t: &Turn, brief: &Brief, branch: &str, title: &str, edits: &[Edit]) -> Step<Result<Pull, String>> {
    if let Some(pull) = find_pull(t).await? {
        return Ok(Ok(pull));
    }
    t.say("I open a pull request.").await?;
    let changes: Vec<String> =
        edits.iter().map(|e| format!("- In `{}`, `{}` becomes `{}`.\n", e.path, e.old, e.new)).collect();
    let body = format!("For {}.\n\n{}\nThe repository's tests pass with it.\n", brief.key, changes.concat());
    let file = Scratch::new(&body).map_err(|e| Halt::Broken(format!("no body file could be written: {e}")))?;
    let command = format!(
        "gh pr create --title {} --body-file {} --head {}",
        quote(title),
        quote(&file.path.display().to_string()),
        quote(branch)
    );
    let mut says = String::new();
    for wait in [1, 2, 0] {
        let ran = t.sh(&command).await?;
        // Looked up again also after a failure: it may have been made all the same.
        if let Some(pull) = find_pull(t).await? {
            return Ok(Ok(pull));
        }
        says = ran.complaint();
        t.sleep(std::time::Duration::from_secs(wait)).await?;
    }
    Ok(Err(format!("the pull request could not be opened: {says}")))
}

/// `owner/repo` of a pull request's address.
fn repo_of(url: &str) -> String {
    let (before, _) = url.split_once("/pull/").unwrap_or((url, ""));
    let parts: Vec<&str> = before.rsplit('/').take(2).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

async fn review(t: &Turn, brief: &Brief, pull: &Pull, title: &str) -> Step<()> {
    if let Some(verdict) = last_verdict(t, brief, Some(pull.number)).await? {
        return reviewed(t, brief, &verdict).await;
    }
    let threads = t.list("stewards thread list --json").await?;
    let mine = |row: &Value| {
        row["role"] == "reviewer" && row["parent"] == brief.me.as_str() && !row["archived"].as_bool().unwrap_or(false)
    };
    if !threads.iter().any(mine) {
        let Some(command) = &brief.start_reviewer else {
            return t.say(&format!("Pull request #{} is open; my brief names no reviewer.", pull.number)).await;
        };
        t.say("I start a reviewer.").await?;
        let prompt =
            format!("Review pull request #{} of {} ({title}).\n{}\n", pull.number, repo_of(&pull.url), pull.url);
        let what = format!("Review of #{} for {}", pull.number, brief.key);
        if let Err(says) = t.spawn(command, &what, &prompt).await? {
            return Err(Halt::Broken(format!("no reviewer could be started: {says}")));
        }
    }
    t.say(&format!("Pull request #{} is open; I wait for its review.", pull.number)).await
}

/// What follows from a verdict.
async fn reviewed(t: &Turn, brief: &Brief, verdict: &Message) -> Step<()> {
    let Some(number) = verdict.pull() else { return Ok(()) };
    let next = verdict.field("next");
    if !next.to_ascii_lowercase().starts_with("approved") {
        return ask(t, brief, &format!("the review of pr:{number} asks for changes: {next}")).await;
    }
    let told = log(t, &format!("--from {} --kind done", quote(&brief.me))).await?;
    if told.iter().any(|m| m.pull() == Some(number)) {
        return t.say(&format!("My steward knows that #{number} is done.")).await;
    }
    let claimed = t.sh(&format!("stewards bus claim pr:{number} --reason 'the review approves it'")).await?;
    if !claimed.ok && !claimed.shown().contains(&format!("held by {}", brief.me)) {
        return ask(t, brief, &format!("I cannot claim pr:{number}: {}", claimed.complaint())).await;
    }
    let Some(steward) = &brief.steward else { return t.say("My brief names no steward to tell.").await };
    let tested = if t.cwd.join("test.sh").is_file() { "; sh ./test.sh passed before the push" } else { "" };
    let evidence: String = format!("the review says: {next}{tested}").chars().take(FIELD).collect();
    let field = quote(&format!("evidence={evidence}"));
    t.sure(&format!("stewards bus done --to {} --field ref=pr:{number} --field {field}", quote(steward))).await?;
    t.say(&format!("Pull request #{number} is reviewed and done.")).await
}

/// Asks the steward, once.
async fn ask(t: &Turn, brief: &Brief, what: &str) -> Step<()> {
    let what: String = what.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(FIELD).collect();
    let Some(steward) = &brief.steward else { return t.say(&format!("I cannot go on: {what}")).await };
    let asked = log(t, &format!("--from {} --kind question", quote(&brief.me))).await?;
    if !asked.iter().any(|m| m.field("ask") == what) {
        let (about, field) = (quote(&format!("ref=task:{}", brief.key)), quote(&format!("ask={what}")));
        t.sure(&format!("stewards bus question --to {} --field {about} --field {field}", quote(steward))).await?;
    }
    t.say(&format!("I asked my steward: {what}")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_read_off_the_address() {
        assert_eq!(repo_of("http://127.0.0.1:1/acme/shop/pull/7"), "acme/shop");
    }
}
