// The addresses of the views: `#/runs?agent=build`. Pure.

/** The views, in the order of the menu. */
export const NAMES = ["inbox", "overview", "runs", "history", "terminals", "sessions", "nodes", "policy", "people", "audit", "health"] as const;

export type ViewName = (typeof NAMES)[number];

/** Where the page is. */
export interface Place {
  view: ViewName;
  /** What the address says beside the view: its filter. */
  query: URLSearchParams;
}

/** The place that the part behind `#` names; the inbox where it names none. */
export function placeOf(hash: string): Place {
  const [, name = "", query = ""] = /^#\/([a-z]*)(?:\?(.*))?$/s.exec(hash) ?? [];
  const view = NAMES.find((known) => known === name) ?? "inbox";
  return { view, query: new URLSearchParams(query) };
}

/** The address of a view, with what its filter says; what is empty is left out. */
export function addressOf(view: ViewName, filter: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== ""));
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}
