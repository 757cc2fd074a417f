// Nodes: the machines that run commands for this server, and those that ask to become one. A pairing is decided here
// with the same protection against mis-taps as a request.

import { announce } from "./announce.js";
import { everything, json, Refused } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { watch } from "./steady.js";
import { brief, mixedWords, visible } from "./text.js";
import { command, pairing } from "./words.js";

const MOST_SHOWN = 500;
const NAME_LENGTH = 60;
const PAUSE_MS = 300;

/** Makes the lists. `mayDecide`: whether pairings are shown and decided; `looker` makes what looks again. */
export function createNodes({ mayDecide, looker }) {
  const waiting = byId("pairings-list");
  const list = byId("nodes-list");
  const cards = new Map();
  const guard = watch(waiting);
  let isGone = false;
  const refreshSoon = looker(refresh, PAUSE_MS);

  async function refresh() {
    const [nodes, pairings] = await Promise.all([
      everything("/v1/nodes", MOST_SHOWN),
      mayDecide ? everything("/v1/nodes/pairings", MOST_SHOWN) : { items: [] },
    ]);
    if (isGone) return;
    drawNodes(nodes.items);
    drawPairings(pairings.items);
  }

  function drawNodes(nodes) {
    byId("nodes").hidden = nodes.length === 0;
    const open = new Set([...list.querySelectorAll("details[open]")].map((details) => details.closest("li").dataset.node));
    fill(list, nodes.map((node) => nodeRow(node, open.has(node.nodeId))));
  }

  /** Cards that are there stay where they are, so that nothing moves under a finger. */
  function drawPairings(pairings) {
    const there = new Set(pairings.map(({ requestId }) => requestId));
    for (const [id, card] of cards) {
      if (there.has(id)) continue;
      card.root.remove();
      cards.delete(id);
    }
    for (const request of pairings) {
      if (cards.has(request.requestId)) continue;
      const card = createCard(request, decide);
      cards.set(request.requestId, card);
      waiting.append(card.root);
    }
    byId("pairings").hidden = cards.size === 0;
    guard.look();
  }

  async function decide(request, decision) {
    const card = cards.get(request.requestId);
    if (!card || card.isSending) return;
    if (!guard.isSteady(card.root)) {
      card.nudge();
      return;
    }
    card.sending(decision);
    try {
      await json("POST", `/v1/nodes/pairings/${encodeURIComponent(request.requestId)}/decision`, { body: { decision } });
      announce(decision === "approve" ? "The pairing is approved." : "The pairing is rejected.");
    } catch (error) {
      // What it still says will be asked for below; a request that is gone takes its card along.
      if (error instanceof Refused) card.refused(error.status === 404 ? "This request was decided elsewhere, or has ended." : error.message);
      else card.refused("Your answer did not arrive. Please answer again.");
    }
    refreshSoon();
  }

  return {
    refreshSoon,
    empty() {
      isGone = true;
      cards.clear();
      fill(waiting);
      fill(list);
    },
  };
}

/** A name that another person chose, with everything unseen spelled out; without one the beginning of the id. */
function name(object) {
  const chosen = object.displayName ? brief(object.displayName, NAME_LENGTH) : "";
  return h("bdi", {}, chosen || `${object.nodeId.slice(0, 12)}…`);
}

/** An id in groups, as people compare it with what the machine itself shows. */
const grouped = (id) => visible(id).replace(/(.{8})(?=.)/g, "$1 ");

function createCard(request, decide) {
  const { verb, sentence, consequence } = pairing(request);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = (decision, text, style) =>
    h("button", { type: "button", class: `act ${style}`, "data-decision": decision, onclick: () => decide(request, decision) }, h("span", { class: "act-text" }, text));
  const buttons = [button("reject", "Reject", "deny"), button("approve", "Approve", "allow-once")];
  const mixed = mixedWords(request.displayName ?? "");
  const root = h("li", { class: "card pairing", "data-request": request.requestId, "data-kind": request.kind },
    h("div", { class: "card-head" }, h("h3", { class: "card-title" }, name(request), ` ${verb}`)),
    h("p", { class: "why" }, sentence, " ", consequence),
    mixed.length > 0 && h("p", { class: "warn-line" }, "Its name mixes letters of different alphabets, which can look the same."),
    request.commands.length > 0 && h("ul", { class: "offered" }, request.commands.map(commandItem)),
    h("dl", { class: "facts" },
      fact("Device", h("code", { class: "fingerprint" }, grouped(request.nodeId))),
      request.remoteIp && fact("Address", h("code", {}, visible(request.remoteIp))),
      request.platform && fact("Platform", h("bdi", {}, brief(request.platform, NAME_LENGTH))),
      fact("Asked", time(request.requestedAtMs))),
    problem,
    h("div", { class: "answer" }, h("div", { class: "actions two" }, buttons)));

  const card = {
    root,
    isSending: false,
    sending(decision) {
      card.isSending = true;
      problem.hidden = true;
      for (const each of buttons) {
        each.setAttribute("aria-disabled", "true");
        each.classList.toggle("busy", each.dataset.decision === decision);
      }
    },
    refused(text) {
      card.isSending = false;
      problem.hidden = false;
      fill(problem, visible(text));
      for (const each of buttons) {
        each.removeAttribute("aria-disabled");
        each.classList.remove("busy");
      }
    },
    nudge() {
      root.classList.remove("nudge");
      requestAnimationFrame(() => root.classList.add("nudge"));
    },
  };
  return card;
}

function commandItem(offered) {
  const meaning = command(offered);
  return h("li", {}, h("code", {}, brief(offered, NAME_LENGTH)), meaning && ` ${meaning}`);
}

function nodeRow(node, isOpen) {
  const badge = node.connected ? ["good", "Connected"] : ["dull", "Offline"];
  const facts = [node.platform, node.version, node.remoteIp].filter(Boolean).map((text) => brief(text, 40));
  return h("li", { class: "run node", "data-node": node.nodeId },
    h("details", { open: isOpen },
      h("summary", { class: "run-head" },
        h("span", { class: `badge ${badge[0]}` }, badge[1]),
        h("span", { class: "run-command" }, name(node)),
        h("span", { class: "run-meta" }, facts.join(" · "))),
      h("div", { class: "run-body" },
        h("dl", { class: "facts" },
          fact("Device", h("code", { class: "fingerprint" }, grouped(node.nodeId))),
          node.lastSeenAtMs && fact("Last seen", time(node.lastSeenAtMs)),
          fact("May be sent", node.commands.length ? node.commands.map((offered) => brief(offered, NAME_LENGTH)).join(", ") : "nothing yet")))));
}

const fact = (title, value) => h("div", { class: "fact" }, h("dt", {}, title), h("dd", {}, value));

function time(ms) {
  const at = new Date(ms);
  return h("time", { datetime: at.toISOString() }, at.toLocaleString());
}
