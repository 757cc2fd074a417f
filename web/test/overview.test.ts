// The charts of the overview: what they draw is what was counted.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Overview } from "../src/api/types.ts";
import { bars, beginning, COLOURS, legend, programName, scale, share } from "../src/pure/overview.ts";

const counts = { asked: 0, allowed: 0, denied: 0, settled: 0, expired: 0, cancelled: 0, waiting: 0 };
const agent = (agentId: string | undefined, parts: number[]): Overview["agents"][number] => ({ ...(agentId !== undefined && { agentId }), questions: counts, parts });

test("every question is in one bar, in the colour of its agent", () => {
  const agents = [agent("a", [3, 0]), agent("b", [1, 1]), agent("c", [0, 2]), agent("d", [1, 0]), agent("e", [1, 1]), agent(undefined, [2, 0])];
  const drawn = bars({ beginsMs: [10, 20], agents });
  assert.deepEqual(drawn.map(({ atMs, total }) => [atMs, total]), [[10, 8], [20, 4]]);
  assert.deepEqual(drawn[0]?.pieces, [{ colour: 0, count: 3 }, { colour: 1, count: 1 }, { colour: 3, count: 1 }, { colour: COLOURS, count: 3 }]);
  assert.deepEqual(legend(agents, (name) => name.toUpperCase()).map(({ text }) => text), ["A", "B", "C", "D", "all others"]);
  assert.deepEqual(legend(agents.slice(0, 2), (name) => name).map(({ colour }) => colour), [0, 1]);
  assert.deepEqual(bars({ beginsMs: [10], agents: [] }), [{ atMs: 10, total: 0, pieces: [] }]);
});

test("a scale ends at a round number that is large enough", () => {
  for (const [most, end] of [[0, 1], [1, 1], [2, 2], [3, 5], [6, 10], [10, 10], [11, 20], [51, 100], [100, 100], [999, 1000]]) assert.equal(scale(most ?? 0), end);
  for (let most = 0; most < 3000; most += 7) assert.ok(scale(most) >= most);
});

test("a share is that of the answers of people", () => {
  assert.equal(share({ allowed: 0, denied: 0 }), undefined);
  assert.equal(share({ allowed: 2, denied: 1 }), 67);
  assert.equal(share({ allowed: 3, denied: 0 }), 100);
});

test("a program is called by its name", () => {
  assert.deepEqual([programName("/usr/bin/git"), programName("git"), programName(undefined)], ["git", "git", "a text of several programs"]);
});

test("the bars begin with the hours and days of the reader's clock", () => {
  const now = new Date(2026, 2, 3, 14, 37, 12);
  assert.equal(beginning("", now), new Date(2026, 2, 3, 14).getTime() - 23 * 3_600_000);
  assert.equal(beginning("7", now), new Date(2026, 1, 25).getTime());
  assert.equal(beginning("1", now), new Date(2026, 2, 3).getTime());
  assert.equal(beginning("1h", now), undefined);
  assert.equal(beginning("x", now), undefined);
});
