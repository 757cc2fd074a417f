-- A revision: an approver changed the command, and a new approval took the place of the old one.
ALTER TABLE approvals ADD COLUMN revises TEXT;
ALTER TABLE approvals ADD COLUMN revised_by TEXT;
