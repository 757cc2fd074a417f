// The text form of server-sent events. Pure.

/** One event of the stream, not yet read. */
export interface StreamEvent {
  id: string | undefined;
  type: string;
  data: string;
}

/**
 * Makes a function that is fed text as it comes, cut anywhere, and calls `onEvent({id, type, data})` for each whole
 * event in it.
 */
export function reader(onEvent: (event: StreamEvent) => void): (text: string) => void {
  let rest = "";
  let event: Partial<StreamEvent> = {};
  const take = (line: string) => {
    if (line === "") {
      if (event.data !== undefined) onEvent({ id: event.id, type: event.type ?? "message", data: event.data });
      event = {};
    } else if (!line.startsWith(":")) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "id") event.id = value;
      else if (name === "event") event.type = value;
      else if (name === "data") event.data = event.data === undefined ? value : `${event.data}\n${value}`;
    }
  };
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  };
}
