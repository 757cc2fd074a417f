import { Fact, Fragment, Mono, Time, Wrong, __vitePreload, brief, byteSize, createVNode, duration, hints, may, runStatus, useState, useValue, visible } from "./app.js";
import { Cancel, Filter, Listing, LiveOutput, Output, query, useAgents, useFilter, usePaged } from "./lists.js";
// src/view/runs.tsx
var STATES = [
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
			choices: [["", "Any state"], ...STATES.map((state) => [state, runStatus(state).label])]
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
		row: (run) => createVNode(Row, {
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
function Row({ run, changed }) {
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
				run.startedAtMs !== void 0 && run.outputBytes > 0 && createVNode(Recording, { run }),
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
function Recording({ run }) {
	const [Player, setPlayer] = useState(void 0);
	const [isOpen, setOpen] = useState(false);
	const [problem, setProblem] = useState("");
	const id = `recording-${run.runId}`;
	function toggle() {
		setOpen(!isOpen);
		if (Player || isOpen) return;
		__vitePreload(async () => {
			const { Replay } = await import("./replay.js");
			return { Replay };
		}, []).then(({ Replay }) => {
			setPlayer(() => Replay);
			setProblem("");
		}, () => setProblem("The player could not be loaded. Close it, and try again."));
	}
	return createVNode(Fragment, { children: [createVNode("button", {
		type: "button",
		class: "quiet",
		"aria-expanded": isOpen,
		"aria-controls": id,
		onClick: toggle,
		children: isOpen ? "Close the recording" : "Replay"
	}), createVNode("div", {
		id,
		hidden: !isOpen,
		children: isOpen && (Player ? createVNode(Player, { run }) : createVNode(Fragment, { children: [createVNode(Wrong, { text: problem }), !problem && createVNode("p", {
			class: "hint",
			children: "Loading …"
		})] }))
	})] });
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
export { Runs };
