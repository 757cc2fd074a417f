// Signing in: a one-time link, used up only when its button is pressed, or a pasted token.

import { json, keepSecret, Refused, secret } from "./api/api.ts";
import type { BrowserSession } from "./api/types.ts";
import { returnPath } from "./pure/text.ts";

const next = returnPath(new URLSearchParams(location.search).get("next"));
/** A code that all of a link has. */
const CODE = /^csl_[\w-]{32,}$/;
let code = takeCode();

type Credentials = { code: string } | { token: string };

/** The element of this id, which the page has. */
function byId<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found as Kind;
}

// A link that is opened where this page is already changes nothing but what is behind `#`.
addEventListener("hashchange", () => {
  if (!location.hash) return;
  byId("problem").hidden = true;
  code = takeCode();
  show();
});
byId("use-link").addEventListener("click", () => signIn(byId("use-link"), { code: code ?? "" }));
byId("other-way").addEventListener("click", () => {
  code = null;
  show();
  byId("token").focus();
});
byId("by-token").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId<HTMLInputElement>("token").value.trim();
  if (token) void signIn(byId("use-token"), { token });
  else complain("Paste a token first.");
});

show();
if (!code && secret()) json("GET", "/auth/session").then(() => location.replace(next)).catch(() => {});

function takeCode(): string | null {
  const found = new URLSearchParams(location.hash.slice(1)).get("code");
  // Neither the address bar nor the history keeps it.
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (found === null || CODE.test(found)) return found;
  complain("This link is incomplete. Copy all of it, or make a new one: countersign login-link");
  return null;
}

function show(): void {
  byId("by-link").hidden = !code;
  byId("by-token").hidden = Boolean(code);
}

async function signIn(button: HTMLElement, body: Credentials): Promise<void> {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  button.classList.add("busy");
  byId("problem").hidden = true;
  try {
    const session = await json<BrowserSession & { csrfToken: string }>("POST", "/auth/login", { body });
    keepSecret(session.csrfToken);
    location.replace(next);
  } catch (error) {
    complain(sentence(error, body));
    if (error instanceof Refused && error.status < 500 && error.status !== 429 && "code" in body) {
      code = null;
      show();
    }
    button.removeAttribute("aria-disabled");
    button.classList.remove("busy");
  }
}

function sentence(error: unknown, body: Credentials): string {
  if (!(error instanceof Refused)) return "The server does not answer. Try again in a moment.";
  if (error.status === 429) return "Too many wrong tries. Wait a minute, then try again.";
  if (error.status === 401) {
    return "code" in body
      ? "This link was used already, or has expired. Make a new one: countersign login-link"
      : "This token is not valid, or has been revoked.";
  }
  return error.sentence;
}

function complain(text: string): void {
  byId("problem").textContent = text;
  byId("problem").hidden = false;
}
