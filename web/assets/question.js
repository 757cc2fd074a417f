// The second question before something that allows more: in words what it allows, and a way back.

import { fill, h } from "./dom.js";
import { SETTLE_MS } from "./steady.js";
import { visible } from "./text.js";

/** Makes a place for the question, closed. `ask(sentences, label, then)` opens it; `then` runs when the person says so. */
export function createQuestion(title) {
  let settling;
  let cameFrom;
  let then = () => {};
  const list = h("ul", { class: "allows", "aria-label": "What it allows" });
  const yes = h("button", { type: "button", class: "primary", "data-answer": "yes", onclick: () => confirm() });
  const root = h("fieldset", { class: "question", tabindex: "-1", hidden: true },
    h("legend", {}, title),
    list,
    h("div", { class: "always-end" },
      h("button", { type: "button", class: "quiet", "data-answer": "no", onclick: () => back() }, "Back"), yes));
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    back();
  });

  function ask(sentences, label, deed) {
    then = deed;
    cameFrom = document.activeElement;
    fill(list, sentences.map((sentence) => h("li", {}, h("bdi", {}, visible(sentence)))));
    yes.textContent = label;
    root.hidden = false;
    root.setAttribute("data-unsteady", "");
    clearTimeout(settling);
    settling = setTimeout(() => root.removeAttribute("data-unsteady"), SETTLE_MS);
    // Not on the button: a second Enter that was on its way must not answer.
    root.focus({ preventScroll: true });
    root.scrollIntoView({ block: "nearest" });
  }

  function close() {
    root.hidden = true;
  }

  function back() {
    close();
    cameFrom?.focus({ preventScroll: true });
  }

  function confirm() {
    if (root.hasAttribute("data-unsteady")) return;
    back();
    then();
  }

  return { root, ask, close };
}
