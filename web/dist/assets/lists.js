import { Confirm } from "./record.js";
import { Fragment, Refused, Wrong, brief, createVNode, failed, gone, json, keepFilter, looker, place, send, useEffect, useLayoutEffect, useRef, useState, useValue, visible, visibleOutput } from "./app.js";
// src/view/listing.tsx
var TYPING_MS = 250;
function useFilter(fields) {
	const { query } = useValue(place);
	return Object.fromEntries(fields.map(({ key }) => [key, query.get(key) ?? ""]));
}
function Filter({ view, fields }) {
	const now = useFilter(fields);
	const typing = useRef(void 0);
	const waiting = useRef({});
	useEffect(() => () => clearTimeout(typing.current), []);
	const set = (key, value, pause) => {
		clearTimeout(typing.current);
		waiting.current = {
			...waiting.current,
			[key]: value
		};
		typing.current = setTimeout(() => {
			const all = {
				...now,
				...waiting.current
			};
			waiting.current = {};
			keepFilter(view, all);
		}, pause);
	};
	return createVNode("div", {
		class: "toolbar",
		role: "search",
		"aria-label": "Filter",
		children: fields.map(({ key, title, choices, kind, hint }) => createVNode("div", {
			class: "field",
			children: [createVNode("label", {
				for: `${view}-${key}`,
				children: title
			}), choices ? createVNode("select", {
				id: `${view}-${key}`,
				value: now[key],
				onChange: (event) => set(key, event.currentTarget.value, 0),
				children: choices.map(([value, words]) => createVNode("option", {
					value,
					children: words
				}, value))
			}) : kind === "day" ? createVNode("input", {
				id: `${view}-${key}`,
				type: "date",
				value: waiting.current[key] ?? now[key],
				onInput: (event) => set(key, event.currentTarget.value, TYPING_MS)
			}) : createVNode("input", {
				id: `${view}-${key}`,
				type: "text",
				autocomplete: "off",
				autocapitalize: "none",
				spellcheck: false,
				placeholder: hint,
				value: waiting.current[key] ?? now[key],
				onInput: (event) => set(key, event.currentTarget.value.trim(), TYPING_MS)
			})]
		}, key))
	});
}
function Listing({ id, title, list: { items, hasMore, problem, older }, none, row }) {
	return createVNode(Fragment, { children: [
		createVNode(Wrong, { text: problem }),
		!items && !problem && createVNode("p", {
			class: "hint",
			children: "Loading …"
		}),
		items?.length === 0 && createVNode("div", {
			class: "blank",
			id: `${id}-none`,
			children: none
		}),
		items && items.length > 0 && createVNode("ol", {
			class: "runs",
			id,
			"aria-label": title,
			children: items.map(row)
		}),
		hasMore && createVNode("button", {
			type: "button",
			class: "more",
			onClick: older,
			children: "Show more"
		})
	] });
}
var DAY_MS = 864e5;
var AGES = [
	["", "At any time"],
	["1h", "In the last hour"],
	["1", "In the last day"],
	["7", "In the last 7 days"],
	["30", "In the last 30 days"]
];
function sinceOf(age) {
	const [, number, hours] = /^(\d{1,4})(h?)$/.exec(age ?? "") ?? [];
	return number === void 0 ? void 0 : String(Math.floor((Date.now() - Number(number) * (hours ? DAY_MS / 24 : DAY_MS)) / 6e4) * 6e4);
}
function dayOf(day) {
	const [, year, month, date] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(day ?? "") ?? []).map(Number);
	if (year === void 0 || month === void 0 || date === void 0) return {};
	return {
		since: String(new Date(year, month - 1, date).getTime()),
		until: String(new Date(year, month - 1, date + 1).getTime())
	};
}
function query(parameters) {
	const said = Object.entries(parameters).filter((pair) => Boolean(pair[1]));
	return new URLSearchParams(said).toString();
}
// src/view/paged.ts
var PAUSE_MS = 1e3;
function usePaged(path, keyOf, hint = 0) {
	const [items, setItems] = useState(void 0);
	const [hasMore, setMore] = useState(false);
	const [problem, setProblem] = useState("");
	const now = useRef({
		path,
		cursor: void 0,
		hasOlder: false,
		isOver: false
	});
	async function ask(cursor) {
		const { current } = now;
		const asked = current.path;
		const glue = asked.includes("?") ? "&" : "?";
		const page = await json("GET", cursor === void 0 ? asked : `${asked}${glue}cursor=${encodeURIComponent(cursor)}`);
		if (current.isOver || current.path !== asked || gone.value !== void 0) return;
		setProblem("");
		const isNewest = cursor === void 0;
		if (!isNewest) current.hasOlder = true;
		if (!isNewest || !current.hasOlder) {
			current.cursor = page.nextCursor;
			setMore(Boolean(page.nextCursor));
		}
		const keys = new Set(page.items.map(keyOf));
		setItems((before = []) => {
			if (!isNewest) return [...before.filter((item) => !keys.has(keyOf(item))), ...page.items];
			return current.hasOlder ? [...page.items, ...before.filter((item) => !keys.has(keyOf(item)))] : page.items;
		});
	}
	function complain(error) {
		if (now.current.isOver) return;
		if (error instanceof Refused && !error.isSignedOut) setProblem(error.sentence);
		else failed(error);
	}
	const [refresh] = useState(() => looker(() => ask().catch((error) => {
		if (!(error instanceof Refused) || error.status >= 500) throw error;
		complain(error);
	}), PAUSE_MS));
	useEffect(() => {
		now.current = {
			path,
			cursor: void 0,
			hasOlder: false,
			isOver: false
		};
		setItems(void 0);
		setMore(false);
		setProblem("");
		ask().catch(complain);
		const { current } = now;
		return () => {
			current.isOver = true;
		};
	}, [path]);
	useEffect(() => {
		if (hint) refresh();
	}, [hint]);
	return {
		items,
		hasMore,
		problem,
		older: () => void ask(now.current.cursor).catch(complain),
		refresh
	};
}
// src/view/policy/settings.tsx
var WAITS = {
	restart: "a restart",
	acceptance: "an admin who accepts it",
	change: "nothing: an admin rejected it. Set it back in countersign.toml"
};
var written = (value) => value === null ? "unset" : visible(typeof value === "string" ? value : JSON.stringify(value));
var isDefault = (item) => JSON.stringify(item.value) === JSON.stringify(item.default);
function Settings({ items }) {
	const waits = items.filter((item) => "waiting" in item);
	const others = items.filter((item) => !("waiting" in item));
	const usual = others.filter(isDefault);
	return createVNode("section", {
		class: "panel",
		id: "settings",
		"aria-labelledby": "settings-title",
		children: [
			createVNode("h2", {
				id: "settings-title",
				children: "Settings of this server"
			}),
			createVNode("p", {
				class: "hint",
				children: "What is in effect in the running server, and what waits. countersign.toml and openclaw.json change it."
			}),
			createVNode("dl", {
				class: "facts",
				children: [...waits, ...others.filter((item) => !isDefault(item))].map((item) => createVNode(Row, { item }, item.path))
			}),
			createVNode("details", {
				id: "settings-defaults",
				"aria-label": "Settings that have their default",
				children: [createVNode("summary", { children: `${usual.length} settings have their default` }), createVNode("dl", {
					class: "facts",
					children: usual.map((item) => createVNode(Row, { item }, item.path))
				})]
			})
		]
	});
}
function Row({ item }) {
	const waits = "waiting" in item && `; ${item.waiting === true ? "another value" : written(item.waiting)} waits for ${WAITS[item.waitsFor ?? ""] ?? "something"}`;
	return createVNode("div", {
		class: "fact",
		children: [createVNode("dt", { children: visible(item.path) }), createVNode("dd", { children: [
			createVNode("code", { children: written(item.value) }),
			item.source === "default" ? "" : ` from ${visible(item.source)}`,
			waits && createVNode("strong", { children: waits })
		] })]
	});
}
// src/view/agents.ts
var NAME_LENGTH = 40;
function useAgents() {
	const [names, setNames] = useState([]);
	useEffect(() => {
		let isOver = false;
		json("GET", "/v1/agents?limit=500").then(({ items }) => !isOver && setNames(items.map(({ agentId }) => agentId)), () => {});
		return () => {
			isOver = true;
		};
	}, []);
	return [["", "All agents"], ...names.map((name) => [name, brief(name, NAME_LENGTH)])];
}
// src/pure/replay.ts
function pictured(before, { atMs, rows: height, cols, cursor, changed }) {
	const rows = Array.from({ length: height }, (_none, row) => before?.rows[row] ?? []);
	for (const { row, texts } of changed) if (row < height) rows[row] = texts;
	return {
		atMs,
		rows,
		cols,
		cursor
	};
}
function developed(before, { frames }) {
	const pictures = [...before];
	let last;
	for (const frame of frames) {
		last = pictured(last, frame);
		pictures.push(last);
	}
	return pictures;
}
function at(pictures, ms) {
	let [low, high] = [0, pictures.length];
	while (low < high) {
		const middle = low + high >> 1;
		if ((pictures[middle]?.atMs ?? 0) <= ms) low = middle + 1;
		else high = middle;
	}
	return Math.max(low - 1, 0);
}
function advanced(pictures, fromMs, playedMs, lengthMs, idleMs) {
	let now = fromMs;
	let left = playedMs;
	for (let place = (pictures[0]?.atMs ?? 0) > now ? 0 : at(pictures, now) + 1;; place += 1) {
		const begin = pictures[place - 1]?.atMs ?? 0;
		const end = pictures[place]?.atMs ?? lengthMs;
		const fast = idleMs === void 0 ? 1 : Math.max((end - begin) / idleMs, 1);
		const takes = Math.max(end - now, 0) / fast;
		if (left < takes) return now + left * fast;
		left -= takes;
		now = Math.max(end, now);
		if (place >= pictures.length) return now;
	}
}
var lineOf = (texts) => texts.map(({ text }) => text).join("");
function found(pictures, words, from, step) {
	const wanted = words.toLowerCase();
	if (!wanted) return -1;
	const shows = (place) => pictures[place]?.rows.some((row) => lineOf(row).toLowerCase().includes(wanted)) ?? false;
	for (let place = from + step; place >= 0 && place < pictures.length; place += step) if (shows(place) && (place === 0 || !shows(place - 1))) return place;
	return -1;
}
// src/view/screen.tsx
function Screen({ picture: { rows, cursor }, words = "" }) {
	const wanted = words.toLowerCase();
	return createVNode("div", {
		class: "screen",
		dir: "ltr",
		children: rows.map((texts, row) => createVNode("div", {
			class: `screen-row${wanted && lineOf(texts).toLowerCase().includes(wanted) ? " hit" : ""}${cursor?.[0] === row + 1 ? " at" : ""}`,
			children: texts.length ? texts.map(({ text, look }, place) => createVNode("span", {
				class: look ? `look ${look}` : void 0,
				children: visible(text)
			}, place)) : "\xA0"
		}, row))
	});
}
// src/view/cancel.tsx
function Cancel({ run: { runId }, changed }) {
	return createVNode(Confirm, {
		name: "End the run…",
		act: "cancel-run",
		question: "End this run and everything that it started?",
		yes: "End it",
		done: "The run is ended.",
		changed,
		run: () => json("POST", `/v1/runs/${runId}/cancel`, { body: {} })
	});
}
// src/view/live-output.tsx
function LiveOutput({ runId, ended }) {
	const [text, setText] = useState("");
	const [state, setState] = useState("Waiting for output …");
	const box = useRef(null);
	const isAtEnd = useRef(true);
	useEffect(() => {
		const line = new AbortController();
		async function follow() {
			const response = await send("GET", `/v1/runs/${runId}/output?follow=1`, {
				headers: { Accept: "text/plain" },
				signal: line.signal
			});
			if (!response.body) return;
			const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
			for (;;) {
				const { done, value } = await reader.read();
				if (done) break;
				setState("Live");
				setText((before) => (before + visibleOutput(value)).slice(-2e5));
			}
			ended();
		}
		follow().catch((error) => {
			if (line.signal.aborted) return;
			setState(error instanceof Refused ? error.sentence : "The output broke off. Close and open the run to see it again.");
		});
		return () => line.abort();
	}, [runId]);
	useLayoutEffect(() => {
		if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
	}, [text]);
	return createVNode("div", {
		class: "run-output",
		children: [text && createVNode("pre", {
			class: "output",
			ref: box,
			tabIndex: 0,
			role: "group",
			"aria-label": "Output",
			onScroll: ({ currentTarget }) => {
				isAtEnd.current = currentTarget.scrollTop + currentTarget.clientHeight >= currentTarget.scrollHeight - 8;
			},
			children: text
		}), createVNode("p", {
			class: "hint",
			role: "status",
			children: state
		})]
	});
}
export { AGES, Cancel, Filter, Listing, LiveOutput, Screen, Settings, advanced, at, dayOf, developed, found, pictured, query, sinceOf, useAgents, useFilter, usePaged };
