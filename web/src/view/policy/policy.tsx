// The policy of each agent: the effective values and where they come from, what the approvals document and the settings say,
// its lists, and the node that it is bound to.

import { useEffect, useRef, useState } from "preact/hooks";
import { everything, json, Refused, send } from "../../api/api.ts";
import type { Agent, AgentPolicy, Config, EffectivePolicy, Node, Setting } from "../../api/types.ts";
import { hints } from "../../hints.ts";
import { brief } from "../../pure/text.ts";
import { failed, gone, looker, may } from "../../shell.ts";
import { useValue } from "../../state.ts";
import { Mono, Wrong } from "../common.tsx";
import { Forecast } from "./forecast.tsx";
import { Held } from "./held.tsx";
import { type Field, Form, type Known, type Values } from "./form.tsx";
import { Presets } from "./presets.tsx";
import { MOST_SHOWN, type Rule, Rules } from "./rules.tsx";
import { Settings } from "./settings.tsx";
import { Suggestions } from "./suggestions.tsx";
import { Backtest, Cases } from "./trials.tsx";
import { Try } from "./try.tsx";

const NAME_LENGTH = 40;
const PAUSE_MS = 300;

const ALL = "*";

const SECURITY = [["deny", "deny: nothing runs"], ["allowlist", "allowlist: what the list covers"], ["full", "full: everything"]] as const;
const ASK = [["always", "always: about everything"], ["on-miss", "on-miss: about what the list misses"], ["off", "off: never"]] as const;
const HOSTS = [["sandbox", "sandbox"], ["gateway", "gateway: this machine"], ["node", "node: another machine"], ["auto", "auto: a sandbox, else this machine"]] as const;

const SECURITY_FIELD: Field = { key: "security", title: "Security: what may run" };
const ASK_FIELD: Field = { key: "ask", title: "Ask: when a person is asked" };
const DOCUMENT_FIELDS = [SECURITY_FIELD, ASK_FIELD, { key: "askFallback", title: "When nobody answers" }];
const SETTINGS_FIELDS = [SECURITY_FIELD, ASK_FIELD];
const BINDING_FIELDS = [{ key: "host", title: "Where commands run" }, { key: "node", title: "Node" }];

/** An answer with the tag that a change of it must name. */
interface Tagged<Body> {
  tag: string;
  body: Body;
}

/** Everything of an agent, as it stood at one look. */
interface Loaded {
  agent: string;
  who: string;
  config: Tagged<Config>;
  known: Agent[];
  document: Tagged<AgentPolicy>;
  effective: EffectivePolicy;
  /** The same for this machine, wherever the agent's commands go. */
  here: EffectivePolicy;
  nodes: Node[];
  settings: Setting[];
  lists: Record<"allowlist" | "denylist", { items: Rule[]; more: boolean }>;
}

/** The editor. */
export function Policy() {
  const hint = useValue(hints.policy) + useValue(hints.all);
  const [agent, setAgent] = useState(ALL);
  const [all, setAll] = useState<Loaded | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const asked = useRef(0);
  const now = useRef(agent);
  now.current = agent;
  const mayChange = may("admin");

  async function refresh() {
    asked.current += 1;
    const mine = asked.current;
    try {
      const next = await loaded(now.current);
      // Another agent was chosen since, or a later look is on its way.
      if (mine !== asked.current || gone.value !== undefined) return;
      setProblem("");
      setAll(next);
    } catch (error) {
      if (!(error instanceof Refused) || error.isSignedOut) throw error;
      if (mine !== asked.current) return;
      setAll(undefined);
      setProblem(error.message);
    }
  }
  const [refreshSoon] = useState(() => looker(() => refresh(), PAUSE_MS));
  useEffect(() => {
    refresh().catch(failed);
  }, [agent]);
  useEffect(() => {
    if (hint) refreshSoon();
  }, [hint]);
  const saved = () => refresh().catch(failed);

  const names = [...new Set([...(all?.known ?? []).map(({ agentId }) => agentId), ...(agent === ALL ? [] : [agent])])];
  return (
    <div class="policy-body" id="policy-body">
      <div class="field">
        <label for="policy-agent">Agent</label>
        <select id="policy-agent" value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
          <option value={ALL}>All agents (*)</option>
          {names.map((name) => <option key={name} value={name}>{brief(name, NAME_LENGTH)}</option>)}
        </select>
      </div>
      {!mayChange && <p class="hint">You can look at this, but not change it: your sign-in lacks the scope admin.</p>}
      <Wrong text={problem} />
      {all && (
        <div class="panels" data-agent={all.agent}>
          <Held effective={all.effective} changed={saved} />
          <InForce effective={all.effective} lists={all.lists} />
          <Try key={`try-${all.agent}`} agentId={all.agent === ALL ? undefined : all.agent} />
          <Presets key={`presets-${all.agent}`} who={all.who} agentId={all.agent === ALL ? undefined : all.agent} here={all.here} changed={saved} />
          <Form id="policy-document" title="Approvals document" hint="What exec-approvals.json says. The stricter of document and settings is in effect." fields={DOCUMENT_FIELDS}
            known={documentKnown(all)} load={async () => documentKnown(await loaded(now.current))} save={saveDocument} saved={saved} />
          <Form id="policy-settings" title="Settings" hint="What tools.exec of openclaw.json says. An agent's own value overrides the value for all agents." fields={SETTINGS_FIELDS}
            known={settingsKnown(all, SETTINGS_FIELDS)} load={async () => settingsKnown(await loaded(now.current), SETTINGS_FIELDS)} save={saveSettings} saved={saved} />
          <Form id="policy-binding" title="Exec node binding" hint="tools.exec.host and tools.exec.node. A bound agent can use only this node. The node's own rules still apply." fields={BINDING_FIELDS}
            known={settingsKnown(all, BINDING_FIELDS)} load={async () => settingsKnown(await loaded(now.current), BINDING_FIELDS)} save={saveSettings} saved={saved} />
          {(["allowlist", "denylist"] as const).map((kind) => (
            <Rules key={kind} kind={kind} agent={all.agent} who={all.who} items={all.lists[kind].items} hasMore={all.lists[kind].more} changed={saved} />
          ))}
          <Cases />
          <Backtest key={`backtest-${all.agent}`} agentId={all.agent === ALL ? undefined : all.agent} waits={Boolean(all.effective.document.held ?? all.effective.configHeld)} />
          <Suggestions key={`suggestions-${all.agent}`} agentId={all.agent === ALL ? undefined : all.agent} changed={saved} />
          <Forecast hint={hint} />
          <Settings items={all.settings} />
        </div>
      )}
    </div>
  );
}

/** Where what a row says is changed: the form for the file that says it, and the field in it. */
function placeOf(key: string, source: string): string {
  if (key === "host" || key === "node") return `policy-binding-${key}`;
  return key === "askFallback" || source.startsWith("exec-approvals.json") ? `policy-document-${key}` : `policy-settings-${key}`;
}

/** The policy in one table: what is in effect, what says so, and the way to the form that changes it. */
function InForce({ effective: { security, ask, askFallback, host, node, approvalsApply, onNode }, lists }: { effective: EffectivePolicy; lists: Loaded["lists"] }) {
  const remark = !approvalsApply
    ? "Commands go to a sandbox, where no approvals apply. Security and ask are what would apply on this machine."
    : onNode ? `Commands go to a node, whose own approvals document applies there instead of this one${onNode.document === "unknown" ? "; it is not known here" : ""}.` : "";
  const rows = [["security", "Security", security], ["ask", "Ask", ask], ["askFallback", "When nobody answers", askFallback], ["host", "Where", host], ["node", "Node", node]] as const;
  const count = ({ items, more }: { items: readonly Rule[]; more: boolean }, one: string, many: string) => `${items.length}${more ? " or more" : ""} ${items.length === 1 ? one : many}`;
  return (
    <section class="panel" id="policy-force" aria-labelledby="policy-force-title">
      <h2 id="policy-force-title">Effective policy</h2>
      {remark && <p class="hint">{remark}</p>}
      <div class="table-box" tabIndex={0} role="region" aria-label="Values of the effective policy">
        <table class="figures in-force">
          <thead><tr><th scope="col">What</th><th scope="col">In effect</th><th scope="col">Set where</th>{may("admin") && <th scope="col">Change</th>}</tr></thead>
          <tbody>
            {rows.map(([key, title, said]) => said && (
              <tr key={key}><th scope="row">{title}</th><td data-name="In effect"><Mono text={said.value} /></td><td data-name="Set where">{said.source === "default" ? "built in" : <Mono text={said.source} />}</td><Change title={title} to={placeOf(key, said.source)} /></tr>
            ))}
            <tr><th scope="row">Allowlist</th><td data-name="In effect">{count(lists.allowlist, "entry", "entries")}</td><td data-name="Set where"><Mono text="exec-approvals.json" /></td><Change title="Allowlist" to="policy-allowlist-pattern" /></tr>
            <tr><th scope="row">Deny rules</th><td data-name="In effect">{count(lists.denylist, "rule", "rules")}</td><td data-name="Set where"><Mono text="exec-approvals.json" /></td><Change title="Deny rules" to="policy-denylist-pattern" /></tr>
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Goes to the field that changes it. */
function Change({ title, to }: { title: string; to: string }) {
  if (!may("admin")) return null;
  return <td><button type="button" class="quiet" data-change={to} onClick={() => document.getElementById(to)?.focus()}>Change<span class="unseen">{` ${title}`}</span></button></td>;
}

/** Everything of an agent, as it stands now. */
async function loaded(agent: string): Promise<Loaded> {
  // The settings first: changing the order of their agents in between makes this tag too old to save with.
  const config = await tagged<Config>("/v1/config");
  const known = (await everything<Agent>("/v1/agents", MOST_SHOWN)).items;
  const path = `/v1/policy/effective?agentId=${encodeURIComponent(agent === ALL ? nobody(known) : agent)}`;
  const list = (kind: string) => everything<Rule>(`/v1/agents/${encodeURIComponent(agent)}/${kind}`, MOST_SHOWN);
  const [document, effective, here, nodes, settings, allowlist, denylist] = await Promise.all([
    tagged<AgentPolicy>(policyPath(agent)),
    json<EffectivePolicy>("GET", path),
    json<EffectivePolicy>("GET", `${path}&host=gateway`),
    everything<Node>("/v1/nodes", MOST_SHOWN),
    json<{ items: Setting[] }>("GET", "/v1/settings"),
    list("allowlist"),
    list("denylist"),
  ]);
  return { agent, who: agent === ALL ? "all agents" : `agent ${agent}`, config, known, document, effective, here, nodes: nodes.items, settings: settings.items, lists: { allowlist, denylist } };
}

const policyPath = (agent: string): string => `/v1/agents/${encodeURIComponent(agent)}/policy`;

/** An agent that nothing knows of: it has the policy of every agent. */
function nobody(known: readonly Agent[]): string {
  let name = "any-other";
  while (known.some(({ agentId }) => agentId === name)) name += "-";
  return name;
}

interface DocumentKnown extends Known {
  path: string;
  body: AgentPolicy;
}

function documentKnown({ agent, who, document, here }: Loaded): DocumentKnown {
  const below: string[] = agent === ALL ? ["document-defaults"] : ["document-defaults", "document-wildcard"];
  const above = (key: "security" | "ask" | "askFallback"): string | undefined => here[key].layers.filter(({ layer }) => below.includes(layer)).at(-1)?.value;
  const said = { security: above("security"), ask: above("ask"), askFallback: above("askFallback") };
  const words = (value: string | undefined, none = "not set") => (value ? `inherited: ${value}` : none);
  const { security, ask, askFallback } = document.body;
  return {
    who, tag: document.tag, path: policyPath(agent), body: document.body,
    values: { security: security ?? undefined, ask: ask ?? undefined, askFallback: askFallback ?? undefined },
    // A document that says nothing takes nothing away; without an answer it denies.
    inherited: { security: said.security ?? "full", ask: said.ask ?? "off", askFallback: said.askFallback ?? "deny" },
    without: { security: words(said.security), ask: words(said.ask), askFallback: words(said.askFallback, "not set: deny") },
    choices: { security: SECURITY, ask: ASK, askFallback: SECURITY },
  };
}

async function saveDocument({ tag, path, body }: DocumentKnown, chosen: Values): Promise<void> {
  await json("PUT", path, { body: { ...body, ...chosen }, headers: { "If-Match": tag } });
}

interface SettingsKnown extends Known {
  paths: Record<string, string>;
}

function settingsKnown({ agent, who, config, known, nodes }: Loaded, fields: readonly Field[]): SettingsKnown {
  const items = new Map(config.body.items.map((item) => [item.path, item]));
  const named = known.find(({ agentId }) => agentId === agent)?.configPath ?? `agents.entries.${JSON.stringify(agent)}`;
  const own = agent === ALL ? "" : `${named}.`;
  const found: SettingsKnown = { who, tag: config.tag, values: {}, inherited: {}, without: {}, paths: {}, choices: { security: SECURITY, ask: ASK, host: HOSTS, node: nodes.map(nodeChoice) } };
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  for (const { key } of fields) {
    const path = `${own}tools.exec.${key}`;
    const item = items.get(path);
    const general = items.get(`tools.exec.${key}`);
    const inherited = text(agent === ALL ? general?.default : general?.value);
    const words = inherited ?? (key === "node" ? "any node" : "not set");
    found.paths[key] = path;
    found.values[key] = item && item.source !== "default" ? text(item.value) : undefined;
    found.inherited[key] = inherited;
    found.without[key] = agent === ALL ? `not set: ${words}` : `as for all agents: ${words}`;
  }
  return found;
}

async function saveSettings({ tag, values, paths }: SettingsKnown, chosen: Values): Promise<void> {
  const changed = Object.keys(chosen).filter((key) => chosen[key] !== values[key]);
  const pathOf = (key: string) => paths[key] ?? key;
  const set = Object.fromEntries(changed.filter((key) => chosen[key] !== undefined).map((key) => [pathOf(key), chosen[key]]));
  const unset = changed.filter((key) => chosen[key] === undefined).map(pathOf);
  await json("PATCH", "/v1/config", { body: { set, unset }, headers: { "If-Match": tag } });
}

const nodeChoice = ({ nodeId, displayName, connected }: Node): [string, string] =>
  [nodeId, `${displayName ? `${brief(displayName, NAME_LENGTH)} ` : ""}${nodeId.slice(0, 8)}…${connected ? "" : " (offline)"}`];

async function tagged<Body>(path: string): Promise<Tagged<Body>> {
  const response = await send("GET", path);
  return { tag: response.headers.get("etag") ?? "", body: (await response.json()) as Body };
}

