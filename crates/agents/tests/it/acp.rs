//! Turns with a small agent that speaks the protocol by hand, also badly.

use crate::processes::mark;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stewards_agents::processes::marked;
use stewards_agents::{AcpAgents, McpEndpoint, Provider, Setup};
use stewards_core::ids::{ProjectId, ThreadId, TurnId};
use stewards_core::ports::{Agents, TurnEnd, TurnEvent, TurnJob, TurnSink};
use stewards_core::threads::Tokens;

const AGENT: &str = r#"
import json, os, signal, subprocess, sys, time
how = sys.argv[1]
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
    if m.get("method") == "initialize":
        caps = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
        if how == "meta": caps["_meta"] = {"stewards": {"systemContext": True}}
        answer(m["id"], {"protocolVersion": 1, "agentCapabilities": caps})
    elif m.get("method") == "session/new":
        answer(m["id"], {"sessionId": "s-%d" % os.getpid()})
        update("s-%d" % os.getpid(), {"sessionUpdate": "available_commands_update", "availableCommands": []})
    elif m.get("method") == "session/resume":
        if p["sessionId"] == "lost": say({"id": m["id"], "error": {"code": -32002, "message": "no such session"}})
        else: answer(m["id"], {})
    elif m.get("method") == "session/prompt":
        s = p["sessionId"]
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

#[derive(Default)]
struct Heard(Mutex<Vec<TurnEvent>>);

impl TurnSink for Heard {
    fn take(&self, _thread: &ThreadId, _turn: &TurnId, event: TurnEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Heard {
    fn all(&self) -> Vec<TurnEvent> {
        self.0.lock().unwrap().clone()
    }

    fn session(&self) -> String {
        let sessions: Vec<String> = self
            .all()
            .into_iter()
            .filter_map(|e| if let TurnEvent::Confirmed { session } = e { Some(session) } else { None })
            .collect();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0].clone()
    }
}

struct Place {
    dir: tempfile::TempDir,
    agents: Arc<AcpAgents>,
    mark: String,
    how: String,
    thread: ThreadId,
}

impl Place {
    fn new(how: &str, silence: Duration) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let mark = mark(&format!("acp-{}", dir.path().display()));
        let script = dir.path().join("agent.py");
        std::fs::write(&script, AGENT).unwrap();
        let provider = Provider {
            command: PathBuf::from("python3"),
            args: vec![script.display().to_string(), how.to_owned(), dir.path().join("log").display().to_string()],
            env: BTreeMap::new(),
        };
        let agents = Arc::new(AcpAgents::new(Setup {
            providers: BTreeMap::from([(how.to_owned(), provider)]),
            mark: mark.clone(),
            mcp: Arc::new(|thread| McpEndpoint { url: "http://127.0.0.1:1/mcp".into(), token: format!("of-{thread}") }),
            thread_env: Arc::new(|_| BTreeMap::from([("FROM_THREAD".to_owned(), "1".to_owned())])),
            silence,
        }));
        Place { dir, agents, mark, how: how.to_owned(), thread: ThreadId("thr_1".into()) }
    }

    fn job(&self, session: Option<&str>) -> TurnJob {
        TurnJob {
            project: ProjectId("prj_1".into()),
            thread: self.thread.clone(),
            turn: TurnId("turn_1".into()),
            session: session.map(str::to_owned),
            provider: self.how.clone(),
            cwd: self.dir.path().to_owned(),
            worktree: None,
            context: "be brief".into(),
            prompt: "go".into(),
        }
    }

    async fn turn(&self, session: Option<&str>) -> (TurnEnd, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        let end = self.agents.turn(self.job(session), Arc::clone(&heard) as Arc<dyn TurnSink>).await;
        (end, heard)
    }

    fn asked(&self, method: &str) -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines = log.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
        lines.filter(|m| m["method"] == method).map(|m| m["params"].clone()).collect()
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_turn_is_confirmed_once_told_in_order_and_finished() {
    let place = Place::new("plain", LONG);
    let (end, heard) = place.turn(None).await;
    assert_eq!(end, TurnEnd::Finished);
    let session = heard.session();
    let result = format!("once\n{}", "y".repeat(19_995));
    assert_eq!(
        heard.all(),
        [
            TurnEvent::Confirmed { session: session.clone() },
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
    let place = Place::new("meta", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    let prompt = &place.asked("session/prompt")[0];
    assert_eq!(prompt["_meta"]["stewards"]["systemContext"], "be brief");
    assert_eq!(prompt["prompt"].as_array().unwrap().len(), 1);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn after_a_stop_the_session_is_resumed_by_its_id() {
    let place = Place::new("plain", LONG);
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
    let place = Place::new("plain", LONG);
    let (end, heard) = place.turn(Some("lost")).await;
    assert_eq!(end, TurnEnd::Finished);
    assert_ne!(heard.session(), "lost");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn death_in_mid_turn_fails_it_with_the_last_words_and_the_next_turn_has_a_new_process() {
    let place = Place::new("dies", LONG);
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
    let place = Place::new("deaf", LONG);
    let heard = Arc::new(Heard::default());
    let (agents, job, sink) = (Arc::clone(&place.agents), place.job(None), Arc::clone(&heard));
    let turn = tokio::spawn(async move { agents.turn(job, sink as Arc<dyn TurnSink>).await });
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
    let place = Place::new("silent", Duration::from_secs(2));
    let (end, heard) = place.turn(None).await;
    let TurnEnd::Failed { says } = end else { panic!("{end:?}") };
    assert!(says.contains("no sign of life"), "{says}");
    assert_eq!(heard.all(), []);
    assert_eq!(marked(&place.mark), []);
}

#[tokio::test]
async fn an_error_of_the_agents_provider_fails_the_turn_and_keeps_the_process() {
    let place = Place::new("broke", LONG);
    for _ in 0..2 {
        let TurnEnd::Failed { says } = place.turn(None).await.0 else { panic!("it went well") };
        assert!(says.contains("API Error: 400 boom"), "{says}");
    }
    assert_eq!(place.asked("initialize").len(), 1);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let place = Place::new("chatty", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn a_launcher_that_hands_over_to_another_session_and_ends_is_followed_and_found() {
    let place = Place::new("launcher", LONG);
    assert_eq!(place.turn(None).await.0, TurnEnd::Finished);
    assert_eq!(marked(&place.mark).len(), 1);
    // A later run of the daemon knows only the mark.
    assert_eq!(place.agents.end_strays().await, 1);
    assert_eq!(marked(&place.mark), []);
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_fails_the_turn_and_stopping_it_is_nothing() {
    let place = Place::new("plain", LONG);
    let mut job = place.job(None);
    job.provider = "unknown".into();
    let end = place.agents.turn(job, Arc::new(Heard::default())).await;
    assert!(matches!(end, TurnEnd::Failed { says } if says.contains("unknown")));
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn after_a_turn_that_its_caller_gave_up_the_next_one_has_a_process_that_is_free() {
    let place = Place::new("silent", LONG);
    for n in 1..=2 {
        let turn = place.agents.turn(place.job(None), Arc::new(Heard::default()));
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
