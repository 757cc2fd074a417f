// Nodes: the machines that run commands for this server, and those that ask to become one. A pairing is decided here
// with the same protection against mis-taps as a request.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { everything, json, Refused, send } from "../api/api.ts";
import type { Node, Pairing } from "../api/types.ts";
import { hints } from "../hints.ts";
import { command, pairing } from "../pure/pairing.ts";
import { brief, mixedWords, visible } from "../pure/text.ts";
import { failed, looker, may } from "../shell.ts";
import { State, useValue } from "../state.ts";
import { type Guard, nudge, watch } from "../steady.ts";
import { Fact, Time, Wrong } from "./common.tsx";
import { Confirm } from "./confirm.tsx";

const MOST_SHOWN = 500;
const NAME_LENGTH = 60;
const PAUSE_MS = 300;

const nodes = new State<readonly Node[] | undefined>(undefined);
const pairings = new State<readonly Pairing[]>([]);

const refreshNodes = looker(async () => {
  const [known, asking] = await Promise.all([
    everything<Node>("/v1/nodes", MOST_SHOWN),
    may("admin") ? everything<Pairing>("/v1/nodes/pairings", MOST_SHOWN) : { items: [] },
  ]);
  nodes.set(known.items);
  // Cards that are there stay where they are, so that nothing moves under a finger.
  pairings.change((before) => {
    const now = new Map(asking.items.map((request) => [request.requestId, request]));
    const kept = before.filter(({ requestId }) => now.delete(requestId));
    return [...kept, ...now.values()];
  });
}, PAUSE_MS);

export function Nodes() {
  const hint = useValue(hints.nodes) + useValue(hints.all);
  useEffect(() => refreshNodes(), [hint]);
  return (
    <>
      <Pairings />
      <NodeList />
    </>
  );
}

/** The machines that ask to become a node. */
function Pairings() {
  const all = useValue(pairings);
  const list = useRef<HTMLOListElement>(null);
  const guard = useRef<Guard | undefined>(undefined);
  useLayoutEffect(() => {
    if (!list.current) return undefined;
    guard.current = watch(list.current);
    return () => guard.current?.stop();
  }, []);
  useLayoutEffect(() => guard.current?.look());
  return (
    <section id="pairings" aria-labelledby="pairings-title" hidden={all.length === 0}>
      <div class="section-head"><h2 id="pairings-title">Pairing requests</h2></div>
      <ol class="cards" id="pairings-list" ref={list} aria-labelledby="pairings-title">
        {all.map((request) => <PairingCard key={request.requestId} request={request} guard={() => guard.current} />)}
      </ol>
    </section>
  );
}

/** A name that another person chose, with everything unseen spelled out; without one the beginning of the id. */
const Name = ({ of }: { of: Pick<Node, "nodeId" | "displayName"> }) => <bdi>{of.displayName ? brief(of.displayName, NAME_LENGTH) : `${of.nodeId.slice(0, 12)}…`}</bdi>;

/** An id in groups, as people compare it with what the machine itself shows. */
const grouped = (id: string): string => visible(id).replace(/(.{8})(?=.)/g, "$1 ");

type PairingAnswer = "approve" | "reject";

function PairingCard({ request, guard }: { request: Pairing; guard: () => Guard | undefined }) {
  const root = useRef<HTMLLIElement>(null);
  const [sent, setSent] = useState<PairingAnswer | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const { verb, sentence, consequence } = pairing(request);

  async function decide(decision: PairingAnswer) {
    if (sent || !root.current) return;
    if (!guard()?.isSteady(root.current)) return nudge(root.current);
    setSent(decision);
    setProblem("");
    try {
      await json("POST", `/v1/nodes/pairings/${encodeURIComponent(request.requestId)}/decision`, { body: { decision } });
      announce(decision === "approve" ? "The pairing is approved." : "The pairing is rejected.");
    } catch (error) {
      // What it still says will be asked for below; a request that is gone takes its card along.
      setSent(undefined);
      if (error instanceof Refused) setProblem(error.status === 404 ? "This request was decided elsewhere, or has ended." : error.message);
      else setProblem("Your answer did not arrive. Please answer again.");
    }
    refreshNodes();
  }

  const button = (decision: PairingAnswer, text: string, style: string) => (
    <button type="button" class={`act ${style}${sent === decision ? " busy" : ""}`} data-decision={decision} aria-disabled={sent !== undefined ? true : undefined} onClick={() => void decide(decision)}>
      <span class="act-text">{text}</span>
    </button>
  );
  return (
    <li class="card pairing" ref={root} data-request={request.requestId} data-kind={request.kind}>
      <div class="card-head"><h3 class="card-title"><Name of={request} /> {verb}</h3></div>
      <p class="why">{sentence} {consequence}</p>
      {mixedWords(request.displayName ?? "").length > 0 && <p class="warn-line">Its name mixes letters of different alphabets, which can look the same.</p>}
      {request.commands.length > 0 && (
        <ul class="offered">
          {request.commands.map((offered) => <li key={offered}><code>{brief(offered, NAME_LENGTH)}</code> {command(offered)}</li>)}
        </ul>
      )}
      <dl class="facts">
        <Fact name="Device"><code class="fingerprint">{grouped(request.nodeId)}</code></Fact>
        {request.remoteIp && <Fact name="Address"><code>{visible(request.remoteIp)}</code></Fact>}
        {request.platform && <Fact name="Platform"><bdi>{brief(request.platform, NAME_LENGTH)}</bdi></Fact>}
        <Fact name="Asked"><Time ms={request.requestedAtMs} /></Fact>
      </dl>
      <Wrong text={problem} />
      <div class="answer"><div class="actions two">{button("reject", "Reject", "deny")}{button("approve", "Approve", "allow-once plain")}</div></div>
    </li>
  );
}

/** The machines that are nodes. */
function NodeList() {
  const all = useValue(nodes);
  if (!all) return <p class="hint">Loading …</p>;
  if (!all.length) {
    return <div class="blank" id="nodes-none"><p>No machine is a node yet. On a machine that should run commands, start <code>countersign node run</code>; its request to pair appears here.</p></div>;
  }
  return (
    <section id="nodes" aria-labelledby="nodes-title">
      <div class="section-head"><h2 id="nodes-title">Paired</h2></div>
      <ol class="runs" id="nodes-list" aria-labelledby="nodes-title">
        {all.map((node) => <NodeRow key={node.nodeId} node={node} />)}
      </ol>
    </section>
  );
}

function NodeRow({ node }: { node: Node }) {
  const facts = [node.platform, node.version, node.remoteIp].filter(Boolean).map((text) => brief(text, 40));
  return (
    <li class="run node" data-node={node.nodeId}>
      <details>
        <summary class="run-head">
          <span class={`badge ${node.connected ? "good" : "dull"}`}>{node.connected ? "Connected" : "Offline"}</span>
          <span class="run-command"><Name of={node} /></span>
          <span class="run-meta">{facts.join(" · ")}</span>
        </summary>
        <div class="run-body">
          <dl class="facts">
            <Fact name="Device"><code class="fingerprint">{grouped(node.nodeId)}</code></Fact>
            {node.lastSeenAtMs && <Fact name="Last seen"><Time ms={node.lastSeenAtMs} /></Fact>}
            <Fact name="May be sent">{node.commands.length ? node.commands.map((offered) => brief(offered, NAME_LENGTH)).join(", ") : "nothing yet"}</Fact>
          </dl>
          {may("admin") && <Rename node={node} />}
          {may("admin") && (
            <Confirm name="Unpair…" act="unpair" label={`Unpair ${node.displayName ? brief(node.displayName, NAME_LENGTH) : node.nodeId.slice(0, 12)}`} question="Unpair this machine? It is disconnected at once, and has to ask again." yes="Unpair it" done="The machine is unpaired." changed={refreshNodes}
              run={async () => void (await send("DELETE", `/v1/nodes/${encodeURIComponent(node.nodeId)}`))} />
          )}
        </div>
      </details>
    </li>
  );
}

/** Gives a node another name: what people see of it, and what a call may name it by. */
function Rename({ node: { nodeId, displayName = "" } }: { node: Node }) {
  const [name, setName] = useState<string | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const wanted = name?.trim() ?? "";
  const isReady = wanted !== "" && wanted !== displayName && !isSending;
  async function save() {
    if (!isReady) return;
    setSending(true);
    setProblem("");
    try {
      await json("PATCH", `/v1/nodes/${encodeURIComponent(nodeId)}`, { body: { displayName: wanted } });
      setName(undefined);
      announce("The name is changed.");
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? error.message : "No answer came. Check the current name before you try again.");
    }
    setSending(false);
    refreshNodes();
  }
  return (
    <form class="rename" noValidate onSubmit={(event) => {
      event.preventDefault();
      void save();
    }}>
      <div class="field">
        <label for={`name-${nodeId}`}>Name</label>
        <input id={`name-${nodeId}`} type="text" maxLength={128} autocomplete="off" spellcheck={false} value={name ?? displayName} onInput={(event) => setName(event.currentTarget.value)} />
      </div>
      <button type="submit" class="quiet" aria-disabled={!isReady}>Rename</button>
      <Wrong text={problem} />
    </form>
  );
}
