-- Devices that a person let in as nodes. `profile` is what a device said when it connected last, `approved` what was
-- approved of it. Of tokens only the SHA-256 is here: the present one, and the one before it until the present one was
-- used once.
CREATE TABLE nodes (
    node_id         TEXT PRIMARY KEY,
    public_key      TEXT NOT NULL,
    label           TEXT,
    profile         TEXT NOT NULL,
    approved        TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    protocol        INTEGER,
    created_ms      INTEGER NOT NULL,
    approved_ms     INTEGER NOT NULL,
    revoked_ms      INTEGER,
    last_seen_ms    INTEGER,
    token_sha256    TEXT,
    previous_sha256 TEXT
) STRICT;

-- Questions to a person about devices: one of each kind for a device.
CREATE TABLE node_pairings (
    request_id   TEXT PRIMARY KEY,
    kind         TEXT NOT NULL,
    node_id      TEXT NOT NULL,
    public_key   TEXT NOT NULL,
    profile      TEXT NOT NULL,
    is_repair    INTEGER NOT NULL,
    requested_ms INTEGER NOT NULL,
    UNIQUE (node_id, kind)
) STRICT;
