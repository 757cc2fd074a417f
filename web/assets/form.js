// A form of selects over a file that others may change at the same time: what it was shown must still hold when it is
// saved, and what allows more is asked about once more.

import { announce } from "./announce.js";
import { Refused } from "./api.js";
import { fill, h } from "./dom.js";
import { createQuestion } from "./question.js";
import { brief, visible } from "./text.js";
import { newlyAllowed } from "./widening.js";

const WORD_LENGTH = 60;
const MOST_TRIES = 3;
const CHANGED = "This was changed in the meantime. It shows the present value; nothing of yours was saved.";

/**
 * Makes a form. `fields` are `{key, title}`; `load()` gives `{who, tag, values, inherited, without, choices}`, where a value that is
 * not written is undefined and `without` says in words what is in effect then; `save(known, values)` writes, `saved()` is called
 * afterwards. `failed(error)` hears when nobody is signed in any more.
 */
export function createForm({ id, title, hint, fields, mayChange, load, save, saved, failed }) {
  const drawn = new Map();
  let known;
  let isSending = false;

  const question = createQuestion("This allows more. Is it meant?");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: "primary", "aria-disabled": "true", "aria-label": `Save: ${title}` }, h("span", { class: "act-text" }, "Save"));
  const selects = new Map(fields.map(({ key }) => [key, h("select", { id: `${id}-${key}`, disabled: !mayChange, onchange: () => chose() })]));
  const root = h("form", { class: "panel", id, novalidate: true, "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title` }, title),
    h("p", { class: "hint" }, hint),
    h("div", { class: "fields" }, fields.map((field) => h("div", { class: "field" }, h("label", { for: `${id}-${field.key}` }, field.title), selects.get(field.key)))),
    problem, question.root,
    mayChange && h("p", { class: "panel-end" }, button));
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    press();
  });

  const chosen = () => Object.fromEntries(fields.map(({ key }) => [key, selects.get(key).value || undefined]));
  const isChanged = ({ key }) => (selects.get(key).value || undefined) !== known.values[key];
  const isDirty = () => Boolean(known) && fields.some(isChanged);
  // What a person decides by: what is written here, and what would hold without it.
  const basis = ({ who, values, inherited }) => JSON.stringify([who, fields.map(({ key }) => [values[key] ?? null, inherited[key] ?? null])]);

  /** Shows the present value. A choice that you have begun stays, unless it was chosen over something else. */
  function show(next) {
    const isKept = isDirty() && next.who === known.who && basis(next) === basis(known);
    const isThere = fields.every(({ key }) => chosen()[key] === next.values[key]);
    const isLost = isDirty() && next.who === known.who && !isKept && !isThere;
    if (next.who !== known?.who) complain("");
    known = next;
    if (isKept) return;
    for (const { key } of fields) draw(key);
    question.close();
    chose();
    if (isLost) complain(CHANGED);
  }

  function draw(key) {
    const value = known.values[key];
    const choices = known.choices[key];
    const other = value !== undefined && !choices.some(([choice]) => choice === value) ? [[value, value]] : [];
    const options = [["", known.without[key]], ...choices, ...other];
    // A list that is open on the screen stays as it is while nothing of it has changed.
    const found = JSON.stringify(options);
    const select = selects.get(key);
    if (drawn.get(key) !== found) fill(select, options.map(([choice, words]) => h("option", { value: choice }, brief(words, WORD_LENGTH))));
    drawn.set(key, found);
    select.value = value ?? "";
  }

  function chose() {
    question.close();
    button.setAttribute("aria-disabled", String(!isDirty() || isSending));
  }

  function complain(text) {
    problem.hidden = !text;
    fill(problem, visible(text));
  }

  function press() {
    if (!mayChange || isSending || !isDirty()) return;
    complain("");
    const counts = (key, value) => value ?? known.inherited[key];
    const now = chosen();
    const words = (key) => known.choices[key].find(([choice]) => choice === now[key])?.[1];
    const allows = fields
      .map(({ key }) => newlyAllowed(key, known.who, counts(key, known.values[key]), counts(key, now[key]), words(key)))
      .filter(Boolean);
    if (allows.length) question.ask(allows, "Allow and save", send);
    else send();
  }

  async function send() {
    if (isSending || !isDirty()) return;
    sending(true);
    try {
      await write(known, chosen());
      announce("Your change is saved.");
    } catch (error) {
      if (!(error instanceof Refused)) complain("No answer came. Look at the present value before you save again.");
      else if (error.isSignedOut) failed(error);
      else complain(error.status === 412 ? CHANGED : reasons(error));
    }
    sending(false);
    await saved();
  }

  /** Writes over what was shown when the person said so, and over nothing else. */
  async function write(shown, values) {
    const decidedBy = basis(shown);
    for (let tries = 1; ; tries += 1) {
      try {
        await save(shown, values);
        if (known.who === shown.who) known = { ...shown, values: { ...shown.values, ...values } };
        return;
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 412 || tries === MOST_TRIES) throw error;
        // The tag names the whole file, which changes with every use of an entry. Only what is shown here counts.
        shown = await load();
        if (basis(shown) !== decidedBy) throw error;
      }
    }
  }

  function sending(value) {
    isSending = value;
    button.classList.toggle("busy", value);
    root.setAttribute("aria-busy", String(value));
    chose();
  }

  return { root, show };
}

/** Why a change was refused, with what is wrong where. */
export function reasons(error) {
  const fields = (error.problem.fields ?? []).map(({ path, message }) => `${path}: ${message}`);
  return [error.message, ...fields].join(". ");
}
