// What an allowlist entry lets its program do, as a person writes it. Pure.

export interface Written {
  starts: string;
  writes: string;
  connects: string;
}

type Listed<T> = "any" | T[];

export interface Confine {
  starts?: Listed<string>;
  writes?: Listed<string>;
  connects?: Listed<number>;
}

const LARGEST_PORT = 65_535;

/** Thrown with a sentence that says what is wrong. */
export class NoConfine extends Error {}

/** `undefined` for what is not said; `nothing` is an empty list. */
function listed(text: string): Listed<string> | undefined {
  const words = text.split(",").map((word) => word.trim()).filter((word) => word !== "");
  if (words.length === 0) return undefined;
  if (words.length === 1 && words[0] === "any") return "any";
  if (words.length === 1 && words[0] === "nothing") return [];
  return words;
}

function port(word: string): number {
  const number = /^\d{1,5}$/.test(word) ? Number(word) : 0;
  if (number < 1 || number > LARGEST_PORT) throw new NoConfine(`“${word}” is not a TCP port: write numbers from 1 to ${LARGEST_PORT}.`);
  return number;
}

/**
 * What the fields say; `undefined` where they say nothing.
 * @throws {NoConfine} where a port is none.
 */
export function confineOf({ starts, writes, connects }: Written): Confine | undefined {
  const ports = listed(connects);
  const said = {
    starts: listed(starts),
    writes: listed(writes),
    connects: Array.isArray(ports) ? ports.map(port) : ports,
  };
  const members = Object.entries(said).filter(([, value]) => value !== undefined);
  return members.length === 0 ? undefined : (Object.fromEntries(members) as Confine);
}

/** What an entry says its program may do: `starts judged, ssh; writes workspace`. */
export function confineLine(confine: unknown): string {
  if (typeof confine !== "object" || confine === null || Array.isArray(confine)) return JSON.stringify(confine);
  const words = (value: unknown) => (Array.isArray(value) ? value.map(String).join(", ") || "nothing" : typeof value === "string" ? value : JSON.stringify(value));
  return Object.entries(confine).map(([name, value]) => `${name} ${words(value)}`).join("; ");
}
