// src/api/api.ts
var SECRET = "countersign.csrf";
var PATIENCE_MS = 2e4;
var Refused = class extends Error {
	status;
	problem;
	code;
	requestId;
	constructor(status, problem, requestId) {
		super(problem.detail ?? problem.title ?? `The server answered ${status}`);
		this.status = status;
		this.problem = problem;
		this.code = problem.code ?? "";
		this.requestId = requestId ?? "";
	}
	get sentence() {
		return this.requestId ? `${this.message} (request ${this.requestId})` : this.message;
	}
	get isSignedOut() {
		return this.status === 401 || this.status === 403 && this.code === "forbidden" && !this.problem.requiredScope;
	}
};
var Unreachable = class extends Error {};
var secret = () => localStorage.getItem(SECRET) ?? "";
var keepSecret = (value) => localStorage.setItem(SECRET, value);
function asked(method, path) {
	const answer = method === "GET" ? globalThis.early?.get(path) : void 0;
	if (answer) globalThis.early?.delete(path);
	return answer;
}
async function send(method, path, { body, headers = {}, signal } = {}) {
	const all = new Headers(headers);
	if (secret()) all.set("X-CSRF-Token", secret());
	if (body !== void 0) all.set("Content-Type", "application/json");
	if (!all.has("Accept")) all.set("Accept", "application/json");
	let response;
	try {
		response = await (asked(method, path) ?? fetch(path, {
			method,
			headers: all,
			body: body === void 0 ? void 0 : JSON.stringify(body),
			signal: signal ?? AbortSignal.timeout(PATIENCE_MS),
			cache: "no-store",
			credentials: "same-origin",
			redirect: "error"
		}));
	} catch (cause) {
		throw new Unreachable("no answer", { cause });
	}
	noteClock(response);
	if (response.ok) return response;
	const problem = await response.json().catch(() => ({}));
	throw new Refused(response.status, problem, response.headers.get("x-request-id"));
}
async function json(method, path, options) {
	const response = await send(method, path, options);
	try {
		return await response.json();
	} catch (cause) {
		throw new Unreachable("the answer broke off", { cause });
	}
}
function noteClock(response) {
	const date = Date.parse(response.headers.get("date") ?? "");
	if (Number.isNaN(date)) return;
	date + 500 - Date.now();
}
new TextEncoder();
function returnPath(wanted) {
	return wanted && /^\/a\/[a-z0-9-]{1,64}$/.test(wanted) ? wanted : "/";
}
// src/login.ts
var next = returnPath(new URLSearchParams(location.search).get("next"));
var CODE = /^csl_[\w-]{32,}$/;
var code = takeCode();
function byId(id) {
	const found = document.getElementById(id);
	if (!found) throw new Error(`no element ${id}`);
	return found;
}
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
	const token = byId("token").value.trim();
	if (token) signIn(byId("use-token"), { token });
	else complain("Paste a token first.");
});
show();
if (!code && secret()) json("GET", "/auth/session").then(() => location.replace(next)).catch(() => {});
function takeCode() {
	const found = new URLSearchParams(location.hash.slice(1)).get("code");
	if (location.hash) history.replaceState(null, "", location.pathname + location.search);
	if (found === null || CODE.test(found)) return found;
	complain("This link is incomplete. Copy all of it, or make a new one: countersign login-link");
	return null;
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
		keepSecret((await json("POST", "/auth/login", { body })).csrfToken);
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
function sentence(error, body) {
	if (!(error instanceof Refused)) return "The server does not answer. Try again in a moment.";
	if (error.status === 429) return "Too many wrong tries. Wait a minute, then try again.";
	if (error.status === 401) return "code" in body ? "This link was used already, or has expired. Make a new one: countersign login-link" : "This token is not valid, or has been revoked.";
	return error.sentence;
}
function complain(text) {
	byId("problem").textContent = text;
	byId("problem").hidden = false;
}
