// A form of selects over a file that others may change at the same time: what it was shown must still be so when it is
// saved, and what allows more is asked about once more.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../../announce.ts";
import { Refused } from "../../api/api.ts";
import { brief } from "../../pure/text.ts";
import { newlyAllowed } from "../../pure/widening.ts";
import { failed, may } from "../../shell.ts";
import { Wrong } from "../common.tsx";
import { type Asked, Question } from "./question.tsx";

const WORD_LENGTH = 60;
const MOST_TRIES = 3;
const MOST_COMPARED = 100;
const CHANGED = "This was changed in the meantime. It now shows the current value; your change was not saved.";

/** The values of a form; what the file does not say is undefined. */
export type Values = Record<string, string | undefined>;

/** What a form shows and what it needs to save. */
export interface Known {
  /** Whom the values are for, in sentences. */
  who: string;
  /** The version of the file, which a change must name. */
  tag: string;
  values: Values;
  /** What is in effect where the file does not say. */
  inherited: Values;
  /** The same in words. */
  without: Record<string, string>;
  choices: Record<string, readonly (readonly [string, string])[]>;
}

export interface Field {
  key: string;
  title: string;
}

interface Props<Shown extends Known> {
  id: string;
  title: string;
  hint: string;
  fields: readonly Field[];
  known: Shown;
  load: () => Promise<Shown>;
  save: (shown: Shown, values: Values) => Promise<void>;
  saved: () => Promise<void>;
}

export function Form<Shown extends Known>({ id, title, hint, fields, known, load, save, saved }: Props<Shown>) {
  const shown = useRef(known);
  const [values, setValues] = useState<Values>(() => pick(known));
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const mayChange = may("admin");

  function pick({ values: all }: Known): Values {
    return Object.fromEntries(fields.map(({ key }) => [key, all[key] ?? undefined]));
  }
  const isSame = (one: Values, other: Values) => fields.every(({ key }) => (one[key] ?? undefined) === (other[key] ?? undefined));
  const isDirty = !isSame(values, shown.current.values);
  // What a person decides by: what is written here, and what would be in effect without it.
  const basis = ({ who, values: all, inherited }: Known) => JSON.stringify([who, fields.map(({ key }) => [all[key] ?? null, inherited[key] ?? null])]);

  // Shows the present value. A choice that you have begun stays, unless it was chosen over something else.
  useLayoutEffect(() => {
    const before = shown.current;
    if (before === known) return;
    const isOfSame = known.who === before.who;
    const isKept = isDirty && isOfSame && basis(known) === basis(before);
    const isLost = isDirty && isOfSame && !isKept && !isSame(values, known.values);
    if (!isOfSame) setProblem("");
    shown.current = known;
    if (isKept) return;
    setValues(pick(known));
    setAsked(undefined);
    if (isLost) setProblem(CHANGED);
  }, [known]);

  function choose(key: string, value: string) {
    setAsked(undefined);
    setValues((now) => ({ ...now, [key]: value || undefined }));
  }

  function press() {
    if (!mayChange || isSending || !isDirty) return;
    setProblem("");
    const { who, inherited, choices, values: was } = shown.current;
    const effective = (key: string, value: string | undefined) => value ?? inherited[key];
    const words = (key: string) => choices[key]?.find(([choice]) => choice === values[key])?.[1];
    const allows = fields.flatMap(({ key }) => newlyAllowed(key, who, effective(key, was[key] ?? undefined), effective(key, values[key]), words(key)) ?? []);
    if (allows.length) setAsked({ allows, label: "Allow and save", then: () => void send() });
    else void send();
  }

  async function send() {
    setSending(true);
    try {
      await write(shown.current, values);
      announce("Your change is saved.");
    } catch (error) {
      if (!(error instanceof Refused)) setProblem("No answer came. Check the current value before you save again.");
      else if (error.isSignedOut) failed(error);
      else setProblem(error.status === 412 ? CHANGED : reasons(error));
    }
    setSending(false);
    await saved();
  }

  /** Writes over what was shown when the person said so, and over nothing else. */
  async function write(from: Shown, chosen: Values) {
    const decidedBy = basis(from);
    for (let tries = 1; ; tries += 1) {
      try {
        await save(from, chosen);
        if (shown.current.who === from.who) shown.current = { ...from, values: { ...from.values, ...chosen } };
        return;
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 412 || tries === MOST_TRIES) throw error;
        // The tag names the complete file, which changes with every use of an entry. Only what is shown here counts.
        from = await load();
        if (basis(from) !== decidedBy) throw error;
      }
    }
  }

  return (
    <form class="panel" id={id} noValidate aria-labelledby={`${id}-title`} aria-busy={isSending} onSubmit={(event) => {
      event.preventDefault();
      press();
    }}>
      <h2 id={`${id}-title`}>{title}</h2>
      <p class="hint">{hint}</p>
      <div class="fields">
        {fields.map(({ key, title: words }) => (
          <div key={key} class="field">
            <label for={`${id}-${key}`}>{words}</label>
            <select id={`${id}-${key}`} disabled={!mayChange} value={values[key] ?? ""} onChange={(event) => choose(key, event.currentTarget.value)}>
              {options(known, key).map(([choice, said]) => <option key={choice} value={choice}>{brief(said, WORD_LENGTH)}</option>)}
            </select>
          </div>
        ))}
      </div>
      <Wrong text={problem} />
      <Question asked={asked} close={() => setAsked(undefined)} />
      {mayChange && (
        <p class="panel-end">
          <button type="submit" class={isSending ? "primary busy" : "primary"} aria-disabled={!isDirty || isSending} aria-label={`Save: ${title}`}><span class="act-text">Save</span></button>
        </p>
      )}
    </form>
  );
}

/** What can be chosen; a value of the file that is none of them too. */
function options({ values, choices, without }: Known, key: string): (readonly [string, string])[] {
  const value = values[key] ?? undefined;
  const all = choices[key] ?? [];
  const other: (readonly [string, string])[] = value !== undefined && !all.some(([choice]) => choice === value) ? [[value, value]] : [];
  return [["", without[key] ?? ""], ...all, ...other];
}

/** Why a change was refused, with what is wrong where. */
export function reasons(error: Refused): string {
  // The sentence of the server often has it already, a long one cut off.
  const fields = (error.problem.fields ?? []).map(({ path, message }) => `${path}: ${message}`).filter((field) => !error.message.includes(field.slice(0, MOST_COMPARED)));
  return [error.message, ...fields].join(". ");
}
