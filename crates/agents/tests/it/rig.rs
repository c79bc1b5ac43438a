//! Runners over a stand-in for an agent: a small Python script that speaks a
//! protocol by hand, also badly.

use crate::processes::mark;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use stewards_agents::{McpEndpoint, Protocol, Provider, Runners, Setup};
use stewards_core::ids::{ProjectId, ThreadId, TurnId};
use stewards_core::ports::{Agents, TurnEnd, TurnEvent, TurnJob, TurnSink};
use stewards_core::threads::{Ask, AskReply, ModelName, Permission};

pub const LONG: Duration = Duration::from_secs(60);

/// Hears what the agent does, and allows what it asks for unless it is to wait.
pub struct Heard {
    all: Mutex<Vec<TurnEvent>>,
    agents: Weak<Runners>,
    allows: bool,
}

impl TurnSink for Heard {
    fn take(&self, thread: &ThreadId, _turn: &TurnId, event: TurnEvent) {
        if let (TurnEvent::Asks(ask), true, Some(agents)) = (&event, self.allows, self.agents.upgrade()) {
            let (key, thread) = (ask.key.clone(), thread.clone());
            let reply = AskReply::Option { id: ask.options.last().unwrap().id.clone() };
            tokio::spawn(async move { agents.answer(&thread, &key, &reply).await });
        }
        self.all.lock().unwrap().push(event);
    }
}

impl Heard {
    /// What it did, without asks and sizes of context.
    pub fn all(&self) -> Vec<TurnEvent> {
        let all = self.all.lock().unwrap().clone();
        all.into_iter().filter(|e| !matches!(e, TurnEvent::Asks(_) | TurnEvent::Context(_))).collect()
    }

    pub fn everything(&self) -> Vec<TurnEvent> {
        self.all.lock().unwrap().clone()
    }

    pub fn text(&self) -> String {
        self.all()
            .into_iter()
            .filter_map(|e| if let TurnEvent::Text { text } = e { Some(text) } else { None })
            .collect()
    }

    pub fn asks(&self) -> Vec<Ask> {
        self.everything()
            .into_iter()
            .filter_map(|e| if let TurnEvent::Asks(ask) = e { Some(*ask) } else { None })
            .collect()
    }

    pub fn session(&self) -> String {
        let sessions: Vec<String> = self
            .all()
            .into_iter()
            .filter_map(|e| if let TurnEvent::Confirmed { session, .. } = e { Some(session) } else { None })
            .collect();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0].clone()
    }

    pub async fn until(&self, so: impl Fn(&Heard) -> bool) {
        let began = Instant::now();
        while !so(self) {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", self.everything());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub struct Place {
    pub dir: tempfile::TempDir,
    pub agents: Arc<Runners>,
    pub mark: String,
    pub how: String,
    pub thread: ThreadId,
}

impl Place {
    /// `script` is told `how` it is to behave.
    pub fn new(protocol: Protocol, script: &str, how: &str, silence: Duration) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.py");
        std::fs::write(&file, script).unwrap();
        let provider = Provider {
            protocol,
            command: PathBuf::from("python3"),
            args: vec![file.display().to_string(), how.to_owned(), dir.path().join("log").display().to_string()],
            env: BTreeMap::new(),
        };
        Place::of(dir, provider, how, silence)
    }

    /// With any agent, at work in this directory.
    pub fn of(dir: tempfile::TempDir, provider: Provider, how: &str, silence: Duration) -> Place {
        let mark = mark(&format!("{}-{}", provider.protocol.word(), dir.path().display()));
        let agents = Arc::new(Runners::new(Setup {
            providers: BTreeMap::from([(how.to_owned(), provider)]),
            mark: mark.clone(),
            dir: dir.path().join("agents"),
            mcp: Arc::new(|thread| McpEndpoint { url: "http://127.0.0.1:1/mcp".into(), token: format!("of-{thread}") }),
            thread_env: Arc::new(|_| BTreeMap::from([("FROM_THREAD".to_owned(), "1".to_owned())])),
            silence,
        }));
        Place { dir, agents, mark, how: how.to_owned(), thread: ThreadId("thr_1".into()) }
    }

    pub fn job(&self, session: Option<&str>) -> TurnJob {
        TurnJob {
            project: ProjectId("prj_1".into()),
            thread: self.thread.clone(),
            turn: TurnId("turn_1".into()),
            session: session.map(str::to_owned),
            forks: false,
            model: ModelName { provider: self.how.clone(), model: String::new(), level: None },
            permission: Permission::Full,
            cwd: self.dir.path().to_owned(),
            worktree: None,
            context: "be brief".into(),
            prompt: "go".into(),
            compacts: false,
        }
    }

    pub fn heard(&self, allows: bool) -> Arc<Heard> {
        Arc::new(Heard { all: Mutex::default(), agents: Arc::downgrade(&self.agents), allows })
    }

    pub async fn turn(&self, session: Option<&str>) -> (TurnEnd, Arc<Heard>) {
        self.work(self.job(session)).await
    }

    pub async fn work(&self, job: TurnJob) -> (TurnEnd, Arc<Heard>) {
        let heard = self.heard(true);
        let end = self.agents.turn(job, Arc::clone(&heard) as Arc<dyn TurnSink>).await;
        (end, heard)
    }

    /// A turn that goes on beside the test.
    pub fn begun(&self, job: TurnJob, allows: bool) -> (tokio::task::JoinHandle<TurnEnd>, Arc<Heard>) {
        let heard = self.heard(allows);
        let (agents, sink) = (Arc::clone(&self.agents), Arc::clone(&heard) as Arc<dyn TurnSink>);
        (tokio::spawn(async move { agents.turn(job, sink).await }), heard)
    }

    /// The lines that the agent was written.
    pub fn written(&self) -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
    }

    pub fn asked(&self, method: &str) -> Vec<serde_json::Value> {
        self.written().into_iter().filter(|m| m["method"] == method).map(|m| m["params"].clone()).collect()
    }
}
