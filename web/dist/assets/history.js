import { Fact, Fragment, Mono, Time, brief, createVNode, hints, lineOf, outcome, placeOf, useMemo, useValue, visible } from "./app.js";
import { AGES, Filter, Listing, dayOf, query, sinceOf, useAgents, useFilter, usePaged } from "./lists.js";
// src/view/history.tsx
var STATES = [
	["all", "Any answer"],
	["allowed", "Allowed"],
	["denied", "Denied"],
	["expired", "Expired"],
	["cancelled", "Cancelled"],
	["pending", "Waiting"]
];
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
			choices: STATES.map(([value, words]) => [value === "all" ? "" : value, words])
		},
		{
			key: "days",
			title: "Asked",
			choices: AGES
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
	const { agent, status, days, day, q } = useFilter(fields);
	const since = useMemo(() => sinceOf(days), [days]);
	const hint = useValue(hints.approvals) + useValue(hints.all);
	const list = usePaged(`/v1/approvals?${query({
		limit: "50",
		agentId: agent,
		status: status || "all",
		since,
		...dayOf(day),
		q
	})}`, ({ id }) => id, hint);
	return createVNode(Fragment, { children: [createVNode(Filter, {
		view: "history",
		fields
	}), createVNode(Listing, {
		id: "history",
		title: "Requests and their answers",
		list,
		row: (approval) => createVNode(Row, { approval }, approval.id),
		none: Boolean(agent || status || days || day || q) ? createVNode("p", { children: ["Nothing matches the filter. ", createVNode("a", {
			href: "#/history",
			children: "Show all requests"
		})] }) : createVNode("p", { children: "Nothing was asked yet. What agents ask, and how it was answered, stays here." })
	})] });
}
function Row({ approval }) {
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
export { History };
