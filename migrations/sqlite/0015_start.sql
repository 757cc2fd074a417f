-- How the text of a run is started: direct or shell. NULL where no host shell reads one, and for older runs.
ALTER TABLE runs ADD COLUMN start TEXT;
