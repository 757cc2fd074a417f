import { Fact, Fragment, Mono, Refused, Time, Wrong, announce, brief, createVNode, hints, json, send, serverNow, useRef, useState, useValue, visible } from "./app.js";
import { Confirm } from "./record.js";
import { Listing, usePaged } from "./lists.js";
// src/view/people.tsx
var NAME_LENGTH = 40;
var DAY_MS = 864e5;
var AGES = [
	["", "Never"],
	["1", "In one day"],
	["7", "In 7 days"],
	["30", "In 30 days"],
	["90", "In 90 days"],
	["365", "In one year"]
];
var SCOPES = [
	["read", "read: see runs, policy and the log"],
	["approve", "approve: answer requests"],
	["admin", "admin: change policy, nodes and people"],
	["exec", "exec: run commands, for an agent"],
	["relay", "relay: pass on what people write in chats"]
];
var isOver = ({ revokedAtMs, expiresAtMs }) => revokedAtMs !== void 0 || expiresAtMs !== void 0 && expiresAtMs <= serverNow();
function People() {
	const [showsEnded, setShowsEnded] = useState(false);
	const hint = useValue(hints.all);
	const browsers = usePaged("/v1/sign-ins?limit=100", ({ id }) => id, hint);
	const tokens = usePaged("/v1/tokens?limit=100", ({ id }) => id, hint);
	const live = useRef(new Set());
	for (const token of tokens.items ?? []) if (!isOver(token)) live.current.add(token.id);
	const hidden = (token) => isOver(token) && !live.current.has(token.id);
	const ended = (tokens.items ?? []).filter(hidden).length;
	const changed = () => {
		browsers.refresh();
		tokens.refresh();
	};
	return createVNode(Fragment, { children: [
		createVNode("div", {
			class: "panels",
			children: [createVNode(Invite, { changed }), createVNode(Make, { changed })]
		}),
		createVNode("section", {
			"aria-labelledby": "browsers-title",
			children: [createVNode("div", {
				class: "section-head",
				children: createVNode("h2", {
					id: "browsers-title",
					children: "Signed in"
				})
			}), createVNode(Listing, {
				id: "browsers",
				title: "Browsers that are signed in",
				list: browsers,
				none: createVNode("p", { children: "No browser is signed in." }),
				row: (browser) => createVNode(BrowserRow, {
					browser,
					changed
				}, browser.id)
			})]
		}),
		createVNode("section", {
			"aria-labelledby": "tokens-title",
			children: [createVNode("div", {
				class: "section-head",
				children: [createVNode("h2", {
					id: "tokens-title",
					children: "Tokens"
				}), ended > 0 && createVNode("button", {
					type: "button",
					class: "quiet",
					id: "tokens-ended",
					"aria-pressed": showsEnded,
					onClick: () => setShowsEnded(!showsEnded),
					children: `${showsEnded ? "Hide" : "Show"} ${ended} that ${ended === 1 ? "has" : "have"} ended`
				})]
			}), createVNode(Listing, {
				id: "tokens",
				title: "Tokens",
				list: showsEnded ? tokens : {
					...tokens,
					items: tokens.items?.filter((token) => !hidden(token))
				},
				none: createVNode("p", { children: "There are no tokens." }),
				row: (token) => createVNode(TokenRow, {
					token,
					changed
				}, token.id)
			})]
		})
	] });
}
function BrowserRow({ browser: { id, name, owner, scopes, createdAtMs, expiresAtMs }, changed }) {
	return createVNode("li", {
		class: "run person",
		"data-browser": id,
		children: [createVNode("div", {
			class: "person-what",
			children: [createVNode("p", { children: [
				createVNode("strong", { children: createVNode("bdi", { children: brief(name, NAME_LENGTH) }) }),
				" ",
				createVNode("span", {
					class: "width",
					children: `owner ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`
				})
			] }), createVNode("p", {
				class: "rule-more",
				children: [
					"Since ",
					createVNode(Time, { ms: createdAtMs }),
					", until ",
					createVNode(Time, { ms: expiresAtMs })
				]
			})]
		}), createVNode(Confirm, {
			name: "Sign out",
			act: "sign-out-browser",
			label: `Sign out ${brief(name, NAME_LENGTH)}`,
			question: "Sign this browser out?",
			yes: "Sign it out",
			done: "The browser is signed out.",
			changed,
			run: async () => void await send("DELETE", `/v1/sign-ins/${encodeURIComponent(id)}`)
		})]
	});
}
function TokenRow({ token, changed }) {
	const { id, name, owner, scopes, agents, groups, createdAtMs, expiresAtMs, lastUsedAtMs, revokedAtMs, proposedBy } = token;
	const isEnded = isOver(token);
	return createVNode("li", {
		class: "run person",
		"data-token": id,
		children: [
			createVNode("div", {
				class: "person-what",
				children: [createVNode("p", { children: [
					createVNode("strong", { children: createVNode("bdi", { children: brief(name, NAME_LENGTH) }) }),
					" ",
					createVNode("span", {
						class: "width",
						children: `owner ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`
					}),
					isEnded && createVNode("span", {
						class: "chip bad",
						children: revokedAtMs === void 0 ? "expired" : "revoked"
					}),
					proposedBy && createVNode("span", {
						class: "chip warn",
						children: "waits for an admin of another owner"
					})
				] }), createVNode("dl", {
					class: "facts",
					children: [
						agents && createVNode(Fact, {
							name: "Only for",
							children: createVNode("bdi", { children: visible(agents.join(", ")) })
						}),
						groups && groups.length > 0 && createVNode(Fact, {
							name: "Groups",
							children: createVNode("bdi", { children: visible(groups.join(", ")) })
						}),
						createVNode(Fact, {
							name: "Made",
							children: createVNode(Time, { ms: createdAtMs })
						}),
						createVNode(Fact, {
							name: "Last used",
							children: lastUsedAtMs === void 0 ? "never" : createVNode(Time, { ms: lastUsedAtMs })
						}),
						revokedAtMs !== void 0 && createVNode(Fact, {
							name: "Revoked",
							children: createVNode(Time, { ms: revokedAtMs })
						}),
						revokedAtMs === void 0 && createVNode(Fact, {
							name: isEnded ? "Ended" : "Ends",
							children: expiresAtMs === void 0 ? "never" : createVNode(Time, { ms: expiresAtMs })
						}),
						proposedBy && createVNode(Fact, {
							name: "Proposed by",
							children: createVNode("bdi", { children: visible(proposedBy.name) })
						}),
						createVNode(Fact, {
							name: "Id",
							children: createVNode(Mono, { text: id })
						})
					]
				})]
			}),
			proposedBy && !isEnded && createVNode(Confirm, {
				name: "Accept",
				act: "accept-token",
				label: `Accept ${brief(name, NAME_LENGTH)}`,
				question: "Accept this token?",
				yes: "Accept it",
				done: "The token is accepted.",
				changed,
				run: () => json("POST", `/v1/tokens/${encodeURIComponent(id)}/accept`, { body: {} })
			}),
			!isEnded && createVNode(Confirm, {
				name: "Revoke",
				act: "revoke-token",
				label: `Revoke ${brief(name, NAME_LENGTH)}`,
				question: "Revoke it? All that use it are cut off at once, for good.",
				yes: "Revoke it",
				done: "The token is revoked.",
				changed,
				run: async () => void await send("DELETE", `/v1/tokens/${encodeURIComponent(id)}`)
			})
		]
	});
}
function Form({ id, title, hint, go, scopes, chosen, make, shown, changed, children }) {
	const [name, setName] = useState("");
	const [ticked, setTicked] = useState(new Set(chosen));
	const [isSending, setSending] = useState(false);
	const [problem, setProblem] = useState("");
	const [made, setMade] = useState(void 0);
	const result = useRef(null);
	const isReady = name.trim() !== "" && ticked.size > 0 && !isSending;
	async function press() {
		if (!isReady) return;
		setSending(true);
		setProblem("");
		try {
			setMade(await make(name.trim(), [...ticked]));
			setName("");
			announce("Done. It is shown only once.");
			queueMicrotask(() => result.current?.focus());
		} catch (error) {
			setProblem(error instanceof Refused ? error.message : "No answer came. Check the list before you try again.");
		}
		setSending(false);
		changed();
	}
	return createVNode("form", {
		class: "panel",
		id,
		noValidate: true,
		"aria-labelledby": `${id}-title`,
		onSubmit: (event) => {
			event.preventDefault();
			press();
		},
		children: [
			createVNode("h2", {
				id: `${id}-title`,
				children: title
			}),
			createVNode("p", {
				class: "hint",
				children: hint
			}),
			createVNode("div", {
				class: "fields",
				children: [
					createVNode("div", {
						class: "field",
						children: [createVNode("label", {
							for: `${id}-name`,
							children: "Name, as it appears in the record"
						}), createVNode("input", {
							id: `${id}-name`,
							type: "text",
							maxLength: 100,
							autocomplete: "off",
							value: name,
							onInput: (event) => setName(event.currentTarget.value)
						})]
					}),
					createVNode("fieldset", {
						class: "scopes",
						children: [createVNode("legend", { children: "May" }), scopes.map(([scope, words]) => createVNode("label", {
							class: "check",
							children: [createVNode("input", {
								type: "checkbox",
								value: scope,
								checked: ticked.has(scope),
								onChange: () => setTicked((now) => new Set(now.has(scope) ? [...now].filter((other) => other !== scope) : [...now, scope]))
							}), createVNode("span", { children: words })]
						}, scope))]
					}),
					children
				]
			}),
			createVNode(Wrong, { text: problem }),
			createVNode("p", {
				class: "panel-end",
				children: createVNode("button", {
					type: "submit",
					class: isSending ? "primary busy" : "primary",
					"aria-disabled": !isReady,
					children: createVNode("span", {
						class: "act-text",
						children: go
					})
				})
			}),
			made !== void 0 && createVNode("div", {
				class: "made",
				ref: result,
				tabIndex: -1,
				role: "group",
				"aria-label": "Shown once",
				children: [shown(made), createVNode("button", {
					type: "button",
					class: "quiet",
					onClick: () => setMade(void 0),
					children: "Hide it"
				})]
			})
		]
	});
}
function Invite({ changed }) {
	return createVNode(Form, {
		id: "invite",
		title: "Sign a person in",
		hint: "Makes a link that signs one browser in, once, under this name.",
		go: "Make the link",
		changed,
		scopes: SCOPES.filter(([scope]) => scope !== "exec" && scope !== "relay"),
		chosen: ["read", "approve"],
		make: (name, scopes) => json("POST", "/v1/login-links", { body: {
			name,
			scopes
		} }),
		shown: ({ url, expiresAtMs, token }) => createVNode(Fragment, { children: [
			createVNode("p", { children: [
				"Give this link to the person, and to nobody else. It is valid for one sign-in until ",
				createVNode(Time, { ms: expiresAtMs }),
				"."
			] }),
			createVNode("code", {
				class: "line",
				children: visible(url)
			}),
			token?.proposedBy && createVNode("p", {
				class: "warn-line",
				children: "It gives no access until an admin of another owner accepts the token."
			})
		] })
	});
}
function Make({ changed }) {
	const [agents, setAgents] = useState("");
	const [days, setDays] = useState("");
	const named = agents.split(/[\s,]+/).filter(Boolean);
	return createVNode(Form, {
		id: "make-token",
		title: "Make a token",
		hint: "For a program. A token that asks can never answer: exec stands alone, or with read.",
		go: "Make the token",
		changed,
		scopes: SCOPES,
		chosen: ["exec"],
		make: (name, scopes) => json("POST", "/v1/tokens", { body: {
			name,
			scopes,
			...named.length && { agents: named },
			...days && { expiresAtMs: Math.round(serverNow()) + Number(days) * DAY_MS }
		} }),
		shown: ({ secret, proposedBy }) => createVNode(Fragment, { children: [
			createVNode("p", { children: "This secret is shown once. Put it where the program reads it." }),
			createVNode("code", {
				class: "line",
				children: visible(secret)
			}),
			proposedBy && createVNode("p", {
				class: "warn-line",
				children: "It gives no access until an admin of another owner accepts it."
			})
		] }),
		children: [createVNode("div", {
			class: "field",
			children: [createVNode("label", {
				for: "make-token-agents",
				children: "Only for these agents (all, if it is empty)"
			}), createVNode("input", {
				id: "make-token-agents",
				type: "text",
				autocomplete: "off",
				autocapitalize: "none",
				spellcheck: false,
				placeholder: "build, deploy",
				value: agents,
				onInput: (event) => setAgents(event.currentTarget.value)
			})]
		}), createVNode("div", {
			class: "field",
			children: [createVNode("label", {
				for: "make-token-expires",
				children: "Expires"
			}), createVNode("select", {
				id: "make-token-expires",
				value: days,
				onChange: (event) => setDays(event.currentTarget.value),
				children: AGES.map(([value, words]) => createVNode("option", {
					value,
					children: words
				}, value))
			})]
		})]
	});
}
export { People };
