-- The token that a link signs in as; NULL for the operator's.
ALTER TABLE login_links ADD COLUMN token_id TEXT;
