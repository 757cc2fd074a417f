-- The owner of a token. Tokens of earlier versions are the operator's, whose token made them.
ALTER TABLE tokens ADD COLUMN owner TEXT NOT NULL DEFAULT 'operator';

-- Who proposed a token that an admin of another owner has to accept, as JSON; NULL for one that needs no acceptance.
ALTER TABLE tokens ADD COLUMN proposed_json TEXT;
