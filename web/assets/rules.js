// The allowlist and the deny rules of an agent: shown, added to, removed from. What allows more is asked about first.

import { announce } from "./announce.js";
import { everything, json, Refused, send } from "./api.js";
import { fill, h } from "./dom.js";
import { reasons } from "./form.js";
import { createQuestion } from "./question.js";
import { watch } from "./steady.js";
import { brief, mixedWords, visible } from "./text.js";
import { entryAllows, ruleAllows } from "./widening.js";

const MOST_SHOWN = 500;
const LABEL_LENGTH = 60;
const PATTERN_LENGTH = 4096;
const TEXT_LENGTH = 1000;
const CONFINE_LENGTH = 400;

/** What the two lists differ in; `adds` and `removes` say what that allows, where it allows anything. */
const KINDS = {
  allowlist: {
    title: "Allowlist",
    hint: "What may run unasked, where security is allowlist. An agent also has what all agents have.",
    none: "Nothing is on the list.",
    text: ["note", "Note (optional)"],
    adds: entryAllows,
    removes: () => undefined,
  },
  denylist: {
    title: "Deny rules",
    hint: "What never runs, no matter what else allows it. The rules of all agents apply to each.",
    none: "There are no deny rules.",
    text: ["reason", "Reason (optional)"],
    adds: () => undefined,
    removes: ruleAllows,
  },
};

/**
 * Makes one of the lists: `allowlist` or `denylist`. `changed()` is called after each change, `failed(error)` hears when
 * nobody is signed in any more.
 */
export function createRules(kind, { mayChange, changed, failed }) {
  const { title, hint, none, text, adds, removes } = KINDS[kind];
  const id = `policy-${kind}`;
  // What the server found odd when something was added here; a list says only why an entry never matches.
  const warned = new Map();
  let of;
  let drawn = "";
  let isSending = false;

  const heading = h("h3", { id: `${id}-title`, tabindex: "-1" }, title);
  const list = h("ol", { class: "runs", "aria-labelledby": `${id}-title` });
  const blank = h("p", { class: "hint", hidden: true }, none);
  const more = h("p", { class: "hint", hidden: true }, `Only the first ${MOST_SHOWN} are shown.`);
  const question = createQuestion("This allows more. Is it meant?");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const guard = watch(list);
  const input = (name, length) => h("input", { id: `${id}-${name}`, type: "text", maxlength: length, autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const pattern = input("pattern", PATTERN_LENGTH);
  const argPattern = input("arguments", PATTERN_LENGTH);
  const note = input("text", TEXT_LENGTH);
  const field = (words, element) => h("div", { class: "field" }, h("label", { for: element.id }, words), element);
  const form = h("form", { class: "fields", novalidate: true, "aria-label": `New: ${title}` },
    field("Pattern: a path, a name or *", pattern), field("Arguments, a regular expression (optional)", argPattern), field(text[1], note),
    h("p", { class: "panel-end" }, h("button", { type: "submit", "aria-label": `Add to: ${title}` }, "Add")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    pressAdd();
  });
  for (const element of [pattern, argPattern, note]) element.addEventListener("input", question.close);
  const root = h("section", { class: "panel", id, "aria-labelledby": `${id}-title` },
    heading, h("p", { class: "hint" }, hint), blank, list, more, mayChange && form, problem, question.root);

  const path = () => `/v1/agents/${encodeURIComponent(of.agent)}/${kind}`;
  const load = (agent) => everything(`/v1/agents/${encodeURIComponent(agent)}/${kind}`, MOST_SHOWN);

  /** Shows what an agent has; `who` names it in sentences. */
  function show(next) {
    if (of?.agent !== next.agent) {
      question.close();
      complain("");
    }
    of = next;
    blank.hidden = next.items.length > 0;
    more.hidden = !next.more;
    const found = JSON.stringify([next.agent, next.items]);
    // Rows that are the same stay, so that nothing moves under a finger.
    if (found === drawn) return;
    drawn = found;
    fill(list, next.items.map(row));
    guard.look();
  }

  function row(item) {
    const warnings = [...item.warnings ?? []];
    for (const warning of warned.get(item.id) ?? []) if (!warnings.some(({ code }) => code === warning.code)) warnings.push(warning);
    const mixed = mixedWords(`${item.pattern} ${item.argPattern ?? ""}`);
    if (mixed.length) warnings.push({ message: `letters of different scripts in one word: ${brief(mixed.join(", "), LABEL_LENGTH)}` });
    const element = h("li", { class: "run rule-row", "data-rule": item.id },
      h("div", { class: "rule-what" },
        h("p", {}, mono(item.pattern), item.state && item.state !== "active" && h("span", { class: "chip warn" }, visible(item.state))),
        item.argPattern !== undefined && h("p", { class: "rule-more" }, "Arguments: ", mono(item.argPattern)),
        facts(item).map((fact) => h("p", { class: "rule-more" }, fact)),
        warnings.length > 0 && h("ul", { class: "warnings", "aria-label": "About this entry" }, warnings.map(({ message }) => h("li", {}, h("bdi", {}, visible(message)))))),
      mayChange && h("button", { type: "button", class: "quiet", "aria-label": `Remove ${brief(item.pattern, LABEL_LENGTH)}`, onclick: () => pressRemove(item, element) }, "Remove"));
    return element;
  }

  function pressAdd() {
    complain("");
    const wanted = { pattern: pattern.value.trim(), argPattern: argPattern.value || undefined, [text[0]]: note.value.trim() || undefined };
    if (!wanted.pattern) return void complain("Write a pattern first.");
    const agent = of.agent;
    decide(adds(of.who, wanted), "Allow and add", () => change(async () => {
      const added = await json("POST", path(), { body: wanted });
      if (added.warnings?.length) {
        warned.set(added.id, added.warnings);
        drawn = "";
      }
      if (of.agent === agent) for (const element of [pattern, argPattern, note]) element.value = "";
      announce(["It is added.", ...(added.warnings ?? []).map(({ message }) => `Warning: ${message}.`)].join(" "));
    }));
  }

  function pressRemove(item, element) {
    if (!guard.isSteady(element)) return;
    complain("");
    decide(removes(of.who, item), "Allow and remove", () => change(async () => {
      try {
        await send("DELETE", `${path()}/${encodeURIComponent(item.id)}`);
      } catch (error) {
        // Another person was quicker.
        if (!(error instanceof Refused) || error.code !== "not-found") throw error;
      }
      announce("It is removed.");
      heading.focus({ preventScroll: true });
    }));
  }

  function decide(allows, label, deed) {
    if (!allows) return deed();
    question.ask([allows], label, deed);
  }

  async function change(deed) {
    if (isSending) return;
    isSending = true;
    root.setAttribute("aria-busy", "true");
    try {
      await deed();
    } catch (error) {
      if (!(error instanceof Refused)) complain("No answer came. Look at the present rules before you try again.");
      else if (error.isSignedOut) failed(error);
      else complain(reasons(error));
    }
    isSending = false;
    root.setAttribute("aria-busy", "false");
    await changed();
  }

  function complain(words) {
    problem.hidden = !words;
    fill(problem, visible(words));
  }

  return { root, load, show };
}

function facts(item) {
  const lines = [];
  if (item.lastUsedCommand) lines.push(["Last used ", time(item.lastUsedAt), ": ", mono(brief(item.lastUsedCommand, 120))]);
  else if (item.kind) lines.push(["Not used yet"]);
  if (item.expiresAtMs) lines.push(["Until ", time(item.expiresAtMs)]);
  if (item.maxUses) lines.push([`Used ${item.uses ?? 0} of ${item.maxUses} times`]);
  if (item.sha256) lines.push(["Only for the content ", mono(item.sha256)]);
  if (item.input) lines.push([item.unguarded ? "Also with open input, at an unguarded terminal" : "Also with open input"]);
  if (item.confine !== undefined) lines.push(["Confined: ", mono(brief(confineLine(item.confine), CONFINE_LENGTH))]);
  if (item.children) lines.push(["No program of a run can start it either, at the level confined"]);
  const said = item.note ?? item.reason;
  if (said) lines.push([h("bdi", {}, visible(said))]);
  return lines;
}

/** What an entry says its program may do: `starts judged, ssh; writes workspace`. */
function confineLine(confine) {
  if (typeof confine !== "object" || confine === null || Array.isArray(confine)) return JSON.stringify(confine);
  const words = (value) => (Array.isArray(value) ? value.map(String).join(", ") || "nothing" : typeof value === "string" ? value : JSON.stringify(value));
  return Object.entries(confine).map(([name, value]) => `${name} ${words(value)}`).join("; ");
}

const mono = (text) => h("code", { dir: "ltr" }, visible(text));

function time(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "at an unknown time" : h("time", { datetime: at.toISOString() }, at.toLocaleString());
}
