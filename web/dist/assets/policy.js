import { Fact, Fragment, Mono, Refused, Time, Unreachable, Wrong, addressOf, announce, brief, calls, createVNode, everything, failed, gone, hints, json, looker, may, mixedWords, seePolicy, send, useEffect, useLayoutEffect, useRef, useState, useValue, visible, watch } from "./app.js";
import { Changes, Confirm, rejecting } from "./record.js";
import { Settings, query } from "./lists.js";
// src/pure/forecast.ts
var number$1 = (count) => count.toLocaleString("en");
var times = (count) => count === 1 ? "once" : `${number$1(count)} times`;
function asked({ commands, ask, deny }) {
	if (commands === 0) return "The transcripts had no command of an agent in this time.";
	const share = ask === 0 ? "" : ` (${(100 * ask / commands).toFixed(1)} of 100)`;
	const denied = deny === 0 ? "" : `, and ${deny === 1 ? "one would have been" : `${number$1(deny)} would have been`} denied`;
	return `Of ${number$1(commands)} commands ${number$1(ask)} would have needed approval${share}${denied}.`;
}
function withEntries({ entries, askWithEntries }) {
	if (!entries.length) return "";
	return `${entries.length === 1 ? "With this entry" : `With these ${entries.length} entries`} you would have been asked ${times(askWithEntries)}.`;
}
var toAdd = (agentId, what) => `countersign allowlist add ${what} --agent=${agentId}`;
var quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
// src/view/policy/forecast.tsx
function Forecast({ hint }) {
	const [saved, setSaved] = useState(void 0);
	const [problem, setProblem] = useState("");
	useEffect(() => {
		let isGone = false;
		json("GET", "/v1/policy/forecast").then(({ forecast }) => {
			if (!isGone) setSaved(forecast ?? null);
		}, (error) => {
			if (isGone) return;
			if (error instanceof Refused && !error.isSignedOut) setProblem(error.sentence);
			else failed(error);
		});
		return () => {
			isGone = true;
		};
	}, [hint]);
	return createVNode("section", {
		class: "panel",
		id: "policy-forecast",
		"aria-labelledby": "policy-forecast-title",
		children: [
			createVNode("h2", {
				id: "policy-forecast-title",
				children: "Forecast"
			}),
			createVNode(Wrong, { text: problem }),
			saved === null && createVNode("p", { children: [
				"No forecast is saved. Run ",
				createVNode("code", { children: "countersign policy forecast --save" }),
				" on the server: it judges what your agents ran before, and nothing leaves the machine."
			] }),
			saved && createVNode(Said, { ...saved })
		]
	});
}
function Said(saved) {
	const { agentId, policy, savedAtMs, sinceMs, reasons, entries, starterSets } = saved;
	const left = withEntries(saved);
	return createVNode(Fragment, { children: [
		createVNode("p", {
			class: "hint",
			children: [
				`For agent ${visible(agentId)}, under ${policy === "present" ? "the policy of that moment" : `the preset ${visible(policy)}`}. Made `,
				createVNode(Time, { ms: savedAtMs }),
				", from commands since ",
				createVNode(Time, { ms: sinceMs }),
				"."
			]
		}),
		createVNode("p", { children: asked(saved) }),
		reasons.length > 0 && createVNode("ul", {
			class: "checks",
			"aria-label": "Why",
			children: reasons.map(({ why, count }) => createVNode("li", { children: [
				createVNode("strong", { children: count.toLocaleString("en") }),
				" ",
				createVNode("bdi", { children: visible(why) })
			] }, why))
		}),
		left && createVNode("p", { children: left }),
		entries.length > 0 && createVNode("ul", {
			class: "checks",
			"aria-label": "Entries that would save most questions",
			children: entries.map(({ pattern, saves }) => createVNode("li", { children: [
				createVNode("strong", { children: saves.toLocaleString("en") }),
				" ",
				createVNode(Mono, { text: toAdd(agentId, quoted(pattern)) })
			] }, pattern))
		}),
		starterSets.length > 0 && createVNode(Fragment, { children: [createVNode("p", { children: "What each starter set would save alone:" }), createVNode("ul", {
			class: "checks",
			"aria-label": "Starter sets",
			children: starterSets.map(({ set, saves }) => createVNode("li", { children: [
				createVNode("strong", { children: saves.toLocaleString("en") }),
				" ",
				createVNode(Mono, { text: toAdd(agentId, `--set ${set}`) })
			] }, set))
		})] })
	] });
}
// src/view/policy/held.tsx
function waitingIn({ document, configHeld, serverHeld }) {
	return [
		document.held && {
			id: "document",
			file: "exec-approvals.json",
			edit: document.held
		},
		configHeld && {
			id: "config",
			file: "openclaw.json",
			edit: configHeld
		},
		serverHeld && {
			id: "server",
			file: "countersign.toml",
			edit: serverHeld,
			then: "Once accepted, it takes effect after a restart of the server."
		}
	].filter((one) => one !== void 0);
}
function Held({ effective, changed }) {
	return createVNode(Fragment, { children: waitingIn(effective).map((waiting) => createVNode(Edit, {
		waiting,
		changed
	}, waiting.id)) });
}
function Edit({ waiting: { id, file, edit, then }, changed }) {
	const { hash, sinceMs, allows, proposedBy = [], changes = [] } = edit;
	const [isSettled, setSettled] = useState(false);
	const people = proposedBy.map(({ name }) => visible(name)).join(", ");
	const title = `held-${id}-title`;
	return createVNode("section", {
		class: "panel held",
		id: `held-${id}`,
		"aria-labelledby": title,
		children: [
			createVNode("h2", {
				id: title,
				children: ["Waiting to be accepted: a change to ", file]
			}),
			createVNode("p", {
				class: "hint",
				children: [
					people ? `${people} changed it, and it takes a second person.` : "It was edited from outside.",
					" It has waited since ",
					createVNode(Time, { ms: sinceMs }),
					". What it takes away is in effect; what it newly allows is not. ",
					then
				]
			}),
			createVNode("h3", { children: "It would newly allow" }),
			createVNode("ul", {
				class: "allows",
				children: allows.map((sentence) => createVNode("li", { children: createVNode("bdi", { children: visible(sentence) }) }, sentence))
			}),
			changes.length > 0 && createVNode(Fragment, { children: [createVNode("h3", { children: "It changes" }), createVNode(Changes, {
				edit,
				file
			})] }),
			may("admin") ? createVNode(Fragment, { children: [
				createVNode(Confirm, {
					name: "Accept this change…",
					act: `accept-${id}`,
					question: "Let it allow what is listed above?",
					yes: "Accept it",
					done: "The change is accepted.",
					changed: () => void changed(),
					run: async () => {
						await json("POST", "/v1/policy/document/accept", { body: { hash } });
						setSettled(true);
						await seePolicy().catch((error) => {
							if (!(error instanceof Refused)) throw error;
						});
					}
				}),
				createVNode(Confirm, {
					name: "Reject this change…",
					act: `reject-${id}`,
					question: rejecting(file),
					yes: "Reject it",
					done: "The change is rejected.",
					changed: () => void changed(),
					run: async () => {
						await json("POST", "/v1/policy/document/reject", { body: { hash } });
						setSettled(true);
						await seePolicy().catch((error) => {
							if (!(error instanceof Refused)) throw error;
						});
					}
				}),
				createVNode("p", {
					class: "hint",
					hidden: isSettled,
					children: [
						"On the command line: ",
						createVNode(Mono, { text: `countersign policy accept ${hash.slice(0, 12)}…` }),
						" or ",
						createVNode(Mono, { text: "reject" }),
						"."
					]
				})
			] }) : createVNode("p", {
				class: "hint",
				children: [
					"An admin can accept or reject it, here or with ",
					createVNode("code", { children: "countersign policy accept" }),
					" and ",
					createVNode("code", { children: "reject" }),
					"."
				]
			})
		]
	});
}
// src/pure/confine.ts
var LARGEST_PORT = 65535;
var NoConfine = class extends Error {};
function listed(text) {
	const words = text.split(",").map((word) => word.trim()).filter((word) => word !== "");
	if (words.length === 0) return void 0;
	if (words.length === 1 && words[0] === "any") return "any";
	if (words.length === 1 && words[0] === "nothing") return [];
	return words;
}
function port(word) {
	const number = /^\d{1,5}$/.test(word) ? Number(word) : 0;
	if (number < 1 || number > LARGEST_PORT) throw new NoConfine(`“${word}” is not a TCP port: write numbers from 1 to ${LARGEST_PORT}.`);
	return number;
}
function confineOf({ starts, writes, connects }) {
	const ports = listed(connects);
	const said = {
		starts: listed(starts),
		writes: listed(writes),
		connects: Array.isArray(ports) ? ports.map(port) : ports
	};
	const members = Object.entries(said).filter(([, value]) => value !== void 0);
	return members.length === 0 ? void 0 : Object.fromEntries(members);
}
function confineLine(confine) {
	if (typeof confine !== "object" || confine === null || Array.isArray(confine)) return JSON.stringify(confine);
	const words = (value) => Array.isArray(value) ? value.map(String).join(", ") || "nothing" : typeof value === "string" ? value : JSON.stringify(value);
	return Object.entries(confine).map(([name, value]) => `${name} ${words(value)}`).join("; ");
}
// src/pure/widening.ts
var SECURITY$1 = [
	"deny",
	"allowlist",
	"full"
];
var ASK$1 = [
	"always",
	"on-miss",
	"off"
];
var weaker = (order, was, is) => order.indexOf(is ?? "") > order.indexOf(was ?? "");
var HOSTS$1 = {
	gateway: "run on this server's own machine",
	node: "run on another machine, a node",
	auto: "run in a sandbox where there is one, else on this server's own machine"
};
var SENTENCES = {
	security(who, was, is) {
		if (!weaker(SECURITY$1, was, is)) return void 0;
		return is === "full" ? `Every command of ${who} may run, whether the allowlist covers it or not.` : `Commands of ${who} may run where the allowlist covers them, or a person allows them.`;
	},
	ask(who, was, is) {
		if (!weaker(ASK$1, was, is)) return void 0;
		return is === "off" ? `Nobody will be asked any more about commands of ${who}.` : `Nobody will be asked any more about commands of ${who} that the allowlist covers.`;
	},
	askFallback(who, was, is) {
		if (!weaker(SECURITY$1, was, is)) return void 0;
		return is === "full" ? `When nobody answers, commands of ${who} run all the same.` : `When nobody answers, commands of ${who} run where the allowlist covers them.`;
	},
	host: (who, _was, is) => is === "sandbox" ? void 0 : `Commands of ${who} ${HOSTS$1[is ?? ""]}.`,
	node: (who, _was, is, words = is) => is === void 0 ? `Commands of ${who} are bound to no node any more: each may name any of them.` : `Commands of ${who} for a node go to ${words}.`
};
function newlyAllowed(setting, who, was, is, words) {
	return was === is ? void 0 : SENTENCES[setting]?.(who, was, is, words);
}
function entryAllows(who, { pattern, argPattern, confine }) {
	return `From now on ${who} may run ${pattern === "*" ? "every program" : `what the pattern ${pattern} covers`}, ${argPattern === void 0 ? "with any arguments" : `with arguments like ${argPattern}`}: where security is allowlist, and unasked unless ask is always.${confine === void 0 ? "" : ` What it may do is limited: ${confineLine(confine)}.`}`;
}
function ruleAllows(who, { pattern }) {
	return `What the rule ${pattern} keeps from running may run again for ${who}, as far as policy allows it.`;
}
// src/view/policy/question.tsx
function Question({ asked, close }) {
	const root = useRef(null);
	const cameFrom = useRef(null);
	useLayoutEffect(() => {
		const { current } = root;
		if (!asked || !current) return void 0;
		cameFrom.current = document.activeElement;
		current.setAttribute("data-unsteady", "");
		const timer = setTimeout(() => current.removeAttribute("data-unsteady"), 500);
		current.focus({ preventScroll: true });
		current.scrollIntoView({ block: "nearest" });
		return () => clearTimeout(timer);
	}, [asked]);
	function back() {
		close();
		if (cameFrom.current instanceof HTMLElement) cameFrom.current.focus({ preventScroll: true });
	}
	function confirm() {
		if (!asked || root.current?.hasAttribute("data-unsteady")) return;
		back();
		asked.then();
	}
	return createVNode("fieldset", {
		class: "question",
		ref: root,
		tabIndex: -1,
		hidden: !asked,
		onKeyDown: (event) => {
			if (event.key !== "Escape") return;
			event.stopPropagation();
			back();
		},
		children: [
			createVNode("legend", { children: "This loosens the policy. Continue?" }),
			createVNode("ul", {
				class: "allows",
				"aria-label": "What it allows",
				children: asked?.allows.map((sentence) => createVNode("li", { children: createVNode("bdi", { children: visible(sentence) }) }, sentence))
			}),
			createVNode("div", {
				class: "always-end",
				children: [createVNode("button", {
					type: "button",
					class: "quiet",
					"data-answer": "no",
					onClick: back,
					children: "Back"
				}), createVNode("button", {
					type: "button",
					class: "primary",
					"data-answer": "yes",
					onClick: confirm,
					children: asked?.label
				})]
			})
		]
	});
}
// src/view/policy/form.tsx
var WORD_LENGTH = 60;
var MOST_TRIES = 3;
var MOST_COMPARED = 100;
var CHANGED = "This was changed in the meantime. It now shows the current value; your change was not saved.";
function Form({ id, title, hint, fields, known, load, save, saved }) {
	const shown = useRef(known);
	const [values, setValues] = useState(() => pick(known));
	const [asked, setAsked] = useState(void 0);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const mayChange = may("admin");
	function pick({ values: all }) {
		return Object.fromEntries(fields.map(({ key }) => [key, all[key] ?? void 0]));
	}
	const isSame = (one, other) => fields.every(({ key }) => (one[key] ?? void 0) === (other[key] ?? void 0));
	const isDirty = !isSame(values, shown.current.values);
	const basis = ({ who, values: all, inherited }) => JSON.stringify([who, fields.map(({ key }) => [all[key] ?? null, inherited[key] ?? null])]);
	useLayoutEffect(() => {
		const before = shown.current;
		if (before === known) return;
		const isOfSame = known.who === before.who;
		const isKept = isDirty && isOfSame && basis(known) === basis(before);
		const isLost = isDirty && isOfSame && !isKept && !isSame(values, known.values);
		if (!isOfSame) setProblem("");
		shown.current = known;
		if (isKept) return;
		setValues(pick(known));
		setAsked(void 0);
		if (isLost) setProblem(CHANGED);
	}, [known]);
	function choose(key, value) {
		setAsked(void 0);
		setValues((now) => ({
			...now,
			[key]: value || void 0
		}));
	}
	function press() {
		if (!mayChange || isSending || !isDirty) return;
		setProblem("");
		const { who, inherited, choices, values: was } = shown.current;
		const effective = (key, value) => value ?? inherited[key];
		const words = (key) => choices[key]?.find(([choice]) => choice === values[key])?.[1];
		const allows = fields.flatMap(({ key }) => newlyAllowed(key, who, effective(key, was[key] ?? void 0), effective(key, values[key]), words(key)) ?? []);
		if (allows.length) setAsked({
			allows,
			label: "Allow and save",
			then: () => void send()
		});
		else send();
	}
	async function send() {
		setSending(true);
		try {
			await write(shown.current, values);
			announce("Your change is saved.");
		} catch (error) {
			if (!(error instanceof Refused)) setProblem("No answer came. Check the current value before you save again.");
			else if (error.isSignedOut) failed(error);
			else setProblem(error.status === 412 ? CHANGED : reasons(error));
		}
		setSending(false);
		await saved();
	}
	async function write(from, chosen) {
		const decidedBy = basis(from);
		for (let tries = 1;; tries += 1) try {
			await save(from, chosen);
			if (shown.current.who === from.who) shown.current = {
				...from,
				values: {
					...from.values,
					...chosen
				}
			};
			return;
		} catch (error) {
			if (!(error instanceof Refused) || error.status !== 412 || tries === MOST_TRIES) throw error;
			from = await load();
			if (basis(from) !== decidedBy) throw error;
		}
	}
	return createVNode("form", {
		class: "panel",
		id,
		noValidate: true,
		"aria-labelledby": `${id}-title`,
		"aria-busy": isSending,
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
				children: fields.map(({ key, title: words }) => createVNode("div", {
					class: "field",
					children: [createVNode("label", {
						for: `${id}-${key}`,
						children: words
					}), createVNode("select", {
						id: `${id}-${key}`,
						disabled: !mayChange,
						value: values[key] ?? "",
						onChange: (event) => choose(key, event.currentTarget.value),
						children: options(known, key).map(([choice, said]) => createVNode("option", {
							value: choice,
							children: brief(said, WORD_LENGTH)
						}, choice))
					})]
				}, key))
			}),
			createVNode(Wrong, { text: problem }),
			createVNode(Question, {
				asked,
				close: () => setAsked(void 0)
			}),
			mayChange && createVNode("p", {
				class: "panel-end",
				children: createVNode("button", {
					type: "submit",
					class: isSending ? "primary busy" : "primary",
					"aria-disabled": !isDirty || isSending,
					"aria-label": `Save: ${title}`,
					children: createVNode("span", {
						class: "act-text",
						children: "Save"
					})
				})
			})
		]
	});
}
function options({ values, choices, without }, key) {
	const value = values[key] ?? void 0;
	const all = choices[key] ?? [];
	const other = value !== void 0 && !all.some(([choice]) => choice === value) ? [[value, value]] : [];
	return [
		["", without[key] ?? ""],
		...all,
		...other
	];
}
function reasons(error) {
	const fields = (error.problem.fields ?? []).map(({ path, message }) => `${path}: ${message}`).filter((field) => !error.message.includes(field.slice(0, MOST_COMPARED)));
	return [error.message, ...fields].join(". ");
}
// src/view/policy/presets.tsx
var NAME_LENGTH$1 = 40;
var PRESETS = [
	{
		name: "deny-all",
		title: "Deny everything",
		sentence: "Nothing runs, and nobody is asked.",
		values: {
			security: "deny",
			ask: "off",
			askFallback: "deny"
		}
	},
	{
		name: "cautious",
		title: "Ask about what is not listed",
		sentence: "What the allowlist covers runs. The rest needs approval, and is denied without an answer.",
		values: {
			security: "allowlist",
			ask: "on-miss",
			askFallback: "deny"
		}
	},
	{
		name: "yolo",
		title: "Allow everything",
		sentence: "Everything runs, and nobody is asked. Deny rules still count.",
		values: {
			security: "full",
			ask: "off",
			askFallback: "full"
		}
	}
];
var KEYS = [
	"security",
	"ask",
	"askFallback"
];
function Presets({ who, agentId, here, changed }) {
	const [asked, setAsked] = useState(void 0);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const [applied, setApplied] = useState("");
	const now = Object.fromEntries(KEYS.map((key) => [key, here[key].value]));
	function press(preset) {
		if (isSending) return;
		setApplied("");
		setProblem("");
		setAsked(void 0);
		const allows = KEYS.flatMap((key) => newlyAllowed(key, who, now[key], preset.values[key]) ?? []);
		if (allows.length) setAsked({
			allows,
			label: `Apply ${preset.name}`,
			then: () => void send(preset)
		});
		else send(preset);
	}
	async function send({ name }) {
		setSending(true);
		try {
			const words = sentence(await json("POST", "/v1/policy/preset", { body: agentId === void 0 ? { name } : {
				name,
				agentId
			} }), who);
			setApplied(words);
			announce(words);
		} catch (error) {
			if (!(error instanceof Refused)) setProblem("No answer came. Check the effective policy before you try again.");
			else if (error.isSignedOut) failed(error);
			else setProblem(reasons(error));
		}
		setSending(false);
		await changed();
	}
	return createVNode("section", {
		class: "panel",
		id: "policy-presets",
		"aria-labelledby": "policy-presets-title",
		"aria-busy": isSending,
		children: [
			createVNode("h2", {
				id: "policy-presets-title",
				children: "Presets"
			}),
			createVNode("p", {
				class: "hint",
				children: "Each sets security, ask and fallback of document and settings in one step, and sends commands to this machine."
			}),
			createVNode("ul", {
				class: "checks",
				"aria-label": "Presets",
				children: PRESETS.map((preset) => {
					const isNow = KEYS.every((key) => now[key] === preset.values[key]);
					return createVNode("li", {
						"data-preset": preset.name,
						children: [
							createVNode("p", { children: [
								createVNode("strong", { children: preset.title }),
								" ",
								createVNode("code", { children: preset.name }),
								isNow && createVNode(Fragment, { children: [" ", createVNode("span", {
									class: "badge good",
									children: "in effect"
								})] })
							] }),
							createVNode("p", {
								class: "rule-more",
								children: preset.sentence
							}),
							may("admin") && createVNode("p", { children: createVNode("button", {
								type: "button",
								class: "quiet",
								"aria-label": `Apply ${preset.name} to ${who}`,
								"aria-disabled": isSending,
								onClick: () => press(preset),
								children: "Apply"
							}) })
						]
					}, preset.name);
				})
			}),
			createVNode(Question, {
				asked,
				close: () => setAsked(void 0)
			}),
			createVNode("p", {
				role: "status",
				id: "policy-preset-applied",
				children: applied
			}),
			createVNode(Wrong, { text: problem })
		]
	});
}
function sentence({ name, changed, ownKeys }, who) {
	const said = changed ? `The preset ${name} is in effect for ${who}.` : `Nothing changed: ${name} was in effect for ${who} already.`;
	if (!ownKeys.length) return said;
	return `${said} These agents keep values of their own: ${ownKeys.map(({ agentId }) => brief(agentId, NAME_LENGTH$1)).join(", ")}.`;
}
var LABEL_LENGTH = 60;
var PATTERN_LENGTH = 4096;
var TEXT_LENGTH = 1e3;
var CONFINE_LENGTH = 400;
var NOT_CONFINED = {
	starts: "",
	writes: "",
	connects: ""
};
var KINDS = {
	allowlist: {
		title: "Allowlist",
		hint: "What may run unasked, where security is allowlist. An agent also has the entries of all agents.",
		none: "Nothing is on the list.",
		text: ["note", "Note (optional)"],
		adds: entryAllows,
		removes: void 0
	},
	denylist: {
		title: "Deny rules",
		hint: "What never runs, no matter what else allows it. The rules of all agents apply to each.",
		none: "There are no deny rules.",
		text: ["reason", "Reason (optional)"],
		adds: void 0,
		removes: ruleAllows
	}
};
function Rules({ kind, agent, who, items, hasMore, changed }) {
	const { title, hint, none, text, adds, removes } = KINDS[kind];
	const id = `policy-${kind}`;
	const mayChange = may("admin");
	const heading = useRef(null);
	const list = useRef(null);
	const guard = useRef(void 0);
	const busy = useRef(false);
	const agentNow = useRef(agent);
	const [asked, setAsked] = useState(void 0);
	const [problem, setProblem] = useState("");
	const [isSending, setSending] = useState(false);
	const [pattern, setPattern] = useState("");
	const [argPattern, setArgPattern] = useState("");
	const [note, setNote] = useState("");
	const [confined, setConfined] = useState(NOT_CONFINED);
	const [children, setChildren] = useState(false);
	const [warned, setWarned] = useState(new Map());
	useLayoutEffect(() => {
		if (!list.current) return void 0;
		guard.current = watch(list.current);
		return () => guard.current?.stop();
	}, []);
	useLayoutEffect(() => guard.current?.look());
	useLayoutEffect(() => {
		agentNow.current = agent;
		setAsked(void 0);
		setProblem("");
	}, [agent]);
	const path = `/v1/agents/${encodeURIComponent(agent)}/${kind}`;
	function pressAdd() {
		setProblem("");
		let confine;
		try {
			confine = confineOf(confined);
		} catch (error) {
			if (!(error instanceof NoConfine)) throw error;
			return setProblem(error.message);
		}
		const own = kind === "allowlist" ? { confine } : { children: children || void 0 };
		const wanted = {
			pattern: pattern.trim(),
			argPattern: argPattern || void 0,
			[text[0]]: note.trim() || void 0,
			...own
		};
		if (!wanted.pattern) return setProblem("Write a pattern first.");
		decide(adds?.(who, wanted), "Allow and add", () => change(async () => {
			const added = await json("POST", path, { body: wanted });
			const { warnings = [] } = added;
			if (warnings.length) setWarned((now) => new Map(now).set(added.id, warnings));
			if (agentNow.current === agent) {
				for (const set of [
					setPattern,
					setArgPattern,
					setNote
				]) set("");
				setConfined(NOT_CONFINED);
				setChildren(false);
			}
			announce(["It is added.", ...warnings.map(({ message }) => `Warning: ${message}.`)].join(" "));
		}));
	}
	function pressRemove(item, row) {
		if (!row || !guard.current?.isSteady(row)) return;
		setProblem("");
		decide(removes?.(who, item), "Allow and remove", () => change(async () => {
			try {
				await send("DELETE", `${path}/${encodeURIComponent(item.id)}`);
			} catch (error) {
				if (!(error instanceof Refused) || error.code !== "not-found") throw error;
			}
			announce("It is removed.");
			heading.current?.focus({ preventScroll: true });
		}));
	}
	function decide(allows, label, then) {
		if (!allows) return void then();
		setAsked({
			allows: [allows],
			label,
			then: () => void then()
		});
	}
	async function change(deed) {
		if (busy.current) return;
		busy.current = true;
		setSending(true);
		try {
			await deed();
		} catch (error) {
			if (!(error instanceof Refused)) setProblem("No answer came. Check the current rules before you try again.");
			else if (error.isSignedOut) failed(error);
			else setProblem(reasons(error));
		}
		busy.current = false;
		setSending(false);
		await changed();
	}
	const field = (name, words, value, set, length) => createVNode("div", {
		class: "field",
		children: [createVNode("label", {
			for: `${id}-${name}`,
			children: words
		}), createVNode("input", {
			id: `${id}-${name}`,
			type: "text",
			maxLength: length,
			autocomplete: "off",
			autocapitalize: "none",
			spellcheck: false,
			value,
			onInput: (event) => {
				setAsked(void 0);
				set(event.currentTarget.value);
			}
		})]
	});
	const limit = (name, words) => field(name, words, confined[name], (value) => setConfined((now) => ({
		...now,
		[name]: value
	})), TEXT_LENGTH);
	return createVNode("section", {
		class: "panel",
		id,
		"aria-labelledby": `${id}-title`,
		"aria-busy": isSending,
		children: [
			createVNode("h2", {
				id: `${id}-title`,
				ref: heading,
				tabIndex: -1,
				children: title
			}),
			createVNode("p", {
				class: "hint",
				children: hint
			}),
			items.length === 0 && createVNode("p", {
				class: "hint",
				children: none
			}),
			createVNode("ol", {
				class: "runs",
				ref: list,
				"aria-labelledby": `${id}-title`,
				children: items.map((item) => createVNode(Row, {
					item,
					warned: warned.get(item.id) ?? [],
					remove: mayChange ? (row) => pressRemove(item, row) : void 0
				}, item.id))
			}),
			hasMore && createVNode("p", {
				class: "hint",
				children: `Only the first 500 are shown.`
			}),
			mayChange && createVNode("form", {
				class: "fields",
				noValidate: true,
				"aria-label": `New: ${title}`,
				onSubmit: (event) => {
					event.preventDefault();
					pressAdd();
				},
				children: [
					field("pattern", "Pattern: a path, a name or *", pattern, setPattern, PATTERN_LENGTH),
					field("arguments", "Arguments, a regular expression (optional)", argPattern, setArgPattern, PATTERN_LENGTH),
					field("text", text[1], note, setNote, TEXT_LENGTH),
					kind === "allowlist" ? createVNode("details", {
						class: "wider-list",
						"aria-label": "What the program may do",
						children: [
							createVNode("summary", { children: "What the program may do (optional)" }),
							createVNode("p", {
								class: "hint",
								children: "The kernel enforces it for the program and everything it starts. Separate entries with commas; “nothing” and “any” are entries too."
							}),
							limit("starts", "May start: program names, paths, judged"),
							limit("writes", "May write: workspace, tmp, paths"),
							limit("connects", "May connect to: TCP ports")
						]
					}) : createVNode("label", {
						class: "check",
						children: [createVNode("input", {
							id: `${id}-children`,
							type: "checkbox",
							checked: children,
							onChange: (event) => setChildren(event.currentTarget.checked)
						}), createVNode("span", { children: "Other programs cannot start or read it either, at the isolation level confined" })]
					}),
					createVNode("p", {
						class: "panel-end",
						children: createVNode("button", {
							type: "submit",
							"aria-label": `Add to: ${title}`,
							children: "Add"
						})
					})
				]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode(Question, {
				asked,
				close: () => setAsked(void 0)
			})
		]
	});
}
function Row({ item, warned, remove }) {
	const row = useRef(null);
	const known = item.warnings ?? [];
	const warnings = [...known, ...warned.filter(({ code }) => !known.some((other) => other.code === code))].map(({ message }) => message);
	const mixed = mixedWords(`${item.pattern} ${item.argPattern ?? ""}`);
	if (mixed.length) warnings.push(`letters of different scripts in one word: ${brief(mixed.join(", "), LABEL_LENGTH)}`);
	return createVNode("li", {
		class: "run rule-row",
		ref: row,
		"data-rule": item.id,
		children: [createVNode("div", {
			class: "rule-what",
			children: [
				createVNode("p", { children: [createVNode(Mono, { text: item.pattern }), item.state && item.state !== "active" && createVNode("span", {
					class: "chip warn",
					children: visible(item.state)
				})] }),
				item.argPattern !== void 0 && createVNode("p", {
					class: "rule-more",
					children: ["Arguments: ", createVNode(Mono, { text: item.argPattern })]
				}),
				facts(item).map((fact, at) => createVNode("p", {
					class: "rule-more",
					children: fact
				}, at)),
				warnings.length > 0 && createVNode("ul", {
					class: "warnings",
					"aria-label": "About this entry",
					children: warnings.map((message) => createVNode("li", { children: createVNode("bdi", { children: visible(message) }) }, message))
				})
			]
		}), remove && createVNode("button", {
			type: "button",
			class: "quiet",
			"aria-label": `Remove ${brief(item.pattern, LABEL_LENGTH)}`,
			onClick: () => remove(row.current),
			children: "Remove"
		})]
	});
}
function facts(item) {
	const lines = [];
	if (item.lastUsedCommand) lines.push(createVNode(Fragment, { children: [
		"Last used ",
		createVNode(Time, { ms: item.lastUsedAt }),
		": ",
		createVNode(Mono, { text: brief(item.lastUsedCommand, 120) })
	] }));
	else if (item.kind) lines.push("Not used yet");
	if (item.expiresAtMs) lines.push(createVNode(Fragment, { children: ["Until ", createVNode(Time, { ms: item.expiresAtMs })] }));
	if (item.maxUses) lines.push(`Used ${item.uses ?? 0} of ${item.maxUses} times`);
	if (item.sha256) lines.push(createVNode(Fragment, { children: ["Only for the content ", createVNode(Mono, { text: item.sha256 })] }));
	if (item.input) lines.push(item.unguarded ? "Also with open input, at an unguarded terminal" : "Also with open input");
	if (item.confine !== void 0) lines.push(createVNode(Fragment, { children: ["Confined: ", createVNode(Mono, { text: brief(confineLine(item.confine), CONFINE_LENGTH) })] }));
	if (item.questions) lines.push("Mutes the agent: what it would ask is denied");
	if (item.children) lines.push("No program of a run can start it either, at the level confined");
	const said = item.note ?? item.reason;
	if (said) lines.push(createVNode("bdi", { children: visible(said) }));
	return lines;
}
// src/pure/suggest.ts
var NO_ENV_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
var EXACT = "sha256:cwd-argv:v1:";
var LONGEST = 4096;
var MOST = 20;
var entriesOf = ({ proposedPatterns }) => proposedPatterns.flatMap(({ default: isDefault, width, pattern, argPattern }) => isDefault && width === "exact" && pattern.startsWith("/") && argPattern?.startsWith(EXACT) ? [{
	pattern,
	argPattern
}] : []);
var key = (...parts) => JSON.stringify(parts);
function suggested(allowed, denied, least) {
	const refused = new Set();
	for (const approval of denied) {
		const { agentId, command, cwd } = approval;
		refused.add(key(agentId, command, cwd));
		for (const { pattern, argPattern } of entriesOf(approval)) refused.add(key("entry", agentId, pattern, argPattern));
	}
	const found = new Map();
	for (const approval of allowed) {
		const { agentId, host, command, cwd, boundTo, approvalsRequired, groups } = approval;
		if (host !== "gateway" || boundTo.envHash !== NO_ENV_HASH || approvalsRequired > 1 || groups || command.length > LONGEST) continue;
		for (const { pattern, argPattern } of entriesOf(approval)) {
			const name = key("entry", agentId, pattern, argPattern);
			const one = found.get(name) ?? {
				agentId,
				pattern,
				argPattern,
				count: 0,
				command,
				argv: boundTo.argv,
				cwd,
				isRefused: false
			};
			one.count += 1;
			one.isRefused ||= refused.has(key(agentId, command, cwd)) || refused.has(name);
			found.set(name, one);
		}
	}
	return [...found.values()].filter(({ count, isRefused }) => count >= least && !isRefused).sort((one, other) => other.count - one.count).slice(0, MOST).map(({ isRefused: _not, ...suggestion }) => suggestion);
}
var stillHelps = ({ pattern, argPattern }, { approvalsRequired, groups, wouldPersist }) => !(approvalsRequired !== void 0 && approvalsRequired > 1) && !groups && wouldPersist.some((one) => one.default && one.pattern === pattern && one.argPattern === argPattern);
function saved(suggestions, days) {
	const count = suggestions.reduce((sum, { count: times }) => sum + times, 0);
	const which = suggestions.length === 1 ? "This entry" : `These ${suggestions.length} entries`;
	const daily = Math.round(count / days);
	return daily > 1 ? `${which} would save ${daily.toLocaleString("en")} questions a day.` : `${which} would have saved ${count.toLocaleString("en")} questions in the last ${days} days.`;
}
// src/view/policy/suggestions.tsx
var DAYS = 30;
var MOST_READ = 2e3;
var LEAST = 3;
function Suggestions({ agentId, changed }) {
	const [isLooking, setLooking] = useState(false);
	const [problem, setProblem] = useState("");
	const [found, setFound] = useState(void 0);
	async function look() {
		if (isLooking) return;
		setLooking(true);
		setProblem("");
		try {
			const since = String(Date.now() - DAYS * 864e5);
			const answers = (status, from) => everything(`/v1/approvals?${query({
				status,
				agentId,
				since: from
			})}`, MOST_READ);
			const [allowed, denied] = await Promise.all([answers("allowed", since), answers("denied")]);
			const all = suggested(allowed.items, denied.items, LEAST);
			const helps = await Promise.all(all.map((one) => isHelp(one)));
			setFound(all.filter((_one, place) => helps[place]));
			announce("The suggestions are there.");
		} catch (error) {
			setFound(void 0);
			if (!(error instanceof Refused)) setProblem("No answer came. Try again.");
			else if (error.isSignedOut) failed(error);
			else setProblem(reasons(error));
		}
		setLooking(false);
	}
	return createVNode("section", {
		class: "panel",
		id: "policy-suggestions",
		"aria-labelledby": "policy-suggestions-title",
		"aria-busy": isLooking,
		children: [
			createVNode("h2", {
				id: "policy-suggestions-title",
				children: "Suggestions"
			}),
			createVNode("p", {
				class: "hint",
				children: `Commands that people allowed at least ${LEAST} times in the last ${DAYS} days, and never denied. Each entry covers exactly one command in one directory.`
			}),
			createVNode("p", {
				class: "panel-end",
				children: createVNode("button", {
					type: "button",
					id: "suggest",
					"aria-disabled": isLooking,
					onClick: () => void look(),
					children: found ? "Look again" : "Look for suggestions"
				})
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				role: "status",
				children: [found?.length === 0 && createVNode("p", { children: "No entry is worth adding: no such command needs approval any more." }), found && found.length > 0 && createVNode("p", {
					id: "suggest-saves",
					children: saved(found, DAYS)
				})]
			}),
			found && found.length > 0 && createVNode("ul", {
				class: "checks",
				"aria-label": "Suggested entries",
				children: found.map((one) => createVNode("li", { children: [
					createVNode("strong", { children: `${one.count.toLocaleString("en")} times` }),
					" ",
					createVNode("bdi", { children: visible(one.agentId) }),
					": ",
					createVNode("code", {
						dir: "ltr",
						children: brief(one.command, 160)
					}),
					" in ",
					createVNode(Mono, { text: one.cwd }),
					may("admin") && createVNode(Confirm, {
						name: "Add it…",
						act: "add-suggestion",
						label: `Add it: an entry for ${brief(one.command, 80)}`,
						question: `Let agent ${visible(one.agentId)} run exactly this, in this directory, without asking?`,
						yes: "Allow and add",
						done: "The entry is added.",
						changed: () => void changed(),
						run: async () => {
							const { agentId: agent, pattern, argPattern, count, command } = one;
							await json("POST", `/v1/agents/${encodeURIComponent(agent)}/allowlist`, { body: {
								pattern,
								argPattern,
								note: `allowed ${count} times: ${brief(command, 120)}`
							} });
							setFound((all) => all?.filter((other) => other !== one));
						}
					})
				] }, `${one.agentId} ${one.pattern} ${one.argPattern}`))
			})
		]
	});
}
async function isHelp(one) {
	const { agentId, argv, command, cwd: workdir } = one;
	try {
		return stillHelps(one, await json("POST", "/v1/exec/explain", { body: {
			...argv ? { argv } : { command },
			agentId,
			workdir,
			host: "gateway"
		} }));
	} catch (error) {
		if (error instanceof Refused && !error.isSignedOut && error.status < 500) return false;
		throw error;
	}
}
// src/pure/trials.ts
var number = (count) => count.toLocaleString("en");
var runs = (count) => count === 1 ? "1 run" : `${number(count)} runs`;
function tested({ total, passed }) {
	return passed === total ? {
		tone: "good",
		text: total === 1 ? "The case is as expected" : `All ${number(total)} cases are as expected`
	} : {
		tone: "bad",
		text: `${number(total - passed)} of ${number(total)} cases ${total - passed === 1 ? "is" : "are"} not as expected`
	};
}
function changedBy({ total, same, nowRun, nowAsk, nowDenied, widerFallback, skipped }) {
	const parts = [
		nowRun > 0 && `${runs(nowRun)} would run without a question`,
		widerFallback > 0 && `${runs(widerFallback)} would need approval, and run without an answer`,
		nowAsk > 0 && `${runs(nowAsk)} would need approval`,
		nowDenied > 0 && `${runs(nowDenied)} would be denied`
	].filter((part) => part !== false);
	const left = skipped > 0 ? ` ${runs(skipped)} could not be judged again.` : "";
	if (total === 0) return {
		tone: "dull",
		text: "There are no runs in that time. Look further back.",
		parts
	};
	if (!parts.length) return {
		tone: "good",
		text: `${same === 1 ? "1 run was" : `${number(same)} runs were`} judged again, and nothing would be decided differently.${left}`,
		parts
	};
	return {
		tone: nowRun + widerFallback > 0 ? "warn" : "live",
		text: `${number(total - same - skipped)} of ${runs(total)} would be decided differently.${left}`,
		parts
	};
}
var WORDS = {
	run: "runs",
	ask: "needs approval",
	deny: "is denied",
	allow: "allow",
	reject: "reject"
};
var word = (verdict) => Object.hasOwn(WORDS, verdict) ? WORDS[verdict] ?? verdict : verdict;
var verdicts = ({ then: was, now }) => was === now ? `${word(now)}, by a wider fallback` : `${word(was)} → ${word(now)}`;
var SKIPPED = {
	"other-host": "on a node or in a sandbox",
	patch: "patches",
	directory: "their directory is gone",
	"not-of-policy": "something other than policy refused them",
	"no-text": "the record does not have their words",
	undecided: "nothing was decided about them",
	unreadable: "of another form"
};
var skippedBecause = (by) => Object.entries(by).map(([code, count]) => `${number(count)}: ${Object.hasOwn(SKIPPED, code) ? SKIPPED[code] : code}`);
// src/view/policy/trials.tsx
var PATIENCE_MS = 6e4;
var EXAMPLE = `- command: git status
  expect: allow
- command: git push
  expect: ask
- command: sudo id
  expect: reject`;
function useTrial(path) {
	const [isAsking, setAsking] = useState(false);
	const [problem, setProblem] = useState("");
	const [answer, setAnswer] = useState(void 0);
	async function ask(body) {
		if (isAsking) return;
		setAsking(true);
		setProblem("");
		try {
			setAnswer(await json("POST", path, {
				body,
				signal: AbortSignal.timeout(PATIENCE_MS)
			}));
		} catch (error) {
			setAnswer(void 0);
			if (error instanceof Unreachable) setProblem("No answer came. Try again.");
			else if (!(error instanceof Refused)) throw error;
			else if (error.isSignedOut) failed(error);
			else setProblem(reasons(error));
		}
		setAsking(false);
	}
	return {
		isAsking,
		problem,
		answer,
		ask,
		complain: setProblem
	};
}
function Cases() {
	const [text, setText] = useState("");
	const { isAsking, problem, answer, ask, complain } = useTrial("/v1/policy/tests");
	return createVNode("section", {
		class: "panel",
		id: "policy-cases",
		"aria-labelledby": "policy-cases-title",
		"aria-busy": isAsking,
		children: [
			createVNode("h2", {
				id: "policy-cases-title",
				children: "Test the policy"
			}),
			createVNode("p", {
				class: "hint",
				children: [
					"Say what you expect of it: up to 100 commands, each with ",
					createVNode("code", { children: "allow" }),
					", ",
					createVNode("code", { children: "ask" }),
					" or ",
					createVNode("code", { children: "reject" }),
					". YAML or JSON, as for ",
					createVNode("code", { children: "countersign policy test" }),
					". Nothing runs."
				]
			}),
			createVNode("form", {
				class: "fields",
				noValidate: true,
				onSubmit: (event) => {
					event.preventDefault();
					if (text.trim()) ask({ cases: text });
					else complain("Write a case first, or begin with the example.");
				},
				children: [createVNode("div", {
					class: "field",
					children: [createVNode("label", {
						for: "policy-cases-text",
						children: "Cases"
					}), createVNode("textarea", {
						id: "policy-cases-text",
						rows: 7,
						autocomplete: "off",
						autocapitalize: "none",
						spellcheck: false,
						placeholder: EXAMPLE,
						value: text,
						onInput: (event) => setText(event.currentTarget.value)
					})]
				}), createVNode("p", {
					class: "panel-end",
					children: [createVNode("button", {
						type: "button",
						class: "quiet",
						"data-act": "example",
						hidden: text !== "",
						onClick: () => setText(EXAMPLE),
						children: "Begin with the example"
					}), createVNode("button", {
						type: "submit",
						class: "primary",
						"aria-disabled": isAsking,
						children: "Test"
					})]
				})]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				role: "status",
				id: "policy-cases-answer",
				children: answer && createVNode(Tested, { answer })
			})
		]
	});
}
function Tested({ answer }) {
	const { tone, text } = tested(answer);
	return createVNode(Fragment, { children: [createVNode("p", { children: createVNode("span", {
		class: `badge ${tone}`,
		children: text
	}) }), answer.failed.length > 0 && createVNode("ul", {
		class: "checks",
		"aria-label": "Cases that are not as expected",
		children: answer.failed.map(({ id, command, expected, actual, why }) => createVNode("li", {
			"data-case": id,
			children: [
				createVNode(Mono, { text: command }),
				` (case ${visible(id)}): expected `,
				createVNode("strong", { children: visible(expected) }),
				", but the policy says ",
				createVNode("strong", { children: visible(actual) }),
				": ",
				createVNode("bdi", { children: visible(why) })
			]
		}, id))
	})] });
}
var AGES = [
	["1", "the last day"],
	["7", "the last 7 days"],
	["30", "the last 30 days"]
];
var DAY_MS = 864e5;
function Backtest({ agentId, waits }) {
	const [document, setDocument] = useState("");
	const [age, setAge] = useState("7");
	const { isAsking, problem, answer, ask } = useTrial("/v1/policy/backtest");
	return createVNode("section", {
		class: "panel",
		id: "policy-backtest",
		"aria-labelledby": "policy-backtest-title",
		"aria-busy": isAsking,
		children: [
			createVNode("h2", {
				id: "policy-backtest-title",
				children: "Try it on past runs"
			}),
			createVNode("p", {
				class: "hint",
				children: `Judges what ran${agentId === void 0 ? "" : " of this agent"} again. Without a text you see ${waits ? "what accepting the change that waits would do" : "whether the present policy would decide as it was decided then"}. Nothing runs, and nothing is changed.`
			}),
			createVNode("form", {
				class: "fields",
				noValidate: true,
				onSubmit: (event) => {
					event.preventDefault();
					ask({
						...agentId === void 0 ? {} : { agentId },
						...document.trim() ? { document } : {},
						sinceMs: Date.now() - Number(age) * DAY_MS
					});
				},
				children: [
					createVNode("div", {
						class: "field",
						children: [createVNode("label", {
							for: "backtest-document",
							children: "Another approvals document (exec-approvals.json), if you want to try one"
						}), createVNode("textarea", {
							id: "backtest-document",
							rows: 4,
							autocomplete: "off",
							autocapitalize: "none",
							spellcheck: false,
							placeholder: "{\"version\": 1, \"agents\": {\"main\": {\"allowlist\": [{\"pattern\": \"/usr/bin/git\"}]}}}",
							value: document,
							onInput: (event) => setDocument(event.currentTarget.value)
						})]
					}),
					createVNode("div", {
						class: "field",
						children: [createVNode("label", {
							for: "backtest-age",
							children: "Runs of"
						}), createVNode("select", {
							id: "backtest-age",
							value: age,
							onChange: (event) => setAge(event.currentTarget.value),
							children: AGES.map(([value, words]) => createVNode("option", {
								value,
								children: words
							}, value))
						})]
					}),
					createVNode("p", {
						class: "panel-end",
						children: createVNode("button", {
							type: "submit",
							class: "primary",
							"aria-disabled": isAsking,
							children: isAsking ? "Judging …" : "See what would change"
						})
					})
				]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				role: "status",
				id: "policy-backtest-answer",
				children: answer && createVNode(Changed, { answer })
			})
		]
	});
}
function Changed({ answer }) {
	const { tone, text, parts } = changedBy(answer);
	const { changed, omitted, skippedBy } = answer;
	const skipped = skippedBecause(skippedBy);
	return createVNode(Fragment, { children: [
		createVNode("p", {
			class: `verdict ${tone === "warn" ? "warn-line" : ""}`,
			children: text
		}),
		parts.length > 0 && createVNode("ul", {
			class: "checks",
			"aria-label": "How",
			children: parts.map((part) => createVNode("li", { children: part }, part))
		}),
		changed.length > 0 && createVNode("div", {
			class: "table-box",
			tabIndex: 0,
			role: "region",
			"aria-label": "Commands that would be decided differently",
			children: createVNode("table", {
				class: "figures changes",
				children: [createVNode("thead", { children: createVNode("tr", { children: [
					createVNode("th", {
						scope: "col",
						children: "Command"
					}),
					createVNode("th", {
						scope: "col",
						children: "Then → now"
					}),
					createVNode("th", {
						scope: "col",
						children: "Why"
					}),
					createVNode("th", {
						scope: "col",
						children: "Runs"
					})
				] }) }), createVNode("tbody", { children: changed.map((command) => createVNode("tr", { children: [
					createVNode("th", {
						scope: "row",
						children: [
							createVNode(Mono, { text: command.line }),
							createVNode("br", {}),
							createVNode("span", {
								class: "rule-more",
								children: [
									createVNode("bdi", { children: visible(command.agentId) }),
									" in ",
									createVNode(Mono, { text: command.cwd })
								]
							})
						]
					}),
					createVNode("td", { children: visible(verdicts(command)) }),
					createVNode("td", { children: createVNode("bdi", { children: visible(command.why) }) }),
					createVNode("td", { children: command.count.toLocaleString("en") })
				] }, command.lastRunId)) })]
			})
		}),
		omitted > 0 && createVNode("p", {
			class: "hint",
			children: [
				`${omitted.toLocaleString("en")} more runs differ. `,
				createVNode("code", { children: "countersign policy backtest --json" }),
				" lists all."
			]
		}),
		skipped.length > 0 && createVNode("details", { children: [createVNode("summary", { children: "Why some were not judged" }), createVNode("ul", {
			class: "checks",
			children: skipped.map((why) => createVNode("li", { children: why }, why))
		})] }),
		createVNode("p", {
			class: "hint",
			children: createVNode("a", {
				href: addressOf("runs"),
				children: "See the runs"
			})
		})
	] });
}
// src/pure/explained.ts
function outcome({ outcome: said, ...rest }) {
	if (said === "deny") return ["Would be denied", "bad"];
	if (said === "ask") return ["Would need approval", "warn"];
	if ("held" in rest && rest.held) return ["Would run, held to listed programs", "good"];
	return ["Would run", "good"];
}
var REASONS = {
	"ask-always": "The policy asks about every command.",
	"allowlist-miss": "The allowlist does not cover all of it.",
	"needs-person": "Only a person may allow this.",
	"security-deny": "Security is deny: nothing runs.",
	denylist: "A deny rule matches.",
	"no-approver": "A person would have to answer, and nobody can be asked now.",
	"program-not-found": "Its program is not on the PATH.",
	"tool-denied": "The tool policy denies the tool.",
	"document-refused": "The approvals document cannot be read.",
	stopped: "Everything is stopped.",
	preflight: "A check before the start refuses it.",
	"invalid-request": "It cannot be run as it is written.",
	"blocked-env": "It sets a variable that no call may set."
};
var because = (reason) => Object.hasOwn(REASONS, reason) ? REASONS[reason] ?? reason : reason;
function coverage({ match: { kind, pattern } }) {
	switch (kind) {
		case "allowlist": return `covered by the entry ${pattern ?? ""}`;
		case "grant": return `covered by an answer that still counts: ${pattern ?? ""}`;
		case "safe-bin": return "a safe program that reads standard input";
		case "builtin": return "a builtin that changes nothing";
		case "skill": return "a program of a skill";
		case "payload": return "judged by what it runs";
		case "denylist": return `a deny rule matches: ${pattern ?? ""}`;
		case "none": return "nothing covers it";
	}
}
var judged = (segments) => calls(segments).filter(({ match }) => match.kind !== "payload");
var against = ({ detail, rule }) => `${detail} (rule ${rule})`;
// src/view/policy/try.tsx
var MOST_CALLS = 50;
function Try({ agentId }) {
	const [command, setCommand] = useState("");
	const [workdir, setWorkdir] = useState("");
	const [isAsking, setAsking] = useState(false);
	const [problem, setProblem] = useState("");
	const [found, setFound] = useState(void 0);
	async function explain() {
		if (isAsking) return;
		const tried = command.trim();
		if (!tried) {
			setProblem("Write a command, such as git push.");
			return;
		}
		setAsking(true);
		setProblem("");
		try {
			const body = {
				command: tried,
				...agentId === void 0 ? {} : { agentId },
				...workdir.trim() ? { workdir: workdir.trim() } : {}
			};
			setFound({
				command: tried,
				explanation: await json("POST", "/v1/exec/explain", { body })
			});
		} catch (error) {
			setFound(void 0);
			if (!(error instanceof Refused)) setProblem("No answer came. Try again.");
			else if (error.isSignedOut) failed(error);
			else setProblem(reasons(error));
		}
		setAsking(false);
	}
	return createVNode("section", {
		class: "panel",
		id: "policy-try",
		"aria-labelledby": "policy-try-title",
		"aria-busy": isAsking,
		children: [
			createVNode("h2", {
				id: "policy-try-title",
				children: "Try a command"
			}),
			createVNode("p", {
				class: "hint",
				children: "See what would become of a command. Nothing starts, and nobody is asked."
			}),
			createVNode("form", {
				class: "fields",
				noValidate: true,
				onSubmit: (event) => {
					event.preventDefault();
					explain();
				},
				children: [
					createVNode("div", {
						class: "field",
						children: [createVNode("label", {
							for: "try-command",
							children: "Command"
						}), createVNode("input", {
							id: "try-command",
							type: "text",
							autocomplete: "off",
							autocapitalize: "none",
							spellcheck: false,
							placeholder: "git push origin main",
							value: command,
							onInput: (event) => setCommand(event.currentTarget.value)
						})]
					}),
					createVNode("div", {
						class: "field",
						children: [createVNode("label", {
							for: "try-workdir",
							children: "Directory (the workspace unless given)"
						}), createVNode("input", {
							id: "try-workdir",
							type: "text",
							autocomplete: "off",
							autocapitalize: "none",
							spellcheck: false,
							placeholder: "/srv/site",
							value: workdir,
							onInput: (event) => setWorkdir(event.currentTarget.value)
						})]
					}),
					createVNode("p", {
						class: "panel-end",
						children: createVNode("button", {
							type: "submit",
							class: "primary",
							"aria-disabled": isAsking,
							children: "Explain"
						})
					})
				]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				role: "status",
				id: "try-answer",
				children: found && createVNode(Answer, { ...found })
			})
		]
	});
}
function Answer({ command, explanation }) {
	const [words, tone] = outcome(explanation);
	const { analysis, security, ask, host } = explanation;
	const all = judged(analysis.segments);
	return createVNode(Fragment, { children: [
		createVNode("p", { children: [
			createVNode("span", {
				class: `badge ${tone}`,
				children: words
			}),
			" ",
			createVNode(Mono, { text: command })
		] }),
		"reason" in explanation && createVNode("p", { children: [
			visible(because(explanation.reason)),
			" ",
			createVNode("code", { children: visible(explanation.reason) })
		] }),
		all.length > 0 && createVNode("ul", {
			class: "checks",
			"aria-label": "Its programs",
			children: all.slice(0, MOST_CALLS).map((call, index) => createVNode("li", { children: [
				createVNode(Mono, { text: call.argv.join(" ") }),
				" ",
				createVNode("bdi", { children: visible(coverage(call)) })
			] }, index))
		}),
		all.length > MOST_CALLS && createVNode("p", {
			class: "hint",
			children: `${all.length - MOST_CALLS} more are not shown.`
		}),
		analysis.findings.length > 0 && createVNode("ul", {
			class: "checks",
			"aria-label": "What blocks it",
			children: analysis.findings.slice(0, MOST_CALLS).map((finding, index) => createVNode("li", { children: createVNode("bdi", { children: visible(against(finding)) }) }, index))
		}),
		createVNode("dl", {
			class: "facts",
			children: [
				["Where", host],
				["Security", security],
				["Ask", ask]
			].map(([name, { value, source }]) => createVNode(Fact, {
				name,
				children: [createVNode(Mono, { text: value }), source === "default" ? " built in" : createVNode(Fragment, { children: [" from ", createVNode(Mono, { text: source })] })]
			}, name))
		}),
		createVNode(WaysOut, { explanation })
	] });
}
function WaysOut({ explanation }) {
	const { toAllow, toRefuse, hint, outcome: comesTo } = explanation;
	const lines = toAllow.map((command) => [comesTo === "deny" ? "To allow exactly this" : "To stop asking about exactly this", command]);
	if (lines.length === 0 && hint) lines.push(["To change it", hint]);
	if (toRefuse) lines.push(["To refuse its program for good", toRefuse]);
	if (lines.length === 0) return null;
	return createVNode("dl", {
		class: "facts",
		"aria-label": "Commands that would change it",
		children: lines.map(([name, command]) => createVNode(Fact, {
			name,
			children: createVNode(Mono, { text: command })
		}, command))
	});
}
// src/view/policy/policy.tsx
var NAME_LENGTH = 40;
var PAUSE_MS = 300;
var ALL = "*";
var SECURITY = [
	["deny", "deny: nothing runs"],
	["allowlist", "allowlist: what the list covers"],
	["full", "full: everything"]
];
var ASK = [
	["always", "always: about everything"],
	["on-miss", "on-miss: about what the list misses"],
	["off", "off: never"]
];
var HOSTS = [
	["sandbox", "sandbox"],
	["gateway", "gateway: this machine"],
	["node", "node: another machine"],
	["auto", "auto: a sandbox, else this machine"]
];
var SECURITY_FIELD = {
	key: "security",
	title: "Security: what may run"
};
var ASK_FIELD = {
	key: "ask",
	title: "Ask: when a person is asked"
};
var DOCUMENT_FIELDS = [
	SECURITY_FIELD,
	ASK_FIELD,
	{
		key: "askFallback",
		title: "When nobody answers"
	}
];
var SETTINGS_FIELDS = [SECURITY_FIELD, ASK_FIELD];
var BINDING_FIELDS = [{
	key: "host",
	title: "Where commands run"
}, {
	key: "node",
	title: "Node"
}];
function Policy() {
	const hint = useValue(hints.policy) + useValue(hints.all);
	const [agent, setAgent] = useState(ALL);
	const [all, setAll] = useState(void 0);
	const [problem, setProblem] = useState("");
	const asked = useRef(0);
	const now = useRef(agent);
	now.current = agent;
	const mayChange = may("admin");
	async function refresh() {
		asked.current += 1;
		const mine = asked.current;
		try {
			const next = await loaded(now.current);
			if (mine !== asked.current || gone.value !== void 0) return;
			setProblem("");
			setAll(next);
		} catch (error) {
			if (!(error instanceof Refused) || error.isSignedOut) throw error;
			if (mine !== asked.current) return;
			setAll(void 0);
			setProblem(error.message);
		}
	}
	const [refreshSoon] = useState(() => looker(() => refresh(), PAUSE_MS));
	useEffect(() => {
		refresh().catch(failed);
	}, [agent]);
	useEffect(() => {
		if (hint) refreshSoon();
	}, [hint]);
	const saved = () => refresh().catch(failed);
	const names = [...new Set([...(all?.known ?? []).map(({ agentId }) => agentId), ...agent === ALL ? [] : [agent]])];
	return createVNode("div", {
		class: "policy-body",
		id: "policy-body",
		children: [
			createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: "policy-agent",
					children: "Agent"
				}), createVNode("select", {
					id: "policy-agent",
					value: agent,
					onChange: (event) => setAgent(event.currentTarget.value),
					children: [createVNode("option", {
						value: ALL,
						children: "All agents (*)"
					}), names.map((name) => createVNode("option", {
						value: name,
						children: brief(name, NAME_LENGTH)
					}, name))]
				})]
			}),
			!mayChange && createVNode("p", {
				class: "hint",
				children: "You can look at this, but not change it: your sign-in lacks the scope admin."
			}),
			createVNode(Wrong, { text: problem }),
			all && createVNode("div", {
				class: "panels",
				"data-agent": all.agent,
				children: [
					createVNode(Held, {
						effective: all.effective,
						changed: saved
					}),
					createVNode(InForce, {
						effective: all.effective,
						lists: all.lists
					}),
					createVNode(Try, { agentId: all.agent === ALL ? void 0 : all.agent }, `try-${all.agent}`),
					createVNode(Presets, {
						who: all.who,
						agentId: all.agent === ALL ? void 0 : all.agent,
						here: all.here,
						changed: saved
					}, `presets-${all.agent}`),
					createVNode(Form, {
						id: "policy-document",
						title: "Approvals document",
						hint: "What exec-approvals.json says. The stricter of document and settings is in effect.",
						fields: DOCUMENT_FIELDS,
						known: documentKnown(all),
						load: async () => documentKnown(await loaded(now.current)),
						save: saveDocument,
						saved
					}),
					createVNode(Form, {
						id: "policy-settings",
						title: "Settings",
						hint: "What tools.exec of openclaw.json says. An agent's own value overrides the value for all agents.",
						fields: SETTINGS_FIELDS,
						known: settingsKnown(all, SETTINGS_FIELDS),
						load: async () => settingsKnown(await loaded(now.current), SETTINGS_FIELDS),
						save: saveSettings,
						saved
					}),
					createVNode(Form, {
						id: "policy-binding",
						title: "Exec node binding",
						hint: "tools.exec.host and tools.exec.node. A bound agent can use only this node. The node's own rules still apply.",
						fields: BINDING_FIELDS,
						known: settingsKnown(all, BINDING_FIELDS),
						load: async () => settingsKnown(await loaded(now.current), BINDING_FIELDS),
						save: saveSettings,
						saved
					}),
					["allowlist", "denylist"].map((kind) => createVNode(Rules, {
						kind,
						agent: all.agent,
						who: all.who,
						items: all.lists[kind].items,
						hasMore: all.lists[kind].more,
						changed: saved
					}, kind)),
					createVNode(Cases, {}),
					createVNode(Backtest, {
						agentId: all.agent === ALL ? void 0 : all.agent,
						waits: Boolean(all.effective.document.held ?? all.effective.configHeld)
					}, `backtest-${all.agent}`),
					createVNode(Suggestions, {
						agentId: all.agent === ALL ? void 0 : all.agent,
						changed: saved
					}, `suggestions-${all.agent}`),
					createVNode(Forecast, { hint }),
					createVNode(Settings, { items: all.settings })
				]
			})
		]
	});
}
function placeOf(key, source) {
	if (key === "host" || key === "node") return `policy-binding-${key}`;
	return key === "askFallback" || source.startsWith("exec-approvals.json") ? `policy-document-${key}` : `policy-settings-${key}`;
}
function InForce({ effective: { security, ask, askFallback, host, node, approvalsApply, onNode }, lists }) {
	const remark = !approvalsApply ? "Commands go to a sandbox, where no approvals apply. Security and ask are what would apply on this machine." : onNode ? `Commands go to a node, whose own approvals document applies there instead of this one${onNode.document === "unknown" ? "; it is not known here" : ""}.` : "";
	const rows = [
		[
			"security",
			"Security",
			security
		],
		[
			"ask",
			"Ask",
			ask
		],
		[
			"askFallback",
			"When nobody answers",
			askFallback
		],
		[
			"host",
			"Where",
			host
		],
		[
			"node",
			"Node",
			node
		]
	];
	const count = ({ items, more }, one, many) => `${items.length}${more ? " or more" : ""} ${items.length === 1 ? one : many}`;
	return createVNode("section", {
		class: "panel",
		id: "policy-force",
		"aria-labelledby": "policy-force-title",
		children: [
			createVNode("h2", {
				id: "policy-force-title",
				children: "Effective policy"
			}),
			remark && createVNode("p", {
				class: "hint",
				children: remark
			}),
			createVNode("div", {
				class: "table-box",
				tabIndex: 0,
				role: "region",
				"aria-label": "Values of the effective policy",
				children: createVNode("table", {
					class: "figures in-force",
					children: [createVNode("thead", { children: createVNode("tr", { children: [
						createVNode("th", {
							scope: "col",
							children: "What"
						}),
						createVNode("th", {
							scope: "col",
							children: "In effect"
						}),
						createVNode("th", {
							scope: "col",
							children: "Set where"
						}),
						may("admin") && createVNode("th", {
							scope: "col",
							children: "Change"
						})
					] }) }), createVNode("tbody", { children: [
						rows.map(([key, title, said]) => said && createVNode("tr", { children: [
							createVNode("th", {
								scope: "row",
								children: title
							}),
							createVNode("td", {
								"data-name": "In effect",
								children: createVNode(Mono, { text: said.value })
							}),
							createVNode("td", {
								"data-name": "Set where",
								children: said.source === "default" ? "built in" : createVNode(Mono, { text: said.source })
							}),
							createVNode(Change, {
								title,
								to: placeOf(key, said.source)
							})
						] }, key)),
						createVNode("tr", { children: [
							createVNode("th", {
								scope: "row",
								children: "Allowlist"
							}),
							createVNode("td", {
								"data-name": "In effect",
								children: count(lists.allowlist, "entry", "entries")
							}),
							createVNode("td", {
								"data-name": "Set where",
								children: createVNode(Mono, { text: "exec-approvals.json" })
							}),
							createVNode(Change, {
								title: "Allowlist",
								to: "policy-allowlist-pattern"
							})
						] }),
						createVNode("tr", { children: [
							createVNode("th", {
								scope: "row",
								children: "Deny rules"
							}),
							createVNode("td", {
								"data-name": "In effect",
								children: count(lists.denylist, "rule", "rules")
							}),
							createVNode("td", {
								"data-name": "Set where",
								children: createVNode(Mono, { text: "exec-approvals.json" })
							}),
							createVNode(Change, {
								title: "Deny rules",
								to: "policy-denylist-pattern"
							})
						] })
					] })]
				})
			})
		]
	});
}
function Change({ title, to }) {
	if (!may("admin")) return null;
	return createVNode("td", { children: createVNode("button", {
		type: "button",
		class: "quiet",
		"data-change": to,
		onClick: () => document.getElementById(to)?.focus(),
		children: ["Change", createVNode("span", {
			class: "unseen",
			children: ` ${title}`
		})]
	}) });
}
async function loaded(agent) {
	const config = await tagged("/v1/config");
	const known = (await everything("/v1/agents", 500)).items;
	const path = `/v1/policy/effective?agentId=${encodeURIComponent(agent === ALL ? nobody(known) : agent)}`;
	const list = (kind) => everything(`/v1/agents/${encodeURIComponent(agent)}/${kind}`, 500);
	const [document, effective, here, nodes, settings, allowlist, denylist] = await Promise.all([
		tagged(policyPath(agent)),
		json("GET", path),
		json("GET", `${path}&host=gateway`),
		everything("/v1/nodes", 500),
		json("GET", "/v1/settings"),
		list("allowlist"),
		list("denylist")
	]);
	return {
		agent,
		who: agent === ALL ? "all agents" : `agent ${agent}`,
		config,
		known,
		document,
		effective,
		here,
		nodes: nodes.items,
		settings: settings.items,
		lists: {
			allowlist,
			denylist
		}
	};
}
var policyPath = (agent) => `/v1/agents/${encodeURIComponent(agent)}/policy`;
function nobody(known) {
	let name = "any-other";
	while (known.some(({ agentId }) => agentId === name)) name += "-";
	return name;
}
function documentKnown({ agent, who, document, here }) {
	const below = agent === ALL ? ["document-defaults"] : ["document-defaults", "document-wildcard"];
	const above = (key) => here[key].layers.filter(({ layer }) => below.includes(layer)).at(-1)?.value;
	const said = {
		security: above("security"),
		ask: above("ask"),
		askFallback: above("askFallback")
	};
	const words = (value, none = "not set") => value ? `inherited: ${value}` : none;
	const { security, ask, askFallback } = document.body;
	return {
		who,
		tag: document.tag,
		path: policyPath(agent),
		body: document.body,
		values: {
			security: security ?? void 0,
			ask: ask ?? void 0,
			askFallback: askFallback ?? void 0
		},
		inherited: {
			security: said.security ?? "full",
			ask: said.ask ?? "off",
			askFallback: said.askFallback ?? "deny"
		},
		without: {
			security: words(said.security),
			ask: words(said.ask),
			askFallback: words(said.askFallback, "not set: deny")
		},
		choices: {
			security: SECURITY,
			ask: ASK,
			askFallback: SECURITY
		}
	};
}
async function saveDocument({ tag, path, body }, chosen) {
	await json("PUT", path, {
		body: {
			...body,
			...chosen
		},
		headers: { "If-Match": tag }
	});
}
function settingsKnown({ agent, who, config, known, nodes }, fields) {
	const items = new Map(config.body.items.map((item) => [item.path, item]));
	const named = known.find(({ agentId }) => agentId === agent)?.configPath ?? `agents.entries.${JSON.stringify(agent)}`;
	const own = agent === ALL ? "" : `${named}.`;
	const found = {
		who,
		tag: config.tag,
		values: {},
		inherited: {},
		without: {},
		paths: {},
		choices: {
			security: SECURITY,
			ask: ASK,
			host: HOSTS,
			node: nodes.map(nodeChoice)
		}
	};
	const text = (value) => typeof value === "string" ? value : void 0;
	for (const { key } of fields) {
		const path = `${own}tools.exec.${key}`;
		const item = items.get(path);
		const general = items.get(`tools.exec.${key}`);
		const inherited = text(agent === ALL ? general?.default : general?.value);
		const words = inherited ?? (key === "node" ? "any node" : "not set");
		found.paths[key] = path;
		found.values[key] = item && item.source !== "default" ? text(item.value) : void 0;
		found.inherited[key] = inherited;
		found.without[key] = agent === ALL ? `not set: ${words}` : `as for all agents: ${words}`;
	}
	return found;
}
async function saveSettings({ tag, values, paths }, chosen) {
	const changed = Object.keys(chosen).filter((key) => chosen[key] !== values[key]);
	const pathOf = (key) => paths[key] ?? key;
	const set = Object.fromEntries(changed.filter((key) => chosen[key] !== void 0).map((key) => [pathOf(key), chosen[key]]));
	const unset = changed.filter((key) => chosen[key] === void 0).map(pathOf);
	await json("PATCH", "/v1/config", {
		body: {
			set,
			unset
		},
		headers: { "If-Match": tag }
	});
}
var nodeChoice = ({ nodeId, displayName, connected }) => [nodeId, `${displayName ? `${brief(displayName, NAME_LENGTH)} ` : ""}${nodeId.slice(0, 8)}…${connected ? "" : " (offline)"}`];
async function tagged(path) {
	const response = await send("GET", path);
	return {
		tag: response.headers.get("etag") ?? "",
		body: await response.json()
	};
}
export { Policy };
