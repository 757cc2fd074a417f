// Requests to the API. The cookie goes by itself; the second secret, without which it opens nothing, goes with every
// request as a header and lives in this origin's storage, which other ports of the host cannot read.

import type { Approval, Page, Problem } from "./types.ts";

const SECRET = "countersign.csrf";
const PATIENCE_MS = 20_000;

/** A refusal: the problem document of the API. */
export class Refused extends Error {
  readonly status: number;
  readonly problem: Partial<Problem> & { approval?: Approval };
  readonly code: string;
  readonly requestId: string;

  constructor(status: number, problem: Partial<Problem>, requestId?: string | null) {
    super(problem.detail ?? problem.title ?? `The server answered ${status}`);
    this.status = status;
    this.problem = problem as Refused["problem"];
    this.code = problem.code ?? "";
    this.requestId = requestId ?? "";
  }

  /** What the server says, with the number of the request where there is one. */
  get sentence(): string {
    return this.requestId ? `${this.message} (request ${this.requestId})` : this.message;
  }

  /** Whether it says that nobody is signed in here any more. */
  get isSignedOut(): boolean {
    return this.status === 401 || (this.status === 403 && this.code === "forbidden" && !this.problem.requiredScope);
  }
}

/** No answer came. */
export class Unreachable extends Error {}

/** Whether asking again would only be refused again. */
export const isFinal = (error: unknown): boolean => error instanceof Refused && error.status < 500 && error.status !== 429;

export const secret = (): string => localStorage.getItem(SECRET) ?? "";
export const keepSecret = (value: string): void => localStorage.setItem(SECRET, value);
export const forgetSecret = (): void => localStorage.removeItem(SECRET);

/** Calls `then` when another tab signs out, or in as another person. */
export function onSecretChange(then: (now: string) => void): void {
  addEventListener("storage", (event) => {
    if (event.key === SECRET || event.key === null) then(secret());
  });
}

let skewMs = 0;

/** The time on the server's clock, as far as this page knows. */
export const serverNow = (): number => Date.now() + skewMs;

/** What goes with a request. */
export interface Sent {
  body?: unknown;
  headers?: HeadersInit;
  signal?: AbortSignal;
}

/** What `early.js` asked for already, by path; each answer is taken once. */
declare global {
  var early: Map<string, Promise<Response>> | undefined;
}

function asked(method: string, path: string): Promise<Response> | undefined {
  const answer = method === "GET" ? globalThis.early?.get(path) : undefined;
  if (answer) globalThis.early?.delete(path);
  return answer;
}

/** Sends a request; answers with the response, or throws `Refused` or `Unreachable`. */
export async function send(method: string, path: string, { body, headers = {}, signal }: Sent = {}): Promise<Response> {
  const all = new Headers(headers);
  if (secret()) all.set("X-CSRF-Token", secret());
  if (body !== undefined) all.set("Content-Type", "application/json");
  if (!all.has("Accept")) all.set("Accept", "application/json");
  let response: Response;
  try {
    response = await (asked(method, path) ?? fetch(path, {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(PATIENCE_MS),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    }));
  } catch (cause) {
    throw new Unreachable("no answer", { cause });
  }
  noteClock(response);
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  throw new Refused(response.status, problem, response.headers.get("x-request-id"));
}

/** Sends a request and reads the JSON of its answer. */
export async function json<Answer>(method: string, path: string, options?: Sent): Promise<Answer> {
  const response = await send(method, path, options);
  try {
    return (await response.json()) as Answer;
  } catch (cause) {
    throw new Unreachable("the answer broke off", { cause });
  }
}

/** All items of a list, which may have a query, page by page, at most `most` of them; `more` says whether some were left. */
export async function everything<Item>(path: string, most: number): Promise<{ items: Item[]; more: boolean }> {
  const items: Item[] = [];
  let cursor: string | undefined;
  do {
    const query = new URLSearchParams({ limit: items.length ? "500" : "200" });
    if (cursor) query.set("cursor", cursor);
    const page = await json<Page<Item>>("GET", `${path}${path.includes("?") ? "&" : "?"}${query}`);
    items.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor && items.length < most);
  return { items, more: Boolean(cursor) };
}

function noteClock(response: Response): void {
  // The header counts whole seconds: only a real difference is taken over.
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const difference = date + 500 - Date.now();
  skewMs = Math.abs(difference) > 2000 ? difference : 0;
}
