// A recording as the page plays it.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Frames } from "../src/api/types.ts";
import { advanced, at, developed, found, lineOf } from "../src/pure/replay.ts";

const text = (words: string) => [{ text: words }];
const frame = (atMs: number, changed: Frames["frames"][number]["changed"], rows = 2): Frames["frames"][number] => ({ atMs, rows, cols: 20, changed });
const film = () => developed([], { frames: [frame(100, [{ row: 0, texts: text("one") }]), frame(200, [{ row: 1, texts: text("two") }]), frame(9000, [{ row: 0, texts: [] }, { row: 1, texts: text("Three") }])] });
const shows = (place: number) => film()[place]?.rows.map(lineOf);

test("a picture has what changed and what stayed", () => {
  assert.deepEqual([shows(0), shows(1), shows(2)], [["one", ""], ["one", "two"], ["", "Three"]]);
  // The first picture of an answer begins with an empty screen, and a row beyond the screen is none.
  const more = developed(film(), { frames: [frame(9500, [{ row: 0, texts: text("new") }, { row: 5, texts: text("beyond") }], 1)] });
  assert.deepEqual(more[3]?.rows.map(lineOf), ["new"]);
  assert.equal(more.length, 4);
});

test("a moment shows the last picture before it", () => {
  assert.deepEqual([0, 99, 100, 199, 200, 8999, 9000, 99999].map((ms) => at(film(), ms)), [0, 0, 0, 0, 1, 1, 2, 2]);
  assert.equal(at([], 5), 0);
});

test("time goes on as it did, and pauses are cut where that is wanted", () => {
  const [pictures, length] = [film(), 10000];
  assert.equal(advanced(pictures, 0, 50, length, undefined), 50);
  assert.equal(advanced(pictures, 0, 150, length, undefined), 150);
  assert.equal(advanced(pictures, 150, 5000, length, undefined), 5150);
  assert.equal(advanced(pictures, 0, 99999, length, undefined), length);
  // From 200 to 9000 takes two seconds.
  assert.equal(advanced(pictures, 200, 1000, length, 2000), 4600);
  assert.equal(advanced(pictures, 200, 2000, length, 2000), 9000);
  assert.equal(advanced(pictures, 200, 2500, length, 2000), 9500);
  assert.equal(advanced([], 0, 50, 10, undefined), 10);
});

test("a search finds where words appear, in both directions and whatever their case", () => {
  const pictures = film();
  assert.equal(found(pictures, "three", 0, 1), 2);
  assert.equal(found(pictures, "ONE", 2, -1), 0);
  assert.equal(found(pictures, "one", 0, 1), -1);
  assert.equal(found(pictures, "", 0, 1), -1);
});
