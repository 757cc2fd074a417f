// One request as a card: what would run, why it asks, what can be answered, and what became of it.

import { serverNow } from "./api.js";
import { fill, h } from "./dom.js";
import { brief, byteSize, duration, joined, marked, mixedWords, pieces, timeLeft, visible } from "./text.js";
import { entitled, fallback, outcome, overridden, progress, rule, runStatus, who, width } from "./words.js";

const URGENT_MS = 60_000;
const ARGUMENT_CHARS = 400;
const SEGMENTS_SHOWN = 12;
/** `envHash` of a call that overrides nothing: SHA-256 of an empty list. */
const NO_ENV_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

/**
 * Makes the card of an entry. `act.decide(id, decision, {reason, patterns})` sends an answer, `act.mayAct(root)` says
 * whether the card stands still, `act.unsettle(root)` that something in it opened or closed, `act.canDecide` whether
 * this person may answer at all, `act.overridesOf(approval)` gives what its session overrides, `act.isAlone` whether the
 * page shows nothing else.
 */
export function createCard(entry, act) {
  const { approval } = entry;
  const key = approval.id;
  const allows = (decision) => approval.allowedDecisions.includes(decision);
  const label = brief(approval.display.text, 60);

  let online = true;
  let current = entry;
  let fullTextSeen = !approval.display.truncated;

  const left = h("span", { class: "left" });
  const reason = h("input", { id: `reason-${key}`, type: "text", maxlength: "2000", autocomplete: "off" });
  const noteRow = h("div", { class: "note", hidden: true }, h("label", { for: `reason-${key}` }, "Reason (optional, goes on the record)"), reason);
  const button = (kind, text, name, onclick) =>
    h("button", { type: "button", class: `act ${kind}`, "data-decision": kind, "aria-label": `${name}: ${label}`, onclick },
      h("span", { class: "act-text" }, text));
  const once = button("allow-once", "Allow once", "Allow once", () => press(once, "allow-once"));
  const always = button("allow-always", "Always…", "Choose what to allow always", () => press(always, "always-panel"));
  const deny = button("deny", "Deny", "Deny", () => press(deny, "deny"));
  always.setAttribute("aria-expanded", "false");
  const noteToggle = h("button", { type: "button", class: "quiet note-toggle", "aria-expanded": "false", onclick: () => openNote() }, "Add a reason");
  const actions = h("div", { class: "actions", role: "group", "aria-label": `Your answer to: ${label}` }, deny, always, once);
  const whyNot = h("p", { class: "hint why-not", id: `why-not-${key}` });
  const panel = alwaysPanel(approval, () => press(panel.confirm, "allow-always"), () => closePanel(true));
  always.setAttribute("aria-controls", panel.root.id);
  const answer = h("div", { class: "answer" }, noteRow, actions, panel.root, h("div", { class: "under" }, whyNot, noteToggle));
  const ended = h("div", { class: "ended", hidden: true });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const takeBack = h("button", { type: "button", class: "act deny take-back", "aria-label": `Take back: ${label}`, onclick: () => act.takeBack(key) });
  const votes = h("p", { class: "votes", role: "status", hidden: true });
  const overrides = h("dd", {});
  const overridesFact = h("div", { class: "fact overrides", hidden: true }, h("dt", {}, "Session overrides"), overrides);

  const text = commandBlock(approval, () => {
    fullTextSeen = true;
    show();
  });
  const article = h("article", { class: "card", tabindex: "-1", "aria-labelledby": `title-${key}`, "aria-describedby": `command-${key}` },
    h("header", { class: "card-head" },
      h("h3", { class: "card-title", id: `title-${key}` },
        h("bdi", {}, visible(approval.agentId)), " asks to run on ", h("bdi", {}, visible(place(approval)))),
      left),
    text.root,
    details(approval, overridesFact),
    votes, ended, problem,
    act.canDecide ? answer : h("p", { class: "hint" }, "You can look at this, but not answer: your sign-in lacks the scope approve."));
  const root = h("li", { class: "card-item", "data-id": key }, article);

  function press(element, what, isAimed = act.mayAct(root)) {
    if (element.getAttribute("aria-disabled") === "true") return;
    if (!isAimed) {
      // The tap was on its way before this card was under it.
      article.classList.add("nudge");
      setTimeout(() => article.classList.remove("nudge"), 300);
      return;
    }
    if (what === "always-panel") togglePanel();
    else send(what);
  }

  function send(decision) {
    const options = {};
    if (reason.value.trim()) options.reason = reason.value.trim();
    if (decision === "allow-always") options.patterns = panel.chosen();
    act.decide(key, decision, options);
  }

  function togglePanel() {
    if (!panel.root.hidden) return closePanel(true);
    act.unsettle(root);
    panel.root.hidden = false;
    always.setAttribute("aria-expanded", "true");
    panel.confirm.focus({ preventScroll: true });
    panel.root.scrollIntoView({ block: "nearest" });
  }

  function closePanel(refocus) {
    if (panel.root.hidden) return false;
    act.unsettle(root);
    panel.root.hidden = true;
    always.setAttribute("aria-expanded", "false");
    if (refocus) always.focus({ preventScroll: true });
    return true;
  }

  function openNote() {
    act.unsettle(root);
    noteRow.hidden = false;
    noteToggle.hidden = true;
    reason.focus();
  }

  function blocked(decision) {
    if (!online) return "Offline: answers wait until the server is back.";
    if (approval.expiresAtMs <= serverNow()) return "The time is up.";
    if (decision !== "deny" && current.voted) return "You have allowed this. It waits for another person.";
    if (decision !== "deny" && !fullTextSeen) return "Show the whole text before you allow it.";
    if (decision === "allow-always" && !allows(decision)) return "“Always” is not offered: nothing of this can be remembered safely.";
    if (!allows(decision)) return "This answer is not open here.";
    return "";
  }

  function show() {
    const { phase } = current;
    root.dataset.phase = phase;
    article.setAttribute("aria-busy", String(phase === "sending"));
    const said = progress(current.approval);
    votes.hidden = !said || phase === "settled";
    if (votes.textContent !== visible(said)) votes.textContent = visible(said);
    if (phase === "settled") {
      settle();
      return;
    }
    for (const [element, decision] of [[once, "allow-once"], [always, "allow-always"], [panel.confirm, "allow-always"], [deny, "deny"]]) {
      const why = blocked(decision);
      const isEmpty = element === panel.confirm && panel.chosen().length === 0;
      element.setAttribute("aria-disabled", String(phase === "sending" || isEmpty || Boolean(why)));
      if (why) element.setAttribute("aria-describedby", `why-not-${key}`);
      else element.removeAttribute("aria-describedby");
      const isSent = phase === "sending" && current.decision === decision && (decision !== "allow-always" || element !== always);
      element.classList.toggle("busy", isSent || (phase === "sending" && element === always && current.decision === "allow-always"));
    }
    const reasons = [...new Set(["allow-once", "allow-always", "deny"].map(blocked).filter(Boolean))];
    whyNot.textContent = phase === "sending" ? "Sending your answer …" : reasons[0] ?? "";
    problem.hidden = !current.problem;
    problem.textContent = current.problem ?? "";
  }

  function settle() {
    const focused = article.contains(document.activeElement);
    answer.hidden = true;
    problem.hidden = !current.problem;
    problem.textContent = current.problem ?? "";
    closePanel(false);
    left.textContent = "";
    left.className = "left";
    const end = outcome(current.approval, current.mine);
    article.dataset.tone = end.tone;
    ended.hidden = false;
    fill(ended,
      h("p", { class: "ended-title" }, h("span", { class: `mark ${end.tone}`, "aria-hidden": "true" }), h("strong", {}, visible(end.title)),
        !act.isAlone && h("a", { class: "ended-link", href: `/a/${key}`, "aria-label": `Details of ${label}` }, "Details")),
      end.detail && h("p", { class: "ended-detail" }, h("bdi", {}, visible(end.detail))),
      heldFor() > 0 && act.canDecide ? takeBack : undefined,
      runLine(current));
    showHeld();
    if (focused && !article.contains(document.activeElement)) article.focus({ preventScroll: true });
  }

  /** How long its run is still held back, in milliseconds. */
  const heldFor = () => (current.approval.status === "allowed" && !current.run ? (current.approval.startsAtMs ?? 0) - serverNow() : 0);

  function showHeld() {
    const ms = heldFor();
    takeBack.textContent = `Take back (${timeLeft(ms)})`;
    if (ms <= 0 && takeBack.isConnected) {
      const focused = takeBack === document.activeElement;
      takeBack.remove();
      if (focused) article.focus({ preventScroll: true });
    }
  }

  function tick() {
    if (current.phase === "settled") {
      showHeld();
      return;
    }
    const ms = approval.expiresAtMs - serverNow();
    left.textContent = ms > 0 ? `${timeLeft(ms)} left` : "Time is up";
    left.classList.toggle("urgent", ms <= URGENT_MS);
    if (ms <= 0) show();
  }

  if (entry.phase === "pending") showOverrides();

  /** Something that a session changed about this request must not be missed; nothing is shown where it did not. */
  async function showOverrides() {
    const text = overridden(await act.overridesOf(approval).catch(() => ({ elevated: "off" })));
    if (!text) return;
    act.unsettle(root);
    overrides.textContent = visible(text);
    overridesFact.hidden = false;
  }

  panel.onchange = show;
  show();
  tick();
  return {
    id: key,
    root,
    article,
    tick,
    update(next) {
      current = next;
      show();
      tick();
    },
    setOnline(value) {
      online = value;
      show();
    },
    fold() {
      article.classList.add("folded");
    },
    get isFolded() {
      return article.classList.contains("folded");
    },
    press(name) {
      if (current.phase !== "pending" || !act.canDecide) return;
      if (name === "reason") openNote();
      // A letter goes to the card that has the focus, wherever that has moved to.
      else press({ once, always, deny }[name], { once: "allow-once", always: "always-panel", deny: "deny" }[name], true);
    },
    /** Closes what is open inside; says whether there was something. */
    escape() {
      if (closePanel(true)) return true;
      if (document.activeElement === reason) {
        article.focus({ preventScroll: true });
        return true;
      }
      return false;
    },
  };
}

const place = (approval) => (approval.nodeId ? `${approval.host} ${approval.nodeId}` : approval.host);

/** How the run goes; nothing where the end of the request says it all. */
function runLine({ approval, run }) {
  if (approval.status !== "allowed" && (!run || run.status === "denied" || run.status === "cancelled")) return undefined;
  const { label, tone } = runStatus(run?.status ?? "queued");
  const facts = [];
  if (run?.exitCode !== undefined) facts.push(`exit code ${run.exitCode}`);
  if (run?.exitSignal) facts.push(visible(run.exitSignal));
  if (run?.durationMs !== undefined && run.status !== "denied") facts.push(duration(run.durationMs));
  if (run?.outputBytes) facts.push(`${byteSize(run.outputBytes)} of output`);
  if (run?.reason) facts.push(visible(run.reason));
  return h("p", { class: "run-line" }, h("span", { class: `badge ${tone}` }, label), " ", facts.join(" · "));
}

function commandBlock(approval, onFullText) {
  const { display, command } = approval;
  const found = pieces(command);
  // The server's text and ours must be the same one; if they ever differ, the server's is shown as plain text.
  const agrees = display.truncated || joined(found) === display.text;
  const shown = display.truncated || !agrees ? [{ kind: "text", text: display.text }] : found;
  const code = h("pre", { class: "command", id: `command-${approval.id}`, role: "group", "aria-label": "Command", dir: "ltr" });
  fill(code, rendered(marked(shown, display.spans)));
  const root = h("div", { class: "command-block" }, code);
  if (display.truncated) {
    const size = [...command].length.toLocaleString("en");
    const open = h("button", { type: "button", class: "more", onclick: () => {
      fill(code, rendered(marked(found, [])));
      code.classList.add("whole");
      code.setAttribute("tabindex", "0");
      code.setAttribute("aria-label", "Whole command");
      open.remove();
      code.focus({ preventScroll: true });
      onFullText();
    } }, `Show all ${size} characters`);
    root.append(open);
  }
  const notes = display.warnings.map(({ message }) => message);
  const mixed = mixedWords(command);
  if (mixed.length) notes.push(`letters of different scripts in one word: ${brief(mixed.join(", "), 80)}`);
  if (notes.length) {
    root.append(h("ul", { class: "warnings", "aria-label": "About the text" }, notes.map((note) => h("li", {}, h("bdi", {}, visible(note))))));
  }
  return { root };
}

function rendered(parts) {
  return parts.map(({ kind, text, span }) => {
    const segment = span >= 0 ? ` seg seg-${span % 4}` : "";
    if (kind === "unseen") return h("span", { class: `unseen-char${segment}` }, text);
    if (kind === "break") return [h("span", { class: `unseen-char line-break${segment}` }, text), "\n"];
    if (kind === "blanks") return h("span", { class: "blanks", title: `${text.length} blanks in a row` }, `${text.length} blanks`);
    return span >= 0 ? h("span", { class: segment.trim() }, text) : text;
  });
}

function details(approval, overridesFact) {
  const { why, boundTo } = approval;
  return h("div", { class: "details" },
    h("p", { class: "why" }, h("strong", {}, `${rule(why.rule)}: `), h("bdi", {}, visible(why.detail)), " ",
      h("code", { class: "rule" }, visible(why.rule)), " ", h("code", { class: "rule" }, visible(why.layer))),
    said(approval),
    segments(approval),
    h("dl", { class: "facts" },
      fact("Directory", mono(approval.cwd)),
      variables(approval),
      fact("Program", approval.resolvedPath ? mono(approval.resolvedPath) : h("em", {}, "not settled: a shell will look for it")),
      fact("Runs as", boundTo.argv ? "this argument list, without a shell" : boundTo.shell ? ["text for ", mono(boundTo.shell)] : "these parts, without a shell"),
      approval.input ? fact("Input", h("span", { class: "chip warn" }, "stays open"), approval.input === "pipe" ? " for what the agent writes to it" : " for what the agent types at its terminal") : undefined,
      fact("Pinned", h("span", { class: approval.binding === "exact" ? "chip good" : "chip", title: "How firmly the run is what you approve" }, visible(approval.binding)), " ", visible(approval.bindingDetail)),
      approval.scripts && fact("Scripts", h("span", { class: approval.scripts === "held" ? "chip good" : "chip", title: "Whether interpreters read the scripts as you see them hashed" }, visible(approval.scripts))),
      approval.confined && fact("Confined", h("span", { title: "What the kernel lets its programs do" }, visible(approval.confined))),
        fact("Session", mono(approval.sessionKey)),
        overridesFact,
      fact("Asked by", h("bdi", {}, visible(who(approval.requestedBy)))),
      entitled(approval) ? fact("May allow it", h("bdi", {}, visible(entitled(approval)))) : undefined,
      fact("No answer", visible(fallback(approval.askFallback))),
      fact("Bound to", h("code", { title: `SHA-256 ${boundTo.digest}` }, boundTo.digest.slice(0, 12)), boundTo.envHash !== NO_ENV_HASH && " with environment values", boundTo.scriptSha256 && " and the script as it is now"),
      fact("“Always” stores", stored(approval))));
}

const fact = (name, ...value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
const mono = (text) => h("code", { dir: "ltr" }, visible(text));

/** What the agent says about it. No link: an agent chose the address. */
function said({ justification, contextUrl }) {
  if (!justification && !contextUrl) return undefined;
  return h("p", { class: "said" }, h("span", { class: "said-by" }, "The agent says"), " ",
    justification && h("q", {}, h("bdi", {}, visible(justification))), contextUrl && [" ", mono(contextUrl)]);
}

/** What the command gets besides its arguments; the server has spelled out what hides and masked secrets. */
function variables({ envNames, envValues = {}, envOmitted }) {
  if (!envNames.length) return undefined;
  const more = envOmitted > 0 && h("li", {}, h("em", {}, `${envOmitted} more variables, not named`));
  return h("div", { class: "fact environment" }, h("dt", {}, "Environment"), h("dd", {},
    h("ul", { class: "variables" }, envNames.map((name) => h("li", {}, mono(Object.hasOwn(envValues, name) ? `${name}=${envValues[name]}` : name))), more)));
}

function stored(approval) {
  const kept = approval.proposedPatterns.filter((pattern) => pattern.default);
  if (!approval.allowedDecisions.includes("allow-always") || !kept.length) return "nothing: it is not offered";
  const [first] = kept;
  return [mono(first.pattern), ` ${width(first)}`, kept.length > 1 && `, and ${kept.length - 1} more like it`, first.note && `; ${visible(first.note)}`];
}

function segments(approval) {
  const rows = [];
  collect(approval.segments, 0, rows);
  if (!rows.length) {
    const asList = approval.boundTo.argv;
    if (!asList) return h("p", { class: "warn-line" }, "This text could not be taken apart. A shell reads it as a whole.");
    rows.push({ segment: { argv: asList, match: { kind: "none" }, wrappers: [], notes: [] }, depth: 0, span: -1 });
  }
  const list = h("ol", { class: "segments", "aria-label": "Parts of the command" });
  const draw = (some) => some.map((row) => segmentRow(row, approval));
  fill(list, draw(rows.slice(0, SEGMENTS_SHOWN)));
  if (rows.length <= SEGMENTS_SHOWN) return list;
  const more = h("button", { type: "button", class: "more", onclick: () => {
    list.append(...draw(rows.slice(SEGMENTS_SHOWN)));
    more.remove();
  } }, `Show ${rows.length - SEGMENTS_SHOWN} more parts`);
  return [list, more];
}

function collect(segments, depth, rows) {
  segments.forEach((segment, index) => {
    rows.push({ segment, depth, span: depth ? -1 : index });
    collect(segment.segments ?? [], depth + 1, rows);
  });
}

function segmentRow({ segment, depth, span }, approval) {
  const { argv, operator, wrappers, resolvedPath, match, inlineEval, notes } = segment;
  const at = approval.why.span?.[0];
  const asks = !segment.segments && segment.span && at >= segment.span[0] && at < segment.span[1];
  const covered = match.kind !== "none" && match.kind !== "payload";
  return h("li", { class: `segment depth-${Math.min(depth, 3)}${span >= 0 ? ` edge-${span % 4}` : ""}` },
    h("p", { class: "argv", dir: "ltr" }, operator && h("span", { class: "operator" }, visible(operator)), argv.map((argument) => h("code", { class: "arg" }, argumentText(argument)))),
    h("p", { class: "path" },
      resolvedPath ? [h("span", { class: "arrow", "aria-label": "is the file" }, "→ "), mono(resolvedPath)] : h("em", {}, "no file found"),
      wrappers.length > 0 && h("span", { class: "chip" }, `through ${visible(wrappers.map(({ name }) => name).join(", "))}`),
      inlineEval && h("span", { class: "chip warn" }, "code inside the command"),
      covered && h("span", { class: "chip good" }, `covered: ${visible(match.kind)}`),
      asks && h("span", { class: "chip wait" }, "asks here"),
      notes.map((note) => h("span", { class: "chip" }, visible(note)))));
}

function argumentText(argument) {
  if (argument === "") return "''";
  const characters = [...visible(argument)];
  if (characters.length <= ARGUMENT_CHARS) return characters.join("");
  return `${characters.slice(0, ARGUMENT_CHARS).join("")}… (${characters.length - ARGUMENT_CHARS} more characters, whole in the text above)`;
}

function alwaysPanel(approval, onConfirm, onCancel) {
  const boxes = approval.proposedPatterns.map((pattern, index) => {
    const box = h("input", { type: "checkbox", id: `pattern-${approval.id}-${index}`, checked: pattern.default && pattern.width === "exact" });
    box.addEventListener("change", () => panel.onchange());
    const isWider = pattern.width !== "exact";
    const row = h("label", { class: `check${isWider ? " wider" : ""}` }, box,
      h("span", {}, mono(pattern.pattern), " ", h("span", { class: "width" }, width(pattern)), isWider && h("span", { class: "chip warn" }, "wider"),
        pattern.note && h("span", { class: "chip warn" }, visible(pattern.note))));
    return { pattern, box, row, isWider };
  });
  const exact = boxes.filter(({ isWider }) => !isWider);
  const wider = boxes.filter(({ isWider }) => isWider);
  const confirm = h("button", { type: "button", class: "act allow-always", "data-decision": "confirm-always", onclick: onConfirm },
    h("span", { class: "act-text" }, "Store and allow"));
  const cancel = h("button", { type: "button", class: "quiet", onclick: onCancel }, "Back");
  const root = h("fieldset", { class: "always", id: `always-${approval.id}`, hidden: true },
    h("legend", {}, `From now on ${brief(approval.agentId, 40)} may run without asking`),
    exact.map(({ row }) => row),
    wider.length > 0 && h("details", { class: "wider-list", "aria-label": "Wider rules" },
      h("summary", {}, wider.length === 1 ? "One wider rule" : `${wider.length} wider rules`),
      h("p", { class: "hint" }, "A wider rule also lets through commands that nobody has seen yet."),
      wider.map(({ row }) => row)),
    h("div", { class: "always-end" }, cancel, confirm));
  const panel = {
    root,
    confirm,
    onchange: () => {},
    chosen: () => boxes.filter(({ box }) => box.checked)
      .map(({ pattern: { pattern, argPattern } }) => (argPattern === undefined ? { pattern } : { pattern, argPattern })),
  };
  return panel;
}
