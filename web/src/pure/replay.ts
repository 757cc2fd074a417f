// A recording as the page plays it: pictures of cells, with the time line that pauses are cut out of. Pure.

import type { Frame, Frames } from "../api/types.ts";

/** A text of a row and how it looks. */
export type Text = Frame["changed"][number]["texts"][number];

/** What the screen shows from one moment on. */
export interface Picture {
  atMs: number;
  rows: readonly (readonly Text[])[];
  cols: number;
  cursor: readonly number[] | undefined;
}

/** What a frame makes of the picture before it; without one of an empty screen. */
export function pictured(before: Pick<Picture, "rows"> | undefined, { atMs, rows: height, cols, cursor, changed }: Frame): Picture {
  const rows = Array.from({ length: height }, (_none, row) => before?.rows[row] ?? []);
  for (const { row, texts } of changed) if (row < height) rows[row] = texts;
  return { atMs, rows, cols, cursor };
}

/** The pictures of an answer behind those that are there. The first of an answer begins with an empty screen. */
export function developed(before: readonly Picture[], { frames }: Pick<Frames, "frames">): Picture[] {
  const pictures = [...before];
  let last: Picture | undefined;
  for (const frame of frames) {
    last = pictured(last, frame);
    pictures.push(last);
  }
  return pictures;
}

/** The picture that is shown at a moment: the last that was taken by then. */
export function at(pictures: readonly Picture[], ms: number): number {
  let [low, high] = [0, pictures.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((pictures[middle]?.atMs ?? 0) <= ms) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}

/** The moment after so much time of playing; a pause takes at most `idleMs`, if that is given. */
export function advanced(pictures: readonly Picture[], fromMs: number, playedMs: number, lengthMs: number, idleMs: number | undefined): number {
  let now = fromMs;
  let left = playedMs;
  for (let place = (pictures[0]?.atMs ?? 0) > now ? 0 : at(pictures, now) + 1; ; place += 1) {
    const begin = pictures[place - 1]?.atMs ?? 0;
    const end = pictures[place]?.atMs ?? lengthMs;
    // A long pause runs as fast as to end in time, from wherever in it one begins.
    const fast = idleMs === undefined ? 1 : Math.max((end - begin) / idleMs, 1);
    const takes = Math.max(end - now, 0) / fast;
    if (left < takes) return now + left * fast;
    left -= takes;
    now = Math.max(end, now);
    if (place >= pictures.length) return now;
  }
}

/** The text of a row. */
export const lineOf = (texts: readonly Text[]): string => texts.map(({ text }) => text).join("");

/** The next picture from `from` on, in the direction of `step`, that shows these words and where the one before did not; -1 for none. */
export function found(pictures: readonly Picture[], words: string, from: number, step: 1 | -1): number {
  const wanted = words.toLowerCase();
  if (!wanted) return -1;
  const shows = (place: number) => pictures[place]?.rows.some((row) => lineOf(row).toLowerCase().includes(wanted)) ?? false;
  for (let place = from + step; place >= 0 && place < pictures.length; place += step) if (shows(place) && (place === 0 || !shows(place - 1))) return place;
  return -1;
}
