-- Each run entered an index that it left again, and one whose order is that of `seq`: pages that every run wrote.
-- Runs that have not ended are now those from `unfinished_from` on, and the few before it that `unfinished` lists. A moment is
-- found by halving, since times never go back along `seq`.
CREATE TABLE unfinished (seq INTEGER PRIMARY KEY) STRICT;
INSERT INTO unfinished SELECT seq FROM runs WHERE status IN ('requested', 'asking', 'launching', 'running');
INSERT INTO meta (key, value) SELECT 'unfinished_from', coalesce(max(seq), 0) + 1 FROM runs;
DROP INDEX runs_unfinished;
DROP INDEX runs_by_time;
