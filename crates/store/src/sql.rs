//! Every statement, by name. A test prepares each of them.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// All of them, for the test.
        pub const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    META_GET = "SELECT value FROM meta WHERE key = ?1";
    META_PUT = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    PROJECT_PUT = "INSERT INTO projects (id, repo, body) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET repo = excluded.repo, body = excluded.body";
    BINDING_PUT = "INSERT INTO bindings (id, entity, project, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET project = excluded.project, body = excluded.body";
    BINDING_DELETE = "DELETE FROM bindings WHERE id = ?1";
    THREAD_PUT = "INSERT INTO threads (id, project, body) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    NEED_PUT = "INSERT INTO needs (id, project, body) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET body = excluded.body";
    CLAIM_PUT = "INSERT INTO claims (key, holder, body) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, body = excluded.body";
    CLAIM_DELETE = "DELETE FROM claims WHERE key = ?1";
    WAITER_PUT = "INSERT INTO claim_waiters (seq, key, who, body) VALUES (?1, ?2, ?3, ?4)";
    WAITER_DELETE = "DELETE FROM claim_waiters WHERE seq = ?1";
    WAITERS = "SELECT body FROM claim_waiters ORDER BY seq";
    HISTORY_ADD = "INSERT INTO claim_history (key, no, n) VALUES (?1, ?2, ?3)";
    HISTORY_OF = "SELECT f.no, f.n, f.subject, f.body, e.at FROM claim_history h JOIN facts f USING (no, n) JOIN events e USING (no) WHERE h.key = ?1 ORDER BY h.no DESC, h.n DESC LIMIT ?2";
    PROJECTS = "SELECT body FROM projects ORDER BY id";
    BINDINGS = "SELECT body FROM bindings ORDER BY id";
    THREADS = "SELECT body FROM threads ORDER BY id";
    NEEDS = "SELECT body FROM needs ORDER BY id";
    CLAIMS = "SELECT body FROM claims ORDER BY key";
    EVENT_ADD = "INSERT INTO events (no, run, at, elapsed, subject, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    EVENT_LAST = "SELECT coalesce(max(no), 0) FROM events";
    FACT_ADD = "INSERT INTO facts (no, n, subject, body) VALUES (?1, ?2, ?3, ?4)";
    FACTS_ALL = "SELECT f.no, f.subject, f.body, e.at, e.run, e.elapsed FROM facts f JOIN events e USING (no) ORDER BY f.no, f.n";
    FACTS_AFTER = "SELECT f.no, f.n, f.subject, f.body, e.at FROM facts f JOIN events e USING (no) WHERE f.no > ?1 ORDER BY f.no, f.n LIMIT ?2";
    FACTS_OF = "SELECT f.no, f.n, f.subject, f.body, e.at FROM facts f JOIN events e USING (no) WHERE f.subject = ?1 ORDER BY f.no, f.n";
    EFFECT_ADD = "INSERT INTO outbox (id, key, state, attempts, not_before, body) VALUES (?1, ?2, 'pending', 0, NULL, ?3) ON CONFLICT (key) DO NOTHING";
    EFFECT_DONE = "DELETE FROM outbox WHERE id = ?1";
    EFFECT_AGAIN = "UPDATE outbox SET state = 'pending', attempts = ?2, not_before = ?3 WHERE id = ?1";
    EFFECT_START = "UPDATE outbox SET state = 'started' WHERE id = ?1";
    EFFECTS = "SELECT id, state, attempts, not_before, body FROM outbox ORDER BY id";
    MESSAGE_ADD = "INSERT INTO messages (id, thread, sender, cause, text, at, state, turn, bus, wake, steer, back) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued', NULL, ?7, ?8, ?9, 0)";
    MESSAGES_QUEUED = "SELECT thread, id, sender, cause, text, at, bus, wake, steer, back FROM messages WHERE state = 'queued' AND state <> 'consumed'";
    MESSAGE_BACK = "UPDATE messages SET state = 'queued', turn = NULL, steer = 0, back = 1 WHERE id = ?1";
    // A bus message that is delivered again has one receipt, the newest.
    MESSAGE_SUPERSEDED = "UPDATE messages SET bus = NULL WHERE bus = ?1";
    MESSAGE_STATE = "UPDATE messages SET state = ?2, turn = coalesce(?3, turn) WHERE id = ?1";
    MESSAGES_PURGE = "DELETE FROM messages WHERE thread = ?1";
    TRANSCRIPT_PURGE = "DELETE FROM transcript WHERE thread = ?1";
    MESSAGES_OF_TURN = "UPDATE messages SET state = ?2 WHERE turn = ?1 AND state = 'handed' AND state <> 'consumed'";
    MESSAGES_OF = "SELECT id, thread, sender, cause, text, at, state, turn, bus FROM messages WHERE thread = ?1 ORDER BY at, id";
    MESSAGES_OPEN = "SELECT id, thread, sender, cause, text, at, state, turn, bus FROM messages WHERE state IN ('queued', 'handed') AND state <> 'consumed' ORDER BY at, id";
    BUS_ADD = "INSERT INTO bus (seq, kind, sender, addressee, ref, at, owed, dedupe, answers, no, n, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    BUS_ONE = "SELECT b.body, m.state FROM bus b LEFT JOIN messages m ON m.bus = b.seq WHERE b.seq = ?1";
    BUS_OF_KIND = "SELECT count(*) FROM bus INDEXED BY bus_kind WHERE kind = ?1 AND at >= ?2";
    BUS_STATES = "SELECT state, count(*) FROM messages WHERE bus IS NOT NULL AND state <> 'consumed' AND state IN ('queued', 'handed', 'unknown', 'failed') GROUP BY state";
    BUS_ANSWER_TIMES = "SELECT a.at - q.at FROM bus a INDEXED BY bus_answers JOIN bus q ON q.seq = a.answers WHERE a.answers IS NOT NULL AND a.at >= ?1";
    BUS_SENDERS = "SELECT sender, count(*) FROM bus INDEXED BY bus_sender WHERE at >= ?1 GROUP BY sender ORDER BY count(*) DESC, sender LIMIT ?2";
    // What may be forgotten: it is owed no answer and does not wait.
    BUS_UP_TO = "SELECT coalesce((SELECT seq FROM bus INDEXED BY bus_at WHERE at < ?1 ORDER BY at DESC, seq DESC LIMIT 1), 0)";
    BUS_OLD = "SELECT seq, no, n FROM bus b WHERE seq <= ?1 AND owed = 0 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.bus = b.seq AND m.state IN ('queued', 'handed')) ORDER BY seq LIMIT ?2";
    BUS_HAS = "SELECT 1 FROM bus WHERE seq = ?1";
    BUS_FORGET = "DELETE FROM bus WHERE seq = ?1";
    RECEIPT_FORGET = "DELETE FROM messages WHERE bus = ?1";
    HISTORY_FORGET = "DELETE FROM claim_history WHERE key = ?1 AND no = ?2 AND n = ?3";
    EVENT_AT = "SELECT no, at FROM events WHERE no >= ?1 ORDER BY no LIMIT 1";
    FACTS_BEFORE = "SELECT no, n, body FROM facts WHERE subject = ?1 AND no < ?2 ORDER BY no, n LIMIT ?3";
    FACT_FORGET = "DELETE FROM facts WHERE no = ?1 AND n = ?2";
    EVENT_FORGET = "DELETE FROM events WHERE no = ?1 AND NOT EXISTS (SELECT 1 FROM facts WHERE no = ?1)";
    GUARD_OPEN = "INSERT INTO purge_guard (open) VALUES (1)";
    GUARD_CLOSE = "DELETE FROM purge_guard";
    BUS_CLOSED = "UPDATE bus SET owed = 0 WHERE seq = ?1";
    BUS_OWED = "SELECT body FROM bus WHERE owed = 1 ORDER BY seq";
    BUS_SAME = "SELECT addressee, seq FROM bus WHERE dedupe = ?1 AND sender = ?2 AND kind = ?3";
    BUS_RECENT = "SELECT count(*) FROM (SELECT 1 FROM bus WHERE sender = ?1 AND at > ?2 LIMIT ?3)";
    // The newest that fit, by the index of what is named; oldest first.
    BUS_LOG = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_at WHERE b.at >= ?5 AND b.at < ?6 AND (?1 IS NULL OR b.kind = ?1) AND (?2 IS NULL OR b.sender = ?2) AND (?3 IS NULL OR b.addressee = ?3) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_KIND = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_kind WHERE b.kind = ?1 AND b.at >= ?5 AND b.at < ?6 AND (?2 IS NULL OR b.sender = ?2) AND (?3 IS NULL OR b.addressee = ?3) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_SENDER = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_sender WHERE b.sender = ?2 AND b.at >= ?5 AND b.at < ?6 AND (?1 IS NULL OR b.kind = ?1) AND (?3 IS NULL OR b.addressee = ?3) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_SENDER_KIND = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_sender_kind WHERE b.sender = ?2 AND b.kind = ?1 AND b.at >= ?5 AND b.at < ?6 AND (?3 IS NULL OR b.addressee = ?3) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_SENDER_ADDRESSEE = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_sender_addressee WHERE b.sender = ?2 AND b.addressee = ?3 AND b.at >= ?5 AND b.at < ?6 AND (?1 IS NULL OR b.kind = ?1) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_ADDRESSEE = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_addressee WHERE b.addressee = ?3 AND b.at >= ?5 AND b.at < ?6 AND (?1 IS NULL OR b.kind = ?1) AND (?2 IS NULL OR b.sender = ?2) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_ADDRESSEE_KIND = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_addressee_kind WHERE b.addressee = ?3 AND b.kind = ?1 AND b.at >= ?5 AND b.at < ?6 AND (?2 IS NULL OR b.sender = ?2) AND (?4 IS NULL OR b.ref = ?4) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_REF = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_ref WHERE b.ref = ?4 AND b.at >= ?5 AND b.at < ?6 AND (?1 IS NULL OR b.kind = ?1) AND (?2 IS NULL OR b.sender = ?2) AND (?3 IS NULL OR b.addressee = ?3) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_LOG_REF_KIND = "SELECT l.body, m.state FROM (SELECT seq, body FROM bus b INDEXED BY bus_ref_kind WHERE b.ref = ?4 AND b.kind = ?1 AND b.at >= ?5 AND b.at < ?6 AND (?2 IS NULL OR b.sender = ?2) AND (?3 IS NULL OR b.addressee = ?3) ORDER BY b.at DESC, b.seq DESC LIMIT ?7) l LEFT JOIN messages m ON m.bus = l.seq ORDER BY l.seq";
    BUS_UNREAD = "SELECT b.body, m.state FROM messages m JOIN bus b ON b.seq = m.bus WHERE m.bus IS NOT NULL AND m.state IN ('queued', 'handed') AND m.state <> 'consumed' AND m.thread = ?1 ORDER BY b.seq LIMIT ?2";
    BUS_UNDELIVERED = "SELECT b.body, m.state FROM messages m JOIN bus b ON b.seq = m.bus WHERE m.bus IS NOT NULL AND m.state <> 'consumed' AND m.state IN ('queued', 'handed', 'unknown', 'failed') ORDER BY b.seq DESC LIMIT ?1";
    DELIVERY_ADD = "INSERT INTO deliveries (delivery, at) VALUES (?1, ?2) ON CONFLICT (delivery) DO NOTHING";
    DELIVERY_SEEN = "SELECT 1 FROM deliveries WHERE delivery = ?1";
    DELIVERIES_FORGET = "DELETE FROM deliveries WHERE at < ?1";
    SNAPSHOT_ADD = "INSERT INTO snapshots (hash, body) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";
    SNAPSHOT_GET = "SELECT body FROM snapshots WHERE hash = ?1";
    TRANSCRIPT_ADD = "INSERT INTO transcript (thread, turn, at, body) VALUES (?1, ?2, ?3, ?4)";
    TRANSCRIPT_OF = "SELECT id, turn, at, body FROM transcript WHERE thread = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    TRANSCRIPT_END = "SELECT id, turn, at, body FROM (SELECT id, turn, at, body FROM transcript WHERE thread = ?1 ORDER BY id DESC LIMIT ?2) ORDER BY id";
    BACKUP = "VACUUM INTO ?1";
    SHRINK = "PRAGMA incremental_vacuum";
    CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)";
    SAVEPOINT = "SAVEPOINT event";
    SAVEPOINT_BACK = "ROLLBACK TO event";
    SAVEPOINT_RELEASE = "RELEASE event";
}
