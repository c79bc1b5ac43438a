//! Turns over Claude Code's lines of JSON, with a stand-in that tells what becomes
//! of each line as the real one does.

use crate::rig::{LONG, Place};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use stewards_agents::Protocol;
use stewards_agents::processes::marked;
use stewards_core::ports::{Agents, Steered, TurnEnd, TurnEvent};
use stewards_core::threads::{AskReply, Can, ContextUse, Permission, Steering, Tokens};

const AGENT: &str = r#"
import json, os, sys, time
how, args = sys.argv[1], sys.argv[3:]
log = open(sys.argv[2], "a", buffering=1)
log.write(json.dumps({"started": args, "pid": os.getpid()}) + "\n")
def say(**m): sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
def life(i, state): how == "old" or say(type="command_lifecycle", command_uuid=i, state=state)
def text(t): say(type="assistant", message={"content": [{"type": "text", "text": t}], "usage": {"input_tokens": 40, "cache_read_input_tokens": 50, "output_tokens": 10}})
def result(**more):
    say(**{**dict(type="result", subtype="success", is_error=False, result="", usage={"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3}, modelUsage={"m": {"contextWindow": 200000}}), **more})
def value(name): return args[args.index(name) + 1] if name in args else None
if value("--resume") == "lost":
    # As the real one does: a result, before the prompt was looked at.
    result(is_error=True, subtype="error_during_execution", result=None, errors=["No conversation found with session ID: lost"]); time.sleep(0.3)
    sys.stderr.write("No conversation found with session ID: lost\n"); sys.exit(1)
session = value("--resume") or value("--session-id")
prompt = None
for line in sys.stdin:
    m = json.loads(line); log.write(line)
    if m["type"] == "control_request" and m["request"]["subtype"] == "cancel_async_message":
        life(m["request"]["message_uuid"], "cancelled"); continue
    if m["type"] == "control_request":
        text("cut"); result(subtype="error_during_execution", terminal_reason="aborted_streaming"); life(prompt, "cancelled"); continue
    if m["type"] == "control_response":
        text(json.dumps(m["response"]["response"])); result(); life(prompt, "completed"); continue
    i, words = m["uuid"], m["message"]["content"][0]["text"]
    life(i, "queued")
    if prompt and how == "folds":
        say(type="user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]})
        life(i, "started"); text("with " + words); life(i, "completed"); result(); life(prompt, "completed"); prompt = None; continue
    if prompt and how == "rounds":
        text("first"); result(); life(prompt, "completed"); time.sleep(0.3)
        life(i, "started"); say(type="system", subtype="init", session_id=session); text("then " + words); result(); life(i, "completed"); prompt = None; continue
    if prompt and how == "stuck": text("first"); result(); life(prompt, "completed"); continue
    if prompt and how == "silent": continue
    prompt = i
    life(i, "started"); say(type="system", subtype="init", session_id=session)
    if words == "/compact":
        say(type="system", subtype="compact_boundary", compact_metadata={"trigger": "manual", "pre_tokens": 900, "post_tokens": 100})
        result(usage={}); life(i, "completed"); continue
    if how in ("folds", "rounds", "cut", "silent", "stuck"):
        if how == "folds": say(type="assistant", message={"content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "sleep"}}]})
        continue
    if how == "dies": os._exit(4)
    if how in ("asks", "question", "questions"):
        inp = {"command": "make"} if how == "asks" else {"questions": [{"question": "Which?", "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}]}]}
        if how == "questions": inp["questions"].append({"question": "How big?", "options": [{"label": "L"}]})
        say(type="control_request", request_id="r1", request={"subtype": "can_use_tool", "tool_name": "Bash" if how == "asks" else "AskUserQuestion", "input": inp,
            "permission_suggestions": [{"type": "addRules", "rules": [], "destination": "localSettings"}, {"type": "setMode", "mode": "acceptEdits"}]})
        continue
    if how == "error": result(is_error=True, terminal_reason="api_error", result="API Error: 400 boom")
    elif how == "limit":
        say(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": 4102444800})
        result(is_error=True, result="You've hit your limit")
    elif how == "pieces":
        say(type="stream_event", event={"type": "message_start"})
        for t in ("one ", "two"): say(type="stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": t}})
        say(type="stream_event", event={"type": "content_block_stop"})
        text("one two"); result()
    elif how == "huge":
        # What follows the first 64 MiB looks like a message of its own.
        sys.stdout.write("x" * (64 * 1024 * 1024)); text("ghost"); text("hello"); result()
    elif how == "noise":
        for n in range(50):
            sys.stderr.write('{"type":"result","is_er'); sys.stderr.flush(); sys.stdout.buffer.write(b'\xff\xfe not JSON\n\n{"half":\n'); text("hel" if n == 0 else ""); sys.stderr.write('ror":true}\n'); sys.stderr.flush()
        text("lo"); result()
    elif how == "empty": result()
    else: text("hello"); result()
    life(i, "completed")
"#;

fn place(how: &str) -> Place {
    Place::new(Protocol::StreamJson, AGENT, how, LONG)
}

/// The arguments of each start.
fn starts(place: &Place) -> Vec<Vec<String>> {
    let all = place.written();
    all.iter().filter_map(|m| serde_json::from_value(m["started"].clone()).ok()).collect()
}

fn value(args: &[String], name: &str) -> String {
    let at = args.iter().position(|a| a == name).unwrap_or_else(|| panic!("no {name} in {args:?}"));
    args[at + 1].clone()
}

#[tokio::test]
async fn a_turn_is_told_once_with_its_session_usage_and_context() {
    let place = place("plain");
    let (end, heard) = place.turn(None).await;
    assert_eq!(end, TurnEnd::Finished);
    let session = heard.session();
    assert_eq!(
        heard.everything(),
        [
            TurnEvent::Confirmed {
                session: session.clone(),
                can: Can { steer: Steering::Inject, compact: true, fork: true }
            },
            TurnEvent::Text { text: "hello".into() },
            TurnEvent::Context(ContextUse { used: 100, window: Some(200_000) }),
            TurnEvent::Usage(Tokens { input: 7, output: 3, estimated: false }),
        ]
    );
    let args = &starts(&place)[0];
    assert_eq!(value(args, "--session-id"), session);
    let mcp = value(args, "--mcp-config");
    assert!(std::fs::read_to_string(&mcp).unwrap().contains("Bearer of-thr_1") && !args.concat().contains("of-thr_1"));
    assert_eq!(std::fs::metadata(&mcp).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(value(args, "--append-system-prompt-file")).unwrap(), "be brief");
    // The process stays, and is started anew only where it was told other things.
    assert_eq!(place.turn(Some(&session)).await.0, TurnEnd::Finished);
    assert_eq!(starts(&place).len(), 1);
    let mut job = place.job(Some(&session));
    (job.context, job.permission) = ("be long".into(), Permission::AcceptEdits);
    (job.model.model, job.model.level) = ("opus".into(), Some("high".into()));
    assert_eq!(place.work(job).await.0, TurnEnd::Finished);
    let args = &starts(&place)[1];
    assert_eq!(value(args, "--resume"), session);
    assert_eq!(std::fs::read_to_string(value(args, "--append-system-prompt-file")).unwrap(), "be long");
    let set = ["--model", "--effort", "--permission-mode", "--system-prompt-snapshot"].map(|n| value(args, n));
    assert_eq!(set, ["opus", "high", "acceptEdits", "off"]);
    place.agents.stop(&place.thread).await;
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn a_message_joins_the_turn_or_becomes_another_round_of_it() {
    for (how, said) in [("folds", "with more"), ("rounds", "firstthen more")] {
        let place = place(how);
        let job = place.job(None);
        let (turn, heard) = place.begun(job.clone(), true);
        heard.until(|h| !h.all().is_empty()).await;
        let taken = place.agents.steer(&job.thread, &job.turn, "more".into()).await;
        assert_eq!((taken, turn.await.unwrap()), (Steered::Taken, TurnEnd::Finished), "{how}");
        assert_eq!(heard.text(), said);
        assert_eq!(place.agents.steer(&job.thread, &job.turn, "late".into()).await, Steered::NotTaken);
        place.agents.stop(&place.thread).await;
    }
}

#[tokio::test]
async fn text_in_pieces_is_said_once() {
    let place = place("pieces");
    assert_eq!(place.turn(None).await.1.text(), "one two");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn an_empty_last_word_is_an_end_and_an_agent_that_tells_nothing_of_its_lines_is_believed() {
    for how in ["empty", "old"] {
        let place = place(how);
        assert_eq!(place.turn(None).await.0, TurnEnd::Finished, "{how}");
        place.agents.stop(&place.thread).await;
    }
}

#[tokio::test]
async fn lines_that_are_none_and_what_is_said_beside_them_change_nothing() {
    for how in ["huge", "noise"] {
        let place = place(how);
        let (end, heard) = place.turn(None).await;
        assert_eq!((end, heard.text().as_str()), (TurnEnd::Finished, "hello"), "{how}");
        assert_eq!(place.turn(Some(&heard.session())).await.0, TurnEnd::Finished, "{how}: the connection lives");
        place.agents.stop(&place.thread).await;
    }
}

#[tokio::test]
async fn errors_that_look_like_success_are_failures_and_a_limit_has_its_time() {
    let broken = place("error");
    let TurnEnd::Failed { says } = broken.turn(None).await.0 else { panic!("it went well") };
    assert_eq!(says, "API Error: 400 boom");
    broken.agents.stop(&broken.thread).await;
    let limited = place("limit");
    let TurnEnd::Limited { until, .. } = limited.turn(None).await.0 else { panic!("no limit") };
    assert_eq!(until.unwrap().to_string(), "2100-01-01T00:00:00Z");
    limited.agents.stop(&limited.thread).await;
}

#[tokio::test]
async fn leave_is_asked_for_and_a_question_is_answered_in_the_tools_own_form() {
    let place1 = place("asks");
    let (turn, heard) = place1.begun(place1.job(None), false);
    heard.until(|h| h.asks().len() == 1).await;
    let ask = heard.asks()[0].clone();
    assert_eq!((ask.title.as_str(), ask.detail.as_str(), ask.permission), ("Bash", "make", true));
    let labels: Vec<&str> = ask.options.iter().map(|o| o.label.as_str()).collect();
    assert_eq!(labels, ["Allow once", "Allow for this session", "Deny"]);
    place1.agents.answer(&place1.thread, &ask.key, &AskReply::Option { id: "always".into() }).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    // Nothing outlives the session, and the mode stays ours.
    assert!(
        heard.text().contains(r#""destination": "session""#) && !heard.text().contains("acceptEdits"),
        "{}",
        heard.text()
    );
    place1.agents.stop(&place1.thread).await;

    let place2 = place("question");
    let (turn, heard) = place2.begun(place2.job(None), false);
    heard.until(|h| h.asks().len() == 1).await;
    let ask = heard.asks()[0].clone();
    assert!(ask.title == "Which?" && ask.free && !ask.permission && ask.options.len() == 2);
    place2.agents.answer(&place2.thread, &ask.key, &AskReply::Text { text: "Green".into() }).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert!(heard.text().contains(r#""answers": {"Which?": "Green"}"#), "{}", heard.text());
    place2.agents.stop(&place2.thread).await;
}

#[tokio::test]
async fn several_questions_at_once_are_one_that_is_answered_in_words() {
    let place = place("questions");
    let (turn, heard) = place.begun(place.job(None), false);
    heard.until(|h| h.asks().len() == 1).await;
    let ask = heard.asks()[0].clone();
    assert!(ask.title == "Which?" && ask.free && !ask.permission && ask.options.is_empty());
    assert!(ask.detail.contains("- Red: warm") && ask.detail.contains("How big?"), "{}", ask.detail);
    place.agents.answer(&place.thread, &ask.key, &AskReply::Text { text: "Red, L".into() }).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    let said = heard.text();
    assert!(said.contains(r#""Which?": "Red, L""#) && said.contains(r#""How big?": "Red, L""#), "{said}");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_message_that_is_never_taken_up_is_withdrawn_before_the_turn_ends() {
    let place = place("stuck");
    let job = place.job(None);
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(|h| !h.all().is_empty()).await;
    assert_eq!(place.agents.steer(&job.thread, &job.turn, "more".into()).await, Steered::NotTaken);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert!(place.written().iter().any(|m| m["request"]["subtype"] == "cancel_async_message"));
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn after_a_kill_the_session_is_resumed_in_a_new_process() {
    let place = place("plain");
    let session = place.turn(None).await.1.session();
    let pid = place.written()[0]["pid"].as_i64().unwrap();
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (end, heard) = place.turn(Some(&session)).await;
    assert_eq!((end, heard.session()), (TurnEnd::Finished, session.clone()));
    assert_eq!(value(&starts(&place)[1], "--resume"), session);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_stop_interrupts_and_a_death_leaves_what_was_on_its_way_unknown() {
    let place1 = place("cut");
    let (turn, heard) = place1.begun(place1.job(None), true);
    heard.until(|h| !h.all().is_empty()).await;
    place1.agents.stop(&place1.thread).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Cancelled);
    assert!(place1.written().iter().any(|m| m["request"]["subtype"] == "interrupt"));
    let place2 = place("silent");
    let job = place2.job(None);
    let (turn, heard) = place2.begun(job.clone(), true);
    heard.until(|h| !h.all().is_empty()).await;
    let agents = std::sync::Arc::clone(&place2.agents);
    let steer = tokio::spawn(async move { agents.steer(&job.thread, &job.turn, "x".into()).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let pid = place2.written()[0]["pid"].as_i64().unwrap();
    std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert_eq!(steer.await.unwrap(), Steered::Unknown);
    assert!(matches!(turn.await.unwrap(), TurnEnd::Failed { .. }));
    place2.agents.stop(&place2.thread).await;
}

#[tokio::test]
async fn a_conversation_that_it_does_not_know_is_begun_anew() {
    let place = place("plain");
    let (end, heard) = place.turn(Some("lost")).await;
    assert_eq!(end, TurnEnd::Finished);
    assert_ne!(heard.session(), "lost");
    assert_eq!(starts(&place).len(), 2);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_compaction_tells_the_sizes() {
    let place = place("plain");
    let session = place.turn(None).await.1.session();
    let mut job = place.job(Some(&session));
    job.compacts = true;
    job.context = "something else by now".into();
    let (end, heard) = place.work(job).await;
    assert_eq!(end, TurnEnd::Finished);
    assert!(heard.all().contains(&TurnEvent::Compacted { before: Some(900), after: Some(100) }));
    assert!(heard.everything().contains(&TurnEvent::Context(ContextUse { used: 100, window: Some(200_000) })));
    assert_eq!(starts(&place).len(), 1, "nothing is said to it, so its context may be the last turn's");
    place.agents.stop(&place.thread).await;
}
