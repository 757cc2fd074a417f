import { Fact, Fragment, Mono, Refused, Time, Wrong, brief, createVNode, everything, hints, json, useMemo, useState, useValue, visible } from "./app.js";
import { AGES, Filter, Listing, query, sinceOf, useFilter, usePaged } from "./lists.js";
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
function Row({ record: { seq, ts, actor, action, target, outcome, detail, hash } }) {
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
export { Audit };
