// The settings that are in effect in the running server: what waits for a restart or an admin, what was set, and the defaults.

import { fill, h } from "./dom.js";
import { visible } from "./text.js";

const WAITS = { restart: "a restart", acceptance: "an admin who accepts it" };

/** A value as the settings file would have it, on one line. */
const written = (value) => (value === null ? "unset" : visible(typeof value === "string" ? value : JSON.stringify(value)));

const isDefault = (item) => JSON.stringify(item.value) === JSON.stringify(item.default);

/** What waits comes first, then what was set; the rest has its default. */
function sorted(items) {
  const waits = items.filter((item) => "waiting" in item);
  const rest = items.filter((item) => !("waiting" in item));
  return { first: [...waits, ...rest.filter((item) => !isDefault(item))], others: rest.filter(isDefault) };
}

function row(item) {
  const waits = "waiting" in item && `; ${item.waiting === true ? "another value" : written(item.waiting)} waits for ${WAITS[item.waitsFor] ?? "something"}`;
  return h("div", { class: "fact" }, h("dt", {}, visible(item.path)),
    h("dd", {}, h("code", {}, written(item.value)), item.source === "default" ? "" : ` from ${visible(item.source)}`, waits && h("strong", {}, waits)));
}

/** The panel; `show(items)` draws what `GET /v1/settings` answers. */
export function createSettings() {
  const shown = h("dl", { class: "facts" });
  const summary = h("summary");
  const defaults = h("dl", { class: "facts" });
  // The same element stays, so that it stays open.
  const rest = h("details", { id: "settings-defaults", "aria-label": "Settings that have their default" }, summary, defaults);
  const root = h("section", { class: "panel", id: "settings", "aria-labelledby": "settings-title" },
    h("h3", { id: "settings-title" }, "Settings of this server"),
    h("p", { class: "hint" }, "What is in effect in the running server, and what waits. countersign.toml and openclaw.json change it."),
    shown, rest);
  let drawn;
  return {
    root,
    show(items) {
      const found = JSON.stringify(items);
      if (drawn === found) return;
      drawn = found;
      const { first, others } = sorted(items);
      fill(shown, first.map(row));
      fill(summary, `${others.length} settings have their default`);
      fill(defaults, others.map(row));
    },
  };
}
