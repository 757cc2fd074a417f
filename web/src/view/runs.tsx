// Runs: what ran or was refused, why, and its output, also while it comes.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, byteSize, duration, visible } from "../pure/text.ts";
import { runStatus } from "../pure/words.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { useAgents } from "./agents.ts";
import { Cancel } from "./cancel.tsx";
import { Fact, Mono, Time, Wrong } from "./common.tsx";
import { dayOf, Filter, type FilterField, Listing, query, useFilter } from "./listing.tsx";
import { LiveOutput } from "./live-output.tsx";
import { Output } from "./output.tsx";
import { usePaged } from "./paged.ts";
import { Story } from "./story.tsx";

const STATES = ["running", "completed", "failed", "denied", "cancelled", "lost", "queued", "approval-pending"] as const;

export function Runs() {
  const agents = useAgents();
  const fields: FilterField[] = [
    { key: "agent", title: "Agent", choices: agents },
    { key: "status", title: "State", choices: [["", "Any state"], ...STATES.map((state) => [state, runStatus(state).label] as const)] },
    { key: "day", title: "Day", kind: "day" },
    { key: "q", title: "Text of the command", hint: "git push" },
  ];
  const { agent, status, day, q } = useFilter(fields);
  const hint = useValue(hints.runs) + useValue(hints.all);
  const list = usePaged<Run>(`/v1/runs?${query({ limit: "50", agentId: agent, status, ...dayOf(day), q })}`, ({ runId }) => runId, hint);
  const isNarrowed = Boolean(agent || status || day || q);
  return (
    <>
      <Filter view="runs" fields={fields} />
      <Listing id="runs" title="Runs" list={list} row={(run) => <Row key={run.runId} run={run} changed={list.refresh} />}
        none={isNarrowed ? <p>No run matches the filter. <a href="#/runs">Show all runs</a></p> : <p>Nothing has run yet. What an agent asks for appears here; try it with <code>countersign exec -- date</code>.</p>} />
    </>
  );
}

/** What ran on a terminal: each with its recording. */
export function Terminals() {
  const agents = useAgents();
  const fields: FilterField[] = [
    { key: "agent", title: "Agent", choices: agents },
    { key: "day", title: "Day", kind: "day" },
    { key: "q", title: "Text of the command", hint: "vim" },
  ];
  const { agent, day, q } = useFilter(fields);
  const hint = useValue(hints.runs) + useValue(hints.all);
  const list = usePaged<Run>(`/v1/runs?${query({ limit: "50", pty: "true", agentId: agent, ...dayOf(day), q })}`, ({ runId }) => runId, hint);
  const isNarrowed = Boolean(agent || day || q);
  return (
    <>
      <Filter view="terminals" fields={fields} />
      <Listing id="terminals" title="Terminals" list={list} row={(run) => <Row key={run.runId} run={run} changed={list.refresh} isRecording />}
        none={isNarrowed ? <p>No terminal matches the filter. <a href="#/terminals">Show all terminals</a></p> : <p>Nothing has run on a terminal yet. A command that an agent starts with <code>pty</code> is recorded, and you can replay it here. Try it with <code>countersign exec --pty -- top</code>.</p>} />
    </>
  );
}

function Row({ run, changed, isRecording = false }: { run: Run; changed: () => void; isRecording?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const { label, tone } = runStatus(run.status);
  const isLive = run.status === "running";
  return (
    <li class="run" data-run={run.runId}>
      <button type="button" class="run-head" aria-expanded={isOpen} aria-controls={`run-${run.runId}`} onClick={() => setOpen(!isOpen)}>
        <span class={`badge ${tone}`}>{label}</span>
        <code class="run-command" dir="ltr">{brief(run.displayText, 160)}</code>
        <span class="run-meta">{runMeta(run)} · <Time ms={run.createdAtMs} /></span>
      </button>
      <div class="run-body" id={`run-${run.runId}`} hidden={!isOpen}>
        {isOpen && (
          <>
            <RunFacts run={run} />
            {may("read") && <Story run={run} />}
            {isLive && may("admin") && <Cancel run={run} changed={changed} />}
            {run.startedAtMs !== undefined && run.outputBytes > 0 && <Recording run={run} isFirst={isRecording} />}
            {isRecording && !run.outputBytes && <p class="hint">No output.</p>}
            {isRecording ? null : isLive ? <LiveOutput runId={run.runId} ended={changed} /> : run.startedAtMs !== undefined && (run.outputBytes > 0 ? <Output key={run.status} run={run} /> : <p class="hint">No output.</p>)}
          </>
        )}
      </div>
    </li>
  );
}

/** The recording of a run, loaded when it is wanted. */
function Recording({ run, isFirst }: { run: Run; isFirst: boolean }) {
  const [Player, setPlayer] = useState<ComponentType<{ run: Run }> | undefined>(undefined);
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const id = `recording-${run.runId}`;
  function toggle() {
    setOpen(!isOpen);
    if (Player || isOpen) return;
    import("./replay.tsx").then(({ Replay }) => {
      setPlayer(() => Replay);
      setProblem("");
    }, () => setProblem("The player could not be loaded. Close it, and try again."));
  }
  useEffect(() => {
    if (isFirst) toggle();
  }, []);
  return (
    <>
      <button type="button" class="quiet" aria-expanded={isOpen} aria-controls={id} onClick={toggle}>{isOpen ? "Close the recording" : "Replay"}</button>
      <div id={id} hidden={!isOpen}>{isOpen && (Player ? <Player run={run} /> : <><Wrong text={problem} />{!problem && <p class="hint">Loading …</p>}</>)}</div>
    </>
  );
}

function runMeta(run: Run): string {
  const facts = [visible(run.agentId)];
  if (run.exitCode !== undefined) facts.push(`exit ${run.exitCode}`);
  if (run.exitSignal) facts.push(visible(run.exitSignal));
  if (run.durationMs !== undefined) facts.push(duration(run.durationMs));
  if (run.outputBytes) facts.push(byteSize(run.outputBytes));
  if (run.reason && run.status !== "completed") facts.push(visible(run.reason));
  return facts.join(" · ");
}

const BY: Record<string, string> = { policy: "policy", person: "a person", fallback: "the rule for questions that nobody answers" };
const VERDICTS: Record<string, string> = { run: "Allowed", ask: "Put to a person", deny: "Denied" };

/** Why it ran or did not, and how. */
function RunFacts({ run }: { run: Run & { start?: string; scripts?: string } }) {
  const { decision } = run;
  return (
    <dl class="facts">
      {decision && <Fact name="Why">{`${VERDICTS[decision.verdict] ?? decision.verdict} by ${BY[decision.by] ?? decision.by}`}{run.approvalId && <>: <a href={`/a/${run.approvalId}`}>the request and its answer</a></>}</Fact>}
      {run.reason && <Fact name="Reason"><code>{visible(run.reason)}</code>{run.detail && <> <bdi>{visible(run.detail)}</bdi></>}</Fact>}
      <Fact name="Policy">{`security ${run.security}, ask ${run.ask}`}</Fact>
      <Fact name="Where"><Mono text={run.nodeId ? `${run.host} ${run.nodeId}` : run.host} />{" in "}<Mono text={run.cwd} /></Fact>
      <Fact name="Trust level">{visible(run.isolation)}</Fact>
      {run.binding && <Fact name="Guaranteed unchanged">{visible(run.binding)}</Fact>}
      {run.start && <Fact name="Started">{run.start === "direct" ? "without the shell, which would only have found the program" : "by the shell"}</Fact>}
      {run.scripts && <Fact name="Scripts">{visible(run.scripts)}</Fact>}
      {run.confined && <Fact name="Confined">{visible(run.confined)}</Fact>}
      {run.observed?.line && <Fact name="Observed">{visible(run.observed.line)}</Fact>}
      {run.envNames.length > 0 && <Fact name="Variables">{run.envNames.map((name) => visible(name)).join(", ")}</Fact>}
      {run.justification && <Fact name="The agent says">{visible(`“${run.justification}”`)}</Fact>}
      {run.contextUrl && <Fact name="More context">{visible(run.contextUrl)}</Fact>}
      <Fact name="Session"><Mono text={run.sessionKey} /></Fact>
      <Fact name="Run"><code>{visible(run.runId)}</code></Fact>
    </dl>
  );
}
