// What happened to a run, step by step: the events of its record as a tree. Pure.

import type { ApprovalDecision, Approval, PageEvent } from "../api/types.ts";
import { duration, visible } from "./text.ts";
import { outcome, runStatus, who } from "./words.ts";

/** A step, with those that belong to it. */
export interface Step {
  atMs: number;
  words: string;
  steps: Step[];
}

/** An event of a run, with the members that are told of. */
export interface RunEvent extends Partial<Omit<PageEvent, "ts" | "type">> {
  type: string;
  atMs: number;
  requestedBy?: Approval["requestedBy"];
  verdict?: string;
  by?: Approval["resolvedBy"];
  votes?: number;
  approvalsRequired?: number;
  sessionId?: string;
  elapsedMs?: number;
  detail?: string;
  change?: string;
  text?: string;
}

const VERDICTS: Record<string, string> = { run: "Policy let it run.", ask: "Policy wanted a person's answer.", deny: "Policy denied it." };
const ANSWERS: Record<ApprovalDecision, string> = { "allow-once": "allowed it once", "allow-always": "allowed it always", deny: "denied it" };

/** Which step a step belongs to: the request, the question, or the command that runs. */
type Place = "request" | "question" | "command";

function told(event: RunEvent): [Place, string] {
  const { type, reason } = event;
  const why = reason ? `: ${reason}` : "";
  switch (type) {
    case "exec.requested":
      return ["request", `${who(event.requestedBy)} asked for it. ${VERDICTS[event.verdict ?? ""] ?? ""}`.trim()];
    case "exec.approval.requested":
      return ["request", "The question was put to people."];
    case "exec.approval.voted":
      return ["question", `${who(event.by)} ${ANSWERS[event.decision ?? "allow-once"]} (${event.votes ?? "?"} of ${event.approvalsRequired ?? "?"}).`];
    case "exec.approval.resolved": {
      const { title, detail } = outcome({ ...event, status: event.status } as Parameters<typeof outcome>[0]);
      return ["question", `${title}. ${detail}`.trim()];
    }
    case "exec.started":
      return ["request", event.sessionId ? `It started, as session ${event.sessionId}.` : "It started."];
    case "exec.running":
      return ["command", `It was still running after ${duration(event.elapsedMs ?? 0)}.`];
    case "exec.finished": {
      const end = event.exitCode !== undefined ? `, exit ${event.exitCode}` : event.exitSignal ? `, ${event.exitSignal}` : "";
      return ["request", `It ended: ${runStatus(event.status ?? "").label}${end}, after ${duration(event.durationMs ?? 0)}${why}.`];
    }
    case "exec.denied":
      return ["request", `It was denied${why}.${event.detail ? ` ${event.detail}` : ""}`];
    case "allowlist.changed":
      return ["request", event.change === "used" ? "An entry covered it." : `An entry was ${event.change ?? "changed"} for it.`];
    case "system.event":
      return ["command", `Its session was told: ${event.text ?? ""}`];
    case "session.wake":
      return ["command", "Its agent was asked to look."];
    default:
      return ["request", type];
  }
}

/** The steps of a run, in the order of time, each below what it belongs to. */
export function story(events: readonly RunEvent[]): Step[] {
  const steps: Step[] = [];
  const last: Partial<Record<Place, Step>> = {};
  for (const event of events) {
    const [place, words] = told(event);
    const step: Step = { atMs: event.atMs, words: visible(words), steps: [] };
    const above = event.type === "exec.requested" ? undefined : (last[place] ?? last.request);
    (above?.steps ?? steps).push(step);
    if (event.type === "exec.requested") last.request = step;
    if (event.type === "exec.approval.requested") last.question = step;
    if (event.type === "exec.started") last.command = step;
  }
  return steps;
}
