// The levels of trust, in sentences. Pure.

import type { Tone } from "./words.ts";

const TRUST: Record<string, [Tone, string]> = {
  "separate-user": ["good", "Commands run as another user. They cannot read or change anything of this server."],
  confined: ["good", "Commands run confined: they cannot reach this server's files and sockets while they run."],
  "same-user": ["warn", "Commands run with the same rights as this server. Approvals are a guard rail here, not a boundary."],
  sandbox: ["good", "Commands run in a sandbox, separate from this server."],
  node: ["good", "Commands run on another machine, under its own rules."],
};

/** The level of trust as `{level, tone, sentence}`. */
export function trust(level: string): { level: string; tone: Tone; sentence: string } {
  const [tone, sentence] = (Object.hasOwn(TRUST, level) ? TRUST[level] : undefined) ?? ["warn", "This page does not know what that level means."];
  return { level, tone, sentence };
}
