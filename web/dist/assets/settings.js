import { Z as visible, m as createVNode } from "./app.js";
// src/view/policy/settings.tsx
var WAITS = {
	restart: "a restart",
	acceptance: "an admin who accepts it"
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
export { Settings as t };
