import { describe, expect, it } from "vitest";
import type { Forecast } from "../src/api/types.ts";
import { asked, quoted, toAdd, withEntries } from "../src/pure/forecast.ts";

const saved = (members: Partial<Forecast>): Forecast => ({
  savedAtMs: 2, sinceMs: 1, agentId: "main", policy: "present", commands: 1210, run: 1169, ask: 41, deny: 0, notJudged: 0, reasons: [], entries: [], askWithEntries: 41, starterSets: [], ...members,
});

describe("a forecast in words", () => {
  it("says how often a person would have been asked", () => {
    expect(asked(saved({}))).toBe("Of 1,210 commands 41 would have needed approval (3.4 of 100).");
    expect(asked(saved({ ask: 0, deny: 1 }))).toBe("Of 1,210 commands 0 would have needed approval, and one would have been denied.");
    expect(asked(saved({ commands: 0 }))).toBe("The transcripts had no command of an agent in this time.");
  });

  it("says what the entries would leave", () => {
    expect(withEntries(saved({}))).toBe("");
    expect(withEntries(saved({ entries: [{ pattern: "/usr/bin/rg", saves: 40 }], askWithEntries: 1 }))).toBe("With this entry you would have been asked once.");
  });

  it("has a line to paste that a shell takes as it is", () => {
    expect(toAdd("main", quoted("/usr/bin/rg"))).toBe("countersign allowlist add /usr/bin/rg --agent=main");
    expect(quoted("/opt/a b's")).toBe("'/opt/a b'\\''s'");
  });
});
