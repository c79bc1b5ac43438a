//! The command line without a daemon: files, refusals, exit codes.

use crate::rig::{file, stewards, told};
use std::path::Path;

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    dir
}

#[track_caller]
fn run(dir: &Path, args: &[&str]) -> (String, String, i32) {
    told(&stewards(args).current_dir(dir).env("STEWARDS_DIR", dir.join("data")).output().unwrap())
}

#[test]
fn init_writes_what_check_passes_and_leaves_what_is_there() {
    let dir = repository();
    let (out, _, code) = run(dir.path(), &["init", "--team", "DEMO"]);
    assert!(code == 0 && out.contains(".bb/stewards/project.json: written"), "{out}");
    assert_eq!(run(dir.path(), &["check"]).2, 0);
    let (out, _, code) = run(dir.path(), &["init", "--team", "OTHER"]);
    assert!(code == 0 && out.contains("left as it is"), "{out}");
    let text = std::fs::read_to_string(dir.path().join(".bb/stewards/project.json")).unwrap();
    assert!(text.contains("DEMO"), "{text}");
}

#[test]
fn check_names_the_line_of_a_broken_front_matter() {
    let dir = repository();
    run(dir.path(), &["init", "--team", "DEMO"]);
    let playbook = dir.path().join(".bb/stewards/playbooks/linear-tickets.md");
    let text = std::fs::read_to_string(&playbook).unwrap().replace("kind: ticket", "kind: tickets");
    file(dir.path(), ".bb/stewards/playbooks/linear-tickets.md", &text);
    let (out, _, code) = run(dir.path(), &["check"]);
    assert_eq!(code, 78, "{out}");
    assert!(out.contains(".bb/stewards/playbooks/linear-tickets.md:3: "), "{out}");
    let (out, _, _) = run(dir.path(), &["check", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["ok"], &report["problems"][0]["line"]), (&false.into(), &3.into()));
}

#[test]
fn every_refusal_has_a_sentence_a_hint_and_an_exit_code() {
    let dir = repository();
    for (args, code) in [
        (vec!["list"], 69),
        (vec!["merge", "acme/shop#1"], 69),
        (vec!["bus", "claim", "pr:1", "--reason", "x"], 69),
        (vec!["bus", "gossip", "--to", "thr_1"], 2),
        (vec!["bus", "done", "--to", "thr_1", "--field", "ref"], 2),
        (vec!["check"], 78),
        (vec!["show", ""], 2),
        (vec!["demo", "--dir", "/dev/null"], 2),
        (vec!["demo", "--agent", "nobody/x"], 69),
        (vec!["backup", "copy.db"], 1),
        (vec!["thread", "tell", "thr_1", "x"], 69),
        (vec!["thread", "spawn", "--title", "t", "--environment", "no/such/place"], 2),
        (vec!["skill", "show", "dancing"], 69),
        (vec!["init", "--team", "not a key"], 2),
        (vec!["init", "--team", "DEMO", "--worker", "a//b"], 2),
        (vec!["thread", "spawn", "--role", "worker", "--title", "t", "--prompt-file", "."], 2),
    ] {
        let (out, error, found) = run(dir.path(), &args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}: {error}");
        let lines: Vec<&str> = error.lines().collect();
        assert!(
            lines.len() >= 2 && lines[0].starts_with("Error: ") && lines[1].starts_with("Hint: "),
            "{args:?}: {error}"
        );
    }
}

#[test]
fn a_demo_does_not_touch_a_directory_that_is_not_its_own() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "letter.txt", "dear");
    let (_, error, code) = told(&stewards(&["demo", "--dir"]).arg(dir.path()).output().unwrap());
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("is not empty and no demo's directory"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn settings_that_cannot_be_read_are_a_matter_of_configuration() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "settings.json", "{garbage");
    let (_, error, code) = told(&stewards(&["serve", "--dir"]).arg(dir.path()).output().unwrap());
    assert_eq!(code, 78, "{error}");
    assert!(error.contains("settings.json is not as it should be") && error.contains("Hint: "), "{error}");
}
