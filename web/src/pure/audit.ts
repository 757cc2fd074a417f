// What a record of the audit log says, in words behind the name of who did it. Pure.

import type { AuditRecord } from "../api/types.ts";
import { runStatus } from "./words.ts";

const PLAIN: Record<string, string> = {
  "approval.voted": "answered a request that takes several people",
  "audit.pruned": "removed old records of the log",
  "audit.reset": "began the log anew",
  "config.changed": "changed the settings",
  "document.replaced": "replaced the approvals document",
  "exec.resume-proposed": "wants to resume",
  "exec.stop-kills": "ended what was running",
  login: "signed in",
  "login.failed": "could not sign in",
  "login.revoked": "signed a browser out",
  "node.renamed": "renamed a node",
  "policy.changed": "changed the policy",
  "process.input": "sent input to a session",
  "question.joined": "joined a request that waits",
  "questions.refused": "refused requests over the limit",
  "run.forgotten": "found a run that its record had lost",
  "runs.pruned": "removed old runs",
  "token.accepted": "accepted a token",
  "token.created": "made a token",
  "token.revoked": "revoked a token",
};

const ENDS: Record<string, string> = { allowed: "allowed", denied: "denied", expired: "let expire", cancelled: "withdrew" };
const LISTS: Record<string, string> = { allowlist: "an allowlist entry", denylist: "a deny rule" };

/** What it says, with the command that it names and for whom, if it names one; the action itself where it is not known here. */
export function recordSaid({ action, detail }: Pick<AuditRecord, "action" | "detail">): { words: string; command?: string; agent?: string } {
  const members = (typeof detail === "object" && detail !== null ? detail : {}) as Record<string, unknown>;
  const text = (name: string): string => (typeof members[name] === "string" ? members[name] : "");
  const of = text("agentId") && ` of ${text("agentId")}`;
  const why = (name: string) => text(name) && `: ${text(name)}`;
  const command = text("command");
  const agent = text("agentId");
  const said = (words: string) => ({ words });
  const about = (words: string) => (command ? { words, command, ...(agent && { agent }) } : { words: `${words} a command${of}` });
  switch (action) {
    case "exec.requested": return about("asked to run");
    case "exec.approval.requested": return about("waits for an answer about");
    case "exec.approval.resolved": {
      if (text("terminalReason") === "taken-back") return said(`took back the answer to a request${of}${why("reason")}`);
      const verb = Object.hasOwn(ENDS, text("status")) ? ENDS[text("status")] : "ended";
      const once = text("decision") === "allow-once" ? " once" : text("decision") === "allow-always" ? " always" : "";
      return said(`${verb}${once} a request${of}${why("reason")}`);
    }
    case "exec.denied": return said(`denied a command${of}${why("detail") || why("reason")}`);
    case "exec.started": return said(`started a command${of}`);
    case "exec.finished": return said(`recorded the end of a command${of}: ${runStatus(text("status")).label}${typeof members["exitCode"] === "number" ? `, exit code ${members["exitCode"]}` : ""}`);
    case "exec.stopped": return said(`stopped everything${why("reason")}`);
    case "exec.resumed": return said(`let everything go on${why("reason")}`);
    case "allowlist.changed": return said(`${text("change") || "changed"} ${Object.hasOwn(LISTS, text("list")) ? LISTS[text("list")] : "an entry"}${of}`);
    case "token.created": return said(`${PLAIN[action]}${text("name") && ` for ${text("name")}`}`);
    default: return said(Object.hasOwn(PLAIN, action) ? PLAIN[action] ?? action : action);
  }
}
