// How the same command of the same agent ended before: who answered what, and how its run ended.

import { useEffect, useState } from "preact/hooks";
import { json } from "../api/api.ts";
import type { Approval, Page, Run } from "../api/types.ts";
import { visible } from "../pure/text.ts";
import { outcome, runStatus } from "../pure/words.ts";
import { Time } from "./common.tsx";

const MOST_SHOWN = 5;
const MOST_ASKED_FOR = 50;

export function Past({ approval: { agentId, command, createdAtMs }, runs }: { approval: Approval; runs: Run[] }) {
  const [answers, setAnswers] = useState<ReadonlyMap<string, Approval>>(new Map());
  const shown = runs.slice(0, MOST_SHOWN);
  const wereAsked = shown.some(({ approvalId }) => approvalId !== undefined);
  useEffect(() => {
    if (!wereAsked) return undefined;
    let isOver = false;
    // The search takes a part of the text.
    const query = new URLSearchParams({ agentId, q: [...command].slice(0, 100).join(""), status: "all", until: String(createdAtMs + 1), limit: String(MOST_ASKED_FOR) });
    // Without an answer the runs say what they know.
    json<Page<Approval>>("GET", `/v1/approvals?${query}`).then(({ items }) => !isOver && setAnswers(new Map(items.map((answer) => [answer.runId, answer]))), () => {});
    return () => {
      isOver = true;
    };
  }, [agentId, command, createdAtMs, wereAsked]);
  return (
    <div class="past">
      <p>{`The last ${shown.length === 1 ? "time" : `${shown.length} times`} this agent asked for exactly this:`}</p>
      <ol class="past-list" aria-label="The last times">
        {shown.map((run) => {
          const { label, tone } = runStatus(run.status);
          const answer = answers.get(run.runId);
          const by = run.decision?.by;
          const said = answer && answer.status !== "pending" ? outcome(answer).title : by && `decided by ${by}`;
          const facts = [said, run.exitCode !== undefined && `exit code ${run.exitCode}`, run.exitSignal, run.status === "denied" && run.reason !== "user-denied" && run.reason];
          return (
            <li key={run.runId}>
              <span class={`badge ${tone}`}>{label}</span> <Time ms={run.createdAtMs} />{visible(facts.filter(Boolean).map((fact) => `, ${fact}`).join(""))}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
