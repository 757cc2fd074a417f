// The second question before something that allows more: in words what it allows, and a way back.

import { useLayoutEffect, useRef } from "preact/hooks";
import { visible } from "../../pure/text.ts";
import { SETTLE_MS } from "../../steady.ts";

/** What is asked once more. */
export interface Asked {
  /** What it newly allows. */
  allows: string[];
  /** What the yes says. */
  label: string;
  then: () => void;
}

/** The place of the question; nothing is asked while `asked` is undefined. */
export function Question({ asked, close }: { asked: Asked | undefined; close: () => void }) {
  const root = useRef<HTMLFieldSetElement>(null);
  const cameFrom = useRef<Element | null>(null);

  useLayoutEffect(() => {
    const { current } = root;
    if (!asked || !current) return undefined;
    cameFrom.current = document.activeElement;
    current.setAttribute("data-unsteady", "");
    const timer = setTimeout(() => current.removeAttribute("data-unsteady"), SETTLE_MS);
    // Not on the button: a second Enter that was on its way must not answer.
    current.focus({ preventScroll: true });
    current.scrollIntoView({ block: "nearest" });
    return () => clearTimeout(timer);
  }, [asked]);

  function back() {
    close();
    if (cameFrom.current instanceof HTMLElement) cameFrom.current.focus({ preventScroll: true });
  }

  function confirm() {
    if (!asked || root.current?.hasAttribute("data-unsteady")) return;
    back();
    asked.then();
  }

  return (
    <fieldset class="question" ref={root} tabIndex={-1} hidden={!asked} onKeyDown={(event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      back();
    }}>
      <legend>This loosens the policy. Continue?</legend>
      <ul class="allows" aria-label="What it allows">
        {asked?.allows.map((sentence) => <li key={sentence}><bdi>{visible(sentence)}</bdi></li>)}
      </ul>
      <div class="always-end">
        <button type="button" class="quiet" data-answer="no" onClick={back}>Back</button>
        <button type="button" class="primary" data-answer="yes" onClick={confirm}>{asked?.label}</button>
      </div>
    </fieldset>
  );
}
