// What a card says about a request below its command: why it asks, its parts, and what an auditor wants to know.

import { useState } from "preact/hooks";
import type { Approval, Run, Segment, SessionOverrides } from "../api/types.ts";
import { record } from "../later.ts";
import { brief, visible } from "../pure/text.ts";
import { entitled, overridden, rule } from "../pure/words.ts";
import { useValue } from "../state.ts";
import { Fact, Mono } from "./common.tsx";

/** What the name of the rule says already. */
const SAID = new Set(["no entry covers this"]);
const ARGUMENT_CHARS = 400;
const SEGMENTS_SHOWN = 12;

/** What is known beside the request itself; undefined while it is unknown. */
export interface Known {
  overrides: SessionOverrides | undefined;
  past: Run[] | undefined;
  /** The record cannot be read, or gave no answer. */
  isLost: boolean;
}

export function Details({ approval, known }: { approval: Approval; known: Known }) {
  const { why } = approval;
  const later = useValue(record);
  return (
    <div class="details">
      <Said approval={approval} />
      <p class="why">
        <strong>{rule(why.rule)}</strong>
        {SAID.has(why.detail) || why.rule === "ask-always" ? "" : <>: <bdi>{visible(why.detail)}</bdi></>}
      </p>
      <Unusual approval={approval} known={known} />
      {later && known.past && known.past.length > 0 && <later.Past approval={approval} runs={known.past} />}
      <Parts approval={approval} />
      {later && <later.AuditFacts approval={approval} />}
    </div>
  );
}

/** What the agent says about it. No link: an agent chose the address. */
function Said({ approval: { justification, contextUrl } }: { approval: Approval }) {
  if (!justification && !contextUrl) return null;
  return (
    <p class="said">
      <span class="said-by">The agent says</span> {justification && <q><bdi>{visible(justification)}</bdi></q>}{contextUrl && <> <Mono text={contextUrl} /></>}
    </p>
  );
}

/** The facts of every request, and those that are not as usual. */
function Unusual({ approval, known }: { approval: Approval; known: Known }) {
  const overrides = known.overrides && overridden(known.overrides);
  return (
    <dl class="facts">
      <Fact name="Directory"><Mono text={approval.cwd} /></Fact>
      <Variables approval={approval} />
      {overrides && <Fact name="Session overrides" class="overrides">{visible(overrides)}</Fact>}
      {entitled(approval) && <Fact name="Who may allow it"><bdi>{visible(entitled(approval))}</bdi></Fact>}
      {approval.scripts && approval.scripts !== "held" && <Fact name="Scripts">{visible(approval.scripts)}</Fact>}
    </dl>
  );
}

/** What the command gets beside its arguments; the server has spelled out what hides and masked secrets. */
export function Variables({ approval: { envNames, envValues = {}, envOmitted = 0 } }: { approval: Approval }) {
  if (!envNames.length) return null;
  return (
    <Fact name="Environment" class="environment">
      <ul class="variables">
        {envNames.map((name) => <li key={name}><Mono text={Object.hasOwn(envValues, name) ? `${name}=${envValues[name]}` : name} /></li>)}
        {envOmitted > 0 && <li><em>{`${envOmitted} more variables, not named`}</em></li>}
      </ul>
    </Fact>
  );
}

interface Row {
  segment: Pick<Segment, "argv" | "match" | "wrappers" | "notes"> & Partial<Segment>;
  depth: number;
  span: number;
}

/** The program calls of the command, each with the file that it is. */
function Parts({ approval }: { approval: Approval }) {
  const [isOpen, setOpen] = useState(false);
  const rows: Row[] = [];
  collect(approval.segments, 0, rows);
  if (!rows.length) {
    const { argv, shell } = approval.boundTo;
    if (!argv) return <p class="warn-line">{`Too complex to analyse; ${visible(shell ?? "a shell")} will interpret it as written.`}</p>;
    rows.push({ segment: { argv, match: { kind: "none" }, wrappers: [], notes: [] }, depth: 0, span: -1 });
  }
  const shown = isOpen ? rows : rows.slice(0, SEGMENTS_SHOWN);
  return (
    <>
      <ol class="segments" aria-label="Parts of the command">
        {shown.map((row, at) => <Part key={at} row={row} approval={approval} isOnly={rows.length === 1} />)}
      </ol>
      {shown.length < rows.length && <button type="button" class="more" onClick={() => setOpen(true)}>{`Show ${rows.length - shown.length} more parts`}</button>}
    </>
  );
}

function collect(segments: readonly Segment[], depth: number, rows: Row[]): void {
  segments.forEach((segment, index) => {
    rows.push({ segment, depth, span: depth ? -1 : index });
    collect(segment.segments ?? [], depth + 1, rows);
  });
}

function Part({ row: { segment, depth, span }, approval, isOnly }: { row: Row; approval: Approval; isOnly: boolean }) {
  const { argv, filled, operator, wrappers, resolvedPath, match, inlineEval, notes } = segment;
  const at = approval.why.span?.[0];
  const [from = 0, to = 0] = segment.span ?? [];
  const asks = !isOnly && !segment.segments && segment.span && at !== undefined && at >= from && at < to;
  const covered = match.kind !== "none" && match.kind !== "payload";
  return (
    <li class={`segment depth-${Math.min(depth, 3)}${span >= 0 ? ` edge-${span % 4}` : ""}`}>
      {/* The command stands above; a single part would only repeat it. */}
      {!isOnly && (
        <p class="argv" dir="ltr">
          {operator && <span class="operator">{visible(operator)}</span>}
          {argv.map((argument, index) => <code key={index} class="arg">{filled?.some(({ word }) => word === index) ? `"${argumentText(argument)}"` : argumentText(argument)}</code>)}
        </p>
      )}
      <p class="path">
        {resolvedPath ? <><span class="arrow" aria-hidden="true">→ </span><Mono text={resolvedPath} /></> : match.kind === "builtin" ? <em>part of the shell</em> : <span class="chip bad">no file found</span>}
        {wrappers.length > 0 && <span class="chip">{`through ${visible(wrappers.map(({ name }) => name).join(", "))}`}</span>}
        {filled && <span class="chip">parts filled in at the start</span>}
        {inlineEval && <span class="chip warn">code inside the command</span>}
        {covered && <span class="chip good">{`covered: ${visible(match.kind)}`}</span>}
        {asks && <span class="chip wait">needs approval</span>}
        {notes.map((note) => <span key={note} class="chip">{visible(note)}</span>)}
      </p>
    </li>
  );
}

function argumentText(argument: string): string {
  if (argument === "") return "''";
  const characters = [...visible(argument)];
  if (characters.length <= ARGUMENT_CHARS) return characters.join("");
  return `${characters.slice(0, ARGUMENT_CHARS).join("")}… (${characters.length - ARGUMENT_CHARS} more characters, in full in the text above)`;
}

/** What to call a request in a label. */
export const labelOf = (approval: Approval): string => brief(lineOf(approval), 60);

/** A command on one line: each line break is spelled out already. */
export const lineOf = ({ display }: Pick<Approval, "display">): string => display.text.replaceAll("\n", "");

/** Where a request runs. */
export const placeOf = (approval: Approval): string => (approval.nodeId ? `${approval.host} ${approval.nodeId}` : approval.host);
