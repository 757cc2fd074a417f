-- What a command can be told after it was judged: closed, withheld, pipe, guarded-terminal or terminal.
ALTER TABLE runs ADD COLUMN input TEXT NOT NULL DEFAULT 'closed';
UPDATE runs SET input = CASE WHEN pty = 1 THEN 'terminal' ELSE 'pipe' END WHERE stdin_open = 1;
ALTER TABLE runs DROP COLUMN stdin_open;
