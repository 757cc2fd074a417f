// The parts that the views of lists are made of: a filter whose fields the address keeps, and the list with its states.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { keepFilter, place } from "../place.ts";
import type { ViewName } from "../pure/route.ts";
import { useValue } from "../state.ts";
import { Wrong } from "./common.tsx";
import type { Paged } from "./paged.ts";

const TYPING_MS = 250;

/** A field of a filter: one of `choices`, a day, or any text. */
export interface FilterField {
  key: string;
  title: string;
  choices?: readonly (readonly [string, string])[];
  kind?: "day";
  hint?: string;
}

/** What the address says of the fields. */
export function useFilter(fields: readonly FilterField[]): Record<string, string> {
  const { query } = useValue(place);
  return Object.fromEntries(fields.map(({ key }) => [key, query.get(key) ?? ""]));
}

/** The fields of a filter. What is chosen is in effect at once, what is typed after a moment. */
export function Filter({ view, fields }: { view: ViewName; fields: readonly FilterField[] }) {
  const now = useFilter(fields);
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // What is not in the address yet.
  const waiting = useRef<Record<string, string>>({});
  useEffect(() => () => clearTimeout(typing.current), []);
  const set = (key: string, value: string, pause: number) => {
    clearTimeout(typing.current);
    waiting.current = { ...waiting.current, [key]: value };
    typing.current = setTimeout(() => {
      const all = { ...now, ...waiting.current };
      waiting.current = {};
      keepFilter(view, all);
    }, pause);
  };
  return (
    <div class="toolbar" role="search" aria-label="Filter">
      {fields.map(({ key, title, choices, kind, hint }) => (
        <div key={key} class="field">
          <label for={`${view}-${key}`}>{title}</label>
          {choices ? (
            <select id={`${view}-${key}`} value={now[key]} onChange={(event) => set(key, event.currentTarget.value, 0)}>
              {choices.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
            </select>
          ) : kind === "day" ? (
            <input id={`${view}-${key}`} type="date" value={waiting.current[key] ?? now[key]} onInput={(event) => set(key, event.currentTarget.value, TYPING_MS)} />
          ) : (
            <input id={`${view}-${key}`} type="text" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder={hint} value={waiting.current[key] ?? now[key]} onInput={(event) => set(key, event.currentTarget.value.trim(), TYPING_MS)} />
          )}
        </div>
      ))}
    </div>
  );
}

interface Props<Item> {
  id: string;
  title: string;
  list: Paged<Item>;
  /** What an empty list says, and what to do next. */
  none: ComponentChildren;
  row: (item: Item) => ComponentChildren;
}

/** The items, or why there are none. */
export function Listing<Item>({ id, title, list: { items, hasMore, problem, older }, none, row }: Props<Item>) {
  return (
    <>
      <Wrong text={problem} />
      {!items && !problem && <p class="hint">Loading …</p>}
      {items?.length === 0 && <div class="blank" id={`${id}-none`}>{none}</div>}
      {items && items.length > 0 && <ol class="runs" id={id} aria-label={title}>{items.map(row)}</ol>}
      {hasMore && <button type="button" class="more" onClick={older}>Show more</button>}
    </>
  );
}

const DAY_MS = 86_400_000;

/** How far back a list goes: a number of days, or of hours with an `h`. */
export const AGES = [["", "At any time"], ["1h", "In the last hour"], ["1", "In the last day"], ["7", "In the last 7 days"], ["30", "In the last 30 days"]] as const;

/** When that began, on a full minute, so that the address of the list does not change with each drawing. */
export function sinceOf(age: string | undefined): string | undefined {
  const [, number, hours] = /^(\d{1,4})(h?)$/.exec(age ?? "") ?? [];
  return number === undefined ? undefined : String(Math.floor((Date.now() - Number(number) * (hours ? DAY_MS / 24 : DAY_MS)) / 60_000) * 60_000);
}

/** A day of the reader's calendar, as the parameters of a list; of none where it is no day. */
export function dayOf(day: string | undefined): { since?: string; until?: string } {
  const [, year, month, date] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? "") ?? []).map(Number);
  if (year === undefined || month === undefined || date === undefined) return {};
  // Days on which clocks change are shorter or longer.
  return { since: String(new Date(year, month - 1, date).getTime()), until: String(new Date(year, month - 1, date + 1).getTime()) };
}

/** Parameters of a request; what is empty is left out. */
export function query(parameters: Readonly<Record<string, string | undefined>>): string {
  const said = Object.entries(parameters).filter((pair): pair is [string, string] => Boolean(pair[1]));
  return new URLSearchParams(said).toString();
}
