//! What a steward does: judge the ready gate, start a worker, say what is
//! waited for. The last thing of every turn is its report.

use serde_json::{Value, json};

use super::brief::Brief;
use super::mcp::Answer;
use super::prompt::Heard;
use super::turn::{Step, Turn};
use super::wake::{Pull, Wake};

const REPORT: &str = "steward_report";
const LEAVE: &str = "You have leave to start workers";

/// One turn.
pub(super) async fn turn(t: &Turn, brief: &Brief, prompt: &str) -> Step<()> {
    match Wake::read(prompt) {
        Some(wake) => woken(t, brief, &wake).await,
        None => told(t, brief, prompt).await,
    }
}

async fn woken(t: &Turn, brief: &Brief, wake: &Wake) -> Step<()> {
    t.say(&format!("I look at {}.", wake.key)).await?;
    let state = wake.phase.as_deref().unwrap_or("this state");
    if wake.ending || wake.stage == "done" {
        let open: Vec<&str> = wake.pulls.iter().filter(|p| p.state == "Open").map(|p| p.key.as_str()).collect();
        let left =
            if open.is_empty() { "nothing is left open".into() } else { format!("{} is left open", open.join(", ")) };
        let summary = format!("{} is {state}; {left}.", wake.key);
        return end(t, wake, json!({"summary": summary, "nextAction": "none", "noMorePulls": true}), None).await;
    }
    let building = matches!(wake.stage.as_str(), "triage" | "spec" | "build");
    if let Some(pull) = wake.pulls.iter().find(|p| p.state == "Open").or(wake.pulls.last()) {
        if building {
            judge(t, wake).await?;
        }
        return wait_for_pull(t, wake, pull).await;
    }
    if !building {
        let summary = format!("{} is in {state} and has no pull request.", wake.key);
        let waits = format!("a pull request of {}", wake.key);
        return end(t, wake, json!({"summary": summary, "nextAction": "a pull request"}), Some(waits)).await;
    }
    let leave = judge(t, wake).await?;
    if wake.description.is_empty() {
        let summary = format!("{} has no description that a worker could build from.", wake.key);
        let report = json!({"summary": summary, "nextAction": "a description of the ticket"});
        return end(t, wake, report, Some(format!("a description of {}", wake.key))).await;
    }
    if let Some(worker) = in_flight(t, brief, wake).await? {
        return wait_for_worker(t, wake, &worker, "builds").await;
    }
    if !leave {
        let summary = format!("{} is ready; there is no leave to start workers yet.", wake.key);
        let report = json!({"summary": summary, "nextAction": "start a worker"});
        return end(t, wake, report, Some("leave to start workers".to_owned())).await;
    }
    match start(t, brief, wake).await? {
        Ok(worker) => wait_for_worker(t, wake, &worker, "was started").await,
        Err(says) => {
            let summary = format!("No worker of {} could be started: {says}", wake.key);
            let waits = format!("a worker for {}", wake.key);
            end(t, wake, json!({"summary": summary, "nextAction": "start a worker"}), Some(waits)).await
        }
    }
}

/// Judges the items that are open; says whether there is leave afterwards.
async fn judge(t: &Turn, wake: &Wake) -> Step<bool> {
    let open: Vec<u64> = wake.gate.iter().filter(|i| !i.met).map(|i| i.number).collect();
    if wake.description.is_empty() || (open.is_empty() && wake.leave) {
        return Ok(wake.leave);
    }
    if !open.is_empty() {
        t.say("The ticket says what to do, so the open items of the ready gate hold.").await?;
    }
    let mut arguments = json!({
        "summary": format!("{} says what has to be different and how that shows.", wake.key),
        "nextAction": "start a worker",
        "actor": "steward",
    });
    if !open.is_empty() {
        arguments["ready"] = json!(open);
    }
    phase(&mut arguments, wake);
    let answer = report(t, arguments).await?;
    Ok(wake.leave || (!answer.refused && answer.text.contains(LEAVE)))
}

/// A worker of this effort: the wake may be older than the list.
async fn in_flight(t: &Turn, brief: &Brief, wake: &Wake) -> Step<Option<String>> {
    if wake.worker.is_some() {
        return Ok(wake.worker.clone());
    }
    let rows = t.list("stewards thread list --json").await?;
    let ours = |row: &&Value| {
        row["role"] == "worker"
            && !row["archived"].as_bool().unwrap_or(false)
            && (row["parent"] == brief.me.as_str() || row["key"] == wake.key.as_str())
    };
    Ok(rows.iter().find(ours).map(|row| row["id"].as_str().unwrap_or("in flight").to_owned()))
}

async fn start(t: &Turn, brief: &Brief, wake: &Wake) -> Step<Result<String, String>> {
    let Some(command) = &brief.start_worker else {
        return Ok(Err("the brief names no command for it".to_owned()));
    };
    t.say("I start a worker.").await?;
    let task = format!(
        "{} {}\n\n{}\n\nHow it is tested: run the repository's tests (`sh ./test.sh`, where that file is there). \
         They pass with the change.\n",
        format_args!("{}:", wake.key),
        wake.title,
        wake.description
    );
    t.spawn(command, &wake.title, &task).await
}

async fn wait_for_worker(t: &Turn, wake: &Wake, worker: &str, does: &str) -> Step<()> {
    let summary = format!("The worker {worker} {does}.");
    let report = json!({"summary": summary, "nextAction": "the worker's pull request"});
    end(t, wake, report, Some(format!("the worker {worker}"))).await
}

async fn wait_for_pull(t: &Turn, wake: &Wake, pull: &Pull) -> Step<()> {
    let key = &pull.key;
    let (summary, next, actor, waits) = match pull.state.as_str() {
        "Merged" => {
            (format!("{key} is merged."), "the last state of the ticket", "other", format!("the end of {}", wake.key))
        }
        "Closed" => (
            format!("{key} was closed without a merge."),
            "a decision about the closed pull request",
            "user",
            format!("a word about {key}"),
        ),
        _ if pull.met => (format!("The gate of {key} is met."), "the merge", "user", format!("the merge of {key}")),
        _ => (
            format!("The gate of {key} is not met yet."),
            "the checks and the review",
            "other",
            format!("the checks and review of {key}"),
        ),
    };
    end(t, wake, json!({"summary": summary, "nextAction": next, "actor": actor}), Some(waits)).await
}

/// A message, not a wake.
async fn told(t: &Turn, brief: &Brief, prompt: &str) -> Step<()> {
    t.say("I read the message.").await?;
    let heard = Heard::read(prompt);
    let short: String = prompt.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect();
    let about = heard.messages.iter().rev().map(|m| m.field("ref")).find(|r| !r.is_empty()).unwrap_or_default();
    let mut arguments = json!({"summary": format!("I was told: {short}"), "actor": "other"});
    if about.starts_with("pr:") {
        arguments["nextAction"] = json!("the merge");
        arguments["waitingOn"] = json!(decent(&format!("the merge of {about}")));
    } else {
        arguments["nextAction"] = json!(format!("the work on {}", brief.key));
    }
    report(t, arguments).await.map(drop)
}

fn phase(arguments: &mut Value, wake: &Wake) {
    if let Some(phase) = &wake.phase {
        arguments["phase"] = json!(phase);
    }
}

/// The report that ends a wake's turn.
async fn end(t: &Turn, wake: &Wake, mut arguments: Value, waits: Option<String>) -> Step<()> {
    phase(&mut arguments, wake);
    if arguments.get("actor").is_none() {
        arguments["actor"] = json!("other");
    }
    if let Some(waits) = waits {
        arguments["waitingOn"] = json!(decent(&waits));
    }
    report(t, arguments).await.map(drop)
}

/// Waiting on a person is refused while nothing is asked of one, and a
/// repository's name may look like it.
fn decent(waits: &str) -> String {
    let person = |w: &str| ["user", "owner", "human", "person"].iter().any(|p| w.eq_ignore_ascii_case(p));
    let mut out = String::new();
    for word in waits.split(' ') {
        let bad = word.split(|c: char| !c.is_alphanumeric()).any(person);
        let word = if bad { word.rfind('#').map_or("it", |at| &word[at..]) } else { word };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Reports; a refusal is read and corrected at most twice.
async fn report(t: &Turn, mut arguments: Value) -> Step<Answer> {
    let mut answer = t.tool(REPORT, &arguments).await?;
    for _ in 0..2 {
        if !answer.refused || !corrected(&mut arguments, &answer.text) {
            break;
        }
        t.say("The report was refused; I correct it.").await?;
        answer = t.tool(REPORT, &arguments).await?;
    }
    Ok(answer)
}

/// Drops what the refusal is about, or else what may be at fault. `false` if
/// there is nothing left to drop.
fn corrected(arguments: &mut Value, says: &str) -> bool {
    let Some(fields) = arguments.as_object_mut() else { return false };
    let about_items = says.contains("item of the ready gate") || says.contains("unknown_item");
    let order = if about_items { ["ready", "waitingOn", "phase"] } else { ["waitingOn", "ready", "phase"] };
    order.iter().any(|name| fields.remove(*name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_names_no_person() {
        assert_eq!(decent("the merge of acme/shop#7"), "the merge of acme/shop#7");
        assert_eq!(decent("the merge of owner/repo#7"), "the merge of #7");
    }

    #[test]
    fn a_refused_report_loses_what_was_at_fault() {
        let mut arguments = json!({"summary": "s", "ready": [9], "waitingOn": "x"});
        assert!(corrected(&mut arguments, "9 is no item of the ready gate, so nothing was recorded"));
        assert_eq!(arguments, json!({"summary": "s", "waitingOn": "x"}));
        assert!(corrected(&mut arguments, "it waits on the person"));
        assert!(!corrected(&mut arguments, "no"));
    }
}
