// The keyboard. Letters act only while a card has the focus, and never while somebody writes.

import { byId } from "./dom.js";

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

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    if (event.key === "Escape") {
      if (board.escape()) event.preventDefault();
      return;
    }
    if (event.repeat && !event.key.startsWith("Arrow") && !"jk".includes(event.key)) return;
    if (!box.checked || isWriting(event.target)) return;
    if (event.key === "?") help.showModal();
    else if (KEYS[event.key] && !(event.key.startsWith("Arrow") && scrolls(event.target))) KEYS[event.key](board);
    else return;
    event.preventDefault();
  });
}

const isWriting = (target) => target.matches("input:not([type=checkbox]), textarea, select");

// A long command or output that has the focus is read with the arrows.
const scrolls = (target) => target.matches("pre");
