// The settings that are in effect in the running server: what waits for a restart or an admin, what was set, and the defaults.

import type { Setting } from "../../api/types.ts";
import { visible } from "../../pure/text.ts";

const WAITS: Record<string, string> = { restart: "a restart", acceptance: "an admin who accepts it", change: "nothing: an admin rejected it. Set it back in countersign.toml" };

/** A value as the settings file would have it, on one line. */
const written = (value: unknown): string => (value === null ? "unset" : visible(typeof value === "string" ? value : JSON.stringify(value)));

const isDefault = (item: Setting): boolean => JSON.stringify(item.value) === JSON.stringify(item.default);

export function Settings({ items }: { items: readonly Setting[] }) {
  // What waits comes first, then what was set; the rest has its default.
  const waits = items.filter((item) => "waiting" in item);
  const others = items.filter((item) => !("waiting" in item));
  const usual = others.filter(isDefault);
  return (
    <section class="panel" id="settings" aria-labelledby="settings-title">
      <h2 id="settings-title">Settings of this server</h2>
      <p class="hint">What is in effect in the running server, and what waits. countersign.toml and openclaw.json change it.</p>
      <dl class="facts">{[...waits, ...others.filter((item) => !isDefault(item))].map((item) => <Row key={item.path} item={item} />)}</dl>
      <details id="settings-defaults" aria-label="Settings that have their default">
        <summary>{`${usual.length} settings have their default`}</summary>
        <dl class="facts">{usual.map((item) => <Row key={item.path} item={item} />)}</dl>
      </details>
    </section>
  );
}

function Row({ item }: { item: Setting }) {
  const waits = "waiting" in item && `; ${item.waiting === true ? "another value" : written(item.waiting)} waits for ${WAITS[item.waitsFor ?? ""] ?? "something"}`;
  return (
    <div class="fact">
      <dt>{visible(item.path)}</dt>
      <dd><code>{written(item.value)}</code>{item.source === "default" ? "" : ` from ${visible(item.source)}`}{waits && <strong>{waits}</strong>}</dd>
    </div>
  );
}
