// What people allowed again and again, as the exact entries that would have answered for them. Nothing wider is suggested, and
// nothing that a person ever denied. The command line has the same as `countersign policy suggest`. Pure.

import type { Approval, Explanation } from "../api/types.ts";

/** What an answer binds that sets no variables. */
const NO_ENV_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
/** How an entry begins that names its directory and its arguments. */
const EXACT = "sha256:cwd-argv:v1:";
/** Longer commands are hardly habits. */
const LONGEST = 4096;
const MOST = 20;

/** What *Always* stores of a command by itself. */
export interface Suggestion {
  agentId: string;
  pattern: string;
  argPattern: string;
  count: number;
  command: string;
  argv: string[] | undefined;
  cwd: string;
}

type Answered = Pick<Approval, "agentId" | "host" | "command" | "cwd" | "proposedPatterns" | "boundTo" | "approvalsRequired" | "groups">;

const entriesOf = ({ proposedPatterns }: Answered) =>
  proposedPatterns.flatMap(({ default: isDefault, width, pattern, argPattern }) => (isDefault && width === "exact" && pattern.startsWith("/") && argPattern?.startsWith(EXACT) ? [{ pattern, argPattern }] : []));
const key = (...parts: string[]): string => JSON.stringify(parts);

/** The entries that would have saved most questions, the most first, of at least `least` questions each. `allowed` has the newest first. */
export function suggested(allowed: readonly Answered[], denied: readonly Answered[], least: number): Suggestion[] {
  const refused = new Set<string>();
  for (const approval of denied) {
    const { agentId, command, cwd } = approval;
    refused.add(key(agentId, command, cwd));
    for (const { pattern, argPattern } of entriesOf(approval)) refused.add(key("entry", agentId, pattern, argPattern));
  }
  const found = new Map<string, Suggestion & { isRefused: boolean }>();
  for (const approval of allowed) {
    const { agentId, host, command, cwd, boundTo, approvalsRequired, groups } = approval;
    // A node has a document of its own, a changed environment is a question of its own, and an entry must not answer for several people.
    if (host !== "gateway" || boundTo.envHash !== NO_ENV_HASH || approvalsRequired > 1 || groups || command.length > LONGEST) continue;
    for (const { pattern, argPattern } of entriesOf(approval)) {
      const name = key("entry", agentId, pattern, argPattern);
      const one = found.get(name) ?? { agentId, pattern, argPattern, count: 0, command, argv: boundTo.argv, cwd, isRefused: false };
      one.count += 1;
      one.isRefused ||= refused.has(key(agentId, command, cwd)) || refused.has(name);
      found.set(name, one);
    }
  }
  const all = [...found.values()].filter(({ count, isRefused }) => count >= least && !isRefused);
  return all.sort((one, other) => other.count - one.count).slice(0, MOST).map(({ isRefused: _not, ...suggestion }) => suggestion);
}

/** Whether the entry would answer what an explanation of the same call says now. */
export const stillHelps = ({ pattern, argPattern }: Suggestion, { approvalsRequired, groups, wouldPersist }: Pick<Explanation, "approvalsRequired" | "groups" | "wouldPersist">): boolean =>
  !(approvalsRequired !== undefined && approvalsRequired > 1) && !groups && wouldPersist.some((one) => one.default && one.pattern === pattern && one.argPattern === argPattern);

/** What they would save, in a sentence. */
export function saved(suggestions: readonly Suggestion[], days: number): string {
  const count = suggestions.reduce((sum, { count: times }) => sum + times, 0);
  const which = suggestions.length === 1 ? "This entry" : `These ${suggestions.length} entries`;
  const daily = Math.round(count / days);
  return daily > 1 ? `${which} would save ${daily.toLocaleString("en")} questions a day.` : `${which} would have saved ${count.toLocaleString("en")} questions in the last ${days} days.`;
}
