// The inbox: the list beside the request that is open; on a phone the list, or the request over all of the screen.

import { useLayoutEffect, useRef } from "preact/hooks";
import { areSimilar, chosen, clearEnded, drawn, filter, focusNext, hasEnded, isOpened, listed, model, oneRun, opened, openRow, setFilter, setSimilar } from "../inbox.ts";
import { record } from "../later.ts";
import { place } from "../place.ts";
import { blank, only } from "../shell.ts";
import { useValue } from "../state.ts";
import { type Guard, watch } from "../steady.ts";
import { Card } from "./card.tsx";
import { List } from "./list.tsx";
import { titleOf } from "./nav.tsx";

export function Inbox() {
  useValue(drawn);
  const nothing = useValue(blank);
  const words = useValue(filter);
  const isGrouped = useValue(areSimilar);
  const many = useValue(chosen).size;
  const waiting = model.waiting.length;
  const isEmpty = model.entries.size === 0;
  const isNarrowed = !isEmpty && listed().length === 0;
  const later = useValue(record);
  const section = useRef<HTMLElement>(null);

  useLayoutEffect(() => {
    if (!isEmpty && !performance.getEntriesByName("first-card").length) performance.mark("first-card");
  });

  return (
    <section id="waiting" ref={section} tabIndex={-1} aria-labelledby="waiting-title">
      <div class="section-head">
        <h1 id="waiting-title" tabIndex={-1}>{only ? "One request" : waiting ? `Waiting for you (${waiting.toLocaleString("en")})` : "Waiting for you"}</h1>
        {!only && (model.entries.size > 1 || words) && (
          <div class="filter">
            <label class="unseen" for="filter">Filter by agent, program, directory or text</label>
            <input id="filter" type="text" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder="Filter: agent:build git" value={words} onInput={(event) => setFilter(event.currentTarget.value)} />
            <button type="button" class="quiet" id="similar" aria-pressed={isGrouped} onClick={() => setSimilar(!isGrouped)}>Group similar</button>
          </div>
        )}
        {later && !only && <later.ChooseAll />}
        {!only && hasEnded() && (
          <button type="button" class="quiet" id="clear" onClick={() => {
            clearEnded();
            section.current?.focus({ preventScroll: true });
          }}>Clear decided</button>
        )}
        {only && <a class="button quiet" id="all" href="/">All requests</a>}
      </div>
      {later && !only && <later.Mutes />}
      {isEmpty && <p class="blank" id="blank">{nothing}</p>}
      {isEmpty && later && !only && <later.Start />}
      {isNarrowed && <p class="blank">{`Nothing here matches the filter. ${model.entries.size === 1 ? "One request does not." : `${model.entries.size} requests do not.`}`}</p>}
      {many > 0 && <p class="chosen-bar"><button type="button" class="primary" id="answer-chosen" onClick={() => isOpened.set(true)}>{`Answer ${many} together`}</button></p>}
      <div class={`inbox${only ? " alone" : ""}`}>
        {!only && <List />}
        <Preview isChosen={many > 0} />
      </div>
      {only && <OneRun />}
    </section>
  );
}

/** How many wait, in the title and the icon of the tab, whichever view is open. */
export function Title() {
  useValue(drawn);
  const { view } = useValue(place);
  const waiting = model.waiting.length;
  useLayoutEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${view === "inbox" ? "" : `${titleOf(view)} · `}countersign`;
    const icon = document.querySelector<HTMLLinkElement>("#icon");
    const wanted = waiting ? "/assets/icon-waiting.svg" : "/assets/icon.svg";
    if (icon && icon.getAttribute("href") !== wanted) icon.href = wanted;
  });
  return null;
}

/** The open request. Its buttons take nothing while it has just come or moved. */
function Preview({ isChosen }: { isChosen: boolean }) {
  const id = useValue(opened);
  const isFull = useValue(isOpened);
  const next = useValue(focusNext);
  const Batch = useValue(record)?.Batch;
  const box = useRef<HTMLDivElement>(null);
  const guard = useRef<Guard | undefined>(undefined);
  const wasChosen = useRef(isChosen);
  const wasName = useRef(id);
  const row = only ? undefined : openRow();
  const entry = row?.lead ?? (id === undefined ? undefined : model.entries.get(id));
  const all = row?.entries ?? (entry ? [entry] : []);

  useLayoutEffect(() => {
    if (!box.current) return undefined;
    guard.current = watch(box.current);
    return () => {
      guard.current?.stop();
      document.documentElement.classList.remove("card-open");
    };
  }, []);
  useLayoutEffect(() => {
    guard.current?.look();
    document.documentElement.classList.toggle("card-open", isFull && (Boolean(entry) || isChosen) && !only);
    // The answer to several had the focus, and has gone.
    const hasGone = (wasChosen.current && !isChosen) || (wasName.current !== id && wasName.current?.startsWith("all-"));
    const hasLost = hasGone && document.activeElement === document.body;
    wasChosen.current = isChosen;
    wasName.current = id;
    const isNext = next?.where === "card" && next.id === id;
    if (isNext) focusNext.set(undefined);
    if (isNext || hasLost) box.current?.querySelector<HTMLElement>("article")?.focus({ preventScroll: true });
  });

  return (
    <div id="cards" class="preview" ref={box} data-open={isFull}>
      {isChosen ? Batch && <Batch key="chosen" guard={() => guard.current} /> : row?.kind === "similar" ? Batch && <Batch key={id} row={row} guard={() => guard.current} />
        : entry && id !== undefined && <Card key={id} name={id} entry={entry} all={all} guard={() => guard.current} />}
    </div>
  );
}

/** Below a request of its own: the output of its run, once there can be some. */
function OneRun() {
  const run = useValue(oneRun);
  const Output = useValue(record)?.Output;
  if (!run || !Output || !["completed", "failed", "running", "cancelled", "lost"].includes(run.status)) return null;
  return (
    <section id="one-run" aria-labelledby="one-run-title">
      <h2 id="one-run-title">Output</h2>
      <Output key={run.status} run={run} />
    </section>
  );
}

