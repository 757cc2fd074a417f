-- The ledger: history and coordination. Times are Unix milliseconds, hashes lower-case hex.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) WITHOUT ROWID, STRICT;

-- `seq` follows the order of admission, so it also orders lists and cursors.
CREATE TABLE runs (
    seq            INTEGER PRIMARY KEY,
    run_id         TEXT NOT NULL UNIQUE,
    status         TEXT NOT NULL,
    host           TEXT NOT NULL,
    node_id        TEXT,
    agent_id       TEXT NOT NULL,
    session_key    TEXT NOT NULL,
    command        TEXT NOT NULL,
    argv_json      TEXT,
    cwd            TEXT NOT NULL,
    env_names      TEXT NOT NULL,
    asked_by_kind  TEXT NOT NULL,
    asked_by_id    TEXT NOT NULL,
    asked_by_name  TEXT NOT NULL,
    security       TEXT NOT NULL,
    ask            TEXT NOT NULL,
    verdict        TEXT,
    verdict_by     TEXT,
    reason         TEXT,
    detail         TEXT,
    approval_id    TEXT,
    session_id     TEXT,
    pid            INTEGER,
    pty            INTEGER NOT NULL,
    background     INTEGER NOT NULL,
    keyed          INTEGER NOT NULL,
    diverted       INTEGER NOT NULL,
    isolation      TEXT NOT NULL,
    timeout_ms     INTEGER,
    created_ms     INTEGER NOT NULL,
    started_ms     INTEGER,
    ended_ms       INTEGER,
    exit_code      INTEGER,
    exit_signal    TEXT,
    timed_out      INTEGER NOT NULL DEFAULT 0,
    truncated      INTEGER NOT NULL DEFAULT 0,
    output_bytes   INTEGER NOT NULL DEFAULT 0,
    tail           TEXT NOT NULL DEFAULT '',
    warnings       TEXT NOT NULL DEFAULT '[]',
    launch_id      TEXT,
    epoch          INTEGER,
    boot_id        TEXT,
    launched_ms    INTEGER,
    not_after_ms   INTEGER,
    binding_digest TEXT,
    spooled        INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_by_agent ON runs (agent_id);
CREATE INDEX runs_by_session ON runs (session_key);
CREATE INDEX runs_by_time ON runs (created_ms);
CREATE INDEX runs_unfinished ON runs (status) WHERE status IN ('requested', 'asking', 'launching', 'running');

-- Output of at most 64 KiB, in the spool's frames; longer output lies in a file.
CREATE TABLE outputs (
    run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    frames BLOB NOT NULL
) STRICT;

CREATE TABLE approvals (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    run_id          TEXT NOT NULL UNIQUE REFERENCES runs (run_id) ON DELETE CASCADE,
    agent_id        TEXT NOT NULL,
    session_key     TEXT NOT NULL,
    status          TEXT NOT NULL,
    card_json       TEXT NOT NULL,
    binding_digest  TEXT NOT NULL,
    env_sealed      BLOB,
    asked_by_kind   TEXT NOT NULL,
    asked_by_id     TEXT NOT NULL,
    asked_by_name   TEXT NOT NULL,
    created_ms      INTEGER NOT NULL,
    expires_ms      INTEGER NOT NULL,
    decision        TEXT,
    reason          TEXT,
    resolved_ms     INTEGER,
    resolved_kind   TEXT,
    resolved_id     TEXT,
    resolved_name   TEXT,
    terminal_reason TEXT,
    consumed_ms     INTEGER,
    persist         TEXT NOT NULL DEFAULT 'none',
    chosen_json     TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX approvals_pending ON approvals (expires_ms) WHERE status = 'pending';
CREATE INDEX approvals_to_persist ON approvals (persist) WHERE persist = 'todo';

-- An Idempotency-Key points at its run, or keeps the answer of a call that has none.
CREATE TABLE idempotency (
    token_id    TEXT NOT NULL,
    key         TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    run_id      TEXT,
    status      INTEGER,
    answer      TEXT,
    created_ms  INTEGER NOT NULL,
    PRIMARY KEY (token_id, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX idempotency_by_time ON idempotency (created_ms);

CREATE TABLE events (
    seq         INTEGER PRIMARY KEY,
    ts          INTEGER NOT NULL,
    type        TEXT NOT NULL,
    run_id      TEXT,
    approval_id TEXT,
    agent_id    TEXT,
    session_key TEXT,
    owner_token TEXT,
    data        TEXT NOT NULL
) STRICT;

-- `body` is the canonical JSON that `hash` covers; the columns beside it only serve searches.
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY,
    actor_id TEXT NOT NULL,
    action   TEXT NOT NULL,
    body     TEXT NOT NULL,
    hash     TEXT NOT NULL,
    mac      TEXT NOT NULL
) STRICT;

CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    sha256       TEXT NOT NULL UNIQUE,
    scopes       TEXT NOT NULL,
    agents       TEXT,
    groups       TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    expires_ms   INTEGER,
    last_used_ms INTEGER,
    revoked_ms   INTEGER
) STRICT;

-- Outlives the runs: a grant's uses count for as long as the grant stands in the document.
CREATE TABLE grant_uses (
    owner    TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    run_id   TEXT NOT NULL,
    used_ms  INTEGER NOT NULL,
    PRIMARY KEY (owner, entry_id, run_id)
) WITHOUT ROWID, STRICT;
