-- A run is a command or a patch; the text of a patch stands where that of a command does.
ALTER TABLE runs ADD COLUMN tool TEXT NOT NULL DEFAULT 'exec';
