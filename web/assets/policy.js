// The policy of each agent: the effective values and where they come from, what the approvals document and the settings say, its
// lists, and the node that it is bound to. Nothing is loaded before you open it.

import { everything, json, Refused, send } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { createForm } from "./form.js";
import { createRules } from "./rules.js";
import { createSettings } from "./settings.js";
import { brief, visible } from "./text.js";

const MOST_SHOWN = 500;
const NAME_LENGTH = 40;
const PAUSE_MS = 300;

const ALL = "*";

const SECURITY = [["deny", "deny: nothing runs"], ["allowlist", "allowlist: what the list covers"], ["full", "full: everything"]];
const ASK = [["always", "always: about everything"], ["on-miss", "on-miss: about what the list misses"], ["off", "off: never"]];
const HOSTS = [["sandbox", "sandbox"], ["gateway", "gateway: this machine"], ["node", "node: another machine"], ["auto", "auto: a sandbox, else this machine"]];

const SECURITY_FIELD = { key: "security", title: "Security: what may run" };
const ASK_FIELD = { key: "ask", title: "Ask: when a person is asked" };

/** Makes the section. `mayChange`: whether this person may change anything; `failed(error)` hears of what could not be loaded, and `looker` makes what looks again. */
export function createPolicy({ mayChange, failed, looker }) {
  const details = byId("policy-details");
  const agents = h("select", { id: "policy-agent", onchange: () => refresh().catch(failed) }, h("option", { value: ALL }, "All agents (*)"));
  const inForce = h("dl", { class: "facts" });
  const remark = h("p", { class: "hint", hidden: true });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  let asked = 0;
  let isGone = false;

  const common = { mayChange, saved: () => refresh().catch(failed), failed };
  const form = (known, rest) => [known, createForm({ ...common, ...rest, load: async () => known(await loaded(agents.value)) })];
  const settings = (rest) => form((all) => settingsKnown(all, rest.fields), { ...rest, save: saveSettings });
  const forms = [
    form(documentKnown, {
      id: "policy-document", title: "Approvals document", save: saveDocument,
      hint: "What exec-approvals.json says. The stricter of document and settings counts.",
      fields: [SECURITY_FIELD, ASK_FIELD, { key: "askFallback", title: "When nobody answers" }],
    }),
    settings({
      id: "policy-settings", title: "Settings", fields: [SECURITY_FIELD, ASK_FIELD],
      hint: "What tools.exec of openclaw.json says. What an agent has of its own counts before what all have.",
    }),
    settings({
      id: "policy-binding", title: "Exec node binding", fields: [{ key: "host", title: "Where commands run" }, { key: "node", title: "Node" }],
      hint: "tools.exec.host and tools.exec.node. A bound agent reaches no other node, and the node applies its own rules too.",
    }),
  ];
  const ofServer = createSettings();
  const lists = ["allowlist", "denylist"].map((kind) => [kind, createRules(kind, { mayChange, changed: common.saved, failed })]);

  const panels = h("div", { class: "panels", hidden: true },
    h("section", { class: "panel", id: "policy-force", "aria-labelledby": "policy-force-title" }, h("h3", { id: "policy-force-title" }, "Effective policy"), remark, inForce),
    [...forms, ...lists].map(([, { root }]) => root), ofServer.root);
  fill(byId("policy-body"),
    h("div", { class: "field" }, h("label", { for: "policy-agent" }, "Agent"), agents),
    !mayChange && h("p", { class: "hint" }, "You can look at this, but not change it: your sign-in lacks the scope admin."),
    problem, panels);
  byId("policy").hidden = false;
  details.addEventListener("toggle", () => details.open && refresh().catch(failed));

  async function refresh() {
    asked += 1;
    const mine = asked;
    const agent = agents.value;
    try {
      const all = await loaded(agent);
      // Another agent was chosen since, or a later look is on its way.
      if (mine === asked && !isGone) draw(all);
    } catch (error) {
      if (!(error instanceof Refused) || error.isSignedOut) throw error;
      if (mine !== asked || isGone) return;
      panels.hidden = true;
      problem.hidden = false;
      fill(problem, visible(error.message));
    }
  }

  /** Everything of an agent, as it stands now. */
  async function loaded(agent) {
    // The settings first: changing the order of their agents in between makes this tag too old to save with.
    const config = await tagged("/v1/config");
    const known = (await everything("/v1/agents", MOST_SHOWN)).items;
    const effective = `/v1/policy/effective?agentId=${encodeURIComponent(agent === ALL ? nobody(known) : agent)}`;
    const [document, holds, here, nodes, inEffect, ...listed] = await Promise.all([
      tagged(policyPath(agent)),
      json("GET", effective),
      // The document of this machine, wherever the agent's commands go.
      json("GET", `${effective}&host=gateway`),
      everything("/v1/nodes", MOST_SHOWN),
      json("GET", "/v1/settings"),
      ...lists.map(([, list]) => list.load(agent)),
    ]);
    return { agent, who: agent === ALL ? "all agents" : `agent ${agent}`, config, known, document, holds, here, nodes: nodes.items, inEffect: inEffect.items, listed };
  }

  function draw(all) {
    problem.hidden = true;
    panels.hidden = false;
    panels.dataset.agent = all.agent;
    drawAgents(all);
    drawInForce(all.holds);
    for (const [known, { show }] of forms) show(known(all));
    ofServer.show(all.inEffect);
    lists.forEach(([, { show }], at) => show({ ...all.listed[at], agent: all.agent, who: all.who }));
  }

  function drawAgents({ agent, known }) {
    const names = known.map(({ agentId }) => agentId);
    // The agent that you look at stays, although nothing knows of it any more.
    if (agent !== ALL && !names.includes(agent)) names.push(agent);
    const there = [...agents.options].slice(1).map(({ value }) => value);
    if (JSON.stringify(there) === JSON.stringify(names)) return;
    fill(agents, h("option", { value: ALL, selected: agent === ALL }, "All agents (*)"),
      names.map((name) => h("option", { value: name, selected: name === agent }, brief(name, NAME_LENGTH))));
  }

  function drawInForce({ security, ask, askFallback, host, node, approvalsApply, onNode }) {
    remark.hidden = approvalsApply && !onNode;
    if (!approvalsApply) fill(remark, "Commands go to a sandbox, where no approvals apply. Security and ask are what would hold on this machine.");
    else if (onNode) fill(remark, `Commands go to a node, whose own approvals document counts there in place of this one${onNode.document === "unknown" ? "; it is not known here" : ""}.`);
    const rows = [["Security", security], ["Ask", ask], ["When nobody answers", askFallback], ["Where", host], ["Node", node]];
    fill(inForce, rows.filter(([, said]) => said).map(([title, said]) => h("div", { class: "fact" }, h("dt", {}, title),
      h("dd", {}, mono(said.value), said.source === "default" ? " built in" : [" from ", mono(said.source)]))));
  }

  return {
    refreshSoon: looker(async () => {
      if (details.open) await refresh();
    }, PAUSE_MS),
    empty() {
      isGone = true;
      byId("policy").hidden = true;
      fill(byId("policy-body"));
    },
  };
}

const policyPath = (agent) => `/v1/agents/${encodeURIComponent(agent)}/policy`;

/** An agent that nothing knows of: it has the policy of every agent. */
function nobody(known) {
  let name = "any-other";
  while (known.some(({ agentId }) => agentId === name)) name += "-";
  return name;
}

function documentKnown({ agent, who, document, here }) {
  const below = agent === ALL ? ["document-defaults"] : ["document-defaults", "document-wildcard"];
  const above = (key) => here[key].layers.filter(({ layer }) => below.includes(layer)).at(-1)?.value;
  const said = { security: above("security"), ask: above("ask"), askFallback: above("askFallback") };
  const words = (key) => (said[key] ? `inherited: ${said[key]}` : "not set");
  return {
    who, tag: document.tag, path: policyPath(agent), values: document.body,
    // A document that says nothing takes nothing away; without an answer it denies.
    inherited: { security: said.security ?? "full", ask: said.ask ?? "off", askFallback: said.askFallback ?? "deny" },
    without: { security: words("security"), ask: words("ask"), askFallback: said.askFallback ? words("askFallback") : "not set: deny" },
    choices: { security: SECURITY, ask: ASK, askFallback: SECURITY },
  };
}

async function saveDocument({ tag, path, values }, chosen) {
  await json("PUT", path, { body: { ...values, ...chosen }, headers: { "If-Match": tag } });
}

function settingsKnown({ agent, who, config, known, nodes }, fields) {
  const items = new Map(config.body.items.map((item) => [item.path, item]));
  const named = known.find(({ agentId }) => agentId === agent)?.configPath ?? `agents.entries.${JSON.stringify(agent)}`;
  const own = agent === ALL ? "" : `${named}.`;
  const found = { who, tag: config.tag, values: {}, inherited: {}, without: {}, paths: {}, choices: { security: SECURITY, ask: ASK, host: HOSTS, node: nodes.map(nodeChoice) } };
  for (const { key } of fields) {
    const path = `${own}tools.exec.${key}`;
    const item = items.get(path);
    const general = items.get(`tools.exec.${key}`);
    found.paths[key] = path;
    found.values[key] = item && item.source !== "default" ? item.value ?? undefined : undefined;
    found.inherited[key] = (agent === ALL ? general.default : general.value) ?? undefined;
    const words = found.inherited[key] ?? (key === "node" ? "any node" : "not set");
    found.without[key] = agent === ALL ? `not set: ${words}` : `as for all agents: ${words}`;
  }
  return found;
}

async function saveSettings({ tag, values, paths }, chosen) {
  const changed = Object.keys(chosen).filter((key) => chosen[key] !== values[key]);
  const set = Object.fromEntries(changed.filter((key) => chosen[key] !== undefined).map((key) => [paths[key], chosen[key]]));
  const unset = changed.filter((key) => chosen[key] === undefined).map((key) => paths[key]);
  await json("PATCH", "/v1/config", { body: { set, unset }, headers: { "If-Match": tag } });
}

const nodeChoice = ({ nodeId, displayName, connected }) =>
  [nodeId, `${displayName ? `${brief(displayName, NAME_LENGTH)} ` : ""}${nodeId.slice(0, 8)}…${connected ? "" : " (offline)"}`];

/** An answer with the tag that a change of it must name. */
async function tagged(path) {
  const response = await send("GET", path);
  return { tag: response.headers.get("etag"), body: await response.json() };
}

const mono = (text) => h("code", { dir: "ltr" }, visible(text));
