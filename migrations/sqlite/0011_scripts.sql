-- Whether the scripts of a run are read as they were judged: held, or not held and why. NULL without scripts.
ALTER TABLE runs ADD COLUMN scripts TEXT;
