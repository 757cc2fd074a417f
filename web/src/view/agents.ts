// The agents that the server knows, as choices of a filter.

import { useEffect, useState } from "preact/hooks";
import { json } from "../api/api.ts";
import type { Agent, Page } from "../api/types.ts";
import { brief } from "../pure/text.ts";

const NAME_LENGTH = 40;

/** All agents, and each by name. */
export function useAgents(): readonly (readonly [string, string])[] {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    let isOver = false;
    json<Page<Agent>>("GET", "/v1/agents?limit=500").then(({ items }) => !isOver && setNames(items.map(({ agentId }) => agentId)), () => {});
    return () => {
      isOver = true;
    };
  }, []);
  return [["", "All agents"], ...names.map((name) => [name, brief(name, NAME_LENGTH)] as const)];
}
