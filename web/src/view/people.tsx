// People: who is signed in, which tokens there are, and how a new person signs in.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { json, Refused, send, serverNow } from "../api/api.ts";
import type { BrowserSession, LoginLink, NewToken, SignedInBrowser, Token } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, visible } from "../pure/text.ts";
import { useValue } from "../state.ts";
import { Fact, Mono, Time, Wrong } from "./common.tsx";
import { Confirm } from "./confirm.tsx";
import { Listing } from "./listing.tsx";
import { usePaged } from "./paged.ts";

type Scope = BrowserSession["scopes"][number];

const NAME_LENGTH = 40;
const DAY_MS = 86_400_000;
const AGES = [["", "Never"], ["1", "In one day"], ["7", "In 7 days"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In one year"]] as const;
const SCOPES: readonly (readonly [Scope, string])[] = [
  ["read", "read: see runs, policy and the log"],
  ["approve", "approve: answer requests"],
  ["admin", "admin: change policy, nodes and people"],
  ["exec", "exec: run commands, for an agent"],
  ["relay", "relay: pass on what people write in chats"],
];

/** Whether a token opens nothing any more. */
const isOver = ({ revokedAtMs, expiresAtMs }: Token): boolean => revokedAtMs !== undefined || (expiresAtMs !== undefined && expiresAtMs <= serverNow());

export function People() {
  const [showsEnded, setShowsEnded] = useState(false);
  const hint = useValue(hints.all);
  const browsers = usePaged<SignedInBrowser>("/v1/sign-ins?limit=100", ({ id }) => id, hint);
  const tokens = usePaged<Token>("/v1/tokens?limit=100", ({ id }) => id, hint);
  // What ends while you look stays where it is.
  const live = useRef(new Set<string>());
  for (const token of tokens.items ?? []) if (!isOver(token)) live.current.add(token.id);
  const hidden = (token: Token) => isOver(token) && !live.current.has(token.id);
  const ended = (tokens.items ?? []).filter(hidden).length;
  const changed = () => {
    browsers.refresh();
    tokens.refresh();
  };
  return (
    <>
      <div class="panels">
        <Invite changed={changed} />
        <Make changed={changed} />
      </div>
      <section aria-labelledby="browsers-title">
        <div class="section-head"><h2 id="browsers-title">Signed in</h2></div>
        <Listing id="browsers" title="Browsers that are signed in" list={browsers} none={<p>No browser is signed in.</p>} row={(browser) => <BrowserRow key={browser.id} browser={browser} changed={changed} />} />
      </section>
      <section aria-labelledby="tokens-title">
        <div class="section-head">
          <h2 id="tokens-title">Tokens</h2>
          {ended > 0 && <button type="button" class="quiet" id="tokens-ended" aria-pressed={showsEnded} onClick={() => setShowsEnded(!showsEnded)}>{`${showsEnded ? "Hide" : "Show"} ${ended} that ${ended === 1 ? "has" : "have"} ended`}</button>}
        </div>
        <Listing id="tokens" title="Tokens" list={showsEnded ? tokens : { ...tokens, items: tokens.items?.filter((token) => !hidden(token)) }} none={<p>There are no tokens.</p>} row={(token) => <TokenRow key={token.id} token={token} changed={changed} />} />
      </section>
    </>
  );
}

function BrowserRow({ browser: { id, name, owner, scopes, createdAtMs, expiresAtMs }, changed }: { browser: SignedInBrowser; changed: () => void }) {
  return (
    <li class="run person" data-browser={id}>
      <div class="person-what">
        <p><strong><bdi>{brief(name, NAME_LENGTH)}</bdi></strong> <span class="width">{`owner ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`}</span></p>
        <p class="rule-more">Since <Time ms={createdAtMs} />, until <Time ms={expiresAtMs} /></p>
      </div>
      <Confirm name="Sign out" act="sign-out-browser" label={`Sign out ${brief(name, NAME_LENGTH)}`} question="Sign this browser out?" yes="Sign it out" done="The browser is signed out." changed={changed}
        run={async () => void (await send("DELETE", `/v1/sign-ins/${encodeURIComponent(id)}`))} />
    </li>
  );
}

function TokenRow({ token, changed }: { token: Token; changed: () => void }) {
  const { id, name, owner, scopes, agents, groups, createdAtMs, expiresAtMs, lastUsedAtMs, revokedAtMs, proposedBy } = token;
  const isEnded = isOver(token);
  return (
    <li class="run person" data-token={id}>
      <div class="person-what">
        <p>
          <strong><bdi>{brief(name, NAME_LENGTH)}</bdi></strong> <span class="width">{`owner ${brief(owner, NAME_LENGTH)} · ${scopes.join(", ")}`}</span>
          {isEnded && <span class="chip bad">{revokedAtMs === undefined ? "expired" : "revoked"}</span>}
          {proposedBy && <span class="chip warn">waits for an admin of another owner</span>}
        </p>
        <dl class="facts">
          {agents && <Fact name="Only for"><bdi>{visible(agents.join(", "))}</bdi></Fact>}
          {groups && groups.length > 0 && <Fact name="Groups"><bdi>{visible(groups.join(", "))}</bdi></Fact>}
          <Fact name="Made"><Time ms={createdAtMs} /></Fact>
          <Fact name="Last used">{lastUsedAtMs === undefined ? "never" : <Time ms={lastUsedAtMs} />}</Fact>
          {revokedAtMs !== undefined && <Fact name="Revoked"><Time ms={revokedAtMs} /></Fact>}
          {revokedAtMs === undefined && <Fact name={isEnded ? "Ended" : "Ends"}>{expiresAtMs === undefined ? "never" : <Time ms={expiresAtMs} />}</Fact>}
          {proposedBy && <Fact name="Proposed by"><bdi>{visible(proposedBy.name)}</bdi></Fact>}
          <Fact name="Id"><Mono text={id} /></Fact>
        </dl>
      </div>
      {proposedBy && !isEnded && (
        <Confirm name="Accept" act="accept-token" label={`Accept ${brief(name, NAME_LENGTH)}`} question="Accept this token?" yes="Accept it" done="The token is accepted." changed={changed}
          run={() => json("POST", `/v1/tokens/${encodeURIComponent(id)}/accept`, { body: {} })} />
      )}
      {!isEnded && (
        <Confirm name="Revoke" act="revoke-token" label={`Revoke ${brief(name, NAME_LENGTH)}`} question="Revoke it? All that use it are cut off at once, for good." yes="Revoke it" done="The token is revoked." changed={changed}
          run={async () => void (await send("DELETE", `/v1/tokens/${encodeURIComponent(id)}`))} />
      )}
    </li>
  );
}

/** A form with a name and scopes; what it made is shown once, below it. */
function Form<Made>({ id, title, hint, go, scopes, chosen, make, shown, changed, children }: {
  id: string;
  title: string;
  hint: string;
  go: string;
  scopes: typeof SCOPES;
  chosen: readonly Scope[];
  make: (name: string, scopes: Scope[]) => Promise<Made>;
  shown: (made: Made) => ComponentChildren;
  changed: () => void;
  children?: ComponentChildren;
}) {
  const [name, setName] = useState("");
  const [ticked, setTicked] = useState<ReadonlySet<Scope>>(new Set(chosen));
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const [made, setMade] = useState<Made | undefined>(undefined);
  const result = useRef<HTMLDivElement>(null);
  const isReady = name.trim() !== "" && ticked.size > 0 && !isSending;

  async function press() {
    if (!isReady) return;
    setSending(true);
    setProblem("");
    try {
      setMade(await make(name.trim(), [...ticked]));
      setName("");
      announce("Done. It is shown only once.");
      queueMicrotask(() => result.current?.focus());
    } catch (error) {
      setProblem(error instanceof Refused ? error.message : "No answer came. Check the list before you try again.");
    }
    setSending(false);
    changed();
  }
  return (
    <form class="panel" id={id} noValidate aria-labelledby={`${id}-title`} onSubmit={(event) => {
      event.preventDefault();
      void press();
    }}>
      <h2 id={`${id}-title`}>{title}</h2>
      <p class="hint">{hint}</p>
      <div class="fields">
        <div class="field">
          <label for={`${id}-name`}>Name, as it appears in the record</label>
          <input id={`${id}-name`} type="text" maxLength={100} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        <fieldset class="scopes">
          <legend>May</legend>
          {scopes.map(([scope, words]) => (
            <label key={scope} class="check">
              <input type="checkbox" value={scope} checked={ticked.has(scope)} onChange={() => setTicked((now) => new Set(now.has(scope) ? [...now].filter((other) => other !== scope) : [...now, scope]))} />
              <span>{words}</span>
            </label>
          ))}
        </fieldset>
        {children}
      </div>
      <Wrong text={problem} />
      <p class="panel-end"><button type="submit" class={isSending ? "primary busy" : "primary"} aria-disabled={!isReady}><span class="act-text">{go}</span></button></p>
      {made !== undefined && (
        <div class="made" ref={result} tabIndex={-1} role="group" aria-label="Shown once">
          {shown(made)}
          <button type="button" class="quiet" onClick={() => setMade(undefined)}>Hide it</button>
        </div>
      )}
    </form>
  );
}

function Invite({ changed }: { changed: () => void }) {
  return (
    <Form<LoginLink> id="invite" title="Sign a person in" hint="Makes a link that signs one browser in, once, under this name." go="Make the link" changed={changed}
      scopes={SCOPES.filter(([scope]) => scope !== "exec" && scope !== "relay")} chosen={["read", "approve"]}
      make={(name, scopes) => json("POST", "/v1/login-links", { body: { name, scopes } })}
      shown={({ url, expiresAtMs, token }) => (
        <>
          <p>Give this link to the person, and to nobody else. It is valid for one sign-in until <Time ms={expiresAtMs} />.</p>
          <code class="line">{visible(url)}</code>
          {token?.proposedBy && <p class="warn-line">It gives no access until an admin of another owner accepts the token.</p>}
        </>
      )} />
  );
}

function Make({ changed }: { changed: () => void }) {
  const [agents, setAgents] = useState("");
  const [days, setDays] = useState("");
  const named = agents.split(/[\s,]+/).filter(Boolean);
  return (
    <Form<NewToken> id="make-token" title="Make a token" hint="For a program. A token that asks can never answer: exec stands alone, or with read." go="Make the token" changed={changed}
      scopes={SCOPES} chosen={["exec"]}
      make={(name, scopes) => json("POST", "/v1/tokens", { body: { name, scopes, ...(named.length && { agents: named }), ...(days && { expiresAtMs: Math.round(serverNow()) + Number(days) * DAY_MS }) } })}
      shown={({ secret, proposedBy }) => (
        <>
          <p>This secret is shown once. Put it where the program reads it.</p>
          <code class="line">{visible(secret)}</code>
          {proposedBy && <p class="warn-line">It gives no access until an admin of another owner accepts it.</p>}
        </>
      )}>
      <div class="field">
        <label for="make-token-agents">Only for these agents (all, if it is empty)</label>
        <input id="make-token-agents" type="text" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder="build, deploy" value={agents} onInput={(event) => setAgents(event.currentTarget.value)} />
      </div>
      <div class="field">
        <label for="make-token-expires">Expires</label>
        <select id="make-token-expires" value={days} onChange={(event) => setDays(event.currentTarget.value)}>{AGES.map(([value, words]) => <option key={value} value={value}>{words}</option>)}</select>
      </div>
    </Form>
  );
}
