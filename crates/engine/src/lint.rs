//! What is odd about the rules of an approvals document, for its author and for doctor.
//!
//! The judgement is `policy::lint`'s; this hands it the document, the files of the machine and the uses that the
//! ledger counted. Nothing here decides about a command. Entry points: [`document_remarks`] for a whole document,
//! `PolicyLint::remarks_on` for rules that were just written or are shown.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use countersign_config::{
    approvals::{
        document::{self, Agent, Document, Keyed, Listed, Number},
        store::{DocumentStore, Snapshot},
    },
    settings::{ExecSettings, Settings, SettingsStore},
};
use countersign_domain::{AgentId, EntryId, Isolation, UnixMillis};
use countersign_ledger::{Ledger, events::AllowlistList};
use countersign_policy::{
    allowlist::{DenyRule, Entry, Grant},
    command::PathLookup,
    lint::{self, Item, Linter, Lists, Remark, Surroundings},
    pattern::{PathCase, PatternCache},
};
use countersign_sys::clock::Clock;

use crate::{
    evaluator::{
        analyse::{self, Analyst},
        keeping,
    },
    reply::StorageTrouble,
};

pub use keeping::Levels;

/// The wildcard agent of the approvals document.
const WILDCARD: &str = "*";
/// More remarks on one document are counted and left off.
const MAX_REMARKS: usize = 200;

/// What is odd about one rule of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRemark {
    /// `*` or the agent whose list holds it.
    pub owner: String,
    /// Which of the owner's lists holds it.
    pub list: AllowlistList,
    /// The id it is edited by.
    pub id: EntryId,
    /// Its pattern as written.
    pub pattern: String,
    /// What is odd, as code and words.
    pub remark: Remark,
}

/// What is odd about a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentRemarks {
    /// At most 200, in the order of the document.
    pub remarks: Vec<RuleRemark>,
    /// How many more there are.
    pub left_off: usize,
}

/// Something that is odd about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryWarning {
    /// A word of [`lint::RemarkCode`], or `more-warnings` or `held`.
    pub code: &'static str,
    /// The same in a sentence for people.
    pub message: String,
}

impl From<Remark> for EntryWarning {
    fn from(Remark { code, message }: Remark) -> Self {
        Self {
            code: code.as_str(),
            message,
        }
    }
}

/// What a document is linted against.
#[derive(Debug, Clone, Copy)]
pub struct LintContext<'a> {
    /// The files of the machine.
    pub lookup: &'a dyn PathLookup,
    /// Whether paths and names compare with their case (`[policy] path_case`).
    pub path_case: PathCase,
    /// The time that grants expire by.
    pub now: UnixMillis,
    /// Uses by owner and grant, as the ledger counted them; a grant that is not among them has those that the document
    /// says.
    pub uses: &'a GrantUses,
    /// At which level commands of agents run.
    pub levels: Levels<'a>,
}

/// Uses of grants by owner and id.
pub type GrantUses = BTreeMap<(String, EntryId), u64>;

/// Everything that is odd about a document.
pub fn document_remarks(document: &Document, context: LintContext<'_>) -> DocumentRemarks {
    let cache = PatternCache::default();
    let wildcard = document.agent(WILDCARD);
    let everybody_rules = OwnRules::of(WILDCARD, wildcard, context);
    let everybody = Linter::new(context.surroundings(&cache), everybody_rules.lists());
    let mut remarks = DocumentRemarks::default();
    if let Some(agent) = wildcard {
        remarks.collect(WILDCARD, agent, &everybody);
    }
    for (name, agent) in document
        .agents
        .iter()
        .flatten()
        .filter(|(name, _)| name != WILDCARD)
    {
        let rules = OwnRules::of(name, Some(agent), context);
        remarks.collect(name, agent, &Linter::below(&everybody, rules.lists()));
    }
    remarks
}

/// What is odd about some rules of one owner, in the order in which they are named.
fn remarks_on(
    document: &Document,
    context: LintContext<'_>,
    owner: &str,
    rules: &[(AllowlistList, EntryId)],
) -> Vec<Vec<Remark>> {
    let cache = PatternCache::default();
    let everybody_rules = OwnRules::of(WILDCARD, document.agent(WILDCARD), context);
    let everybody = Linter::new(context.surroundings(&cache), everybody_rules.lists());
    let own = OwnRules::of(owner, document.agent(owner), context);
    let below;
    let linter = if owner == WILDCARD {
        &everybody
    } else {
        below = Linter::below(&everybody, own.lists());
        &below
    };
    let lists = own.lists();
    let entries = places(lists.entries.iter().map(|entry| entry.id));
    let grants = places(lists.grants.iter().map(|grant| grant.id));
    let deny_rules = places(lists.deny_rules.iter().map(|rule| rule.id));
    let remarks = |(list, id): &(AllowlistList, EntryId)| {
        let remarks = match list {
            AllowlistList::Allowlist => entries.get(id.as_str()).map(|at| linter.entry(*at)),
            AllowlistList::Grants => grants.get(id.as_str()).map(|at| linter.grant(*at)),
            AllowlistList::Denylist => deny_rules.get(id.as_str()).map(|at| linter.deny_rule(*at)),
        };
        remarks.unwrap_or_default()
    };
    rules.iter().map(remarks).collect()
}

/// Where each id stands in a list.
fn places<'a>(ids: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    ids.enumerate().map(|(at, id)| (id, at)).collect()
}

/// What is odd about the configured safe bins of an agent, by name.
pub fn safe_bin_remarks(exec: &ExecSettings) -> Vec<(String, Remark)> {
    let profiles = analyse::safe_bin_profiles(&exec.safe_bin_profiles);
    lint::safe_bins(&exec.safe_bins, &profiles)
        .into_iter()
        .map(|(name, remark)| (name.to_owned(), remark))
        .collect()
}

/// How patterns compare on this machine.
pub const fn path_case(settings: &Settings) -> PathCase {
    analyse::path_case(settings.server.policy.path_case)
}

/// Looks for what is odd about rules, with the programs of this machine.
#[derive(Debug)]
pub(crate) struct PolicyLint {
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
    ledger: Ledger,
    /// Finds the programs that entries name.
    analyst: Arc<Analyst>,
    clock: Arc<dyn Clock>,
    /// The best level that commands of the gateway host reach.
    reached: Isolation,
}

impl PolicyLint {
    pub(crate) fn new(
        settings: Arc<SettingsStore>,
        documents: Arc<DocumentStore>,
        ledger: Ledger,
        analyst: Arc<Analyst>,
        clock: Arc<dyn Clock>,
        reached: Isolation,
    ) -> Self {
        Self {
            settings,
            documents,
            ledger,
            analyst,
            clock,
            reached,
        }
    }

    /// The best level that commands of the gateway host reach.
    pub(crate) const fn reached(&self) -> Isolation {
        self.reached
    }

    /// What is odd about rules of an owner, in the order in which they are named; nothing is when it cannot be said.
    pub(super) async fn remarks_on(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        owner: &str,
        rules: Vec<(AllowlistList, EntryId)>,
    ) -> Result<Vec<Vec<Remark>>, StorageTrouble> {
        let uses = self.grant_uses_of(owner).await?;
        let (lint, snapshot) = (Arc::clone(self), Arc::clone(snapshot));
        let owner = owner.to_owned();
        let looked = tokio::task::spawn_blocking(move || {
            let document = snapshot.document()?;
            Some(lint.with_lint_context(&owner, &uses, |context| {
                remarks_on(document, context, &owner, &rules)
            }))
        });
        // Only a panic or the end of the process makes the task fail.
        Ok(looked.await.ok().flatten().unwrap_or_default())
    }

    /// What is odd about the document as it is on disk.
    ///
    /// # Errors
    /// When the uses of grants cannot be read.
    pub(crate) async fn remarks_on_document(self: &Arc<Self>) -> Result<DocumentRemarks, StorageTrouble> {
        let uses = self.ledger.all_grant_uses().await.map_err(StorageTrouble::from)?;
        let lint = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || {
            let snapshot = lint.documents.snapshot();
            let document = snapshot.document()?;
            Some(lint.with_lint_context(WILDCARD, &uses, |context| document_remarks(document, context)))
        });
        Ok(looked.await.ok().flatten().unwrap_or_default())
    }

    /// How often each grant of an owner was used.
    pub(super) async fn grant_uses_of(&self, owner: &str) -> Result<GrantUses, StorageTrouble> {
        let mut uses = self.ledger.all_grant_uses().await.map_err(StorageTrouble::from)?;
        uses.retain(|(known, _id), _count| known == owner);
        Ok(uses)
    }

    fn with_lint_context<T>(
        &self,
        owner: &str,
        uses: &GrantUses,
        lint: impl FnOnce(LintContext<'_>) -> T,
    ) -> T {
        let settings = self.settings.current();
        let agent = AgentId::parse(owner).unwrap_or_else(|_wildcard| AgentId::main());
        let lookup = self.analyst.path_lookup(&agent, &settings);
        lint(LintContext {
            lookup: &lookup,
            path_case: path_case(&settings),
            now: self.clock.now(),
            uses,
            levels: Levels {
                policy: &settings.policy,
                reached: self.reached,
            },
        })
    }
}

impl<'a> LintContext<'a> {
    fn surroundings(&self, cache: &'a PatternCache) -> Surroundings<'a> {
        Surroundings {
            lookup: self.lookup,
            cache,
            path_case: self.path_case,
            now: self.now,
        }
    }
}

impl DocumentRemarks {
    fn collect(&mut self, owner: &str, agent: &Agent, linter: &Linter<'_>) {
        for (item, remark) in linter.remarks() {
            if self.remarks.len() >= MAX_REMARKS {
                self.left_off += 1;
                continue;
            }
            let place = match item {
                Item::Entry(at) => agent
                    .allowlist
                    .as_ref()
                    .and_then(|list| list.get(at))
                    .map(|keyed| (AllowlistList::Allowlist, &keyed.id, &keyed.item.pattern)),
                Item::Grant(at) => agent
                    .grants
                    .as_ref()
                    .and_then(|list| list.get(at))
                    .map(|keyed| (AllowlistList::Grants, &keyed.id, &keyed.item.pattern)),
                Item::DenyRule(at) => agent
                    .denylist
                    .as_ref()
                    .and_then(|list| list.get(at))
                    .map(|keyed| (AllowlistList::Denylist, &keyed.id, &keyed.item.pattern)),
            };
            let Some((list, id, pattern)) = place else {
                continue;
            };
            self.remarks.push(RuleRemark {
                owner: owner.to_owned(),
                list,
                id: id.clone(),
                pattern: pattern.clone(),
                remark,
            });
        }
    }
}

/// The rules of one owner as the linter takes them.
struct OwnRules<'a> {
    entries: Vec<Entry<'a>>,
    grants: Vec<Grant<'a>>,
    deny_rules: Vec<DenyRule<'a>>,
    children_not_kept: Option<String>,
}

impl<'a> OwnRules<'a> {
    fn of(owner: &'a str, agent: Option<&'a Agent>, context: LintContext<'_>) -> Self {
        fn listed<'a, T>(owner: &'a str, keyed: &'a Keyed<T>) -> Listed<'a, T> {
            Listed {
                owner,
                id: &keyed.id,
                item: &keyed.item,
            }
        }
        let used = |keyed: &Keyed<document::Grant>| {
            let counted = context.uses.get(&(owner.to_owned(), keyed.id.clone())).copied();
            let written = || keyed.item.uses.as_ref().and_then(Number::as_count);
            counted.or_else(written).unwrap_or(0)
        };
        let entries = agent.into_iter().flat_map(|agent| agent.allowlist.iter());
        let grants = agent.into_iter().flat_map(|agent| agent.grants.iter());
        let rules = agent.into_iter().flat_map(|agent| agent.denylist.iter());
        Self {
            entries: entries
                .flatten()
                .map(|keyed| analyse::entry_of(&listed(owner, keyed)))
                .collect(),
            grants: grants
                .flatten()
                .map(|keyed| analyse::grant_of(&listed(owner, keyed), used(keyed)))
                .collect(),
            deny_rules: rules
                .flatten()
                .map(|keyed| analyse::deny_rule_of(&listed(owner, keyed)))
                .collect(),
            children_not_kept: match AgentId::parse(owner) {
                Ok(agent) => context.levels.children_not_kept(Some(&agent)),
                Err(_wildcard) => context.levels.children_not_kept(None),
            },
        }
    }

    fn lists(&self) -> Lists<'_> {
        Lists {
            entries: &self.entries,
            grants: &self.grants,
            deny_rules: &self.deny_rules,
            children_not_kept: self.children_not_kept.as_deref(),
        }
    }
}
