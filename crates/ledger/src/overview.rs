//! Figures of a stretch of time: what was asked and answered, which rules ask most, and how runs ended.
//!
//! What is looked at is bounded: the newest questions and runs of the stretch. A look begins at the row that a moment
//! is found at ([`super::moments`]), so that nothing older is read. Entry point: [`Ledger::overview`].

use std::collections::BTreeMap;

use rusqlite::Connection;

use countersign_domain::{
    AgentId, ApprovalId, ApprovalStatus, Reason, RunStatus, TerminalReason, UnixMillis,
};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    moments::{self, Series},
    rows::Columns,
    sql::{fetch, list},
};

/// So many questions of a stretch are looked at, the newest.
pub const MOST_QUESTIONS: usize = 10_000;
/// So many runs of a stretch are looked at, the newest.
pub const MOST_RUNS: usize = 50_000;
/// So many agents have a row of their own; the others share one.
pub const MOST_AGENTS: usize = 10;
/// So many rules are listed, those that ask most.
pub const MOST_RULES: usize = 10;
/// So many parts a stretch is cut into at most.
pub const MOST_PARTS: i64 = 48;

const HOUR_MS: i64 = 3_600_000;

/// A stretch of time, cut into equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    since: i64,
    part: i64,
    parts: usize,
}

/// What was asked and answered, and how runs ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overview {
    /// Questions, by how they stand.
    pub questions: Questions,
    /// Those of each agent; those who ask most come first, and the last may be all others together.
    pub agents: Vec<AgentQuestions>,
    /// What asks most.
    pub rules: Vec<AskingRule>,
    /// Runs that began in the stretch, by how they stand.
    pub runs: Vec<(RunStatus, u64)>,
    /// Why runs were denied or failed, most often first.
    pub reasons: Vec<(Reason, u64)>,
    /// Whether there was more than is looked at.
    pub is_partial: bool,
}

/// Questions, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Questions {
    /// All of them.
    pub asked: u64,
    /// A person allowed it.
    pub allowed: u64,
    /// A person denied it.
    pub denied: u64,
    /// A rule, a change of policy or the emergency stop settled it.
    pub settled: u64,
    /// Nobody answered.
    pub expired: u64,
    /// It was withdrawn.
    pub cancelled: u64,
    /// It waits.
    pub waiting: u64,
    /// How long people took: half of the answers came sooner. `None` without an answer of a person.
    pub median_answer_ms: Option<u64>,
}

/// The questions of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentQuestions {
    /// The agent; `None` for all others together.
    pub agent: Option<AgentId>,
    /// Counted.
    pub questions: Questions,
    /// How many were asked in each part of the stretch.
    pub parts: Vec<u64>,
}

/// What had an agent ask: the same program, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskingRule {
    /// Whose questions.
    pub agent: AgentId,
    /// The first program, by its path where one was found.
    pub program: Option<String>,
    /// `why.rule` of the approvals.
    pub why: String,
    /// Counted.
    pub questions: Questions,
    /// The latest of them.
    pub latest: ApprovalId,
}

impl Stretch {
    /// From `since` to `until`, in parts of whole hours, at most [`MOST_PARTS`] of them.
    pub fn of(since: UnixMillis, until: UnixMillis) -> Self {
        let length = until.get().saturating_sub(since.get()).max(1);
        let hours = length.div_euclid(HOUR_MS * MOST_PARTS) + i64::from(length % (HOUR_MS * MOST_PARTS) != 0);
        let part = hours.max(1) * HOUR_MS;
        let parts = length.div_euclid(part) + i64::from(length % part != 0);
        Self {
            since: since.get(),
            part,
            parts: usize::try_from(parts).unwrap_or(1),
        }
    }

    /// How long each part is.
    pub const fn part_ms(self) -> i64 {
        self.part
    }

    /// When each part begins.
    pub fn begins(self) -> impl Iterator<Item = i64> {
        (0..self.parts).filter_map(move |at| {
            Some(
                self.since
                    .saturating_add(i64::try_from(at).ok()?.saturating_mul(self.part)),
            )
        })
    }

    fn part_of(self, at: i64) -> Option<usize> {
        let part = at.checked_sub(self.since)?.div_euclid(self.part);
        usize::try_from(part).ok().filter(|part| *part < self.parts)
    }
}

impl Ledger {
    /// Figures of a stretch that ends now.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn overview(&self, stretch: Stretch) -> Result<Overview, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let (asked, more_questions) = asked(connection, stretch)?;
                let (ends, more_runs) = ends(connection, stretch)?;
                let mut overview = counted(&asked, stretch);
                overview.runs = ends.0;
                overview.reasons = ends.1;
                overview.is_partial = more_questions || more_runs;
                Ok(overview)
            })
            .await
    }
}

/// A question, as far as it is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    id: ApprovalId,
    agent: AgentId,
    status: ApprovalStatus,
    why_ended: Option<TerminalReason>,
    at: i64,
    ended: Option<i64>,
    program: Option<String>,
    why: String,
}

/// The questions of a stretch, newest first, and whether there are more than are looked at.
fn asked(connection: &Connection, stretch: Stretch) -> Result<(Vec<Asked>, bool), Fault> {
    let first = moments::first_since(connection, Series::Approvals, stretch.since)?;
    let rows = list(
        connection,
        "SELECT id, agent_id, status, terminal_reason, created_ms, resolved_ms, \
         json_extract(card_json, '$.resolved_path'), json_extract(card_json, '$.why.rule') \
         FROM approvals WHERE seq >= ?1 ORDER BY seq DESC LIMIT ?2",
        (first, limit(MOST_QUESTIONS)),
        |row| {
            let mut columns = Columns::of("approvals", row);
            Ok(Asked {
                id: columns.word()?,
                agent: columns.word()?,
                status: columns.word()?,
                why_ended: columns.maybe_word()?,
                at: columns.take()?,
                ended: columns.take()?,
                program: columns.take()?,
                why: columns.take::<Option<String>>()?.unwrap_or_default(),
            })
        },
    )?;
    let more = has_more(connection, Series::Approvals, first, rows.len(), MOST_QUESTIONS)?;
    Ok((rows, more))
}

type Ends = (Vec<(RunStatus, u64)>, Vec<(Reason, u64)>);

/// How the runs of a stretch stand, and why those were refused or failed that were.
fn ends(connection: &Connection, stretch: Stretch) -> Result<(Ends, bool), Fault> {
    let first = moments::first_since(connection, Series::Runs, stretch.since)?;
    let groups = list(
        connection,
        "SELECT status, reason, count(*) FROM \
         (SELECT status, reason FROM runs WHERE seq >= ?1 ORDER BY seq DESC LIMIT ?2) GROUP BY status, reason",
        (first, limit(MOST_RUNS)),
        |row| {
            let mut columns = Columns::of("runs", row);
            let status: RunStatus = columns.word()?;
            let reason: Option<Reason> = columns.maybe_word()?;
            let count: i64 = columns.take()?;
            Ok((status, reason, u64::try_from(count).unwrap_or(0)))
        },
    )?;
    let mut runs: BTreeMap<&'static str, (RunStatus, u64)> = BTreeMap::new();
    let mut reasons: BTreeMap<&'static str, (Reason, u64)> = BTreeMap::new();
    let mut all = 0_usize;
    for (status, reason, count) in groups {
        runs.entry(status.as_str()).or_insert((status, 0)).1 += count;
        all = all.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        if let Some(reason) = reason {
            reasons.entry(reason.as_str()).or_insert((reason, 0)).1 += count;
        }
    }
    let mut reasons: Vec<(Reason, u64)> = reasons.into_values().collect();
    reasons.sort_by_key(|(_reason, count)| std::cmp::Reverse(*count));
    let more = has_more(connection, Series::Runs, first, all, MOST_RUNS)?;
    Ok(((runs.into_values().collect(), reasons), more))
}

/// Whether the stretch has more rows than the ones that were looked at.
fn has_more(
    connection: &Connection,
    series: Series,
    first: i64,
    seen: usize,
    most: usize,
) -> Result<bool, Fault> {
    if seen < most {
        return Ok(false);
    }
    let sql = match series {
        Series::Runs => "SELECT 1 FROM runs WHERE seq >= ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
        Series::Approvals | Series::Events | Series::Audit => {
            "SELECT 1 FROM approvals WHERE seq >= ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2"
        }
    };
    let next: Option<i64> = fetch(connection, sql, (first, limit(most)), |row| Ok(row.get(0)?))?;
    Ok(next.is_some())
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// Questions and the times of the answers of people, while they are counted.
#[derive(Debug, Clone, Default)]
struct Tally {
    questions: Questions,
    answers: Vec<u64>,
}

impl Tally {
    fn add(&mut self, asked: &Asked) {
        let by_person = matches!(
            asked.why_ended,
            Some(TerminalReason::User | TerminalReason::TakenBack)
        );
        let questions = &mut self.questions;
        questions.asked += 1;
        let count = match asked.status {
            ApprovalStatus::Pending => &mut questions.waiting,
            ApprovalStatus::Allowed if by_person => &mut questions.allowed,
            ApprovalStatus::Denied if by_person => &mut questions.denied,
            ApprovalStatus::Allowed | ApprovalStatus::Denied => &mut questions.settled,
            ApprovalStatus::Expired => &mut questions.expired,
            ApprovalStatus::Cancelled => &mut questions.cancelled,
        };
        *count += 1;
        // What was taken back was answered before, and only the end of it is known.
        if asked.why_ended == Some(TerminalReason::User)
            && let Some(ended) = asked.ended
        {
            self.answers
                .push(u64::try_from(ended.saturating_sub(asked.at)).unwrap_or(0));
        }
    }

    fn counted(mut self) -> Questions {
        self.answers.sort_unstable();
        let middle = self.answers.len() / 2;
        let at = |place: usize| self.answers.get(place).copied();
        self.questions.median_answer_ms = if self.answers.len() % 2 == 1 {
            at(middle)
        } else {
            middle
                .checked_sub(1)
                .and_then(at)
                .zip(at(middle))
                .map(|(lower, upper)| lower.midpoint(upper))
        };
        self.questions
    }
}

/// The figures of questions. `asked` is newest first.
fn counted(asked: &[Asked], stretch: Stretch) -> Overview {
    let mut all = Tally::default();
    let mut agents: BTreeMap<&AgentId, (Tally, Vec<u64>)> = BTreeMap::new();
    let mut rules: BTreeMap<(&AgentId, Option<&str>, &str), (Tally, &ApprovalId)> = BTreeMap::new();
    for one in asked {
        all.add(one);
        let (tally, parts) = agents
            .entry(&one.agent)
            .or_insert_with(|| (Tally::default(), vec![0; stretch.parts]));
        tally.add(one);
        if let Some(part) = stretch.part_of(one.at).and_then(|part| parts.get_mut(part)) {
            *part += 1;
        }
        // The first that is seen is the latest.
        let key = (&one.agent, one.program.as_deref(), one.why.as_str());
        let (tally, _latest) = rules.entry(key).or_insert_with(|| (Tally::default(), &one.id));
        tally.add(one);
    }
    let mut agents: Vec<(&AgentId, (Tally, Vec<u64>))> = agents.into_iter().collect();
    agents.sort_by_key(|(_agent, (tally, _parts))| std::cmp::Reverse(tally.questions.asked));
    let others = agents.split_off(agents.len().min(MOST_AGENTS));
    let mut agents: Vec<AgentQuestions> = agents
        .into_iter()
        .map(|(agent, (tally, parts))| AgentQuestions {
            agent: Some(agent.clone()),
            questions: tally.counted(),
            parts,
        })
        .collect();
    if !others.is_empty() {
        let mut together = (Tally::default(), vec![0; stretch.parts]);
        for (_agent, (tally, parts)) in others {
            together.0.join(tally);
            for (sum, part) in together.1.iter_mut().zip(parts) {
                *sum += part;
            }
        }
        agents.push(AgentQuestions {
            agent: None,
            questions: together.0.counted(),
            parts: together.1,
        });
    }
    let mut rules: Vec<AskingRule> = rules
        .into_iter()
        .map(|((agent, program, why), (tally, latest))| AskingRule {
            agent: agent.clone(),
            program: program.map(str::to_owned),
            why: why.to_owned(),
            questions: tally.counted(),
            latest: latest.clone(),
        })
        .collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.questions.asked));
    rules.truncate(MOST_RULES);
    Overview {
        questions: all.counted(),
        agents,
        rules,
        ..Overview::default()
    }
}

impl Tally {
    fn join(&mut self, other: Self) {
        let Questions {
            asked,
            allowed,
            denied,
            settled,
            expired,
            cancelled,
            waiting,
            median_answer_ms: _,
        } = other.questions;
        self.questions.asked += asked;
        self.questions.allowed += allowed;
        self.questions.denied += denied;
        self.questions.settled += settled;
        self.questions.expired += expired;
        self.questions.cancelled += cancelled;
        self.questions.waiting += waiting;
        self.answers.extend(other.answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u32, agent: &str, at: i64, ended: Option<(ApprovalStatus, TerminalReason, i64)>) -> Asked {
        Asked {
            id: ApprovalId::parse(format!("a-{number}")).unwrap(),
            agent: AgentId::parse(agent).unwrap(),
            status: ended.map_or(ApprovalStatus::Pending, |(status, ..)| status),
            why_ended: ended.map(|(_, why, _)| why),
            at,
            ended: ended.map(|(.., after)| at + after),
            program: Some("/usr/bin/git".to_owned()),
            why: "allowlist-miss".to_owned(),
        }
    }

    #[test]
    fn a_stretch_is_cut_into_whole_hours_and_never_into_too_many() {
        let of = |hours: i64, more: i64| {
            let stretch = Stretch::of(UnixMillis::new(5), UnixMillis::new(5 + hours * HOUR_MS + more));
            (stretch.part / HOUR_MS, stretch.parts)
        };
        assert_eq!(of(0, 1), (1, 1));
        assert_eq!(of(24, 0), (1, 24));
        assert_eq!(of(24, 1), (1, 25));
        assert_eq!(of(48, 0), (1, 48));
        assert_eq!(of(48, 1), (2, 25));
        assert_eq!(of(30 * 24, 0), (15, 48));
        let day = Stretch::of(UnixMillis::new(5), UnixMillis::new(5 + 24 * HOUR_MS));
        assert_eq!(
            [day.part_of(4), day.part_of(5), day.part_of(5 + HOUR_MS)],
            [None, Some(0), Some(1)]
        );
        assert_eq!(day.part_of(5 + 24 * HOUR_MS), None);
        assert_eq!(day.begins().take(2).collect::<Vec<_>>(), [5, 5 + HOUR_MS]);
    }

    #[test]
    fn only_answers_of_people_are_answers() {
        use ApprovalStatus::{Allowed, Cancelled, Denied, Expired};
        use TerminalReason::{Rule, RunAborted, Stopped, TakenBack, Timeout, User};
        let stretch = Stretch::of(UnixMillis::new(0), UnixMillis::new(2 * HOUR_MS));
        let asked = [
            one(9, "main", HOUR_MS + 1, None),
            one(8, "main", HOUR_MS, Some((Allowed, User, 30))),
            one(7, "main", 70, Some((Denied, User, 10))),
            one(6, "main", 60, Some((Allowed, Rule, 1000))),
            one(5, "main", 50, Some((Denied, Stopped, 1000))),
            one(4, "other", 40, Some((Expired, Timeout, 1000))),
            one(3, "main", 30, Some((Cancelled, RunAborted, 1000))),
            one(2, "main", 20, Some((Denied, TakenBack, 1000))),
            one(1, "main", 10, Some((Allowed, User, 50))),
        ];
        let overview = counted(&asked, stretch);
        assert_eq!(
            overview.questions,
            Questions {
                asked: 9,
                allowed: 2,
                denied: 2,
                settled: 2,
                expired: 1,
                cancelled: 1,
                waiting: 1,
                median_answer_ms: Some(30),
            }
        );
        let agents: Vec<_> = overview
            .agents
            .iter()
            .map(|one| {
                (
                    one.agent.as_ref().map(AgentId::as_str),
                    one.questions.asked,
                    one.parts.clone(),
                )
            })
            .collect();
        assert_eq!(
            agents,
            [(Some("main"), 8, vec![6, 2]), (Some("other"), 1, vec![1, 0])]
        );
        assert_eq!(overview.agents[1].questions.median_answer_ms, None);
        assert_eq!(
            overview
                .rules
                .iter()
                .map(|rule| rule.latest.as_str())
                .collect::<Vec<_>>(),
            ["a-9", "a-4"]
        );
    }

    #[test]
    fn an_even_number_of_answers_has_its_median_between_two() {
        use ApprovalStatus::Allowed;
        let stretch = Stretch::of(UnixMillis::new(0), UnixMillis::new(HOUR_MS));
        let answered = |after| Some((Allowed, TerminalReason::User, after));
        let asked = [one(1, "main", 1, answered(10)), one(2, "main", 1, answered(21))];
        assert_eq!(counted(&asked, stretch).questions.median_answer_ms, Some(15));
        assert_eq!(counted(&[], stretch), Overview::default());
    }

    #[test]
    fn agents_beyond_the_most_share_a_row() {
        let stretch = Stretch::of(UnixMillis::new(0), UnixMillis::new(HOUR_MS));
        let names: Vec<String> = (0..MOST_AGENTS + 3)
            .map(|number| format!("agent-{number}"))
            .collect();
        let asked: Vec<Asked> = names.iter().map(|name| one(1, name, 1, None)).collect();
        let overview = counted(&asked, stretch);
        assert_eq!(overview.agents.len(), MOST_AGENTS + 1);
        let last = overview.agents.last().unwrap();
        assert_eq!(
            (last.agent.as_ref(), last.questions.asked, last.parts.as_slice()),
            (None, 3, [3].as_slice())
        );
        assert_eq!(overview.rules.len(), MOST_RULES);
    }
}
