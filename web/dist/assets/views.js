import { $ as announce, C as keepFilter, F as gone, I as looker, J as byteSize, L as may, P as failed, Q as visibleOutput, U as outcome, W as runStatus, X as mixedWords, Y as duration, Z as visible, at as useMemo, c as Fact, ct as Refused, d as Wrong, dt as send, et as hints, it as useLayoutEffect, l as Mono, lt as everything, m as createVNode, nt as useValue, o as lineOf, ot as useRef, pt as Fragment, q as brief, rt as useEffect, s as placeOf, st as useState, tt as State, u as Time, ut as json, v as nudge, w as place, y as watch } from "./app.js";
import { t as Settings } from "./settings.js";
import { t as Output } from "./output.js";
// src/view/listing.tsx
var TYPING_MS = 250;
function useFilter(fields) {
	const { query } = useValue(place);
	return Object.fromEntries(fields.map(({ key }) => [key, query.get(key) ?? ""]));
}
function Filter({ view, fields }) {
	const now = useFilter(fields);
	const typing = useRef(void 0);
	const waiting = useRef({});
	useEffect(() => () => clearTimeout(typing.current), []);
	const set = (key, value, pause) => {
		clearTimeout(typing.current);
		waiting.current = {
			...waiting.current,
			[key]: value
		};
		typing.current = setTimeout(() => {
			const all = {
				...now,
				...waiting.current
			};
			waiting.current = {};
			keepFilter(view, all);
		}, pause);
	};
	return createVNode("div", {
		class: "toolbar",
		role: "search",
		"aria-label": "Filter",
		children: fields.map(({ key, title, choices, hint }) => createVNode("div", {
			class: "field",
			children: [createVNode("label", {
				for: `${view}-${key}`,
				children: title
			}), choices ? createVNode("select", {
				id: `${view}-${key}`,
				value: now[key],
				onChange: (event) => set(key, event.currentTarget.value, 0),
				children: choices.map(([value, words]) => createVNode("option", {
					value,
					children: words
				}, value))
			}) : createVNode("input", {
				id: `${view}-${key}`,
				type: "text",
				autocomplete: "off",
				autocapitalize: "none",
				spellcheck: false,
				placeholder: hint,
				value: waiting.current[key] ?? now[key],
				onInput: (event) => set(key, event.currentTarget.value.trim(), TYPING_MS)
			})]
		}, key))
	});
}
function Listing({ id, title, list: { items, hasMore, problem, older }, none, row }) {
	return createVNode(Fragment, { children: [
		createVNode(Wrong, { text: problem }),
		!items && !problem && createVNode("p", {
			class: "hint",
			children: "Loading …"
		}),
		items?.length === 0 && createVNode("div", {
			class: "blank",
			id: `${id}-none`,
			children: none
		}),
		items && items.length > 0 && createVNode("ol", {
			class: "runs",
			id,
			"aria-label": title,
			children: items.map(row)
		}),
		hasMore && createVNode("button", {
			type: "button",
			class: "more",
			onClick: older,
			children: "Show more"
		})
	] });
}
function query(parameters) {
	const said = Object.entries(parameters).filter((pair) => Boolean(pair[1]));
	return new URLSearchParams(said).toString();
}
// src/view/paged.ts
var PAUSE_MS$2 = 1e3;
function usePaged(path, keyOf, hint = 0) {
	const [items, setItems] = useState(void 0);
	const [hasMore, setMore] = useState(false);
	const [problem, setProblem] = useState("");
	const now = useRef({
		path,
		cursor: void 0,
		hasOlder: false,
		isOver: false
	});
	async function ask(cursor) {
		const { current } = now;
		const asked = current.path;
		const glue = asked.includes("?") ? "&" : "?";
		const page = await json("GET", cursor === void 0 ? asked : `${asked}${glue}cursor=${encodeURIComponent(cursor)}`);
		if (current.isOver || current.path !== asked || gone.value !== void 0) return;
		setProblem("");
		const isNewest = cursor === void 0;
		if (!isNewest) current.hasOlder = true;
		if (!isNewest || !current.hasOlder) {
			current.cursor = page.nextCursor;
			setMore(Boolean(page.nextCursor));
		}
		const keys = new Set(page.items.map(keyOf));
		setItems((before = []) => {
			if (!isNewest) return [...before.filter((item) => !keys.has(keyOf(item))), ...page.items];
			return current.hasOlder ? [...page.items, ...before.filter((item) => !keys.has(keyOf(item)))] : page.items;
		});
	}
	function complain(error) {
		if (now.current.isOver) return;
		if (error instanceof Refused && !error.isSignedOut) setProblem(error.sentence);
		else failed(error);
	}
	const [refresh] = useState(() => looker(() => ask().catch((error) => {
		if (!(error instanceof Refused) || error.status >= 500) throw error;
		complain(error);
	}), PAUSE_MS$2));
	useEffect(() => {
		now.current = {
			path,
			cursor: void 0,
			hasOlder: false,
			isOver: false
		};
		setItems(void 0);
		setMore(false);
		setProblem("");
		ask().catch(complain);
		const { current } = now;
		return () => {
			current.isOver = true;
		};
	}, [path]);
	useEffect(() => {
		if (hint) refresh();
	}, [hint]);
	return {
		items,
		hasMore,
		problem,
		older: () => void ask(now.current.cursor).catch(complain),
		refresh
	};
}
// src/view/audit.tsx
var MOST_EXPORTED = 5e4;
var FIELDS = [{
	key: "action",
	title: "Action",
	hint: "exec.denied"
}, {
	key: "actor",
	title: "Who, by id",
	hint: "the id of a token"
}];
var TONES = {
	ok: "good",
	denied: "bad",
	failed: "warn"
};
function Audit() {
	const { action, actor } = useFilter(FIELDS);
	const hint = useValue(hints.runs) + useValue(hints.approvals) + useValue(hints.policy) + useValue(hints.all);
	const filter = query({
		action,
		actor
	});
	const list = usePaged(`/v1/audit?${query({
		limit: "50",
		order: "newest"
	})}${filter && `&${filter}`}`, ({ seq }) => String(seq), hint);
	return createVNode(Fragment, { children: [
		createVNode(Filter, {
			view: "audit",
			fields: FIELDS
		}),
		createVNode(Tools, { filter }),
		createVNode(Listing, {
			id: "audit",
			title: "Audit records",
			list,
			row: (record) => createVNode(Row$3, { record }, record.seq),
			none: action || actor ? createVNode("p", { children: ["No record matches the filter. ", createVNode("a", {
				href: "#/audit",
				children: "Show all records"
			})] }) : createVNode("p", { children: "Nothing is recorded yet." })
		})
	] });
}
function Row$3({ record: { seq, ts, actor, action, target, outcome, detail, hash } }) {
	return createVNode("li", {
		class: "run",
		"data-record": seq,
		children: createVNode("details", { children: [createVNode("summary", {
			class: "run-head",
			children: [
				createVNode("span", {
					class: `badge ${TONES[outcome]}`,
					children: outcome
				}),
				createVNode("span", {
					class: "run-command",
					children: [
						createVNode("bdi", { children: brief(actor.name, 60) }),
						" ",
						createVNode("code", { children: visible(action) })
					]
				}),
				createVNode("span", {
					class: "run-meta",
					children: [
						`${seq} · `,
						createVNode(Time, { ms: ts }),
						` · ${brief(`${target.kind} ${target.id}`, 80)}`
					]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			children: [createVNode("dl", {
				class: "facts",
				children: [
					createVNode(Fact, {
						name: "Who",
						children: [
							createVNode("bdi", { children: visible(actor.name) }),
							` (${visible(actor.kind)} `,
							createVNode(Mono, { text: actor.id }),
							actor.address ? `, from ${visible(actor.address)}` : "",
							")"
						]
					}),
					createVNode(Fact, {
						name: "What it is about",
						children: [
							visible(target.kind),
							" ",
							createVNode(Mono, { text: target.id })
						]
					}),
					createVNode(Fact, {
						name: "SHA-256",
						children: createVNode(Mono, { text: hash })
					})
				]
			}), createVNode("pre", {
				class: "output",
				tabIndex: 0,
				role: "group",
				"aria-label": "Detail",
				children: visible(JSON.stringify(detail, null, 2), "\n")
			})]
		})] })
	});
}
function Tools({ filter }) {
	const [isBusy, setBusy] = useState(false);
	const [said, setSaid] = useState(void 0);
	const [problem, setProblem] = useState("");
	async function during(work) {
		if (isBusy) return;
		setBusy(true);
		setProblem("");
		setSaid(void 0);
		try {
			await work();
		} catch (error) {
			setProblem(error instanceof Refused ? error.sentence : "No answer came. Try again.");
		}
		setBusy(false);
	}
	const verify = () => during(async () => setSaid(verdict(await json("GET", "/v1/audit/verify"))));
	const save = () => during(async () => {
		const { items, more } = await everything(`/v1/audit${filter && `?${filter}`}`, MOST_EXPORTED);
		const address = URL.createObjectURL(new Blob(items.map((record) => `${JSON.stringify(record)}\n`), { type: "application/x-ndjson" }));
		const link = document.createElement("a");
		link.href = address;
		link.download = "audit.jsonl";
		link.click();
		setTimeout(() => URL.revokeObjectURL(address), 1e4);
		setSaid({
			text: `${items.length.toLocaleString("en")} records are saved, one JSON object a line.${more ? " There are more: narrow the filter, or use countersign audit list." : ""}`,
			isGood: !more
		});
	});
	return createVNode("div", {
		class: "tools",
		children: [
			createVNode("button", {
				type: "button",
				id: "audit-verify",
				"aria-disabled": isBusy,
				onClick: () => void verify(),
				children: "Verify the log"
			}),
			createVNode("button", {
				type: "button",
				id: "audit-save",
				"aria-disabled": isBusy,
				onClick: () => void save(),
				children: "Save as a file"
			}),
			createVNode("p", {
				role: "status",
				id: "audit-said",
				class: said && !said.isGood ? "warn-line" : "hint",
				children: said ? visible(said.text) : ""
			}),
			createVNode(Wrong, { text: problem })
		]
	});
}
function verdict({ ok, records, firstSeq, lastSeq, head, problem }) {
	if (problem) return {
		text: `The log is not intact: record ${problem.seq} is ${problem.kind}${problem.target ? ` (${problem.target.kind} ${problem.target.id})` : ""}.`,
		isGood: false
	};
	if (!ok) return {
		text: "The log is not intact.",
		isGood: false
	};
	const sealed = head && head.seq < lastSeq ? ` It is sealed up to ${head.seq}; newer records are sealed within seconds.` : "";
	return {
		text: `The log is intact: ${records.toLocaleString("en")} records, ${firstSeq} to ${lastSeq}.${sealed}`,
		isGood: true
	};
}
// src/view/health.tsx
var PAUSE_MS$1 = 100;
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
	}, PAUSE_MS$1));
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
						createVNode("p", {
							class: "hint",
							children: [
								"On the machine, ",
								createVNode("code", { children: "countersign doctor" }),
								" looks further, and says how to fix what it finds."
							]
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
							!kept && createVNode(Fragment, { children: [" ", createVNode("bdi", { children: visible(`${missing ?? ""}. ${otherwise}`) })] })
						] }, part))
					})]
				}),
				createVNode("section", {
					class: "panel",
					"aria-labelledby": "version-title",
					children: [createVNode("h2", {
						id: "version-title",
						children: "Version"
					}), createVNode("dl", {
						class: "facts",
						children: [createVNode(Fact, {
							name: "countersign",
							children: visible(version.version)
						}), createVNode(Fact, {
							name: "Commit",
							children: createVNode("code", { children: visible(version.commit) })
						})]
					})]
				}),
				createVNode(Settings, { items: settings.items })
			]
		})
	] });
}
function sentence({ status, degraded, stopped, restartNeeded }) {
	const said = status !== "ready" ? "The server cannot do its work, and refuses what is asked." : stopped ? "Everything is stopped: nothing starts and nothing is asked." : degraded ? "The server answers, but something is wrong, and it denies what depends on that." : "The server does its work.";
	return restartNeeded ? `${said} A changed setting waits for a restart.` : said;
}
// src/view/agents.ts
var NAME_LENGTH$2 = 40;
function useAgents() {
	const [names, setNames] = useState([]);
	useEffect(() => {
		let isOver = false;
		json("GET", "/v1/agents?limit=500").then(({ items }) => !isOver && setNames(items.map(({ agentId }) => agentId)), () => {});
		return () => {
			isOver = true;
		};
	}, []);
	return [["", "All agents"], ...names.map((name) => [name, brief(name, NAME_LENGTH$2)])];
}
// src/view/history.tsx
var STATES$2 = [
	["all", "Any answer"],
	["allowed", "Allowed"],
	["denied", "Denied"],
	["expired", "Expired"],
	["cancelled", "Cancelled"],
	["pending", "Waiting"]
];
var DAY_MS = 864e5;
var AGES = [
	["", "At any time"],
	["1", "In the last day"],
	["7", "In the last 7 days"],
	["30", "In the last 30 days"]
];
var sinceOf = (days) => days ? String(Math.floor((Date.now() - Number(days) * DAY_MS) / 6e4) * 6e4) : void 0;
function History() {
	const fields = [
		{
			key: "agent",
			title: "Agent",
			choices: useAgents()
		},
		{
			key: "status",
			title: "Answer",
			choices: STATES$2.map(([value, words]) => [value === "all" ? "" : value, words])
		},
		{
			key: "days",
			title: "Asked",
			choices: AGES
		}
	];
	const { agent, status, days } = useFilter(fields);
	const since = useMemo(() => sinceOf(days), [days]);
	const hint = useValue(hints.approvals) + useValue(hints.all);
	const list = usePaged(`/v1/approvals?${query({
		limit: "50",
		agentId: agent,
		status: status || "all",
		since
	})}`, ({ id }) => id, hint);
	return createVNode(Fragment, { children: [createVNode(Filter, {
		view: "history",
		fields
	}), createVNode(Listing, {
		id: "history",
		title: "Requests and their answers",
		list,
		row: (approval) => createVNode(Row$2, { approval }, approval.id),
		none: Boolean(agent || status || days) ? createVNode("p", { children: ["Nothing matches the filter. ", createVNode("a", {
			href: "#/history",
			children: "Show all requests"
		})] }) : createVNode("p", { children: "Nothing was asked yet. What agents ask, and how it was answered, stays here." })
	})] });
}
function Row$2({ approval }) {
	const isWaiting = approval.status === "pending";
	const { tone, title, detail } = outcome(approval);
	const { grant, resolvedAtMs, justification, approvalsRequired, votes = [] } = approval;
	return createVNode("li", {
		class: "run",
		"data-approval": approval.id,
		children: createVNode("details", { children: [createVNode("summary", {
			class: "run-head",
			children: [
				createVNode("span", {
					class: `badge ${isWaiting ? "wait" : tone}`,
					children: isWaiting ? "Waiting" : visible(title)
				}),
				createVNode("code", {
					class: "run-command",
					dir: "ltr",
					children: brief(lineOf(approval), 160)
				}),
				createVNode("span", {
					class: "run-meta",
					children: [
						createVNode("bdi", { children: visible(approval.agentId) }),
						" · ",
						createVNode(Time, { ms: approval.createdAtMs }),
						!isWaiting && detail && ` · ${brief(detail, 120)}`
					]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			children: [createVNode("dl", {
				class: "facts",
				children: [
					createVNode(Fact, {
						name: "Where",
						children: [
							createVNode(Mono, { text: placeOf(approval) }),
							" in ",
							createVNode(Mono, { text: approval.cwd })
						]
					}),
					resolvedAtMs !== void 0 && createVNode(Fact, {
						name: "Answered",
						children: createVNode(Time, { ms: resolvedAtMs })
					}),
					approval.reason && createVNode(Fact, {
						name: "Reason",
						children: createVNode("bdi", { children: visible(approval.reason) })
					}),
					grant && createVNode(Fact, {
						name: "Remembered",
						children: createVNode("bdi", { children: visible(grant.words) })
					}),
					approvalsRequired > 1 && createVNode(Fact, {
						name: "People",
						children: `${votes.length} of ${approvalsRequired}`
					}),
					justification && createVNode(Fact, {
						name: "The agent says",
						children: visible(`“${justification}”`)
					}),
					createVNode(Fact, {
						name: "Session",
						children: createVNode(Mono, { text: approval.sessionKey })
					})
				]
			}), createVNode("p", { children: createVNode("a", {
				href: `/a/${approval.id}`,
				children: "The complete request and its run"
			}) })]
		})] })
	});
}
// src/pure/pairing.ts
var COMMANDS = {
	"system.run": "runs programs on that machine",
	"system.run.prepare": "tells in advance what a command would run",
	"system.which": "tells where programs are installed",
	"system.notify": "shows a notification",
	"system.execApprovals.get": "shows that machine's own policy",
	"system.execApprovals.set": "changes that machine's own policy"
};
var command = (name) => Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : void 0;
function pairing({ kind, isRepair }) {
	const sent = "Policy still decides about each command.";
	if (kind === "commands") return {
		verb: "offers more commands",
		sentence: "This machine is connected and offers more commands than were approved.",
		consequence: `If you approve, it may be sent every command listed here. ${sent}`
	};
	if (isRepair) return {
		verb: "wants to connect again",
		sentence: "A machine with this identity was paired before and asks again, for example because its token was revoked.",
		consequence: `Approve only if you know why. If you approve, it may connect and be sent the commands listed here. ${sent}`
	};
	return {
		verb: "wants to connect",
		sentence: "An unknown machine asks to become a node. Compare its device id with the one shown on that machine: anyone can choose a name.",
		consequence: `If you approve, it may stay connected and be sent the commands listed here. ${sent}`
	};
}
// src/view/nodes.tsx
var MOST_SHOWN = 500;
var NAME_LENGTH$1 = 60;
var PAUSE_MS = 300;
var nodes = new State(void 0);
var pairings = new State([]);
var refreshNodes = looker(async () => {
	const [known, asking] = await Promise.all([everything("/v1/nodes", MOST_SHOWN), may("admin") ? everything("/v1/nodes/pairings", MOST_SHOWN) : { items: [] }]);
	nodes.set(known.items);
	pairings.change((before) => {
		const now = new Map(asking.items.map((request) => [request.requestId, request]));
		return [...before.filter(({ requestId }) => now.delete(requestId)), ...now.values()];
	});
}, PAUSE_MS);
function Nodes() {
	const hint = useValue(hints.nodes) + useValue(hints.all);
	useEffect(() => refreshNodes(), [hint]);
	return createVNode(Fragment, { children: [createVNode(Pairings, {}), createVNode(NodeList, {})] });
}
function Pairings() {
	const all = useValue(pairings);
	const list = useRef(null);
	const guard = useRef(void 0);
	useLayoutEffect(() => {
		if (!list.current) return void 0;
		guard.current = watch(list.current);
		return () => guard.current?.stop();
	}, []);
	useLayoutEffect(() => guard.current?.look());
	return createVNode("section", {
		id: "pairings",
		"aria-labelledby": "pairings-title",
		hidden: all.length === 0,
		children: [createVNode("div", {
			class: "section-head",
			children: createVNode("h2", {
				id: "pairings-title",
				children: "Pairing requests"
			})
		}), createVNode("ol", {
			class: "cards",
			id: "pairings-list",
			ref: list,
			"aria-labelledby": "pairings-title",
			children: all.map((request) => createVNode(PairingCard, {
				request,
				guard: () => guard.current
			}, request.requestId))
		})]
	});
}
var Name = ({ of }) => createVNode("bdi", { children: of.displayName ? brief(of.displayName, NAME_LENGTH$1) : `${of.nodeId.slice(0, 12)}…` });
var grouped = (id) => visible(id).replace(/(.{8})(?=.)/g, "$1 ");
function PairingCard({ request, guard }) {
	const root = useRef(null);
	const [sent, setSent] = useState(void 0);
	const [problem, setProblem] = useState("");
	const { verb, sentence, consequence } = pairing(request);
	async function decide(decision) {
		if (sent || !root.current) return;
		if (!guard()?.isSteady(root.current)) return nudge(root.current);
		setSent(decision);
		setProblem("");
		try {
			await json("POST", `/v1/nodes/pairings/${encodeURIComponent(request.requestId)}/decision`, { body: { decision } });
			announce(decision === "approve" ? "The pairing is approved." : "The pairing is rejected.");
		} catch (error) {
			setSent(void 0);
			if (error instanceof Refused) setProblem(error.status === 404 ? "This request was decided elsewhere, or has ended." : error.message);
			else setProblem("Your answer did not arrive. Please answer again.");
		}
		refreshNodes();
	}
	const button = (decision, text, style) => createVNode("button", {
		type: "button",
		class: `act ${style}${sent === decision ? " busy" : ""}`,
		"data-decision": decision,
		"aria-disabled": sent !== void 0 ? true : void 0,
		onClick: () => void decide(decision),
		children: createVNode("span", {
			class: "act-text",
			children: text
		})
	});
	return createVNode("li", {
		class: "card pairing",
		ref: root,
		"data-request": request.requestId,
		"data-kind": request.kind,
		children: [
			createVNode("div", {
				class: "card-head",
				children: createVNode("h3", {
					class: "card-title",
					children: [
						createVNode(Name, { of: request }),
						" ",
						verb
					]
				})
			}),
			createVNode("p", {
				class: "why",
				children: [
					sentence,
					" ",
					consequence
				]
			}),
			mixedWords(request.displayName ?? "").length > 0 && createVNode("p", {
				class: "warn-line",
				children: "Its name mixes letters of different alphabets, which can look the same."
			}),
			request.commands.length > 0 && createVNode("ul", {
				class: "offered",
				children: request.commands.map((offered) => createVNode("li", { children: [
					createVNode("code", { children: brief(offered, NAME_LENGTH$1) }),
					" ",
					command(offered)
				] }, offered))
			}),
			createVNode("dl", {
				class: "facts",
				children: [
					createVNode(Fact, {
						name: "Device",
						children: createVNode("code", {
							class: "fingerprint",
							children: grouped(request.nodeId)
						})
					}),
					request.remoteIp && createVNode(Fact, {
						name: "Address",
						children: createVNode("code", { children: visible(request.remoteIp) })
					}),
					request.platform && createVNode(Fact, {
						name: "Platform",
						children: createVNode("bdi", { children: brief(request.platform, NAME_LENGTH$1) })
					}),
					createVNode(Fact, {
						name: "Asked",
						children: createVNode(Time, { ms: request.requestedAtMs })
					})
				]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				class: "answer",
				children: createVNode("div", {
					class: "actions two",
					children: [button("reject", "Reject", "deny"), button("approve", "Approve", "allow-once plain")]
				})
			})
		]
	});
}
function NodeList() {
	const all = useValue(nodes);
	if (!all) return createVNode("p", {
		class: "hint",
		children: "Loading …"
	});
	if (!all.length) return createVNode("div", {
		class: "blank",
		id: "nodes-none",
		children: createVNode("p", { children: [
			"No machine is a node yet. On a machine that should run commands, start ",
			createVNode("code", { children: "countersign node run" }),
			"; its request to pair appears here."
		] })
	});
	return createVNode("section", {
		id: "nodes",
		"aria-labelledby": "nodes-title",
		children: [createVNode("div", {
			class: "section-head",
			children: createVNode("h2", {
				id: "nodes-title",
				children: "Paired"
			})
		}), createVNode("ol", {
			class: "runs",
			id: "nodes-list",
			"aria-labelledby": "nodes-title",
			children: all.map((node) => createVNode(NodeRow, { node }, node.nodeId))
		})]
	});
}
function NodeRow({ node }) {
	const facts = [
		node.platform,
		node.version,
		node.remoteIp
	].filter(Boolean).map((text) => brief(text, 40));
	return createVNode("li", {
		class: "run node",
		"data-node": node.nodeId,
		children: createVNode("details", { children: [createVNode("summary", {
			class: "run-head",
			children: [
				createVNode("span", {
					class: `badge ${node.connected ? "good" : "dull"}`,
					children: node.connected ? "Connected" : "Offline"
				}),
				createVNode("span", {
					class: "run-command",
					children: createVNode(Name, { of: node })
				}),
				createVNode("span", {
					class: "run-meta",
					children: facts.join(" · ")
				})
			]
		}), createVNode("div", {
			class: "run-body",
			children: createVNode("dl", {
				class: "facts",
				children: [
					createVNode(Fact, {
						name: "Device",
						children: createVNode("code", {
							class: "fingerprint",
							children: grouped(node.nodeId)
						})
					}),
					node.lastSeenAtMs && createVNode(Fact, {
						name: "Last seen",
						children: createVNode(Time, { ms: node.lastSeenAtMs })
					}),
					createVNode(Fact, {
						name: "May be sent",
						children: node.commands.length ? node.commands.map((offered) => brief(offered, NAME_LENGTH$1)).join(", ") : "nothing yet"
					})
				]
			})
		})] })
	});
}
// src/view/confirm.tsx
function Confirm({ name, act, label, question, yes, run, done, changed }) {
	const [isAsked, setAsked] = useState(false);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const first = useRef(null);
	const wasAsked = useRef(false);
	useLayoutEffect(() => {
		if (isAsked || wasAsked.current) first.current?.focus();
		wasAsked.current = isAsked;
	}, [isAsked]);
	async function press() {
		if (isSending) return;
		setSending(true);
		setProblem("");
		try {
			await run();
			announce(done);
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.message : "No answer came. Look at the present state before you try again.");
		}
		setSending(false);
		setAsked(false);
		changed();
	}
	return createVNode("div", {
		class: "row-actions",
		children: [isAsked ? createVNode(Fragment, { children: [
			createVNode("span", {
				role: "status",
				children: question
			}),
			createVNode("button", {
				type: "button",
				ref: first,
				class: "quiet",
				onClick: () => setAsked(false),
				children: "Back"
			}),
			createVNode("button", {
				type: "button",
				class: "danger",
				"data-act": act,
				"aria-disabled": isSending,
				onClick: () => void press(),
				children: yes
			})
		] }) : createVNode("button", {
			type: "button",
			ref: first,
			class: "quiet danger-text",
			"data-act": `ask-${act}`,
			"aria-label": label,
			onClick: () => setAsked(true),
			children: name
		}), createVNode(Wrong, { text: problem })]
	});
}
// src/view/people.tsx
var NAME_LENGTH = 40;
var SCOPES = [
	["read", "read: see runs, policy and the log"],
	["approve", "approve: answer requests"],
	["admin", "admin: change policy, nodes and people"],
	["exec", "exec: run commands, for an agent"],
	["relay", "relay: pass on what people write in chats"]
];
function People() {
	const hint = useValue(hints.all);
	const browsers = usePaged("/v1/sign-ins?limit=100", ({ id }) => id, hint);
	const tokens = usePaged("/v1/tokens?limit=100", ({ id }) => id, hint);
	const changed = () => {
		browsers.refresh();
		tokens.refresh();
	};
	return createVNode(Fragment, { children: [
		createVNode("div", {
			class: "panels",
			children: [createVNode(Invite, { changed }), createVNode(Make, { changed })]
		}),
		createVNode("section", {
			"aria-labelledby": "browsers-title",
			children: [createVNode("div", {
				class: "section-head",
				children: createVNode("h2", {
					id: "browsers-title",
					children: "Signed in"
				})
			}), createVNode(Listing, {
				id: "browsers",
				title: "Browsers that are signed in",
				list: browsers,
				none: createVNode("p", { children: "No browser is signed in." }),
				row: (browser) => createVNode(BrowserRow, {
					browser,
					changed
				}, browser.id)
			})]
		}),
		createVNode("section", {
			"aria-labelledby": "tokens-title",
			children: [createVNode("div", {
				class: "section-head",
				children: createVNode("h2", {
					id: "tokens-title",
					children: "Tokens"
				})
			}), createVNode(Listing, {
				id: "tokens",
				title: "Tokens",
				list: tokens,
				none: createVNode("p", { children: "There are no tokens." }),
				row: (token) => createVNode(TokenRow, {
					token,
					changed
				}, token.id)
			})]
		})
	] });
}
function BrowserRow({ browser: { id, name, owner, scopes, createdAtMs, expiresAtMs }, changed }) {
	return createVNode("li", {
		class: "run person",
		"data-browser": id,
		children: [createVNode("div", {
			class: "person-what",
			children: [createVNode("p", { children: [
				createVNode("strong", { children: createVNode("bdi", { children: brief(name, NAME_LENGTH) }) }),
				" ",
				createVNode("span", {
					class: "width",
					children: `of ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`
				})
			] }), createVNode("p", {
				class: "rule-more",
				children: [
					"Since ",
					createVNode(Time, { ms: createdAtMs }),
					", until ",
					createVNode(Time, { ms: expiresAtMs })
				]
			})]
		}), createVNode(Confirm, {
			name: "Sign out",
			act: "sign-out-browser",
			label: `Sign out ${brief(name, NAME_LENGTH)}`,
			question: "Sign this browser out?",
			yes: "Sign it out",
			done: "The browser is signed out.",
			changed,
			run: async () => void await send("DELETE", `/v1/sign-ins/${encodeURIComponent(id)}`)
		})]
	});
}
function TokenRow({ token: { id, name, owner, scopes, agents, groups, createdAtMs, expiresAtMs, lastUsedAtMs, revokedAtMs, proposedBy }, changed }) {
	const isOver = revokedAtMs !== void 0;
	return createVNode("li", {
		class: "run person",
		"data-token": id,
		children: [
			createVNode("div", {
				class: "person-what",
				children: [createVNode("p", { children: [
					createVNode("strong", { children: createVNode("bdi", { children: brief(name, NAME_LENGTH) }) }),
					" ",
					createVNode("span", {
						class: "width",
						children: `of ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`
					}),
					isOver && createVNode("span", {
						class: "chip bad",
						children: "revoked"
					}),
					proposedBy && createVNode("span", {
						class: "chip warn",
						children: "waits for an admin of another owner"
					})
				] }), createVNode("dl", {
					class: "facts",
					children: [
						agents && createVNode(Fact, {
							name: "Only for",
							children: createVNode("bdi", { children: visible(agents.join(", ")) })
						}),
						groups && groups.length > 0 && createVNode(Fact, {
							name: "Groups",
							children: createVNode("bdi", { children: visible(groups.join(", ")) })
						}),
						createVNode(Fact, {
							name: "Made",
							children: createVNode(Time, { ms: createdAtMs })
						}),
						createVNode(Fact, {
							name: "Last used",
							children: lastUsedAtMs === void 0 ? "never" : createVNode(Time, { ms: lastUsedAtMs })
						}),
						isOver && createVNode(Fact, {
							name: "Revoked",
							children: createVNode(Time, { ms: revokedAtMs })
						}),
						!isOver && createVNode(Fact, {
							name: "Ends",
							children: expiresAtMs === void 0 ? "never" : createVNode(Time, { ms: expiresAtMs })
						}),
						proposedBy && createVNode(Fact, {
							name: "Proposed by",
							children: createVNode("bdi", { children: visible(proposedBy.name) })
						}),
						createVNode(Fact, {
							name: "Id",
							children: createVNode(Mono, { text: id })
						})
					]
				})]
			}),
			proposedBy && !isOver && createVNode(Confirm, {
				name: "Accept",
				act: "accept-token",
				label: `Accept ${brief(name, NAME_LENGTH)}`,
				question: "Let this token open what it is for?",
				yes: "Accept it",
				done: "The token is accepted.",
				changed,
				run: () => json("POST", `/v1/tokens/${encodeURIComponent(id)}/accept`, { body: {} })
			}),
			!isOver && createVNode(Confirm, {
				name: "Revoke",
				act: "revoke-token",
				label: `Revoke ${brief(name, NAME_LENGTH)}`,
				question: "Revoke it? All that use it are cut off at once, for good.",
				yes: "Revoke it",
				done: "The token is revoked.",
				changed,
				run: async () => void await send("DELETE", `/v1/tokens/${encodeURIComponent(id)}`)
			})
		]
	});
}
function Form({ id, title, hint, go, scopes, chosen, make, shown, changed }) {
	const [name, setName] = useState("");
	const [ticked, setTicked] = useState(new Set(chosen));
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const [made, setMade] = useState(void 0);
	const result = useRef(null);
	const isReady = name.trim() !== "" && ticked.size > 0 && !isSending;
	async function press() {
		if (!isReady) return;
		setSending(true);
		setProblem("");
		try {
			setMade(await make(name.trim(), [...ticked]));
			setName("");
			announce("It is made. It is shown once.");
			queueMicrotask(() => result.current?.focus());
		} catch (error) {
			setProblem(error instanceof Refused ? error.message : "No answer came. Look at the list before you try again.");
		}
		setSending(false);
		changed();
	}
	return createVNode("form", {
		class: "panel",
		id,
		noValidate: true,
		"aria-labelledby": `${id}-title`,
		onSubmit: (event) => {
			event.preventDefault();
			press();
		},
		children: [
			createVNode("h2", {
				id: `${id}-title`,
				children: title
			}),
			createVNode("p", {
				class: "hint",
				children: hint
			}),
			createVNode("div", {
				class: "fields",
				children: [createVNode("div", {
					class: "field",
					children: [createVNode("label", {
						for: `${id}-name`,
						children: "Name, as the record has it"
					}), createVNode("input", {
						id: `${id}-name`,
						type: "text",
						maxLength: 100,
						autocomplete: "off",
						value: name,
						onInput: (event) => setName(event.currentTarget.value)
					})]
				}), createVNode("fieldset", {
					class: "scopes",
					children: [createVNode("legend", { children: "May" }), scopes.map(([scope, words]) => createVNode("label", {
						class: "check",
						children: [createVNode("input", {
							type: "checkbox",
							value: scope,
							checked: ticked.has(scope),
							onChange: () => setTicked((now) => new Set(now.has(scope) ? [...now].filter((other) => other !== scope) : [...now, scope]))
						}), createVNode("span", { children: words })]
					}, scope))]
				})]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("p", {
				class: "panel-end",
				children: createVNode("button", {
					type: "submit",
					class: isSending ? "primary busy" : "primary",
					"aria-disabled": !isReady,
					children: createVNode("span", {
						class: "act-text",
						children: go
					})
				})
			}),
			made !== void 0 && createVNode("div", {
				class: "made",
				ref: result,
				tabIndex: -1,
				role: "group",
				"aria-label": "Shown once",
				children: [shown(made), createVNode("button", {
					type: "button",
					class: "quiet",
					onClick: () => setMade(void 0),
					children: "Hide it"
				})]
			})
		]
	});
}
function Invite({ changed }) {
	return createVNode(Form, {
		id: "invite",
		title: "Sign a person in",
		hint: "Makes a link that signs one browser in, once, under this name.",
		go: "Make the link",
		changed,
		scopes: SCOPES.filter(([scope]) => scope !== "exec" && scope !== "relay"),
		chosen: ["read", "approve"],
		make: (name, scopes) => json("POST", "/v1/login-links", { body: {
			name,
			scopes
		} }),
		shown: ({ url, expiresAtMs, token }) => createVNode(Fragment, { children: [
			createVNode("p", { children: [
				"Give this link to the person, and to nobody else. It is valid for one sign-in until ",
				createVNode(Time, { ms: expiresAtMs }),
				"."
			] }),
			createVNode("code", {
				class: "line",
				children: visible(url)
			}),
			token?.proposedBy && createVNode("p", {
				class: "warn-line",
				children: "It opens nothing until an admin of another owner accepts the token."
			})
		] })
	});
}
function Make({ changed }) {
	return createVNode(Form, {
		id: "make-token",
		title: "Make a token",
		hint: "For a program. A token that asks can never answer: exec stands alone, or with read.",
		go: "Make the token",
		changed,
		scopes: SCOPES,
		chosen: ["exec"],
		make: (name, scopes) => json("POST", "/v1/tokens", { body: {
			name,
			scopes
		} }),
		shown: ({ secret, proposedBy }) => createVNode(Fragment, { children: [
			createVNode("p", { children: "This secret is shown once. Put it where the program reads it." }),
			createVNode("code", {
				class: "line",
				children: visible(secret)
			}),
			proposedBy && createVNode("p", {
				class: "warn-line",
				children: "It opens nothing until an admin of another owner accepts it."
			})
		] })
	});
}
// src/view/cancel.tsx
function Cancel({ run: { runId }, changed }) {
	return createVNode(Confirm, {
		name: "End the run…",
		act: "cancel-run",
		question: "End this run and everything that it started?",
		yes: "End it",
		done: "The run is ended.",
		changed,
		run: () => json("POST", `/v1/runs/${runId}/cancel`, { body: {} })
	});
}
// src/view/live-output.tsx
function LiveOutput({ runId, ended }) {
	const [text, setText] = useState("");
	const [state, setState] = useState("Waiting for output …");
	const box = useRef(null);
	const isAtEnd = useRef(true);
	useEffect(() => {
		const line = new AbortController();
		async function follow() {
			const response = await send("GET", `/v1/runs/${runId}/output?follow=1`, {
				headers: { Accept: "text/plain" },
				signal: line.signal
			});
			if (!response.body) return;
			const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
			for (;;) {
				const { done, value } = await reader.read();
				if (done) break;
				setState("Live");
				setText((before) => (before + visibleOutput(value)).slice(-2e5));
			}
			ended();
		}
		follow().catch((error) => {
			if (line.signal.aborted) return;
			setState(error instanceof Refused ? error.sentence : "The output broke off. Close and open the run to see it again.");
		});
		return () => line.abort();
	}, [runId]);
	useLayoutEffect(() => {
		if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
	}, [text]);
	return createVNode("div", {
		class: "run-output",
		children: [text && createVNode("pre", {
			class: "output",
			ref: box,
			tabIndex: 0,
			role: "group",
			"aria-label": "Output",
			onScroll: ({ currentTarget }) => {
				isAtEnd.current = currentTarget.scrollTop + currentTarget.clientHeight >= currentTarget.scrollHeight - 8;
			},
			children: text
		}), createVNode("p", {
			class: "hint",
			role: "status",
			children: state
		})]
	});
}
// src/view/runs.tsx
var STATES$1 = [
	"running",
	"completed",
	"failed",
	"denied",
	"cancelled",
	"lost",
	"queued",
	"approval-pending"
];
function Runs() {
	const fields = [
		{
			key: "agent",
			title: "Agent",
			choices: useAgents()
		},
		{
			key: "status",
			title: "State",
			choices: [["", "Any state"], ...STATES$1.map((state) => [state, runStatus(state).label])]
		},
		{
			key: "q",
			title: "Text of the command",
			hint: "git push"
		}
	];
	const { agent, status, q } = useFilter(fields);
	const hint = useValue(hints.runs) + useValue(hints.all);
	const list = usePaged(`/v1/runs?${query({
		limit: "50",
		agentId: agent,
		status,
		q
	})}`, ({ runId }) => runId, hint);
	return createVNode(Fragment, { children: [createVNode(Filter, {
		view: "runs",
		fields
	}), createVNode(Listing, {
		id: "runs",
		title: "Runs",
		list,
		row: (run) => createVNode(Row$1, {
			run,
			changed: list.refresh
		}, run.runId),
		none: Boolean(agent || status || q) ? createVNode("p", { children: ["No run matches the filter. ", createVNode("a", {
			href: "#/runs",
			children: "Show all runs"
		})] }) : createVNode("p", { children: [
			"Nothing has run yet. What an agent asks for appears here; try it with ",
			createVNode("code", { children: "countersign exec -- date" }),
			"."
		] })
	})] });
}
function Row$1({ run, changed }) {
	const [isOpen, setOpen] = useState(false);
	const { label, tone } = runStatus(run.status);
	const isLive = run.status === "running";
	return createVNode("li", {
		class: "run",
		"data-run": run.runId,
		children: [createVNode("button", {
			type: "button",
			class: "run-head",
			"aria-expanded": isOpen,
			"aria-controls": `run-${run.runId}`,
			onClick: () => setOpen(!isOpen),
			children: [
				createVNode("span", {
					class: `badge ${tone}`,
					children: label
				}),
				createVNode("code", {
					class: "run-command",
					dir: "ltr",
					children: brief(run.displayText, 160)
				}),
				createVNode("span", {
					class: "run-meta",
					children: [
						runMeta(run),
						" · ",
						createVNode(Time, { ms: run.createdAtMs })
					]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			id: `run-${run.runId}`,
			hidden: !isOpen,
			children: isOpen && createVNode(Fragment, { children: [
				createVNode(RunFacts, { run }),
				isLive && may("admin") && createVNode(Cancel, {
					run,
					changed
				}),
				isLive ? createVNode(LiveOutput, {
					runId: run.runId,
					ended: changed
				}) : run.startedAtMs !== void 0 && (run.outputBytes > 0 ? createVNode(Output, { run }, run.status) : createVNode("p", {
					class: "hint",
					children: "No output."
				}))
			] })
		})]
	});
}
function runMeta(run) {
	const facts = [visible(run.agentId)];
	if (run.exitCode !== void 0) facts.push(`exit ${run.exitCode}`);
	if (run.exitSignal) facts.push(visible(run.exitSignal));
	if (run.durationMs !== void 0) facts.push(duration(run.durationMs));
	if (run.outputBytes) facts.push(byteSize(run.outputBytes));
	if (run.reason && run.status !== "completed") facts.push(visible(run.reason));
	return facts.join(" · ");
}
var BY = {
	policy: "policy",
	person: "a person",
	fallback: "the rule for questions that nobody answers"
};
var VERDICTS = {
	run: "Allowed",
	ask: "Asked about",
	deny: "Denied"
};
function RunFacts({ run }) {
	const { decision } = run;
	return createVNode("dl", {
		class: "facts",
		children: [
			decision && createVNode(Fact, {
				name: "Why",
				children: [`${VERDICTS[decision.verdict] ?? decision.verdict} by ${BY[decision.by] ?? decision.by}`, run.approvalId && createVNode(Fragment, { children: [": ", createVNode("a", {
					href: `/a/${run.approvalId}`,
					children: "the request and its answer"
				})] })]
			}),
			run.reason && createVNode(Fact, {
				name: "Reason",
				children: [createVNode("code", { children: visible(run.reason) }), run.detail && createVNode(Fragment, { children: [" ", createVNode("bdi", { children: visible(run.detail) })] })]
			}),
			createVNode(Fact, {
				name: "Policy",
				children: `security ${run.security}, ask ${run.ask}`
			}),
			createVNode(Fact, {
				name: "Where",
				children: [
					createVNode(Mono, { text: run.nodeId ? `${run.host} ${run.nodeId}` : run.host }),
					" in ",
					createVNode(Mono, { text: run.cwd })
				]
			}),
			createVNode(Fact, {
				name: "Trust level",
				children: visible(run.isolation)
			}),
			run.binding && createVNode(Fact, {
				name: "Guaranteed unchanged",
				children: visible(run.binding)
			}),
			run.start && createVNode(Fact, {
				name: "Started",
				children: run.start === "direct" ? "without the shell, which would only have found the program" : "by the shell"
			}),
			run.scripts && createVNode(Fact, {
				name: "Scripts",
				children: visible(run.scripts)
			}),
			run.confined && createVNode(Fact, {
				name: "Confined",
				children: visible(run.confined)
			}),
			run.observed?.line && createVNode(Fact, {
				name: "Observed",
				children: visible(run.observed.line)
			}),
			run.envNames.length > 0 && createVNode(Fact, {
				name: "Variables",
				children: run.envNames.map((name) => visible(name)).join(", ")
			}),
			run.justification && createVNode(Fact, {
				name: "The agent says",
				children: visible(`“${run.justification}”`)
			}),
			run.contextUrl && createVNode(Fact, {
				name: "To read more",
				children: visible(run.contextUrl)
			}),
			createVNode(Fact, {
				name: "Session",
				children: createVNode(Mono, { text: run.sessionKey })
			}),
			createVNode(Fact, {
				name: "Run",
				children: createVNode("code", { children: visible(run.runId) })
			})
		]
	});
}
// src/view/sessions.tsx
var STATES = [
	"running",
	"completed",
	"failed",
	"cancelled",
	"lost"
];
function Sessions() {
	const fields = [{
		key: "agent",
		title: "Agent",
		choices: useAgents()
	}, {
		key: "status",
		title: "State",
		choices: [["", "Any state"], ...STATES.map((state) => [state, runStatus(state).label])]
	}];
	const { agent, status } = useFilter(fields);
	const hint = useValue(hints.runs) + useValue(hints.all);
	const list = usePaged(`/v1/process?${query({
		limit: "50",
		agentId: agent,
		status
	})}`, ({ sessionId }) => sessionId, hint);
	return createVNode(Fragment, { children: [createVNode(Filter, {
		view: "sessions",
		fields
	}), createVNode(Listing, {
		id: "sessions",
		title: "Process sessions",
		list,
		row: (session) => createVNode(Row, {
			session,
			changed: list.refresh
		}, session.sessionId),
		none: agent || status ? createVNode("p", { children: ["No session matches the filter. ", createVNode("a", {
			href: "#/sessions",
			children: "Show all sessions"
		})] }) : createVNode("p", { children: [
			"Nothing runs in the background. A command that an agent starts with ",
			createVNode("code", { children: "background" }),
			", or that outlives its call, appears here."
		] })
	})] });
}
function Row({ session, changed }) {
	const [isOpen, setOpen] = useState(false);
	const { label, tone } = runStatus(session.status);
	const isLive = session.status === "running";
	const facts = [
		visible(session.agentId),
		duration(session.durationMs),
		byteSize(session.outputBytes)
	];
	if (session.exitCode !== void 0) facts.push(`exit ${session.exitCode}`);
	if (session.exitSignal) facts.push(visible(session.exitSignal));
	return createVNode("li", {
		class: "run",
		"data-session": session.sessionId,
		children: [createVNode("button", {
			type: "button",
			class: "run-head",
			"aria-expanded": isOpen,
			"aria-controls": `session-${session.sessionId}`,
			onClick: () => setOpen(!isOpen),
			children: [
				createVNode("span", {
					class: `badge ${tone}`,
					children: label
				}),
				createVNode("code", {
					class: "run-command",
					dir: "ltr",
					children: brief(session.command, 160)
				}),
				createVNode("span", {
					class: "run-meta",
					children: [facts.join(" · "), session.waitingForInput && createVNode("span", {
						class: "chip warn",
						children: "waits for input"
					})]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			id: `session-${session.sessionId}`,
			hidden: !isOpen,
			children: isOpen && createVNode(Fragment, { children: [
				createVNode("dl", {
					class: "facts",
					children: [
						createVNode(Fact, {
							name: "Name",
							children: createVNode("bdi", { children: visible(session.name) })
						}),
						createVNode(Fact, {
							name: "Where",
							children: [
								createVNode(Mono, { text: session.host }),
								" in ",
								createVNode(Mono, { text: session.cwd })
							]
						}),
						createVNode(Fact, {
							name: "Started",
							children: createVNode(Time, { ms: session.startedAtMs })
						}),
						session.pid !== void 0 && createVNode(Fact, {
							name: "Process",
							children: String(session.pid)
						}),
						createVNode(Fact, {
							name: "Input",
							children: session.stdinOpen ? "open: the agent can write to it" : "closed"
						}),
						session.pty && createVNode(Fact, {
							name: "Terminal",
							children: `${session.cols ?? "?"} × ${session.rows ?? "?"}`
						}),
						createVNode(Fact, {
							name: "Session",
							children: createVNode(Mono, { text: session.sessionKey })
						})
					]
				}),
				isLive && may("admin") && createVNode(Cancel, {
					run: session,
					changed
				}),
				isLive ? createVNode(LiveOutput, {
					runId: session.runId,
					ended: changed
				}) : createVNode("div", {
					class: "run-output",
					children: session.tail ? createVNode("pre", {
						class: "output",
						tabIndex: 0,
						role: "group",
						"aria-label": "The last output",
						children: visibleOutput(session.tail)
					}) : createVNode("p", {
						class: "hint",
						children: "No output."
					})
				})
			] })
		})]
	});
}
export { Audit, Health, History, Nodes, People, Runs, Sessions };
