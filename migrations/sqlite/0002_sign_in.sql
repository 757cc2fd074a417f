-- One-time links that sign a browser in. Only the SHA-256 of a code is here; a used link is gone.
CREATE TABLE login_links (
    sha256     TEXT PRIMARY KEY,
    made_by    TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Browsers that are signed in: each stands for a token and has the SHA-256 of its two secrets.
CREATE TABLE sign_ins (
    id            TEXT PRIMARY KEY,
    token_id      TEXT NOT NULL REFERENCES tokens (id),
    sha256        TEXT NOT NULL UNIQUE,
    second_sha256 TEXT NOT NULL,
    created_ms    INTEGER NOT NULL,
    expires_ms    INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_ins_by_token ON sign_ins (token_id, created_ms);
