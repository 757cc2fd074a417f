-- Tokens that were made for a one-time link. Nobody has their secret, so one that has ended is of no use to anybody.
ALTER TABLE tokens ADD COLUMN for_link INTEGER NOT NULL DEFAULT 0;
UPDATE tokens SET for_link = 1 WHERE id IN (SELECT token_id FROM login_links WHERE token_id IS NOT NULL);
CREATE INDEX ended_link_tokens ON tokens (expires_ms) WHERE for_link = 1;
