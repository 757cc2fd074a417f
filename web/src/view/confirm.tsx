// A deed that is asked about once more before it is done, with what became of it.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { Refused } from "../api/api.ts";
import { failed } from "../shell.ts";
import { SETTLE_MS } from "../steady.ts";
import { Wrong } from "./common.tsx";

interface Props {
  /** What the first button says, and what the deed is called for tests and styles. */
  name: string;
  act: string;
  /** For a screen reader, where several buttons have the same words. */
  label?: string;
  question: string;
  yes: string;
  run: () => Promise<void>;
  done: string;
  changed: () => void;
}

export function Confirm({ name, act, label, question, yes, run, done, changed }: Props) {
  const [isAsked, setAsked] = useState(false);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  // The button that was pressed goes: the focus is on the one in its place.
  const first = useRef<HTMLButtonElement>(null);
  const wasAsked = useRef(false);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (isAsked || wasAsked.current) first.current?.focus();
    wasAsked.current = isAsked;
    const { current } = root;
    if (!isAsked || !current) return undefined;
    // The second click of a double click lands where the first button was: it must not answer.
    current.setAttribute("data-unsteady", "");
    const timer = setTimeout(() => current.removeAttribute("data-unsteady"), SETTLE_MS);
    return () => {
      clearTimeout(timer);
      current.removeAttribute("data-unsteady");
    };
  }, [isAsked]);

  async function press() {
    if (isSending || root.current?.hasAttribute("data-unsteady")) return;
    setSending(true);
    setProblem("");
    try {
      await run();
      announce(done);
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? error.message : "No answer came. Check the current state before you try again.");
    }
    setSending(false);
    setAsked(false);
    changed();
  }

  return (
    <div class="row-actions" ref={root}>
      {isAsked ? (
        <>
          <span role="status">{question}</span>
          <button type="button" ref={first} class="quiet" onClick={() => setAsked(false)}>Back</button>
          <button type="button" class="danger" data-act={act} aria-disabled={isSending} onClick={() => void press()}>{yes}</button>
        </>
      ) : <button type="button" ref={first} class="quiet danger-text" data-act={`ask-${act}`} aria-label={label} onClick={() => setAsked(true)}>{name}</button>}
      <Wrong text={problem} />
    </div>
  );
}
