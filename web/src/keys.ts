// The keyboard. A letter acts only on the request that has the focus and whose card is in sight, and never while you
// write; elsewhere it only opens a request.

import { openCard } from "./card-keys.ts";
import { areSimilar, choose, chooseAlike, chooseNone, chosen, closeCard, isOpened, move, open, opened, rows, setSimilar, unfold } from "./inbox.ts";
import { rowOf } from "./pure/groups.ts";
import { record } from "./later.ts";
import { meaning } from "./pure/letter.ts";
import { place } from "./place.ts";
import { State } from "./state.ts";

// A person who writes while the field goes away, because its request ended, writes on: what comes so soon after the last
// letter is still text.
const WRITING_MS = 2000;

const OFF = "countersign.keys-off";

/** Whether the letters act at all. */
export const isOn = new State(localStorage.getItem(OFF) !== "1");

const mark = () => document.documentElement.toggleAttribute("data-keys-off", !isOn.value);
mark();

/** Whether the help is open. */
export const isHelp = new State(false);

export function setOn(on: boolean): void {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
  isOn.set(on);
  mark();
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
  e: onCard(() => openCard()?.press("edit")),
  x: onFocused(choose),
  X: onFocused(chooseAlike),
  "*": () => record.value?.chooseAll(),
  o: onFocused((name) => unfold(name)),
  ArrowRight: onFocused((name) => unfold(name, true)),
  ArrowLeft: onFocused((name) => unfold(name, false)),
  g: () => setSimilar(!areSimilar.value),
  "/": () => document.querySelector<HTMLElement>("#filter")?.focus(),
  "?": () => isHelp.set(true),
};

/** The row that the focus is in: its card, or itself. */
function focused(): string | undefined {
  const place = document.activeElement?.closest<HTMLElement>("[data-id], [data-row]");
  return place?.dataset.id ?? place?.dataset.row;
}

/** What a row is called: a request that is listed with others only is called as they are. */
const called = (name: string | undefined): string | undefined => rowOf(name, rows())?.name ?? name;

/** A letter that answers. It is for the request that you see and are on; for any other it only opens that one. */
function onCard(deed: () => void): () => void {
  return () => {
    // The card of one answer to several takes the letters once it has the focus.
    const batch = chosen.value.size ? document.querySelector<HTMLElement>("[data-id=chosen] article") : null;
    if (batch) return batch.contains(document.activeElement) ? deed() : batch.focus();
    const { value: now } = opened;
    const card = now === undefined ? undefined : document.querySelector(`[data-id="${CSS.escape(now)}"]`);
    const what = meaning({ opened: called(now), focused: called(focused()), isInSight: card !== null && card !== undefined && isInSight(card) }, (name) => rowOf(name, rows()) !== undefined);
    if (what.kind === "act") deed();
    if (what.kind !== "open") return;
    card?.scrollIntoView({ block: "nearest" });
    open(what.id, "card");
  };
}

/** A letter that chooses, which decides nothing: it is for the row or card that you are on. */
function onFocused(deed: (id: string) => void): () => void {
  return () => {
    const name = called(focused() ?? opened.value);
    if (name === undefined || !rowOf(name, rows())) return;
    if (focused() === undefined) open(name, "row");
    else deed(name);
  };
}

/** Whether a part of an element is on the screen. */
function isInSight(element: Element): boolean {
  if (!element.checkVisibility()) return false;
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
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
      if (place.value.view === "inbox" && escape(target)) event.preventDefault();
      return;
    }
    if (event.repeat && !event.key.startsWith("Arrow") && !"jk".includes(event.key)) return;
    if (!isOn.value || isWritten) return;
    const deed = Object.hasOwn(DEEDS, event.key) ? DEEDS[event.key] : undefined;
    if (!deed || (event.key.startsWith("Arrow") && scrolls(target))) return;
    // The requests are in the inbox, and nothing happens to what is not shown.
    if (place.value.view !== "inbox" && event.key !== "?") return;
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
