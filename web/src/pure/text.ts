// Text that others wrote, made fit for the eyes of a person. Pure: values in, values out.

// Everything that hides, or that changes how the rest is shown: control and format characters, lone surrogates, what
// has no meaning or a private one, line separators, and blanks that are no plain blank.
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Co}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{16fe4}\u{1d159}\u{e0100}-\u{e01ef}]/u;
const BLANKS = 8;

/** `\u{HEX}`, as the server spells it too. */
export const spelled = (character: string): string => `\\u{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`;

/** Text on one or more lines with everything unseen spelled out; `keep` names characters that stay. */
export function visible(text: unknown, keep = ""): string {
  let shown = "";
  for (const character of String(text)) {
    shown += UNSEEN.test(character) && !keep.includes(character) ? spelled(character) : character;
  }
  return shown;
}

/** Output of a command: lines and tabs stay, everything else unseen is spelled out. */
export const visibleOutput = (text: string): string => visible(text.replaceAll("\r\n", "\n"), "\n\t");

/** A part of a command as it is shown. */
export interface Piece {
  kind: "text" | "unseen" | "break" | "blanks";
  text: string;
}

/** A piece with the index of the span that it lies in, or -1. */
export interface MarkedPiece extends Piece {
  span: number;
}

/**
 * A command as pieces `{kind, text}` in its own order: `text`, `unseen` (spelled out, as is what looks like a spelling or
 * a mark of the server), `break` (a line break, spelled out and broken), `blanks` (a long run, spelled as its length). The
 * texts of all but `blanks` joined, line breaks added, are what the server shows as `display.text`.
 */
export function pieces(command: string): Piece[] {
  const found: Piece[] = [];
  let plain = "";
  const flush = () => {
    if (plain) found.push(...withBlanks(plain));
    plain = "";
  };
  let at = 0;
  for (const character of command) {
    const isLikeOurs = character === "⟨" || command.startsWith("\\u{", at);
    at += character.length;
    if (!isLikeOurs && !UNSEEN.test(character)) {
      plain += character;
      continue;
    }
    flush();
    found.push({ kind: character === "\n" ? "break" : "unseen", text: spelled(character) });
  }
  flush();
  return found;
}

function withBlanks(text: string): Piece[] {
  const parts: Piece[] = [];
  for (const part of text.split(/( {8,})/)) {
    if (!part) continue;
    const isRun = part.length >= BLANKS && part.trim() === "";
    parts.push(isRun ? { kind: "blanks", text: part } : { kind: "text", text: part });
  }
  return parts;
}

/** What `pieces` show, as the server writes it: compared with `display.text`, so that the two never tell different stories. */
export function joined(found: readonly Piece[]): string {
  return found.map(({ kind, text }) => (kind === "break" ? `${text}\n` : text)).join("");
}

/** Cuts pieces at the byte offsets of `spans` (of the joined text) and notes the span that each lies in. */
export function marked(found: readonly Piece[], spans: readonly (readonly number[])[]): MarkedPiece[] {
  if (spans.length === 0) return found.map((piece) => ({ ...piece, span: -1 }));
  const edges = [...new Set(spans.flat())].sort((a, b) => a - b);
  const result: MarkedPiece[] = [];
  let at = 0;
  for (const piece of found) {
    const parts = piece.kind === "text" ? cut(piece.text, at, edges) : [piece.text];
    for (const text of parts) {
      const span = spans.findIndex(([start = 0, end = 0]) => at >= start && at < end);
      result.push({ ...piece, text, span });
      at += bytes(text);
    }
    if (piece.kind === "break") at += 1;
  }
  return result;
}

function cut(text: string, from: number, edges: readonly number[]): string[] {
  const parts: string[] = [];
  let at = from;
  let part = "";
  for (const character of text) {
    if (part && edges.includes(at)) {
      parts.push(part);
      part = "";
    }
    part += character;
    at += bytes(character);
  }
  if (part) parts.push(part);
  return parts;
}

const encoder = new TextEncoder();
const bytes = (text: string): number => encoder.encode(text).length;

/** Words that mix Latin letters with those of another script, which can look the same. */
export function mixedWords(text: string): string[] {
  const words = text.match(/[\p{L}\p{M}]+/gu) ?? [];
  const isMixed = (word: string) => /\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}]/u.test(word);
  return [...new Set(words.filter(isMixed))];
}

/** The first characters of a text on one line, for labels; no run of blanks pushes what follows out of sight. */
export function brief(text: unknown, length = 80): string {
  const characters = [...visible(text).replace(/ {8,}/g, (run) => ` (${run.length} blanks) `)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : characters.join("");
}

/** How long is left until a moment, in words as short as a clock: `29:59`, `1:02:03`. */
export function timeLeft(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (number: number) => String(number).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** A duration: `3 ms`, `1.2 s`, `4 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A number of bytes: `12 bytes`, `3.4 KiB`. */
export function byteSize(count: number): string {
  if (count < 1024) return count === 1 ? "1 byte" : `${count} bytes`;
  const units = ["KiB", "MiB", "GiB"];
  let size = count / 1024;
  while (size >= 1024 && units.length > 1) {
    size /= 1024;
    units.shift();
  }
  return `${size.toFixed(1)} ${units[0]}`;
}

/** Only these two kinds of path are ever returned to after a sign-in. */
export function returnPath(wanted: string | null | undefined): string {
  return wanted && /^\/a\/[a-z0-9-]{1,64}$/.test(wanted) ? wanted : "/";
}
