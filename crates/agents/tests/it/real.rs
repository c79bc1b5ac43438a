//! The real agents against the scripted model of `e2e`, where `STEWARDS_REAL_AGENTS`
//! is set and `npm ci` was run there. Nothing outside loopback is needed.

use crate::rig::{Heard, LONG, Place};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use stewards_agents::processes::marked;
use stewards_agents::{Protocol, Provider};
use stewards_core::ids::ThreadId;
use stewards_core::ports::{Agents, Steered, TurnEnd, TurnEvent, TurnJob};
use stewards_core::threads::{AskReply, Can, Means, Permission, Steering};

/// The model server of one test.
struct Model(Child, String);

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn e2e() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../e2e").canonicalize().unwrap()
}

fn model() -> Option<Model> {
    if std::env::var_os("STEWARDS_REAL_AGENTS").is_none() {
        println!("left out: STEWARDS_REAL_AGENTS is not set");
        return None;
    }
    let mut child = Command::new("node").arg(e2e().join("model.mjs")).arg("0").stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    Some(Model(child, url.trim().to_owned()))
}

fn claude(model: &Model) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let env = [
        ("HOME", at("home")),
        ("CLAUDE_CONFIG_DIR", at("config")),
        ("ANTHROPIC_BASE_URL", model.1.clone()),
        ("ANTHROPIC_API_KEY", "sk-ant-dummy".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("CLAUDE_CODE_MAX_RETRIES", "0".into()),
    ];
    let command = e2e().join("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    start(dir, Protocol::StreamJson, command, Vec::new(), &env)
}

fn codex(model: &Model) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"mock\"\ncheck_for_update_on_startup = false\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}/v1\"\nenv_key = \"MOCK_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n",
        model.1
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
    let home = home.display().to_string();
    let env = [("HOME", home.clone()), ("CODEX_HOME", home), ("MOCK_KEY", "dummy".into()), ("NO_BROWSER", "1".into())];
    let script = e2e().join("node_modules/@agentclientprotocol/codex-acp/dist/index.js");
    start(dir, Protocol::Acp, "node".into(), vec![script.display().to_string()], &env)
}

fn start(
    dir: tempfile::TempDir,
    protocol: Protocol,
    command: PathBuf,
    args: Vec<String>,
    env: &[(&str, String)],
) -> Place {
    let env: BTreeMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    Place::of(dir, Provider { protocol, command, args, env }, "real", LONG)
}

/// A prompt that tells the model what to say and do.
fn script(place: &Place, session: Option<&str>, steps: serde_json::Value) -> TurnJob {
    let mut job = place.job(session);
    job.prompt = format!("do it\n#script {steps}");
    job
}

fn called(heard: &Heard) -> bool {
    heard.all().iter().any(|e| matches!(e, TurnEvent::ToolCall { .. }))
}

/// What holds for each agent. `shell` is how the model runs a command, `leave` how it
/// runs one that the agent asks leave for.
async fn all(
    place: &Place,
    forks: bool,
    shell: impl Fn(&str) -> serde_json::Value,
    leave: impl Fn(&str) -> serde_json::Value,
) {
    let (end, heard) = place.work(script(place, None, json!([{"say": "hello there"}]))).await;
    assert_eq!(end, TurnEnd::Finished, "{:?}", heard.everything());
    assert!(heard.text().contains("hello there"), "{}", heard.text());
    let session = heard.session();
    let can = Can { steer: Steering::Inject, compact: true, fork: forks };
    assert!(heard.all().contains(&TurnEvent::Confirmed { session: session.clone(), can }), "{:?}", heard.all());
    if forks {
        // The model hears an earlier script only in a conversation that has one.
        let mut job = place.job(Some(&session));
        (job.thread, job.forks, job.prompt) = (ThreadId("thr_2".into()), true, "what now".into());
        let (end, heard) = place.work(job.clone()).await;
        assert_eq!(end, TurnEnd::Finished);
        let text = heard.text();
        assert!(text.contains("heard: ") && text.trim().ends_with("what now"), "{text}");
        assert_ne!(heard.session(), session);
        place.agents.stop(&job.thread).await;
    }
    let counted = heard.everything().into_iter().any(|e| matches!(e, TurnEvent::Context(c) if c.used > 0));
    assert!(counted, "{:?}", heard.everything());

    // Into a running tool.
    let job = script(place, Some(&session), json!([shell("timeout 4 tail -f /dev/null"), {"say": "over"}]));
    let (turn, heard) = place.begun(job.clone(), true);
    heard.until(called).await;
    assert_eq!(place.agents.steer(&job.thread, &job.turn, "mind the gap".into()).await, Steered::Taken);
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    assert_eq!(heard.session(), session);
    assert_eq!(place.agents.steer(&job.thread, &job.turn, "too late".into()).await, Steered::NotTaken);

    // Leave, given and refused.
    for (means, made) in [(Means::DenyOnce, false), (Means::AllowOnce, true)] {
        let file = place.dir.path().join("made.txt");
        let mut job =
            script(place, Some(&session), json!([leave(&format!("touch {}", file.display())), {"say": "so"}]));
        job.permission = Permission::Ask;
        let (turn, heard) = place.begun(job, false);
        heard.until(|h| !h.asks().is_empty()).await;
        let ask = heard.asks()[0].clone();
        assert!(ask.permission && ask.detail.contains("touch"), "{ask:?}");
        let id = ask.options.iter().find(|o| o.means == means).unwrap().id.clone();
        assert!(place.agents.answer(&place.thread, &ask.key, &AskReply::Option { id }).await);
        let end = turn.await.unwrap();
        assert!(matches!(end, TurnEnd::Finished | TurnEnd::Cancelled), "{end:?}");
        assert_eq!(file.exists(), made);
    }

    for n in 1..4 {
        let job = script(place, Some(&session), json!([{"say": format!("turn {n} ").repeat(300)}]));
        assert_eq!(place.work(job).await.0, TurnEnd::Finished);
    }
    let mut job = place.job(Some(&session));
    job.compacts = true;
    let (end, heard) = place.work(job).await;
    assert_eq!(end, TurnEnd::Finished);
    assert!(heard.all().iter().any(|e| matches!(e, TurnEvent::Compacted { .. })), "{:?}", heard.everything());

    // In another process, and with a session that nobody knows.
    place.agents.release(&place.thread).await;
    assert_eq!(marked(&place.mark), []);
    let (end, heard) = place.work(script(place, Some(&session), json!([{"say": "back again"}]))).await;
    assert_eq!((end, heard.session()), (TurnEnd::Finished, session));
    place.agents.release(&place.thread).await;
    let unknown = "22222222-2222-4222-8222-222222222222";
    let (end, heard) = place.work(script(place, Some(unknown), json!([{"say": "as new"}]))).await;
    assert_eq!(end, TurnEnd::Finished);
    assert!(heard.text().contains("as new") && heard.session() != unknown);

    // A stop in mid-tool leaves nothing.
    let (turn, heard) = place.begun(script(place, None, json!([shell("tail -f /dev/null"), {"say": "never"}])), true);
    heard.until(called).await;
    place.agents.stop(&place.thread).await;
    assert_eq!((turn.await.unwrap(), marked(&place.mark)), (TurnEnd::Cancelled, Vec::new()));
}

#[tokio::test]
async fn claude_code_is_driven_through_all_that_a_thread_needs() {
    let Some(model) = model() else { return };
    let place = claude(&model);
    let shell = |command: &str| json!({"tool": "Bash", "args": {"command": command}});
    all(&place, true, shell, shell).await;

    // The context is the turn's own, in each process anew, and no part of what was said.
    let mut session = None;
    for n in 1..4 {
        let mut job = script(&place, session.as_deref(), json!([{"quote": "system"}]));
        job.context = format!("the colour is teal-{n}");
        let (end, heard) = place.work(job).await;
        assert_eq!(end, TurnEnd::Finished, "{:?}", heard.everything());
        session = Some(heard.session());
        let text = heard.text();
        let told: Vec<bool> = (1..4).map(|n| text.contains(&format!("teal-{n}"))).collect();
        assert_eq!(told, [n == 1, n == 2, n == 3], "{text}");
    }

    let one = |q: &str, a: &str| json!({"question": q, "header": "H", "multiSelect": false, "options": [{"label": a, "description": "d"}, {"label": "Other", "description": "e"}]});
    let questions = json!({"questions": [one("Which colour?", "Red"), one("Which size?", "Small")]});
    let steps = json!([{"tool": "AskUserQuestion", "args": questions}, {"say": "thanks"}]);
    let (turn, heard) = place.begun(script(&place, None, steps), false);
    heard.until(|h| !h.asks().is_empty()).await;
    let ask = heard.asks()[0].clone();
    assert!(ask.free && !ask.permission && ask.detail.contains("Which size?"), "{ask:?}");
    place.agents.answer(&place.thread, &ask.key, &AskReply::Text { text: "green, huge".into() }).await;
    assert_eq!(turn.await.unwrap(), TurnEnd::Finished);
    let told =
        heard.all().iter().any(|e| matches!(e, TurnEvent::ToolResult { text, .. } if text.contains("green, huge")));
    assert!(told, "{:?}", heard.all());

    let fails = script(&place, None, json!([{"fail": 400, "message": "the model is cross"}]));
    let TurnEnd::Failed { says } = place.work(fails).await.0 else { panic!("it went well") };
    assert!(says.contains("cross"), "{says}");
    place.agents.stop(&place.thread).await;
}

#[tokio::test]
async fn codex_is_driven_through_all_that_a_thread_needs() {
    let Some(model) = model() else { return };
    let place = codex(&model);
    let shell = |command: &str| json!({"tool": "exec_command", "args": {"cmd": command}});
    let leave = |command: &str| {
        let why = "to see whether it asks";
        json!({"tool": "exec_command", "args": {"cmd": command, "sandbox_permissions": "require_escalated", "justification": why}})
    };
    all(&place, true, shell, leave).await;

    let fails = script(&place, None, json!([{"fail": 400, "message": "the model is cross"}]));
    let TurnEnd::Failed { says } = place.work(fails).await.0 else { panic!("it went well") };
    assert!(says.contains("cross") || says.contains("400"), "{says}");
    place.agents.stop(&place.thread).await;
}
