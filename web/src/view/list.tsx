// The list of requests: one row each, of which only those in sight are drawn, oldest first, so that nothing ever jumps.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { serverNow } from "../api/api.ts";
import { choose, chosen, drawn, filter, focusNext, listed, open, opened, ticks } from "../inbox.ts";
import type { Entry } from "../pure/approvals.ts";
import { type Fact, factsOf } from "../pure/facts.ts";
import { brief, timeLeft, visible } from "../pure/text.ts";
import { inSight, ROW_PX } from "../pure/window.ts";
import { outcome, progress, runStatus } from "../pure/words.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { runFacts } from "./card.tsx";
import { labelOf, lineOf } from "./details.tsx";
import { chipOf } from "./facts.tsx";

const URGENT_MS = 60_000;
export function List() {
  useValue(drawn);
  useValue(filter);
  const marked = useValue(chosen);
  const now = useValue(opened);
  const next = useValue(focusNext);
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 800 });
  const all = listed();
  const { from, to } = inSight(all.length, sight.top, sight.height);

  const look = () => {
    const { current } = box;
    if (!current) return;
    const { scrollTop, clientHeight } = current;
    setSight((before) => (before.top === scrollTop && before.height === clientHeight ? before : { top: scrollTop, height: clientHeight }));
  };
  useLayoutEffect(() => {
    if (!box.current) return undefined;
    const observer = new ResizeObserver(look);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [all.length > 0]);

  // The row that is open is in sight.
  const at = all.findIndex(({ approval }) => approval.id === now);
  useLayoutEffect(() => {
    const { current } = box;
    if (!current || at < 0 || !current.clientHeight) return;
    const top = at * ROW_PX;
    if (top < current.scrollTop) current.scrollTop = top;
    else if (top + ROW_PX > current.scrollTop + current.clientHeight) current.scrollTop = top + ROW_PX - current.clientHeight;
    look();
  }, [now]);
  useLayoutEffect(() => {
    if (next?.where !== "row") return;
    const row = box.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(next.id)}"] .row-open`);
    if (!row) return;
    focusNext.set(undefined);
    row.focus({ preventScroll: true });
  });

  if (!all.length) return null;
  return (
    <div class="rows-box" ref={box} onScroll={look}>
      <ol class="rows" id="rows" aria-labelledby="waiting-title">
        {from > 0 && <li class="rows-gap" aria-hidden="true" ref={(gap) => gap?.style.setProperty("height", `${from * ROW_PX}px`)} />}
        {all.slice(from, to).map((entry, index) => (
          <Row key={entry.approval.id} entry={entry} isOpen={entry.approval.id === now} isChosen={marked.has(entry.approval.id)} at={from + index + 1} of={all.length} />
        ))}
        {to < all.length && <li class="rows-gap" aria-hidden="true" ref={(gap) => gap?.style.setProperty("height", `${(all.length - to) * ROW_PX}px`)} />}
      </ol>
    </div>
  );
}

interface RowProps {
  entry: Entry;
  isOpen: boolean;
  isChosen: boolean;
  at: number;
  of: number;
}

function Row({ entry, isOpen, isChosen, at, of }: RowProps) {
  const { approval, phase, problem } = entry;
  const label = labelOf(approval);
  return (
    <li class={`row${isOpen ? " is-open" : ""}`} data-row={approval.id} data-phase={phase} aria-posinset={at} aria-setsize={of}>
      <button type="button" class="row-open" aria-current={isOpen ? "true" : undefined} onClick={() => open(approval.id, "card")}>
        <code class="row-command" dir="ltr">{brief(lineOf(approval), 160)}</code>
        <span class="row-meta">
          <bdi class="row-agent">{brief(approval.agentId, 24)}</bdi>
          {phase === "settled" ? <RowEnd entry={entry} /> : (
            <>
              {problem && <span class="chip bad">not answered</span>}
              {phase === "sending" && <span class="chip wait">sending</span>}
              {progress(approval) && <span class="chip wait">{`${(approval.votes ?? []).length} of ${approval.approvalsRequired}`}</span>}
              <RowFacts facts={factsOf(approval, { overrides: undefined, runsBefore: undefined })} />
              <Left ms={approval.expiresAtMs} />
            </>
          )}
        </span>
      </button>
      {phase !== "settled" && may("approve") && (
        <label class="row-tick"><input type="checkbox" checked={isChosen} aria-label={`Choose ${label}`} onChange={() => choose(approval.id)} /></label>
      )}
    </li>
  );
}

function RowEnd({ entry }: { entry: Entry }) {
  const { tone, title, detail } = outcome(entry.approval, entry.mine);
  const run = entry.approval.status === "allowed" && entry.run ? `${runStatus(entry.run.status ?? "queued").label} ${runFacts(entry.run)}` : "";
  return <span class={`ended tone-${tone}`}>{[visible(title), visible(detail), run].filter(Boolean).join(" · ")}</span>;
}

/** The gravest facts of a row; the others are on the card. */
function RowFacts({ facts }: { facts: readonly Fact[] }) {
  const [first, ...rest] = facts;
  if (!first) return null;
  return (
    <>
      <span class={chipOf(first)}>{visible(first.text)}</span>
      {rest.length > 0 && <span class="chip warn">{`+${rest.length}`}</span>}
    </>
  );
}

/** The time that is left. Only this is drawn each second. */
function Left({ ms }: { ms: number }) {
  useValue(ticks);
  const left = ms - serverNow();
  return <span class={left <= URGENT_MS ? "left urgent" : "left"}>{left > 0 ? timeLeft(left) : "Time is up"}</span>;
}
