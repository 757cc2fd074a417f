// The allowlist and the deny rules of an agent: shown, added to, removed from. What allows more is asked about first.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../../announce.ts";
import { json, Refused, send } from "../../api/api.ts";
import type { AllowlistEntry, DenyRule } from "../../api/types.ts";
import { type Confine, confineLine, confineOf, NoConfine } from "../../pure/confine.ts";
import { brief, mixedWords, visible } from "../../pure/text.ts";
import { entryAllows, ruleAllows } from "../../pure/widening.ts";
import { failed, may } from "../../shell.ts";
import { type Guard, watch } from "../../steady.ts";
import { Mono, Time, Wrong } from "../common.tsx";
import { reasons } from "./form.tsx";
import { type Asked, Question } from "./question.tsx";

export const MOST_SHOWN = 500;
const LABEL_LENGTH = 60;
const PATTERN_LENGTH = 4096;
const TEXT_LENGTH = 1000;
const CONFINE_LENGTH = 400;
const NOT_CONFINED = { starts: "", writes: "", connects: "" };

/** An entry of either list; `warnings` are the server's. */
export type Rule = Partial<Omit<AllowlistEntry, "warnings" | "id" | "pattern">> & Partial<DenyRule> & Pick<DenyRule, "id" | "pattern">;

export type ListName = "allowlist" | "denylist";

interface Kind {
  title: string;
  hint: string;
  none: string;
  /** The member that people write words into, and its name. */
  text: readonly ["note" | "reason", string];
  /** What adding and removing newly allow, if anything. */
  adds: typeof entryAllows | undefined;
  removes: typeof ruleAllows | undefined;
}

const KINDS: Record<ListName, Kind> = {
  allowlist: {
    title: "Allowlist",
    hint: "What may run unasked, where security is allowlist. An agent also has the entries of all agents.",
    none: "Nothing is on the list.",
    text: ["note", "Note (optional)"],
    adds: entryAllows,
    removes: undefined,
  },
  denylist: {
    title: "Deny rules",
    hint: "What never runs, no matter what else allows it. The rules of all agents apply to each.",
    none: "There are no deny rules.",
    text: ["reason", "Reason (optional)"],
    adds: undefined,
    removes: ruleAllows,
  },
};

interface Props {
  kind: ListName;
  agent: string;
  /** Names the agent in sentences. */
  who: string;
  items: readonly Rule[];
  hasMore: boolean;
  changed: () => Promise<void>;
}

export function Rules({ kind, agent, who, items, hasMore, changed }: Props) {
  const { title, hint, none, text, adds, removes } = KINDS[kind];
  const id = `policy-${kind}`;
  const mayChange = may("admin");
  const heading = useRef<HTMLHeadingElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const guard = useRef<Guard | undefined>(undefined);
  const busy = useRef(false);
  const agentNow = useRef(agent);
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const [pattern, setPattern] = useState("");
  const [argPattern, setArgPattern] = useState("");
  const [note, setNote] = useState("");
  const [confined, setConfined] = useState(NOT_CONFINED);
  const [children, setChildren] = useState(false);
  // What the server found odd when something was added here; a list says only why an entry never matches.
  const [warned, setWarned] = useState<ReadonlyMap<string, NonNullable<Rule["warnings"]>>>(new Map());

  useLayoutEffect(() => {
    if (!list.current) return undefined;
    guard.current = watch(list.current);
    return () => guard.current?.stop();
  }, []);
  useLayoutEffect(() => guard.current?.look());
  useLayoutEffect(() => {
    agentNow.current = agent;
    setAsked(undefined);
    setProblem("");
  }, [agent]);

  const path = `/v1/agents/${encodeURIComponent(agent)}/${kind}`;

  function pressAdd() {
    setProblem("");
    let confine: Confine | undefined;
    try {
      confine = confineOf(confined);
    } catch (error) {
      if (!(error instanceof NoConfine)) throw error;
      return setProblem(error.message);
    }
    const own = kind === "allowlist" ? { confine } : { children: children || undefined };
    const wanted = { pattern: pattern.trim(), argPattern: argPattern || undefined, [text[0]]: note.trim() || undefined, ...own };
    if (!wanted.pattern) return setProblem("Write a pattern first.");
    decide(adds?.(who, wanted), "Allow and add", () => change(async () => {
      const added = await json<Rule>("POST", path, { body: wanted });
      const { warnings = [] } = added;
      if (warnings.length) setWarned((now) => new Map(now).set(added.id, warnings));
      if (agentNow.current === agent) {
        for (const set of [setPattern, setArgPattern, setNote]) set("");
        setConfined(NOT_CONFINED);
        setChildren(false);
      }
      announce(["It is added.", ...warnings.map(({ message }) => `Warning: ${message}.`)].join(" "));
    }));
  }

  function pressRemove(item: Rule, row: Element | null) {
    if (!row || !guard.current?.isSteady(row)) return;
    setProblem("");
    decide(removes?.(who, item), "Allow and remove", () => change(async () => {
      try {
        await send("DELETE", `${path}/${encodeURIComponent(item.id)}`);
      } catch (error) {
        // Another person was quicker.
        if (!(error instanceof Refused) || error.code !== "not-found") throw error;
      }
      announce("It is removed.");
      heading.current?.focus({ preventScroll: true });
    }));
  }

  function decide(allows: string | undefined, label: string, then: () => Promise<void>) {
    if (!allows) return void then();
    setAsked({ allows: [allows], label, then: () => void then() });
  }

  async function change(deed: () => Promise<void>) {
    if (busy.current) return;
    busy.current = true;
    setSending(true);
    try {
      await deed();
    } catch (error) {
      if (!(error instanceof Refused)) setProblem("No answer came. Check the current rules before you try again.");
      else if (error.isSignedOut) failed(error);
      else setProblem(reasons(error));
    }
    busy.current = false;
    setSending(false);
    await changed();
  }

  const field = (name: string, words: string, value: string, set: (text: string) => void, length: number) => (
    <div class="field">
      <label for={`${id}-${name}`}>{words}</label>
      <input id={`${id}-${name}`} type="text" maxLength={length} autocomplete="off" autocapitalize="none" spellcheck={false} value={value} onInput={(event) => {
        setAsked(undefined);
        set(event.currentTarget.value);
      }} />
    </div>
  );
  const limit = (name: keyof typeof NOT_CONFINED, words: string) =>
    field(name, words, confined[name], (value) => setConfined((now) => ({ ...now, [name]: value })), TEXT_LENGTH);
  return (
    <section class="panel" id={id} aria-labelledby={`${id}-title`} aria-busy={isSending}>
      <h2 id={`${id}-title`} ref={heading} tabIndex={-1}>{title}</h2>
      <p class="hint">{hint}</p>
      {items.length === 0 && <p class="hint">{none}</p>}
      <ol class="runs" ref={list} aria-labelledby={`${id}-title`}>
        {items.map((item) => <Row key={item.id} item={item} warned={warned.get(item.id) ?? []} remove={mayChange ? (row) => pressRemove(item, row) : undefined} />)}
      </ol>
      {hasMore && <p class="hint">{`Only the first ${MOST_SHOWN} are shown.`}</p>}
      {mayChange && (
        <form class="fields" noValidate aria-label={`New: ${title}`} onSubmit={(event) => {
          event.preventDefault();
          pressAdd();
        }}>
          {field("pattern", "Pattern: a path, a name or *", pattern, setPattern, PATTERN_LENGTH)}
          {field("arguments", "Arguments, a regular expression (optional)", argPattern, setArgPattern, PATTERN_LENGTH)}
          {field("text", text[1], note, setNote, TEXT_LENGTH)}
          {kind === "allowlist" ? (
            <details class="wider-list" aria-label="What the program may do">
              <summary>What the program may do (optional)</summary>
              <p class="hint">The kernel enforces it for the program and everything it starts. Separate entries with commas; “nothing” and “any” are entries too.</p>
              {limit("starts", "May start: program names, paths, judged")}
              {limit("writes", "May write: workspace, tmp, paths")}
              {limit("connects", "May connect to: TCP ports")}
            </details>
          ) : (
            <label class="check">
              <input id={`${id}-children`} type="checkbox" checked={children} onChange={(event) => setChildren(event.currentTarget.checked)} />
              <span>Other programs cannot start or read it either, at the isolation level confined</span>
            </label>
          )}
          <p class="panel-end"><button type="submit" aria-label={`Add to: ${title}`}>Add</button></p>
        </form>
      )}
      <Wrong text={problem} />
      <Question asked={asked} close={() => setAsked(undefined)} />
    </section>
  );
}

interface RowProps {
  item: Rule;
  warned: NonNullable<Rule["warnings"]>;
  remove: ((row: Element | null) => void) | undefined;
}

function Row({ item, warned, remove }: RowProps) {
  const row = useRef<HTMLLIElement>(null);
  const known = item.warnings ?? [];
  const warnings = [...known, ...warned.filter(({ code }) => !known.some((other) => other.code === code))].map(({ message }) => message);
  const mixed = mixedWords(`${item.pattern} ${item.argPattern ?? ""}`);
  if (mixed.length) warnings.push(`letters of different scripts in one word: ${brief(mixed.join(", "), LABEL_LENGTH)}`);
  return (
    <li class="run rule-row" ref={row} data-rule={item.id}>
      <div class="rule-what">
        <p><Mono text={item.pattern} />{item.state && item.state !== "active" && <span class="chip warn">{visible(item.state)}</span>}</p>
        {item.argPattern !== undefined && <p class="rule-more">Arguments: <Mono text={item.argPattern} /></p>}
        {facts(item).map((fact, at) => <p key={at} class="rule-more">{fact}</p>)}
        {warnings.length > 0 && (
          <ul class="warnings" aria-label="About this entry">
            {warnings.map((message) => <li key={message}><bdi>{visible(message)}</bdi></li>)}
          </ul>
        )}
      </div>
      {remove && <button type="button" class="quiet" aria-label={`Remove ${brief(item.pattern, LABEL_LENGTH)}`} onClick={() => remove(row.current)}>Remove</button>}
    </li>
  );
}

function facts(item: Rule): ComponentChildren[] {
  const lines: ComponentChildren[] = [];
  if (item.lastUsedCommand) lines.push(<>Last used <Time ms={item.lastUsedAt} />: <Mono text={brief(item.lastUsedCommand, 120)} /></>);
  else if (item.kind) lines.push("Not used yet");
  if (item.expiresAtMs) lines.push(<>Until <Time ms={item.expiresAtMs} /></>);
  if (item.maxUses) lines.push(`Used ${item.uses ?? 0} of ${item.maxUses} times`);
  if (item.sha256) lines.push(<>Only for the content <Mono text={item.sha256} /></>);
  if (item.input) lines.push(item.unguarded ? "Also with open input, at an unguarded terminal" : "Also with open input");
  if (item.confine !== undefined) lines.push(<>Confined: <Mono text={brief(confineLine(item.confine), CONFINE_LENGTH)} /></>);
  if (item.questions) lines.push("Mutes the agent: what it would ask is denied");
  if (item.children) lines.push("No program of a run can start it either, at the level confined");
  const said = item.note ?? item.reason;
  if (said) lines.push(<bdi>{visible(said)}</bdi>);
  return lines;
}
