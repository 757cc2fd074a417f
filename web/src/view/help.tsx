// The help for the keyboard, and the switch that turns the letters off.

import { useLayoutEffect, useRef } from "preact/hooks";
import { isHelp, isOn, setOn } from "../keys.ts";
import { useValue } from "../state.ts";

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [["j", "↓"], "next request"],
  [["k", "↑"], "previous request"],
  [["Enter"], "open the request"],
  [["a"], "allow this request once"],
  [["A"], "choose what to allow always"],
  [["d"], "deny this request, with words for the agent"],
  [["r"], "write a reason"],
  [["e"], "suggest another command"],
  [["x"], "choose this request for one answer to several"],
  [["X"], "choose every request like this one"],
  [["*"], "choose every request of the list, as it is filtered"],
  [["o", "→", "←"], "list or hide the requests of a group"],
  [["g"], "group similar requests, or only equal ones"],
  [["/"], "filter the list"],
  [["Esc"], "leave a field, close what is open"],
  [["?"], "this help"],
];

export function Help() {
  const isOpen = useValue(isHelp);
  const on = useValue(isOn);
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    if (!isOpen) dialog.current?.close();
    else if (!dialog.current?.open) dialog.current?.showModal();
  }, [isOpen]);
  return (
    <dialog id="help" ref={dialog} aria-labelledby="help-title" onClose={() => isHelp.set(false)}>
      <h2 id="help-title">Keyboard</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => [<dt key={what}>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt>, <dd key={`${what}-`}>{what}</dd>])}
      </dl>
      <p class="hint">Letters answer only the request that has the focus and that you see. Elsewhere they open it.</p>
      <label class="check"><input type="checkbox" id="keys-on" checked={on} onChange={(event) => setOn(event.currentTarget.checked)} /> <span>Use these keys</span></label>
      <p class="dialog-end"><button type="button" class="primary" id="help-close" onClick={() => isHelp.set(false)}>Close</button></p>
    </dialog>
  );
}

