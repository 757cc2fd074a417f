// Answers of the right width: what goes with an "always" that is narrowed, and with a denial that leaves a rule. Pure. What
// is shown of it before the answer comes from the same values (`grant-words.ts`).

import type { Approval, Decision, GrantChoice, Proposal } from "../api/types.ts";

/** How a person narrows a proposal. */
export interface Narrowing {
  /** The id of the proposal. */
  proposal: string;
  /** It ends at this instant. */
  untilMs: number | undefined;
  /** So many runs in all. */
  uses: number | undefined;
  /** Only for the session that asked. */
  isOfSession: boolean;
  /** Only in this directory and below. */
  directory: string | undefined;
}

/** The narrowing that a proposal begins with: nothing is added to it. */
export const unlimited = (proposal: string): Narrowing => ({ proposal, untilMs: undefined, uses: undefined, isOfSession: false, directory: undefined });

export const proposalsOf = ({ proposals = [] }: Pick<Approval, "proposals">): Proposal[] => proposals;

/** The narrowing as an answer has it. */
export function grantOf({ sessionKey }: Pick<Approval, "sessionKey">, { proposal, untilMs, uses, isOfSession, directory }: Narrowing): GrantChoice {
  return {
    proposal,
    ...(untilMs !== undefined && { expiresAtMs: untilMs }),
    ...(uses !== undefined && { maxUses: uses }),
    ...(isOfSession && { sessionKey }),
    ...(directory !== undefined && { directory }),
  };
}

/** The narrowing that an answer has. */
export const narrowingOf = ({ proposal, expiresAtMs, maxUses, sessionKey, directory }: GrantChoice): Narrowing =>
  ({ proposal, untilMs: expiresAtMs ?? undefined, uses: maxUses ?? undefined, isOfSession: Boolean(sessionKey), directory: directory ?? undefined });

/** What happens to the same command after a denial, or to all that its agent would ask. */
export const AFTER = ["ask", "mute-30", "mute-60", "never", "agent-30", "agent-60"] as const;
export type After = (typeof AFTER)[number];

/** Whether it is about all that the agent would ask. */
export const ofAgent = (after: After): boolean => after.startsWith("agent");

/** What a denial leaves, as an answer has it. */
export function leaves(after: After, untilMs: number | undefined): Pick<Decision, "mute" | "never"> {
  if (after === "never") return { never: true };
  return untilMs === undefined ? {} : { mute: { untilMs, ...(ofAgent(after) && { agent: true }) } };
}
