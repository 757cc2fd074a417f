import { Fragment, Refused, Wrong, createVNode, duration, failed, json, useEffect, useRef, useState } from "./app.js";
import { Screen, advanced, at, developed, found } from "./lists.js";
// src/view/replay.tsx
var TICK_MS = 40;
var IDLE_MS = 2e3;
var STEP_MS = 5e3;
var SPEEDS = [
	.5,
	1,
	2,
	4,
	8,
	16
];
var MOST_ANSWERS = 40;
function useFilm(runId) {
	const [film, setFilm] = useState({
		pictures: [],
		lengthMs: 0,
		lostAtMs: void 0,
		isWhole: false,
		isCut: false
	});
	const [problem, setProblem] = useState("");
	useEffect(() => {
		let isOver = false;
		async function load() {
			let after;
			for (let answers = 0; answers < MOST_ANSWERS && !isOver; answers += 1) {
				const part = await json("GET", `/v1/runs/${encodeURIComponent(runId)}/recording/frames${after === void 0 ? "" : `?afterMs=${after}`}`);
				if (isOver) return;
				after = part.nextAfterMs;
				const isCut = after !== void 0 && answers + 1 === MOST_ANSWERS;
				setFilm(({ pictures }) => ({
					pictures: developed(pictures, part),
					lengthMs: isCut ? after ?? 0 : part.lengthMs,
					lostAtMs: part.lostAtMs,
					isWhole: after === void 0 || isCut,
					isCut
				}));
				if (after === void 0) return;
			}
		}
		load().catch((error) => {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? error.sentence : "The recording could not be loaded. Close it and open it again.");
		});
		return () => {
			isOver = true;
		};
	}, [runId]);
	return {
		film,
		problem
	};
}
function Replay({ run }) {
	const { film, problem } = useFilm(run.runId);
	const { pictures, lengthMs, lostAtMs, isWhole, isCut } = film;
	const [now, setNow] = useState(0);
	const [isPlaying, setPlaying] = useState(false);
	const [speed, setSpeed] = useState(1);
	const [cutsIdle, setCutsIdle] = useState(true);
	const [words, setWords] = useState("");
	const [said, setSaid] = useState("");
	const timing = useRef({
		pictures,
		lengthMs,
		speed,
		cutsIdle
	});
	timing.current = {
		pictures,
		lengthMs,
		speed,
		cutsIdle
	};
	useEffect(() => {
		if (!isPlaying) return void 0;
		let last = performance.now();
		const timer = setInterval(() => {
			const present = performance.now();
			const { pictures: all, lengthMs: length, speed: times, cutsIdle: cuts } = timing.current;
			const played = (present - last) * times;
			last = present;
			setNow((before) => advanced(all, before, played, length, cuts ? IDLE_MS : void 0));
		}, TICK_MS);
		return () => clearInterval(timer);
	}, [isPlaying]);
	useEffect(() => {
		if (isPlaying && isWhole && now >= lengthMs) setPlaying(false);
	}, [
		now,
		lengthMs,
		isWhole,
		isPlaying
	]);
	const go = (ms) => setNow(Math.min(Math.max(ms, 0), lengthMs));
	const play = () => {
		if (!isPlaying && now >= lengthMs) setNow(0);
		setPlaying(!isPlaying);
	};
	const search = (step) => {
		const place = found(pictures, words, at(pictures, now), step);
		setPlaying(false);
		setSaid(place < 0 ? step > 0 ? "Nothing more is found." : "Nothing is found before this." : `Found at ${duration(pictures[place]?.atMs ?? 0)}.`);
		if (place >= 0) go(pictures[place]?.atMs ?? 0);
	};
	const keyed = (event) => {
		if (event.altKey || event.ctrlKey || event.metaKey) return;
		const act = {
			" ": play,
			ArrowLeft: () => go(now - STEP_MS),
			ArrowRight: () => go(now + STEP_MS),
			Home: () => go(0),
			End: () => go(lengthMs)
		}[event.key];
		if (!act) return;
		event.preventDefault();
		event.stopPropagation();
		act();
	};
	const shown = pictures[at(pictures, now)];
	const id = `replay-${run.runId}`;
	return createVNode("div", {
		class: "replay",
		id,
		children: [
			createVNode(Wrong, { text: problem }),
			!shown && !problem && createVNode("p", {
				class: "hint",
				children: isWhole ? "Nothing was written." : "Loading …"
			}),
			shown && createVNode(Fragment, { children: [
				createVNode("div", {
					class: "screen-box",
					tabIndex: 0,
					role: "group",
					"aria-label": `Terminal at ${duration(Math.round(now))} of ${duration(lengthMs)}. Space plays, the arrows move by 5 seconds.`,
					onKeyDown: keyed,
					children: createVNode(Screen, {
						picture: shown,
						words
					})
				}),
				createVNode("div", {
					class: "replay-bar",
					children: [
						createVNode("button", {
							type: "button",
							class: "replay-play",
							onClick: play,
							children: isPlaying ? "Pause" : "Play"
						}),
						createVNode("label", {
							class: "replay-time",
							children: [createVNode("span", {
								class: "unseen",
								children: "Time"
							}), createVNode("input", {
								type: "range",
								min: 0,
								max: lengthMs,
								step: 10,
								value: Math.round(now),
								"aria-valuetext": `${duration(Math.round(now))} of ${duration(lengthMs)}`,
								onInput: (event) => go(Number(event.currentTarget.value))
							})]
						}),
						createVNode("span", {
							class: "replay-clock",
							children: `${duration(Math.round(now))} / ${duration(lengthMs)}`
						}),
						createVNode("label", {
							class: "field-row",
							children: ["Speed ", createVNode("select", {
								value: String(speed),
								onChange: (event) => setSpeed(Number(event.currentTarget.value)),
								children: SPEEDS.map((times) => createVNode("option", {
									value: String(times),
									children: `${times}×`
								}, times))
							})]
						}),
						createVNode("label", {
							class: "field-row",
							children: [createVNode("input", {
								type: "checkbox",
								checked: cutsIdle,
								onChange: (event) => setCutsIdle(event.currentTarget.checked)
							}), " Cut pauses to 2 s"]
						})
					]
				}),
				createVNode("form", {
					class: "replay-bar",
					role: "search",
					"aria-label": "Search the recording",
					onSubmit: (event) => {
						event.preventDefault();
						search(1);
					},
					children: [
						createVNode("label", {
							class: "field-row",
							children: ["Search ", createVNode("input", {
								type: "text",
								autocomplete: "off",
								autocapitalize: "none",
								spellcheck: false,
								value: words,
								onInput: (event) => {
									setWords(event.currentTarget.value);
									setSaid("");
								}
							})]
						}),
						createVNode("button", {
							type: "submit",
							class: "quiet",
							disabled: !words,
							children: "Next"
						}),
						createVNode("button", {
							type: "button",
							class: "quiet",
							disabled: !words,
							onClick: () => search(-1),
							children: "Previous"
						}),
						createVNode("span", {
							role: "status",
							children: said
						})
					]
				}),
				lostAtMs !== void 0 && createVNode("p", {
					class: "hint",
					children: `From ${duration(lostAtMs)} on, what was written could not be followed.`
				}),
				!isWhole && createVNode("p", {
					class: "hint",
					children: "Loading the rest …"
				}),
				isCut && createVNode("p", {
					class: "hint",
					children: [
						"The recording goes on; this player shows it until here. ",
						createVNode("code", { children: "countersign runs replay" }),
						" shows all of it."
					]
				})
			] })
		]
	});
}
export { Replay };
