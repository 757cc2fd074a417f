// What an explanation says, in sentences. Pure.

import type { AnalysisFinding, Explanation, Segment } from "../api/types.ts";
import { calls } from "./facts.ts";

/** The outcome as a badge: its words and its tone. */
export function outcome({ outcome: said, ...rest }: Explanation): readonly [string, string] {
  if (said === "deny") return ["Would be denied", "bad"];
  if (said === "ask") return ["Would need approval", "warn"];
  if ("held" in rest && rest.held) return ["Would run, held to listed programs", "good"];
  return ["Would run", "good"];
}

const REASONS: Record<string, string> = {
  "ask-always": "The policy asks about every command.",
  "allowlist-miss": "The allowlist does not cover all of it.",
  "needs-person": "Only a person may allow this.",
  "security-deny": "Security is deny: nothing runs.",
  denylist: "A deny rule matches.",
  "no-approver": "A person would have to answer, and nobody can be asked now.",
  "program-not-found": "Its program is not on the PATH.",
  "tool-denied": "The tool policy denies the tool.",
  "document-refused": "The approvals document cannot be read.",
  stopped: "Everything is stopped.",
  preflight: "A check before the start refuses it.",
  "invalid-request": "It cannot be run as it is written.",
  "blocked-env": "It sets a variable that no call may set.",
};

/** Why, in a sentence; the code where there is none. */
export const because = (reason: string): string => (Object.hasOwn(REASONS, reason) ? (REASONS[reason] ?? reason) : reason);

/** What covers one program call. */
export function coverage({ match: { kind, pattern } }: Segment): string {
  switch (kind) {
    case "allowlist":
      return `covered by the entry ${pattern ?? ""}`;
    case "grant":
      return `covered by an answer that still counts: ${pattern ?? ""}`;
    case "safe-bin":
      return "a safe program that reads standard input";
    case "builtin":
      return "a builtin that changes nothing";
    case "skill":
      return "a program of a skill";
    case "payload":
      return "judged by what it runs";
    case "denylist":
      return `a deny rule matches: ${pattern ?? ""}`;
    case "none":
      return "nothing covers it";
  }
}

/** The program calls that a decision stands on; what only hands on another command says nothing by itself. */
export const judged = (segments: readonly Segment[]): Segment[] => calls(segments).filter(({ match }) => match.kind !== "payload");

/** What stands against a command, with the rule behind it. */
export const against = ({ detail, rule }: AnalysisFinding): string => `${detail} (rule ${rule})`;
