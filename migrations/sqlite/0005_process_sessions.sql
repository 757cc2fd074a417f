-- Whether the standard input was open when the run began.
ALTER TABLE runs ADD COLUMN stdin_open INTEGER NOT NULL DEFAULT 0;

-- Process sessions: runs that went to the background, and what commands left running. One that is forgotten has no
-- row any more; its run stays. `ended_ms` and `killed` are those of leftovers: a run has its own end.
CREATE TABLE process_sessions (
    seq          INTEGER PRIMARY KEY,
    session_id   TEXT NOT NULL UNIQUE,
    run_id       TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    agent_id     TEXT NOT NULL,
    kind         TEXT NOT NULL,
    stdin_closed INTEGER NOT NULL DEFAULT 0,
    ended_ms     INTEGER,
    killed       INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run_id, kind)
) STRICT;
CREATE INDEX process_sessions_by_agent ON process_sessions (agent_id, seq);

INSERT OR IGNORE INTO process_sessions (session_id, run_id, agent_id, kind)
SELECT session_id, run_id, agent_id, 'run' FROM runs
WHERE session_id IS NOT NULL AND status IN ('launching', 'running') ORDER BY seq;
