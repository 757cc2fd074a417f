// A long command is shown with its beginning and its end, since the end is where what matters can hide. Pure.

import type { MarkedPiece } from "./text.ts";

/** So many lines are shown without folding. */
export const MOST_LINES = 12;
const HEAD_LINES = 6;
const TAIL_LINES = 4;
/** A line of the card holds about so many characters; a longer one is broken. */
const LINE_CHARS = 90;

/** A command in three parts; `hidden` is empty where nothing is folded. */
export interface Folded {
  head: MarkedPiece[];
  hidden: MarkedPiece[];
  tail: MarkedPiece[];
  /** How many lines are hidden, at least one where anything is. */
  lines: number;
}

/** Folds the pieces of a command where they would take more than `MOST_LINES` lines. */
export function folded(pieces: readonly MarkedPiece[]): Folded {
  const cells = pieces.flatMap(taken);
  const places = linesOf(cells);
  const last = places.at(-1) ?? 0;
  if (last < MOST_LINES) return { head: [...pieces], hidden: [], tail: [], lines: 0 };
  const from = places.findIndex((line) => line >= HEAD_LINES);
  const to = places.findIndex((line) => line > last - TAIL_LINES);
  return {
    head: joinedAgain(cells.slice(0, from)),
    hidden: joinedAgain(cells.slice(from, to)),
    tail: joinedAgain(cells.slice(to)),
    lines: last + 1 - HEAD_LINES - TAIL_LINES,
  };
}

/** A piece character by character; what is spelled out stays in one. */
function taken(piece: MarkedPiece, index: number): Cell[] {
  if (piece.kind !== "text") return [{ piece, index, text: piece.text }];
  return [...piece.text].map((text) => ({ piece, index, text }));
}

interface Cell {
  piece: MarkedPiece;
  index: number;
  text: string;
}

/** The line that each cell stands on. */
function linesOf(cells: readonly Cell[]): number[] {
  let line = 0;
  let column = 0;
  return cells.map(({ piece, text }) => {
    if (column >= LINE_CHARS) {
      line += 1;
      column = 0;
    }
    const at = line;
    column += piece.kind === "blanks" ? 12 : text.length;
    if (piece.kind === "break") {
      line += 1;
      column = 0;
    }
    return at;
  });
}

function joinedAgain(cells: readonly Cell[]): MarkedPiece[] {
  const found: MarkedPiece[] = [];
  let last = -1;
  for (const { piece, index, text } of cells) {
    const before = found.at(-1);
    if (index === last && before) before.text += text;
    else found.push({ ...piece, text });
    last = index;
  }
  return found;
}
