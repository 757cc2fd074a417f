// What an auditor wants to know of a request, below its card.

import type { Approval } from "../api/types.ts";
import { visible } from "../pure/text.ts";
import { fallback, who, width } from "../pure/words.ts";
import { Fact, Mono } from "./common.tsx";

/** `envHash` of a call that overrides nothing: SHA-256 of an empty list. */
const NO_ENV_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

/** What an auditor wants to know. */
export function AuditFacts({ approval }: { approval: Approval }) {
  const { why, boundTo } = approval;
  return (
    <details class="audit" aria-label="Details">
      <summary>Details</summary>
      <dl class="facts">
        <Fact name="Program">{approval.resolvedPath ? <Mono text={approval.resolvedPath} /> : <em>resolved by the shell at run time</em>}</Fact>
        <Fact name="Run by">{boundTo.argv ? "this argument list, without a shell" : boundTo.shell ? <Mono text={`${boundTo.shell} -c`} /> : "these parts, without a shell"}</Fact>
        <Fact name="Guaranteed unchanged"><span class={approval.binding === "exact" ? "chip good" : "chip"}>{visible(approval.binding)}</span> {visible(approval.bindingDetail)}</Fact>
        {approval.scripts && <Fact name="Scripts"><span class={approval.scripts === "held" ? "chip good" : "chip"}>{visible(approval.scripts)}</span></Fact>}
        {approval.confined && <Fact name="Confined">{visible(approval.confined)}</Fact>}
        <Fact name="Session"><Mono text={approval.sessionKey} /></Fact>
        <Fact name="Requested by"><bdi>{visible(who(approval.requestedBy))}</bdi></Fact>
        <Fact name="If nobody answers">{visible(fallback(approval.askFallback))}</Fact>
        <Fact name="Rule"><code class="rule">{visible(why.rule)}</code> <code class="rule">{visible(why.layer)}</code></Fact>
        <Fact name="Bound to">
          <code title={`SHA-256 ${boundTo.digest}`}>{boundTo.digest.slice(0, 12)}</code>{boundTo.envHash !== NO_ENV_HASH && " with environment values"}{boundTo.scriptSha256 && " and the script as it is now"}
        </Fact>
        <Fact name="“Always” stores"><Stored approval={approval} /></Fact>
      </dl>
    </details>
  );
}

function Stored({ approval }: { approval: Approval }) {
  const kept = approval.proposedPatterns.filter((pattern) => pattern.default);
  const [first] = kept;
  if (!approval.allowedDecisions.includes("allow-always") || !first) return <>nothing: it is unavailable here</>;
  return <><Mono text={first.pattern} /> {width(first)}{kept.length > 1 && `, and ${kept.length - 1} more like it`}{first.note && `; ${visible(first.note)}`}</>;
}
