// A long list draws what is in sight, and never more than a hundred rows.

import assert from "node:assert/strict";
import { test } from "vitest";
import { inSight, MOST_ROWS, ROW_PX } from "../src/pure/window.ts";

test("everything in sight is drawn, and little else", () => {
  for (const count of [0, 1, 5, 99, 100, 101, 5000]) {
    for (const height of [0, 300, 800, 2000]) {
      for (const top of [0, 1, ROW_PX * 3, Math.max(0, count * ROW_PX - height), count * ROW_PX + 500]) {
        const { from, to } = inSight(count, top, height);
        assert.ok(from >= 0 && from <= to && to <= count, `${count} ${top} ${height}: ${from} ${to}`);
        assert.ok(to - from <= MOST_ROWS);
        const first = Math.floor(top / ROW_PX);
        if (first < count) assert.ok(from <= first && to >= Math.min(count, Math.ceil((top + height) / ROW_PX)), `${count} ${top} ${height}: ${from} ${to}`);
      }
    }
  }
});

test("a screen that is too high gets the first hundred", () => {
  assert.deepEqual(inSight(5000, 0, 100_000), { from: 0, to: MOST_ROWS });
});
