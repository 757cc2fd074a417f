import { Fact, Fragment, Mono, Refused, Time, Wrong, announce, brief, byteSize, createVNode, duration, failed, hints, isFinal, json, may, reader, runStatus, send, useEffect, useLayoutEffect, useRef, useState, useValue, visible, visibleOutput } from "./app.js";
import { Cancel, Filter, Listing, Screen, pictured, query, useAgents, useFilter, usePaged } from "./lists.js";
import { Confirm } from "./record.js";
// src/pure/typed.ts
function line(text, { pty }) {
	if (!pty) return {
		action: "write",
		data: `${text}\n`
	};
	return text ? {
		action: "send-keys",
		literal: text,
		keys: ["Enter"]
	} : {
		action: "send-keys",
		keys: ["Enter"]
	};
}
var raw = (text) => ({
	action: "write",
	data: text
});
var key = (title, label, name) => ({
	title,
	label,
	send: {
		action: "send-keys",
		keys: [name]
	}
});
var AT_TERMINAL = [
	key("Enter", "Enter", "Enter"),
	key("Ctrl-C", "Ctrl-C, which interrupts", "C-c"),
	key("Ctrl-D", "Ctrl-D, which ends the input", "C-d"),
	key("Tab", "Tab", "Tab"),
	key("Esc", "Esc, the escape key", "Escape"),
	key("↑", "Arrow up", "Up"),
	key("↓", "Arrow down", "Down"),
	key("←", "Arrow left", "Left"),
	key("→", "Arrow right", "Right")
];
var AT_PIPE = [{
	title: "Enter",
	label: "Enter, a line feed",
	send: {
		action: "write",
		data: "\n"
	}
}, {
	title: "End of input",
	label: "End of input: nothing can be written after it",
	send: {
		action: "write",
		eof: true
	}
}];
var keysOf = ({ pty }) => pty ? AT_TERMINAL : AT_PIPE;
var REFUSALS = {
	"session-ended": "The session has ended. Nothing was sent.",
	"input-closed": "The input of this command is closed, so nothing can be sent. The entry that covers it does not allow open input.",
	"not-found": "This session no longer exists, or it belongs to another agent. Nothing was sent.",
	forbidden: "Your sign-in may not do this for this agent. Nothing was sent.",
	"tool-denied": "Policy denies the process tool to this agent. Nothing was sent.",
	overloaded: "The command does not read its input. Nothing was sent.",
	stopped: "Everything is stopped. Nothing was sent."
};
var refusal = (code, message) => Object.hasOwn(REFUSALS, code) ? REFUSALS[code] ?? message : `${message}. Nothing was sent.`;
var UNCERTAIN = "No answer came. It may have been sent: look at the output before you send it again.";
function terminalText() {
	let rest = "";
	return (piece) => {
		const text = rest + piece;
		const open = /(?:\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001b]*(?:\u001b)?|[ -/]*)?|\r)$/.exec(text);
		const cut = open && open[0].length <= LONGEST_SEQUENCE ? open.index : text.length;
		rest = text.slice(cut);
		return text.slice(0, cut).replace(SEQUENCES, "").replace(/\r+\n/g, "\n").replace(/\r/g, "\n").replace(/\u0007/g, "");
	};
}
var LONGEST_SEQUENCE = 4096;
var SEQUENCES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-OQ-WYZ\\`-~]/g;
// src/view/session-live.tsx
var PAUSE_MS = 1e3;
var MOST_TRIES = 20;
function useStream({ sessionId, agentId }, encoding, begin, ended) {
	const [state, setState] = useState("Waiting for output …");
	useEffect(() => {
		const line = new AbortController();
		let lastId;
		let isOver = false;
		let hasCome = false;
		async function once() {
			const headers = { Accept: "text/event-stream" };
			if (lastId !== void 0) headers["Last-Event-ID"] = lastId;
			const response = await send("GET", `/v1/process/${encodeURIComponent(sessionId)}/stream?encoding=${encoding}&agentId=${encodeURIComponent(agentId)}`, {
				headers,
				signal: line.signal
			});
			if (!response.body) return;
			setState("Live");
			const take = begin();
			const feed = reader((event) => {
				if (event.id !== void 0) lastId = event.id;
				hasCome = true;
				if (event.type === "end") isOver = true;
				else take(event);
			});
			const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
			for (;;) {
				const { done, value } = await stream.read();
				if (done) return;
				feed(value);
			}
		}
		async function follow() {
			for (let tries = 0; tries < MOST_TRIES && !line.signal.aborted; tries += 1) {
				hasCome = false;
				try {
					await once();
				} catch (error) {
					if (line.signal.aborted) return;
					if (isFinal(error)) {
						setState(refusal(error.code, error.message));
						return ended();
					}
				}
				if (isOver) return ended();
				if (hasCome) tries = 0;
				setState("The output broke off. Trying again …");
				await new Promise((done) => setTimeout(done, PAUSE_MS));
			}
			if (!line.signal.aborted) setState("The output broke off. Close and open the session to see it again.");
		}
		follow();
		return () => line.abort();
	}, [sessionId, encoding]);
	return state;
}
function SessionOutput({ session, ended }) {
	const [isText, setText] = useState(!session.pty);
	return createVNode("div", {
		class: "run-output",
		children: [isText ? createVNode(OutputText, {
			session,
			ended
		}) : createVNode(LiveScreen, {
			session,
			ended
		}), session.pty && createVNode("button", {
			type: "button",
			class: "quiet",
			"data-act": "screen-or-text",
			onClick: () => setText(!isText),
			children: isText ? "Show the screen" : "Show the output as text"
		})]
	});
}
function LiveScreen({ session, ended }) {
	const [picture, setPicture] = useState();
	const [isLost, setLost] = useState(false);
	const begin = () => {
		let last;
		return ({ type, data }) => {
			if (type === "lost") setLost(true);
			if (type !== "screen") return;
			last = pictured(last, JSON.parse(data));
			setPicture(last);
		};
	};
	const state = useStream(session, "screen", begin, ended);
	return createVNode(Fragment, { children: [picture && createVNode("div", {
		class: "screen-box",
		tabIndex: 0,
		role: "group",
		"aria-label": `Screen of the terminal, ${picture.cols} × ${picture.rows}`,
		children: createVNode(Screen, { picture })
	}), createVNode("p", {
		class: "hint",
		role: "status",
		children: isLost ? "The screen cannot be followed any more. Show the output as text instead." : state
	})] });
}
function OutputText({ session, ended }) {
	const [text, setText] = useState("");
	const box = useRef(null);
	const isAtEnd = useRef(true);
	const plain = useRef(session.pty ? terminalText() : (piece) => piece);
	const decoders = useRef({});
	const take = ({ type, data }) => {
		if (type !== "output") return;
		const { stream: name = "stdout", base64 = "" } = JSON.parse(data);
		const decoder = decoders.current[name] ??= new TextDecoder();
		const piece = visibleOutput(plain.current(decoder.decode(Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0)), { stream: true })));
		setText((before) => (before + piece).slice(-2e5));
	};
	const state = useStream(session, "base64", () => take, ended);
	useLayoutEffect(() => {
		if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
	}, [text]);
	return createVNode(Fragment, { children: [text && createVNode("pre", {
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
	})] });
}
function SessionInput({ session, changed }) {
	const { sessionId, agentId, pty } = session;
	const [text, setText] = useState("");
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const [said, setSaid] = useState("");
	async function press(sent, words) {
		if (isSending) return false;
		setSending(true);
		setProblem("");
		setSaid("");
		let isSent = false;
		try {
			const { warnings = [] } = await json("POST", "/v1/process", { body: {
				...sent,
				sessionId,
				agentId
			} });
			isSent = true;
			setSaid([words, ...warnings.map(({ message }) => message)].join(" "));
			announce(words);
		} catch (error) {
			if (error instanceof Refused && error.isSignedOut) failed(error);
			setProblem(error instanceof Refused ? refusal(error.code, error.message) : UNCERTAIN);
		}
		setSending(false);
		changed();
		return isSent;
	}
	const type = (sent, words) => void press(sent, words).then((isSent) => {
		if (isSent) setText("");
	});
	const id = `input-${sessionId}`;
	return createVNode("form", {
		class: "session-input",
		id,
		noValidate: true,
		"aria-label": "Send to the session",
		onSubmit: (event) => {
			event.preventDefault();
			type(line(text, { pty }), "The line was sent.");
		},
		children: [
			createVNode("div", {
				class: "field",
				children: [createVNode("label", {
					for: `${id}-text`,
					children: "Text for the command. The record keeps that you sent it."
				}), createVNode("input", {
					id: `${id}-text`,
					type: "text",
					autocomplete: "off",
					autocapitalize: "none",
					spellcheck: false,
					value: text,
					onInput: (event) => setText(event.currentTarget.value)
				})]
			}),
			createVNode("div", {
				class: "row-actions",
				children: [createVNode("button", {
					type: "submit",
					class: "primary",
					"aria-disabled": isSending,
					children: "Send line"
				}), createVNode("button", {
					type: "button",
					"data-send": "raw",
					"aria-disabled": isSending || !text,
					onClick: () => text && type(raw(text), "The text was sent, without an end of line."),
					children: "Send without Enter"
				})]
			}),
			createVNode("div", {
				class: "row-actions",
				role: "group",
				"aria-label": "Keys",
				children: keysOf({ pty }).map(({ title, label, send: sent }) => createVNode("button", {
					type: "button",
					"data-key": title,
					"aria-label": label,
					"aria-disabled": isSending,
					onClick: () => void press(sent, `${title} was sent.`),
					children: title
				}, title))
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("p", {
				class: "hint",
				role: "status",
				children: visible(said)
			})
		]
	});
}
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
			", or that outlives its call, appears here. Try it with ",
			createVNode("code", { children: "countersign exec --background -- sleep 60" }),
			"."
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
							children: session.stdinOpen ? "open" : "closed: nothing can be written to it"
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
				isLive && createVNode(End, {
					session,
					changed
				}),
				isLive ? createVNode(SessionOutput, {
					session,
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
				}),
				isLive && session.stdinOpen && (may("exec") ? createVNode(SessionInput, {
					session,
					changed
				}) : createVNode("p", {
					class: "hint",
					children: "You can look at it. To write to it, sign in with a token that has the scopes exec and read. Such a token can never answer requests."
				}))
			] })
		})]
	});
}
function End({ session, changed }) {
	if (may("admin")) return createVNode(Cancel, {
		run: session,
		changed
	});
	if (!may("exec")) return null;
	const { sessionId, agentId } = session;
	return createVNode(Confirm, {
		name: "End the session…",
		act: "kill-session",
		question: "End this session and everything that it started?",
		yes: "End it",
		done: "The session is ended.",
		changed,
		run: () => json("POST", "/v1/process", { body: {
			action: "kill",
			sessionId,
			agentId
		} })
	});
}
export { Sessions };
