// The dialog of the emergency stop: one press more, and why. To stop, no words are needed; to resume, they are.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { json, Refused } from "../api/api.ts";
import type { StopAnswer } from "../api/types.ts";
import { failed } from "../shell.ts";
import { useValue } from "../state.ts";
import { SETTLE_MS } from "../steady.ts";
import { Wrong } from "./common.tsx";
import { type Deed, refreshStop, standing, wanted } from "./stop.tsx";

/** What the record has where a person stopped everything and wrote nothing. */
const NO_REASON = "no reason given";

const WORDS: Record<Deed, { title: string; text: string; go: string }> = {
  stop: { title: "Stop everything", text: "Nothing new starts, for any agent, and every waiting request is denied.", go: "Stop everything" },
  kill: { title: "End what is running", text: "Nothing new starts, for any agent, and every waiting request is denied.", go: "End it" },
  resume: { title: "Resume", text: "Agents may run commands again, as policy allows. What the stop denied stays denied.", go: "Resume" },
};

export function StopDialog() {
  const deed = useValue(wanted);
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [reason, setReason] = useState("");
  const [kills, setKills] = useState(false);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const { title, text, go } = WORDS[deed ?? "stop"];
  const stops = deed !== "resume";
  const isReady = !isSending && (stops || reason.trim() !== "");

  useLayoutEffect(() => {
    const { current } = dialog;
    if (!deed) return current?.close();
    setReason("");
    setKills(deed === "kill");
    setProblem("");
    if (!current?.open) current?.showModal();
    field.current?.focus();
    // A second click, or a key that is held down, was for the button that opened this.
    current?.setAttribute("data-unsteady", "");
    const timer = setTimeout(() => current?.removeAttribute("data-unsteady"), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [deed]);

  async function press() {
    if (!isReady || dialog.current?.hasAttribute("data-unsteady")) return;
    setSending(true);
    setProblem("");
    try {
      if (stops) await stopNow(reason.trim() || standing.value.stop?.reason || NO_REASON, kills);
      else await resumeNow(reason);
      wanted.set(undefined);
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? error.message : "No answer came. Check whether everything is stopped before you try again.");
    }
    setSending(false);
    refreshStop();
  }

  return (
    <dialog id="stop" ref={dialog} aria-labelledby="stop-title" aria-describedby="stop-text" onClose={() => wanted.set(undefined)}>
      <form id="stop-form" noValidate onSubmit={(event) => {
        event.preventDefault();
        void press();
      }}>
        <h2 id="stop-title">{title}</h2>
        <p id="stop-text">{text}</p>
        <label for="stop-reason">{`Why? Agents that are refused see this, and the record keeps it${stops ? " (optional)" : ""}.`}</label>
        <input ref={field} type="text" id="stop-reason" maxLength={2000} required={!stops} autocomplete="off" value={reason} onInput={(event) => setReason(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && event.repeat) event.preventDefault();
          }} />
        <label class="check" id="stop-kill-field" hidden={deed !== "stop"}><input type="checkbox" id="stop-kill" checked={kills} onChange={(event) => setKills(event.currentTarget.checked)} /> <span>Also end what is running</span></label>
        <Wrong id="stop-problem" text={problem} />
        <p class="dialog-end">
          <button type="button" class="quiet" id="stop-back" onClick={() => wanted.set(undefined)}>Back</button>{" "}
          <button type="submit" class={stops ? "primary danger" : "primary"} id="stop-go" aria-disabled={!isReady}>{go}</button>
        </p>
      </form>
    </dialog>
  );
}

async function stopNow(reason: string, kill: boolean): Promise<void> {
  const answer = await json<StopAnswer>("POST", "/v1/stop", { body: { reason, kill } });
  standing.set({ stopped: true, stop: answer.stop });
  const running = answer.running.length;
  announce(`Everything is stopped. ${running === 1 ? "One command still runs." : `${running || "No"} commands still run.`}`);
}

async function resumeNow(reason: string): Promise<void> {
  const answer = await json<{ stopped: boolean }>("POST", "/v1/resume", { body: { reason } });
  announce(answer.stopped ? "An admin of another owner has to confirm before commands run again." : "Commands may run again.");
}
