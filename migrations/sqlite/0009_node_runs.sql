-- What a run was launched with on its node, written in the launch itself: before a frame of it can have left.
CREATE TABLE node_runs (
    run_id     TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    node_id    TEXT NOT NULL,
    invoke_id  TEXT NOT NULL,
    connection INTEGER NOT NULL,
    -- Whether the node keeps a fence for it, and so can be asked what became of it.
    fenced     INTEGER NOT NULL
) STRICT;
CREATE INDEX node_runs_by_node ON node_runs (node_id);
