// The list of requests: one row each, of which only those in sight are drawn, oldest first, so that nothing ever jumps.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { serverNow } from "../api/api.ts";
import { choose, chosen, drawn, filter, focusNext, open, opened, openRow, rows, ticks, unfold } from "../inbox.ts";
import type { Entry } from "../pure/approvals.ts";
import type { Row as Listed } from "../pure/groups.ts";
import { type Fact, factsOf } from "../pure/facts.ts";
import { brief, timeLeft, visible } from "../pure/text.ts";
import { DESK_ROW_PX, inSight, ROW_PX } from "../pure/window.ts";
import { outcome, progress, runFacts, runStatus } from "../pure/words.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { labelOf, lineOf } from "./details.tsx";
import { chipOf } from "./facts.tsx";

const URGENT_MS = 60_000;

export function List() {
  useValue(drawn);
  useValue(filter);
  const marked = useValue(chosen);
  useValue(opened);
  const next = useValue(focusNext);
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 800 });
  const all = rows();
  // As the stylesheet has it.
  const px = matchMedia("(min-width: 60rem) and (not (pointer: coarse))").matches ? DESK_ROW_PX : ROW_PX;
  const { from, to } = inSight(all.length, sight.top, sight.height, px);

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
  const shown = openRow(all);
  const at = shown ? all.indexOf(shown) : -1;
  useLayoutEffect(() => {
    const { current } = box;
    if (!current || at < 0 || !current.clientHeight) return;
    const top = at * px;
    if (top < current.scrollTop) current.scrollTop = top;
    else if (top + px > current.scrollTop + current.clientHeight) current.scrollTop = top + px - current.clientHeight;
    look();
  }, [shown?.name]);
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
        {from > 0 && <li class="rows-gap" aria-hidden="true" ref={(gap) => gap?.style.setProperty("height", `${from * px}px`)} />}
        {all.slice(from, to).map((row, index) => (
          <Row key={row.name} row={row} isOpen={row === shown} isChosen={row.entries.every(({ approval }) => marked.has(approval.id))} at={from + index + 1} of={all.length} />
        ))}
        {to < all.length && <li class="rows-gap" aria-hidden="true" ref={(gap) => gap?.style.setProperty("height", `${(all.length - to) * px}px`)} />}
      </ol>
    </div>
  );
}

interface RowProps {
  row: Listed;
  isOpen: boolean;
  isChosen: boolean;
  at: number;
  of: number;
}

function Row({ row: { name, lead, entries, kind, isOpen: isUnfolded }, isOpen, isChosen, at, of }: RowProps) {
  const { approval } = lead;
  const label = labelOf(approval);
  const count = entries.length;
  const isGroup = count > 1;
  const phase = (entries.find((entry) => entry.phase !== "settled") ?? lead).phase;
  // What had one answer may have nothing else in common.
  const alike = kind === "equal" || phase !== "settled" ? `${kind} ` : "";
  const problem = entries.some((entry) => entry.problem);
  return (
    <li class={`row ${kind}${isOpen ? " is-open" : ""}`} data-row={name} data-phase={phase} aria-posinset={at} aria-setsize={of}>
      <button type="button" class="row-open" aria-current={isOpen ? "true" : undefined} onClick={() => open(name, "card")}>
        <code class="row-command" dir="ltr">{brief(lineOf(approval), 160)}</code>
        <span class="row-meta">
          <bdi class="row-agent">{brief(approval.agentId, 24)}</bdi>
          {isGroup && <span class="times"><span aria-hidden="true">{`×${count}${alike === "similar " ? " similar" : ""}`}</span><span class="unseen">{`${count} ${alike}requests`}</span></span>}
          {phase === "settled" ? <RowEnd entries={entries} /> : (
            <>
              {problem && <span class="chip bad">not answered</span>}
              {phase === "sending" && <span class="chip wait">sending</span>}
              {progress(approval) && <span class="chip wait">{`${(approval.votes ?? []).length} of ${approval.approvalsRequired}`}</span>}
              <RowFacts facts={factsOfAll(kind === "similar" ? entries : [lead])} />
              <Left ms={Math.min(...entries.map((entry) => entry.approval.expiresAtMs))} />
            </>
          )}
        </span>
      </button>
      {isGroup ? <button type="button" class="row-unfold" aria-expanded={isUnfolded} aria-label={`List the ${count} ${alike}requests: ${label}`} onClick={() => unfold(name)} /> : phase !== "settled" && may("approve") && (
        <label class="row-tick"><input type="checkbox" checked={isChosen} aria-label={`Choose ${label}`} onChange={() => choose(name)} /></label>
      )}
    </li>
  );
}

function RowEnd({ entries }: { entries: readonly Entry[] }) {
  const [entry] = entries as [Entry];
  const { tone, title, detail } = outcome(entry.approval, entry.mine);
  const titles = entries.map(({ approval, mine }) => outcome(approval, mine).title);
  const each = [...new Set(titles)];
  if (each.length > 1) return <span class="ended tone-warn">{each.map((one) => `${titles.filter((other) => other === one).length} ${visible(one)}`).join(" · ")}</span>;
  const run = entries.length === 1 && entry.approval.status === "allowed" && entry.run ? `${runStatus(entry.run.status ?? "queued").label} ${runFacts(entry.run)}` : "";
  return <span class={`ended tone-${tone}`}>{[visible(title), visible(detail), run].filter(Boolean).join(" · ")}</span>;
}

/** What is known of any of them, once. */
function factsOfAll(entries: readonly Entry[]): Fact[] {
  const all = entries.flatMap(({ approval }) => factsOf(approval, { overrides: undefined, runsBefore: undefined }));
  return all.filter(({ code }, at) => all.findIndex((fact) => fact.code === code) === at);
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
