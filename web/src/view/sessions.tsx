// Process sessions: what runs in the background, its last output, and a way to end it. Writing to one is the agent's: a token
// that answers never gives commands.

import { useState } from "preact/hooks";
import type { ProcessSession } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, byteSize, duration, visible, visibleOutput } from "../pure/text.ts";
import { runStatus } from "../pure/words.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { useAgents } from "./agents.ts";
import { Cancel } from "./cancel.tsx";
import { Fact, Mono, Time } from "./common.tsx";
import { Filter, type FilterField, Listing, query, useFilter } from "./listing.tsx";
import { LiveOutput } from "./live-output.tsx";
import { usePaged } from "./paged.ts";

const STATES = ["running", "completed", "failed", "cancelled", "lost"] as const;

export function Sessions() {
  const agents = useAgents();
  const fields: FilterField[] = [
    { key: "agent", title: "Agent", choices: agents },
    { key: "status", title: "State", choices: [["", "Any state"], ...STATES.map((state) => [state, runStatus(state).label] as const)] },
  ];
  const { agent, status } = useFilter(fields);
  const hint = useValue(hints.runs) + useValue(hints.all);
  const list = usePaged<ProcessSession>(`/v1/process?${query({ limit: "50", agentId: agent, status })}`, ({ sessionId }) => sessionId, hint);
  return (
    <>
      <Filter view="sessions" fields={fields} />
      <Listing id="sessions" title="Process sessions" list={list} row={(session) => <Row key={session.sessionId} session={session} changed={list.refresh} />}
        none={agent || status ? <p>No session matches the filter. <a href="#/sessions">Show all sessions</a></p> : <p>Nothing runs in the background. A command that an agent starts with <code>background</code>, or that outlives its call, appears here.</p>} />
    </>
  );
}

function Row({ session, changed }: { session: ProcessSession; changed: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const { label, tone } = runStatus(session.status);
  const isLive = session.status === "running";
  const facts = [visible(session.agentId), duration(session.durationMs), byteSize(session.outputBytes)];
  if (session.exitCode !== undefined) facts.push(`exit ${session.exitCode}`);
  if (session.exitSignal) facts.push(visible(session.exitSignal));
  return (
    <li class="run" data-session={session.sessionId}>
      <button type="button" class="run-head" aria-expanded={isOpen} aria-controls={`session-${session.sessionId}`} onClick={() => setOpen(!isOpen)}>
        <span class={`badge ${tone}`}>{label}</span>
        <code class="run-command" dir="ltr">{brief(session.command, 160)}</code>
        <span class="run-meta">{facts.join(" · ")}{session.waitingForInput && <span class="chip warn">waits for input</span>}</span>
      </button>
      <div class="run-body" id={`session-${session.sessionId}`} hidden={!isOpen}>
        {isOpen && (
          <>
            <dl class="facts">
              <Fact name="Name"><bdi>{visible(session.name)}</bdi></Fact>
              <Fact name="Where"><Mono text={session.host} />{" in "}<Mono text={session.cwd} /></Fact>
              <Fact name="Started"><Time ms={session.startedAtMs} /></Fact>
              {session.pid !== undefined && <Fact name="Process">{String(session.pid)}</Fact>}
              <Fact name="Input">{session.stdinOpen ? "open: the agent can write to it" : "closed"}</Fact>
              {session.pty && <Fact name="Terminal">{`${session.cols ?? "?"} × ${session.rows ?? "?"}`}</Fact>}
              <Fact name="Session"><Mono text={session.sessionKey} /></Fact>
            </dl>
            {isLive && may("admin") && <Cancel run={session} changed={changed} />}
            {isLive ? <LiveOutput runId={session.runId} ended={changed} /> : (
              <div class="run-output">{session.tail ? <pre class="output" tabIndex={0} role="group" aria-label="The last output">{visibleOutput(session.tail)}</pre> : <p class="hint">No output.</p>}</div>
            )}
          </>
        )}
      </div>
    </li>
  );
}
