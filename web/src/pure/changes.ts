// The changes of an edit that waits, in the order in which a person reads them. Pure.

import type { PolicyChange } from "../api/types.ts";

/** Who a change is about: what stands before the first colon, or the setting itself. */
const subject = ({ what }: PolicyChange): string => what.split(": ", 1)[0] ?? what;

/** What is about everybody first, then the rest, each subject together and in its own order. */
export function grouped(changes: readonly PolicyChange[]): PolicyChange[] {
  const isOfAll = (change: PolicyChange) => !/^(agent |agents\.)/.test(subject(change));
  const subjects = [...new Set(changes.map(subject))];
  const ordered = subjects.flatMap((name) => changes.filter((change) => subject(change) === name));
  return [...ordered.filter(isOfAll), ...ordered.filter((change) => !isOfAll(change))];
}

/** What is asked before a change of a file is rejected. */
export const rejecting = (file: string): string => file === "countersign.toml"
  ? "Keep out of effect what it loosens, for as long as countersign.toml says so? The file stays as it is: set it back, or write what you want instead."
  : `Put ${file} back to what was accepted? All that it changes is undone, also what it takes away.`;
