-- What makes the sandbox of a run: the end of a container's client means something else than that of a command.
-- Null for other hosts.
ALTER TABLE runs ADD COLUMN sandbox TEXT;
