-- How firmly a run is what was judged: exact, path or text. NULL for what was denied at once, and for older runs.
ALTER TABLE runs ADD COLUMN binding TEXT;
