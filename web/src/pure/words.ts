// What the states, reasons and levels of the API mean, in sentences for people. Pure.

import type { Actor, Approval, Pattern, RunNews, SessionOverrides } from "../api/types.ts";
import { byteSize, duration, visible } from "./text.ts";

/** How something is coloured; the words always say it too. */
export type Tone = "good" | "bad" | "warn" | "live" | "wait" | "dull";

// What the server says is looked up by its own names only, never by what every object has.
const of = <Value>(table: Readonly<Record<string, Value>>, name: string | undefined): Value | undefined =>
  name !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;

const RULES: Record<string, string> = {
  "ask-always": "Always ask: this agent's commands all need approval",
  "allowlist-miss": "Not on the allowlist",
  "needs-person": "Only a person can allow this",
};

/** Why a person is asked, in words; the code is under Details. */
export const rule = (code: string): string => of(RULES, code) ?? "A rule asks for approval";

/** The members of an approval that tell how it ended. */
export type Ended = Pick<Approval, "status" | "decision" | "reason" | "resolvedBy" | "terminalReason">;

const DECISIONS: Record<string, string> = { "allow-once": "Allowed once", "allow-always": "Allowed always", deny: "Denied" };

const EDGES: Record<string, string> = { session: "browser", token: "API token", cli: "command line", ipc: "app", bridge: "Bridge" };

/** Who decided, for people: a name and the edge they came through. */
export function who(actor: Pick<Actor, "kind" | "name"> | undefined): string {
  if (!actor) return "an unknown person";
  const edge = of(EDGES, actor.kind);
  return edge ? `${actor.name} (${edge})` : actor.name;
}

/** How many people have allowed it and who; nothing where one is enough. */
export function progress({ approvalsRequired, votes = [] }: Pick<Approval, "approvalsRequired" | "votes">): string {
  if (!(approvalsRequired > 1)) return "";
  const names = votes.filter(({ decision }) => decision !== "deny").map(({ by }) => who(by));
  const said = names.length ? `: ${names.join(", ")}` : "";
  return `Allowed by ${names.length} of ${approvalsRequired}${said}`;
}

/** Who may allow it; nothing where every approver may. */
export function entitled({ groups }: Pick<Approval, "groups">): string {
  if (!groups) return "";
  return groups.length ? `approvers of ${groups.join(", ")}` : "nobody: its parts need approvers of different groups";
}

/** What a session overrides, for people; nothing where it overrides nothing. */
export function overridden(overrides: Partial<SessionOverrides>): string {
  const said = (["host", "security", "ask", "node"] as const).filter((name) => overrides[name]).map((name) => `${name} ${overrides[name]}`);
  if (overrides.elevated !== undefined && overrides.elevated !== "off") said.push(`elevated ${overrides.elevated}`);
  if (!said.length) return "";
  const { setBy } = overrides;
  const sender = setBy?.sender ? ` for ${setBy.sender.provider}:${setBy.sender.id}` : "";
  return said.join(", ") + (setBy ? ` (set by ${setBy.name}${sender})` : "");
}

const FALLBACKS: Record<string, string> = { deny: "denied", allowlist: "runs if the allowlist covers it", full: "runs without an answer" };

/** What happens when nobody answers. */
export const fallback = (security: string): string => of(FALLBACKS, security) ?? security;

/** How an approval ended. `mine`: whether this page's own answer counted, if that is known. */
export function outcome(approval: Ended, mine?: boolean): { tone: Tone; title: string; detail: string } {
  const { status, decision, reason, resolvedBy, terminalReason } = approval;
  const said = reason ? `Reason: ${reason}` : "";
  if (status === "allowed" || status === "denied") {
    if (terminalReason === "rule") {
      return { tone: status === "denied" ? "bad" : "good", title: status === "denied" ? "Denied by your rule" : "Allowed by your rule", detail: `By ${who(resolvedBy)}` };
    }
    if (terminalReason === "taken-back") {
      return { tone: "bad", title: `Allowed, and taken back by ${who(resolvedBy)} before it started`, detail: said };
    }
    const title = of(DECISIONS, decision) ?? (status === "denied" ? "Denied" : "Allowed");
    const by = mine ? "by you" : `by ${who(resolvedBy)}`;
    return { tone: status === "denied" ? "bad" : "good", title: `${title} ${by}`, detail: said };
  }
  if (status === "expired") {
    const why = terminalReason === "no-route" ? "No approver could be reached" : "Nobody answered in time";
    return { tone: "dull", title: "Expired", detail: `${why}, so no person allowed it. The agent can ask again.` };
  }
  return { tone: "dull", title: `Cancelled by ${who(resolvedBy)}`, detail: "The request was withdrawn." };
}

const STATUS: Record<string, [Tone, string]> = {
  queued: ["dull", "Queued"],
  "approval-pending": ["wait", "Waiting"],
  running: ["live", "Running"],
  completed: ["good", "Done"],
  failed: ["bad", "Failed"],
  denied: ["bad", "Denied"],
  cancelled: ["dull", "Cancelled"],
  lost: ["warn", "Lost"],
};

/** A run's state in a word. */
export function runStatus(status: string): { tone: Tone; label: string } {
  const [tone, label]: [Tone, string] = of(STATUS, status) ?? ["dull", status];
  return { tone, label };
}

/** How a run ended, in a few words. */
export function runFacts(run: Partial<RunNews> | undefined): string {
  const facts: string[] = [];
  if (run?.exitCode !== undefined) facts.push(`exit code ${run.exitCode}`);
  if (run?.exitSignal) facts.push(visible(run.exitSignal));
  if (run?.durationMs !== undefined && run.status !== "denied") facts.push(duration(run.durationMs));
  if (run?.outputBytes) facts.push(`${byteSize(run.outputBytes)} of output`);
  if (run?.reason) facts.push(visible(run.reason));
  return facts.join(" · ");
}

/** What a remembered pattern would let through, by its width. */
export function width(pattern: Pick<Pattern, "pattern" | "width">): string {
  if (pattern.pattern.startsWith("=command:")) return "exactly this text, in any directory";
  if (pattern.width === "exact") return "exactly these arguments, in this directory";
  if (pattern.width === "arguments") return "arguments of this form, in this directory";
  return "any arguments, in any directory";
}
