//! The two processes that the demo watches. They end with it: their standard
//! input is a pipe that closes when the demo is gone, however it went.

use super::place::Place;
use anyhow::Context;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// So often at most is a child started again.
const RESTARTS: u32 = 50;

pub struct Children {
    twin: Child,
    daemon: Child,
    restarts: u32,
    quiet: bool,
}

impl Children {
    pub fn start(place: &Place, quiet: bool) -> anyhow::Result<Children> {
        Ok(Children { twin: twin(place)?, daemon: daemon(place)?, restarts: 0, quiet })
    }

    /// Starts again what has died.
    pub fn watch(&mut self, place: &Place) -> anyhow::Result<()> {
        let died = (self.twin.try_wait()?, self.daemon.try_wait()?);
        if died.0.is_none() && died.1.is_none() {
            return Ok(());
        }
        self.restarts += 1;
        let logs = place.dir.display();
        anyhow::ensure!(self.restarts <= RESTARTS, "the daemon or the twin keeps dying; their logs are in {logs}");
        for (name, status) in [("twin", died.0), ("daemon", died.1)] {
            if let Some(status) = status.filter(|_| !self.quiet) {
                crate::out::line(&format!("the {name} ended ({status}) and is started again; see {logs}/{name}.log"));
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        if died.0.is_some() {
            self.twin = twin(place)?;
        }
        if died.1.is_some() {
            self.daemon = daemon(place)?;
        }
        Ok(())
    }

    /// Asks both to end, and ends what has not within four seconds.
    pub fn end(&mut self) {
        for child in [&mut self.daemon, &mut self.twin] {
            drop(child.stdin.take());
        }
        let patience = Instant::now() + Duration::from_secs(4);
        for child in [&mut self.daemon, &mut self.twin] {
            while Instant::now() < patience && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            if matches!(child.try_wait(), Ok(None)) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn spawn(place: &Place, log: &str, args: &[&std::ffi::OsStr]) -> anyhow::Result<Child> {
    let path = place.dir.join(log);
    let log = OpenOptions::new().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C is for the demo, which ends them in order.
        .process_group(0)
        .env_remove("STEWARDS_SOCKET")
        .env_remove("STEWARDS_TOKEN")
        .env_remove("STEWARDS_DIR")
        .spawn()
        .context("a child could not be started")
}

fn twin(place: &Place) -> anyhow::Result<Child> {
    let (port, config) = (place.twin_port().to_string(), place.twin_file());
    spawn(
        place,
        "twin.log",
        &["twin".as_ref(), "--tied".as_ref(), "--port".as_ref(), port.as_ref(), "--config".as_ref(), config.as_ref()],
    )
}

fn daemon(place: &Place) -> anyhow::Result<Child> {
    let home = place.home();
    spawn(place, "daemon.log", &["serve".as_ref(), "--tied".as_ref(), "--dir".as_ref(), home.as_ref()])
}
