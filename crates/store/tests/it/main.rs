//! The store against the real SQLite.

use stewards_core::ids::{ProjectId, ThreadId, TurnId};
use stewards_core::machine::{Event, Sent, Settings, View, decide};
use stewards_core::moment::Moment;
use stewards_store::{DirLock, LockError, Reader, Store, sql};

fn moment(no: u64) -> Moment {
    Moment { wall: jiff::Timestamp::from_millisecond(1_000 * no as i64).unwrap(), elapsed: 0, run: 1, no }
}

/// Decides and records one event.
fn take(store: &mut Store, event: &Event) {
    let world = store.load().unwrap();
    let no = store.last_event().unwrap() + 1;
    let outcome =
        decide(&View { world: &world, seen: None, delivered: false, sent: Sent::default() }, event, &moment(no))
            .unwrap();
    let batch = store.batch().unwrap();
    batch.record(event, &outcome).unwrap();
    batch.commit().unwrap();
}

fn project() -> Event {
    let repo = stewards_core::entity::RepoName("acme/shop".into());
    Event::ProjectAdded { name: "shop".into(), repo, remote: "http://x/shop.git".into() }
}

#[test]
fn every_statement_can_be_prepared() {
    let store = Store::in_memory().unwrap();
    for (name, text) in sql::ALL {
        if !name.starts_with("SAVEPOINT") {
            store.connection().prepare(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn rows_are_the_fold_of_the_facts() {
    let mut store = Store::in_memory().unwrap();
    take(&mut store, &Event::RunBegan { settings: Settings::default() });
    take(&mut store, &project());
    let id = ProjectId::minted(2, 0);
    take(&mut store, &Event::Switched { project: id.clone(), on: true });
    let loaded = store.load().unwrap();
    assert!(loaded.projects.get(&id).unwrap().on);
    assert_eq!(loaded, store.refold().unwrap());
    assert_eq!(store.outbox().unwrap().len(), 1);
}

#[test]
fn facts_can_be_neither_changed_nor_deleted() {
    let mut store = Store::in_memory().unwrap();
    take(&mut store, &Event::RunBegan { settings: Settings::default() });
    for statement in ["UPDATE facts SET body = '{}'", "DELETE FROM facts"] {
        let error = store.connection().execute(statement, []).unwrap_err();
        assert!(error.to_string().contains("append-only"), "{error}");
    }
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    let mut store = Store::in_memory().unwrap();
    let world = store.load().unwrap();
    let outcome =
        decide(&View { world: &world, seen: None, delivered: false, sent: Sent::default() }, &project(), &moment(1))
            .unwrap();
    let batch = store.batch().unwrap();
    batch.record(&project(), &outcome).unwrap();
    drop(batch);
    assert_eq!((store.last_event().unwrap(), store.outbox().unwrap().len()), (0, 0));
}

#[test]
fn a_second_daemon_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let held = DirLock::take(dir.path(), "pid 4711").unwrap();
    match DirLock::take(dir.path(), "pid 4712") {
        Err(LockError::Held(owner)) => assert_eq!(owner, "pid 4711"),
        other => panic!("{other:?}"),
    }
    drop(held);
    DirLock::take(dir.path(), "pid 4712").unwrap();
}

#[test]
fn a_reader_sees_what_was_committed_while_the_writer_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(stewards_store::FILE);
    let mut store = Store::open(&path).unwrap();
    take(&mut store, &project());
    let (thread, turn) = (ThreadId("thr_1".into()), TurnId("turn_1".into()));
    let batch = store.batch().unwrap();
    batch.transcribe(&thread, &turn, 5, r#"{"text":"hi"}"#).unwrap();
    batch.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.journal(0, 100).unwrap().len(), 1);
    assert_eq!(reader.transcript(&thread, 0, 10).unwrap()[0].body["text"], "hi");
    assert_eq!(reader.world().unwrap(), store.load().unwrap());
}

#[test]
fn readers_go_on_while_a_transcript_is_purged_under_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(stewards_store::FILE);
    let mut store = Store::open(&file).unwrap();
    take(&mut store, &project());
    let (thread, turn) = (ThreadId("thr_9".into()), TurnId("turn_9".into()));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let reader = Reader::open(&file).unwrap();
                    let mut most = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let found = reader.transcript_end(&thread, 10_000).expect("it is never busy");
                        // All of a purge or nothing of it.
                        assert!(found.len().is_multiple_of(500), "{}", found.len());
                        most = most.max(found.len());
                    }
                    most
                })
            })
            .collect();
        for _ in 0..20 {
            let batch = store.batch().unwrap();
            for _ in 0..500 {
                batch.transcribe(&thread, &turn, 0, &format!("{{\"text\":\"{}\"}}", "x".repeat(500))).unwrap();
            }
            batch.commit().unwrap();
            store.connection().execute("DELETE FROM transcript", []).unwrap();
            store.shrink().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(readers.into_iter().map(|r| r.join().unwrap()).max() > Some(0));
    });
}

#[test]
fn a_purged_transcript_gives_its_room_back_and_a_backup_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(stewards_store::FILE);
    let mut store = Store::open(&file).unwrap();
    take(&mut store, &project());
    let (thread, turn) = (ThreadId("thr_9".into()), TurnId("turn_9".into()));
    let batch = store.batch().unwrap();
    for _ in 0..5_000 {
        batch.transcribe(&thread, &turn, 0, &format!("{{\"text\":\"{}\"}}", "x".repeat(2_000))).unwrap();
    }
    batch.commit().unwrap();
    let copy = dir.path().join("copy.db");
    Reader::open(&file).unwrap().backup(&copy).unwrap();
    assert!(Reader::open(&file).unwrap().backup(&copy).is_err(), "nothing is written over");
    assert_eq!(store.shrink().unwrap(), 0, "nothing is free yet");
    store.connection().execute("DELETE FROM transcript", []).unwrap();
    let freed = store.shrink().unwrap();
    assert!(freed > 8_000_000, "{freed}");
    assert!(std::fs::metadata(&file).unwrap().len() < 1_000_000);
    let kept = Reader::open(&copy).unwrap();
    assert_eq!(kept.transcript_end(&thread, 10_000).unwrap().len(), 5_000);
    assert_eq!(kept.world().unwrap().projects.len(), 1);
}
