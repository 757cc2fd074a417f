// What is known about a request, as chips.

import type { Fact } from "../pure/facts.ts";
import { visible } from "../pure/text.ts";

/** The tone of a fact: some say that it fails as it stands. */
export const chipOf = ({ code }: Fact): string => (code === "missing" || code === "denied" || code === "network" ? "chip bad" : "chip warn");

/** All facts of a request, in a line; nothing where there are none. */
export function FactChips({ facts }: { facts: readonly Fact[] }) {
  if (!facts.length) return null;
  return (
    <ul class="facts-line" aria-label="What to look at">
      {facts.map((fact) => <li key={fact.code} class={chipOf(fact)} data-fact={fact.code}>{visible(fact.text)}</li>)}
    </ul>
  );
}
