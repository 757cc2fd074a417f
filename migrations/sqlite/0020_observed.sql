-- What was seen of the programs that those of a run started, as JSON. NULL where that was not observed.
ALTER TABLE runs ADD COLUMN observed TEXT;
