-- Who answered what, where a question takes several people: a JSON list in the order of their answers. What it takes is in
-- the card.
ALTER TABLE approvals ADD COLUMN votes_json TEXT NOT NULL DEFAULT '[]';
