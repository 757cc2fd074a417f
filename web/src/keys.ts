// The keyboard. Letters act only while a request has the focus, and never while you write; a first letter elsewhere only
// turns to the open request.

import { openCard } from "./card-keys.ts";
import { choose, chooseAlike, chooseNone, chosen, closeCard, isOpened, model, move, open, opened } from "./inbox.ts";
import { State } from "./state.ts";

// A person who writes while the field goes away, because its request ended, writes on: what comes so soon after the last
// letter is still text.
const WRITING_MS = 2000;

const OFF = "countersign.keys-off";

/** Whether the letters act at all. */
export const isOn = new State(localStorage.getItem(OFF) !== "1");

/** Whether the help is open. */
export const isHelp = new State(false);

export function setOn(on: boolean): void {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
  isOn.set(on);
}

const DEEDS: Record<string, () => void> = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  a: onCard(() => openCard()?.press("once")),
  A: onCard(() => openCard()?.press("always")),
  d: onCard(() => openCard()?.press("deny")),
  r: onCard(() => openCard()?.press("reason")),
  x: onCard(() => opened.value !== undefined && choose(opened.value)),
  X: onCard(() => opened.value !== undefined && chooseAlike(opened.value)),
  "/": () => document.querySelector<HTMLElement>("#filter")?.focus(),
  "?": () => isHelp.set(true),
};

/** A letter for the open request. Without the focus on it the press may be for another one: then it only moves the focus there. */
function onCard(deed: () => void): () => void {
  return () => {
    const id = opened.value;
    if (id === undefined || !model.entries.has(id)) return;
    if (document.activeElement?.closest("[data-id], [data-row]")) deed();
    else open(id, "card");
  };
}

/** Listens for keys. */
export function listen(): void {
  let wroteAt = -Infinity;
  const doneWriting = () => { wroteAt = -Infinity; };
  addEventListener("pointerdown", doneWriting, { passive: true });

  document.addEventListener("keydown", (event) => {
    const target = event.target instanceof Element ? event.target : document.body;
    const isWritten = isWriting(target) || performance.now() - wroteAt < WRITING_MS;
    if (event.key === "Escape" || event.key === "Tab" || (event.key === "Enter" && isWriting(target))) doneWriting();
    else if (isWritten) wroteAt = performance.now();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (escape(target)) event.preventDefault();
      return;
    }
    if (event.repeat && !event.key.startsWith("Arrow") && !"jk".includes(event.key)) return;
    if (!isOn.value || isWritten) return;
    const deed = Object.hasOwn(DEEDS, event.key) ? DEEDS[event.key] : undefined;
    if (!deed || (event.key.startsWith("Arrow") && scrolls(target))) return;
    deed();
    event.preventDefault();
  });
}

/** Closes the innermost thing that is open; says whether there was something. */
function escape(target: Element): boolean {
  if (openCard()?.escape()) return true;
  if (target.id === "filter") {
    const id = opened.value;
    if (id !== undefined) open(id, "row");
    return true;
  }
  if (chosen.value.size) {
    chooseNone();
    return true;
  }
  if (!isOpened.value || !target.closest("[data-id]")) return false;
  closeCard();
  return true;
}

const isWriting = (target: Element): boolean => target.matches("input:not([type=checkbox]), textarea, select");

// A long command or output that has the focus is read with the arrows.
const scrolls = (target: Element): boolean => target.matches("pre");
