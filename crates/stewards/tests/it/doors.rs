//! What comes to the daemon's doors and is not wanted: a clear no, nothing
//! lost, and the rest goes on.

use crate::rig::{Demo, file, stewards, told};
use hmac::{Hmac, KeyInit, Mac};
use stewards_core::machine::Fact;

fn signed(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

#[test]
fn unwanted_requests_are_refused_one_by_one_and_the_demo_ends_well() {
    let mut demo = Demo::start(&["--yes", "--json"]);
    demo.until("the switch", |f| matches!(f, Fact::SwitchedOn));
    let port = demo.daemon_port();
    let secrets: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(demo.home().join("secrets.json")).unwrap()).unwrap();
    let secret = secrets["github_webhook"].as_str().unwrap().to_owned();
    let hook = |event: &str, signature: &str, body: &[u8]| {
        let head = format!(
            "POST /hooks/github HTTP/1.1\r\nX-GitHub-Event: {event}\r\nX-GitHub-Delivery: d-{event}\r\nX-Hub-Signature-256: sha256={signature}\r\nContent-Type: application/json\r\n"
        );
        demo.http(port, &head, body)
    };
    let body = br#"{"action":"opened"}"#;
    assert_eq!(hook("pull_request", &signed("wrong", body), body).0, 401);
    assert_eq!(hook("a_kind_of_tomorrow", &signed(&secret, body), body).0, 200);
    assert_eq!(hook("pull_request", &signed(&secret, b"{"), b"{").0, 400);
    let large = vec![b'x'; 30 * 1024 * 1024];
    assert_eq!(hook("push", &signed(&secret, &large), &large).0, 413);
    assert_eq!(demo.http(port, "POST /hooks/gitlab HTTP/1.1\r\n", b"{}").0, 404);
    // Another site's name, no session, a form of another site, no token.
    assert_eq!(demo.http(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n", b"").0, 421);
    assert_eq!(demo.http(port, "GET / HTTP/1.1\r\n", b"").0, 401);
    assert_eq!(demo.http(port, "GET /api/list HTTP/1.1\r\n", b"").0, 401);
    assert_eq!(demo.http(port, "GET /enter?code=guess HTTP/1.1\r\n", b"").0, 403);
    let post = "POST /api/act HTTP/1.1\r\nContent-Type: text/plain\r\n";
    assert_eq!(demo.http(port, post, br#"{"merge":{"pull":"acme/bakery#1"}}"#).0, 401);
    let mcp = "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer guess\r\n";
    assert_eq!(demo.http(port, mcp, b"{}").0, 401);
    demo.summary();
    demo.ended_well();
}

#[test]
fn a_second_daemon_says_who_holds_the_directory() {
    let demo = Demo::start(&["--json"]);
    demo.until("the start", |f| matches!(f, Fact::RunBegan { .. }));
    let home = demo.home();
    let (_, error, code) = told(&stewards(&["serve", "--dir"]).arg(home).output().unwrap());
    assert_eq!(code, 75, "{error}");
    assert!(error.contains("is in use by the daemon with pid") && error.contains("Hint: "), "{error}");
}

#[test]
fn what_descends_from_a_threads_agent_is_that_thread_whatever_it_presents() {
    let demo = Demo::start(&["--json"]);
    demo.until("the steward", |f| matches!(f, Fact::Adopted { .. }));
    let threads: serde_json::Value = serde_json::from_str(&demo.command(&["thread", "list", "--json"]).0).unwrap();
    let steward =
        threads.as_array().unwrap().iter().find(|t| t["role"] == "steward").unwrap()["id"].as_str().unwrap().to_owned();
    let home = demo.home();
    // Marked as a process of that thread, it comes without a token and is refused what only the owner may do.
    let output = stewards(&["disable", "--dir"])
        .arg(&home)
        .env("STEWARDS_MARK", &home)
        .env("STEWARDS_THREAD", &steward)
        .output()
        .unwrap();
    let (_, error, code) = told(&output);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("only the owner") && error.contains(&steward), "{error}");
    let output = stewards(&["list", "--dir"]).arg(&home).env("STEWARDS_TOKEN", "guess").output().unwrap();
    assert!(told(&output).1.contains("not of this run"), "{:?}", told(&output));
}

#[test]
fn a_bus_message_to_an_unknown_thread_stores_nothing() {
    let demo = Demo::start(&["--json"]);
    demo.until("the steward", |f| matches!(f, Fact::Adopted { .. }));
    let body = file(demo.dir.path(), "body.txt", "hello");
    let body = body.to_str().unwrap();
    let (_, error, code) = demo.command(&["bus", "note", "--to", "thr_1", "--to", "thr_999", "--body-file", body]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("no thread is called thr_"), "{error}");
    assert!(!demo.facts().iter().any(|f| matches!(f, Fact::BusSent { message } if message.kind == "note")));
    let (_, error, code) = demo.command(&["bus", "note", "--to", "thr_1", "--body", "hello"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no --body"), "{error}");
    let (_, error, code) = demo.command(&["bus", "send", "--kind", "claim", "--to", "thr_1"]);
    assert_eq!(code, 2);
    assert!(error.contains("stewards bus claim"), "{error}");
}
