-- One file holds everything. Times are whole milliseconds, UTC.
-- Rows are the fold of the facts; `body` is the row as JSON, and the other
-- columns of a row are only what is searched or constrained by.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- One project a repository; a deleted one has none.
CREATE TABLE projects (id TEXT PRIMARY KEY, repo TEXT UNIQUE, body TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE bindings (
  id TEXT PRIMARY KEY,
  -- One watch on an entity on this server.
  entity TEXT NOT NULL UNIQUE,
  project TEXT NOT NULL REFERENCES projects(id) DEFERRABLE INITIALLY DEFERRED,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL REFERENCES projects(id) DEFERRABLE INITIALLY DEFERRED,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE needs (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL REFERENCES projects(id) DEFERRABLE INITIALLY DEFERRED,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- First holder wins: a key has one row.
CREATE TABLE claims (key TEXT PRIMARY KEY, holder TEXT, body TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- The lines for what is held: a thread has one place in each.
CREATE TABLE claim_waiters (
  seq INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  who TEXT NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (key, who)
) STRICT;

-- Which facts tell of a resource: who held it when, and who waited for it.
CREATE TABLE claim_history (
  key TEXT NOT NULL,
  no INTEGER NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (key, no, n)
) STRICT, WITHOUT ROWID;

-- The journal.
CREATE TABLE events (
  no INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  at INTEGER NOT NULL,
  elapsed INTEGER NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE facts (
  no INTEGER NOT NULL REFERENCES events(no),
  n INTEGER NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (no, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX facts_of ON facts (subject, no);

CREATE TRIGGER facts_are_kept BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
-- Purging a subject takes a guard row, so that no other statement can.
CREATE TABLE purge_guard (open INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER facts_are_not_deleted BEFORE DELETE ON facts WHEN NOT EXISTS (SELECT 1 FROM purge_guard)
BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;

-- What is still to be done outside. A row leaves when its answer is recorded.
CREATE TABLE outbox (
  id TEXT PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'started')),
  attempts INTEGER NOT NULL,
  not_before TEXT,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Receipts: every accepted message ends in one of the last four states.
CREATE TABLE messages (
  id TEXT PRIMARY KEY,
  thread TEXT NOT NULL,
  sender TEXT NOT NULL,
  cause TEXT NOT NULL,
  text TEXT NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'handed', 'consumed', 'dropped', 'unknown', 'failed')),
  turn TEXT,
  bus INTEGER,
  -- What it is in a queue.
  wake INTEGER NOT NULL,
  steer INTEGER NOT NULL,
  back INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_of ON messages (thread, at);
CREATE INDEX messages_bus ON messages (bus) WHERE bus IS NOT NULL;
CREATE INDEX messages_open ON messages (state, bus) WHERE state <> 'consumed';

CREATE TABLE bus (
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  -- Threads, or `owner`.
  sender TEXT NOT NULL,
  addressee TEXT NOT NULL,
  ref TEXT,
  at INTEGER NOT NULL,
  -- 1 while an answer is owed.
  owed INTEGER NOT NULL,
  dedupe TEXT,
  -- The message that it answers.
  answers INTEGER,
  -- Its fact.
  no INTEGER NOT NULL,
  n INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
-- One for each way in which the log is asked for, newest first.
CREATE INDEX bus_at ON bus (at);
CREATE INDEX bus_kind ON bus (kind, at);
CREATE INDEX bus_sender ON bus (sender, at);
CREATE INDEX bus_sender_kind ON bus (sender, kind, at);
CREATE INDEX bus_sender_addressee ON bus (sender, addressee, at);
CREATE INDEX bus_addressee ON bus (addressee, at);
CREATE INDEX bus_addressee_kind ON bus (addressee, kind, at);
CREATE INDEX bus_ref ON bus (ref, at) WHERE ref IS NOT NULL;
CREATE INDEX bus_ref_kind ON bus (ref, kind, at) WHERE ref IS NOT NULL;
CREATE INDEX bus_owed ON bus (seq) WHERE owed = 1;
CREATE INDEX bus_answers ON bus (at, answers) WHERE answers IS NOT NULL;
CREATE INDEX bus_dedupe ON bus (dedupe, sender) WHERE dedupe IS NOT NULL;

CREATE TABLE deliveries (delivery TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- Once per content.
CREATE TABLE snapshots (hash TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE transcript (
  id INTEGER PRIMARY KEY,
  thread TEXT NOT NULL,
  turn TEXT NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX transcript_of ON transcript (thread, id);
