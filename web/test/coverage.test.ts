// What an "always" covers of a group before it is stored.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Approval, Pattern } from "../src/api/types.ts";
import { coverageOf } from "../src/pure/coverage.ts";
import { unlimited } from "../src/pure/grant.ts";

const GIT = "/usr/bin/git";
const pattern = (more: Partial<Pattern>): Pattern => ({ segment: 0, pattern: GIT, width: "exact", default: false, ...more });

/** `git push origin TARGET` in a directory. */
function push(target: string, more: Partial<Approval> = {}): Approval {
  const cwd = more.cwd ?? "/srv/app";
  const exact = pattern({ argPattern: `sha256:${cwd}:${target}`, default: true });
  const form = pattern({ width: "arguments", argPattern: "^push origin [^-]+$", limits: { directory: cwd } });
  const program = pattern({ width: "program" });
  return {
    id: target, agentId: "main", host: "gateway", sessionKey: "agent:main:main", approvalsRequired: 1, cwd, boundTo: { cwd }, why: { rule: "allowlist-miss", detail: "no entry covers this" }, ask: "on-miss", segments: [],
    proposedPatterns: [exact, form, program],
    proposals: [{ id: "exact", words: "", stores: [exact] }, { id: "arguments", words: "", stores: [form] }, { id: "program", words: "", stores: [program] }],
    ...more,
  } as unknown as Approval;
}

const whys = (id: string, others: Approval[], more = {}) => {
  const { covered, left } = coverageOf(push("main"), { ...unlimited(id), ...more }, others);
  return [covered.length, left.map(({ why }) => why)];
};

test("equal requests are covered by the exact rule, other arguments only by a wider one", () => {
  const others = [push("main"), push("dev"), push("main", { cwd: "/srv/other" })];
  assert.deepEqual(whys("exact", others), [1, ["its arguments differ", "it runs in another directory"]]);
  assert.deepEqual(whys("arguments", others), [2, ["it runs in another directory"]]);
  assert.deepEqual(whys("program", others), [3, []]);
});

test("each limit leaves what is outside it", () => {
  const others = [push("main"), push("main", { sessionKey: "agent:main:other" }), push("main", { cwd: "/srv/app/sub" })];
  assert.deepEqual(whys("program", others, { isOfSession: true }), [2, ["it comes from another session"]]);
  assert.deepEqual(whys("program", [push("dev", { cwd: "/srv/apple" }), ...others], { directory: "/srv/app" }), [3, ["it runs in another directory"]]);
  // The request that is answered is the first of three uses.
  assert.deepEqual(whys("program", others, { uses: 3 }), [2, ["the rule has no use left for it"]]);
});

test("what no rule allows stays, with the reason", () => {
  const others = [
    push("main", { approvalsRequired: 2 }),
    push("main", { why: { rule: "needs-person", detail: "" } } as Partial<Approval>),
    push("main", { proposedPatterns: [], ask: "always" }),
    push("main", { agentId: "build" }),
    push("main", { host: "node", nodeId: "x" } as Partial<Approval>),
    push("main", { proposedPatterns: [...push("main").proposedPatterns, pattern({ segment: 1, pattern: "/usr/bin/rm", argPattern: "sha256:rm", default: true })] }),
  ];
  assert.deepEqual(whys("program", others), [0, [
    "it needs 2 people", "only a person can allow it", "policy asks every time", "another agent asks", "it runs on another machine", "the rule does not name rm",
  ]]);
  assert.match(coverageOf(push("main", { approvalsRequired: 2 }), unlimited("exact"), [push("main")]).left[0]?.why ?? "", /last person/);
});

test("a program that comes twice is covered by the rule that was proposed once", () => {
  const twice = push("main");
  const second = pattern({ segment: 1, argPattern: "sha256:other", default: true });
  assert.deepEqual(whys("program", [{ ...twice, proposedPatterns: [...twice.proposedPatterns, second] }]), [1, []]);
  assert.deepEqual(whys("exact", [{ ...twice, proposedPatterns: [...twice.proposedPatterns, second] }]), [0, ["its arguments differ"]]);
});
