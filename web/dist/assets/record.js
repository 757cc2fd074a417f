import { A as pairing, B as useValue, C as failed, D as areAlike, E as may, F as mixedWords, G as useEffect, H as everything, I as visible, J as useState, K as useLayoutEffect, L as visibleOutput, M as brief, N as byteSize, O as factsOf, P as duration, R as announce, S as online, T as looker, U as json, V as Refused, W as send, Y as Fragment, _ as closeCard, a as Fact, b as isRead, c as Wrong, d as watch, f as isHelp, g as chosen, h as chooseNone, i as mustOpen, j as runStatus, k as command, l as createVNode, m as setOn, n as Variables, o as Mono, p as isOn, q as useRef, r as CommandBlock, s as Time, t as FactChips, u as nudge, v as decideAll, x as model, y as drawn, z as State } from "./app.js";
// src/view/nodes.tsx
var MOST_SHOWN = 500;
var NAME_LENGTH = 60;
var PAUSE_MS$1 = 300;
var nodes = new State([]);
var pairings = new State([]);
var refreshNodes = looker(async () => {
	const [known, asking] = await Promise.all([everything("/v1/nodes", MOST_SHOWN), may("admin") ? everything("/v1/nodes/pairings", MOST_SHOWN) : { items: [] }]);
	nodes.set(known.items);
	pairings.change((before) => {
		const now = new Map(asking.items.map((request) => [request.requestId, request]));
		return [...before.filter(({ requestId }) => now.delete(requestId)), ...now.values()];
	});
}, PAUSE_MS$1);
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
var Name = ({ of }) => createVNode("bdi", { children: of.displayName ? brief(of.displayName, NAME_LENGTH) : `${of.nodeId.slice(0, 12)}…` });
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
					createVNode("code", { children: brief(offered, NAME_LENGTH) }),
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
						children: createVNode("bdi", { children: brief(request.platform, NAME_LENGTH) })
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
function Nodes() {
	const all = useValue(nodes);
	return createVNode("section", {
		id: "nodes",
		"aria-labelledby": "nodes-title",
		hidden: all.length === 0,
		children: [createVNode("div", {
			class: "section-head",
			children: createVNode("h2", {
				id: "nodes-title",
				children: "Nodes"
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
						children: node.commands.length ? node.commands.map((offered) => brief(offered, NAME_LENGTH)).join(", ") : "nothing yet"
					})
				]
			})
		})] })
	});
}
// src/view/output.tsx
var PIECE_BYTES = 65536;
function Output({ run }) {
	const [text, setText] = useState("");
	const [state, setState] = useState("Loading the output …");
	const [hasMore, setMore] = useState(false);
	const read = useRef({
		offset: 0,
		decoder: new TextDecoder(),
		isOver: false
	});
	async function load() {
		setMore(false);
		const { current } = read;
		const { offset } = current;
		try {
			const response = await send("GET", `/v1/runs/${run.runId}/output`, { headers: {
				Range: `bytes=${offset}-${offset + PIECE_BYTES - 1}`,
				Accept: "*/*"
			} });
			const bytes = new Uint8Array(await response.arrayBuffer());
			if (current.isOver) return;
			const total = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
			current.offset += bytes.length;
			const piece = visibleOutput(current.decoder.decode(bytes, { stream: current.offset < total }));
			setText((before) => before + piece);
			setMore(current.offset < total);
			setState(!total ? "No output." : current.offset < total ? `${byteSize(current.offset)} of ${byteSize(total)}` : byteSize(total));
		} catch (error) {
			if (current.isOver) return;
			const isEmpty = error instanceof Refused && error.status === 416;
			setState(isEmpty ? "No output." : error instanceof Refused ? error.sentence : "The output could not be loaded.");
			setMore(!isEmpty);
		}
	}
	useEffect(() => {
		load();
		return () => {
			read.current.isOver = true;
		};
	}, []);
	return createVNode("div", {
		class: "run-output",
		children: [
			text && createVNode("pre", {
				class: "output",
				tabIndex: 0,
				role: "group",
				"aria-label": "Output",
				children: text
			}),
			createVNode("p", {
				class: "hint",
				role: "status",
				children: state
			}),
			hasMore && createVNode("button", {
				type: "button",
				class: "more",
				onClick: () => void load(),
				children: "Show more output"
			})
		]
	});
}
// src/view/runs.tsx
var PAGE = 50;
var SHOWN_FIRST = 15;
var MOST_KEPT = 500;
var PAUSE_MS = 1e3;
var runs = new Map();
var shown = new State(void 0);
var cursor;
var limit = SHOWN_FIRST;
var lookedAt = 0;
var refreshRuns = looker(async () => {
	if (document.hidden) return;
	lookedAt = performance.now();
	const page = await json("GET", `/v1/runs?limit=${PAGE}`);
	if (cursor === void 0) cursor = page.nextCursor ?? null;
	take(page.items);
	for (let tries = 0; tries < 3 && runs.size < SHOWN_FIRST && cursor; tries += 1) await next();
	show();
}, () => Math.max(100, lookedAt + PAUSE_MS - performance.now()));
async function older() {
	limit += SHOWN_FIRST;
	for (let tries = 0; tries < 5 && runs.size < limit && cursor; tries += 1) await next();
	show();
}
async function next() {
	const page = await json("GET", `/v1/runs?limit=${PAGE}&cursor=${encodeURIComponent(cursor ?? "")}`);
	cursor = page.nextCursor ?? null;
	take(page.items);
}
function take(some) {
	for (const run of some) if (run.status !== "approval-pending") runs.set(run.runId, run);
}
function show() {
	const sorted = [...runs.values()].sort((a, b) => b.createdAtMs - a.createdAtMs);
	for (const { runId } of sorted.slice(limit + MOST_KEPT)) {
		runs.delete(runId);
		cursor = void 0;
	}
	shown.set({
		runs: sorted.slice(0, limit),
		hasMore: sorted.length > limit || Boolean(cursor)
	});
}
function Runs() {
	const now = useValue(shown);
	return createVNode("section", {
		id: "recent",
		"aria-labelledby": "recent-title",
		children: [
			createVNode("div", {
				class: "section-head",
				children: createVNode("h2", {
					id: "recent-title",
					children: "Recent runs"
				})
			}),
			createVNode("ol", {
				class: "runs",
				id: "runs",
				"aria-labelledby": "recent-title",
				children: [now && !now.runs.length && createVNode("li", {
					class: "blank",
					children: "Nothing has run yet."
				}), now?.runs.map((run) => createVNode(Row, { run }, run.runId))]
			}),
			now?.hasMore && createVNode("button", {
				type: "button",
				class: "more",
				id: "runs-more",
				onClick: () => older().catch(failed),
				children: "Show older runs"
			})
		]
	});
}
function Row({ run }) {
	const [isOpen, setOpen] = useState(false);
	const { label, tone } = runStatus(run.status);
	const at = new Date(run.createdAtMs);
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
						createVNode("time", {
							dateTime: at.toISOString(),
							title: at.toLocaleString(),
							children: at.toLocaleTimeString([], {
								hour: "2-digit",
								minute: "2-digit"
							})
						})
					]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			id: `run-${run.runId}`,
			hidden: !isOpen,
			children: isOpen && createVNode(Fragment, { children: [createVNode(RunFacts, { run }), createVNode(Output, { run }, run.status)] })
		})]
	});
}
function runMeta(run) {
	const facts = [visible(run.agentId)];
	if (run.exitCode !== void 0) facts.push(`exit ${run.exitCode}`);
	if (run.exitSignal) facts.push(visible(run.exitSignal));
	if (run.durationMs !== void 0) facts.push(duration(run.durationMs));
	if (run.reason && run.status !== "completed") facts.push(visible(run.reason));
	return facts.join(" · ");
}
function RunFacts({ run }) {
	return createVNode("dl", {
		class: "facts",
		children: [
			createVNode(Fact, {
				name: "Directory",
				children: createVNode(Mono, { text: run.cwd })
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
			run.justification && createVNode(Fact, {
				name: "The agent says",
				children: visible(`“${run.justification}”`)
			}),
			run.contextUrl && createVNode(Fact, {
				name: "To read more",
				children: visible(run.contextUrl)
			}),
			run.decision && createVNode(Fact, {
				name: "Decided by",
				children: visible(run.decision.by)
			}),
			run.approvalId && createVNode(Fact, {
				name: "Request",
				children: createVNode("a", {
					href: `/a/${run.approvalId}`,
					children: run.approvalId.slice(0, 8)
				})
			})
		]
	});
}
function useRunsInSight() {
	useEffect(() => {
		const seen = () => {
			if (!document.hidden) refreshRuns();
		};
		document.addEventListener("visibilitychange", seen);
		return () => document.removeEventListener("visibilitychange", seen);
	}, []);
}
// src/view/batch.tsx
function Batch({ guard }) {
	useValue(drawn);
	const ids = useValue(chosen);
	const isOnline = useValue(online);
	const [reason, setReason] = useState("");
	const root = useRef(null);
	const all = [...ids].flatMap((id) => model.entries.get(id)?.approval ?? []);
	const [first] = all;
	useEffect(() => {
		if (root.current) guard()?.unsettle(root.current);
	}, [ids]);
	if (!first) return null;
	const unread = all.filter((approval) => mustOpen(approval) && !isRead(approval.id)).length;
	const closed = all.filter(({ allowedDecisions }) => !allowedDecisions.includes("allow-once")).length;
	const whyNot = !isOnline ? "Offline. You can answer once the server is back." : unread ? `Show all of ${unread === 1 ? "one command" : `${unread} commands`} before you allow them.` : closed ? `${closed === 1 ? "One of them" : `${closed} of them`} cannot be allowed.` : "";
	function press(decision) {
		if (!isOnline || decision === "allow-once" && whyNot) return;
		if (!root.current) return;
		if (!guard()?.isSteady(root.current)) return nudge(root.current);
		decideAll(decision, decision === "deny" ? reason.trim() : "");
	}
	return createVNode("div", {
		class: "card-item",
		ref: root,
		"data-id": "chosen",
		children: createVNode("article", {
			class: "card",
			tabIndex: -1,
			"aria-labelledby": "chosen-title",
			children: [
				createVNode("header", {
					class: "card-head",
					children: [
						createVNode("button", {
							type: "button",
							class: "quiet card-back",
							onClick: closeCard,
							children: "‹ List"
						}),
						createVNode("h2", {
							class: "card-title",
							id: "chosen-title",
							children: `One answer to ${all.length} ${all.length === 1 ? "request" : "requests"}`
						}),
						createVNode("button", {
							type: "button",
							class: "quiet",
							onClick: chooseNone,
							children: "Choose none"
						})
					]
				}),
				createVNode("div", {
					class: "card-body",
					children: [!all.every((approval) => areAlike(approval, first)) && createVNode("p", {
						class: "warn-line",
						children: "They are of different agents, run different programs or set different variables."
					}), createVNode("ol", {
						class: "batch",
						"aria-label": "The chosen requests",
						children: all.map((approval) => createVNode("li", { children: [
							createVNode("p", {
								class: "batch-of",
								children: [
									createVNode("bdi", { children: visible(approval.agentId) }),
									" on ",
									createVNode("bdi", { children: visible(approval.host) }),
									" in ",
									createVNode("code", {
										dir: "ltr",
										children: visible(approval.cwd)
									})
								]
							}),
							createVNode(CommandBlock, { approval }),
							approval.envNames.length > 0 && createVNode("dl", {
								class: "facts",
								children: createVNode(Variables, { approval })
							}),
							createVNode(FactChips, { facts: factsOf(approval, {
								overrides: void 0,
								runsBefore: void 0
							}) })
						] }, approval.id))
					})]
				}),
				createVNode("div", {
					class: "card-foot",
					children: createVNode("div", {
						class: "answer",
						children: [
							createVNode("div", {
								class: "note",
								children: [createVNode("label", {
									for: "reason-chosen",
									children: "Why you deny them: the agent sees this (optional)"
								}), createVNode("input", {
									id: "reason-chosen",
									type: "text",
									maxLength: 2e3,
									autocomplete: "off",
									value: reason,
									onInput: (event) => setReason(event.currentTarget.value)
								})]
							}),
							createVNode("div", {
								class: "actions two",
								role: "group",
								"aria-label": "Your answer to all of them",
								children: [createVNode("button", {
									type: "button",
									class: "act deny",
									"data-decision": "deny-all",
									"aria-disabled": !isOnline,
									onClick: () => press("deny"),
									children: createVNode("span", {
										class: "act-text",
										children: `Deny ${all.length}`
									})
								}), createVNode("button", {
									type: "button",
									class: "act allow-once",
									"data-decision": "allow-all",
									"aria-disabled": Boolean(whyNot),
									"aria-describedby": whyNot ? "why-not-chosen" : void 0,
									onClick: () => press("allow-once"),
									children: createVNode("span", {
										class: "act-text",
										children: `Allow ${all.length} once`
									})
								})]
							}),
							createVNode("p", {
								class: "hint why-not",
								id: "why-not-chosen",
								children: whyNot
							})
						]
					})
				})
			]
		})
	});
}
// src/view/help.tsx
var KEYS = [
	[["j", "↓"], "next request"],
	[["k", "↑"], "previous request"],
	[["Enter"], "open the request"],
	[["a"], "allow this request once"],
	[["A"], "choose what to allow always"],
	[["d"], "deny this request, with words for the agent"],
	[["r"], "write a reason"],
	[["x"], "choose this request for one answer to several"],
	[["X"], "choose every request like this one"],
	[["/"], "filter the list"],
	[["Esc"], "leave a field, close what is open"],
	[["?"], "this help"]
];
function Help() {
	const isOpen = useValue(isHelp);
	const on = useValue(isOn);
	const dialog = useRef(null);
	useLayoutEffect(() => {
		if (!isOpen) dialog.current?.close();
		else if (!dialog.current?.open) dialog.current?.showModal();
	}, [isOpen]);
	return createVNode("dialog", {
		id: "help",
		ref: dialog,
		"aria-labelledby": "help-title",
		onClose: () => isHelp.set(false),
		children: [
			createVNode("h2", {
				id: "help-title",
				children: "Keyboard"
			}),
			createVNode("dl", {
				class: "keys",
				children: KEYS.map(([keys, what]) => [createVNode("dt", { children: keys.map((key) => createVNode("kbd", { children: key }, key)) }, what), createVNode("dd", { children: what }, `${what}-`)])
			}),
			createVNode("p", {
				class: "hint",
				children: "Letters answer only the request that has the focus and that you see. Elsewhere they open it."
			}),
			createVNode("label", {
				class: "check",
				children: [
					createVNode("input", {
						type: "checkbox",
						id: "keys-on",
						checked: on,
						onChange: (event) => setOn(event.currentTarget.checked)
					}),
					" ",
					createVNode("span", { children: "Use these keys" })
				]
			}),
			createVNode("p", {
				class: "dialog-end",
				children: createVNode("button", {
					type: "button",
					class: "primary",
					id: "help-close",
					onClick: () => isHelp.set(false),
					children: "Close"
				})
			})
		]
	});
}
// src/view/record.tsx
function Record() {
	useRunsInSight();
	return createVNode("div", {
		class: "columns",
		id: "columns",
		children: [
			createVNode(Pairings, {}),
			createVNode(Runs, {}),
			createVNode(Nodes, {})
		]
	});
}
export { Batch, Help, Output, Record, refreshNodes, refreshRuns };
