// Which of several requests an "always" answers by what it stores, and why it leaves the others. Pure, and as the server judges
// them afterwards: what is said here before the answer is only said, never sent.

import type { Approval, Pattern } from "../api/types.ts";
import { baseName } from "./facts.ts";
import { type Narrowing, proposalsOf } from "./grant.ts";
import { noAlwaysReason } from "./grant-words.ts";

/** A request that the rule leaves, and the reason. */
export interface Left {
  approval: Approval;
  why: string;
}

export interface Coverage {
  covered: Approval[];
  left: Left[];
}

/** What becomes of the other requests, oldest first, once `asked` is answered by this rule. */
export function coverageOf(asked: Approval, narrowed: Narrowing, others: readonly Approval[]): Coverage {
  const stores = proposalsOf(asked).find(({ id }) => id === narrowed.proposal)?.stores ?? [];
  const uses = Math.min(narrowed.uses ?? Infinity, ...stores.map(({ limits }) => limits?.maxUses ?? Infinity));
  const found: Coverage = { covered: [], left: [] };
  for (const approval of others) {
    const why = whyNot(asked, stores, narrowed, approval);
    if (why) found.left.push({ approval, why });
    // The request that is answered is the first use.
    else if (found.covered.length + 1 >= uses) found.left.push({ approval, why: "the rule has no use left for it" });
    else found.covered.push(approval);
  }
  return found;
}

function whyNot(asked: Approval, stores: readonly Pattern[], narrowed: Narrowing, other: Approval): string {
  if (asked.approvalsRequired > 1) return "nothing is stored until the last person has allowed it";
  if (other.agentId !== asked.agentId) return "another agent asks";
  if (other.host !== asked.host || other.nodeId !== asked.nodeId) return "it runs on another machine";
  if (other.approvalsRequired > 1) return `it needs ${other.approvalsRequired} people`;
  if (other.why.rule === "needs-person") return "only a person can allow it";
  const parts = partsOf(other.proposedPatterns);
  if (!parts.length) return noAlwaysReason(other);
  const sessions = [narrowed.isOfSession ? asked.sessionKey : undefined, ...stores.map(({ limits }) => limits?.sessionKey)];
  if (sessions.some((session) => session !== undefined && session !== other.sessionKey)) return "it comes from another session";
  for (const part of parts) {
    const ways = part.filter((way) => stores.some((stored) => stored.pattern === way.pattern));
    const fits = ways.filter((way) => stores.some((stored) => stored.pattern === way.pattern && stored.argPattern === way.argPattern));
    if (fits.some((way) => stores.some((stored) => stored.pattern === way.pattern && stored.argPattern === way.argPattern && isIn(other, way, stored, narrowed)))) continue;
    const [exact] = part as [Pattern];
    if (!ways.length) return exact.pattern.startsWith("=command:") ? "its text differs" : `the rule does not name ${baseName(exact.pattern)}`;
    return fits.length || other.cwd !== asked.cwd ? "it runs in another directory" : "its arguments differ";
  }
  return "";
}

/** Whether a call starts where a stored entry covers it. */
function isIn(other: Approval, way: Pattern, stored: Pattern, narrowed: Narrowing): boolean {
  const directory = way.limits?.directory ?? other.boundTo.cwd;
  return [stored.limits?.directory, narrowed.directory].every((limit) => limit === undefined || isWithin(directory, limit));
}

const isWithin = (directory: string, limit: string): boolean => limit === "/" || directory === limit || directory.startsWith(`${limit}/`);

/** For each part of a command: its exact pattern, and the wider ones that cover it, too. */
function partsOf(proposed: readonly Pattern[]): Pattern[][] {
  const parts: Pattern[][] = [];
  for (const pattern of proposed) {
    if (pattern.default) parts.push([pattern]);
    else parts.at(-1)?.push(pattern);
  }
  // The same program twice is proposed once.
  const programs = proposed.filter(({ width }) => width === "program");
  return parts.map((part) => [...part, ...programs.filter((program) => program.pattern === part[0]?.pattern && !part.includes(program))]);
}
