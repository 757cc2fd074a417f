// What machines that ask to become a node offer, in sentences for people. Pure.

import type { Pairing } from "../api/types.ts";

const COMMANDS: Record<string, string> = {
  "system.run": "runs programs on that machine",
  "system.run.prepare": "says in advance what a command would run",
  "system.which": "says where programs are installed",
  "system.notify": "shows a notification",
  "system.execApprovals.get": "shows that machine's own policy",
  "system.execApprovals.set": "changes that machine's own policy",
};

/** What a command of a node does, where this page knows. */
export const command = (name: string): string | undefined => (Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined);

/** What a pairing request asks for, as `{verb, sentence, consequence}`. */
export function pairing({ kind, isRepair }: Pick<Pairing, "kind" | "isRepair">): { verb: string; sentence: string; consequence: string } {
  const sent = "Policy still decides about each command.";
  if (kind === "commands") {
    return {
      verb: "offers more commands",
      sentence: "This machine is connected and offers more commands than were approved.",
      consequence: `If you approve, it may be sent every command listed here. ${sent}`,
    };
  }
  if (isRepair) {
    return {
      verb: "wants to connect again",
      sentence: "A machine with this identity was paired before and asks again, for example because its token was revoked.",
      consequence: `Approve only if you know why. If you approve, it may connect and be sent the commands listed here. ${sent}`,
    };
  }
  return {
    verb: "wants to connect",
    sentence: "An unknown machine asks to become a node. Compare its device id with the one shown on that machine: anyone can choose a name.",
    consequence: `If you approve, it may stay connected and be sent the commands listed here. ${sent}`,
  };
}
