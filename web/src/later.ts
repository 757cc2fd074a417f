// The views that are loaded after the first request is shown.

import { failed } from "./shell.ts";
import { State } from "./state.ts";

/** The views of the record, once they are there. */
export const record = new State<typeof import("./view/record.tsx") | undefined>(undefined);

let loading: Promise<void> | undefined;

/** Loads the views of the record, once. */
export function loadRecord(): void {
  loading ??= import("./view/record.tsx").then((views) => record.set(views)).catch((error: unknown) => {
    loading = undefined;
    failed(error);
  });
}
