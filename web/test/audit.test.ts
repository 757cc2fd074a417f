// What the records of the audit log say in words.

import assert from "node:assert/strict";
import { test } from "vitest";
import { recordSaid } from "../src/pure/audit.ts";

const check = (action: string, detail: unknown, words: string, more: { command?: string; agent?: string } = {}) =>
  assert.deepEqual(recordSaid({ action, detail } as Parameters<typeof recordSaid>[0]), { words, ...more }, action);

test("a record says what was done, by whom is said before it", () => {
  check("exec.requested", { agentId: "build", command: "git push" }, "asked to run", { command: "git push", agent: "build" });
  check("exec.requested", { agentId: "build" }, "asked to run a command of build");
  check("exec.approval.requested", { agentId: "build", command: "git push" }, "waits for an answer about", { command: "git push", agent: "build" });
  check("exec.approval.resolved", { agentId: "build", status: "allowed", decision: "allow-once" }, "allowed once a request of build");
  check("exec.approval.resolved", { agentId: "build", status: "denied", decision: "deny", reason: "not today" }, "denied a request of build: not today");
  check("exec.approval.resolved", { agentId: "build", status: "expired" }, "let expire a request of build");
  check("exec.approval.resolved", { agentId: "build", status: "denied", terminalReason: "taken-back" }, "took back the answer to a request of build");
  check("exec.denied", { agentId: "build", reason: "denylist" }, "denied a command of build: denylist");
  check("exec.finished", { agentId: "build", status: "failed", exitCode: 1 }, "recorded the end of a command of build: Failed, exit code 1");
  check("exec.stopped", { reason: "keys leaked" }, "stopped everything: keys leaked");
  check("allowlist.changed", { agentId: "*", change: "removed", list: "denylist" }, "removed a deny rule of *");
  check("token.created", { name: "ann" }, "made a token for ann");
  check("login", {}, "signed in");
});

test("what is not known here is said by its own name", () => {
  check("toString", {}, "toString");
  check("exec.something-new", null, "exec.something-new");
  check("allowlist.changed", { list: "constructor" }, "changed an entry");
  check("exec.approval.resolved", { status: "valueOf" }, "ended a request");
});
