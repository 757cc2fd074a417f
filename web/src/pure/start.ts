// What newcomers are told while no request waits: what is connected, and what came of a test question. Pure.

import type { Agent, EffectivePolicy, Node } from "../api/types.ts";
import { visible } from "./text.ts";

/** The command of the test question: it changes nothing, wherever it runs. */
export const TEST_COMMAND = "echo 'Hello from countersign'";

/** The same for the command line. */
export const TEST_LINE = "countersign exec --host gateway --ask always -- echo 'Hello from countersign'";

/** A call that asks a person in any case. Where commands go to the sandbox, nobody is asked, so it names this machine. */
export function testCall(policy: Pick<EffectivePolicy, "approvalsApply"> | undefined): Record<string, unknown> {
  return { command: TEST_COMMAND, ask: "always", approvalWaitMs: 0, justification: "A test question from the page.", ...(policy?.approvalsApply === false ? { host: "gateway" } : {}) };
}

/** Which agents there are, and which asked last. */
export function agentsSaid(agents: readonly Agent[], hasMore: boolean): string {
  const seen = agents.filter(({ lastSeenAtMs }) => lastSeenAtMs !== undefined).sort((one, other) => (other.lastSeenAtMs ?? 0) - (one.lastSeenAtMs ?? 0));
  const [last] = seen;
  if (!last) return "No agent has asked for anything yet.";
  const many = seen.length === 1 && !hasMore ? "One agent" : `${seen.length}${hasMore ? " or more" : ""} agents`;
  return `${many} asked so far, ${visible(last.agentId)} last, at ${new Date(last.lastSeenAtMs ?? 0).toLocaleString()}.`;
}

/** How many nodes are connected; nothing where there are none. */
export function nodesSaid(nodes: readonly Pick<Node, "connected">[]): string {
  const connected = nodes.filter(({ connected: isIt }) => isIt).length;
  return nodes.length ? `${connected} of ${nodes.length} ${nodes.length === 1 ? "node is" : "nodes are"} connected.` : "";
}

/** What a command meets: where it goes, and when a person is asked. */
export function policySaid({ approvalsApply, host, security, ask }: Pick<EffectivePolicy, "approvalsApply" | "host" | "security" | "ask">): string {
  if (!approvalsApply) return "Commands go to the sandbox, where nobody is asked. A request appears here once an agent asks for this machine or a node.";
  const where = host.value === "node" ? "a node" : "this machine";
  if (security.value === "deny") return `Commands go to ${where}, where policy denies all of them, so nobody is asked.`;
  if (security.value === "full" && ask.value !== "always") return `Commands go to ${where}, where all of them run without a question.`;
  if (ask.value === "off") return `Commands go to ${where}. What the allowlist does not cover is denied without a question.`;
  return `Commands go to ${where}. ${ask.value === "always" ? "Each needs approval" : "What the allowlist does not cover needs approval"}, and the question appears here.`;
}

/** What came of the test question, by the answer to the call. */
export function testSaid(answer: { status?: string; host?: string; exitCode?: number }): string {
  if (answer.status === "approval-pending") return "The question is asked. Approvers see it now. Your sign-in asks, so it can never answer.";
  return `It ran without a question (${visible(answer.host ?? "unknown host")}${answer.exitCode === undefined ? "" : `, exit code ${answer.exitCode}`}). Look at the policy to see why.`;
}
