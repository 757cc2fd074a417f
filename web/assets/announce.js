// What a screen reader is told, politely and never more often than a person can follow.

import { byId } from "./dom.js";

const PAUSE_MS = 2500;

let waiting = [];
let timer;

/** Says a sentence soon; sentences that come together are said together, at most three of them. */
export function announce(sentence) {
  waiting.push(sentence);
  timer ??= setTimeout(say, 150);
}

function say() {
  const more = waiting.length > 3 ? ` And ${waiting.length - 3} more changes.` : "";
  byId("announce").textContent = waiting.slice(0, 3).join(" ") + more;
  waiting = [];
  timer = setTimeout(() => {
    timer = undefined;
    if (waiting.length) say();
  }, PAUSE_MS);
}
