// What is loaded after the first request is shown: the wider answers, one answer to several, what became of a request, the agents that are muted, the output of a run, the dialog
// of the emergency stop, the help, and what newcomers see.

export { chooseAll, decideTogether } from "../answers.ts";
export { whyNoAlways } from "../pure/grant-words.ts";
export { AfterDenial } from "./after.tsx";
export { AlwaysPanel, StoredList } from "./always.tsx";
export { AuditFacts } from "./audit-facts.tsx";
export { Batch, ChooseAll } from "./batch.tsx";
export { HeldAnswers } from "./changes.tsx";
export { Ended, HeldBack, Reasons, Results, Times } from "./ended.tsx";
export { Help } from "./help.tsx";
export { Mutes } from "./mutes.tsx";
export { Output } from "./output.tsx";
export { Past } from "./past.tsx";
export { Revise, Revised } from "./revise.tsx";
export { Start } from "./start.tsx";
export { StopDialog } from "./stop-dialog.tsx";
export { Trust } from "./trust.tsx";
