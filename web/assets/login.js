// Signing in: a one-time link, used up only when its button is pressed, or a pasted token.

import { json, keepSecret, Refused, secret } from "./api.js";
import { byId } from "./dom.js";
import { returnPath } from "./text.js";

const next = returnPath(new URLSearchParams(location.search).get("next"));
let code = takeCode();

// A link that is opened where this page is already changes nothing but what is behind `#`.
addEventListener("hashchange", () => {
  if (!location.hash) return;
  code = takeCode();
  byId("problem").hidden = true;
  show();
});
byId("use-link").addEventListener("click", () => signIn(byId("use-link"), { code }));
byId("other-way").addEventListener("click", () => {
  code = null;
  show();
  byId("token").focus();
});
byId("by-token").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  if (token) signIn(byId("use-token"), { token });
  else complain("Paste a token first.");
});

show();
if (!code && secret()) json("GET", "/auth/session").then(() => location.replace(next)).catch(() => {});

function takeCode() {
  const found = new URLSearchParams(location.hash.slice(1)).get("code");
  // Neither the address bar nor the history keeps it.
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

function show() {
  byId("by-link").hidden = !code;
  byId("by-token").hidden = Boolean(code);
}

async function signIn(button, body) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  button.classList.add("busy");
  byId("problem").hidden = true;
  try {
    const session = await json("POST", "/auth/login", { body });
    keepSecret(session.csrfToken);
    location.replace(next);
  } catch (error) {
    complain(sentence(error, body));
    if (error instanceof Refused && error.status < 500 && error.status !== 429 && body.code) {
      code = null;
      show();
    }
    button.removeAttribute("aria-disabled");
    button.classList.remove("busy");
  }
}

function sentence(error, body) {
  if (!(error instanceof Refused)) return "The server does not answer. Try again in a moment.";
  if (error.status === 429) return "Too many wrong tries. Wait a minute, then try again.";
  if (error.status === 401) {
    return body.code
      ? "This link was used already, or it is too old. Make a new one: countersign login-link"
      : "This token is not valid, or no longer.";
  }
  return error.requestId ? `${error.message} (request ${error.requestId})` : error.message;
}

function complain(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = false;
}
