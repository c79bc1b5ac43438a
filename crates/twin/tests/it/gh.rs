//! The real `gh` against the twin, over a Unix socket under github.com's own name.

use crate::world::Twin;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The `gh` of this machine.
fn found() -> bool {
    let there = Command::new("gh").arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(there || std::env::var("CI").as_deref() != Ok("true"), "gh is missing");
    if !there {
        println!("left out: there is no gh on this machine");
    }
    there
}

fn gh(twin: &Twin, args: &[&str]) -> (String, bool) {
    let home = twin.dir.path().join("gh");
    std::fs::create_dir_all(&home).unwrap();
    let socket = twin.dir.path().join("gh.sock");
    std::fs::write(home.join("config.yml"), format!("http_unix_socket: {}\n", socket.display())).unwrap();
    let mut command = Command::new("gh");
    command.args(args).args(["-R", "acme/shop"]).current_dir(Path::new("/"));
    command.env("GH_CONFIG_DIR", &home).env("GH_TOKEN", "gh").env("GH_PROMPT_DISABLED", "1");
    command.env("GH_NO_UPDATE_NOTIFIER", "1").env_remove("GITHUB_TOKEN").env_remove("GH_HOST");
    let out = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (text, out.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_gh_creates_views_comments_checks_and_merges() {
    if !found() {
        return;
    }
    let twin = Twin::start().await;
    twin.seed().await;
    let work = twin.clone_repo().await;
    let head = twin.push(&work, "one", "a.txt", "a\n").await;
    let args = ["pr", "create", "--head", "one", "--base", "main", "--title", "More", "--body", "for DEMO-1"];
    let (out, good) = gh(&twin, &args);
    assert!(good && out.contains("/acme/shop/pull/1"), "{out}");
    let pull = twin.get("/github/repos/acme/shop/pulls/1").await;
    assert_eq!((pull["title"].as_str(), pull["body"].as_str()), (Some("More"), Some("for DEMO-1")));
    // One from the same branch is there already.
    let (out, good) = gh(&twin, &args);
    assert!(!good && out.contains("already exists"), "{out}");
    let (out, good) = gh(&twin, &["pr", "comment", "1", "--body", "Looks fine."]);
    assert!(good && out.contains("#issuecomment-"), "{out}");
    twin.verdict(&head).await;
    let (out, good) = gh(&twin, &["pr", "view", "1", "--comments"]);
    assert!(good && out.contains("Looks fine."), "{out}");
    let fields = "number,title,state,headRefOid,author,comments,statusCheckRollup,mergeable,isDraft,reviewDecision";
    let (out, good) = gh(&twin, &["pr", "view", "1", "--json", fields]);
    let seen: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    assert!(good && seen["headRefOid"] == head.as_str() && seen["comments"][0]["body"] == "Looks fine.", "{out}");
    assert_eq!(seen["statusCheckRollup"][0]["conclusion"], "SUCCESS", "{out}");
    let (out, good) = gh(&twin, &["pr", "checks", "1"]);
    assert!(good && out.contains("pass"), "{out}");
    let (out, good) = gh(&twin, &["pr", "list", "--json", "number"]);
    assert!(good && out.contains("\"number\":1"), "{out}");
    let (out, good) = gh(&twin, &["pr", "merge", "1", "--squash"]);
    assert!(good, "{out}");
    let pull = twin.get("/github/repos/acme/shop/pulls/1").await;
    assert_eq!((&pull["merged"], &pull["state"]), (&Value::Bool(true), &Value::from("closed")));
    assert!(gh(&twin, &["pr", "view", "9"]).0.contains("Could not resolve to a PullRequest"));
}
