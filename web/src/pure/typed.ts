// What is sent to a process session: lines, text as it is, and keys. And its output as text. Pure.

/** What a session is like, as far as it decides what can be sent. */
export interface Input {
  pty: boolean;
}

/** The members of a request to the process tool that say what is sent. */
export type Sent = { action: "write"; data?: string; eof?: boolean } | { action: "send-keys"; literal?: string; keys?: string[] };

/** A key that a button sends. */
export interface Key {
  /** What the button says. */
  title: string;
  /** For a screen reader. */
  label: string;
  send: Sent;
}

/** A line of text, with what ends it: Enter at a terminal, a line feed elsewhere. */
export function line(text: string, { pty }: Input): Sent {
  if (!pty) return { action: "write", data: `${text}\n` };
  return text ? { action: "send-keys", literal: text, keys: ["Enter"] } : { action: "send-keys", keys: ["Enter"] };
}

/** The text as it is, and nothing after it. */
export const raw = (text: string): Sent => ({ action: "write", data: text });

const key = (title: string, label: string, name: string): Key => ({ title, label, send: { action: "send-keys", keys: [name] } });

const AT_TERMINAL: readonly Key[] = [
  key("Enter", "Enter", "Enter"),
  key("Ctrl-C", "Ctrl-C, which interrupts", "C-c"),
  key("Ctrl-D", "Ctrl-D, which ends the input", "C-d"),
  key("Tab", "Tab", "Tab"),
  key("Esc", "Esc, the escape key", "Escape"),
  key("↑", "Arrow up", "Up"),
  key("↓", "Arrow down", "Down"),
  key("←", "Arrow left", "Left"),
  key("→", "Arrow right", "Right"),
];
// Without a terminal there is nothing that would make a signal or a cursor of a key.
const AT_PIPE: readonly Key[] = [
  { title: "Enter", label: "Enter, a line feed", send: { action: "write", data: "\n" } },
  { title: "End of input", label: "End of input: nothing can be written after it", send: { action: "write", eof: true } },
];

/** The keys that a session takes. */
export const keysOf = ({ pty }: Input): readonly Key[] => (pty ? AT_TERMINAL : AT_PIPE);

const REFUSALS: Readonly<Record<string, string>> = {
  "session-ended": "The session has ended. Nothing was sent.",
  "input-closed": "The input of this command is closed, so nothing can be sent. The entry that covers it does not allow open input.",
  "not-found": "This session no longer exists, or it belongs to another agent. Nothing was sent.",
  forbidden: "Your sign-in may not do this for this agent. Nothing was sent.",
  "tool-denied": "Policy denies the process tool to this agent. Nothing was sent.",
  overloaded: "The command does not read its input. Nothing was sent.",
  stopped: "Everything is stopped. Nothing was sent.",
};

/** Why nothing was sent, in a sentence; what the server says where its code is another one. */
export const refusal = (code: string, message: string): string => (Object.hasOwn(REFUSALS, code) ? (REFUSALS[code] ?? message) : `${message}. Nothing was sent.`);

/** No answer came: it may have been sent all the same. */
export const UNCERTAIN = "No answer came. It may have been sent: look at the output before you send it again.";

/**
 * Makes a function that takes the output of a terminal, cut anywhere, and leaves its text: sequences that move the cursor, colour
 * or name something are left out, and a bell is silent. What is left still has to be made visible.
 */
export function terminalText(): (text: string) => string {
  // A sequence that is not complete yet. One that never ends is not kept for ever.
  let rest = "";
  return (piece) => {
    const text = rest + piece;
    const open = /(?:\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001b]*(?:\u001b)?|[ -/]*)?|\r)$/.exec(text);
    const cut = open && open[0].length <= LONGEST_SEQUENCE ? open.index : text.length;
    rest = text.slice(cut);
    return text
      .slice(0, cut)
      .replace(SEQUENCES, "")
      .replace(/\r+\n/g, "\n")
      .replace(/\r/g, "\n")
      .replace(/\u0007/g, "");
  };
}

const LONGEST_SEQUENCE = 4096;
// Control sequences, strings with their end, and the short ones.
const SEQUENCES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-OQ-WYZ\\`-~]/g;
