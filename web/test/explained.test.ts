import { describe, expect, it } from "vitest";
import type { Explanation, Segment } from "../src/api/types.ts";
import { against, because, coverage, judged, outcome } from "../src/pure/explained.ts";

const segment = (kind: Segment["match"]["kind"], rest: Partial<Segment> = {}): Segment => ({
  span: [0, 1], argv: ["git"], wrappers: [], executable: "git", match: { kind, pattern: "/usr/bin/git" }, notes: [], ...rest,
});

describe("an explanation in words", () => {
  it("says whether it runs, needs approval or is denied", () => {
    const of = (members: object) => outcome(members as Explanation)[0];
    expect(of({ outcome: "run" })).toBe("Would run");
    expect(of({ outcome: "run", held: true })).toBe("Would run, held to listed programs");
    expect(of({ outcome: "ask", reason: "allowlist-miss" })).toBe("Would need approval");
    expect(of({ outcome: "deny", reason: "denylist" })).toBe("Would be denied");
  });

  it("has a sentence for a reason, and shows the code of another", () => {
    expect(because("allowlist-miss")).toBe("The allowlist does not cover all of it.");
    expect(because("constructor")).toBe("constructor");
  });

  it("names what covers each program, inside of shells too", () => {
    const shell = segment("payload", { segments: [segment("allowlist"), segment("none", { argv: ["rm"], executable: "rm" })] });
    expect(judged([shell]).map(coverage)).toEqual(["covered by the entry /usr/bin/git", "nothing covers it"]);
  });

  it("gives the rule behind a finding", () => {
    expect(against({ code: "glob", rule: "G4", span: [0, 1], detail: "a pattern" })).toBe("a pattern (rule G4)");
  });
});
