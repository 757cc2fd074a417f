// The emergency stop: a button for those who may press it, a banner while everything is stopped, and the way on. What is
// asked first is why: the words that are typed are the confirmation.

import { announce } from "./announce.js";
import { json, Refused } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { visible } from "./text.js";

const PAUSE_MS = 200;

/**
 * Makes the button and the banner. `mayRead`: whether who, when and why are shown; `mayStop` and `mayResume` are what the
 * sign-in allows; `failed(error)` hears of what could not be loaded, and `looker` makes what looks again.
 */
export function createStop({ mayRead, mayStop, mayResume, failed, looker }) {
  const dialog = byId("stop");
  const form = byId("stop-form");
  const reason = byId("stop-reason");
  const kill = byId("stop-kill");
  const go = byId("stop-go");
  const problem = byId("stop-problem");
  let standing = { stopped: false };
  let deed = "stop";
  let isSending = false;
  let drawn;
  let isGone = false;
  const refreshSoon = looker(refresh, PAUSE_MS);

  byId("stop-open").addEventListener("click", () => open("stop", false));
  byId("stop-kill-open").addEventListener("click", () => open("stop", true));
  byId("resume-open").addEventListener("click", () => open("resume", false));
  byId("stop-back").addEventListener("click", () => dialog.close());
  reason.addEventListener("input", ready);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    press().catch(failed);
  });

  async function refresh() {
    const next = await look();
    if (isGone) return;
    standing = next;
    draw();
  }

  /** A sign-in that may not read hears from the probe that everything is stopped, and no more. */
  async function look() {
    if (mayRead) return json("GET", "/v1/stop");
    const { stopped } = await json("GET", "/readyz");
    // What this page was answered when it stopped everything is still true.
    return { stopped, stop: stopped ? standing.stop : undefined };
  }

  function draw() {
    // What is on the screen stays as it is while nothing has changed: a finger may be on its way.
    const found = JSON.stringify(standing);
    if (drawn === found) return;
    drawn = found;
    const { stopped, stop } = standing;
    byId("stop-open").hidden = !mayStop || stopped;
    byId("stopped").hidden = !stopped;
    // The buttons stay the same elements while the text above them changes: a finger may be on one.
    byId("stop-kill-open").hidden = !mayStop || Boolean(stop?.killedBy);
    byId("resume-open").hidden = !mayResume;
    if (!stopped) return fill(byId("stopped-body"));
    const proposed = stop?.resumeProposedBy;
    fill(byId("stopped-body"),
      h("h2", { id: "stopped-title" }, "Everything is stopped"),
      stop && h("p", {}, "Since ", h("time", { datetime: new Date(stop.atMs).toISOString() }, new Date(stop.atMs).toLocaleString("en")), ", by ", h("bdi", {}, visible(stop.by.name)), ": ", h("bdi", { class: "why" }, visible(stop.reason))),
      h("p", {}, `Nothing starts and nothing is asked. ${stop?.killedBy ? "What ran was ended." : "What ran before goes on."}`),
      stop && !stop.durable && h("p", {}, "The record cannot be written at the moment: if the server ends before it can, the stop ends with it."),
      proposed && h("p", {}, h("bdi", {}, visible(proposed.name)), " wants everything to go on. That takes an admin of another owner."));
  }

  function open(what, kills) {
    deed = what;
    const stops = what === "stop";
    byId("stop-title").textContent = stops ? (kills ? "End what still runs" : "Stop everything") : "Let everything go on";
    byId("stop-text").textContent = stops
      ? "Nothing starts any more, for any agent, and every request that waits is denied."
      : "Agents may run commands again, as policy allows. What the stop denied stays denied.";
    go.textContent = stops ? (kills ? "End what runs" : "Stop everything") : "Go on";
    go.classList.toggle("danger", stops);
    byId("stop-kill-field").hidden = !stops || kills;
    kill.checked = kills;
    reason.value = "";
    complain("");
    ready();
    dialog.showModal();
    reason.focus();
  }

  function ready() {
    go.setAttribute("aria-disabled", String(isSending || !reason.value.trim()));
  }

  function complain(text) {
    problem.hidden = !text;
    fill(problem, visible(text));
  }

  async function press() {
    if (isSending || !reason.value.trim()) return;
    isSending = true;
    ready();
    complain("");
    try {
      if (deed === "stop") await stopNow();
      else await resumeNow();
      dialog.close();
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      complain(error instanceof Refused ? error.message : "No answer came. Look whether everything is stopped before you try again.");
    }
    isSending = false;
    ready();
    draw();
    refreshSoon();
  }

  async function stopNow() {
    const answer = await json("POST", "/v1/stop", { body: { reason: reason.value, kill: kill.checked } });
    standing = { stopped: true, stop: answer.stop };
    const running = answer.running.length;
    announce(`Everything is stopped. ${running === 1 ? "One command still runs." : `${running || "No"} commands still run.`}`);
  }

  async function resumeNow() {
    const answer = await json("POST", "/v1/resume", { body: { reason: reason.value } });
    announce(answer.stopped ? "It takes an admin of another owner to let everything go on." : "Everything goes on.");
  }

  return {
    refresh,
    refreshSoon,
    empty() {
      isGone = true;
      if (dialog.open) dialog.close();
      byId("stop-open").hidden = true;
      byId("stopped").hidden = true;
      fill(byId("stopped-body"));
    },
  };
}
