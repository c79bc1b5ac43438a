//! Every part in every state on one page, for looking at and for screenshots.

use super::board::{self, Listed};
use super::bus::{self, Kept};
use super::draw::{Page, Region};
use super::effort;
use super::parts::{self, Form};
use super::thread::{self, Around};
use super::transcript::Lines;
use jiff::Timestamp;
use maud::html;
use serde_json::{Value, json};
use stewards_core::bus::{BusMessage, ClaimRow, OwedRow};
use stewards_core::entity::{PullKey, RepoName};
use stewards_core::ids::ThreadId;
use stewards_core::refusal::Refusal;
use stewards_core::snapshot::{Mergeable, PullState, Rollup};
use stewards_core::stewards::{
    Actor, Detail, Glyph, LinkedPull, NeedRow, ProjectRow, PullRow, ReadyItem, Report, Row, Verdict,
};
use stewards_core::threads::{Can, ContextUse, Permission, Role, Sender, Steering, ThreadRow, Tokens};
use stewards_store::{BusRow, BusStats, KindCount, MessageRow, SenderCount, TranscriptLine};

/// A title as a stranger might write it.
const HOSTILE: &str = "Say <b>hello</b> & <script>alert(1)</script> by name";
const LONG: &str = "An_unbroken_word_that_goes_on_and_on_and_on_until_it_has_to_be_broken_somewhere_on_a_narrow_screen";

pub(super) fn draw(form: &Form) -> Page {
    let mut form = form.clone();
    let needs = [merge_need(true), merge_need(false), failed_need(), asked_need(), refused_need()];
    let hint = "wait for the checks and press again";
    form.refused.get_or_insert(("need_4".into(), Refusal::not_met("not_met", "checks are still running", hint)));
    let detail = detail();
    let story = [
        (at(5), "needs you: acme/demo#7 is ready to merge".to_owned()),
        (at(4), format!("reported: {HOSTILE}")),
        (at(3), format!("woken for checks, review {LONG}")),
        (at(1), "adopted: its steward is thr_3".to_owned()),
    ];
    let mut regions = vec![
        Region::new("sample-needs", "attention", board::attention(&needs, &form, "Parts · Stewards")),
        Region::new("sample-nothing", "attention", board::attention(&[], &form, "Parts · Stewards")),
        Region::new("sample-flight", "", board::flight(&efforts())),
        Region::new("sample-none", "", board::flight(&[])),
        Region::new("sample-ended", "", board::recently(&ended())),
        Region::new("sample-projects", "", board::projects(&projects())),
        Region::new("sample-statuses", "", html! { h2 { "Statuses" } (parts::tree(&statuses())) }),
    ];
    regions.extend(bus::regions(&owed(), &held(), &kept()));
    regions.extend(effort::regions(&detail, &story, &form));
    let around = Around {
        row: row_of("thr_4", Role::Worker, "active", Some("thr_3")),
        parent: Some(row_of("thr_3", Role::Steward, "idle", None)),
        children: vec![row_of("thr_5", Role::Reviewer, "pending", Some("thr_4"))],
        place: Some("/home/me/.stewards/worktrees/thr_4".into()),
        asks: vec![asked_need()],
        can: Can { steer: Steering::Inject, compact: true, fork: true },
        failed: true,
    };
    // Two pages' regions on one page: their names must stay apart.
    regions.extend(thread::regions(&around, &messages(), &lines(), Some("turn_12"), &form).regions.into_iter().map(
        |mut r| {
            if r.within.is_none() {
                r.id = format!("thread-{}", r.id);
            }
            r
        },
    ));
    Page { title: "Parts · Stewards".into(), regions, lists: &[] }
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_767_222_000 + minute * 60).unwrap_or_default()
}

fn merge_need(ready: bool) -> NeedRow {
    let n = if ready { 7 } else { 8 };
    NeedRow {
        id: format!("need_{}", if ready { 1 } else { 2 }),
        kind: "merge",
        text: if ready { "acme/demo#7 is ready to merge".into() } else { format!("acme/demo#8 waits: {HOSTILE}") },
        effort: Some("DEMO-1".into()),
        pull: Some(format!("acme/demo#{n}")),
        link: Some(format!("https://github.com/acme/demo/pull/{n}")),
        button: ready.then_some("Merge"),
        why_not: (!ready).then(|| "checks are still running; it conflicts with its base".into()),
        choices: Vec::new(),
        thread: None,
        command: format!("stewards merge acme/demo#{n}"),
    }
}

fn failed_need() -> NeedRow {
    NeedRow {
        id: "need_3".into(),
        kind: "failed",
        text: "worker thr_9 failed three times: its agent could not be started".into(),
        effort: Some("DEMO-2".into()),
        pull: None,
        link: None,
        button: Some("Try again"),
        choices: Vec::new(),
        thread: Some("thr_9".into()),
        why_not: None,
        command: "stewards done need_3".into(),
    }
}

fn asked_need() -> NeedRow {
    NeedRow {
        id: "ask_5".into(),
        kind: "permission",
        text: format!("worker thr_9 asks for leave: Bash: rm -rf target # {HOSTILE}"),
        button: None,
        choices: ["Allow once", "Allow for this session", "Deny"].map(str::to_owned).to_vec(),
        command: "stewards thread interactions answer ask_5 <choice>".into(),
        ..failed_need()
    }
}

fn refused_need() -> NeedRow {
    NeedRow { id: "need_4".into(), ..merge_need(true) }
}

fn row(key: &str, glyph: Glyph, title: &str, phrase: &str) -> Row {
    Row {
        key: key.into(),
        kind: "ticket",
        title: title.into(),
        url: "https://linear.app/acme/issue/DEMO-1".into(),
        project: "demo".into(),
        phase: Some("In Progress".into()),
        glyph,
        phrase: phrase.into(),
        actor: Some("user".into()),
        steward: Some("thr_3".into()),
        open: true,
        notes: 0,
        needs: Vec::new(),
    }
}

fn listed(row: Row, threads: Vec<ThreadRow>) -> Listed {
    Listed { path: parts::effort_path(&row.key), row, threads }
}

fn efforts() -> Vec<Listed> {
    let family = vec![
        row_of("thr_3", Role::Steward, "idle", None),
        row_of("thr_4", Role::Worker, "active", Some("thr_3")),
        row_of("thr_5", Role::Reviewer, "pending", Some("thr_4")),
    ];
    vec![
        listed(row("DEMO-1", Glyph::You, "Greet people by name", "needs you: acme/demo#7 is ready to merge"), family),
        listed(
            Row { notes: 2, ..row("DEMO-2", Glyph::Blocked, HOSTILE, "cannot be read: 503 from Linear") },
            Vec::new(),
        ),
        listed(row("DEMO-3", Glyph::Running, LONG, "1 thread running"), Vec::new()),
        listed(row("DEMO-4", Glyph::Quiet, "Drop the old endpoint", "wait for the design review"), Vec::new()),
    ]
}

fn ended() -> Vec<Listed> {
    let past = Row {
        open: false,
        phase: Some("Done".into()),
        ..row("DEMO-0", Glyph::Quiet, "Set the repository up", "reached Done, 2026-01-01 00:12")
    };
    vec![listed(past, Vec::new())]
}

fn projects() -> Vec<ProjectRow> {
    let on = ProjectRow {
        id: "prj_1".into(),
        name: "demo".into(),
        repo: "acme/demo".into(),
        remote: "https://github.com/acme/demo".into(),
        repos: Vec::new(),
        checkout: None,
        on: true,
        commit: "0123456789abcdef".into(),
        problems: Vec::new(),
        swept: Some(at(3)),
        steward: Some("thr_1".into()),
        efforts: 4,
        needs: 1,
    };
    let off = ProjectRow {
        id: "prj_2".into(),
        name: "other".into(),
        repo: "acme/other".into(),
        on: false,
        problems: vec!["configured, but off here: stewards enable turns it on".into()],
        efforts: 1,
        ..on.clone()
    };
    vec![on, off]
}

fn row_of(id: &str, role: Role, status: &'static str, parent: Option<&str>) -> ThreadRow {
    ThreadRow {
        id: id.into(),
        title: "Greet people by name".into(),
        role,
        status,
        parent: parent.map(str::to_owned),
        project: "demo".into(),
        key: Some("DEMO-1".into()),
        model: "claude-code/opus/high".into(),
        turns: 3,
        tokens: Tokens { input: 48_210, output: 3_977, estimated: true },
        context: Some(ContextUse { used: 61_000, window: Some(200_000) }),
        owner: parent.map(str::to_owned),
        permission: Permission::Full,
        queued: 0,
        waits: None,
        asks: 0,
        archived: false,
        unread: false,
        hidden: false,
        notify_parent: false,
        branch: (role == Role::Worker).then(|| "stewards/demo-1-greet".into()),
        metadata: std::collections::BTreeMap::new(),
        error: (status == "error").then(|| "the agent ended with status 1".into()),
        last_words: String::new(),
    }
}

fn statuses() -> Vec<ThreadRow> {
    let words = ["pending", "starting", "active", "idle", "stopping", "error"];
    let rows = words.iter().enumerate().map(|(n, s)| row_of(&format!("thr_2{n}"), Role::Worker, s, None));
    let archived = ThreadRow { archived: true, queued: 2, ..row_of("thr_29", Role::Reviewer, "archived", None) };
    rows.chain([archived]).collect()
}

fn key(n: u64) -> PullKey {
    PullKey { repo: RepoName("acme/demo".into()), number: n }
}

fn pulls() -> Vec<PullRow> {
    let linked = |n: u64, state, merge_sha: Option<&str>| LinkedPull {
        url: format!("https://github.com/acme/demo/pull/{n}"),
        title: "Greet people by name".into(),
        state,
        mergeable: Mergeable::Yes,
        rollup: Rollup::Green,
        merge_sha: merge_sha.map(str::to_owned),
        ..LinkedPull::named(key(n), "stewards/demo-1-greet", Some(stewards_core::ids::ThreadId("thr_4".into())))
    };
    let verdict = |n: u64, unmet: &[&str]| Verdict {
        pull: key(n),
        met: unmet.is_empty(),
        unmet: unmet.iter().map(|s| (*s).to_owned()).collect(),
        lane: "reviewed".into(),
        head_sha: "0123456789abcdef".into(),
        marker: None,
        approval: unmet.is_empty().then(|| "the reviewer's marker at 0123456".into()),
        checks: if unmet.is_empty() { "green" } else { "pending" }.into(),
        open_items: Vec::new(),
    };
    vec![
        PullRow { linked: linked(7, PullState::Open, None), gate: verdict(7, &[]) },
        PullRow {
            linked: linked(8, PullState::Open, None),
            gate: verdict(8, &["checks are still running", "no reviewer has judged it yet"]),
        },
        PullRow {
            linked: linked(6, PullState::Merged, Some("fedcba9876543210")),
            gate: verdict(6, &["it is merged already"]),
        },
    ]
}

fn detail() -> Detail {
    Detail {
        row: row("DEMO-1", Glyph::You, HOSTILE, "needs you: acme/demo#7 is ready to merge"),
        report: Some(Report {
            phase: Some("In Progress".into()),
            summary: "The greeting is written and reviewed. One check is still running.".into(),
            next_action: "the owner merges acme/demo#7".into(),
            actor: Actor::User,
            ready: Vec::new(),
            waiting_on: Some("the check `build`".into()),
            no_more_pulls: true,
            follow_through: Some("the release note".into()),
        }),
        leave: true,
        ready: vec![
            ReadyItem { number: 1, text: "The ticket says what is wanted".into(), met: true },
            ReadyItem { number: 2, text: "It says how to see that it works".into(), met: false },
        ],
        notes_pending: vec!["comment: Ada wrote: please keep the old name too".into()],
        trouble: Some("Linear answered 503, and is asked again in 30 s".into()),
        threads: vec![
            row_of("thr_3", Role::Steward, "idle", None),
            row_of("thr_4", Role::Worker, "active", Some("thr_3")),
        ],
        pulls: pulls(),
    }
}

fn messages() -> Vec<MessageRow> {
    let message = |n: u32, state: &str, turn: Option<&str>, text: &str| MessageRow {
        id: format!("msg_{n}"),
        thread: "thr_4".into(),
        sender: if n == 1 { Sender::System } else { Sender::Thread { id: ThreadId("thr_3".into()) } },
        cause: if n == 1 { "prompt" } else { "message" }.into(),
        text: text.into(),
        at: at(1).as_millisecond(),
        state: state.into(),
        turn: turn.map(str::to_owned),
        bus: None,
    };
    vec![
        message(1, "consumed", Some("turn_11"), "Write the greeting of DEMO-1.\n\nAsk when something is unclear."),
        message(2, "handed", Some("turn_12"), HOSTILE),
        message(3, "queued", None, "Keep the old name too"),
        message(4, "unknown", None, "Are you there?"),
        message(5, "failed", None, LONG),
    ]
}

fn lines() -> Lines {
    let bodies: [(&str, Value); 9] = [
        ("turn_11", json!({ "text": { "text": "I look at what is there first.\n\nThe greeting is in one place" } })),
        ("turn_11", json!({ "text": { "text": ", so this is a small change." } })),
        ("turn_11", json!({ "tool_call": { "id": "a", "title": "grep -rn greeting src" } })),
        (
            "turn_11",
            json!({ "tool_result": { "id": "a", "ok": true, "text": "src/lib.rs:12: pub fn greeting() -> &'static str {\n    \"hello\"\n}" } }),
        ),
        ("turn_11", json!({ "tool_call": { "id": "b", "title": "cargo test" } })),
        ("turn_11", json!({ "tool_result": { "id": "b", "ok": false, "text": "error: could not compile" } })),
        ("turn_11", json!({ "usage": { "input": 1200, "output": 340, "estimated": true } })),
        ("turn_12", json!({ "text": { "text": format!("{HOSTILE} {LONG}") } })),
        ("turn_12", json!({ "tool_call": { "id": "c", "title": "cargo test" } })),
    ];
    let line = |(n, (turn, body)): (usize, (&str, Value))| TranscriptLine {
        id: i64::try_from(n).unwrap_or_default(),
        turn: turn.into(),
        at: at(2).as_millisecond(),
        body,
    };
    Lines { all: bodies.into_iter().enumerate().map(line).collect(), last: 0, shortened: false }
}

fn message(seq: u64, kind: &str, body: Option<&str>) -> BusMessage {
    BusMessage {
        seq,
        kind: kind.into(),
        from: Some(ThreadId("thr_4".into())),
        to: ThreadId("thr_5".into()),
        fields: vec![("ref".into(), "pr:7".into()), ("what".into(), HOSTILE.into())],
        body: body.map(Into::into),
        at: at(4),
        dedupe: None,
        about: None,
    }
}

fn owed() -> Vec<OwedRow> {
    let m = message(3, "question", None);
    vec![OwedRow { seq: 3, kind: m.kind, from: None, to: m.to, fields: m.fields, at: m.at, command: String::new() }]
}

fn held() -> Vec<ClaimRow> {
    let row = |key: &str, stale: bool, granted| ClaimRow {
        key: key.into(),
        spelled: key.into(),
        holder: (!stale).then(|| ThreadId("thr_4".into())),
        reason: LONG.into(),
        since: at(1),
        expires: at(31),
        stale,
        epoch: 4,
        granted,
        waiters: Vec::new(),
    };
    vec![row("pr:acme/demo#7", false, false), row("store:memory", false, true), row("task:DEMO-1", true, false)]
}

fn kept() -> Kept {
    let row = |m: BusMessage, state: Option<&str>| BusRow { message: m, state: state.map(Into::into) };
    let kinds = ["finding", "note"].map(|kind| KindCount { kind: kind.into(), messages: 3 });
    let stats = BusStats {
        messages: 6,
        kinds: kinds.into(),
        note_share: 0.5,
        undelivered: [("failed".to_owned(), 1)].into(),
        answers: 2,
        median_ms_to_answer: Some(80_000),
        senders: vec![SenderCount { sender: "thr_4".into(), messages: 6 }],
    };
    let failed = row(message(4, "finding", None), Some("failed"));
    let said = row(message(5, "note", Some(LONG)), Some("consumed"));
    Kept { stats, undelivered: vec![failed.clone()], recent: vec![failed, said] }
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;
    use std::collections::BTreeSet;

    fn page() -> String {
        let form = Form { csrf: "c5rf".into(), page: "/parts".into(), refused: None };
        let html = layout::whole(&draw(&form), None).into_string();
        // Lets a person look at the parts without a daemon.
        if let Some(file) = std::env::var_os("STEWARDS_PARTS_TO") {
            std::fs::write(file, &html).expect("the parts are written");
        }
        html
    }

    #[test]
    fn every_state_is_on_the_parts_page() {
        let html = page();
        for part in ["needs you", "blocked", "running", "quiet", "Not yet: ", "Refused: ", "estimated", "queued"] {
            assert!(html.contains(part), "{part}");
        }
        assert!(html.contains(r#"name="csrf" value="c5rf""#));
    }

    #[test]
    fn what_strangers_wrote_is_never_markup() {
        let html = page();
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(!html.contains("<script>alert") && !html.contains("<b>hello"));
        assert!(!html.contains(" style=") && !html.contains(" onclick="));
    }

    #[test]
    fn region_names_are_used_once() {
        let form = Form::default();
        let page = draw(&form);
        let names: BTreeSet<&str> = page.regions.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(names.len(), page.regions.len());
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert!(!parts::outward("javascript:alert(1)", "x").into_string().contains("href"));
        assert!(parts::outward("https://example.com/\"><b>", "x").into_string().contains("&quot;&gt;&lt;b&gt;"));
    }
}
