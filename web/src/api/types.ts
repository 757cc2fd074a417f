// The objects of the API by the names that the page uses. `schema.d.ts` is made of `openapi/openapi.json`.

import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

export type Actor = Schemas["Actor"];
export type Approval = Schemas["Approval"];
export type ApprovalDecision = Schemas["ApprovalDecision"];
export type AllowlistEntry = Schemas["AllowlistEntry"];
export type Agent = Schemas["Agent"];
export type AnalysisFinding = Schemas["AnalysisFinding"];
export type AppliedPreset = Schemas["AppliedPreset"];
export type AgentPolicy = Schemas["AgentPolicy"];
export type AuditHead = Schemas["AuditHead"];
export type AuditRecord = Schemas["AuditRecord"];
export type AuditVerification = Schemas["AuditVerification"];
export type BrowserSession = Schemas["Session"];
export type Config = Schemas["Config"];
export type Decision = Schemas["Decision"];
export type DecisionResult = Schemas["DecisionResult"];
export type DecisionsResult = Schemas["DecisionsResult"];
export type DenyRule = Schemas["DenyRule"];
export type EffectivePolicy = Schemas["EffectivePolicy"];
export type Explanation = Schemas["Explanation"];
export type Forecast = Schemas["Forecast"];
export type Finding = Schemas["Finding"];
export type Findings = Schemas["Findings"];
export type Frame = Schemas["Frame"];
export type Frames = Schemas["Frames"];
export type GrantChoice = Schemas["GrantChoice"];
export type AgentMute = Schemas["AgentMute"];
export type Node = Schemas["Node"];
export type Overview = Schemas["Overview"];
export type Backtest = Schemas["Backtest"];
export type ChangedCommand = Schemas["ChangedCommand"];
export type PolicyChange = Schemas["PolicyChange"];
export type TestedPolicy = Schemas["TestedPolicy"];
export type FailedCase = Schemas["FailedCase"];
export type Pairing = Schemas["Pairing"];
export type Pattern = Schemas["Pattern"];
export type PendingEdit = Schemas["PendingEdit"];
export type Problem = Schemas["Problem"];
export type ProcessSession = Schemas["ProcessSession"];
export type Proposal = Schemas["Proposal"];
export type Revision = Schemas["Revision"];
export type SavedForecast = Schemas["SavedForecast"];
export type Segment = Schemas["Segment"];
export type SessionOverrides = Schemas["SessionOverrides"];
export type Setting = Schemas["Setting"];
export type Readiness = Schemas["Readiness"];
export type SettingsInForce = Schemas["Settings"];
export type SignedInBrowser = Schemas["SignedInBrowser"];
export type Token = Schemas["Token"];
export type NewToken = Schemas["NewToken"];
export type LoginLink = Schemas["LoginLink"];
export type Version = Schemas["Version"];
export type ActiveStop = Schemas["ActiveStop"];
export type StopState = Schemas["StopState"];
export type StopAnswer = Schemas["StopAnswer"];

/** A run, with the members that only some of its states have. */
export type Run = Schemas["RunMembers"] & {
  runId: string;
  status: string;
  exitCode?: number;
  exitSignal?: string;
  durationMs?: number;
  reason?: string;
  startedAtMs?: number;
};

/** What became of the run of a request, as far as the events said. */
export type RunNews = Pick<Run, "status"> & Partial<Pick<Run, "exitCode" | "exitSignal" | "durationMs" | "outputBytes" | "reason">>;

/** One page of a list. */
export interface Page<Item> {
  items: Item[];
  nextCursor?: string;
}

/** An event, with the members that the page reads of its kinds. */
export interface PageEvent extends RunNews {
  type: string;
  ts: number;
  runId: string;
  approvalId: string;
  decision?: ApprovalDecision;
  resolvedBy?: Actor;
  terminalReason?: Approval["terminalReason"];
}
