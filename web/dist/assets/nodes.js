import { Fact, Fragment, Refused, State, Time, Wrong, announce, brief, createVNode, everything, failed, hints, json, looker, may, mixedWords, nudge, send, useEffect, useLayoutEffect, useRef, useState, useValue, visible, watch } from "./app.js";
import { Confirm } from "./record.js";
// src/pure/pairing.ts
var COMMANDS = {
	"system.run": "runs programs on that machine",
	"system.run.prepare": "says in advance what a command would run",
	"system.which": "says where programs are installed",
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
var NAME_LENGTH = 60;
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
			children: [
				createVNode("dl", {
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
				}),
				may("admin") && createVNode(Rename, { node }),
				may("admin") && createVNode(Confirm, {
					name: "Unpair…",
					act: "unpair",
					label: `Unpair ${node.displayName ? brief(node.displayName, NAME_LENGTH) : node.nodeId.slice(0, 12)}`,
					question: "Unpair this machine? It is disconnected at once, and has to ask again.",
					yes: "Unpair it",
					done: "The machine is unpaired.",
					changed: refreshNodes,
					run: async () => void await send("DELETE", `/v1/nodes/${encodeURIComponent(node.nodeId)}`)
				})
			]
		})] })
	});
}
function Rename({ node: { nodeId, displayName = "" } }) {
	const [name, setName] = useState(void 0);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const wanted = name?.trim() ?? "";
	const isReady = wanted !== "" && wanted !== displayName && !isSending;
	async function save() {
		if (!isReady) return;
		setSending(true);
		setProblem("");
		try {
			await json("PATCH", `/v1/nodes/${encodeURIComponent(nodeId)}`, { body: { displayName: wanted } });
			setName(void 0);
			announce("The name is changed.");
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.message : "No answer came. Check the current name before you try again.");
		}
		setSending(false);
		refreshNodes();
	}
	return createVNode("form", {
		class: "rename",
		noValidate: true,
		onSubmit: (event) => {
			event.preventDefault();
			save();
		},
		children: [
			createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: `name-${nodeId}`,
					children: "Name"
				}), createVNode("input", {
					id: `name-${nodeId}`,
					type: "text",
					maxLength: 128,
					autocomplete: "off",
					spellcheck: false,
					value: name ?? displayName,
					onInput: (event) => setName(event.currentTarget.value)
				})]
			}),
			createVNode("button", {
				type: "submit",
				class: "quiet",
				"aria-disabled": !isReady,
				children: "Rename"
			}),
			createVNode(Wrong, { text: problem })
		]
	});
}
export { Nodes };
