// A list that the server gives in pages, newest first: what is shown of it, older pages on request, and a new look when
// something may have changed.

import { useEffect, useRef, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { Page } from "../api/types.ts";
import { failed, gone, looker } from "../shell.ts";

const PAUSE_MS = 1000;

export interface Paged<Item> {
  /** Undefined until the first answer. */
  items: Item[] | undefined;
  hasMore: boolean;
  problem: string;
  older: () => void;
  /** Looks again soon. */
  refresh: () => void;
}

/** The list at `path`, which may have a query; `keyOf` tells its items apart, and `hint` counts what may have changed it. */
export function usePaged<Item>(path: string, keyOf: (item: Item) => string, hint = 0): Paged<Item> {
  const [items, setItems] = useState<Item[] | undefined>(undefined);
  const [hasMore, setMore] = useState(false);
  const [problem, setProblem] = useState("");
  // `asked` is the list that is wanted now; an answer for another one comes too late.
  const now = useRef({ path, cursor: undefined as string | undefined, hasOlder: false, isOver: false });

  async function ask(cursor?: string): Promise<void> {
    const { current } = now;
    const asked = current.path;
    const glue = asked.includes("?") ? "&" : "?";
    const page = await json<Page<Item>>("GET", cursor === undefined ? asked : `${asked}${glue}cursor=${encodeURIComponent(cursor)}`);
    if (current.isOver || current.path !== asked || gone.value !== undefined) return;
    setProblem("");
    const isNewest = cursor === undefined;
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

  function complain(error: unknown): void {
    if (now.current.isOver) return;
    if (error instanceof Refused && !error.isSignedOut) setProblem(error.sentence);
    else failed(error);
  }

  const [refresh] = useState(() => looker(() => ask().catch((error: unknown) => {
    if (!(error instanceof Refused) || error.status >= 500) throw error;
    complain(error);
  }), PAUSE_MS));
  useEffect(() => {
    now.current = { path, cursor: undefined, hasOlder: false, isOver: false };
    setItems(undefined);
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
    refresh,
  };
}
