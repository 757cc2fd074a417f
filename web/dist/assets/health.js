import { Fact, Fragment, Mono, Refused, Wrong, createVNode, failed, hints, json, looker, may, useEffect, useState, useValue, visible } from "./app.js";
import { Settings } from "./lists.js";
// src/pure/sentence.ts
function sentence$1(fragment) {
	const text = (fragment ?? "").trim();
	const [first = "", ...rest] = text;
	if (!text) return "";
	return `${first.toUpperCase()}${rest.join("")}${/[.!?…)]$/.test(text) ? "" : "."}`;
}
// src/view/health.tsx
var PAUSE_MS = 100;
var FINDINGS_PAUSE_MS = 1e3;
var AGAIN_MS = 3e4;
var NAMES = {
	database: "Record",
	document: "Approvals document",
	config: "Settings",
	listener: "Network",
	machine: "Machine",
	record: "Audit log",
	runner: "Runner",
	sandbox: "Sandbox",
	bridge: "Bridge",
	ipc: "Approvals socket",
	clock: "Clock"
};
var PARTS = {
	starts: "What programs may start",
	writes: "Where they may write",
	connects: "Where they may connect",
	signals: "Whom they may signal",
	scripts: "Scripts that are held",
	"held-texts": "Texts that are held",
	children: "What their children may start"
};
async function readiness() {
	try {
		return await json("GET", "/readyz");
	} catch (error) {
		if (error instanceof Refused && error.status === 503 && "checks" in error.problem) return error.problem;
		throw error;
	}
}
function Health() {
	const hint = useValue(hints.policy) + useValue(hints.all);
	const [known, setKnown] = useState(void 0);
	const [problem, setProblem] = useState("");
	const [refresh] = useState(() => looker(async () => {
		try {
			const [ready, version, settings] = await Promise.all([
				readiness(),
				json("GET", "/v1/version"),
				json("GET", "/v1/settings")
			]);
			setKnown({
				ready,
				version,
				settings
			});
			setProblem("");
		} catch (error) {
			if (!(error instanceof Refused) || error.status >= 500) throw error;
			if (error.isSignedOut) failed(error);
			setProblem(error.sentence);
		}
	}, PAUSE_MS));
	useEffect(() => refresh(), [hint]);
	useEffect(() => {
		const timer = setInterval(refresh, AGAIN_MS);
		return () => clearInterval(timer);
	}, []);
	if (!known) return problem ? createVNode(Wrong, { text: problem }) : createVNode("p", {
		class: "hint",
		children: "Loading …"
	});
	const { ready, version, settings } = known;
	return createVNode(Fragment, { children: [
		createVNode(Wrong, { text: problem }),
		createVNode("p", {
			class: "verdict",
			role: "status",
			id: "health-verdict",
			children: [
				createVNode("span", {
					class: `badge ${ready.status !== "ready" ? "bad" : ready.degraded || ready.stopped ? "warn" : "good"}`,
					children: ready.status !== "ready" ? "Not ready" : ready.stopped ? "Stopped" : ready.degraded ? "Degraded" : "Ready"
				}),
				" ",
				sentence(ready)
			]
		}),
		createVNode("div", {
			class: "panels",
			children: [
				may("admin") && createVNode(Findings, { hint }),
				createVNode("section", {
					class: "panel",
					"aria-labelledby": "checks-title",
					children: [
						createVNode("h2", {
							id: "checks-title",
							children: "Checks"
						}),
						createVNode("ul", {
							class: "checks",
							id: "checks",
							"aria-label": "Checks",
							children: Object.entries(ready.checks).map(([name, check]) => createVNode("li", {
								"data-check": name,
								children: [
									createVNode("span", {
										class: `badge ${check.ok ? "good" : "bad"}`,
										children: check.ok ? "ok" : "wrong"
									}),
									" ",
									createVNode("strong", { children: Object.hasOwn(NAMES, name) ? NAMES[name] : visible(name) }),
									check.detail && createVNode(Fragment, { children: [" ", createVNode("bdi", { children: visible(check.detail) })] })
								]
							}, name))
						}),
						!may("admin") && createVNode("p", {
							class: "hint",
							children: [
								"On the machine, ",
								createVNode("code", { children: "countersign doctor" }),
								" looks further, and says how to fix what it finds. An admin sees that here."
							]
						}),
						createVNode("dl", {
							class: "facts",
							children: [createVNode(Fact, {
								name: "Version",
								children: visible(version.version)
							}), createVNode(Fact, {
								name: "Commit",
								children: createVNode("code", { children: visible(version.commit) })
							})]
						})
					]
				}),
				createVNode("section", {
					class: "panel",
					"aria-labelledby": "kernel-title",
					children: [createVNode("h2", {
						id: "kernel-title",
						children: "What the kernel keeps"
					}), createVNode("ul", {
						class: "checks",
						"aria-label": "What the kernel keeps",
						children: settings.kernel.parts.map(({ part, kept, missing, otherwise }) => createVNode("li", { children: [
							createVNode("span", {
								class: `badge ${kept ? "good" : "dull"}`,
								children: kept ? "kept" : "not kept"
							}),
							" ",
							createVNode("strong", { children: Object.hasOwn(PARTS, part) ? PARTS[part] : visible(part) }),
							!kept && createVNode(Fragment, { children: [" ", createVNode("bdi", { children: visible(`${sentence$1(missing)} ${sentence$1(otherwise)}`.trim()) })] })
						] }, part))
					})]
				}),
				createVNode(Settings, { items: settings.items })
			]
		})
	] });
}
var SEVERITIES = {
	error: ["bad", "wrong"],
	warning: ["warn", "risky"],
	info: ["dull", "note"]
};
function Findings({ hint }) {
	const [found, setFound] = useState(void 0);
	const [problem, setProblem] = useState("");
	const [refresh] = useState(() => looker(async () => {
		try {
			setFound((await json("GET", "/v1/doctor")).findings);
			setProblem("");
		} catch (error) {
			if (!(error instanceof Refused) || error.status >= 500) throw error;
			setProblem(error.sentence);
		}
	}, FINDINGS_PAUSE_MS));
	useEffect(() => refresh(), [hint]);
	return createVNode("section", {
		class: "panel",
		"aria-labelledby": "findings-title",
		children: [
			createVNode("div", {
				class: "section-head",
				children: [createVNode("h2", {
					id: "findings-title",
					children: "What doctor finds"
				}), createVNode("button", {
					type: "button",
					class: "quiet",
					id: "findings-again",
					onClick: refresh,
					children: "Look again"
				})]
			}),
			createVNode(Wrong, { text: problem }),
			!found && !problem && createVNode("p", {
				class: "hint",
				children: "Loading …"
			}),
			found?.length === 0 && createVNode("p", { children: "Nothing is wrong." }),
			found && found.length > 0 && createVNode("ul", {
				class: "checks",
				id: "findings",
				"aria-label": "What doctor finds",
				children: found.map(({ id, severity, key, explanation, fix }) => {
					const [tone, word] = SEVERITIES[severity] ?? ["dull", severity];
					return createVNode("li", {
						"data-finding": id,
						children: [createVNode("p", { children: [
							createVNode("span", {
								class: `badge ${tone}`,
								children: visible(word)
							}),
							" ",
							createVNode(Mono, { text: key }),
							" ",
							createVNode("bdi", { children: visible(sentence$1(explanation)) })
						] }), createVNode("p", {
							class: "rule-more",
							children: ["Fix: ", createVNode("bdi", { children: visible(fix) })]
						})]
					}, `${id} ${key}`);
				})
			})
		]
	});
}
function sentence({ status, degraded, stopped, restartNeeded }) {
	const said = status !== "ready" ? "The server cannot work, and refuses every call." : stopped ? "Everything is stopped: nothing starts and nothing is asked." : degraded ? "The server answers, but something is wrong, and it denies what depends on that." : "The server works.";
	return restartNeeded ? `${said} A changed setting waits for a restart.` : said;
}
export { Health };
