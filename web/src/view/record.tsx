// What is loaded after the first request is shown: one answer to several, recent runs, nodes, pairing requests, the output
// of a run, and the help.

import { Nodes, Pairings, refreshNodes } from "./nodes.tsx";
import { refreshRuns, Runs, useRunsInSight } from "./runs.tsx";

export { Batch } from "./batch.tsx";
export { Help } from "./help.tsx";
export { Output } from "./output.tsx";
export { refreshNodes, refreshRuns };

export function Record() {
  useRunsInSight();
  return (
    <div class="columns" id="columns">
      <Pairings />
      <Runs />
      <Nodes />
    </div>
  );
}
