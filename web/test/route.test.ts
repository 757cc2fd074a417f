// The addresses of the views.

import assert from "node:assert/strict";
import { test } from "vitest";
import { addressOf, NAMES, placeOf } from "../src/pure/route.ts";

test("every view has an address that leads back to it, with its filter", () => {
  for (const view of NAMES) {
    const filter = { agent: "build", q: "a b&c=ä#/?" };
    const { view: found, query } = placeOf(addressOf(view, filter));
    assert.deepEqual([found, Object.fromEntries(query)], [view, filter]);
    assert.deepEqual([...placeOf(addressOf(view, { agent: "" })).query], []);
  }
});

test("an address that names no view is the inbox", () => {
  for (const hash of ["", "#", "#/", "#/nothing", "#/constructor", "#waiting", "#//runs", "#/runs/x", "#/RUNS", "#code=abc"]) assert.equal(placeOf(hash).view, "inbox", hash);
});
