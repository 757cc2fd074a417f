// What trials of a policy came to, and the order of changes that wait.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Backtest } from "../src/api/types.ts";
import { grouped } from "../src/pure/changes.ts";
import { changedBy, skippedBecause, tested, verdicts } from "../src/pure/trials.ts";

const backtest = (members: Partial<Backtest>): Backtest => ({ total: 0, distinct: 0, same: 0, nowRun: 0, nowAsk: 0, nowDenied: 0, widerFallback: 0, skipped: 0, skippedBy: {}, changed: [], omitted: 0, ...members });

test("cases are counted, and a failure is no success", () => {
  assert.deepEqual(tested({ total: 3, passed: 3, failed: [] }), { tone: "good", text: "All 3 cases are as expected" });
  assert.deepEqual(tested({ total: 1, passed: 1, failed: [] }), { tone: "good", text: "The case is as expected" });
  assert.deepEqual(tested({ total: 3, passed: 2, failed: [] }), { tone: "bad", text: "1 of 3 cases is not as expected" });
  assert.deepEqual(tested({ total: 3, passed: 0, failed: [] }).text, "3 of 3 cases are not as expected");
});

test("what loosens is told first and warned of", () => {
  const { tone, text, parts } = changedBy(backtest({ total: 1200, same: 1190, nowRun: 4, nowDenied: 1, nowAsk: 2, widerFallback: 1, skipped: 2 }));
  assert.equal(tone, "warn");
  assert.equal(text, "8 of 1,200 runs would be decided differently. 2 runs could not be judged again.");
  assert.deepEqual(parts, ["4 runs would run without a question", "1 run would need approval, and run without an answer", "2 runs would need approval", "1 run would be denied"]);
  assert.equal(changedBy(backtest({ total: 2, same: 1, nowDenied: 1 })).tone, "live");
  assert.equal(changedBy(backtest({ total: 2, same: 2 })).text, "2 runs were judged again, and nothing would be decided differently.");
  assert.equal(changedBy(backtest({})).tone, "dull");
});

test("verdicts and reasons are words, and one that is not known stays", () => {
  assert.equal(verdicts({ then: "ask", now: "run" }), "needs approval → runs");
  assert.equal(verdicts({ then: "ask", now: "ask" }), "needs approval, by a wider fallback");
  assert.equal(verdicts({ then: "constructor", now: "run" }), "constructor → runs");
  assert.deepEqual(skippedBecause({ directory: 2, odd: 1 }), ["2: their directory is gone", "1: odd"]);
});

test("what is about everybody comes first, and each subject stays together", () => {
  const change = (what: string) => ({ what });
  const all = [change('agent "b": ask'), change("every agent: ask"), change('agent "a": ask'), change('agent "b": allowed'), change("tools.exec.ask"), change("agents.entries.b.tools.exec.ask")];
  assert.deepEqual(grouped(all).map(({ what }) => what), ["every agent: ask", "tools.exec.ask", 'agent "b": ask', 'agent "b": allowed', 'agent "a": ask', "agents.entries.b.tools.exec.ask"]);
});
