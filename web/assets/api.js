// Requests to the API. The cookie goes by itself; the second secret, without which it opens nothing, goes with every
// request as a header and lives in this origin's storage, which other ports of the host cannot read.

const SECRET = "countersign.csrf";
const PATIENCE_MS = 20_000;

/** A refusal: the problem document of the API. */
export class Refused extends Error {
  constructor(status, problem, requestId) {
    super(problem.detail ?? problem.title ?? `The server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? "";
    this.requestId = requestId ?? "";
  }

  /** Whether it says that nobody is signed in here any more. */
  get isSignedOut() {
    return this.status === 401 || (this.status === 403 && this.code === "forbidden" && !this.problem.requiredScope);
  }
}

/** No answer came. */
export class Unreachable extends Error {}

/** Whether asking again would only be refused again. */
export const isFinal = (error) => error instanceof Refused && error.status < 500 && error.status !== 429;

export const secret = () => localStorage.getItem(SECRET) ?? "";
export const keepSecret = (value) => localStorage.setItem(SECRET, value);
export const forgetSecret = () => localStorage.removeItem(SECRET);

/** Calls `then` when another tab signs out, or in as another person. */
export function onSecretChange(then) {
  addEventListener("storage", (event) => {
    if (event.key === SECRET || event.key === null) then(secret());
  });
}

let skewMs = 0;

/** The time on the server's clock, as far as this page knows. */
export const serverNow = () => Date.now() + skewMs;

/** Sends a request; answers with the response, or throws `Refused` or `Unreachable`. */
export async function send(method, path, { body, headers = {}, signal } = {}) {
  const all = new Headers(headers);
  if (secret()) all.set("X-CSRF-Token", secret());
  if (body !== undefined) all.set("Content-Type", "application/json");
  if (!all.has("Accept")) all.set("Accept", "application/json");
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(PATIENCE_MS),
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (cause) {
    throw new Unreachable("no answer", { cause });
  }
  noteClock(response);
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem, response.headers.get("x-request-id"));
}

/** Sends a request and reads the JSON of its answer. */
export async function json(method, path, options) {
  const response = await send(method, path, options);
  try {
    return await response.json();
  } catch (cause) {
    throw new Unreachable("the answer broke off", { cause });
  }
}

/** All items of a list, page by page, at most `most` of them; `more` says whether some were left. */
export async function everything(path, most) {
  const items = [];
  let cursor;
  do {
    const query = new URLSearchParams({ limit: items.length ? "500" : "200" });
    if (cursor) query.set("cursor", cursor);
    const page = await json("GET", `${path}?${query}`);
    items.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor && items.length < most);
  return { items, more: Boolean(cursor) };
}

function noteClock(response) {
  // The header counts whole seconds: only a real difference is taken over.
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const difference = date + 500 - Date.now();
  skewMs = Math.abs(difference) > 2000 ? difference : 0;
}
