import { Fact, Fragment, Mono, Time, brief, byteSize, createVNode, duration, hints, may, runStatus, useState, useValue, visible, visibleOutput } from "./app.js";
import { Cancel, Filter, Listing, LiveOutput, query, useAgents, useFilter, usePaged } from "./lists.js";
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
export { Sessions };
