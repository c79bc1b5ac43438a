//! Every recorded webhook, as it is and with parts of it missing.

use crate::bells::{github, hmac, linear, map};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use stewards_core::ports::{About, Doorbell};
use stewards_sources::LinearBell;

/// The folder of recorded answers, which lies beside the workspace.
pub fn fixtures() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
    println!("left out: {} is not there", path.display());
    None
}

fn json_files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(json_files(&path));
        } else if path.extension().is_some_and(|e| e == "json") {
            out.push(path);
        }
    }
    out.sort();
    out
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The body as it is, without each of its keys in turn, with each of them null,
/// and with an action that nobody knows.
fn variants(body: &Value) -> Vec<Value> {
    let mut out = vec![body.clone()];
    let keys: Vec<String> = body.as_object().unwrap().keys().cloned().collect();
    for key in keys {
        let mut without = body.clone();
        without.as_object_mut().unwrap().remove(&key);
        out.push(without);
        let mut null = body.clone();
        null[&key] = Value::Null;
        out.push(null);
    }
    let mut novel = body.clone();
    novel["action"] = json!("never_heard_of");
    out.push(novel);
    out
}

/// The event of a file that says it only by its name.
fn event_of(file: &str) -> &str {
    const EVENTS: [&str; 14] = [
        "check-run",
        "check-suite",
        "pull_request_review_comment",
        "pull_request_review",
        "pull_request",
        "issue_comment",
        "issue",
        "deployment_status",
        "deployment",
        "push",
        "status",
        "workflow_job",
        "workflow_run",
        "ping",
    ];
    match EVENTS.into_iter().find(|e| file.starts_with(e)) {
        Some("check-run") => "check_run",
        Some("check-suite") => "check_suite",
        Some(event) => event,
        None => "other",
    }
}

#[test]
fn every_recorded_github_webhook_rings_whatever_is_missing_from_it() {
    let Some(root) = fixtures() else { return };
    let (mut files, mut tried, mut named) = (0, 0, 0);
    for (dir, by_folder) in [("github/webhooks", true), ("github/webhooks-hub4j", false)] {
        for path in json_files(&root.join(dir)) {
            let file = name(&path);
            if file.ends_with(".schema.json") || file == "INDEX.json" {
                continue;
            }
            let parent = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            let event = if by_folder { parent.as_str() } else { event_of(&file) };
            let raw = std::fs::read(&path).unwrap();
            let ring = github(event, &raw).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let body: Value = serde_json::from_slice(&raw).unwrap();
            files += 1;
            named += usize::from(ring.about != About::Nothing);
            let pulls = ["pull_request", "pull_request_review", "pull_request_review_comment"];
            if pulls.contains(&event) {
                assert!(matches!(ring.about, About::Pull { .. }), "{}: {:?}", path.display(), ring.about);
            }
            if ["check_run", "check_suite", "status", "workflow_run"].contains(&event) {
                let found = matches!(ring.about, About::Pull { .. } | About::Head { .. });
                assert!(found, "{}: {:?}", path.display(), ring.about);
            }
            for variant in variants(&body) {
                let raw = variant.to_string();
                github(event, raw.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                tried += 1;
            }
        }
    }
    println!("{files} webhooks, {named} of which name something, in {tried} variants");
    assert!(files >= 170 && named >= 60, "{files} {named}");
}

#[test]
fn every_recorded_linear_webhook_rings_whatever_is_missing_from_it() {
    let Some(root) = fixtures() else { return };
    let mut files = 0;
    for path in json_files(&root.join("linear/webhooks")) {
        if name(&path).ends_with(".headers.json") {
            continue;
        }
        let raw = std::fs::read(&path).unwrap();
        let ring = linear(&raw, 0).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(matches!(ring.about, About::Ticket { .. }), "{}: {:?}", path.display(), ring.about);
        let body: Value = serde_json::from_slice(&raw).unwrap();
        for variant in variants(&body) {
            linear(variant.to_string().as_bytes(), 0).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        files += 1;
    }
    assert!(files >= 3);
}

#[test]
fn the_signature_over_a_recorded_linear_webhook_is_right() {
    let Some(root) = fixtures() else { return };
    let raw = std::fs::read(root.join("linear/webhooks/official-sdk-test.Comment.create.json")).unwrap();
    let signature = "ed0ee4c58b2777b7b41c5e826011098aff6dd7f884578f9754d250797828b598";
    assert_eq!(hmac("SECRET", &raw), signature);
    let ring = LinearBell::new("SECRET".into()).verify(&map(&[("linear-signature", signature)]), &raw, 0).unwrap();
    assert!(ring.stale);
    let ticket = "539068e2-ae88-4d09-bd75-22eb4a59612f";
    assert_eq!(ring.about, About::Ticket { uuid: ticket.into(), key: String::new(), team: String::new() });
}
