// Ending a run.

import { json } from "../api/api.ts";
import type { Run } from "../api/types.ts";
import { Confirm } from "./confirm.tsx";

export function Cancel({ run: { runId }, changed }: { run: Pick<Run, "runId">; changed: () => void }) {
  return (
    <Confirm name="End the run…" act="cancel-run" question="End this run and everything that it started?" yes="End it" done="The run is ended." changed={changed}
      run={() => json("POST", `/v1/runs/${runId}/cancel`, { body: {} })} />
  );
}
