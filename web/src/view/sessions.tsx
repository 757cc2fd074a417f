// Process sessions: what runs in the background, its output as it comes, what is sent to it, and a way to end it. Only a sign-in
// with the scope exec sends something: a token that answers never gives commands.

import { useState } from "preact/hooks";
import { json } from "../api/api.ts";
import type { ProcessSession } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, byteSize, duration, visible, visibleOutput } from "../pure/text.ts";
import { runStatus } from "../pure/words.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { useAgents } from "./agents.ts";
import { Cancel } from "./cancel.tsx";
import { Fact, Mono, Time } from "./common.tsx";
import { Confirm } from "./confirm.tsx";
import { Filter, type FilterField, Listing, query, useFilter } from "./listing.tsx";
import { usePaged } from "./paged.ts";
import { SessionInput, SessionOutput } from "./session-live.tsx";

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
        none={agent || status ? <p>No session matches the filter. <a href="#/sessions">Show all sessions</a></p> : <p>Nothing runs in the background. A command that an agent starts with <code>background</code>, or that outlives its call, appears here. Try it with <code>countersign exec --background -- sleep 60</code>.</p>} />
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
              <Fact name="Input">{session.stdinOpen ? "open" : "closed: nothing can be written to it"}</Fact>
              {session.pty && <Fact name="Terminal">{`${session.cols ?? "?"} × ${session.rows ?? "?"}`}</Fact>}
              <Fact name="Session"><Mono text={session.sessionKey} /></Fact>
            </dl>
            {isLive && <End session={session} changed={changed} />}
            {isLive ? <SessionOutput session={session} ended={changed} /> : (
              <div class="run-output">{session.tail ? <pre class="output" tabIndex={0} role="group" aria-label="The last output">{visibleOutput(session.tail)}</pre> : <p class="hint">No output.</p>}</div>
            )}
            {isLive && session.stdinOpen && (may("exec") ? <SessionInput session={session} changed={changed} /> : (
              <p class="hint">You can look at it. To write to it, sign in with a token that has the scopes exec and read. Such a token can never answer requests.</p>
            ))}
          </>
        )}
      </div>
    </li>
  );
}

/** A way to end it, for those who may: an agent's own by the process tool, any by an admin. */
function End({ session, changed }: { session: ProcessSession; changed: () => void }) {
  if (may("admin")) return <Cancel run={session} changed={changed} />;
  if (!may("exec")) return null;
  const { sessionId, agentId } = session;
  return (
    <Confirm name="End the session…" act="kill-session" question="End this session and everything that it started?" yes="End it" done="The session is ended." changed={changed}
      run={() => json("POST", "/v1/process", { body: { action: "kill", sessionId, agentId } })} />
  );
}
