// What "Always" stores: the exact rules first, wider ones only when they are chosen.

import type { Approval, Pattern } from "../api/types.ts";
import { brief, visible } from "../pure/text.ts";
import { width } from "../pure/words.ts";
import { Mono } from "./common.tsx";

/** The rules that are ticked at first. */
export const firstChosen = ({ proposedPatterns }: Approval): ReadonlySet<number> =>
  new Set(proposedPatterns.flatMap((pattern, at) => (pattern.default && pattern.width === "exact" ? [at] : [])));

/** The ticked rules as an answer has them. */
export const patternsOf = ({ proposedPatterns }: Approval, chosen: ReadonlySet<number>): { pattern: string; argPattern?: string }[] =>
  proposedPatterns
    .filter((_pattern, at) => chosen.has(at))
    .map(({ pattern, argPattern }) => (argPattern === undefined ? { pattern } : { pattern, argPattern }));

interface Props {
  approval: Approval;
  chosen: ReadonlySet<number>;
  choose: (at: number) => void;
}

export function AlwaysRules({ approval, chosen, choose }: Props) {
  const rows = approval.proposedPatterns.map((pattern, at) => ({ pattern, at }));
  const exact = rows.filter(({ pattern }) => pattern.width === "exact");
  const wider = rows.filter(({ pattern }) => pattern.width !== "exact");
  const row = ({ pattern, at }: { pattern: Pattern; at: number }) => (
    <Rule key={at} id={`pattern-${approval.id}-${at}`} approval={approval} pattern={pattern} isChosen={chosen.has(at)} choose={() => choose(at)} />
  );
  return (
    <>
      {exact.map(row)}
      {wider.length > 0 && (
        <details class="wider-list" aria-label="Wider rules">
          <summary>{wider.length === 1 ? "One wider rule" : `${wider.length} wider rules`}</summary>
          <p class="hint">A wider rule also lets through commands that nobody has seen yet.</p>
          {wider.map(row)}
        </details>
      )}
    </>
  );
}

function Rule({ id, approval, pattern, isChosen, choose }: { id: string; approval: Approval; pattern: Pattern; isChosen: boolean; choose: () => void }) {
  const isWider = pattern.width !== "exact";
  const argv = approval.segments[pattern.segment]?.argv;
  return (
    <label class={isWider ? "check wider" : "check"}>
      <input type="checkbox" id={id} checked={isChosen} onChange={choose} />
      <span>
        {!isWider && argv ? <code dir="ltr">{brief(argv.join(" "), 160)}</code> : <Mono text={pattern.shape ?? pattern.pattern} />} <span class="width">{width(pattern)}</span>
        {!isWider && argv && <span class="width">{" ("}<Mono text={pattern.pattern} />{" in "}<Mono text={approval.cwd} />{")"}</span>}
        {isWider && <span class="chip warn">wider</span>}
        {pattern.note && <span class="chip warn">{visible(pattern.note)}</span>}
      </span>
    </label>
  );
}
