// What newcomers are told while no request waits.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Agent } from "../src/api/types.ts";
import { agentsSaid, nodesSaid, policySaid, TEST_COMMAND, testCall, testSaid } from "../src/pure/start.ts";

const agent = (agentId: string, lastSeenAtMs?: number): Agent => ({ agentId, sources: [], configPath: "", pending: 0, ...(lastSeenAtMs === undefined ? {} : { lastSeenAtMs }) });
const policy = (host: string, security: string, ask: string, approvalsApply = true) => ({ approvalsApply, host: { value: host }, security: { value: security }, ask: { value: ask } }) as unknown as Parameters<typeof policySaid>[0];

test("the test question asks in any case, and names this machine where nobody would be asked", () => {
  assert.deepEqual(testCall(undefined), { command: TEST_COMMAND, ask: "always", approvalWaitMs: 0, justification: "A test question from the page." });
  assert.equal(testCall({ approvalsApply: false }).host, "gateway");
  assert.equal(testCall({ approvalsApply: true }).host, undefined);
  assert.match(testSaid({ status: "approval-pending" }), /can never answer/);
  assert.match(testSaid({ status: "completed", host: "sandbox", exitCode: 0 }), /ran without a question \(sandbox, exit code 0\)/);
});

test("only agents that asked count", () => {
  assert.equal(agentsSaid([agent("main")], false), "No agent has asked for anything yet.");
  assert.match(agentsSaid([agent("main"), agent("a\u202eb", 5)], false), /^One agent asked so far, a\\u\{202E\}b last/);
  assert.match(agentsSaid([agent("old", 1), agent("new", 9)], true), /^2 or more agents asked so far, new last/);
  assert.equal(nodesSaid([]), "");
  assert.equal(nodesSaid([{ connected: true }, { connected: false }]), "1 of 2 nodes are connected.");
});

test("it says when nobody would be asked", () => {
  assert.match(policySaid(policy("sandbox", "full", "off", false)), /sandbox, where nobody is asked/);
  assert.match(policySaid(policy("gateway", "deny", "always")), /denies all of them/);
  assert.match(policySaid(policy("gateway", "full", "on-miss")), /run without a question/);
  assert.match(policySaid(policy("gateway", "allowlist", "off")), /denied without a question/);
  assert.match(policySaid(policy("gateway", "allowlist", "on-miss")), /the question appears here/);
  assert.match(policySaid(policy("node", "full", "always")), /a node. Each needs approval/);
});
