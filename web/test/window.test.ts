// A long list draws what is in sight, and never more than a hundred rows.

import assert from "node:assert/strict";
import { test } from "vitest";
import { DESK_ROW_PX, inSight, MOST_ROWS, ROW_PX } from "../src/pure/window.ts";

test("everything in sight is drawn, and little else", () => {
  for (const count of [0, 1, 5, 99, 100, 101, 5000]) {
    for (const [height, px] of [[0, ROW_PX], [300, DESK_ROW_PX], [800, ROW_PX], [2000, DESK_ROW_PX]] as const) {
      for (const top of [0, 1, px * 3, Math.max(0, count * px - height), count * px + 500]) {
        const { from, to } = inSight(count, top, height, px);
        assert.ok(from >= 0 && from <= to && to <= count, `${count} ${top} ${height}: ${from} ${to}`);
        assert.ok(to - from <= MOST_ROWS);
        const first = Math.floor(top / px);
        if (first < count) assert.ok(from <= first && to >= Math.min(count, Math.ceil((top + height) / px)), `${count} ${top} ${height}: ${from} ${to}`);
      }
    }
  }
});

test("a screen that is too high gets the first hundred", () => {
  assert.deepEqual(inSight(5000, 0, 100_000, ROW_PX), { from: 0, to: MOST_ROWS });
});
