import { Fragment, Mono, Refused, Time, Wrong, brief, createVNode, duration, failed, hints, json, looker, rule, runStatus, useEffect, useState, useValue, visible } from "./app.js";
import { AGES, Filter, query, sinceOf, useFilter } from "./lists.js";
function bars({ beginsMs, agents }) {
	return beginsMs.map((atMs, part) => {
		const counts = new Array(5).fill(0);
		agents.forEach(({ parts }, place) => {
			const colour = Math.min(place, 4);
			counts[colour] = (counts[colour] ?? 0) + (parts[part] ?? 0);
		});
		const pieces = counts.map((count, colour) => ({
			colour,
			count
		})).filter(({ count }) => count > 0);
		return {
			atMs,
			total: pieces.reduce((sum, { count }) => sum + count, 0),
			pieces
		};
	});
}
function legend(agents, name) {
	const own = agents.slice(0, 4).map(({ agentId }, colour) => ({
		colour,
		text: agentId === void 0 ? "all others" : name(agentId)
	}));
	return agents.length > 4 ? [...own, {
		colour: 4,
		text: "all others"
	}] : own;
}
function scale(most) {
	if (most <= 1) return 1;
	const power = 10 ** Math.floor(Math.log10(most));
	return [
		1,
		2,
		5,
		10
	].map((step) => step * power).find((end) => end >= most) ?? most;
}
function share({ allowed, denied }) {
	const answered = allowed + denied;
	return answered === 0 ? void 0 : Math.round(allowed / answered * 100);
}
var programName = (program) => program === void 0 ? "a text of several programs" : program.split("/").pop() ?? program;
var HOUR_MS = 36e5;
function beginning(age, now) {
	if (age === "") return new Date(now.getFullYear(), now.getMonth(), now.getDate(), now.getHours()).getTime() - 23 * HOUR_MS;
	if (!/^\d{1,2}$/.test(age)) return void 0;
	return new Date(now.getFullYear(), now.getMonth(), now.getDate() - Number(age) + 1).getTime();
}
// src/view/overview.tsx
var PAUSE_MS = 2e3;
var AGAIN_MS = 6e4;
var FIELDS = [{
	key: "age",
	title: "Since",
	choices: [["", "In the last 24 hours"], ...AGES.filter(([age]) => age !== "" && age !== "1")]
}];
var number = (count) => count.toLocaleString("en");
var NAME_LENGTH = 40;
function Overview() {
	const { age = "" } = useFilter(FIELDS);
	const hint = useValue(hints.runs) + useValue(hints.approvals) + useValue(hints.all);
	const [known, setKnown] = useState(void 0);
	const [problem, setProblem] = useState("");
	const [refresh] = useState(() => {
		const now = {
			age,
			isNew: true
		};
		const look = looker(async () => {
			const { age: asked } = now;
			now.isNew = false;
			try {
				const figures = await json("GET", `/v1/overview?${query({ since: String(beginning(asked, new Date()) ?? sinceOf(asked) ?? "") })}`);
				if (asked === now.age) setKnown({
					age: asked,
					figures
				});
				setProblem("");
			} catch (error) {
				if (!(error instanceof Refused) || error.status >= 500) throw error;
				if (error.isSignedOut) failed(error);
				setProblem(error.sentence);
			}
		}, () => now.isNew ? 0 : PAUSE_MS);
		return (wanted) => {
			if (wanted !== now.age) now.isNew = true;
			now.age = wanted;
			look();
		};
	});
	useEffect(() => refresh(age), [age, hint]);
	useEffect(() => {
		const timer = setInterval(() => refresh(age), AGAIN_MS);
		return () => clearInterval(timer);
	}, [age]);
	return createVNode(Fragment, { children: [
		createVNode(Filter, {
			view: "overview",
			fields: FIELDS
		}),
		createVNode(Wrong, { text: problem }),
		known?.age === age ? createVNode(Shown, { figures: known.figures }) : !problem && createVNode("p", {
			class: "hint",
			children: "Loading …"
		})
	] });
}
function Shown({ figures }) {
	const { questions, now, partial, sinceMs } = figures;
	const allowed = share(questions);
	return createVNode("div", {
		id: "overview",
		children: [
			createVNode("p", {
				class: "hint",
				children: [
					"Since ",
					createVNode(Time, { ms: sinceMs }),
					".",
					partial && " There was more: only the newest 10,000 questions and 50,000 runs are counted."
				]
			}),
			createVNode("dl", {
				class: "tiles",
				children: [
					createVNode(Tile, {
						name: "Questions",
						value: number(questions.asked),
						more: `${number(questions.waiting)} waiting`
					}),
					createVNode(Tile, {
						name: "Median time to an answer",
						value: questions.medianAnswerMs === void 0 ? "–" : duration(questions.medianAnswerMs),
						more: `${number(questions.allowed + questions.denied)} answered by people`
					}),
					createVNode(Tile, {
						name: "Allowed",
						value: allowed === void 0 ? "–" : `${allowed} %`,
						more: `${number(questions.allowed)} allowed, ${number(questions.denied)} denied`
					}),
					createVNode(Tile, {
						name: "Nobody answered",
						value: number(questions.expired),
						more: `${number(questions.settled)} settled by rules`
					}),
					createVNode(Tile, {
						name: "Running now",
						value: number(now.running),
						more: `${number(now.queued)} wait for a free slot`
					}),
					createVNode(Tile, {
						name: "Approvers connected",
						value: number(now.approvers),
						more: `${number(now.ledgerQueue)} records still to be written`
					})
				]
			}),
			createVNode("div", {
				class: "panels wide",
				children: [
					createVNode(Asked, { figures }),
					createVNode(Rules, { figures }),
					createVNode(Runs, { figures })
				]
			})
		]
	});
}
var Tile = ({ name, value, more }) => createVNode("div", {
	class: "tile",
	children: [createVNode("dt", { children: name }), createVNode("dd", { children: [createVNode("strong", { children: value }), createVNode("span", { children: more })] })]
});
var Table = ({ label, head, kind = "", children }) => createVNode("div", {
	class: "table-box",
	tabIndex: 0,
	role: "region",
	"aria-label": label,
	children: createVNode("table", {
		class: `figures ${kind}`,
		children: [createVNode("thead", { children: createVNode("tr", { children: head.map((title) => createVNode("th", {
			scope: "col",
			children: title
		}, title)) }) }), createVNode("tbody", { children })]
	})
});
var WIDTH = 720;
var HEIGHT = 200;
var LEFT = 52;
function Asked({ figures }) {
	const { agents, questions, partMs, beginsMs } = figures;
	const drawn = bars(figures);
	const end = scale(Math.max(0, ...drawn.map(({ total }) => total)));
	const names = legend(agents, (name) => brief(name, NAME_LENGTH));
	const wide = 668 / Math.max(drawn.length, 1);
	const tall = (count) => count / end * 170;
	const when = (ms) => new Date(ms).toLocaleString("en", partMs >= 864e5 ? {
		month: "short",
		day: "numeric"
	} : {
		weekday: "short",
		hour: "2-digit",
		minute: "2-digit"
	});
	const every = Math.max(1, Math.ceil(drawn.length / 6));
	return createVNode("section", {
		class: "panel",
		"aria-labelledby": "asked-title",
		children: [createVNode("h2", {
			id: "asked-title",
			children: "Questions by agent and time"
		}), questions.asked === 0 ? createVNode("p", {
			class: "hint",
			children: [
				"Nothing was asked. ",
				createVNode("a", {
					href: "#/inbox",
					children: "The inbox"
				}),
				" says what is connected, and sends a test question."
			]
		}) : createVNode(Fragment, { children: [
			createVNode("svg", {
				class: "chart",
				id: "asked-chart",
				viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
				role: "img",
				"aria-label": `${number(questions.asked)} questions in ${drawn.length} parts of ${duration(partMs)}; the most in one part are ${number(Math.max(...drawn.map(({ total }) => total)))}. The table below has the numbers of each agent.`,
				children: [[
					0,
					.5,
					1
				].map((part) => {
					const y = 178 - tall(end * part);
					return createVNode("g", { children: [createVNode("line", {
						class: "grid",
						x1: LEFT,
						x2: WIDTH,
						y1: y,
						y2: y
					}), Number.isInteger(end * part) && createVNode("text", {
						class: "axis",
						x: 46,
						y: y + 4,
						"text-anchor": "end",
						children: number(end * part)
					})] }, part);
				}), drawn.map(({ atMs, total, pieces }, place) => {
					let y = 178;
					const x = LEFT + place * wide;
					return createVNode("g", { children: [
						createVNode("title", { children: `${when(atMs)}: ${number(total)}` }),
						pieces.map(({ colour, count }) => {
							y -= tall(count);
							return createVNode("rect", {
								class: `series-${colour}`,
								x: x + 1,
								y,
								width: Math.max(wide - 2, 1),
								height: tall(count)
							}, colour);
						}),
						place % every === 0 && createVNode("text", {
							class: place % (2 * every) === 0 ? "axis" : "axis between",
							x: x + 1,
							y: 194,
							children: when(atMs)
						})
					] }, atMs);
				})]
			}),
			createVNode("ul", {
				class: "legend",
				"aria-label": "Colours",
				children: names.map(({ colour, text }) => createVNode("li", { children: [
					createVNode("svg", {
						width: "12",
						height: "12",
						"aria-hidden": "true",
						children: createVNode("rect", {
							class: `series-${colour}`,
							width: "12",
							height: "12"
						})
					}),
					" ",
					createVNode("bdi", { children: text })
				] }, colour))
			}),
			createVNode(Table, {
				label: "Questions by agent",
				kind: "stacked",
				head: [
					"Agent",
					"Asked",
					"Allowed",
					"Denied",
					"Nobody answered",
					"Waiting",
					"Median answer"
				],
				children: agents.map(({ agentId, questions: of }) => createVNode("tr", { children: [
					createVNode("th", {
						scope: "row",
						children: createVNode("bdi", { children: agentId === void 0 ? "all others" : brief(agentId, NAME_LENGTH) })
					}),
					createVNode("td", {
						"data-name": "Asked",
						children: number(of.asked)
					}),
					createVNode("td", {
						"data-name": "Allowed",
						children: `${number(of.allowed)}${share(of) === void 0 ? "" : ` (${share(of)} %)`}`
					}),
					createVNode("td", {
						"data-name": "Denied",
						children: number(of.denied)
					}),
					createVNode("td", {
						"data-name": "No answer",
						children: number(of.expired)
					}),
					createVNode("td", {
						"data-name": "Waiting",
						children: number(of.waiting)
					}),
					createVNode("td", {
						"data-name": "Median",
						children: of.medianAnswerMs === void 0 ? "–" : duration(of.medianAnswerMs)
					})
				] }, agentId ?? ""))
			}),
			createVNode("details", { children: [createVNode("summary", { children: "The numbers of the chart" }), createVNode(Table, {
				label: "Questions by time",
				head: [
					"From",
					"All",
					...names.map(({ text }) => text)
				],
				children: drawn.map(({ total, pieces }, place) => createVNode("tr", { children: [
					createVNode("th", {
						scope: "row",
						children: createVNode(Time, { ms: beginsMs[place] })
					}),
					createVNode("td", { children: number(total) }),
					names.map(({ colour }) => createVNode("td", { children: number(pieces.find((piece) => piece.colour === colour)?.count ?? 0) }, colour))
				] }, beginsMs[place]))
			})] })
		] })]
	});
}
function Rules({ figures: { rules } }) {
	return createVNode("section", {
		class: "panel",
		"aria-labelledby": "rules-title",
		children: [createVNode("h2", {
			id: "rules-title",
			children: "What asks most often"
		}), rules.length === 0 ? createVNode("p", {
			class: "hint",
			children: "Nothing was asked."
		}) : createVNode(Table, {
			label: "Programs that ask most often",
			kind: "stacked",
			head: [
				"Program",
				"Agent",
				"Asked",
				"Why",
				"Allowed",
				"What would stop it"
			],
			children: rules.map(({ agentId, program, why, questions, approvalId, wouldStop }) => createVNode("tr", {
				"data-asking": approvalId,
				children: [
					createVNode("th", {
						scope: "row",
						children: program === void 0 ? programName(program) : createVNode(Mono, { text: programName(program) })
					}),
					createVNode("td", {
						"data-name": "Agent",
						children: createVNode("bdi", { children: brief(agentId, NAME_LENGTH) })
					}),
					createVNode("td", {
						"data-name": "Asked",
						children: number(questions.asked)
					}),
					createVNode("td", {
						"data-name": "Why",
						children: rule(why)
					}),
					createVNode("td", {
						"data-name": "Allowed",
						children: share(questions) === void 0 ? "–" : `${share(questions)} %`
					}),
					createVNode("td", {
						"data-name": "To stop it",
						children: createVNode("div", { children: [
							wouldStop.length === 0 ? "No rule can cover it." : createVNode("ul", {
								class: "stops",
								children: wouldStop.map((words) => createVNode("li", { children: createVNode("bdi", { children: visible(words) }) }, words))
							}),
							" ",
							createVNode("a", {
								href: `/a/${approvalId}`,
								children: ["The latest request", createVNode("span", {
									class: "unseen",
									children: ` of ${programName(program)}`
								})]
							})
						] })
					})
				]
			}, `${agentId} ${program} ${why}`))
		})]
	});
}
function Runs({ figures: { runs, reasons } }) {
	const all = runs.reduce((sum, { count }) => sum + count, 0);
	const most = Math.max(1, ...runs.map(({ count }) => count));
	return createVNode("section", {
		class: "panel",
		"aria-labelledby": "runs-title",
		children: [
			createVNode("h2", {
				id: "runs-title",
				children: `Runs (${number(all)})`
			}),
			all === 0 ? createVNode("p", {
				class: "hint",
				children: [
					"Nothing ran. Try it with ",
					createVNode("code", { children: "countersign exec -- date" }),
					"."
				]
			}) : createVNode(Table, {
				label: "Runs by state",
				head: [
					"State",
					"Runs",
					"Share"
				],
				children: runs.map(({ status, count }) => createVNode("tr", { children: [
					createVNode("th", {
						scope: "row",
						children: createVNode("span", {
							class: `badge ${runStatus(status).tone}`,
							children: runStatus(status).label
						})
					}),
					createVNode("td", { children: number(count) }),
					createVNode("td", {
						class: "bar-cell",
						children: [createVNode("svg", {
							viewBox: "0 0 100 10",
							preserveAspectRatio: "none",
							width: "100%",
							height: "10",
							"aria-hidden": "true",
							children: createVNode("rect", {
								class: "series-3",
								width: count / most * 100,
								height: "10"
							})
						}), createVNode("span", { children: `${Math.round(count / all * 100)} %` })]
					})
				] }, status))
			}),
			reasons.length > 0 && createVNode(Table, {
				label: "Reasons",
				head: ["Why denied, failed or lost", "Runs"],
				children: reasons.map(({ reason, count }) => createVNode("tr", { children: [createVNode("th", {
					scope: "row",
					children: createVNode("code", { children: visible(reason) })
				}), createVNode("td", { children: number(count) })] }, reason))
			})
		]
	});
}
export { Overview };
