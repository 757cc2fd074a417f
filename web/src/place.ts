// Where the page is: the view that the address names, and its filter.

import { addressOf, type Place, placeOf, type ViewName } from "./pure/route.ts";
import { only } from "./shell.ts";
import { State } from "./state.ts";

/** The place; a request of its own has no views beside it. */
export const place = new State<Place>(placeOf(only ? "" : location.hash));

if (!only) addEventListener("hashchange", () => place.set(placeOf(location.hash)));

/** Has the address keep the filter of a view, without a new step of the history. */
export function keepFilter(view: ViewName, filter: Readonly<Record<string, string>>): void {
  history.replaceState(null, "", addressOf(view, filter));
  place.set(placeOf(location.hash));
}
