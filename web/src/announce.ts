// What a screen reader is told, politely and never more often than a person can follow.

import { State } from "./state.ts";

const PAUSE_MS = 2500;

/** What the live region of the page says. */
export const announced = new State("");

let waiting: string[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says a sentence soon; sentences that come together are said together, at most three of them. */
export function announce(sentence: string): void {
  waiting.push(sentence);
  timer ??= setTimeout(say, 150);
}

function say(): void {
  const more = waiting.length > 3 ? ` And ${waiting.length - 3} more changes.` : "";
  announced.set(waiting.slice(0, 3).join(" ") + more);
  waiting = [];
  timer = setTimeout(() => {
    timer = undefined;
    if (waiting.length) say();
  }, PAUSE_MS);
}
