// The overview: what was asked and how it was answered, what asks most and what would stop that, how runs ended, and what is
// going on. Each chart has its numbers as a table.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { Overview as Figures } from "../api/types.ts";
import { hints } from "../hints.ts";
import { bars, beginning, legend, programName, scale, share } from "../pure/overview.ts";
import { brief, duration, visible } from "../pure/text.ts";
import { rule as ruleWords, runStatus } from "../pure/words.ts";
import { failed, looker } from "../shell.ts";
import { useValue } from "../state.ts";
import { Mono, Time, Wrong } from "./common.tsx";
import { AGES, Filter, type FilterField, query, sinceOf, useFilter } from "./listing.tsx";

const PAUSE_MS = 2000;
const AGAIN_MS = 60_000;
const FIELDS: FilterField[] = [{ key: "age", title: "Since", choices: [["", "In the last 24 hours"], ...AGES.filter(([age]) => age !== "" && age !== "1")] }];
const number = (count: number) => count.toLocaleString("en");
const NAME_LENGTH = 40;

export function Overview() {
  const { age = "" } = useFilter(FIELDS);
  const hint = useValue(hints.runs) + useValue(hints.approvals) + useValue(hints.all);
  const [known, setKnown] = useState<{ age: string; figures: Figures } | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [refresh] = useState(() => {
    const now = { age, isNew: true };
    const look = looker(async () => {
      const { age: asked } = now;
      now.isNew = false;
      try {
        const figures = await json<Figures>("GET", `/v1/overview?${query({ since: String(beginning(asked, new Date()) ?? sinceOf(asked) ?? "") })}`);
        if (asked === now.age) setKnown({ age: asked, figures });
        setProblem("");
      } catch (error) {
        if (!(error instanceof Refused) || error.status >= 500) throw error;
        if (error.isSignedOut) failed(error);
        setProblem(error.sentence);
      }
    }, () => (now.isNew ? 0 : PAUSE_MS));
    return (wanted: string) => {
      if (wanted !== now.age) now.isNew = true;
      now.age = wanted;
      look();
    };
  });
  useEffect(() => refresh(age), [age, hint]);
  useEffect(() => {
    const timer = setInterval(() => refresh(age), AGAIN_MS);
    return () => clearInterval(timer);
  }, [age]);
  return (
    <>
      <Filter view="overview" fields={FIELDS} />
      <Wrong text={problem} />
      {known?.age === age ? <Shown figures={known.figures} /> : !problem && <p class="hint">Loading …</p>}
    </>
  );
}

function Shown({ figures }: { figures: Figures }) {
  const { questions, now, partial, sinceMs } = figures;
  const allowed = share(questions);
  return (
    <div id="overview">
      <p class="hint">Since <Time ms={sinceMs} />.{partial && " There was more: only the newest 10,000 questions and 50,000 runs are counted."}</p>
      <dl class="tiles">
        <Tile name="Questions" value={number(questions.asked)} more={`${number(questions.waiting)} waiting`} />
        <Tile name="Median time to an answer" value={questions.medianAnswerMs === undefined ? "–" : duration(questions.medianAnswerMs)} more={`${number(questions.allowed + questions.denied)} answered by people`} />
        <Tile name="Allowed" value={allowed === undefined ? "–" : `${allowed} %`} more={`${number(questions.allowed)} allowed, ${number(questions.denied)} denied`} />
        <Tile name="Nobody answered" value={number(questions.expired)} more={`${number(questions.settled)} settled by rules`} />
        <Tile name="Running now" value={number(now.running)} more={`${number(now.queued)} wait for a free slot`} />
        <Tile name="Approvers connected" value={number(now.approvers)} more={`${number(now.ledgerQueue)} records still to be written`} />
      </dl>
      <div class="panels wide">
        <Asked figures={figures} />
        <Rules figures={figures} />
        <Runs figures={figures} />
      </div>
    </div>
  );
}

const Tile = ({ name, value, more }: { name: string; value: string; more: string }) => (
  <div class="tile"><dt>{name}</dt><dd><strong>{value}</strong><span>{more}</span></dd></div>
);

/** A table in a box that scrolls by itself where it is wider than the screen. */
const Table = ({ label, head, kind = "", children }: { label: string; head: string[]; kind?: "" | "stacked"; children: ComponentChildren }) => (
  <div class="table-box" tabIndex={0} role="region" aria-label={label}>
    <table class={`figures ${kind}`}><thead><tr>{head.map((title) => <th key={title} scope="col">{title}</th>)}</tr></thead><tbody>{children}</tbody></table>
  </div>
);

const WIDTH = 720;
const HEIGHT = 200;
const LEFT = 52;
const BOTTOM = 22;

/** Questions by agent and time: a stacked bar for each part of the stretch. */
function Asked({ figures }: { figures: Figures }) {
  const { agents, questions, partMs, beginsMs } = figures;
  const drawn = bars(figures);
  const end = scale(Math.max(0, ...drawn.map(({ total }) => total)));
  const names = legend(agents, (name) => brief(name, NAME_LENGTH));
  const wide = (WIDTH - LEFT) / Math.max(drawn.length, 1);
  const tall = (count: number) => (count / end) * (HEIGHT - BOTTOM - 8);
  const when = (ms: number) => new Date(ms).toLocaleString("en", partMs >= 86_400_000 ? { month: "short", day: "numeric" } : { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const every = Math.max(1, Math.ceil(drawn.length / 6));
  return (
    <section class="panel" aria-labelledby="asked-title">
      <h2 id="asked-title">Questions by agent and time</h2>
      {questions.asked === 0 ? <p class="hint">Nothing was asked. <a href="#/inbox">The inbox</a> says what is connected, and sends a test question.</p> : (
        <>
          <svg class="chart" id="asked-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${number(questions.asked)} questions in ${drawn.length} parts of ${duration(partMs)}; the most in one part are ${number(Math.max(...drawn.map(({ total }) => total)))}. The table below has the numbers of each agent.`}>
            {[0, 0.5, 1].map((part) => {
              const y = HEIGHT - BOTTOM - tall(end * part);
              return <g key={part}><line class="grid" x1={LEFT} x2={WIDTH} y1={y} y2={y} />{Number.isInteger(end * part) && <text class="axis" x={LEFT - 6} y={y + 4} text-anchor="end">{number(end * part)}</text>}</g>;
            })}
            {drawn.map(({ atMs, total, pieces }, place) => {
              let y = HEIGHT - BOTTOM;
              const x = LEFT + place * wide;
              return (
                <g key={atMs}>
                  <title>{`${when(atMs)}: ${number(total)}`}</title>
                  {pieces.map(({ colour, count }) => {
                    y -= tall(count);
                    return <rect key={colour} class={`series-${colour}`} x={x + 1} y={y} width={Math.max(wide - 2, 1)} height={tall(count)} />;
                  })}
                  {place % every === 0 && <text class={place % (2 * every) === 0 ? "axis" : "axis between"} x={x + 1} y={HEIGHT - 6}>{when(atMs)}</text>}
                </g>
              );
            })}
          </svg>
          <ul class="legend" aria-label="Colours">{names.map(({ colour, text }) => <li key={colour}><svg width="12" height="12" aria-hidden="true"><rect class={`series-${colour}`} width="12" height="12" /></svg> <bdi>{text}</bdi></li>)}</ul>
          <Table label="Questions by agent" kind="stacked" head={["Agent", "Asked", "Allowed", "Denied", "Nobody answered", "Waiting", "Median answer"]}>
            {agents.map(({ agentId, questions: of }) => (
              <tr key={agentId ?? ""}>
                <th scope="row"><bdi>{agentId === undefined ? "all others" : brief(agentId, NAME_LENGTH)}</bdi></th>
                <td data-name="Asked">{number(of.asked)}</td><td data-name="Allowed">{`${number(of.allowed)}${share(of) === undefined ? "" : ` (${share(of)} %)`}`}</td><td data-name="Denied">{number(of.denied)}</td><td data-name="No answer">{number(of.expired)}</td><td data-name="Waiting">{number(of.waiting)}</td>
                <td data-name="Median">{of.medianAnswerMs === undefined ? "–" : duration(of.medianAnswerMs)}</td>
              </tr>
            ))}
          </Table>
          <details>
            <summary>The numbers of the chart</summary>
            <Table label="Questions by time" head={["From", "All", ...names.map(({ text }) => text)]}>
              {drawn.map(({ total, pieces }, place) => (
                <tr key={beginsMs[place]}><th scope="row"><Time ms={beginsMs[place]} /></th><td>{number(total)}</td>{names.map(({ colour }) => <td key={colour}>{number(pieces.find((piece) => piece.colour === colour)?.count ?? 0)}</td>)}</tr>
              ))}
            </Table>
          </details>
        </>
      )}
    </section>
  );
}

/** What asks most often, with what the latest of each proposes to remember. */
function Rules({ figures: { rules } }: { figures: Figures }) {
  return (
    <section class="panel" aria-labelledby="rules-title">
      <h2 id="rules-title">What asks most often</h2>
      {rules.length === 0 ? <p class="hint">Nothing was asked.</p> : (
        <Table label="Programs that ask most often" kind="stacked" head={["Program", "Agent", "Asked", "Why", "Allowed", "What would stop it"]}>
          {rules.map(({ agentId, program, why, questions, approvalId, wouldStop }) => (
            <tr key={`${agentId} ${program} ${why}`} data-asking={approvalId}>
              <th scope="row">{program === undefined ? programName(program) : <Mono text={programName(program)} />}</th>
              <td data-name="Agent"><bdi>{brief(agentId, NAME_LENGTH)}</bdi></td>
              <td data-name="Asked">{number(questions.asked)}</td>
              <td data-name="Why">{ruleWords(why)}</td>
              <td data-name="Allowed">{share(questions) === undefined ? "–" : `${share(questions)} %`}</td>
              <td data-name="To stop it"><div>{wouldStop.length === 0 ? "No rule can cover it." : <ul class="stops">{wouldStop.map((words) => <li key={words}><bdi>{visible(words)}</bdi></li>)}</ul>}{" "}<a href={`/a/${approvalId}`}>The latest request<span class="unseen">{` of ${programName(program)}`}</span></a></div></td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

/** How runs ended, and why those that were refused or failed did. */
function Runs({ figures: { runs, reasons } }: { figures: Figures }) {
  const all = runs.reduce((sum, { count }) => sum + count, 0);
  const most = Math.max(1, ...runs.map(({ count }) => count));
  return (
    <section class="panel" aria-labelledby="runs-title">
      <h2 id="runs-title">{`Runs (${number(all)})`}</h2>
      {all === 0 ? <p class="hint">Nothing ran. Try it with <code>countersign exec -- date</code>.</p> : (
        <Table label="Runs by state" head={["State", "Runs", "Share"]}>
          {runs.map(({ status, count }) => (
            <tr key={status}>
              <th scope="row"><span class={`badge ${runStatus(status).tone}`}>{runStatus(status).label}</span></th>
              <td>{number(count)}</td>
              <td class="bar-cell"><svg viewBox="0 0 100 10" preserveAspectRatio="none" width="100%" height="10" aria-hidden="true"><rect class="series-3" width={(count / most) * 100} height="10" /></svg><span>{`${Math.round((count / all) * 100)} %`}</span></td>
            </tr>
          ))}
        </Table>
      )}
      {reasons.length > 0 && (
        <Table label="Reasons" head={["Why denied, failed or lost", "Runs"]}>
          {reasons.map(({ reason, count }) => <tr key={reason}><th scope="row"><code>{visible(reason)}</code></th><td>{number(count)}</td></tr>)}
        </Table>
      )}
    </section>
  );
}
