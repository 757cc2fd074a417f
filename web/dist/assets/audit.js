import { Fact, Fragment, Mono, Refused, Time, Wrong, addressOf, brief, createVNode, everything, hints, json, runStatus, useMemo, useState, useValue, visible } from "./app.js";
import { AGES, Filter, Listing, query, sinceOf, useFilter, usePaged } from "./lists.js";
// src/pure/audit.ts
var PLAIN = {
	"approval.voted": "answered a request that takes several people",
	"audit.pruned": "removed old records of the log",
	"audit.reset": "began the log anew",
	"config.changed": "changed the settings",
	"document.replaced": "replaced the approvals document",
	"exec.resume-proposed": "wants to resume",
	"exec.stop-kills": "ended what was running",
	login: "signed in",
	"login.failed": "could not sign in",
	"login.revoked": "signed a browser out",
	"node.renamed": "renamed a node",
	"policy.changed": "changed the policy",
	"process.input": "sent input to a session",
	"question.joined": "joined a request that waits",
	"questions.refused": "refused requests over the limit",
	"run.forgotten": "found a run that its record had lost",
	"runs.pruned": "removed old runs",
	"token.accepted": "accepted a token",
	"token.created": "made a token",
	"token.revoked": "revoked a token"
};
var ENDS = {
	allowed: "allowed",
	denied: "denied",
	expired: "let expire",
	cancelled: "withdrew"
};
var LISTS = {
	allowlist: "an allowlist entry",
	denylist: "a deny rule"
};
function recordSaid({ action, detail }) {
	const members = typeof detail === "object" && detail !== null ? detail : {};
	const text = (name) => typeof members[name] === "string" ? members[name] : "";
	const of = text("agentId") && ` of ${text("agentId")}`;
	const why = (name) => text(name) && `: ${text(name)}`;
	const command = text("command");
	const agent = text("agentId");
	const said = (words) => ({ words });
	const about = (words) => command ? {
		words,
		command,
		...agent && { agent }
	} : { words: `${words} a command${of}` };
	switch (action) {
		case "exec.requested": return about("asked to run");
		case "exec.approval.requested": return about("waits for an answer about");
		case "exec.approval.resolved":
			if (text("terminalReason") === "taken-back") return said(`took back the answer to a request${of}${why("reason")}`);
			return said(`${Object.hasOwn(ENDS, text("status")) ? ENDS[text("status")] : "ended"}${text("decision") === "allow-once" ? " once" : text("decision") === "allow-always" ? " always" : ""} a request${of}${why("reason")}`);
		case "exec.denied": return said(`denied a command${of}${why("detail") || why("reason")}`);
		case "exec.started": return said(`started a command${of}`);
		case "exec.finished": return said(`recorded the end of a command${of}: ${runStatus(text("status")).label}${typeof members["exitCode"] === "number" ? `, exit code ${members["exitCode"]}` : ""}`);
		case "exec.stopped": return said(`stopped everything${why("reason")}`);
		case "exec.resumed": return said(`let everything go on${why("reason")}`);
		case "allowlist.changed": return said(`${text("change") || "changed"} ${Object.hasOwn(LISTS, text("list")) ? LISTS[text("list")] : "an entry"}${of}`);
		case "token.created": return said(`${PLAIN[action]}${text("name") && ` for ${text("name")}`}`);
		default: return said(Object.hasOwn(PLAIN, action) ? PLAIN[action] ?? action : action);
	}
}
// src/view/audit.tsx
var MOST_EXPORTED = 5e4;
var FIELDS = [
	{
		key: "action",
		title: "Action",
		hint: "exec.denied"
	},
	{
		key: "actor",
		title: "Who, by id",
		hint: "the id of a token"
	},
	{
		key: "age",
		title: "Recorded",
		choices: AGES
	}
];
var TONES = {
	ok: "good",
	denied: "bad",
	failed: "warn"
};
function Audit() {
	const { action, actor, age } = useFilter(FIELDS);
	const since = useMemo(() => sinceOf(age), [age]);
	const hint = useValue(hints.runs) + useValue(hints.approvals) + useValue(hints.policy) + useValue(hints.all);
	const filter = query({
		action,
		actor,
		since
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
			row: (record) => createVNode(Row, { record }, record.seq),
			none: action || actor || age ? createVNode("p", { children: ["No record matches the filter. ", createVNode("a", {
				href: "#/audit",
				children: "Show all records"
			})] }) : createVNode("p", { children: "Nothing is recorded yet." })
		})
	] });
}
function Row({ record }) {
	const { seq, ts, actor, action, target, outcome, detail, hash } = record;
	const { words, command, agent } = recordSaid(record);
	const approval = target.kind === "approval" ? target.id : void 0;
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
						createVNode("strong", { children: createVNode("bdi", { children: brief(actor.name, 60) }) }),
						" ",
						createVNode("bdi", { children: brief(words, 200) }),
						command !== void 0 && createVNode(Fragment, { children: [" ", createVNode("code", {
							dir: "ltr",
							children: brief(command, 160)
						})] }),
						agent !== void 0 && createVNode(Fragment, { children: [" for ", createVNode("bdi", { children: brief(agent, 60) })] })
					]
				}),
				createVNode("span", {
					class: "run-meta",
					children: [
						`${seq} · `,
						createVNode(Time, { ms: ts }),
						" · ",
						createVNode("code", { children: visible(action) }),
						` · ${brief(`${target.kind} ${target.id}`, 80)}`
					]
				})
			]
		}), createVNode("div", {
			class: "run-body",
			children: [
				createVNode("dl", {
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
				}),
				approval && createVNode("p", { children: createVNode("a", {
					href: `/a/${encodeURIComponent(approval)}`,
					children: "The request and its run"
				}) }),
				createVNode("p", { children: [
					"Show only ",
					createVNode("a", {
						href: addressOf("audit", { actor: actor.id }),
						children: [
							"what ",
							createVNode("bdi", { children: brief(actor.name, 60) }),
							" did"
						]
					}),
					" or ",
					createVNode("a", {
						href: addressOf("audit", { action }),
						children: ["each ", createVNode("code", { children: visible(action) })]
					})
				] }),
				createVNode("pre", {
					class: "output",
					tabIndex: 0,
					role: "group",
					"aria-label": "Detail",
					children: visible(JSON.stringify(detail, null, 2), "\n")
				})
			]
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
export { Audit };
