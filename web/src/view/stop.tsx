// The emergency stop: a button for those who may press it, a banner while everything is stopped, and the way on. The
// dialog that both open is `stop-dialog.tsx`.

import { json } from "../api/api.ts";
import type { StopState } from "../api/types.ts";
import { loadRecord } from "../later.ts";
import { visible } from "../pure/text.ts";
import { looker, may } from "../shell.ts";
import { State, useValue } from "../state.ts";

const PAUSE_MS = 200;

/** What a dialog is opened for. */
export type Deed = "stop" | "kill" | "resume";

/** Whether everything is stopped. */
export const standing = new State<StopState>({ stopped: false });
/** What the dialog is open for. */
export const wanted = new State<Deed | undefined>(undefined);

/** Reads whether everything is stopped. A sign-in that may not read hears from the probe that it is, and no more. */
export async function seeStop(): Promise<void> {
  if (may("read")) return standing.set(await json<StopState>("GET", "/v1/stop"));
  const { stopped } = await json<{ stopped: boolean }>("GET", "/readyz");
  // What this page was answered when it stopped everything is still true.
  const { stop } = standing.value;
  standing.set({ stopped, ...(stopped && stop ? { stop } : {}) });
}

export const refreshStop = looker(seeStop, PAUSE_MS);

const mayStop = (): boolean => may("approve") || may("admin");

/** The button at the top; `isKnown`: whether the sign-in is known yet. */
export function StopButton({ isKnown }: { isKnown: boolean }) {
  const { stopped } = useValue(standing);
  return <button type="button" class="danger" id="stop-open" aria-haspopup="dialog" hidden={!isKnown || !mayStop() || stopped} onClick={() => {
    loadRecord();
    wanted.set("stop");
  }}>Stop everything</button>;
}

/** The banner. Its buttons stay the same elements while the text above them changes: a finger may be on one. */
export function Stopped() {
  const { stopped, stop } = useValue(standing);
  const proposed = stop?.resumeProposedBy;
  return (
    <section class="stopped" id="stopped" role="alert" hidden={!stopped}>
      <div id="stopped-body">
        {stopped && (
          <>
            <h2 id="stopped-title">Everything is stopped</h2>
            {stop && <p>Since <time dateTime={new Date(stop.atMs).toISOString()}>{new Date(stop.atMs).toLocaleString("en")}</time>, by <bdi>{visible(stop.by.name)}</bdi>: <bdi class="why">{visible(stop.reason)}</bdi></p>}
            <p>Nothing starts, and no questions are asked. {stop?.killedBy ? "What was running has been ended." : "What was running continues."}</p>
            {stop && !stop.durable && <p>The record cannot be written at the moment: if the server ends before it can, the stop ends with it.</p>}
            {proposed && <p><bdi>{visible(proposed.name)}</bdi> wants to resume. That takes an admin of another owner.</p>}
          </>
        )}
      </div>
      <p class="stopped-end">
        <button type="button" class="quiet" id="stop-kill-open" hidden={!stopped || !mayStop() || Boolean(stop?.killedBy)} onClick={() => wanted.set("kill")}>End what is running</button>
        <button type="button" id="resume-open" hidden={!stopped || !may("admin")} onClick={() => wanted.set("resume")}>Resume</button>
      </p>
    </section>
  );
}
