-- The emergency stop that is in force; no row, none. Its history is in the audit record.
CREATE TABLE stop (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    -- Who stopped everything, as JSON.
    by_json     TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    -- Who had what runs killed, as JSON; NULL while it goes on.
    killed_json TEXT,
    -- Who proposed to resume, as JSON, where another owner has to accept that.
    resume_json TEXT
) STRICT;
