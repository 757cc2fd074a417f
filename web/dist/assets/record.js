import { AFTER, CommandBlock, Fact, FactChips, Fragment, Mono, Refused, Time, Variables, Wrong, announce, areAlike, baseName, brief, byteSize, calls, check, chooseAlike, chooseNone, chosen, closeCard, createVNode, decide, draw, drawn, equalKey, factsOf, failed, fallback, filter, focusNext, gone, grantOf, hints, isHelp, isNarrow, isOn, isOpen, isRead, json, keepReason, lastReasons, lineOf, listed, look, looker, may, model, mustOpen, narrowingOf, nextOpen, nudge, ofAgent, online, only, open, openRow, opened, outcome, policy, proposalsOf, refreshStop, rowOf, rows, runFacts, runStatus, seePolicy, send as send$1, sentBlindly, serverNow, setCard, setOn, standing, ticks, timeLeft, unfold, unlimited, useEffect, useLayoutEffect, useRef, useState, useValue, visible, visibleOutput, wanted, who, width } from "./app.js";
// \0rolldown/runtime.js
var __defProp = Object.defineProperty;
var __exportAll = (all, no_symbols) => {
	let target = {};
	for (var name in all) __defProp(target, name, {
		get: all[name],
		enumerable: true
	});
	if (!no_symbols) __defProp(target, Symbol.toStringTag, { value: "Module" });
	return target;
};
// src/view/confirm.tsx
function Confirm({ name, act, label, question, yes, run, done, changed }) {
	const [isAsked, setAsked] = useState(false);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const first = useRef(null);
	const wasAsked = useRef(false);
	const root = useRef(null);
	useLayoutEffect(() => {
		if (isAsked || wasAsked.current) first.current?.focus();
		wasAsked.current = isAsked;
		const { current } = root;
		if (!isAsked || !current) return void 0;
		current.setAttribute("data-unsteady", "");
		const timer = setTimeout(() => current.removeAttribute("data-unsteady"), 500);
		return () => {
			clearTimeout(timer);
			current.removeAttribute("data-unsteady");
		};
	}, [isAsked]);
	async function press() {
		if (isSending || root.current?.hasAttribute("data-unsteady")) return;
		setSending(true);
		setProblem("");
		try {
			await run();
			announce(done);
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.message : "No answer came. Check the current state before you try again.");
		}
		setSending(false);
		setAsked(false);
		changed();
	}
	return createVNode("div", {
		class: "row-actions",
		ref: root,
		children: [isAsked ? createVNode(Fragment, { children: [
			createVNode("span", {
				role: "status",
				children: question
			}),
			createVNode("button", {
				type: "button",
				ref: first,
				class: "quiet",
				onClick: () => setAsked(false),
				children: "Back"
			}),
			createVNode("button", {
				type: "button",
				class: "danger",
				"data-act": act,
				"aria-disabled": isSending,
				onClick: () => void press(),
				children: yes
			})
		] }) : createVNode("button", {
			type: "button",
			ref: first,
			class: "quiet danger-text",
			"data-act": `ask-${act}`,
			"aria-label": label,
			onClick: () => setAsked(true),
			children: name
		}), createVNode(Wrong, { text: problem })]
	});
}
// src/pure/changes.ts
var subject = ({ what }) => what.split(": ", 1)[0] ?? what;
function grouped(changes) {
	const isOfAll = (change) => !/^(agent |agents\.)/.test(subject(change));
	const ordered = [...new Set(changes.map(subject))].flatMap((name) => changes.filter((change) => subject(change) === name));
	return [...ordered.filter(isOfAll), ...ordered.filter((change) => !isOfAll(change))];
}
var rejecting = (file) => file === "countersign.toml" ? "Keep out of effect what it loosens, for as long as countersign.toml says so? The file stays as it is: set it back, or write what you want instead." : `Put ${file} back to what was accepted? All that it changes is undone, also what it takes away.`;
// src/pure/diff.ts
var MOST_CELLS = 1e6;
var wordsOf = (text) => text.match(/[\p{L}\p{M}\p{N}_]+|[^]/gu) ?? [];
function diff(before, after) {
	const old = wordsOf(before);
	const now = wordsOf(after);
	let from = 0;
	while (from < old.length && from < now.length && old[from] === now[from]) from += 1;
	let end = 0;
	while (end < old.length - from && end < now.length - from && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
	const found = [];
	const add = (kind, words) => {
		const text = words.join("");
		const last = found.at(-1);
		if (!text) return;
		if (last?.kind === kind) last.text += text;
		else found.push({
			kind,
			text
		});
	};
	add("same", old.slice(0, from));
	middle(old.slice(from, old.length - end), now.slice(from, now.length - end), add);
	add("same", old.slice(old.length - end));
	return found;
}
function middle(old, now, add) {
	if (old.length * now.length > MOST_CELLS) {
		add("gone", old);
		add("new", now);
		return;
	}
	const width = now.length + 1;
	const common = new Uint32Array((old.length + 1) * width);
	const at = (row, column) => common[row * width + column] ?? 0;
	for (let row = old.length - 1; row >= 0; row -= 1) for (let column = now.length - 1; column >= 0; column -= 1) common[row * width + column] = old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
	let row = 0;
	let column = 0;
	while (row < old.length && column < now.length) if (old[row] === now[column]) {
		add("same", old.slice(row, row + 1));
		row += 1;
		column += 1;
	} else if (at(row + 1, column) >= at(row, column + 1)) {
		add("gone", old.slice(row, row + 1));
		row += 1;
	} else {
		add("new", now.slice(column, column + 1));
		column += 1;
	}
	add("gone", old.slice(row));
	add("new", now.slice(column));
}
// src/view/changes.tsx
function HeldAnswers({ id, edit }) {
	const [isShown, setShown] = useState(false);
	const file = {
		held: "exec-approvals.json",
		"held-config": "openclaw.json"
	}[id] ?? "countersign.toml";
	const answer = (how) => async () => {
		await json("POST", `/v1/policy/document/${how}`, { body: { hash: edit.hash } });
		await seePolicy();
	};
	return createVNode("div", {
		class: "held-answers",
		children: [
			createVNode("div", {
				class: "row-actions",
				children: [createVNode("button", {
					type: "button",
					class: "quiet",
					"data-act": "show-changes",
					"aria-expanded": isShown,
					onClick: () => setShown(!isShown),
					children: "What it changes"
				}), createVNode("a", {
					href: "#/policy",
					children: "Policy"
				})]
			}),
			isShown && ((edit.changes ?? []).length > 0 ? createVNode(Changes, {
				edit,
				file
			}) : createVNode("p", {
				class: "hint",
				children: "Before and after are not known. What it newly allows is listed above."
			})),
			may("admin") && createVNode("div", {
				class: "row-actions",
				children: [createVNode(Confirm, {
					name: "Reject…",
					label: "Reject this change",
					act: `notice-reject-${id}`,
					question: rejecting(file),
					yes: "Reject it",
					done: "The change is rejected.",
					changed: () => {},
					run: answer("reject")
				}), createVNode(Confirm, {
					name: "Accept…",
					label: "Accept this change",
					act: `notice-accept-${id}`,
					question: "Let it allow what is listed above?",
					yes: "Accept it",
					done: "The change is accepted.",
					changed: () => {},
					run: answer("accept")
				})]
			})
		]
	});
}
function Changes({ edit: { changes = [], moreChanges = 0 }, file }) {
	return createVNode(Fragment, { children: [createVNode("div", {
		class: "table-box",
		tabIndex: 0,
		role: "region",
		"aria-label": `What changes in ${file}`,
		children: createVNode("table", {
			class: "figures changes",
			children: [createVNode("thead", { children: createVNode("tr", { children: [
				createVNode("th", {
					scope: "col",
					children: "What"
				}),
				createVNode("th", {
					scope: "col",
					children: "Before"
				}),
				createVNode("th", {
					scope: "col",
					children: "After"
				})
			] }) }), createVNode("tbody", { children: grouped(changes).map((change, index) => createVNode(Row$1, { change }, index)) })]
		})
	}), moreChanges > 0 && createVNode("p", {
		class: "hint",
		children: `${moreChanges.toLocaleString("en")} more changes are not listed.`
	})] });
}
function Row$1({ change: { what, before, after } }) {
	const parts = before !== void 0 && after !== void 0 ? diff(visible(before), visible(after)) : void 0;
	return createVNode("tr", { children: [
		createVNode("th", {
			scope: "row",
			children: createVNode("bdi", { children: visible(what) })
		}),
		createVNode("td", {
			"data-name": "Before",
			children: before === void 0 ? createVNode("span", {
				class: "unset",
				children: "not set"
			}) : createVNode("code", {
				dir: "ltr",
				children: parts ? parts.filter(({ kind }) => kind !== "new").map(({ kind, text }, index) => kind === "gone" ? createVNode("del", { children: text }, index) : text) : createVNode("del", { children: visible(before) })
			})
		}),
		createVNode("td", {
			"data-name": "After",
			children: after === void 0 ? createVNode("span", {
				class: "unset",
				children: "removed"
			}) : createVNode("code", {
				dir: "ltr",
				children: parts ? parts.filter(({ kind }) => kind !== "gone").map(({ kind, text }, index) => kind === "new" ? createVNode("ins", { children: text }, index) : text) : createVNode("ins", { children: visible(after) })
			})
		})
	] });
}
// src/pure/grant-words.ts
var HOUR_MS = 36e5;
var MINUTE_MS = 6e4;
var SPANS = [
	"ever",
	"hour",
	"today",
	"week"
];
var SPAN_WORDS = {
	ever: "for good",
	hour: "for an hour",
	today: "until midnight",
	week: "for 7 days"
};
var USES = [
	2,
	3,
	5,
	10,
	50
];
function endOf(span, nowMs) {
	switch (span) {
		case "ever": return;
		case "hour": return nowMs + HOUR_MS;
		case "week": return nowMs + 168 * HOUR_MS;
		case "today": {
			const midnight = new Date(nowMs);
			midnight.setHours(24, 0, 0, 0);
			return midnight.getTime();
		}
	}
}
var isText = ({ pattern }) => pattern.startsWith("=command:");
function whyNotNarrower({ host }, { stores }) {
	if (host === "node") return "The node stores this in its own document, which knows no limits.";
	return stores.some(isText) ? "A rule for an exact text has no limits." : "";
}
var isInAnyDirectory = ({ stores }) => stores.some(({ width, limits }) => width === "program" && !limits?.directory);
function directoriesOf(cwd) {
	const parts = cwd.split("/").filter(Boolean);
	return parts.map((_part, at) => `/${parts.slice(0, parts.length - at).join("/")}`);
}
function storedOf(approval, { stores }, narrowed) {
	return stores.map((pattern) => {
		const limits = pattern.limits ?? {};
		const isExact = pattern.width === "exact" && !isText(pattern);
		const least = (one, other) => one === void 0 ? other : other === void 0 ? one : Math.min(one, other);
		const untilMs = least(limits.expiresAtMs, narrowed.untilMs);
		const uses = least(limits.maxUses, narrowed.uses);
		const session = narrowed.isOfSession ? approval.sessionKey : limits.sessionKey;
		const limit = limits.directory ?? narrowed.directory;
		return {
			pattern: isText(pattern) ? "exactly this text" : pattern.pattern,
			argumentsWords: isText(pattern) ? "" : isExact ? "exactly these arguments" : pattern.width === "arguments" ? "arguments of this form" : "any arguments",
			argv: isExact ? argvOf(approval, pattern) : pattern.shape !== void 0 ? [pattern.shape] : void 0,
			directory: isExact ? approval.boundTo.cwd : limit === void 0 ? void 0 : limit,
			untilMs,
			uses,
			session,
			isGrant: untilMs !== void 0 || uses !== void 0 || session !== void 0 || limit !== void 0,
			note: pattern.note
		};
	});
}
function argvOf({ segments }, { segment, pattern }) {
	const inside = segments[segment];
	const call = inside && calls([inside]).find(({ resolvedPath, segments: inner }) => resolvedPath === pattern && !inner?.length);
	return call?.wrappers.length === 0 ? call.argv : void 0;
}
var SHELLS = new Set([
	"sh",
	"bash",
	"dash",
	"zsh",
	"ksh",
	"fish",
	"busybox",
	"pwsh"
]);
var whyNoAlways = (approval) => `“Always” is unavailable: ${noAlwaysReason(approval)}.`;
function noAlwaysReason({ ask, envOmitted = 0, envValues = {}, why, segments }) {
	if (envOmitted > 0) return "it sets more variables than can be shown";
	if (ask === "always") return "policy asks every time";
	if (why.detail !== "no entry covers this") return why.detail;
	const [variable] = Object.keys(envValues);
	if (variable !== void 0) return `it sets ${variable}, which could decide what runs`;
	const all = calls(segments);
	const noted = all.find(({ notes }) => notes.length > 0);
	if (noted) return `${baseName(noted.executable)}: ${noted.notes[0]}`;
	const shell = all.find(({ executable, segments: inner }) => SHELLS.has(baseName(executable)) && !inner?.length);
	if (shell) return `${baseName(shell.executable)} runs whatever it is given`;
	return "no rule about these programs is narrow enough to be safe";
}
function coveredWords({ wouldHaveCovered }) {
	if (!wouldHaveCovered || !wouldHaveCovered.of) return "";
	const { covered, of } = wouldHaveCovered;
	return of === 1 ? `would ${covered ? "" : "not "}have covered the last question` : `would have covered ${covered} of the last ${of} questions`;
}
var AFTER_WORDS = {
	ask: "ask again",
	"mute-30": "mute for 30 min",
	"mute-60": "mute for 1 h",
	never: "never again",
	"agent-30": "mute the agent for 30 min",
	"agent-60": "mute the agent for 1 h"
};
function muteEnd(after, nowMs) {
	return after.endsWith("-30") ? nowMs + 30 * MINUTE_MS : after.endsWith("-60") ? nowMs + HOUR_MS : void 0;
}
// src/pure/coverage.ts
function coverageOf(asked, narrowed, others) {
	const stores = proposalsOf(asked).find(({ id }) => id === narrowed.proposal)?.stores ?? [];
	const uses = Math.min(narrowed.uses ?? Infinity, ...stores.map(({ limits }) => limits?.maxUses ?? Infinity));
	const found = {
		covered: [],
		left: []
	};
	for (const approval of others) {
		const why = whyNot(asked, stores, narrowed, approval);
		if (why) found.left.push({
			approval,
			why
		});
		else if (found.covered.length + 1 >= uses) found.left.push({
			approval,
			why: "the rule has no use left for it"
		});
		else found.covered.push(approval);
	}
	return found;
}
function whyNot(asked, stores, narrowed, other) {
	if (asked.approvalsRequired > 1) return "nothing is stored until the last person has allowed it";
	if (other.agentId !== asked.agentId) return "another agent asks";
	if (other.host !== asked.host || other.nodeId !== asked.nodeId) return "it runs on another machine";
	if (other.approvalsRequired > 1) return `it needs ${other.approvalsRequired} people`;
	if (other.why.rule === "needs-person") return "only a person can allow it";
	const parts = partsOf(other.proposedPatterns);
	if (!parts.length) return noAlwaysReason(other);
	if ([narrowed.isOfSession ? asked.sessionKey : void 0, ...stores.map(({ limits }) => limits?.sessionKey)].some((session) => session !== void 0 && session !== other.sessionKey)) return "it comes from another session";
	for (const part of parts) {
		const ways = part.filter((way) => stores.some((stored) => stored.pattern === way.pattern));
		const fits = ways.filter((way) => stores.some((stored) => stored.pattern === way.pattern && stored.argPattern === way.argPattern));
		if (fits.some((way) => stores.some((stored) => stored.pattern === way.pattern && stored.argPattern === way.argPattern && isIn(other, way, stored, narrowed)))) continue;
		const [exact] = part;
		if (!ways.length) return exact.pattern.startsWith("=command:") ? "its text differs" : `the rule does not name ${baseName(exact.pattern)}`;
		return fits.length || other.cwd !== asked.cwd ? "it runs in another directory" : "its arguments differ";
	}
	return "";
}
function isIn(other, way, stored, narrowed) {
	const directory = way.limits?.directory ?? other.boundTo.cwd;
	return [stored.limits?.directory, narrowed.directory].every((limit) => limit === void 0 || isWithin(directory, limit));
}
var isWithin = (directory, limit) => limit === "/" || directory === limit || directory.startsWith(`${limit}/`);
function partsOf(proposed) {
	const parts = [];
	for (const pattern of proposed) if (pattern.default) parts.push([pattern]);
	else parts.at(-1)?.push(pattern);
	const programs = proposed.filter(({ width }) => width === "program");
	return parts.map((part) => [...part, ...programs.filter((program) => program.pattern === part[0]?.pattern && !part.includes(program))]);
}
// src/answers.ts
var JUDGED_MS = 1e4;
var answers = 0;
async function send(all, decision, reason) {
	const ids = all.slice(0, 100).filter((id) => model.sending(id, decision));
	draw();
	if (!ids.length) return;
	const decisions = ids.map((id) => ({
		id,
		decision,
		bindingDigest: model.entries.get(id)?.approval.boundTo.digest,
		...reason && { reason }
	}));
	try {
		const { results } = await json("POST", "/v1/approvals/decisions", { body: { decisions } });
		for (const { id, decided, problem } of results) if (decided) model.answered(id, decided);
		else model.refused(id, problem?.detail ?? problem?.title ?? "It was refused.", problem?.approval);
		const counted = results.filter(({ decided }) => decided?.applied).length;
		announce(`${counted} of ${results.length} answers count.`);
	} catch (error) {
		if (error instanceof Refused) {
			if (error.isSignedOut) await check();
			for (const id of ids) model.refused(id, error.sentence);
		} else ids.forEach(sentBlindly);
	}
}
function number(ids) {
	answers += 1;
	for (const id of ids) {
		const entry = model.entries.get(id);
		if (entry) entry.answer = answers;
	}
}
var endedOf = (ids) => ids.flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "settled");
function listUnlike(ids) {
	const [first = ""] = ids;
	const row = rowOf(first, rows());
	if (row && row.name !== first && new Set(endedOf(ids).map(({ approval, mine }) => outcome(approval, mine).title)).size > 1) unfold(row.name, true);
}
function chooseAll() {
	chosen.set(new Set(listed().filter(isOpen).slice(0, 100).map(({ approval }) => approval.id)));
	if (opened.value !== void 0) focusNext.set({
		id: opened.value,
		where: "card"
	});
}
async function decideChosen(ids, decision, reason) {
	const from = opened.value;
	if (ids.length > 10) number(ids);
	await send(ids, decision, reason);
	chooseNone();
	listUnlike(ids);
	if (gone.value === void 0) draw();
	const next = opened.value === from ? rows().find(({ entries }) => entries.some(isOpen)) : void 0;
	if (next) open(next.name, isNarrow() ? "row" : "card");
}
async function decideTogether(ids, decision, { reason, ...options }) {
	const [first] = ids;
	if (first === void 0) return;
	number(ids);
	const isAlone = Object.keys(options).length > 0;
	const asked = model.entries.get(first)?.approval;
	if (isAlone) await decide(first, decision, {
		...options,
		...reason && { reason }
	});
	if (decision === "allow-always") {
		if (asked && options.grant && model.entries.get(first)?.phase === "settled") sayWhatStays(asked, options.grant, ids.slice(1));
	} else await send(isAlone ? ids.slice(1) : ids, decision, reason ?? "");
	if (gone.value !== void 0) return;
	const ended = endedOf(ids);
	const row = rowOf(first, rows());
	listUnlike(ids);
	draw();
	const next = openRow()?.entries.some(({ approval }) => ids.includes(approval.id)) && ended.length === ids.length ? nextOpen(first) ?? row : void 0;
	if (next) open(next.name, "card");
}
function sayWhatStays(asked, grant, ids) {
	const waiting = () => ids.flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "pending").map(({ approval }) => approval);
	const { covered, left } = coverageOf(asked, narrowingOf(grant), waiting());
	for (const { approval: { id }, why } of left) {
		model.refused(id, `The rule you stored does not cover this: ${why}.`);
		delete model.entries.get(id)?.answer;
	}
	setTimeout(() => {
		const late = new Set(waiting().map(({ id }) => id));
		for (const { id } of covered.filter((approval) => late.has(approval.id))) model.refused(id, "It still waits, although the rule you stored should cover it. Answer it, or look at the limits of its agent.");
		if (gone.value === void 0) draw();
	}, JUDGED_MS);
}
function listEach(name) {
	unfold(name, true);
	if (isNarrow()) closeCard();
}
async function revise(id, body) {
	const next = await json("POST", `/v1/approvals/${id}/revision`, { body });
	model.take(next);
	announce("Your command waits for an answer.");
	if (opened.value === id && !only) open(next.id, "card");
	await look(id).catch(() => {});
	model.revised(id, next.id);
	draw();
}
async function takeBack(id) {
	try {
		const { approval } = await json("POST", `/v1/approvals/${id}/take-back`, { body: {} });
		model.takenBack(id, approval);
		announce("Taken back. It does not run.");
	} catch (error) {
		if (error instanceof Refused && error.isSignedOut) await check();
		model.keptAllowed(id, error instanceof Refused ? error.message : "The server did not answer, so it may run. Look again, or cancel the run.");
	}
	if (gone.value === void 0) draw();
}
// src/view/after.tsx
function AfterDenial({ approval, chosen: { after, untilMs }, choose }) {
	const name = `after-${approval.id}`;
	return createVNode(Fragment, { children: [
		createVNode("fieldset", {
			class: "after",
			children: [createVNode("legend", { children: "When the same command comes again" }), AFTER.map((each) => createVNode("label", {
				class: "after-choice",
				children: [createVNode("input", {
					type: "radio",
					name,
					value: each,
					checked: each === after,
					onChange: () => choose({
						after: each,
						untilMs: muteEnd(each, serverNow())
					})
				}), createVNode("span", { children: AFTER_WORDS[each] })]
			}, each))]
		}),
		ofAgent(after) && createVNode("p", {
			class: "hint after-stored",
			children: [
				`Everything that ${brief(approval.agentId, 40)} would have to ask is denied, and so are its requests that wait, until `,
				createVNode(Time, { ms: untilMs }),
				". What runs without a question still runs. The agent sees the reason."
			]
		}),
		after !== "ask" && !ofAgent(after) && createVNode("p", {
			class: "hint after-stored",
			children: [
				`Stored: a deny rule of ${brief(approval.agentId, 40)} about exactly this text, in any directory and session, `,
				untilMs === void 0 ? "for good" : createVNode(Fragment, { children: ["until ", createVNode(Time, { ms: untilMs })] }),
				". Written in another way, it needs approval."
			]
		})
	] });
}
// src/view/always.tsx
var MOST_LEFT = 5;
function AlwaysPanel({ approval, narrowed, narrow }) {
	const proposals = useCovered(approval);
	const chosen = proposals.find(({ id }) => id === narrowed.proposal);
	return createVNode(Fragment, { children: [
		createVNode("div", {
			class: "proposals",
			role: "radiogroup",
			"aria-label": "What is allowed",
			children: proposals.map((proposal) => createVNode(Choice, {
				approval,
				proposal,
				isChosen: proposal === chosen,
				choose: () => narrow(kept(approval, narrowed, proposal))
			}, proposal.id))
		}),
		narrowed.proposal !== "exact" && createVNode("p", {
			class: "hint",
			children: "A wider rule also lets through commands that nobody has seen yet."
		}),
		chosen && createVNode(Narrow, {
			approval,
			proposal: chosen,
			narrowed,
			narrow
		}),
		approval.approvalsRequired > 1 && createVNode("p", {
			class: "hint",
			children: "It takes several people, and this is stored only if all of them choose the same."
		})
	] });
}
function kept(approval, narrowed, proposal) {
	if (whyNotNarrower(approval, proposal)) return unlimited(proposal.id);
	return {
		...narrowed,
		proposal: proposal.id,
		directory: isInAnyDirectory(proposal) ? narrowed.directory : void 0
	};
}
function useCovered(approval) {
	const [known, setKnown] = useState(void 0);
	useEffect(() => {
		let isOver = false;
		json("GET", `/v1/approvals/${approval.id}`).then((now) => !isOver && setKnown(now), () => {});
		return () => {
			isOver = true;
		};
	}, [approval.id]);
	const covered = new Map(known?.proposals?.map(({ id, wouldHaveCovered }) => [id, wouldHaveCovered]));
	return proposalsOf(approval).map((proposal) => ({
		...proposal,
		wouldHaveCovered: proposal.wouldHaveCovered ?? covered.get(proposal.id)
	}));
}
function Choice({ approval, proposal, isChosen, choose }) {
	const isWider = proposal.id !== "exact";
	const covered = coveredWords(proposal);
	return createVNode("label", {
		class: isWider ? "check wider" : "check",
		children: [createVNode("input", {
			type: "radio",
			name: `proposal-${approval.id}`,
			value: proposal.id,
			checked: isChosen,
			onChange: choose
		}), createVNode("span", { children: [
			isWider ? createVNode("code", {
				dir: "ltr",
				children: brief(proposal.words, 240)
			}) : createVNode("strong", { children: "Exactly this command" }),
			isWider && createVNode("span", {
				class: "chip warn",
				children: "wider"
			}),
			createVNode("span", {
				class: "width covered",
				children: covered
			})
		] })]
	});
}
function Narrow({ approval, proposal, narrowed, narrow }) {
	const key = approval.id;
	const [span, setSpan] = useState("ever");
	useEffect(() => narrow({
		...narrowed,
		untilMs: void 0
	}), []);
	const whyNot = whyNotNarrower(approval, proposal);
	if (whyNot) return createVNode("p", {
		class: "hint",
		children: whyNot
	});
	const has = (change) => narrow({
		...narrowed,
		...change
	});
	return createVNode("div", {
		class: "narrow",
		role: "group",
		"aria-label": "Narrow it",
		children: [
			createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: `span-${key}`,
					children: "For how long"
				}), createVNode("select", {
					id: `span-${key}`,
					value: narrowed.untilMs === void 0 ? "ever" : span,
					onChange: (event) => {
						const next = SPANS.find((known) => known === event.currentTarget.value) ?? "ever";
						setSpan(next);
						has({ untilMs: endOf(next, serverNow()) });
					},
					children: SPANS.map((each) => createVNode("option", {
						value: each,
						children: SPAN_WORDS[each]
					}, each))
				})]
			}),
			createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: `uses-${key}`,
					children: "How often, with this run"
				}), createVNode("select", {
					id: `uses-${key}`,
					value: String(narrowed.uses ?? ""),
					onChange: (event) => has({ uses: Number(event.currentTarget.value) || void 0 }),
					children: [createVNode("option", {
						value: "",
						children: "any number of times"
					}), USES.map((uses) => createVNode("option", {
						value: String(uses),
						children: `${uses} times`
					}, uses))]
				})]
			}),
			isInAnyDirectory(proposal) && createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: `directory-${key}`,
					children: "Where"
				}), createVNode("select", {
					id: `directory-${key}`,
					value: narrowed.directory ?? "",
					onChange: (event) => has({ directory: event.currentTarget.value || void 0 }),
					children: [createVNode("option", {
						value: "",
						children: "in any directory"
					}), directoriesOf(approval.boundTo.cwd).map((directory) => createVNode("option", {
						value: directory,
						children: `in ${brief(directory, 60)} and below`
					}, directory))]
				})]
			}),
			createVNode("label", {
				class: "check",
				children: [createVNode("input", {
					type: "checkbox",
					checked: narrowed.isOfSession,
					onChange: (event) => has({ isOfSession: event.currentTarget.checked })
				}), createVNode("span", { children: ["Only in this session ", createVNode("code", {
					dir: "ltr",
					children: brief(approval.sessionKey, 60)
				})] })]
			})
		]
	});
}
function StoredList({ approval, narrowed, others }) {
	const chosen = proposalsOf(approval).find(({ id }) => id === narrowed.proposal);
	if (!chosen) return null;
	const all = storedOf(approval, chosen, narrowed);
	const isBeside = all.some(({ isGrant }) => isGrant);
	const coverage = coverageOf(approval, narrowed, others);
	return createVNode(Fragment, { children: [createVNode("div", {
		class: "stores",
		tabIndex: 0,
		role: "group",
		"aria-label": "What is stored",
		children: [
			createVNode("p", {
				class: "stores-title",
				children: `This is stored for ${brief(approval.agentId, 40)}, ${isBeside ? "as a grant beside the allowlist" : "in the allowlist"}:`
			}),
			createVNode("ul", {
				"aria-label": "Entries",
				children: all.map((stored, at) => createVNode("li", { children: createVNode(Entry, { stored }) }, at))
			}),
			createVNode(Left, { coverage })
		]
	}), others.length > 0 && createVNode("p", {
		class: "covers",
		role: "status",
		children: coversWords(coverage)
	})] });
}
function coversWords({ covered, left }) {
	const others = covered.length + left.length;
	const rest = left.length === 1 ? "One still needs an answer." : left.length ? `${left.length} still need an answer.` : "";
	if (!covered.length) return others === 1 ? "It does not cover the other request." : `It covers none of the ${others} other requests.`;
	const all = others === 1 ? "the other request" : `all ${others} other requests`;
	return `It also allows ${rest ? `${covered.length} of the ${others} other requests` : all}. ${rest}`;
}
function Left({ coverage: { left } }) {
	if (!left.length) return null;
	const lines = new Map();
	for (const { approval, why } of left) {
		const line = lineOf(approval);
		const known = lines.get(`${why}\n${line}`);
		if (known) known.count += 1;
		else lines.set(`${why}\n${line}`, {
			line,
			why,
			count: 1
		});
	}
	const shown = [...lines.values()].slice(0, MOST_LEFT);
	const more = left.length - shown.reduce((sum, { count }) => sum + count, 0);
	return createVNode(Fragment, { children: [createVNode("p", {
		class: "stores-title",
		children: "This still needs an answer:"
	}), createVNode("ul", {
		"aria-label": "What the rule does not cover",
		children: [shown.map(({ line, why, count }) => createVNode("li", { children: [
			createVNode("code", {
				dir: "ltr",
				children: brief(line, 80)
			}),
			count > 1 && ` (${count} times)`,
			": ",
			visible(why)
		] }, `${why}\n${line}`)), more > 0 && createVNode("li", { children: `and ${more} more` })]
	})] });
}
function Entry({ stored: { pattern, argumentsWords, argv, directory, untilMs, uses, session, note } }) {
	return createVNode(Fragment, { children: [
		createVNode(Mono, { text: pattern }),
		argumentsWords && ` with ${argumentsWords}`,
		argv && createVNode(Fragment, { children: [": ", createVNode("code", {
			dir: "ltr",
			children: visible(argv.join(" "))
		})] }),
		directory === void 0 ? ", in any directory" : createVNode(Fragment, { children: [", in ", createVNode(Mono, { text: directory })] }),
		session !== void 0 && createVNode(Fragment, { children: [", in the session ", createVNode(Mono, { text: session })] }),
		uses !== void 0 && `, ${uses} runs in all, this one included`,
		untilMs === void 0 ? ", for good" : createVNode(Fragment, { children: [", until ", createVNode(Time, { ms: untilMs })] }),
		note && createVNode("span", {
			class: "chip warn",
			children: visible(note)
		})
	] });
}
// src/view/audit-facts.tsx
var NO_ENV_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
function AuditFacts({ approval }) {
	const { why, boundTo } = approval;
	return createVNode("details", {
		class: "audit",
		"aria-label": "Details",
		children: [createVNode("summary", { children: "Details" }), createVNode("dl", {
			class: "facts",
			children: [
				createVNode(Fact, {
					name: "Program",
					children: approval.resolvedPath ? createVNode(Mono, { text: approval.resolvedPath }) : createVNode("em", { children: "resolved by the shell at run time" })
				}),
				createVNode(Fact, {
					name: "Run by",
					children: boundTo.argv ? "this argument list, without a shell" : boundTo.shell ? createVNode(Mono, { text: `${boundTo.shell} -c` }) : "these parts, without a shell"
				}),
				createVNode(Fact, {
					name: "Guaranteed unchanged",
					children: [
						createVNode("span", {
							class: approval.binding === "exact" ? "chip good" : "chip",
							children: visible(approval.binding)
						}),
						" ",
						visible(approval.bindingDetail)
					]
				}),
				approval.scripts && createVNode(Fact, {
					name: "Scripts",
					children: createVNode("span", {
						class: approval.scripts === "held" ? "chip good" : "chip",
						children: visible(approval.scripts)
					})
				}),
				approval.confined && createVNode(Fact, {
					name: "Confined",
					children: visible(approval.confined)
				}),
				createVNode(Fact, {
					name: "Session",
					children: createVNode(Mono, { text: approval.sessionKey })
				}),
				createVNode(Fact, {
					name: "Requested by",
					children: createVNode("bdi", { children: visible(who(approval.requestedBy)) })
				}),
				createVNode(Fact, {
					name: "If nobody answers",
					children: visible(fallback(approval.askFallback))
				}),
				createVNode(Fact, {
					name: "Rule",
					children: [
						createVNode("code", {
							class: "rule",
							children: visible(why.rule)
						}),
						" ",
						createVNode("code", {
							class: "rule",
							children: visible(why.layer)
						})
					]
				}),
				createVNode(Fact, {
					name: "Bound to",
					children: [
						createVNode("code", {
							title: `SHA-256 ${boundTo.digest}`,
							children: boundTo.digest.slice(0, 12)
						}),
						boundTo.envHash !== NO_ENV_HASH && " with environment values",
						boundTo.scriptSha256 && " and the script as it is now"
					]
				}),
				createVNode(Fact, {
					name: "“Always” stores",
					children: createVNode(Stored, { approval })
				})
			]
		})]
	});
}
function Stored({ approval }) {
	const kept = approval.proposedPatterns.filter((pattern) => pattern.default);
	const [first] = kept;
	if (!approval.allowedDecisions.includes("allow-always") || !first) return createVNode(Fragment, { children: "nothing: it is unavailable here" });
	return createVNode(Fragment, { children: [
		createVNode(Mono, { text: first.pattern }),
		" ",
		width(first),
		kept.length > 1 && `, and ${kept.length - 1} more like it`,
		first.note && `; ${visible(first.note)}`
	] });
}
// src/view/ended.tsx
function Ended({ entry, label, article }) {
	const { approval, mine } = entry;
	const { tone, title, detail } = outcome(approval, mine);
	return createVNode("div", {
		class: "ended",
		children: [
			createVNode("p", {
				class: "ended-title",
				children: [
					createVNode("span", {
						class: `mark ${tone}`,
						"aria-hidden": "true"
					}),
					createVNode("strong", { children: visible(title) }),
					!only && createVNode("a", {
						class: "ended-link",
						href: `/a/${approval.id}`,
						"aria-label": `Permanent link to ${label}`,
						children: "Link"
					})
				]
			}),
			detail && createVNode("p", {
				class: "ended-detail",
				children: createVNode("bdi", { children: visible(detail) })
			}),
			createVNode(Remembered, { entry }),
			approval.revisedBy && createVNode("p", {
				class: "ended-detail",
				children: [
					"A person suggested ",
					createVNode("a", {
						href: `/a/${approval.revisedBy}`,
						children: "another command"
					}),
					" in its place."
				]
			}),
			createVNode(TakeBack, {
				entry,
				label,
				article
			}),
			createVNode(RunLine, { entry })
		]
	});
}
function Times({ name, all, sessions }) {
	return createVNode("p", {
		class: "asked-times",
		children: [
			`Asked ${all.length} times${sessions > 1 ? `, in ${sessions} sessions` : ""}.${all.some(({ phase }) => phase !== "settled") ? " One answer goes to all of them." : ""}`,
			" ",
			createVNode("button", {
				type: "button",
				class: "quiet",
				onClick: () => listEach(name),
				children: "List each"
			})
		]
	});
}
function Results({ all }) {
	if (!all.length) return null;
	const isMixed = new Set(all.map(({ approval }) => lineOf(approval))).size > 1;
	return createVNode("ol", {
		class: "results",
		"aria-label": "The result of each request",
		children: all.map((entry) => createVNode(Result, {
			entry,
			isMixed
		}, entry.approval.id))
	});
}
function Result({ entry, isMixed }) {
	const { approval, mine, phase, problem } = entry;
	useValue(ticks);
	const article = { current: null };
	const { tone, title, detail } = outcome(approval, mine);
	const isOver = phase === "settled";
	return createVNode("li", {
		"data-result": approval.id,
		children: [
			createVNode("p", {
				class: "ended-title",
				children: [createVNode("span", {
					class: `mark ${isOver ? tone : "bad"}`,
					"aria-hidden": "true"
				}), createVNode("span", { children: [
					createVNode("strong", { children: isOver ? visible(title) : "Not answered" }),
					" ",
					createVNode("a", {
						href: `/a/${approval.id}`,
						children: visible(approval.slug)
					}),
					" of ",
					createVNode(Time, { ms: approval.createdAtMs })
				] })]
			}),
			isMixed && createVNode("p", {
				class: "ended-detail",
				children: createVNode("code", {
					dir: "ltr",
					children: brief(lineOf(approval), 160)
				})
			}),
			(problem || isOver && detail) && createVNode("p", {
				class: "ended-detail",
				children: createVNode("bdi", { children: visible(problem ?? detail) })
			}),
			isOver && createVNode(Remembered, { entry }),
			isOver && createVNode(TakeBack, {
				entry,
				label: approval.slug,
				article
			}),
			isOver && createVNode(RunLine, { entry })
		]
	});
}
function Reasons({ choose }) {
	const all = lastReasons();
	if (!all.length) return null;
	return createVNode("ul", {
		class: "reasons",
		"aria-label": "Your last reasons",
		children: all.map((text) => createVNode("li", { children: createVNode("button", {
			type: "button",
			class: "quiet",
			onClick: () => choose(text),
			children: createVNode("bdi", { children: brief(text, 60) })
		}) }, text))
	});
}
var spelled = (ms) => {
	const [count, unit] = ms % 6e4 === 0 ? [ms / 6e4, "minute"] : [Math.ceil(ms / 1e3), "second"];
	return `${count} ${unit}${count === 1 ? "" : "s"}`;
};
function HeldBack({ approval: { startDelayMs, startedByAsker } }) {
	if (startedByAsker) return createVNode("p", {
		class: "hint",
		children: "The program that asks starts this itself, as soon as it has your answer. You cannot take the answer back."
	});
	return startDelayMs ? createVNode("p", {
		class: "hint",
		children: `Once it is allowed, it is held back for ${spelled(startDelayMs)}. Until then you can take the answer back.`
	}) : null;
}
function TakeBack({ entry: { approval, run }, label, article }) {
	const ms = approval.status === "allowed" && (!run || run.status === "queued" || run.status === "approval-pending") ? (approval.startsAtMs ?? 0) - serverNow() : 0;
	const isShown = ms > 0 && may("approve");
	useLayoutEffect(() => () => {
		if (document.activeElement === document.body) article.current?.focus({ preventScroll: true });
	}, [isShown]);
	if (!isShown) return null;
	return createVNode("button", {
		type: "button",
		class: "act deny take-back",
		"aria-label": `Take back: ${label}`,
		onClick: () => void takeBack(approval.id),
		children: `Take back (${timeLeft(ms)})`
	});
}
function Remembered({ entry: { approval: { grant }, left } }) {
	const { rule, noRule } = left ?? {};
	if (grant) return createVNode("p", {
		class: "ended-detail remembered",
		children: ["From now on: ", createVNode("bdi", { children: visible(grant.words) })]
	});
	if (rule) return createVNode("p", {
		class: "ended-detail remembered",
		children: [
			rule.questions ? "Everything that this agent would ask" : "This command",
			" is denied without a question ",
			rule.expiresAtMs === void 0 ? "for good" : createVNode(Fragment, { children: ["until ", createVNode(Time, { ms: rule.expiresAtMs })] }),
			"."
		]
	});
	return noRule ? createVNode("p", {
		class: "warn-line remembered",
		children: ["It is denied, but no rule is stored: ", createVNode("bdi", { children: visible(noRule) })]
	}) : null;
}
function RunLine({ entry: { approval, run } }) {
	if (approval.status !== "allowed" && (!run || run.status === "denied" || run.status === "cancelled")) return null;
	if (approval.status === "expired" && !run) return null;
	const { label, tone } = runStatus(run?.status ?? "queued");
	return createVNode("p", {
		class: "run-line",
		children: [
			createVNode("span", {
				class: `badge ${tone}`,
				children: label
			}),
			" ",
			runFacts(run)
		]
	});
}
// src/view/batch.tsx
function ChooseAll() {
	useValue(drawn);
	const words = useValue(filter);
	useValue(chosen);
	const count = Math.min(listed().filter(isOpen).length, 100);
	if (count < 2 || !may("approve")) return null;
	return createVNode("button", {
		type: "button",
		class: "quiet",
		id: "choose-all",
		"aria-keyshortcuts": "*",
		onClick: chooseAll,
		children: count === 100 ? `Choose the first ${count}` : words ? `Choose these ${count}` : `Choose all ${count}`
	});
}
function Batch({ row, guard }) {
	useValue(drawn);
	const ids = useValue(chosen);
	const isOnline = useValue(online);
	const [reason, setReason] = useState("");
	const [mode, setMode] = useState("answer");
	const [narrowed, setNarrowed] = useState(void 0);
	const [seen, setSeen] = useState(new Set());
	const root = useRef(null);
	const article = useRef(null);
	const field = useRef(null);
	const confirm = useRef(null);
	const entries = row?.entries ?? [...ids].flatMap((id) => model.entries.get(id) ?? []);
	const waiting = entries.filter(({ phase }) => phase !== "settled");
	const all = waiting.filter(({ phase }) => phase === "pending").map(({ approval }) => approval);
	const shown = firsts(waiting);
	const [first] = entries;
	const together = entries.map(({ approval }) => approval.id).join();
	useEffect(() => {
		if (root.current) guard()?.unsettle(root.current);
		setMode("answer");
	}, [together]);
	useLayoutEffect(() => {
		if (mode !== "answer") confirm.current?.focus({ preventScroll: true });
	}, [mode]);
	useEffect(() => {
		const ends = new IntersectionObserver((found) => {
			const now = found.filter(({ isIntersecting }) => isIntersecting).map(({ target }) => target.dataset.end ?? "");
			if (now.length) setSeen((before) => new Set([...before, ...now]));
		});
		for (const end of root.current?.querySelectorAll("[data-end]") ?? []) ends.observe(end);
		return () => ends.disconnect();
	}, [together, waiting.length]);
	useLayoutEffect(() => setCard({
		press: (what) => {
			if (what === "once" && first) press("allow-once");
			if (what === "always") openAlways();
			if (what === "deny") field.current?.focus();
		},
		escape: () => {
			if (mode !== "answer") {
				back();
				return true;
			}
			if (document.activeElement !== field.current) return false;
			article.current?.focus({ preventScroll: true });
			return true;
		}
	}));
	if (!first) return null;
	const unread = shown.filter(({ entry: { approval } }) => mustOpen(approval) && !isRead(approval.id)).length;
	const unseen = shown.filter(({ entry }) => !seen.has(entry.approval.id)).length;
	const closed = all.filter(({ allowedDecisions }) => !allowedDecisions.includes("allow-once")).length;
	const whyNot = !isOnline ? "Offline. You can answer once the server is back." : !all.length ? "Sending your answer …" : unread ? `Show all of ${unread === 1 ? "one command" : `${unread} commands`} before you allow them.` : unseen ? `Scroll through all of them before you allow them: ${unseen === 1 ? "one was" : `${unseen} were`} not in sight yet.` : closed ? `${closed === 1 ? "One of them" : `${closed} of them`} cannot be allowed.` : "";
	const asked = row && (all.find(({ allowedDecisions }) => allowedDecisions.includes("allow-always")) ?? all[0]);
	const whyNotAlways = whyNot || !asked || asked.allowedDecisions.includes("allow-always") ? whyNot : whyNoAlways(asked);
	const choice = asked && (narrowed && proposalsOf(asked).some(({ id }) => id === narrowed.proposal) ? narrowed : unlimited(proposalsOf(asked)[0]?.id ?? ""));
	const isMany = !row && shown.length > 10;
	const agents = new Set(all.map(({ agentId }) => agentId)).size;
	function unsettle() {
		if (root.current) guard()?.unsettle(root.current);
	}
	function back() {
		unsettle();
		setMode("answer");
		queueMicrotask(() => article.current?.focus({ preventScroll: true }));
	}
	function openAlways() {
		if (!asked || whyNotAlways || !may("approve")) return;
		unsettle();
		setMode("always");
	}
	function press(decision, isWrittenFor = false) {
		if (!isOnline || !all.length || !may("approve") || decision !== "deny" && whyNot) return;
		if (!root.current || !article.current) return;
		if (!isWrittenFor && !guard()?.isSteady(root.current)) return nudge(article.current);
		if (decision === "deny" && isMany && mode !== "deny") {
			unsettle();
			return setMode("deny");
		}
		const said = decision === "deny" ? reason.trim() : "";
		const to = all.map(({ id }) => id);
		if (decision === "deny") keepReason(said);
		if (decision !== "allow-always") return void (row ? decideTogether(to, decision, said ? { reason: said } : {}) : decideChosen(to, decision, said));
		if (!asked || !choice || whyNotAlways) return;
		decideTogether([asked.id, ...to.filter((id) => id !== asked.id)], decision, { grant: grantOf(asked, choice) });
	}
	return createVNode("div", {
		class: "card-item",
		ref: root,
		"data-id": row?.name ?? "chosen",
		children: createVNode("article", {
			class: "card",
			ref: article,
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
							children: waiting.length ? `One answer to ${waiting.length} ${row ? "similar " : ""}${waiting.length === 1 ? "request" : "requests"}` : `${entries.length} requests had one answer`
						}),
						row ? createVNode("button", {
							type: "button",
							class: "quiet",
							onClick: () => listEach(row.name),
							children: "List each"
						}) : createVNode(Fragment, { children: [createVNode("button", {
							type: "button",
							class: "quiet",
							id: "choose-alike",
							onClick: () => chooseAlike(first.approval.id),
							children: "Choose all alike"
						}), createVNode("button", {
							type: "button",
							class: "quiet",
							onClick: chooseNone,
							children: "Choose none"
						})] })
					]
				}),
				createVNode("div", {
					class: "card-body",
					role: "group",
					"aria-label": "What is answered",
					tabIndex: 0,
					children: [
						!waiting.every(({ approval }) => areAlike(approval, first.approval)) && createVNode("p", {
							class: "warn-line",
							children: "They come from different agents, run different programs or set different variables."
						}),
						createVNode(Results, { all: entries.filter(({ phase, problem }) => problem || row && phase === "settled") }),
						createVNode("ol", {
							class: "batch",
							"aria-label": row ? "The similar requests" : "The chosen requests",
							children: shown.map(({ entry: { approval }, count }) => createVNode("li", { children: [
								createVNode("p", {
									class: "batch-of",
									children: [
										count > 1 && createVNode("strong", { children: `Asked ${count} times: ` }),
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
								}) }),
								createVNode("span", { "data-end": approval.id })
							] }, approval.id))
						})
					]
				}),
				createVNode("div", {
					class: "card-foot",
					children: waiting.length > 0 && may("approve") && createVNode("div", {
						class: "answer",
						children: [
							mode !== "always" && createVNode("div", {
								class: "note",
								children: [createVNode("label", {
									for: "reason-chosen",
									children: "Why you deny them: the agent sees this (optional)"
								}), createVNode("input", {
									ref: field,
									id: "reason-chosen",
									type: "text",
									maxLength: 2e3,
									autocomplete: "off",
									value: reason,
									onInput: (event) => setReason(event.currentTarget.value),
									onKeyDown: (event) => {
										if (event.key !== "Enter" || event.repeat || event.isComposing) return;
										event.preventDefault();
										if (mode === "answer") press("deny", true);
									}
								})]
							}),
							mode === "always" && asked && choice && createVNode("fieldset", {
								class: "always",
								children: [
									createVNode("legend", { children: `From now on ${brief(asked.agentId, 40)} may run without asking` }),
									createVNode("p", {
										class: "hint",
										children: ["As in: ", createVNode("code", {
											dir: "ltr",
											children: brief(lineOf(asked), 160)
										})]
									}),
									createVNode(AlwaysPanel, {
										approval: asked,
										narrowed: choice,
										narrow: (next) => {
											unsettle();
											setNarrowed(next);
										}
									}, asked.id),
									createVNode("div", {
										class: "always-end",
										children: [
											createVNode(StoredList, {
												approval: asked,
												narrowed: choice,
												others: all.filter((other) => other !== asked)
											}),
											createVNode("button", {
												type: "button",
												class: "quiet",
												onClick: back,
												children: "Back"
											}),
											createVNode("button", {
												type: "button",
												ref: confirm,
												class: "act allow-always",
												"data-decision": "confirm-always",
												"aria-disabled": Boolean(whyNotAlways),
												onKeyDown: once,
												onClick: () => press("allow-always"),
												children: createVNode("span", {
													class: "act-text",
													children: "Store and allow"
												})
											})
										]
									})
								]
							}),
							mode === "deny" && createVNode(Fragment, { children: [createVNode("p", {
								class: "warn-line",
								role: "status",
								children: `Deny ${waiting.length} requests${agents > 1 ? ` of ${agents} agents` : ""}? This cannot be taken back.${agents > 1 ? " Their agents" : " The agent"} can ask again.`
							}), createVNode("div", {
								class: "actions two",
								role: "group",
								"aria-label": "Deny all of them",
								children: [createVNode("button", {
									type: "button",
									class: "act",
									onClick: back,
									children: "Back"
								}), createVNode("button", {
									type: "button",
									ref: confirm,
									class: "act deny",
									"data-decision": "confirm-deny-all",
									"aria-disabled": !isOnline || !all.length,
									onKeyDown: once,
									onClick: () => press("deny"),
									children: createVNode("span", {
										class: "act-text",
										"data-key": "Enter",
										children: `Deny all ${waiting.length}`
									})
								})]
							})] }),
							mode === "answer" && createVNode("div", {
								class: row ? "actions" : "actions two",
								role: "group",
								"aria-label": "Your answer to all of them",
								children: [
									createVNode("button", {
										type: "button",
										class: "act deny",
										"data-decision": "deny-all",
										"aria-keyshortcuts": "d",
										"aria-disabled": !isOnline || !all.length,
										onClick: () => press("deny"),
										children: createVNode("span", {
											class: "act-text",
											"data-key": "d",
											children: `Deny ${waiting.length}`
										})
									}),
									row && createVNode("button", {
										type: "button",
										class: "act allow-always",
										"data-decision": "allow-always",
										"aria-keyshortcuts": "A",
										"aria-expanded": false,
										"aria-disabled": Boolean(whyNotAlways),
										"aria-describedby": whyNotAlways ? "why-not-chosen" : void 0,
										onClick: openAlways,
										children: createVNode("span", {
											class: "act-text",
											"data-key": "A",
											children: "Always…"
										})
									}),
									createVNode("button", {
										type: "button",
										class: "act allow-once",
										"data-decision": "allow-all",
										"aria-keyshortcuts": "a",
										"aria-disabled": Boolean(whyNot),
										"aria-describedby": whyNot ? "why-not-chosen" : void 0,
										onClick: () => press("allow-once"),
										children: createVNode("span", {
											class: "act-text",
											"data-key": "a",
											children: `Allow ${waiting.length} once`
										})
									})
								]
							}),
							createVNode("p", {
								class: "hint why-not",
								id: "why-not-chosen",
								children: mode === "deny" ? "" : whyNot || (row ? whyNotAlways : "")
							})
						]
					})
				})
			]
		})
	});
}
function once(event) {
	if (event.repeat) event.preventDefault();
}
function firsts(entries) {
	const found = new Map();
	for (const entry of entries) {
		const known = found.get(equalKey(entry.approval));
		if (known) known.count += 1;
		else found.set(equalKey(entry.approval), {
			entry,
			count: 1
		});
	}
	return [...found.values()];
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
	[["e"], "suggest another command"],
	[["x"], "choose this request for one answer to several"],
	[["X"], "choose every request like this one"],
	[["*"], "choose every request of the list, as it is filtered"],
	[[
		"o",
		"→",
		"←"
	], "list or hide the requests of a group"],
	[["g"], "group similar requests, or only equal ones"],
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
// src/view/mutes.tsx
var PAUSE_MS = 100;
var LONGEST_MS = 2 ** 31 - 1;
function Mutes() {
	const hint = useValue(hints.policy) + useValue(hints.all);
	const [muted, setMuted] = useState([]);
	const [refresh] = useState(() => looker(async () => {
		try {
			setMuted((await json("GET", "/v1/mutes?limit=100")).items);
		} catch (error) {
			if (!(error instanceof Refused) || error.status >= 500) throw error;
			setMuted([]);
		}
	}, PAUSE_MS));
	useEffect(() => refresh(), [hint]);
	useEffect(() => {
		if (!muted.length) return void 0;
		const next = Math.min(...muted.map(({ untilMs }) => untilMs)) - serverNow();
		const timer = setTimeout(refresh, Math.min(Math.max(next, 0) + PAUSE_MS, LONGEST_MS));
		return () => clearTimeout(timer);
	}, [muted]);
	if (!muted.length) return null;
	return createVNode("ul", {
		class: "mutes",
		id: "mutes",
		"aria-label": "Muted agents",
		children: muted.map((mute) => createVNode(Row, {
			mute,
			ended: refresh
		}, mute.agentId))
	});
}
function Row({ mute: { agentId, untilMs, reason, endWaits }, ended }) {
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	async function end() {
		setSending(true);
		setProblem("");
		try {
			await send$1("DELETE", `/v1/agents/${encodeURIComponent(agentId)}/mute`);
		} catch (error) {
			if (!(error instanceof Refused) || error.status !== 404) setProblem(error instanceof Refused ? error.sentence : "No answer came. Try again.");
		}
		setSending(false);
		ended();
	}
	return createVNode("li", {
		"data-muted": agentId,
		children: [
			createVNode("span", { children: [
				createVNode("strong", { children: createVNode("bdi", { children: visible(agentId) }) }),
				" is muted until ",
				createVNode(Time, { ms: untilMs }),
				reason && createVNode(Fragment, { children: [
					" (",
					createVNode("bdi", { children: brief(reason, 200) }),
					")"
				] }),
				". What it would ask is denied."
			] }),
			" ",
			endWaits && createVNode("span", { children: [
				createVNode("strong", { children: "Its end waits to be accepted." }),
				" Until then the mute stays. ",
				createVNode("a", {
					href: "#/policy",
					children: "See it under Policy"
				})
			] }),
			may("admin") && createVNode("button", {
				type: "button",
				class: "quiet",
				disabled: isSending,
				"aria-label": `End it: the mute of ${brief(agentId, 40)}`,
				onClick: () => void end(),
				children: "End it"
			}),
			createVNode(Wrong, { text: problem })
		]
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
			const response = await send$1("GET", `/v1/runs/${run.runId}/output`, { headers: {
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
// src/view/past.tsx
var MOST_SHOWN = 5;
var MOST_ASKED_FOR = 50;
function Past({ approval: { agentId, command, createdAtMs }, runs }) {
	const [answers, setAnswers] = useState(new Map());
	const shown = runs.slice(0, MOST_SHOWN);
	const wereAsked = shown.some(({ approvalId }) => approvalId !== void 0);
	useEffect(() => {
		if (!wereAsked) return void 0;
		let isOver = false;
		const query = new URLSearchParams({
			agentId,
			q: [...command].slice(0, 100).join(""),
			status: "all",
			until: String(createdAtMs + 1),
			limit: String(MOST_ASKED_FOR)
		});
		json("GET", `/v1/approvals?${query}`).then(({ items }) => !isOver && setAnswers(new Map(items.map((answer) => [answer.runId, answer]))), () => {});
		return () => {
			isOver = true;
		};
	}, [
		agentId,
		command,
		createdAtMs,
		wereAsked
	]);
	return createVNode("div", {
		class: "past",
		children: [createVNode("p", { children: `The last ${shown.length === 1 ? "time" : `${shown.length} times`} this agent asked for exactly this:` }), createVNode("ol", {
			class: "past-list",
			"aria-label": "The last times",
			children: shown.map((run) => {
				const { label, tone } = runStatus(run.status);
				const answer = answers.get(run.runId);
				const by = run.decision?.by;
				const facts = [
					answer && answer.status !== "pending" ? outcome(answer).title : by && `decided by ${by}`,
					run.exitCode !== void 0 && `exit code ${run.exitCode}`,
					run.exitSignal,
					run.status === "denied" && run.reason !== "user-denied" && run.reason
				];
				return createVNode("li", { children: [
					createVNode("span", {
						class: `badge ${tone}`,
						children: label
					}),
					" ",
					createVNode(Time, { ms: run.createdAtMs }),
					visible(facts.filter(Boolean).map((fact) => `, ${fact}`).join(""))
				] }, run.runId);
			})
		})]
	});
}
// src/view/revise.tsx
var MOST_CHARS = 1e5;
function written({ boundTo: { argv }, command }) {
	const isList = argv !== void 0 && argv.length > 0 && !argv.some((argument) => /[\r\n]/.test(argument));
	return isList ? {
		text: argv.join("\n"),
		isList
	} : {
		text: command,
		isList
	};
}
function Revise({ approval, close, blocked }) {
	const [{ text: before, isList }] = useState(() => written(approval));
	const [text, setText] = useState(before);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const field = useRef(null);
	useLayoutEffect(() => field.current?.focus(), []);
	const isChanged = text !== before && text.trim() !== "";
	const key = approval.id;
	async function press() {
		if (isSending || !isChanged || blocked) return;
		setSending(true);
		setProblem("");
		try {
			await revise(key, isList ? { argv: text.split("\n") } : { command: text });
		} catch (error) {
			setProblem(error instanceof Refused ? error.message : "No answer came. Check the list before you try again.");
			setSending(false);
		}
	}
	return createVNode("form", {
		class: "revise",
		"aria-label": "Suggest another command",
		onSubmit: (event) => {
			event.preventDefault();
			press();
		},
		children: [
			createVNode("label", {
				for: `revise-${key}`,
				children: isList ? "The command that you suggest, one argument a line. No shell reads it." : "The command that you suggest. A shell reads it."
			}),
			createVNode("textarea", {
				ref: field,
				id: `revise-${key}`,
				rows: Math.min(8, text.split("\n").length + 1),
				maxLength: MOST_CHARS,
				spellcheck: false,
				autocomplete: "off",
				autocapitalize: "none",
				value: text,
				onInput: (event) => setText(event.currentTarget.value)
			}),
			isChanged && createVNode(Diff, {
				before,
				after: text
			}),
			createVNode("p", {
				class: "hint",
				children: "This request ends as denied, and the agent waits for the answer to your command, which you or another person gives."
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("div", {
				class: "always-end",
				children: [createVNode("button", {
					type: "button",
					class: "quiet",
					onClick: close,
					children: "Back"
				}), createVNode("button", {
					type: "submit",
					class: isSending ? "primary busy" : "primary",
					"aria-disabled": !isChanged || isSending || Boolean(blocked),
					children: createVNode("span", {
						class: "act-text",
						children: "Suggest it"
					})
				})]
			})
		]
	});
}
function Diff({ before, after }) {
	return createVNode("p", {
		class: "diff",
		dir: "ltr",
		role: "group",
		"aria-label": "What changed",
		tabIndex: 0,
		children: diff(before, after).map(({ kind, text }, at) => {
			const shown = visible(text, "\n");
			if (kind === "gone") return createVNode("del", { children: shown }, at);
			return kind === "new" ? createVNode("ins", { children: shown }, at) : createVNode("span", { children: shown }, at);
		})
	});
}
function Revised({ approval }) {
	const { revises } = approval;
	const [before, setBefore] = useState(void 0);
	useEffect(() => {
		let isOver = false;
		if (revises) json("GET", `/v1/approvals/${revises}`).then((old) => !isOver && setBefore(old), () => {});
		return () => {
			isOver = true;
		};
	}, [revises]);
	if (!before) return null;
	return createVNode("div", {
		class: "revised",
		children: [createVNode("p", { children: "A person suggested this command in place of the one the agent asked for:" }), createVNode(Diff, {
			before: lineOf(before),
			after: lineOf(approval)
		})]
	});
}
// src/pure/start.ts
var TEST_COMMAND = "echo 'Hello from countersign'";
var TEST_LINE = "countersign exec --host gateway --ask always -- echo 'Hello from countersign'";
function testCall(policy) {
	return {
		command: TEST_COMMAND,
		ask: "always",
		approvalWaitMs: 0,
		justification: "A test question from the page.",
		...policy?.approvalsApply === false ? { host: "gateway" } : {}
	};
}
function agentsSaid(agents, hasMore) {
	const seen = agents.filter(({ lastSeenAtMs }) => lastSeenAtMs !== void 0).sort((one, other) => (other.lastSeenAtMs ?? 0) - (one.lastSeenAtMs ?? 0));
	const [last] = seen;
	if (!last) return "No agent has asked for anything yet.";
	return `${seen.length === 1 && !hasMore ? "One agent" : `${seen.length}${hasMore ? " or more" : ""} agents`} asked so far, ${visible(last.agentId)} last, at ${new Date(last.lastSeenAtMs ?? 0).toLocaleString()}.`;
}
function nodesSaid(nodes) {
	const connected = nodes.filter(({ connected: isIt }) => isIt).length;
	return nodes.length ? `${connected} of ${nodes.length} ${nodes.length === 1 ? "node is" : "nodes are"} connected.` : "";
}
function policySaid({ approvalsApply, host, security, ask }) {
	if (!approvalsApply) return "Commands go to the sandbox, where nobody is asked. A request appears here once an agent asks for this machine or a node.";
	const where = host.value === "node" ? "a node" : "this machine";
	if (security.value === "deny") return `Commands go to ${where}, where policy denies all of them, so nobody is asked.`;
	if (security.value === "full" && ask.value !== "always") return `Commands go to ${where}, where all of them run without a question.`;
	if (ask.value === "off") return `Commands go to ${where}. What the allowlist does not cover is denied without a question.`;
	return `Commands go to ${where}. ${ask.value === "always" ? "Each needs approval" : "What the allowlist does not cover needs approval"}, and the question appears here.`;
}
function testSaid(answer) {
	if (answer.status === "approval-pending") return "The question is asked. Approvers see it now. Your sign-in asks, so it can never answer.";
	return `It ran without a question (${visible(answer.host ?? "unknown host")}${answer.exitCode === void 0 ? "" : `, exit code ${answer.exitCode}`}). Look at the policy to see why.`;
}
// src/view/start.tsx
var MOST = 100;
function Start() {
	const now = useValue(policy);
	const hint = useValue(hints.all);
	const [said, setSaid] = useState(void 0);
	const isReader = may("read");
	useEffect(() => {
		if (!isReader) return void 0;
		let isGone = false;
		Promise.all([json("GET", `/v1/agents?limit=${MOST}`), json("GET", `/v1/nodes?limit=${MOST}`)]).then(([agents, nodes]) => {
			if (!isGone) setSaid([agentsSaid(agents.items, Boolean(agents.nextCursor)), nodesSaid(nodes.items)].filter(Boolean));
		}, (error) => {
			if (!isGone && (!(error instanceof Refused) || error.isSignedOut)) failed(error);
		});
		return () => {
			isGone = true;
		};
	}, [hint, isReader]);
	if (!isReader) return null;
	return createVNode("section", {
		class: "start",
		id: "start",
		"aria-labelledby": "start-title",
		children: [
			createVNode("h2", {
				id: "start-title",
				children: "What is connected"
			}),
			createVNode("ul", {
				class: "checks",
				children: [said?.map((sentence) => createVNode("li", { children: createVNode("bdi", { children: sentence }) }, sentence)), now && createVNode("li", { children: [
					policySaid(now),
					" ",
					createVNode("a", {
						href: "#/policy",
						children: "Policy"
					})
				] })]
			}),
			may("exec") ? createVNode(TestQuestion, {}) : createVNode(Fragment, { children: [createVNode("p", {
				class: "hint",
				children: [
					"To try it out, run this on the server. It asks whether ",
					createVNode("code", { children: TEST_COMMAND }),
					" may run; nothing runs before you allow it."
				]
			}), createVNode("code", {
				class: "line",
				children: TEST_LINE
			})] })
		]
	});
}
function TestQuestion() {
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const [said, setSaid] = useState("");
	async function ask() {
		if (isSending) return;
		setSending(true);
		setProblem("");
		setSaid("");
		try {
			const words = testSaid(await json("POST", "/v1/exec", { body: testCall(policy.value) }));
			setSaid(words);
			announce(words);
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? [error.message, error.problem.hint && `What would change that: ${error.problem.hint}`].filter(Boolean).join(". ") : "No answer came. Check the list before you try again.");
		}
		setSending(false);
	}
	return createVNode(Fragment, { children: [
		createVNode("p", { children: [
			"See what a question looks like: it asks whether ",
			createVNode("code", { children: TEST_COMMAND }),
			" may run as agent ",
			createVNode("code", { children: "main" }),
			". Nothing runs before a person allows it, and then it only prints these words."
		] }),
		createVNode("p", { children: createVNode("button", {
			type: "button",
			id: "send-test",
			class: "primary",
			"aria-disabled": isSending,
			onClick: () => void ask(),
			children: "Send a test question"
		}) }),
		createVNode(Wrong, { text: problem }),
		createVNode("p", {
			class: "hint",
			role: "status",
			children: visible(said)
		})
	] });
}
// src/view/stop-dialog.tsx
var NO_REASON = "no reason given";
var WORDS = {
	stop: {
		title: "Stop everything",
		text: "Nothing new starts, for any agent, and every waiting request is denied.",
		go: "Stop everything"
	},
	kill: {
		title: "End what is running",
		text: "Nothing new starts, for any agent, and every waiting request is denied.",
		go: "End it"
	},
	resume: {
		title: "Resume",
		text: "Agents may run commands again, as policy allows. What the stop denied stays denied.",
		go: "Resume"
	}
};
function StopDialog() {
	const deed = useValue(wanted);
	const dialog = useRef(null);
	const field = useRef(null);
	const [reason, setReason] = useState("");
	const [kills, setKills] = useState(false);
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const { title, text, go } = WORDS[deed ?? "stop"];
	const stops = deed !== "resume";
	const isReady = !isSending && (stops || reason.trim() !== "");
	useLayoutEffect(() => {
		const { current } = dialog;
		if (!deed) return current?.close();
		setReason("");
		setKills(deed === "kill");
		setProblem("");
		if (!current?.open) current?.showModal();
		field.current?.focus();
		current?.setAttribute("data-unsteady", "");
		const timer = setTimeout(() => current?.removeAttribute("data-unsteady"), 500);
		return () => clearTimeout(timer);
	}, [deed]);
	async function press() {
		if (!isReady || dialog.current?.hasAttribute("data-unsteady")) return;
		setSending(true);
		setProblem("");
		try {
			if (stops) await stopNow(reason.trim() || standing.value.stop?.reason || NO_REASON, kills);
			else await resumeNow(reason);
			wanted.set(void 0);
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.message : "No answer came. Check whether everything is stopped before you try again.");
		}
		setSending(false);
		refreshStop();
	}
	return createVNode("dialog", {
		id: "stop",
		ref: dialog,
		"aria-labelledby": "stop-title",
		"aria-describedby": "stop-text",
		onClose: () => wanted.set(void 0),
		children: createVNode("form", {
			id: "stop-form",
			noValidate: true,
			onSubmit: (event) => {
				event.preventDefault();
				press();
			},
			children: [
				createVNode("h2", {
					id: "stop-title",
					children: title
				}),
				createVNode("p", {
					id: "stop-text",
					children: text
				}),
				createVNode("label", {
					for: "stop-reason",
					children: `Why? Agents that are refused see this, and the record keeps it${stops ? " (optional)" : ""}.`
				}),
				createVNode("input", {
					ref: field,
					type: "text",
					id: "stop-reason",
					maxLength: 2e3,
					required: !stops,
					autocomplete: "off",
					value: reason,
					onInput: (event) => setReason(event.currentTarget.value),
					onKeyDown: (event) => {
						if (event.key === "Enter" && event.repeat) event.preventDefault();
					}
				}),
				createVNode("label", {
					class: "check",
					id: "stop-kill-field",
					hidden: deed !== "stop",
					children: [
						createVNode("input", {
							type: "checkbox",
							id: "stop-kill",
							checked: kills,
							onChange: (event) => setKills(event.currentTarget.checked)
						}),
						" ",
						createVNode("span", { children: "Also end what is running" })
					]
				}),
				createVNode(Wrong, {
					id: "stop-problem",
					text: problem
				}),
				createVNode("p", {
					class: "dialog-end",
					children: [
						createVNode("button", {
							type: "button",
							class: "quiet",
							id: "stop-back",
							onClick: () => wanted.set(void 0),
							children: "Back"
						}),
						" ",
						createVNode("button", {
							type: "submit",
							class: stops ? "primary danger" : "primary",
							id: "stop-go",
							"aria-disabled": !isReady,
							children: go
						})
					]
				})
			]
		})
	});
}
async function stopNow(reason, kill) {
	const answer = await json("POST", "/v1/stop", { body: {
		reason,
		kill
	} });
	standing.set({
		stopped: true,
		stop: answer.stop
	});
	const running = answer.running.length;
	announce(`Everything is stopped. ${running === 1 ? "One command still runs." : `${running || "No"} commands still run.`}`);
}
async function resumeNow(reason) {
	const answer = await json("POST", "/v1/resume", { body: { reason } });
	announce(answer.stopped ? "An admin of another owner has to confirm before commands run again." : "Commands may run again.");
}
// src/pure/trust.ts
var TRUST = {
	"separate-user": ["good", "Commands run as another user. They cannot read or change anything of this server."],
	confined: ["good", "Commands run confined: they cannot reach this server's files and sockets while they run."],
	"same-user": ["warn", "Commands run with the same rights as this server. Approvals are a guard rail here, not a boundary."],
	sandbox: ["good", "Commands run in a sandbox, separate from this server."],
	node: ["good", "Commands run on another machine, under its own rules."]
};
function trust(level) {
	const [tone, sentence] = (Object.hasOwn(TRUST, level) ? TRUST[level] : void 0) ?? ["warn", "This page does not know what that level means."];
	return {
		level,
		tone,
		sentence
	};
}
// src/view/trust.tsx
function Trust() {
	const now = useValue(policy);
	if (!now) return null;
	const { level, tone, sentence } = trust(now.isolation);
	return createVNode("p", {
		class: "trust",
		id: "trust",
		"data-tone": tone,
		children: [
			createVNode("span", {
				class: "trust-level",
				children: ["Trust level ", createVNode("code", { children: visible(level) })]
			}),
			" ",
			sentence
		]
	});
}
// src/view/record.tsx
var record_exports = __exportAll({
	AfterDenial: () => AfterDenial,
	AlwaysPanel: () => AlwaysPanel,
	AuditFacts: () => AuditFacts,
	Batch: () => Batch,
	ChooseAll: () => ChooseAll,
	Ended: () => Ended,
	HeldAnswers: () => HeldAnswers,
	HeldBack: () => HeldBack,
	Help: () => Help,
	Mutes: () => Mutes,
	Output: () => Output,
	Past: () => Past,
	Reasons: () => Reasons,
	Results: () => Results,
	Revise: () => Revise,
	Revised: () => Revised,
	Start: () => Start,
	StopDialog: () => StopDialog,
	StoredList: () => StoredList,
	Times: () => Times,
	Trust: () => Trust,
	chooseAll: () => chooseAll,
	decideTogether: () => decideTogether,
	whyNoAlways: () => whyNoAlways
});
export { Changes, Confirm, Output, record_exports, rejecting };
