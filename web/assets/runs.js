// Recent runs: what was asked, how it ended, and its output on demand.

import { json, Refused, send } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { brief, byteSize, duration, visible, visibleOutput } from "./text.js";
import { runStatus } from "./words.js";

const PAGE = 50;
const SHOWN_FIRST = 15;
const MOST_KEPT = 500;
const PIECE_BYTES = 64 * 1024;

/** Makes the list of recent runs. `failed(error)` hears of what could not be loaded. */
export function createRuns(failed) {
  const list = byId("runs");
  const rows = new Map();
  let cursor;
  let limit = SHOWN_FIRST;

  byId("recent").hidden = false;
  byId("runs-more").addEventListener("click", () => older().catch(failed));

  async function refresh() {
    const page = await json("GET", `/v1/runs?limit=${PAGE}`);
    // `undefined`: nothing was asked for yet; `null`: there is nothing older.
    if (cursor === undefined) cursor = page.nextCursor ?? null;
    take(page.items);
    // What waits for an answer is a card already; behind a crowd of such there may be runs all the same.
    for (let tries = 0; tries < 3 && rows.size < SHOWN_FIRST && cursor; tries += 1) await next();
    draw();
  }

  async function older() {
    limit += SHOWN_FIRST;
    for (let tries = 0; tries < 5 && rows.size < limit && cursor; tries += 1) await next();
    draw();
  }

  async function next() {
    const page = await json("GET", `/v1/runs?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
    cursor = page.nextCursor ?? null;
    take(page.items);
  }

  function take(runs) {
    for (const run of runs) {
      if (run.status === "approval-pending") continue;
      const row = rows.get(run.runId);
      if (row) row.update(run);
      else rows.set(run.runId, createRow(run));
    }
  }

  /** Newest first; rows that are there stay where they are, so that what is open stays open. */
  function draw() {
    const sorted = [...rows.values()].sort((a, b) => b.at - a.at);
    const newest = sorted.slice(0, limit);
    // A page that stays open for days forgets what nobody looks at; asking for older runs loads them anew.
    for (const row of sorted.slice(limit + MOST_KEPT)) {
      rows.delete(row.id);
      cursor = undefined;
    }
    let at = list.firstElementChild;
    for (const row of newest) {
      if (row.root === at) at = at.nextElementSibling;
      else list.insertBefore(row.root, at);
    }
    while (at) {
      const last = at;
      at = at.nextElementSibling;
      last.remove();
    }
    if (!newest.length) fill(list, h("li", { class: "blank" }, "Nothing has run yet."));
    byId("runs-more").hidden = rows.size <= limit && !cursor;
  }

  return { refresh };
}

function createRow(first) {
  let run = first;
  let shown;
  const badge = h("span", {});
  const meta = h("span", { class: "run-meta" });
  const body = h("div", { class: "run-body", id: `run-${run.runId}`, hidden: true });
  const open = h("button", { type: "button", class: "run-head", "aria-expanded": "false", "aria-controls": `run-${run.runId}`, onclick: toggle },
    badge, h("code", { class: "run-command", dir: "ltr" }, brief(run.displayText, 160)), meta);
  const root = h("li", { class: "run", "data-run": run.runId }, open, body);

  function toggle() {
    body.hidden = !body.hidden;
    open.setAttribute("aria-expanded", String(!body.hidden));
    if (!body.hidden && shown !== run.status) {
      shown = run.status;
      fill(body, runFacts(run), createOutput(run));
    }
  }

  function update(next) {
    run = next;
    const { label, tone } = runStatus(run.status);
    badge.className = `badge ${tone}`;
    badge.textContent = label;
    fill(meta, runMeta(run));
    if (!body.hidden && shown !== run.status) {
      shown = run.status;
      fill(body, runFacts(run), createOutput(run));
    }
  }

  update(run);
  return { id: run.runId, root, update, at: run.createdAtMs };
}

function runMeta(run) {
  const at = new Date(run.createdAtMs);
  const facts = [visible(run.agentId)];
  if (run.exitCode !== undefined) facts.push(`exit ${run.exitCode}`);
  if (run.exitSignal) facts.push(visible(run.exitSignal));
  if (run.durationMs !== undefined) facts.push(duration(run.durationMs));
  if (run.reason && run.status !== "completed") facts.push(visible(run.reason));
  return [facts.join(" · "), " · ", h("time", { datetime: at.toISOString(), title: at.toLocaleString() }, at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }))];
}

function runFacts(run) {
  return h("dl", { class: "facts" },
    fact("Directory", h("code", { dir: "ltr" }, visible(run.cwd))),
    fact("Trust level", visible(run.isolation)),
    run.binding && fact("Pinned", visible(run.binding)),
    run.start && fact("Started", run.start === "direct" ? "without the shell, which would only have found the program" : "by the shell"),
    run.scripts && fact("Scripts", visible(run.scripts)),
    run.confined && fact("Confined", visible(run.confined)),
    run.justification && fact("The agent says", visible(`“${run.justification}”`)),
    run.contextUrl && fact("To read more", visible(run.contextUrl)),
    run.decision && fact("Decided by", visible(run.decision.by)),
    run.approvalId && fact("Request", h("a", { href: `/a/${run.approvalId}` }, run.approvalId.slice(0, 8))));
}

const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));

/** The output of a run, a piece at a time. */
export function createOutput(run) {
  const text = h("pre", { class: "output", tabindex: "0", role: "group", "aria-label": "Output" });
  const state = h("p", { class: "hint", role: "status" }, "Loading the output …");
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: load }, "Show more output");
  const root = h("div", { class: "run-output" }, text, state, more);
  const decoder = new TextDecoder();
  let offset = 0;
  text.hidden = true;
  load();
  return root;

  async function load() {
    more.hidden = true;
    try {
      const range = `bytes=${offset}-${offset + PIECE_BYTES - 1}`;
      const response = await send("GET", `/v1/runs/${run.runId}/output`, { headers: { Range: range, Accept: "*/*" } });
      const bytes = new Uint8Array(await response.arrayBuffer());
      const total = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
      offset += bytes.length;
      text.append(visibleOutput(decoder.decode(bytes, { stream: offset < total })));
      text.hidden = offset === 0;
      more.hidden = offset >= total;
      state.textContent = total ? `${byteSize(offset)} of ${byteSize(total)}` : "No output.";
    } catch (error) {
      const isEmpty = error instanceof Refused && error.status === 416;
      state.textContent = isEmpty ? "No output." : error instanceof Refused ? `${error.message} (${error.requestId})` : "The output could not be loaded.";
      more.hidden = isEmpty;
    }
  }
}
