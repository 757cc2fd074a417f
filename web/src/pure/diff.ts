// How one text became another, word by word. Pure.

/** A part of both texts, of the old one alone, or of the new one alone. */
export interface Change {
  kind: "same" | "gone" | "new";
  text: string;
}

/** Longer middles are shown as replaced at once: the table below grows with the product of both. */
const MOST_CELLS = 1_000_000;

/** The words of a text, each blank and each mark a word of its own. */
const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{M}\p{N}_]+|[^]/gu) ?? [];

/** The parts by which `before` became `after`: the kept and the gone ones joined are `before`, the kept and the new ones `after`. */
export function diff(before: string, after: string): Change[] {
  const old = wordsOf(before);
  const now = wordsOf(after);
  let from = 0;
  while (from < old.length && from < now.length && old[from] === now[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < now.length - from && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const found: Change[] = [];
  const add = (kind: Change["kind"], words: readonly string[]) => {
    const text = words.join("");
    const last = found.at(-1);
    if (!text) return;
    if (last?.kind === kind) last.text += text;
    else found.push({ kind, text });
  };
  add("same", old.slice(0, from));
  middle(old.slice(from, old.length - end), now.slice(from, now.length - end), add);
  add("same", old.slice(old.length - end));
  return found;
}

/** The longest part that both have in common, in order, stays. */
function middle(old: readonly string[], now: readonly string[], add: (kind: Change["kind"], words: readonly string[]) => void): void {
  if (old.length * now.length > MOST_CELLS) {
    add("gone", old);
    add("new", now);
    return;
  }
  // How much the rests of both have in common, from the end.
  const width = now.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      common[row * width + column] = old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  let row = 0;
  let column = 0;
  while (row < old.length && column < now.length) {
    if (old[row] === now[column]) {
      add("same", old.slice(row, row + 1));
      row += 1;
      column += 1;
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      add("gone", old.slice(row, row + 1));
      row += 1;
    } else {
      add("new", now.slice(column, column + 1));
      column += 1;
    }
  }
  add("gone", old.slice(row));
  add("new", now.slice(column));
}
