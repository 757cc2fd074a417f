// What "Always" stores: the proposals of a request, how you narrow one, and each entry as it will be stored.

import { useEffect, useState } from "preact/hooks";
import { json, serverNow } from "../api/api.ts";
import type { Approval, Proposal } from "../api/types.ts";
import { type Coverage, coverageOf } from "../pure/coverage.ts";
import { type Narrowing, proposalsOf, unlimited } from "../pure/grant.ts";
import { coveredWords, directoriesOf, endOf, isInAnyDirectory, type Span, SPAN_WORDS, SPANS, type Stored, storedOf, USES, whyNotNarrower } from "../pure/grant-words.ts";
import { brief, visible } from "../pure/text.ts";
import { Mono, Time } from "./common.tsx";
import { lineOf } from "./details.tsx";

const MOST_LEFT = 5;

interface Props {
  approval: Approval;
  narrowed: Narrowing;
  narrow: (next: Narrowing) => void;
}

export function AlwaysPanel({ approval, narrowed, narrow }: Props) {
  const proposals = useCovered(approval);
  const chosen = proposals.find(({ id }) => id === narrowed.proposal);
  return (
    <>
      <div class="proposals" role="radiogroup" aria-label="What is allowed">
        {proposals.map((proposal) => (
          <Choice key={proposal.id} approval={approval} proposal={proposal} isChosen={proposal === chosen} choose={() => narrow(kept(approval, narrowed, proposal))} />
        ))}
      </div>
      {narrowed.proposal !== "exact" && <p class="hint">A wider rule also lets through commands that nobody has seen yet.</p>}
      {chosen && <Narrow approval={approval} proposal={chosen} narrowed={narrowed} narrow={narrow} />}
      {approval.approvalsRequired > 1 && <p class="hint">It takes several people, and this is stored only if all of them choose the same.</p>}
    </>
  );
}

/** What was narrowed stays when another proposal is chosen, as far as that one can be narrowed. */
function kept(approval: Approval, narrowed: Narrowing, proposal: Proposal): Narrowing {
  if (whyNotNarrower(approval, proposal)) return unlimited(proposal.id);
  return { ...narrowed, proposal: proposal.id, directory: isInAnyDirectory(proposal) ? narrowed.directory : undefined };
}

/** The proposals, with what each would have saved once the server has said it. */
function useCovered(approval: Approval): Proposal[] {
  const [known, setKnown] = useState<Approval | undefined>(undefined);
  useEffect(() => {
    let isOver = false;
    json<Approval>("GET", `/v1/approvals/${approval.id}`).then((now) => !isOver && setKnown(now), () => {});
    return () => {
      isOver = true;
    };
  }, [approval.id]);
  const covered = new Map(known?.proposals?.map(({ id, wouldHaveCovered }) => [id, wouldHaveCovered]));
  return proposalsOf(approval).map((proposal) => ({ ...proposal, wouldHaveCovered: proposal.wouldHaveCovered ?? covered.get(proposal.id) }));
}

function Choice({ approval, proposal, isChosen, choose }: { approval: Approval; proposal: Proposal; isChosen: boolean; choose: () => void }) {
  const isWider = proposal.id !== "exact";
  const covered = coveredWords(proposal);
  return (
    <label class={isWider ? "check wider" : "check"}>
      <input type="radio" name={`proposal-${approval.id}`} value={proposal.id} checked={isChosen} onChange={choose} />
      <span>
        {isWider ? <code dir="ltr">{brief(proposal.words, 240)}</code> : <strong>Exactly this command</strong>}
        {isWider && <span class="chip warn">wider</span>}
        <span class="width covered">{covered}</span>
      </span>
    </label>
  );
}

function Narrow({ approval, proposal, narrowed, narrow }: Props & { proposal: Proposal }) {
  const key = approval.id;
  const [span, setSpan] = useState<Span>("ever");
  // An end that was chosen when this was open before stands in no field any more.
  useEffect(() => narrow({ ...narrowed, untilMs: undefined }), []);
  const whyNot = whyNotNarrower(approval, proposal);
  if (whyNot) return <p class="hint">{whyNot}</p>;
  const has = (change: Partial<Narrowing>) => narrow({ ...narrowed, ...change });
  return (
    <div class="narrow" role="group" aria-label="Narrow it">
      <div class="field">
        <label for={`span-${key}`}>For how long</label>
        <select id={`span-${key}`} value={narrowed.untilMs === undefined ? "ever" : span} onChange={(event) => {
          const next = SPANS.find((known) => known === event.currentTarget.value) ?? "ever";
          setSpan(next);
          has({ untilMs: endOf(next, serverNow()) });
        }}>
          {SPANS.map((each) => <option key={each} value={each}>{SPAN_WORDS[each]}</option>)}
        </select>
      </div>
      <div class="field">
        <label for={`uses-${key}`}>How often, with this run</label>
        <select id={`uses-${key}`} value={String(narrowed.uses ?? "")} onChange={(event) => has({ uses: Number(event.currentTarget.value) || undefined })}>
          <option value="">any number of times</option>
          {USES.map((uses) => <option key={uses} value={String(uses)}>{`${uses} times`}</option>)}
        </select>
      </div>
      {isInAnyDirectory(proposal) && (
        <div class="field">
          <label for={`directory-${key}`}>Where</label>
          <select id={`directory-${key}`} value={narrowed.directory ?? ""} onChange={(event) => has({ directory: event.currentTarget.value || undefined })}>
            <option value="">in any directory</option>
            {directoriesOf(approval.boundTo.cwd).map((directory) => <option key={directory} value={directory}>{`in ${brief(directory, 60)} and below`}</option>)}
          </select>
        </div>
      )}
      <label class="check">
        <input type="checkbox" checked={narrowed.isOfSession} onChange={(event) => has({ isOfSession: event.currentTarget.checked })} />
        <span>Only in this session <code dir="ltr">{brief(approval.sessionKey, 60)}</code></span>
      </label>
    </div>
  );
}

/** Every entry that is stored, with all that it says, and which of the `others` it answers: it stands beside the button that stores it. */
export function StoredList({ approval, narrowed, others }: Omit<Props, "narrow"> & { others: readonly Approval[] }) {
  const chosen = proposalsOf(approval).find(({ id }) => id === narrowed.proposal);
  if (!chosen) return null;
  const all = storedOf(approval, chosen, narrowed);
  const isBeside = all.some(({ isGrant }) => isGrant);
  const coverage = coverageOf(approval, narrowed, others);
  return (
    <>
      <div class="stores" tabIndex={0} role="group" aria-label="What is stored">
        <p class="stores-title">{`This is stored for ${brief(approval.agentId, 40)}, ${isBeside ? "as a grant beside the allowlist" : "in the allowlist"}:`}</p>
        <ul aria-label="Entries">{all.map((stored, at) => <li key={at}><Entry stored={stored} /></li>)}</ul>
        <Left coverage={coverage} />
      </div>
      {others.length > 0 && <p class="covers" role="status">{coversWords(coverage)}</p>}
    </>
  );
}

/** What the rule does to the other requests of the group, in a sentence. */
function coversWords({ covered, left }: Coverage): string {
  const others = covered.length + left.length;
  const rest = left.length === 1 ? "One still needs an answer." : left.length ? `${left.length} still need an answer.` : "";
  if (!covered.length) return others === 1 ? "It does not cover the other request." : `It covers none of the ${others} other requests.`;
  const all = others === 1 ? "the other request" : `all ${others} other requests`;
  return `It also allows ${rest ? `${covered.length} of the ${others} other requests` : all}. ${rest}`;
}

/** What the rule does not cover of the group, and why. */
function Left({ coverage: { left } }: { coverage: Coverage }) {
  if (!left.length) return null;
  // Those of the same words and reason are one line.
  const lines = new Map<string, { line: string; why: string; count: number }>();
  for (const { approval, why } of left) {
    const line = lineOf(approval);
    const known = lines.get(`${why}\n${line}`);
    if (known) known.count += 1;
    else lines.set(`${why}\n${line}`, { line, why, count: 1 });
  }
  const shown = [...lines.values()].slice(0, MOST_LEFT);
  const more = left.length - shown.reduce((sum, { count }) => sum + count, 0);
  return (
    <>
      <p class="stores-title">This still needs an answer:</p>
      <ul aria-label="What the rule does not cover">
        {shown.map(({ line, why, count }) => <li key={`${why}\n${line}`}><code dir="ltr">{brief(line, 80)}</code>{count > 1 && ` (${count} times)`}: {visible(why)}</li>)}
        {more > 0 && <li>{`and ${more} more`}</li>}
      </ul>
    </>
  );
}

function Entry({ stored: { pattern, argumentsWords, argv, directory, untilMs, uses, session, note } }: { stored: Stored }) {
  return (
    <>
      <Mono text={pattern} />
      {argumentsWords && ` with ${argumentsWords}`}
      {argv && <>: <code dir="ltr">{visible(argv.join(" "))}</code></>}
      {directory === undefined ? ", in any directory" : <>, in <Mono text={directory} /></>}
      {session !== undefined && <>, in the session <Mono text={session} /></>}
      {uses !== undefined && `, ${uses} runs in all, this one included`}
      {untilMs === undefined ? ", for good" : <>, until <Time ms={untilMs} /></>}
      {note && <span class="chip warn">{visible(note)}</span>}
    </>
  );
}
