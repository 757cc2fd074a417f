// The keyboard. Letters act only while a card has the focus, and never while you write.

import { byId } from "./dom.js";

// A person who writes while the field goes away, because its request ended, writes on: what comes so soon after the last
// letter is still text.
const WRITING_MS = 2000;

const OFF = "countersign.keys-off";

const KEYS = {
  j: (board) => board.move(1),
  ArrowDown: (board) => board.move(1),
  k: (board) => board.move(-1),
  ArrowUp: (board) => board.move(-1),
  a: (board) => board.press("once"),
  A: (board) => board.press("always"),
  d: (board) => board.press("deny"),
  r: (board) => board.press("reason"),
};

/** Listens for keys on behalf of a board. */
export function listen(board) {
  const help = byId("help");
  const box = byId("keys-on");
  box.checked = localStorage.getItem(OFF) !== "1";
  box.addEventListener("change", () => {
    if (box.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  });
  byId("help-open").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());

  let wroteAt = -Infinity;
  const doneWriting = () => { wroteAt = -Infinity; };
  addEventListener("pointerdown", doneWriting, { passive: true });

  document.addEventListener("keydown", (event) => {
    const isWritten = isWriting(event.target) || performance.now() - wroteAt < WRITING_MS;
    if (event.key === "Escape" || event.key === "Tab") doneWriting();
    else if (isWritten) wroteAt = performance.now();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (board.escape()) event.preventDefault();
      return;
    }
    if (event.repeat && !event.key.startsWith("Arrow") && !"jk".includes(event.key)) return;
    if (!box.checked || isWritten) return;
    if (event.key === "?") help.showModal();
    else if (KEYS[event.key] && !(event.key.startsWith("Arrow") && scrolls(event.target))) KEYS[event.key](board);
    else return;
    event.preventDefault();
  });
}

const isWriting = (target) => target.matches("input:not([type=checkbox]), textarea, select");

// A long command or output that has the focus is read with the arrows.
const scrolls = (target) => target.matches("pre");
