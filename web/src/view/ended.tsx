// What became of a request, or of each of several, and what its answer left behind.

import { useLayoutEffect } from "preact/hooks";
import { listEach, takeBack } from "../answers.ts";
import { serverNow } from "../api/api.ts";
import { ticks } from "../inbox.ts";
import type { Approval } from "../api/types.ts";
import type { Entry } from "../pure/approvals.ts";
import { brief, timeLeft, visible } from "../pure/text.ts";
import { outcome, runFacts, runStatus } from "../pure/words.ts";
import { lastReasons } from "../reasons.ts";
import { may, only } from "../shell.ts";
import { useValue } from "../state.ts";
import { Time } from "./common.tsx";
import { lineOf } from "./details.tsx";

interface Props {
  entry: Entry;
  /** What the request is called. */
  label: string;
  /** What gets the focus when a button goes away. */
  article: { current: HTMLElement | null };
}

/** How a request ended. */
export function Ended({ entry, label, article }: Props) {
  const { approval, mine } = entry;
  const { tone, title, detail } = outcome(approval, mine);
  return (
    <div class="ended">
      <p class="ended-title">
        <span class={`mark ${tone}`} aria-hidden="true" /><strong>{visible(title)}</strong>
        {!only && <a class="ended-link" href={`/a/${approval.id}`} aria-label={`Permanent link to ${label}`}>Link</a>}
      </p>
      {detail && <p class="ended-detail"><bdi>{visible(detail)}</bdi></p>}
      <Remembered entry={entry} />
      {approval.revisedBy && <p class="ended-detail">A person suggested <a href={`/a/${approval.revisedBy}`}>another command</a> in its place.</p>}
      <TakeBack entry={entry} label={label} article={article} />
      <RunLine entry={entry} />
    </div>
  );
}

/** How often the same was asked, and the way to each request. */
export function Times({ name, all, sessions }: { name: string; all: readonly Entry[]; sessions: number }) {
  return (
    <p class="asked-times">
      {`Asked ${all.length} times${sessions > 1 ? `, in ${sessions} sessions` : ""}.${all.some(({ phase }) => phase !== "settled") ? " One answer goes to all of them." : ""}`}{" "}
      <button type="button" class="quiet" onClick={() => listEach(name)}>List each</button>
    </p>
  );
}

/** The result of each request that had the same answer. */
export function Results({ all }: { all: readonly Entry[] }) {
  if (!all.length) return null;
  // Where they asked for different things, each says what.
  const isMixed = new Set(all.map(({ approval }) => lineOf(approval))).size > 1;
  return (
    <ol class="results" aria-label="The result of each request">
      {all.map((entry) => <Result key={entry.approval.id} entry={entry} isMixed={isMixed} />)}
    </ol>
  );
}

function Result({ entry, isMixed }: { entry: Entry; isMixed: boolean }) {
  const { approval, mine, phase, problem } = entry;
  useValue(ticks);
  const article = { current: null };
  const { tone, title, detail } = outcome(approval, mine);
  const isOver = phase === "settled";
  return (
    <li data-result={approval.id}>
      <p class="ended-title">
        <span class={`mark ${isOver ? tone : "bad"}`} aria-hidden="true" />
        <span><strong>{isOver ? visible(title) : "Not answered"}</strong> <a href={`/a/${approval.id}`}>{visible(approval.slug)}</a> of <Time ms={approval.createdAtMs} /></span>
      </p>
      {isMixed && <p class="ended-detail"><code dir="ltr">{brief(lineOf(approval), 160)}</code></p>}
      {(problem || (isOver && detail)) && <p class="ended-detail"><bdi>{visible(problem ?? detail)}</bdi></p>}
      {isOver && <Remembered entry={entry} />}
      {isOver && <TakeBack entry={entry} label={approval.slug} article={article} />}
      {isOver && <RunLine entry={entry} />}
    </li>
  );
}

/** The last reasons, one press each. */
export function Reasons({ choose }: { choose: (text: string) => void }) {
  const all = lastReasons();
  if (!all.length) return null;
  return (
    <ul class="reasons" aria-label="Your last reasons">
      {all.map((text) => <li key={text}><button type="button" class="quiet" onClick={() => choose(text)}><bdi>{brief(text, 60)}</bdi></button></li>)}
    </ul>
  );
}

const spelled = (ms: number): string => {
  const [count, unit] = ms % 60_000 === 0 ? [ms / 60_000, "minute"] : [Math.ceil(ms / 1000), "second"];
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
};

/** What can still be done once it is allowed, where that is not as usual. */
export function HeldBack({ approval: { startDelayMs, startedByAsker } }: { approval: Approval }) {
  if (startedByAsker) return <p class="hint">The program that asks starts this itself, as soon as it has your answer. You cannot take the answer back.</p>;
  return startDelayMs ? <p class="hint">{`Once it is allowed, it is held back for ${spelled(startDelayMs)}. Until then you can take the answer back.`}</p> : null;
}

/** While its run is held back, an allowance can be taken back. */
function TakeBack({ entry: { approval, run }, label, article }: { entry: Entry; label: string; article: { current: HTMLElement | null } }) {
  const isHeld = approval.status === "allowed" && (!run || run.status === "queued" || run.status === "approval-pending");
  const ms = isHeld ? (approval.startsAtMs ?? 0) - serverNow() : 0;
  const isShown = ms > 0 && may("approve");
  useLayoutEffect(() => () => {
    if (document.activeElement === document.body) article.current?.focus({ preventScroll: true });
  }, [isShown]);
  if (!isShown) return null;
  return <button type="button" class="act deny take-back" aria-label={`Take back: ${label}`} onClick={() => void takeBack(approval.id)}>{`Take back (${timeLeft(ms)})`}</button>;
}

/** What an answer leaves behind. */
function Remembered({ entry: { approval: { grant }, left } }: { entry: Entry }) {
  const { rule, noRule } = left ?? {};
  if (grant) return <p class="ended-detail remembered">From now on: <bdi>{visible(grant.words)}</bdi></p>;
  if (rule) return <p class="ended-detail remembered">{rule.questions ? "Everything that this agent would ask" : "This command"} is denied without a question {rule.expiresAtMs === undefined ? "for good" : <>until <Time ms={rule.expiresAtMs} /></>}.</p>;
  return noRule ? <p class="warn-line remembered">It is denied, but no rule is stored: <bdi>{visible(noRule)}</bdi></p> : null;
}

/** How the run goes; nothing where the end of the request says it all. */
function RunLine({ entry: { approval, run } }: { entry: Entry }) {
  if (approval.status !== "allowed" && (!run || run.status === "denied" || run.status === "cancelled")) return null;
  if (approval.status === "expired" && !run) return null;
  const { label, tone } = runStatus(run?.status ?? "queued");
  return <p class="run-line"><span class={`badge ${tone}`}>{label}</span> {runFacts(run)}</p>;
}
