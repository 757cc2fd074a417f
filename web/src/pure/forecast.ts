// What the saved forecast says, in sentences. Pure.

import type { Forecast } from "../api/types.ts";

const number = (count: number): string => count.toLocaleString("en");
const times = (count: number): string => (count === 1 ? "once" : `${number(count)} times`);

/** How often a person would have been asked. */
export function asked({ commands, ask, deny }: Forecast): string {
  if (commands === 0) return "The transcripts had no command of an agent in this time.";
  const share = ask === 0 ? "" : ` (${((100 * ask) / commands).toFixed(1)} of 100)`;
  const denied = deny === 0 ? "" : `, and ${deny === 1 ? "one would have been" : `${number(deny)} would have been`} denied`;
  return `Of ${number(commands)} commands ${number(ask)} would have needed approval${share}${denied}.`;
}

/** What the proposed entries would leave; nothing where none is proposed. */
export function withEntries({ entries, askWithEntries }: Forecast): string {
  if (!entries.length) return "";
  const which = entries.length === 1 ? "With this entry" : `With these ${entries.length} entries`;
  return `${which} you would have been asked ${times(askWithEntries)}.`;
}

/** The line that adds an entry or a set. */
export const toAdd = (agentId: string, what: string): string => `countersign allowlist add ${what} --agent=${agentId}`;

/** A word as a shell takes it. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
