//! What the demo puts into the twin: a small real repository, a team, a ticket.

use super::place::Place;
use anyhow::Context;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use stewards_core::config::{Starting, starting_files};

pub const NAME: &str = "bakery";
pub const REPO: &str = "acme/bakery";
const TEAM: &str = "DEMO";

const SIGN: &str = "Welcome to the bakery\n\nOpen from seven to nine\nFresh bred every morning\n";
const TEST: &str = "#!/bin/sh\n# The sign must be spelled rightly.\nset -e\ntest -s sign.txt\nif grep -q bred sign.txt; then\n  echo 'bread is misspelled' >&2\n  exit 1\nfi\necho ok\n";
const README: &str = "# The bakery's sign\n\n`sign.txt` hangs in the window. `sh test.sh` checks its spelling.\n";
const DESCRIPTION: &str = "The sign in the window says \"Fresh bred every morning\".\n\nIn `sign.txt`, replace `bred` with `bread`.\n\nIt is tested by `sh test.sh`, which must pass.";

/// Asks the twin's control door for something. Each request may be repeated.
fn control(place: &Place, path: &str, body: &Value) -> anyhow::Result<Value> {
    let text = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", place.twin_port())).context("the twin does not answer")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "POST /control/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        place.github_token(),
        text.len(),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the twin's answer is cut")?;
    let status = head.split_whitespace().nth(1).unwrap_or("");
    anyhow::ensure!(status.starts_with('2'), "the twin answered {status} to {path}: {body}");
    Ok(serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The world before the ticket.
pub fn seed(place: &Place) -> anyhow::Result<()> {
    let mut files: BTreeMap<String, String> = BTreeMap::from([
        ("README.md".into(), README.into()),
        ("sign.txt".into(), SIGN.into()),
        ("test.sh".into(), TEST.into()),
    ]);
    let agent = place.agent();
    let starting = Starting { team: TEAM, steward: agent, worker: agent, reviewer: agent };
    for (path, text) in starting_files(&starting) {
        files.insert(format!(".bb/{path}"), text);
    }
    control(place, "user", &json!({ "login": "robin", "name": "Robin", "email": "robin@example.com", "me": true }))?;
    control(place, "team", &json!({ "key": TEAM, "name": "Demo" }))?;
    control(place, "label", &json!({ "team": TEAM, "name": "bb-managed" }))?;
    let (owner, name) = REPO.split_once('/').unwrap_or((REPO, ""));
    control(place, "repo", &json!({ "owner": owner, "name": name, "files": files, "message": "Open the bakery" }))?;
    Ok(())
}

/// The ticket appears; answers its identifier.
pub fn ticket(place: &Place) -> anyhow::Result<String> {
    let asked = json!({
        "key": "demo-ticket",
        "team": TEAM,
        "title": "The sign misspells bread",
        "description": DESCRIPTION,
        "labels": ["bb-managed"],
        "assignee": "robin",
        "state": "Todo",
    });
    let answer = control(place, "ticket", &asked)?;
    answer["identifier"].as_str().map(str::to_owned).context("the twin did not name the ticket")
}
