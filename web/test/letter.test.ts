// What a letter does, by where you are.

import assert from "node:assert/strict";
import { test } from "vitest";
import { meaning, type Place } from "../src/pure/letter.ts";

const known = (id: string) => ["a", "b"].includes(id);
const said = (place: Place) => {
  const what = meaning(place, known);
  return what.kind === "open" ? `open ${what.id}` : what.kind;
};

test("a letter answers only the request that you are on and see, and opens any other", () => {
  const cases: [Place, string][] = [
    [{ opened: "a", focused: "a", isInSight: true }, "act"],
    [{ opened: "a", focused: "a", isInSight: false }, "open a"],
    [{ opened: "a", focused: "b", isInSight: true }, "open b"],
    [{ opened: "a", focused: "b", isInSight: false }, "open b"],
    [{ opened: "a", focused: undefined, isInSight: true }, "open a"],
    [{ opened: undefined, focused: "b", isInSight: false }, "open b"],
    [{ opened: undefined, focused: undefined, isInSight: false }, "nothing"],
    [{ opened: undefined, focused: undefined, isInSight: true }, "nothing"],
    // One answer to several has its own buttons, and a request may have gone meanwhile.
    [{ opened: "a", focused: "chosen", isInSight: true }, "nothing"],
    [{ opened: "gone", focused: "gone", isInSight: true }, "nothing"],
    [{ opened: "gone", focused: undefined, isInSight: true }, "nothing"],
  ];
  for (const [place, what] of cases) assert.equal(said(place), what, JSON.stringify(place));
});
