// The list of requests on the page: cards in order of arrival, drawn a few at a time, none of them ever jumping.

import { announce } from "./announce.js";
import { inOrder } from "./approvals.js";
import { createCard } from "./card.js";
import { byId } from "./dom.js";
import { watch } from "./steady.js";
import { brief } from "./text.js";

const AT_ONCE = 25;
const IDLE_MS = 3000;
const FOLD_AFTER_MS = 5000;
const REMOVE_AFTER_MS = 60_000;

/** Makes the board. `keepsEnded`: an address of its own shows its request for good. */
export function createBoard(model, { decide, takeBack, canDecide, overridesOf, keepsEnded }) {
  const list = byId("cards");
  const cards = new Map();
  const settledAt = new Map();
  const steady = watch(list);
  let limit = AT_ONCE;
  let online = true;
  let lastTouch = 0;
  let nothing = "Nothing is waiting. New requests appear here by themselves.";

  for (const kind of ["pointerdown", "pointermove", "keydown", "wheel", "touchmove"]) {
    addEventListener(kind, () => { lastTouch = performance.now(); }, { passive: true });
  }
  byId("more").addEventListener("click", () => {
    const next = list.children.length;
    limit += AT_ONCE;
    refresh();
    list.children[next]?.querySelector("article").focus();
  });
  byId("clear").addEventListener("click", () => {
    for (const id of [...settledAt.keys()]) remove(id);
    refresh();
    byId("waiting").focus({ preventScroll: true });
  });

  const act = { decide, takeBack, canDecide, overridesOf, isAlone: keepsEnded, mayAct: (root) => steady.isSteady(root), unsettle: (root) => steady.unsettle(root) };

  /** Makes the page say what the model says. */
  function refresh() {
    const waiting = model.waiting.sort(inOrder);
    const drawn = waiting.slice(0, limit);
    for (const entry of model.entries.values()) {
      if (entry.phase !== "settled") continue;
      if (cards.has(entry.approval.id) || keepsEnded) drawn.push(entry);
      else model.forget(entry.approval.id);
    }
    let at = list.firstElementChild;
    for (const entry of drawn.sort(inOrder)) {
      const card = cards.get(entry.approval.id);
      if (card) {
        at = card.root.nextElementSibling;
        if (entry.phase === "settled" && !settledAt.has(card.id)) settledAt.set(card.id, performance.now());
        card.update(entry);
      } else {
        list.insertBefore(make(entry).root, at);
      }
    }
    steady.look();
    count(waiting.length);
    if (list.firstElementChild && !performance.getEntriesByName("first-card").length) performance.mark("first-card");
  }

  function make(entry) {
    const card = createCard(entry, act);
    cards.set(card.id, card);
    card.setOnline(online);
    return card;
  }

  function remove(id) {
    cards.get(id)?.root.remove();
    cards.delete(id);
    settledAt.delete(id);
    model.forget(id);
  }

  function count(waiting) {
    const hidden = waiting - Math.min(waiting, limit);
    byId("more").hidden = hidden === 0;
    byId("more").textContent = `Show ${Math.min(hidden, AT_ONCE)} more of ${hidden.toLocaleString("en")}`;
    byId("clear").hidden = keepsEnded || settledAt.size === 0;
    byId("blank").hidden = list.children.length > 0;
    byId("blank").textContent = nothing;
    if (!keepsEnded) byId("waiting-title").textContent = waiting ? `Waiting for you (${waiting.toLocaleString("en")})` : "Waiting for you";
    document.title = waiting ? `(${waiting}) countersign` : "countersign";
    byId("icon").href = waiting ? "/assets/icon-waiting.svg" : "/assets/icon.svg";
  }

  /** Once a second: the time that is left, and what has been decided goes when nobody looks or reaches for anything. */
  function tick() {
    for (const card of cards.values()) card.tick();
    const now = performance.now();
    if (keepsEnded || now - lastTouch < IDLE_MS) return;
    let changed = false;
    for (const [id, since] of settledAt) {
      const card = cards.get(id);
      if (card.root.contains(document.activeElement)) continue;
      if (now - since > REMOVE_AFTER_MS) {
        remove(id);
        changed = true;
      } else if (now - since > FOLD_AFTER_MS && !card.isFolded) {
        card.fold();
        changed = true;
      }
    }
    if (changed) refresh();
  }

  const focused = () => [...cards.values()].find(({ root }) => root.contains(document.activeElement));

  return {
    refresh,
    tick,
    setOnline(value) {
      online = value;
      for (const card of cards.values()) card.setOnline(value);
    },
    /** What an empty board says. */
    setNothing(text) {
      nothing = text;
      refresh();
    },
    /** Tells a screen reader of new requests. */
    tell(entries, waiting) {
      if (!entries.length) return;
      const [only] = entries;
      const what = entries.length === 1 ? `New request from ${brief(only.approval.agentId, 40)}: ${brief(only.approval.display.text)}.` : `${entries.length} new requests.`;
      announce(`${what} ${waiting} waiting.`);
    },
    /** Moves the focus by so many cards. */
    move(step) {
      const all = [...list.children];
      const at = all.findIndex((item) => item.contains(document.activeElement));
      const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
      const article = next?.querySelector("article");
      article?.focus({ preventScroll: true });
      article?.scrollIntoView({ block: "nearest" });
    },
    press: (name) => focused()?.press(name),
    escape: () => focused()?.escape() ?? false,
    empty() {
      for (const id of [...cards.keys()]) remove(id);
    },
  };
}
