import { Fact, Fragment, Mono, Refused, Time, Wrong, __vitePreload, brief, byteSize, createVNode, duration, failed, hints, json, may, outcome, runStatus, useEffect, useState, useValue, visible, who } from "./app.js";
import { Cancel, Filter, Listing, LiveOutput, dayOf, query, useAgents, useFilter, usePaged } from "./lists.js";
import { Output } from "./record.js";
// src/pure/story.ts
var VERDICTS$1 = {
	run: "Policy let it run.",
	ask: "Policy wanted a person's answer.",
	deny: "Policy denied it."
};
var ANSWERS = {
	"allow-once": "allowed it once",
	"allow-always": "allowed it always",
	deny: "denied it"
};
function told(event) {
	const { type, reason } = event;
	const why = reason ? `: ${reason}` : "";
	switch (type) {
		case "exec.requested": return ["request", `${who(event.requestedBy)} asked for it. ${VERDICTS$1[event.verdict ?? ""] ?? ""}`.trim()];
		case "exec.approval.requested": return ["request", "The question was put to people."];
		case "exec.approval.voted": return ["question", `${who(event.by)} ${ANSWERS[event.decision ?? "allow-once"]} (${event.votes ?? "?"} of ${event.approvalsRequired ?? "?"}).`];
		case "exec.approval.resolved": {
			const { title, detail } = outcome({
				...event,
				status: event.status
			});
			return ["question", `${title}. ${detail}`.trim()];
		}
		case "exec.started": return ["request", event.sessionId ? `It started, as session ${event.sessionId}.` : "It started."];
		case "exec.running": return ["command", `It was still running after ${duration(event.elapsedMs ?? 0)}.`];
		case "exec.finished": {
			const end = event.exitCode !== void 0 ? `, exit ${event.exitCode}` : event.exitSignal ? `, ${event.exitSignal}` : "";
			return ["request", `It ended: ${runStatus(event.status ?? "").label}${end}, after ${duration(event.durationMs ?? 0)}${why}.`];
		}
		case "exec.denied": return ["request", `It was denied${why}.${event.detail ? ` ${event.detail}` : ""}`];
		case "allowlist.changed": return ["request", event.change === "used" ? "An entry covered it." : `An entry was ${event.change ?? "changed"} for it.`];
		case "system.event": return ["command", `Its session was told: ${event.text ?? ""}`];
		case "session.wake": return ["command", "Its agent was asked to look."];
		default: return ["request", type];
	}
}
function story(events) {
	const steps = [];
	const last = {};
	for (const event of events) {
		const [place, words] = told(event);
		const step = {
			atMs: event.atMs,
			words: visible(words),
			steps: []
		};
		((event.type === "exec.requested" ? void 0 : last[place] ?? last.request)?.steps ?? steps).push(step);
		if (event.type === "exec.requested") last.request = step;
		if (event.type === "exec.approval.requested") last.question = step;
		if (event.type === "exec.started") last.command = step;
	}
	return steps;
}
// src/view/story.tsx
var MOST = 200;
function Story({ run: { runId, status } }) {
	const [isOpen, setOpen] = useState(false);
	const [steps, setSteps] = useState(void 0);
	const [problem, setProblem] = useState("");
	useEffect(() => {
		if (!isOpen) return void 0;
		let isOver = false;
		json("GET", `/v1/events?runId=${encodeURIComponent(runId)}&limit=${MOST}`).then(({ items }) => {
			if (isOver) return;
			setSteps(story(items));
			setProblem("");
		}, (error) => {
			if (isOver) return;
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.sentence : "The steps could not be loaded. Close them and open them again.");
		});
		return () => {
			isOver = true;
		};
	}, [
		isOpen,
		runId,
		status
	]);
	const id = `story-${runId}`;
	return createVNode(Fragment, { children: [createVNode("button", {
		type: "button",
		class: "quiet",
		"data-act": "story",
		"aria-expanded": isOpen,
		"aria-controls": id,
		onClick: () => setOpen(!isOpen),
		children: isOpen ? "Close the steps" : "What happened"
	}), createVNode("div", {
		id,
		hidden: !isOpen,
		children: isOpen && createVNode(Fragment, { children: [
			createVNode(Wrong, { text: problem }),
			!steps && !problem && createVNode("p", {
				class: "hint",
				children: "Loading …"
			}),
			steps?.length === 0 && createVNode("p", {
				class: "hint",
				children: "The events of this run are not kept any more. The audit log has its records."
			}),
			steps && steps.length > 0 && createVNode(Steps, { steps })
		] })
	})] });
}
var Steps = ({ steps }) => createVNode("ol", {
	class: "story",
	children: steps.map(({ atMs, words, steps: below }, place) => createVNode("li", { children: [
		createVNode("bdi", { children: words }),
		" ",
		createVNode("span", {
			class: "run-meta",
			children: createVNode(Time, { ms: atMs })
		}),
		below.length > 0 && createVNode(Steps, { steps: below })
	] }, place))
});
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
			key: "day",
			title: "Day",
			kind: "day"
		},
		{
			key: "q",
			title: "Text of the command",
			hint: "git push"
		}
	];
	const { agent, status, day, q } = useFilter(fields);
	const hint = useValue(hints.runs) + useValue(hints.all);
	const list = usePaged(`/v1/runs?${query({
		limit: "50",
		agentId: agent,
		status,
		...dayOf(day),
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
		none: Boolean(agent || status || day || q) ? createVNode("p", { children: ["No run matches the filter. ", createVNode("a", {
			href: "#/runs",
			children: "Show all runs"
		})] }) : createVNode("p", { children: [
			"Nothing has run yet. What an agent asks for appears here; try it with ",
			createVNode("code", { children: "countersign exec -- date" }),
			"."
		] })
	})] });
}
function Terminals() {
	const fields = [
		{
			key: "agent",
			title: "Agent",
			choices: useAgents()
		},
		{
			key: "day",
			title: "Day",
			kind: "day"
		},
		{
			key: "q",
			title: "Text of the command",
			hint: "vim"
		}
	];
	const { agent, day, q } = useFilter(fields);
	const hint = useValue(hints.runs) + useValue(hints.all);
	const list = usePaged(`/v1/runs?${query({
		limit: "50",
		pty: "true",
		agentId: agent,
		...dayOf(day),
		q
	})}`, ({ runId }) => runId, hint);
	return createVNode(Fragment, { children: [createVNode(Filter, {
		view: "terminals",
		fields
	}), createVNode(Listing, {
		id: "terminals",
		title: "Terminals",
		list,
		row: (run) => createVNode(Row, {
			run,
			changed: list.refresh,
			isRecording: true
		}, run.runId),
		none: Boolean(agent || day || q) ? createVNode("p", { children: ["No terminal matches the filter. ", createVNode("a", {
			href: "#/terminals",
			children: "Show all terminals"
		})] }) : createVNode("p", { children: [
			"Nothing has run on a terminal yet. A command that an agent starts with ",
			createVNode("code", { children: "pty" }),
			" is recorded, and you can replay it here. Try it with ",
			createVNode("code", { children: "countersign exec --pty -- top" }),
			"."
		] })
	})] });
}
function Row({ run, changed, isRecording = false }) {
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
				may("read") && createVNode(Story, { run }),
				isLive && may("admin") && createVNode(Cancel, {
					run,
					changed
				}),
				run.startedAtMs !== void 0 && run.outputBytes > 0 && createVNode(Recording, {
					run,
					isFirst: isRecording
				}),
				isRecording && !run.outputBytes && createVNode("p", {
					class: "hint",
					children: "No output."
				}),
				isRecording ? null : isLive ? createVNode(LiveOutput, {
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
function Recording({ run, isFirst }) {
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
	useEffect(() => {
		if (isFirst) toggle();
	}, []);
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
	ask: "Put to a person",
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
				name: "More context",
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
export { Runs, Terminals };
