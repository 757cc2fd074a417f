// Recent runs: what was asked, how it ended, and its output on demand.

import { useEffect, useState } from "preact/hooks";
import { json } from "../api/api.ts";
import type { Page, Run } from "../api/types.ts";
import { brief, duration, visible } from "../pure/text.ts";
import { runStatus } from "../pure/words.ts";
import { failed, looker } from "../shell.ts";
import { State, useValue } from "../state.ts";
import { Fact, Mono } from "./common.tsx";
import { Output } from "./output.tsx";

const PAGE = 50;
const SHOWN_FIRST = 15;
const MOST_KEPT = 500;
const PAUSE_MS = 1000;

const runs = new Map<string, Run>();
const shown = new State<{ runs: Run[]; hasMore: boolean } | undefined>(undefined);
// `undefined`: nothing was asked for yet; `null`: there is nothing older.
let cursor: string | null | undefined;
let limit = SHOWN_FIRST;
let lookedAt = 0;

/** The list follows the events, but never more often than a person can read. */
export const refreshRuns = looker(async () => {
  if (document.hidden) return;
  lookedAt = performance.now();
  const page = await json<Page<Run>>("GET", `/v1/runs?limit=${PAGE}`);
  if (cursor === undefined) cursor = page.nextCursor ?? null;
  take(page.items);
  // What waits for an answer is in the inbox; behind a crowd of such there may be runs all the same.
  for (let tries = 0; tries < 3 && runs.size < SHOWN_FIRST && cursor; tries += 1) await next();
  show();
}, () => Math.max(100, lookedAt + PAUSE_MS - performance.now()));

async function older(): Promise<void> {
  limit += SHOWN_FIRST;
  for (let tries = 0; tries < 5 && runs.size < limit && cursor; tries += 1) await next();
  show();
}

async function next(): Promise<void> {
  const page = await json<Page<Run>>("GET", `/v1/runs?limit=${PAGE}&cursor=${encodeURIComponent(cursor ?? "")}`);
  cursor = page.nextCursor ?? null;
  take(page.items);
}

function take(some: readonly Run[]): void {
  for (const run of some) if (run.status !== "approval-pending") runs.set(run.runId, run);
}

/** Newest first. A page that stays open for days forgets what nobody looks at; older runs are loaded anew. */
function show(): void {
  const sorted = [...runs.values()].sort((a, b) => b.createdAtMs - a.createdAtMs);
  for (const { runId } of sorted.slice(limit + MOST_KEPT)) {
    runs.delete(runId);
    cursor = undefined;
  }
  shown.set({ runs: sorted.slice(0, limit), hasMore: sorted.length > limit || Boolean(cursor) });
}

export function Runs() {
  const now = useValue(shown);
  return (
    <section id="recent" aria-labelledby="recent-title">
      <div class="section-head"><h2 id="recent-title">Recent runs</h2></div>
      <ol class="runs" id="runs" aria-labelledby="recent-title">
        {now && !now.runs.length && <li class="blank">Nothing has run yet.</li>}
        {now?.runs.map((run) => <Row key={run.runId} run={run} />)}
      </ol>
      {now?.hasMore && <button type="button" class="more" id="runs-more" onClick={() => older().catch(failed)}>Show older runs</button>}
    </section>
  );
}

function Row({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const { label, tone } = runStatus(run.status);
  const at = new Date(run.createdAtMs);
  return (
    <li class="run" data-run={run.runId}>
      <button type="button" class="run-head" aria-expanded={isOpen} aria-controls={`run-${run.runId}`} onClick={() => setOpen(!isOpen)}>
        <span class={`badge ${tone}`}>{label}</span>
        <code class="run-command" dir="ltr">{brief(run.displayText, 160)}</code>
        <span class="run-meta">
          {runMeta(run)} · <time dateTime={at.toISOString()} title={at.toLocaleString()}>{at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}</time>
        </span>
      </button>
      <div class="run-body" id={`run-${run.runId}`} hidden={!isOpen}>
        {isOpen && <><RunFacts run={run} /><Output key={run.status} run={run} /></>}
      </div>
    </li>
  );
}

function runMeta(run: Run): string {
  const facts = [visible(run.agentId)];
  if (run.exitCode !== undefined) facts.push(`exit ${run.exitCode}`);
  if (run.exitSignal) facts.push(visible(run.exitSignal));
  if (run.durationMs !== undefined) facts.push(duration(run.durationMs));
  if (run.reason && run.status !== "completed") facts.push(visible(run.reason));
  return facts.join(" · ");
}

function RunFacts({ run }: { run: Run & { start?: string; scripts?: string } }) {
  return (
    <dl class="facts">
      <Fact name="Directory"><Mono text={run.cwd} /></Fact>
      <Fact name="Trust level">{visible(run.isolation)}</Fact>
      {run.binding && <Fact name="Guaranteed unchanged">{visible(run.binding)}</Fact>}
      {run.start && <Fact name="Started">{run.start === "direct" ? "without the shell, which would only have found the program" : "by the shell"}</Fact>}
      {run.scripts && <Fact name="Scripts">{visible(run.scripts)}</Fact>}
      {run.confined && <Fact name="Confined">{visible(run.confined)}</Fact>}
      {run.justification && <Fact name="The agent says">{visible(`“${run.justification}”`)}</Fact>}
      {run.contextUrl && <Fact name="To read more">{visible(run.contextUrl)}</Fact>}
      {run.decision && <Fact name="Decided by">{visible(run.decision.by)}</Fact>}
      {run.approvalId && <Fact name="Request"><a href={`/a/${run.approvalId}`}>{run.approvalId.slice(0, 8)}</a></Fact>}
    </dl>
  );
}

/** Looks again when the page comes back into sight. */
export function useRunsInSight(): void {
  useEffect(() => {
    const seen = () => {
      if (!document.hidden) refreshRuns();
    };
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, []);
}
