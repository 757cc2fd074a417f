// What the charts of the overview draw: shares, heights and the ends of the scale. Pure.

import type { Overview } from "../api/types.ts";

type Counts = Overview["questions"];
type AgentQuestions = Overview["agents"][number];

/** So many agents have a colour of their own. */
export const COLOURS = 4;

/** One part of a bar. */
export interface Piece {
  /** Which colour: that of an agent, or the last for all others. */
  colour: number;
  count: number;
}

/** A bar for a part of the stretch. */
export interface Bar {
  atMs: number;
  total: number;
  /** From the bottom up; empty pieces are left out. */
  pieces: Piece[];
}

/** The bars of the questions: agents with a colour first, all others together last. */
export function bars({ beginsMs, agents }: Pick<Overview, "beginsMs" | "agents">): Bar[] {
  return beginsMs.map((atMs, part) => {
    const counts = new Array<number>(COLOURS + 1).fill(0);
    agents.forEach(({ parts }, place) => {
      const colour = Math.min(place, COLOURS);
      counts[colour] = (counts[colour] ?? 0) + (parts[part] ?? 0);
    });
    const pieces = counts.map((count, colour) => ({ colour, count })).filter(({ count }) => count > 0);
    return { atMs, total: pieces.reduce((sum, { count }) => sum + count, 0), pieces };
  });
}

/** The names of the colours, as the bars have them. `name` makes an agent fit for people. */
export function legend(agents: readonly AgentQuestions[], name: (agent: string) => string): { colour: number; text: string }[] {
  const own = agents.slice(0, COLOURS).map(({ agentId }, colour) => ({ colour, text: agentId === undefined ? "all others" : name(agentId) }));
  return agents.length > COLOURS ? [...own, { colour: COLOURS, text: "all others" }] : own;
}

/** The end of a scale: 1, 2 or 5 times a power of ten, at least as much as the largest number. */
export function scale(most: number): number {
  if (most <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= most) ?? most;
}

/** How many of the answers of people were yes, in whole percent; nothing without an answer. */
export function share({ allowed, denied }: Pick<Counts, "allowed" | "denied">): number | undefined {
  const answered = allowed + denied;
  return answered === 0 ? undefined : Math.round((allowed / answered) * 100);
}

/** A program as people call it. */
export const programName = (program: string | undefined): string => (program === undefined ? "a text of several programs" : (program.split("/").pop() ?? program));

const HOUR_MS = 3_600_000;

/**
 * Where the figures of the last day or days begin, so that the bars are hours and days of the reader's clock: 23 hours before the
 * present hour, or midnight so many days ago that today is one of them. Nothing for another age.
 */
export function beginning(age: string, now: Date): number | undefined {
  if (age === "") return new Date(now.getFullYear(), now.getMonth(), now.getDate(), now.getHours()).getTime() - 23 * HOUR_MS;
  if (!/^\d{1,2}$/.test(age)) return undefined;
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - Number(age) + 1).getTime();
}
