//! Turns over the Agent Client Protocol, with a stand-in that speaks it by hand.

use crate::rig::{LONG, Place};
use std::time::{Duration, Instant};
use stewards_agents::Protocol;
use stewards_agents::processes::marked;
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Agents, Steered, TurnEnd, TurnEvent};
use stewards_core::threads::{AskReply, Can, ContextUse, Permission, Steering, Tokens};

const AGENT: &str = r#"
import json, os, signal, subprocess, sys, time
how, done = sys.argv[1], False
log = open(sys.argv[2], "a", buffering=1)
def say(m):
    m["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
def update(s, u): say({"method": "session/update", "params": {"sessionId": s, "update": u}})
def answer(i, r): say({"id": i, "result": r})
if how == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "chatty":
    sys.stdout.buffer.write(b"hello, not json\n{\"half\": \n\xff\xfe\n[]\n"); sys.stdout.flush()
if os.environ.get("SECRET_OF_THE_DAEMON") or not os.environ.get("FROM_THREAD"):
    sys.exit("the environment is wrong")
if how == "launcher":
    # Hands its streams over to a process in another session, and ends well.
    if os.fork() or (os.setsid() or os.fork()): os._exit(0)
for line in sys.stdin:
    m = json.loads(line)
    log.write(line)
    p = m.get("params", {})
    if "result" in m and how == "asks":
        update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "%d %s;" % (m["id"], m["result"]["outcome"].get("optionId", "-"))}})
        if m["id"] == 8 and m["result"]["outcome"]["outcome"] == "selected": answer(prompted, {"stopReason": "end_turn"})
        continue
    if m.get("method") == "initialize":
        caps = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
        if how == "forks": caps["sessionCapabilities"]["fork"] = {}
        meta = {"steering": {"supported": True}} if how in ("steers", "late", "mute", "compacts") else {}
        if how == "meta": caps["_meta"] = {"stewards": {"systemContext": True}}
        answer(m["id"], {"protocolVersion": 1, "agentCapabilities": caps, "_meta": meta})
    elif m.get("method") == "session/new":
        made = {"sessionId": "s-%d" % os.getpid()}
        if how == "modes":
            made["modes"] = {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}, {"id": "acceptEdits"}, {"id": "yolo"}]}
            made["configOptions"] = [{"id": "m", "category": "model"}, {"id": "e", "category": "thought_level"}]
        answer(m["id"], made)
        commands = [{"name": "compact"}] if how == "compacts" else []
        update("s-%d" % os.getpid(), {"sessionUpdate": "available_commands_update", "availableCommands": commands})
    elif m.get("method") in ("session/set_mode", "session/set_config_option"):
        if p.get("value") == "nonsense": say({"id": m["id"], "error": {"code": -32602, "message": "no such model"}})
        else: answer(m["id"], {})
    elif m.get("method") == "_session/steering":
        if how == "mute":
            answer(prompted, {"stopReason": "end_turn"}); continue
        if how == "late":
            answer(prompted, {"stopReason": "end_turn"})
            answer(m["id"], {"outcome": "startedNewTurn"})
            update(p["sessionId"], {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "late"}})
            time.sleep(0.5)
            update(p["sessionId"], {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": "idle"}}}})
        elif p["prompt"][0]["text"] == "no":
            answer(m["id"], {"outcome": "promptRequired"})
        else:
            answer(m["id"], {"outcome": "injected"})
            update(p["sessionId"], {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": p["prompt"][0]["text"]}})
            answer(prompted, {"stopReason": "end_turn"})
    elif m.get("method") == "session/cancel":
        if how == "asks": answer(prompted, {"stopReason": "cancelled"})
    elif m.get("method") == "session/fork":
        answer(m["id"], {"sessionId": "fork-of-" + p["sessionId"]})
    elif m.get("method") == "session/resume":
        if p["sessionId"] == "lost": say({"id": m["id"], "error": {"code": -32002, "message": "no such session"}})
        else: answer(m["id"], {})
    elif m.get("method") == "session/prompt":
        s = p["sessionId"]
        prompted = m["id"]
        if how in ("steers", "late", "mute"):
            update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "working "}}); continue
        if how == "compacts":
            for used in (90, 20): update(s, {"sessionUpdate": "usage_update", "used": used, "size": 200})
            answer(m["id"], {"stopReason": "end_turn"}); continue
        if how == "system-error":
            update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "last status: 429 Too Many Requests"}})
            update(s, {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}})
            answer(m["id"], {"stopReason": "end_turn", "usage": None}); continue
        if how == "no-login":
            sys.stderr.write("Error: Authentication required\n"); sys.stderr.flush(); time.sleep(0.3)
            answer(m["id"], {"stopReason": "end_turn"}); continue
        if how == "complained":
            if not done:
                done = True
                update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}})
                sys.stderr.write("Error: 401 Unauthorized, trying again\n"); sys.stderr.flush(); time.sleep(0.3)
            answer(m["id"], {"stopReason": "end_turn"}); continue
        if how == "huge":
            # What follows the first 64 MiB looks like a message of its own.
            sys.stdout.write("x" * (64 * 1024 * 1024)); update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ghost"}})
            answer(m["id"], {"stopReason": "end_turn"}); continue
        if how == "asks":
            for i in (7, 8):
                say({"id": i, "method": "session/request_permission", "params": {"sessionId": s, "toolCall": {"toolCallId": "t", "title": "Edit" if i == 7 else "Run", "kind": "edit" if i == 7 else "execute", "rawInput": {"command": "make %d" % i}},
                    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]}})
            continue
        if how == "silent":
            subprocess.Popen(["sleep", "60"], start_new_session=True); continue
        if how == "broke":
            say({"id": m["id"], "error": {"code": -32603, "message": "Internal error", "data": "API Error: 400 boom"}}); continue
        update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hel"}})
        if how == "dies":
            subprocess.Popen(["sleep", "60"], start_new_session=True)
            sys.stderr.write("first\nout of cheese\n"); sys.stderr.flush(); os._exit(3)
        if how == "deaf":
            subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; while :; do sleep 1; done"]); continue
        update(s, {"sessionUpdate": "of_the_future", "x": 1})
        say({"id": 77, "method": "session/request_permission", "params": {"sessionId": s, "toolCall": {"toolCallId": "t1"},
            "options": [{"optionId": "ever", "name": "Always", "kind": "allow_always"}, {"optionId": "once", "name": "Once", "kind": "allow_once"}]}})
        reply = json.loads(sys.stdin.readline())
        update(s, {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run", "status": "pending"})
        update(s, {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "in_progress"})
        update(s, {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": [
            {"type": "content", "content": {"type": "text", "text": reply["result"]["outcome"]["optionId"]}},
            {"type": "content", "content": {"type": "text", "text": "y" * 30000}}]})
        update(s, {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "lo"}})
        answer(m["id"], {"stopReason": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}})
"#;

fn place(how: &str, silence: Duration) -> Place {
    Place::new(Protocol::Acp, AGENT, how, silence)
}

#[tokio::test]
async fn a_turn_is_confirmed_once_told_in_order_and_finished() {
    let place = place("plain", LONG);
    let (end, heard) = place.turn(None).await;
    assert_eq!(end, TurnEnd::Finished);
    let session = heard.session();
    let result = format!("once\n{}", "y".repeat(19_995));
    assert_eq!(
        heard.all(),
        [
            TurnEvent::Confirmed { session: session.clone(), can: Can::default() },
            TurnEvent::Text { text: "hel".into() },
            TurnEvent::ToolCall { id: "t1".into(), title: "Run".into() },
            TurnEvent::ToolResult { id: "t1".into(), ok: true, text: result },
            TurnEvent::Text { text: "lo".into() },
            TurnEvent::Usage(Tokens { input: 7, output: 3, estimated: false }),
        ]
    );
    let new = &place.asked("session/new")[0];
    assert_eq!(new["mcpServers"][0]["name"], "stewards");
    assert_eq!(new["mcpServers"][0]["headers"][0]["value"], "Bearer of-thr_1");
    let prompt = &place.asked("session/prompt")[0]["prompt"];
    assert_eq!(prompt[0]["text"], "<system-context>\nbe brief\n</system-context>");
    assert_eq!(prompt[1]["text"], "go");

    // The process and its session stay for the next turn.
    let (end, heard) = place.turn(Some(&session)).await;
    assert_eq!((end, heard.session()), (TurnEnd::Finished, session));
    assert_eq!((place.asked("initialize").len(), place.asked("session/resume").len()), (1, 0));
    place.agents.stop_all().await;
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn an_agent_that_takes_the_context_apart_gets_it_apart() {
    let place = place("meta", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    let prompt = &place.asked("session/prompt")[0];
    assert_eq!(prompt["_meta"]["stewards"]["systemContext"], "be brief");
    assert_eq!(prompt["prompt"].as_array().unwrap().len(), 1);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn after_a_stop_the_session_is_resumed_by_its_id() {
    let place = place("plain", LONG);
    let session = place.turn(None).await.1.session();
    place.agents.stop(&place.thread).await;
    assert_eq!(marked(&place.mark), []);
    let (end, heard) = place.turn(Some(&session)).await;
    assert_eq!((end, heard.session()), (TurnEnd::Finished, session.clone()));
    assert_eq!(place.asked("session/resume")[0]["sessionId"], session.as_str());
    assert_eq!(place.asked("session/new").len(), 1);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_session_that_is_lost_is_made_anew() {
    let place = place("plain", LONG);
    let (end, heard) = place.turn(Some("lost")).await;
    assert_eq!(end, TurnEnd::Finished);
    assert_ne!(heard.session(), "lost");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn death_in_mid_turn_fails_it_with_the_last_words_and_the_next_turn_has_a_new_process() {
    let place = place("dies", LONG);
    for _ in 0..2 {
        let (end, heard) = place.turn(None).await;
        let TurnEnd::Failed { says } = end else { panic!("{end:?}") };
        assert!(says.contains("out of cheese") && says.contains('3'), "{says}");
        heard.session();
        // What it had started is not left behind.
        assert_eq!(marked(&place.mark), []);
    }
    assert_eq!(place.asked("initialize").len(), 2);
}

#[tokio::test]
async fn a_stop_in_mid_turn_cancels_it_and_ends_a_tree_that_ignores_cancel_and_term() {
    let place = place("deaf", LONG);
    let (turn, heard) = place.begun(place.job(None), true);
    let began = Instant::now();
    // The agent, and the shell that it started in a session of its own.
    while heard.all().len() < 2 || marked(&place.mark).len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let began = Instant::now();
    place.agents.stop(&place.thread).await;
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(turn.await.unwrap(), TurnEnd::Cancelled);
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn a_silent_agent_has_failed_and_is_ended() {
    let place = place("silent", Duration::from_secs(2));
    let (end, heard) = place.turn(None).await;
    let TurnEnd::Failed { says } = end else { panic!("{end:?}") };
    assert!(says.contains("no sign of life"), "{says}");
    assert_eq!(heard.all(), []);
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn an_error_of_the_agents_provider_fails_the_turn_and_keeps_the_process() {
    let place = place("broke", LONG);
    for _ in 0..2 {
        let TurnEnd::Failed { says } = place.turn(None).await.0 else { panic!("it went well") };
        assert!(says.contains("API Error: 400 boom"), "{says}");
    }
    assert_eq!(place.asked("initialize").len(), 1);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let place = place("chatty", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_launcher_that_hands_over_to_another_session_and_ends_is_followed_and_found() {
    let place = place("launcher", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    assert_eq!(marked(&place.mark).len(), 1);
    // A later run of the daemon knows only the mark.
    assert_eq!(place.agents.end_strays().await, 1);
    assert_eq!(marked(&place.mark), []);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_fails_the_turn_and_stopping_it_is_nothing() {
    let place = place("plain", LONG);
    let mut job = place.job(None);
    job.model.provider = "unknown".into();
    let end = place.agents.turn(job, place.heard(true)).await;
    assert!(matches!(end, TurnEnd::Failed { says } if says.contains("unknown")));
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn after_a_turn_that_its_caller_gave_up_the_next_one_has_a_process_that_is_free() {
    let place = place("silent", LONG);
    for n in 1..=2 {
        let turn = place.agents.turn(place.job(None), place.heard(true));
        let prompted = async {
            while place.asked("session/prompt").len() < n {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            end = turn => panic!("{end:?}"),
            () = prompted => {}
        }
    }
    assert_eq!(place.asked("initialize").len(), 2);
    place.agents.stop(&place.thread).await;
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn a_message_goes_into_the_live_turn_where_the_agent_says_so_and_stays_ours_where_it_does_not() {
    let place = place("steers", LONG);
    let job = place.job(None);
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(|h| h.text() == "working ").await;
    let steer = |text: &str| place.agents.steer(&job.thread, &job.turn, text.to_owned());
    assert_eq!(steer("no").await, Steered::NotTaken);
    assert_eq!(steer("mind the gap").await, Steered::Taken);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert_eq!(heard.text(), "working mind the gap");
    assert!(matches!(
        heard.all()[0],
        TurnEvent::Confirmed { can: Can { steer: Steering::Inject, compact: false, .. }, .. }
    ));
    assert_eq!(steer("too late").await, Steered::NotTaken);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_message_that_began_a_turn_of_its_own_is_part_of_ours_until_the_agent_rests() {
    let place = place("late", LONG);
    let job = place.job(None);
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(|h| h.text() == "working ").await;
    assert_eq!(place.agents.steer(&job.thread, &job.turn, "x".into()).await, Steered::Taken);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert_eq!(heard.text(), "working late");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn an_agent_that_never_says_what_became_of_a_message_holds_nothing_up() {
    let place = place("mute", LONG);
    let job = place.job(None);
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(|h| h.text() == "working ").await;
    let began = Instant::now();
    assert_eq!(place.agents.steer(&job.thread, &job.turn, "x".into()).await, Steered::Unknown);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert!(began.elapsed() < Duration::from_secs(12));
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn two_questions_at_once_wait_each_for_its_answer_and_waiting_is_no_silence() {
    let place = place("asks", Duration::from_secs(1));
    let (turn, heard) = place.begun(place.job(None), false);
    heard.until(|h| h.asks().len() == 2).await;
    let asks = heard.asks();
    assert_ne!(asks[0].key, asks[1].key);
    assert!(asks[0].edits && !asks[1].edits && asks[1].detail == "make 8" && asks[1].permission);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let answer = |n: usize, id: &str| {
        let (agents, thread, key, id) = (&place.agents, &place.thread, asks[n].key.clone(), id.to_owned());
        async move { agents.answer(thread, &key, &AskReply::Option { id }).await }
    };
    assert!(answer(0, "n").await);
    heard.until(|h| h.text() == "7 n;").await;
    assert!(!answer(0, "y").await, "it was answered");
    assert!(answer(1, "y").await);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_stop_takes_open_questions_back() {
    let place = place("asks", LONG);
    let (turn, heard) = place.begun(place.job(None), false);
    heard.until(|h| h.asks().len() == 2).await;
    place.agents.stop(&place.thread).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Cancelled);
    let key = heard.asks()[0].key.clone();
    assert!(!place.agents.answer(&place.thread, &key, &AskReply::Option { id: "y".into() }).await);
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn mode_model_and_level_are_set_by_what_the_agent_offers_and_a_wrong_model_fails_the_turn() {
    let place = place("modes", LONG);
    let mut job = place.job(None);
    (job.model.model, job.model.level) = ("big".into(), Some("high".into()));
    let (end, heard) = place.work(job.clone()).await;
    assert_eq!(end, TurnEnd::Finished);
    let set = |place: &Place| -> Vec<String> {
        place.asked("session/set_config_option").iter().map(|p| format!("{}={}", p["configId"], p["value"])).collect()
    };
    assert_eq!(place.asked("session/set_mode")[0]["modeId"], "yolo");
    assert_eq!(set(&place), [r#""m"="big""#, r#""e"="high""#]);
    job.session = Some(heard.session());
    place.work(job.clone()).await;
    assert_eq!(set(&place).len(), 2, "not again while nothing changed");
    job.permission = Permission::Ask;
    place.work(job.clone()).await;
    assert_eq!(place.asked("session/set_mode")[1]["modeId"], "default");
    job.model.model = "nonsense".into();
    let TurnEnd::Failed { says } = place.work(job).await.0 else { panic!("it was taken") };
    assert!(says.contains("nonsense") && says.contains("no such model"), "{says}");
    place.agents.stop(&place.thread).await;
    // Where it offers no models, the one that was named is not passed over.
    let plain = self::place("plain", LONG);
    let mut job = plain.job(None);
    job.model.model = "big".into();
    let TurnEnd::Failed { says } = plain.work(job).await.0 else { panic!("it was taken") };
    assert!(says.contains("offers no choice of models, so big cannot be had"), "{says}");
    plain.agents.stop(&plain.thread).await;
}

#[tokio::test]
async fn a_failure_with_the_words_of_a_normal_end_is_a_failure() {
    for (how, words) in [("system-error", "429 Too Many Requests"), ("no-login", "Authentication required")] {
        let place = place(how, LONG);
        let TurnEnd::Failed { says } = place.turn(None).await.0 else { panic!("{how} went well") };
        assert!(says.contains(words), "{says}");
        place.agents.stop(&place.thread).await;
    }
}

#[tokio::test]
async fn a_compaction_is_a_turn_without_context_and_tells_the_sizes() {
    let place = place("compacts", LONG);
    let session = place.turn(None).await.1.session();
    let mut job = place.job(Some(&session));
    job.compacts = true;
    let (end, heard) = place.work(job).await;
    assert_eq!(end, TurnEnd::Finished);
    assert!(heard.all().contains(&TurnEvent::Compacted { before: Some(20), after: Some(20) }));
    assert!(heard.everything().contains(&TurnEvent::Context(ContextUse { used: 20, window: Some(200) })));
    assert!(heard.all().iter().any(|e| matches!(e, TurnEvent::Confirmed { can: Can { compact: true, .. }, .. })));
    let prompt = &place.asked("session/prompt")[1]["prompt"];
    assert!(prompt.as_array().unwrap().len() == 1 && prompt[0]["text"] == "/compact");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_line_beyond_all_bounds_is_passed_over_and_the_connection_lives() {
    let place = place("huge", LONG);
    let (end, heard) = place.turn(None).await;
    assert_eq!((end, heard.text().as_str()), (TurnEnd::Finished, ""));
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_complaint_of_an_earlier_turn_says_nothing_about_this_one() {
    let place = place("complained", LONG);
    let (end, heard) = place.turn(None).await;
    assert_eq!((end, heard.text().as_str()), (TurnEnd::Finished, "hello"));
    assert_eq!(place.turn(Some(&heard.session())).await.0, TurnEnd::Finished, "it said nothing, which is an end");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_session_is_forked_where_that_is_announced_and_never_silently_begun_anew() {
    let place = place("forks", LONG);
    let session = place.turn(None).await.1.session();
    let mut job = place.job(Some(&session));
    (job.thread, job.forks) = (ThreadId("thr_2".into()), true);
    let (end, heard) = place.work(job.clone()).await;
    assert_eq!((end, heard.session()), (TurnEnd::Finished, format!("fork-of-{session}")));
    assert!(heard.all().iter().any(|e| matches!(e, TurnEvent::Confirmed { can: Can { fork: true, .. }, .. })));
    // What it said was lost, so it is tried again: the fork is there already.
    assert_eq!(place.work(job.clone()).await.1.session(), format!("fork-of-{session}"));
    assert_eq!((place.asked("session/fork").len(), place.asked("session/new").len()), (1, 1));
    for thread in [&place.thread, &job.thread] {
        place.agents.stop(thread).await;
    }
    let place = self::place("plain", LONG);
    let mut job = place.job(Some("s"));
    job.forks = true;
    let TurnEnd::Failed { says } = place.work(job).await.0 else { panic!("it went well") };
    assert!(says.contains("does not fork"), "{says}");
}

#[tokio::test]
async fn an_idle_process_is_released_and_a_busy_one_is_not() {
    let place = place("steers", LONG);
    let job = place.job(None);
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(|h| h.text() == "working ").await;
    place.agents.release(&place.thread).await;
    assert_eq!(marked(&place.mark).len(), 1);
    place.agents.steer(&job.thread, &job.turn, "end".into()).await;
    turn.await.unwrap();
    place.agents.release(&place.thread).await;
    assert_eq!(marked(&place.mark), []);
}
