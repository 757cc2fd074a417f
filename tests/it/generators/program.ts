// A client as people write it with the generated types. Each line under `@ts-expect-error` must not compile.
import type { components, paths } from "./contract";

type Exec = paths["/v1/exec"]["post"];
type ExecRequest = Exec["requestBody"]["content"]["application/json"];
type ExecAnswer =
  | Exec["responses"][200]["content"]["application/json"]
  | Exec["responses"][202]["content"]["application/json"];

export const text: ExecRequest = { command: "git status", agentId: "build" };
export const program: ExecRequest = { argv: ["/usr/bin/git", "status"] };
// @ts-expect-error there is nothing to run
export const nothing: ExecRequest = { agentId: "build" };
// @ts-expect-error only one of them
export const both: ExecRequest = { command: "id", argv: ["id"] };

export function told(answer: ExecAnswer): string {
  switch (answer.status) {
    case "completed":
      return answer.stdout;
    case "failed":
      return answer.reason ?? `exit code ${answer.exitCode}`;
    case "running":
      return answer.sessionId;
    case "approval-pending":
      return answer.approvalSlug;
    default: {
      const other: never = answer;
      return other;
    }
  }
}

export function early(answer: ExecAnswer): string {
  // @ts-expect-error what waits for a person has written nothing
  return answer.stdout;
}

export function decided(explanation: components["schemas"]["Explanation"]): string {
  switch (explanation.outcome) {
    case "run":
      return explanation.host.value;
    case "ask":
      return explanation.reason === "needs-person" ? "only a person" : "a person";
    case "deny":
      return explanation.reason;
    default: {
      const other: never = explanation;
      return other;
    }
  }
}

export function shown(run: components["schemas"]["RunWithOutput"]): string {
  switch (run.status) {
    case "approval-pending":
      return run.approvalId;
    case "running":
      return new Date(run.startedAtMs).toISOString();
    case "denied":
      return run.reason;
    case "queued":
    case "completed":
    case "failed":
    case "cancelled":
    case "lost":
      return run.stdout;
    default: {
      const other: never = run;
      return other;
    }
  }
}

export function heard(event: components["schemas"]["Event"]): string {
  if (event.type === "exec.approval.requested") {
    return `${event.approvalId} ${event.command} ${event.seq + 1}`;
  }
  if (event.type === "exec.finished") {
    return `${event.runId} ${event.status} ${event.exitCode ?? event.exitSignal}`;
  }
  if (event.type === "session.changed") {
    return event.overrides.elevated;
  }
  // @ts-expect-error not every event is about a run that ended
  return event.exitCode;
}

export async function refused(answer: Response): Promise<string> {
  const problem: components["schemas"]["Problem"] = await answer.json();
  return problem.code === "blocked-env" ? (problem.names ?? []).join(", ") : problem.detail;
}

export function answered(answer: components["schemas"]["ProcessAnswer"]): string {
  switch (answer.kind) {
    case "list":
      return answer.items.map((session) => session.sessionId).join(" ");
    case "poll":
      return answer.stdout + answer.stderr;
    case "log":
      return answer.text;
    case "input":
      return answer.warnings.map((warning) => warning.code).join(" ");
    case "session":
      return answer.session.status;
    default: {
      const other: never = answer;
      return other;
    }
  }
}
