// The approvals page: joins the API, the model and the board. Reads who is signed in, loads what waits, follows the
// events, and says in every state how things are.

import { announce } from "./announce.js";
import { everything, forgetSecret, isFinal, json, onSecretChange, Refused, secret, send } from "./api.js";
import { Approvals } from "./approvals.js";
import { createBoard } from "./board.js";
import { byId, fill, h } from "./dom.js";
import { listen } from "./keys.js";
import { createLooker } from "./looker.js";
import { createNodes } from "./nodes.js";
import { createPolicy } from "./policy.js";
import { createOutput, createRuns } from "./runs.js";
import { createStop } from "./stop.js";
import { follow } from "./stream.js";
import { visible } from "./text.js";
import { trust } from "./words.js";

const MOST_LOADED = 5000;
const POLL_MS = 3000;
const GATHER_MS = 80;
const ONE_BY_ONE = 5;
const RUNS_PAUSE_MS = 1000;
const LOOK_AGAIN_MS = 1500;
const OVERRIDES_HOLD_MS = 3000;
const TYPES = ["exec.requested", "exec.started", "exec.finished", "exec.denied", "exec.approval.", "exec.stopped", "exec.resumed", "allowlist.", "policy.", "config.", "document.", "node.", "server."];

const only = /^\/a\/([a-z0-9-]{1,64})$/.exec(location.pathname)?.[1];
const model = new Approvals();
let board;
let runs;
let nodes;
let policyEditor;
let stop;
let line;
let isOut = false;
let isUp = false;
let mayAccept = false;
const overridesSeen = new Map();
// Looks that had no answer and are made again.
const unanswered = new Set();
const policySoon = looker(showPolicy, GATHER_MS);
const runSoon = looker(showRun, 0);

start().catch(failed);

async function start() {
  if (!secret()) return leave();
  byId("sign-out").addEventListener("click", signOut);
  onSecretChange((now) => (now ? location.reload() : signedOut("You signed out in another tab.")));
  const session = await untilReached(() => json("GET", "/auth/session"));
  const may = (scope) => session.scopes.includes(scope);
  byId("sign-out").title = `Signed in as ${session.name}`;
  if (!may("read") && !may("approve")) {
    fill(byId("blank"), "This sign-in can see no requests: its token has neither the scope read nor approve.");
    return say("off", `Signed in as ${session.name}`);
  }
  board = createBoard(model, { decide, takeBack, canDecide: may("approve"), overridesOf: may("read") ? overridesOf : async () => ({ elevated: "off" }), keepsEnded: Boolean(only) });
  listen(board);
  setInterval(board.tick, 1000);
  if (only) {
    byId("waiting-title").textContent = "One request";
    byId("all").hidden = false;
  }
  stop = createStop({ mayRead: may("read"), mayStop: may("approve") || may("admin"), mayResume: may("admin"), failed, looker });
  await stop.refresh().catch(() => {});
  if (may("read")) {
    mayAccept = may("admin");
    await showPolicy().catch(() => {});
    await showHead().catch(() => {});
    if (!only) {
      runs = createRuns(failed);
      nodes = createNodes({ mayDecide: may("admin"), looker });
      policyEditor = createPolicy({ mayChange: may("admin"), failed, looker });
    }
    line = follow(TYPES, may("approve"), { open: opened, event: happened, down, refused: failed });
  } else {
    say("poll", "Looking every few seconds");
    poll();
  }
  addEventListener("online", () => line?.retry());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    line?.retry();
    refreshRuns();
  });
}

// Nobody is signed in: to the sign-in page, and back to here afterwards.
function leave() {
  location.replace(only ? `/login?next=/a/${only}` : "/login");
}

/** The first answer may take a while, when the server starts together with the browser. */
async function untilReached(ask) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof Refused && error.status < 500) throw error;
      say("offline", "The server does not answer. Trying again …");
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}

// --- What the page says about itself.

function say(state, text) {
  byId("link").dataset.state = state;
  if (byId("link-text").textContent !== text) byId("link-text").textContent = text;
}

function opened(resumed) {
  isUp = true;
  unanswered.clear();
  reached();
  board.setOnline(true);
  mustLoad ||= !resumed;
  lookSoon(0);
  // It was read before the events came, or changed while they did not.
  policySoon();
  refreshRuns();
  nodes?.refreshSoon();
  policyEditor?.refreshSoon();
  stop?.refreshSoon();
}

function reached() {
  if (isUp && !isOut && !unanswered.size) say("live", "Live");
}

/** A function that has `see` look again soon, until an answer comes; the page says meanwhile that it has none. */
function looker(see, pause) {
  return createLooker(see, pause, {
    isOver: () => isOut,
    seen: () => {
      if (unanswered.delete(see)) reached();
    },
    failed: (error) => {
      if (!isFinal(error)) unanswered.add(see);
      failed(error);
      return isFinal(error);
    },
  });
}

function down() {
  isUp = false;
  if (isOut) return;
  say("offline", "Offline. Trying again …");
  board.setOnline(false);
}

function failed(error) {
  if (isOut) return;
  if (error instanceof Refused && error.isSignedOut) return void check();
  const isKnown = error instanceof Refused;
  if (!isKnown) return say("offline", "Offline. Trying again …");
  notice("error", `${error.message}${error.requestId ? ` (request ${error.requestId})` : ""}`);
  byId("blank").textContent = "The requests could not be loaded.";
}

function notice(id, text) {
  document.getElementById(`notice-${id}`)?.remove();
  if (text) byId("notices").append(h("p", { class: "notice", id: `notice-${id}`, role: "alert" }, h("bdi", {}, visible(text))));
}

/** Whether the sign-in has really ended, or only one request was refused. */
async function check() {
  try {
    await json("GET", "/auth/session");
  } catch (error) {
    if (!(error instanceof Refused) || !error.isSignedOut) return;
    forgetSecret();
    if (board) signedOut("Your sign-in has ended.");
    else leave();
  }
}

async function signOut() {
  try {
    await send("POST", "/auth/logout");
  } catch (error) {
    if (!(error instanceof Refused)) {
      notice("sign-out", "The server does not answer, so you are still signed in there. Try again when it is back.");
      return;
    }
  }
  forgetSecret();
  signedOut("You are signed out.");
}

function signedOut(why) {
  isOut = true;
  line?.stop();
  board?.empty();
  nodes?.empty();
  stop?.empty();
  policyEditor?.empty();
  fill(byId("runs"));
  fill(byId("notices"));
  byId("columns").hidden = true;
  byId("trust").hidden = true;
  byId("head").hidden = true;
  byId("sign-out").hidden = true;
  byId("gone").hidden = false;
  byId("gone-text").textContent = `${why} Nothing more is shown here until you sign in again.`;
  byId("gone-link").href = only ? `/login?next=/a/${only}` : "/login";
  byId("gone-title").focus();
  document.title = "Signed out · countersign";
  byId("icon").href = "/assets/icon.svg";
  say("off", "Signed out");
}

async function showPolicy() {
  const policy = await json("GET", "/v1/policy/effective");
  const { level, tone, sentence } = trust(policy.isolation);
  byId("trust").hidden = false;
  byId("trust").dataset.tone = tone;
  fill(byId("trust"), h("span", { class: "trust-level" }, "Trust level ", h("code", {}, visible(level))), " ", sentence);
  const { document: stored, configError } = policy;
  notice("document", stored.status === "refused" ? `The approvals document cannot be used, so everything is denied (${stored.reason}).` : "");
  held("held", "the approvals document", stored.held);
  held("held-config", "the settings", policy.configHeld);
  held("held-server", "the settings of the server", policy.serverHeld);
  notice("config", configError && !policy.configHeld && !policy.serverHeld ? `The last edit of the settings is not in force: ${configError}` : "");
}

/** A change that does not count yet: what it would newly allow, and for administrators a way to accept it. */
function held(id, what, edit) {
  const who = (edit?.proposedBy ?? []).map(({ name }) => visible(name)).join(", ");
  const how = who ? `${who} changed ${what}, which takes a second person.` : `An edit from outside changed ${what}.`;
  const note = edit ? `${how} It is not in effect yet, and would newly allow: ${edit.allows.join("; ")}.` : "";
  notice(id, note);
  if (!edit || !mayAccept) return;
  const accept = h("button", { type: "button", class: "quiet" }, "Accept this edit");
  accept.addEventListener("click", async () => {
    accept.disabled = true;
    try {
      await json("POST", "/v1/policy/document/accept", { body: { hash: edit.hash } });
      policySoon();
    } catch (error) {
      accept.disabled = false;
      failed(error);
    }
  });
  byId(`notice-${id}`).append(" ", accept);
}

async function showHead() {
  const { seq, hash } = await json("GET", "/v1/audit/head");
  byId("head").hidden = false;
  fill(byId("head"), `Audit record sealed at ${seq.toLocaleString("en")} `, h("code", { title: hash }, visible(hash.slice(0, 16))));
}

// --- What waits.

async function load() {
  if (only) return loadOne();
  const { items, more } = await everything("/v1/approvals", MOST_LOADED);
  if (isOut) return;
  items.forEach((approval) => model.take(approval));
  board.refresh();
  notice("most", more ? `More than ${MOST_LOADED.toLocaleString("en")} requests wait. Only the newest are here; the others follow after a reload.` : "");
  if (!more) await Promise.all(model.missing(items).slice(0, 50).map(look));
}

async function loadOne() {
  try {
    const approval = await json("GET", `/v1/approvals/${only}`);
    if (model.entries.has(only)) model.take(approval);
    else {
      model.show(approval);
      runSoon();
    }
    board.refresh();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    board.setNothing("There is no such request, or its record is older than what is kept.");
  }
}

/** Below a request of its own: its run, and the output once there can be some. */
async function showRun() {
  const entry = model.entries.get(only);
  entry.run = await json("GET", `/v1/runs/${entry.approval.runId}`);
  if (isOut) return;
  drawRun(entry.run);
  board.refresh();
}

/** What the session of a request overrides; asked once for the requests of a session that come together. */
function overridesOf({ sessionKey, agentId }) {
  const query = agentOf(sessionKey) ? "" : `?agentId=${encodeURIComponent(agentId)}`;
  const path = `/v1/sessions/${encodeURIComponent(sessionKey)}/overrides${query}`;
  if (!overridesSeen.has(path)) {
    overridesSeen.set(path, json("GET", path));
    setTimeout(() => overridesSeen.delete(path), OVERRIDES_HOLD_MS);
  }
  return overridesSeen.get(path);
}

/** The agent that a session key names, if it names one. */
const agentOf = (key) => /^agent:([^:]+):/.exec(key)?.[1];

function drawRun(run) {
  document.getElementById("one-run")?.remove();
  if (!["completed", "failed", "running", "cancelled", "lost"].includes(run.status)) return;
  byId("waiting").append(h("section", { id: "one-run", "aria-labelledby": "one-run-title" }, h("h2", { id: "one-run-title" }, "Output"), createOutput(run)));
}

/** Looks again at one request that this page may be wrong about. */
async function look(id) {
  try {
    const entry = model.take(await json("GET", `/v1/approvals/${id}`));
    board.refresh();
    return entry;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) {
      model.forget(id);
      return undefined;
    }
    throw error;
  }
}

async function poll() {
  while (!isOut) {
    try {
      if (!document.hidden) {
        const before = new Set(model.entries.keys());
        stop?.refreshSoon();
        await load();
        board.setOnline(true);
        say("poll", "Looking every few seconds");
        board.tell([...model.entries.values()].filter(({ approval, phase }) => phase === "pending" && !before.has(approval.id)), model.waiting.length);
      }
    } catch (error) {
      if (error instanceof Refused) failed(error);
      else down();
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

// --- What happens.

// What it has heard of and has not seen yet: it looks until an answer comes, since the event does not come again.
const asked = new Set();
const changed = new Set();
const unsure = new Set();
let mustLoad = false;
let looking;

function happened(event) {
  switch (event.type) {
    case "exec.approval.requested":
      if (only && event.approvalId !== only) return;
      asked.add(event.approvalId);
      return lookSoon(GATHER_MS);
    case "exec.approval.voted":
      if (!model.entries.has(event.approvalId)) return;
      changed.add(event.approvalId);
      return lookSoon(0);
    case "exec.approval.resolved":
      asked.delete(event.approvalId);
      if (model.resolved(event)) {
        const { phase, approval } = model.entries.get(event.approvalId);
        if (phase === "settled") announce(`A request has ended: ${approval.status}.`);
        refreshSoon();
      }
      return;
    case "exec.stopped":
    case "exec.resumed":
      return stop?.refreshSoon();
    case "exec.started":
      return ran(event, { status: "running" });
    case "exec.finished":
    case "exec.denied":
      return ran(event, { ...pick(event, ["exitCode", "exitSignal", "durationMs", "outputBytes", "reason"]), status: event.status ?? "denied" });
    case "server.shutdown":
      return say("offline", "The server stops. Trying again …");
    default:
      if (/^(policy|config|document)\./.test(event.type)) policySoon();
      if (event.type.startsWith("node.")) nodes?.refreshSoon();
      policyEditor?.refreshSoon();
  }
}

const pick = (object, names) => Object.fromEntries(names.filter((name) => object[name] !== undefined).map((name) => [name, object[name]]));

function ran(event, run) {
  const entry = model.ran(event.runId, run);
  if (entry) refreshSoon();
  if (entry && only) runSoon();
  refreshRuns();
}

/** Looks at what is due after a pause, and again until an answer comes. */
function lookSoon(pause) {
  looking ??= setTimeout(async () => {
    let again = GATHER_MS;
    try {
      await lookAtDue();
      unanswered.delete(lookAtDue);
      reached();
    } catch (error) {
      if (!isFinal(error)) unanswered.add(lookAtDue);
      failed(error);
      again = isFinal(error) ? undefined : LOOK_AGAIN_MS;
    }
    looking = undefined;
    if (again && !isOut && (mustLoad || unsure.size || changed.size || asked.size)) lookSoon(again);
  }, pause);
}

/** New requests come one by one or in crowds: a few are fetched each, a crowd as a list. */
async function lookAtDue() {
  if (mustLoad) await loadDue();
  await each(unsure, settle);
  await each(changed, look);
  const ids = [...asked];
  for (const id of ids.filter((known) => model.entries.has(known))) asked.delete(id);
  try {
    if (asked.size > ONE_BY_ONE) {
      await load();
      for (const id of ids) asked.delete(id);
    } else await each(asked, look);
  } finally {
    const seen = ids.filter((id) => !asked.has(id)).map((id) => model.entries.get(id));
    board.tell(seen.filter((entry) => entry?.phase === "pending"), model.waiting.length);
  }
}

async function loadDue() {
  mustLoad = false;
  try {
    await load();
  } catch (error) {
    mustLoad = !isFinal(error);
    throw error;
  }
}

/** Takes what is due out of a set; what no answer came for is put back. */
async function each(due, see) {
  const ends = await Promise.allSettled([...due].map(async (id) => {
    due.delete(id);
    try {
      await see(id);
    } catch (error) {
      if (!isFinal(error)) due.add(id);
      throw error;
    }
  }));
  const failure = ends.find(({ status }) => status === "rejected");
  if (failure) throw failure.reason;
}

let drawing;

/** Many events in one moment are drawn once. */
function refreshSoon() {
  drawing ??= setTimeout(() => {
    drawing = undefined;
    if (!isOut) board.refresh();
  }, 16);
}

let runsAt = 0;

/** The list of runs follows the events, but never more often than a person can read. */
const refreshRuns = looker(async () => {
  if (!runs || document.hidden) return;
  runsAt = performance.now();
  await runs.refresh();
}, () => Math.max(100, runsAt + RUNS_PAUSE_MS - performance.now()));

// --- What the person answers.

async function decide(id, decision, options) {
  if (!model.sending(id, decision)) return;
  board.refresh();
  try {
    const answer = await json("POST", `/v1/approvals/${id}/decision`, { body: { decision, ...options } });
    model.answered(id, answer);
    const more = answer.approval.status === "pending" ? " It waits for another person." : "";
    announce((answer.applied ? "Your answer counts." : "The same answer was there already.") + more);
  } catch (error) {
    if (error instanceof Refused) {
      if (error.isSignedOut) await check();
      model.refused(id, `${error.message}${error.requestId ? ` (request ${error.requestId})` : ""}`, error.problem.approval);
    } else {
      // It may have arrived and only its answer was lost: nobody is told either before the server says.
      unsure.add(id);
      line?.retry();
      lookSoon(0);
    }
  }
  if (!isOut) board.refresh();
}

async function takeBack(id) {
  try {
    const { approval } = await json("POST", `/v1/approvals/${id}/take-back`, { body: {} });
    model.takenBack(id, approval);
    announce("Taken back. It does not run.");
  } catch (error) {
    if (error.isSignedOut) await check();
    model.keptAllowed(id, error instanceof Refused ? error.message : "The server did not answer, so it may run. Look again, or cancel the run.");
  }
  if (!isOut) board.refresh();
}

/** What became of an answer that nobody confirmed. */
async function settle(id) {
  model.lookedAt(id, "Your answer did not arrive. Please answer again.", await json("GET", `/v1/approvals/${id}`));
  if (!isOut) board.refresh();
}
