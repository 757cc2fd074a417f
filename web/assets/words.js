// What the states, reasons and levels of the API mean, in sentences for people. Pure.

// What the server says is looked up by its own names only, never by what every object has.
const of = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);

const TRUST = {
  "separate-user": ["good", "Commands run as another user. They cannot read or change anything of this server."],
  confined: ["good", "Commands run confined: this server's files and sockets are out of their reach while they run."],
  "same-user": ["warn", "Commands run with the same rights as this server. Approvals are a guard rail here, not a boundary."],
  sandbox: ["good", "Commands run in a sandbox, apart from this server."],
  node: ["good", "Commands run on another machine, under its own rules."],
};

/** The level of trust as `{level, tone, sentence}`. */
export function trust(level) {
  const [tone, sentence] = of(TRUST, level) ?? ["warn", "This page does not know what that level means."];
  return { level, tone, sentence };
}

const RULES = {
  "ask-always": "You are asked each time",
  "allowlist-miss": "The allowlist does not cover it",
  "needs-person": "Only a person may allow this",
};

/** Why a person is asked, in words; the code stays beside it. */
export const rule = (code) => of(RULES, code) ?? "A rule asks for a person";

const DECISIONS = { "allow-once": "Allowed once", "allow-always": "Allowed always", deny: "Denied" };

const EDGES = { session: "in a browser", token: "with a token", cli: "on the command line", ipc: "in an app", bridge: "over the bridge" };

/** Who decided, for people: a name and the edge they came through. */
export function who(actor) {
  if (!actor) return "an unknown person";
  const edge = of(EDGES, actor.kind);
  return edge ? `${actor.name} ${edge}` : actor.name;
}

/** How many people have allowed it and who; nothing where one is enough. */
export function progress({ approvalsRequired, votes = [] }) {
  if (!(approvalsRequired > 1)) return "";
  const names = votes.filter(({ decision }) => decision !== "deny").map(({ by }) => who(by));
  const said = names.length ? `: ${names.join(", ")}` : "";
  return `Allowed by ${names.length} of ${approvalsRequired}${said}`;
}

/** Who may allow it; nothing where every approver may. */
export function entitled({ groups }) {
  if (!groups) return "";
  return groups.length ? `approvers of ${groups.join(", ")}` : "nobody: its parts are for approvers of different groups";
}

/** What a session overrides, for people; nothing where it overrides nothing. */
export function overridden(overrides) {
  const said = ["host", "security", "ask", "node"].filter((name) => overrides[name]).map((name) => `${name} ${overrides[name]}`);
  if (overrides.elevated !== "off") said.push(`elevated ${overrides.elevated}`);
  if (!said.length) return "";
  const { setBy } = overrides;
  const sender = setBy?.sender ? ` for ${setBy.sender.provider}:${setBy.sender.id}` : "";
  return said.join(", ") + (setBy ? ` (set by ${setBy.name}${sender})` : "");
}

const FALLBACKS = { deny: "it is denied", allowlist: "it runs if the allowlist covers it", full: "it runs without an answer" };

/** What happens when nobody answers. */
export const fallback = (security) => of(FALLBACKS, security) ?? security;

/** How an approval ended, as `{tone, title, detail}`. `mine`: whether this page's own answer counted, if anybody knows. */
export function outcome(approval, mine) {
  const { status, decision, reason, resolvedBy, terminalReason } = approval;
  const said = reason ? `Reason: ${reason}` : "";
  if (status === "allowed" || status === "denied") {
    if (terminalReason === "rule") {
      return { tone: status === "denied" ? "bad" : "good", title: status === "denied" ? "Denied by your rule" : "Allowed by your rule", detail: `By ${who(resolvedBy)}` };
    }
    if (terminalReason === "taken-back") {
      return { tone: "bad", title: `Allowed, and taken back by ${who(resolvedBy)} before it started`, detail: said };
    }
    const title = of(DECISIONS, decision) ?? (status === "denied" ? "Denied" : "Allowed");
    const by = mine ? "by you" : `${mine === false ? "elsewhere " : ""}by ${who(resolvedBy)}`;
    return { tone: status === "denied" ? "bad" : "good", title: `${title} ${by}`, detail: said };
  }
  if (status === "expired") {
    const detail = terminalReason === "no-route" ? "Nobody could be reached." : "Nobody answered in time.";
    return { tone: "dull", title: "Expired", detail };
  }
  return { tone: "dull", title: `Cancelled by ${who(resolvedBy)}`, detail: "The request was withdrawn." };
}

const STATUS = {
  queued: ["dull", "Queued"],
  "approval-pending": ["wait", "Waiting"],
  running: ["live", "Running"],
  completed: ["good", "Done"],
  failed: ["bad", "Failed"],
  denied: ["bad", "Denied"],
  cancelled: ["dull", "Cancelled"],
  lost: ["warn", "Lost"],
};

/** A run's state as `{tone, label}`. */
export function runStatus(status) {
  const [tone, label] = of(STATUS, status) ?? ["dull", status];
  return { tone, label };
}

/** What a remembered pattern would let through, by its width. */
export function width(pattern) {
  if (pattern.pattern.startsWith("=command:")) return "exactly this text, in any directory";
  if (pattern.width === "exact") return "exactly these arguments, in this directory";
  if (pattern.width === "arguments") return "arguments of this form";
  return "any arguments, in any directory";
}

const COMMANDS = {
  "system.run": "runs programs on that machine",
  "system.run.prepare": "says beforehand what a command would run",
  "system.which": "says where programs lie",
  "system.notify": "shows a notification",
  "system.execApprovals.get": "shows what that machine allows by itself",
  "system.execApprovals.set": "changes what that machine allows by itself",
};

/** What a command of a node does, where this page knows. */
export const command = (name) => of(COMMANDS, name);

/** What a pairing request asks for, as `{verb, sentence, consequence}`. */
export function pairing({ kind, isRepair }) {
  const sent = "Each command to run programs is still judged, and asked about where policy says so.";
  if (kind === "commands") {
    return {
      verb: "offers more commands",
      sentence: "This machine is connected and says that it can be asked to do more than what was approved.",
      consequence: `If you approve, it may be sent everything that is listed here. ${sent}`,
    };
  }
  if (isRepair) {
    return {
      verb: "wants to connect again",
      sentence: "A machine with this identity was let in before and asks anew, for example because its token was taken away.",
      consequence: `Approve only if you know why. If you approve, it may connect and be sent what is listed here. ${sent}`,
    };
  }
  return {
    verb: "wants to connect",
    sentence: "A machine that this server does not know asks to become a node. Compare the device with what that machine shows: anybody can choose a name.",
    consequence: `If you approve, it may stay connected and be sent what is listed here. ${sent}`,
  };
}
