//! What a reviewer does: read the diff, write one comment for the head, tell
//! the worker.

use serde_json::Value;

use super::brief::Brief;
use super::bus::Message;
use super::prompt::{Heard, pull_number};
use super::shell::quote;
use super::turn::{Halt, Scratch, Step, Turn};
use super::worker::base;

/// One turn.
pub(super) async fn turn(t: &Turn, brief: &Brief, prompt: &str) -> Step<()> {
    let heard = Heard::read(prompt);
    let Some(number) = pull_number(&heard.words) else {
        return t.say("My prompt names no pull request; there is nothing to review.").await;
    };
    t.say(&format!("I read pull request #{number}.")).await?;
    let fields = "number,headRefOid,title,body,comments,headRefName,state";
    let pull = t.sure(&format!("gh pr view {number} --json {fields}")).await?;
    let pull: Value = serde_json::from_str(&pull.out)
        .map_err(|e| Halt::Broken(format!("pull request #{number} could not be read: {e}")))?;
    let state = pull["state"].as_str().unwrap_or("OPEN");
    if state != "OPEN" {
        return t
            .say(&format!("Pull request #{number} is {}; there is nothing to review.", state.to_lowercase()))
            .await;
    }
    let Some(head) = pull["headRefOid"].as_str().filter(|sha| sha.chars().all(|c| c.is_ascii_hexdigit())) else {
        return Err(Halt::Broken(format!("pull request #{number} names no head")));
    };
    let approved = match written(&pull["comments"], head) {
        Some(approved) => approved,
        None => {
            let objections = read(t, number, head).await?;
            comment(t, number, head, &objections).await?;
            objections.is_empty()
        }
    };
    tell(t, brief, number, head, approved).await
}

/// The verdict of a comment that is there already for this head.
fn written(comments: &Value, head: &str) -> Option<bool> {
    let comments = comments.as_array()?;
    comments.iter().filter_map(|c| c["body"].as_str()).find_map(|body| {
        let line = body.trim_start().lines().next()?.trim();
        let marker = line.strip_prefix("<!-- bb-review ")?.strip_suffix("-->")?;
        let has = |pair: &str| marker.split_whitespace().any(|p| p.eq_ignore_ascii_case(pair));
        has(&format!("sha={head}")).then(|| has("verdict=approved"))
    })
}

/// What speaks against the pull request.
async fn read(t: &Turn, number: u64, head: &str) -> Step<Vec<String>> {
    // The checkout is shared: another fetch may hold its locks.
    t.sure("git fetch origin").await?;
    let base = base(t).await?;
    let ran = t.sh(&format!("git diff {}", quote(&format!("origin/{base}...{head}")))).await?;
    // A head that no branch of the remote holds any more is read where it lives.
    let ran = if ran.ok { ran } else { t.sure(&format!("gh pr diff {number}")).await? };
    let mut found = objections(&ran.out);
    if ran.cut {
        found.push("The diff is too large to be read whole.".to_owned());
    }
    Ok(found)
}

/// What speaks against a diff.
fn objections(diff: &str) -> Vec<String> {
    if diff.trim().is_empty() {
        return vec!["The diff is empty.".to_owned()];
    }
    let mut found = Vec::new();
    let mut file = "";
    // Within a hunk a line that begins with `+++` is an added one.
    let mut header = false;
    for line in diff.lines() {
        if line.starts_with("diff --git ") {
            header = true;
        } else if line.starts_with("@@") {
            header = false;
        } else if header {
            file = line.strip_prefix("+++ b/").unwrap_or(file);
        } else if let Some(added) = line.strip_prefix('+') {
            if added.contains("FIXME") {
                found.push(format!("`{file}` gains a line with FIXME."));
            }
            if added.starts_with("<<<<<<<") || added.starts_with(">>>>>>>") {
                found.push(format!("`{file}` gains a conflict marker."));
            }
        }
    }
    found
}

async fn comment(t: &Turn, number: u64, head: &str, objections: &[String]) -> Step<()> {
    t.say("I write what I found.").await?;
    let verdict = if objections.is_empty() { "approved" } else { "changes" };
    let mut body = format!("<!-- bb-review lane=reviewed verdict={verdict} sha={head} -->\n");
    if objections.is_empty() {
        body.push_str("I read the whole diff and found nothing against it.\n");
    }
    for objection in objections {
        body.push_str(&format!("- {objection}\n"));
    }
    let file = Scratch::new(&body).map_err(|e| Halt::Broken(format!("no comment file could be written: {e}")))?;
    let command = format!("gh pr comment {number} --body-file {}", quote(&file.path.display().to_string()));
    let ran = t.sh(&command).await?;
    if !ran.ok {
        // It may have been written all the same: the next turn looks first.
        return Err(Halt::Broken(format!("the comment could not be written: {}", ran.complaint())));
    }
    Ok(())
}

async fn tell(t: &Turn, brief: &Brief, number: u64, head: &str, approved: bool) -> Step<()> {
    let short = head.get(..7).unwrap_or(head);
    let next = if approved {
        format!("approved at {short}")
    } else {
        format!("changes are asked for at {short}, see the review's comment")
    };
    let rows = t.list(&format!("stewards bus log --from {} --kind report --json", quote(&brief.me))).await?;
    let sent = rows
        .iter()
        .filter_map(Message::row)
        .any(|m| m.is_verdict() && m.pull() == Some(number) && m.field("next").contains(short));
    let Some(worker) = &brief.worker else { return t.say("My brief names no worker to tell.").await };
    if !sent {
        let field = quote(&format!("next={next}"));
        let to = quote(worker);
        t.sure(&format!("stewards bus report --to {to} --field ref=pr:{number} --field status=done --field {field}"))
            .await?;
    }
    t.say(&format!("My review of #{number} is done: {next}.")).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diff_is_read_line_by_line() {
        let head = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        assert_eq!(objections(&format!("{head}-FIXME old\n+new\n")), Vec::<String>::new());
        assert_eq!(objections(&format!("{head}+// FIXME\n")), ["`x` gains a line with FIXME."]);
        assert_eq!(objections(&format!("{head}+<<<<<<< ours\n")), ["`x` gains a conflict marker."]);
        assert_eq!(objections(" \n"), ["The diff is empty."]);
    }

    #[test]
    fn only_a_comment_for_this_head_counts() {
        let (head, other) = ("a".repeat(40), "b".repeat(40));
        let body =
            |sha: &str| json!({"body": format!("<!-- bb-review lane=reviewed verdict=approved sha={sha} -->\nFine.")});
        assert_eq!(written(&json!([body(&other)]), &head), None);
        assert_eq!(written(&json!([body(&other), body(&head)]), &head), Some(true));
        assert_eq!(written(&json!(null), &head), None);
    }
}
