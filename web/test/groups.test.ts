// The rows of the list: what shares one, and what never does.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Approval } from "../src/api/types.ts";
import type { Entry } from "../src/pure/approvals.ts";
import { equalKey, MOST_TOGETHER, type Row, rowOf, rowsOf } from "../src/pure/groups.ts";

function request(id: string, command = "git push", more: Partial<Approval> = {}): Approval {
  return {
    id, slug: id, runId: `run-${id}`, status: "pending", agentId: "main", host: "gateway", cwd: "/srv", command, sessionKey: "agent:main:main", createdAtMs: 1, expiresAtMs: 2,
    display: { text: command, spans: [], warnings: [], truncated: false }, segments: [], envNames: [], allowedDecisions: ["allow-once", "deny"],
    boundTo: { argv: command.split(" "), cwd: "/srv", digest: id, envHash: "e" }, ...more,
  } as Approval;
}

const entry = (id: string, command?: string, more?: Partial<Approval>): Entry => ({ approval: request(id, command, more), phase: "pending" });

function rows(entries: readonly Entry[], areSimilar = false, open: readonly string[] = []): Row[] {
  return rowsOf(entries, { areSimilar, isOpen: (name) => open.includes(name), nameOf: (key) => `all ${key.startsWith("answer") ? key : [...key].length % 7}` });
}

const said = (all: readonly Row[]) => all.map(({ kind, entries }) => [kind, entries.map(({ approval }) => approval.id).join("")]);

test("equal requests share a row where the oldest of them stands, and what is new moves nothing", () => {
  const all = [entry("a"), entry("b", "git pull"), entry("c")];
  assert.deepEqual(said(rows(all)), [["equal", "ac"], ["one", "b"]]);
  assert.deepEqual(said(rows([...all, entry("d")])), [["equal", "acd"], ["one", "b"]]);
  const [group] = rows(all);
  assert.deepEqual(said(rows(all, false, [group?.name ?? ""])), [["equal", "ac"], ["member", "a"], ["member", "c"], ["one", "b"]]);
});

test("who asked, when and in which session makes no difference, and all else that is shown does", () => {
  const one = request("a");
  for (const more of [{ sessionKey: "agent:main:x" }, { createdAtMs: 9, expiresAtMs: 10 }, { requestedBy: { kind: "token", id: "t", name: "t" } }] as Partial<Approval>[]) {
    assert.equal(equalKey(request("b", "git push", more)), equalKey(one), JSON.stringify(more));
  }
  const others: Partial<Approval>[] = [
    { command: "git push -f" }, { agentId: "build" }, { cwd: "/tmp" }, { host: "node" }, { nodeId: "n" }, { envNames: ["X"] }, { justification: "please" }, { contextUrl: "https://x" },
    { allowedDecisions: ["deny"] }, { input: "open" }, { boundTo: { argv: ["git", "push"], cwd: "/srv", digest: "b", envHash: "other" } }, { boundTo: { argv: ["git", "push"], cwd: "/srv", digest: "b", envHash: "e", executableSha256: "f" } },
    { approvalsRequired: 2 }, { display: { text: "git push", spans: [], warnings: [{ code: "x", message: "y" }], truncated: false } },
  ] as Partial<Approval>[];
  for (const more of others) assert.notEqual(equalKey(request("b", "git push", more)), equalKey(one), JSON.stringify(more));
});

test("similar requests share a row only where a person wants that, and are never called equal", () => {
  const all = [entry("a", "git push", { boundTo: { argv: ["git", "push"], digest: "a" } } as Partial<Approval>), entry("b", "git pull", { boundTo: { argv: ["git", "pull"], digest: "b" } } as Partial<Approval>), entry("c", "ls")];
  assert.deepEqual(said(rows(all)), [["one", "a"], ["one", "b"], ["one", "c"]]);
  assert.deepEqual(said(rows(all, true)), [["similar", "ab"], ["one", "c"]]);
  assert.deepEqual(said(rows([entry("a"), entry("b")], true)), [["equal", "ab"]]);
});

test("what ended stands alone, or with what had the same answer", () => {
  const ended = (id: string, answer?: number): Entry => ({ ...entry(id), phase: "settled", ...(answer !== undefined && { answer }) });
  assert.deepEqual(said(rows([ended("a"), ended("b"), entry("c"), entry("d")])), [["one", "a"], ["one", "b"], ["equal", "cd"]]);
  assert.deepEqual(said(rows([ended("a", 1), ended("b", 1), ended("c", 2), entry("d")])), [["equal", "ab"], ["one", "c"], ["one", "d"]]);
});

test("a group is never larger than one answer", () => {
  const all = Array.from({ length: 2 * MOST_TOGETHER + 1 }, (_, at) => entry(`r${at}`));
  assert.deepEqual(rows(all).map(({ entries }) => entries.length), [MOST_TOGETHER, MOST_TOGETHER, 1]);
});

test("a request is found by itself, and in the group that hides it", () => {
  const all = [entry("a"), entry("b"), entry("c", "ls")];
  const closed = rows(all);
  assert.equal(rowOf("b", closed)?.kind, "equal");
  assert.equal(rowOf("b", rows(all, false, [closed[0]?.name ?? ""]))?.kind, "member");
  assert.equal(rowOf("c", closed)?.kind, "one");
  assert.equal(rowOf("x", closed), undefined);
});
