//! Chat text that a caller relays: the engine obeys its directives and hands back the rest.

use std::sync::Arc;

use countersign_config::session::{
    SessionName, SetBy,
    directive::{self, Directive, Parsed},
    gates,
    sender::Sender,
    text::{self, Answered, ExecShown, Shown},
};
use countersign_domain::{Approval, ApprovalDecision, ApprovalId, ApprovalStatus, Principal, Scope};
use countersign_ledger::{ApprovalFilter, Page};
use countersign_policy::layers::Resolved;

use super::{SessionError, Sessions, expect_own, overrides};

use crate::{
    effective::EffectivePolicy,
    evaluator::policy_now::PolicyNow,
    reply::{Answer, DecideError, Decided, StorageTrouble},
};

/// What became of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commanded {
    /// Whether a directive of an authorised sender was found.
    pub handled: bool,
    /// What the sender should read.
    pub reply: Option<String>,
    /// The text without what was handled.
    pub cleaned_text: String,
}

impl Sessions {
    /// Obeys the directives of a text.
    ///
    /// # Errors
    /// [`SessionError`] for a caller who may not bring it; then nothing of it was done.
    #[crate::compiled_once]
    pub async fn command<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        name: &SessionName,
        sender: Sender,
        text: String,
    ) -> Result<Commanded, SessionError> {
        expect_own(caller, name)?;
        let Parsed { directives, cleaned } = directive::parse(&text);
        if directives.is_empty() {
            return Ok(Commanded {
                handled: false,
                reply: None,
                cleaned_text: text,
            });
        }
        if directives.iter().any(Directive::is_answer) && !caller.has(Scope::Approve) {
            return Err(SessionError::NeedsApprove);
        }
        let now = self.policy.now();
        let may = now
            .views()
            .all(|view| gates::may_command(&view.settings.policy, &sender));
        if !may {
            return Ok(Commanded {
                handled: false,
                reply: Some(text::NOT_AUTHORISED.to_owned()),
                cleaned_text: text,
            });
        }
        let speaker = Speaker {
            caller,
            sender: &sender,
            name,
        };
        let mut replies = Vec::new();
        for directive in directives {
            replies.push(self.obey(&speaker, directive, &now).await?);
        }
        Ok(Commanded {
            handled: true,
            reply: Some(replies.join("\n\n")),
            cleaned_text: cleaned,
        })
    }

    async fn obey(
        self: &Arc<Self>,
        speaker: &Speaker<'_>,
        directive: Directive,
        now: &PolicyNow,
    ) -> Result<String, SessionError> {
        let Speaker { caller, sender, name } = *speaker;
        match directive {
            Directive::ShowExec => {
                let policy = self
                    .effective_policies
                    .of(&caller.actor, &name.agent, None, &name.key)
                    .await;
                Ok(text::exec_shown(&shown(policy)))
            }
            Directive::SetExec(set) => {
                let reply = text::exec_set(&set);
                self.change_overrides(name, speaker.set_by(), move |before| before.with_exec(&set))
                    .await?;
                Ok(reply)
            }
            Directive::BadExec(bad) => Ok(text::exec_bad(&bad)),
            Directive::ShowElevated => Ok(self.show_elevated(name, now)),
            Directive::SetElevated(level) => {
                let gates = overrides::closed_gates(now, name, level, sender);
                if !gates.is_empty() {
                    return Ok(text::elevated_unavailable(&gates));
                }
                let sender = sender.clone();
                self.change_overrides(name, speaker.set_by(), move |before| {
                    before.with_elevated(level, sender)
                })
                .await?;
                Ok(text::elevated_set(level).to_owned())
            }
            Directive::BadElevated(typed) => Ok(text::elevated_bad(&typed)),
            Directive::Approve { approval, decision } => {
                let answered = self.answer_by_text(speaker, &approval, decision).await?;
                Ok(text::approved(&approval, &answered))
            }
            Directive::BadApprove => Ok(text::APPROVE_USAGE.to_owned()),
        }
    }

    fn show_elevated(&self, name: &SessionName, now: &PolicyNow) -> String {
        let policy = &now.settings().policy;
        let chosen = self.state.overrides(name).elevated;
        let holds = chosen.filter(|elevated| {
            overrides::closed_gates(now, name, elevated.level, &elevated.sender).is_empty()
        });
        text::elevated_shown(
            holds.map(|elevated| elevated.level),
            policy.elevated(&name.agent).default_level,
        )
    }

    /// Answers a question for a person whom the caller vouches for. The caller itself may answer.
    async fn answer_by_text(
        &self,
        speaker: &Speaker<'_>,
        named: &str,
        decision: ApprovalDecision,
    ) -> Result<Answered, SessionError> {
        let Speaker { caller, sender, .. } = *speaker;
        let found = self.approval_named(caller, named).await?;
        let approval = match found {
            Found::One(approval) => approval,
            Found::None => return Ok(Answered::Unknown),
            Found::Several => return Ok(Answered::Ambiguous),
        };
        let answer = Answer {
            decision,
            reason: Some(format!("/approve by {}:{}", sender.provider(), sender.id())),
            patterns: None,
            grant: None,
            refusal: None,
            shown_digest: None,
        };
        let decided = match self.approvals.decide(caller, &approval.id, answer).await {
            Ok(Decided {
                applied: true,
                approval,
                rule: _,
            }) => match approval.state.decision() {
                Some(decision) => Answered::Taken(decision),
                None => Answered::Counted {
                    votes: approval.votes_to_allow(),
                    required: approval.card.quorum.required,
                },
            },
            Ok(Decided { applied: false, .. }) => Answered::Again(decision),
            Err(DecideError::NotFound) => Answered::Unknown,
            Err(DecideError::AlreadyResolved(approval)) => {
                Answered::Otherwise(approval.state.decision().unwrap_or(ApprovalDecision::Deny))
            }
            Err(DecideError::Expired(_)) => Answered::Expired,
            Err(DecideError::Cancelled(_)) => Answered::Cancelled,
            Err(DecideError::NotAllowed { .. } | DecideError::TooWide { .. }) => Answered::NotOpen(decision),
            Err(DecideError::OwnRequest) => Answered::OwnRequest,
            Err(DecideError::NotEntitled { detail }) => Answered::NotEntitled(detail),
            Err(DecideError::Stopped(stop)) => Answered::Stopped(stop.words()),
            Err(DecideError::Storage(trouble)) => return Err(trouble.into()),
        };
        Ok(decided)
    }

    /// The approval with this whole id, or whose id begins so; one that waits before those that do not. A short id is a
    /// beginning like any other: an asker who chose it must not get the answer that was meant for another approval.
    async fn approval_named(&self, caller: &Principal, named: &str) -> Result<Found, StorageTrouble> {
        if let Ok(id) = ApprovalId::parse(named)
            && id.is_uuid()
        {
            let found = self.records.approval(caller, &id).await?;
            return Ok(found.map_or(Found::None, |approval| Found::One(Box::new(approval))));
        }
        for status in [Some(ApprovalStatus::Pending), None] {
            let filter = ApprovalFilter {
                id_prefix: Some(named.to_owned()),
                status,
                ..ApprovalFilter::default()
            };
            let page = Page::first(MOST_OF_ONE_SLUG);
            let mut found = self.records.approvals(caller, filter, page).await?.items;
            match (found.pop(), found.is_empty()) {
                (Some(one), true) => return Ok(Found::One(Box::new(one))),
                (Some(_), false) => return Ok(Found::Several),
                (None, _) => {}
            }
        }
        Ok(Found::None)
    }
}

/// More approvals than can begin alike by chance.
const MOST_OF_ONE_SLUG: u32 = 20;

/// What a beginning of an id stands for.
enum Found {
    None,
    One(Box<Approval>),
    Several,
}

/// Who says something, through whom, and where.
#[derive(Clone, Copy)]
struct Speaker<'a> {
    caller: &'a Principal,
    sender: &'a Sender,
    name: &'a SessionName,
}

impl Speaker<'_> {
    fn set_by(&self) -> SetBy {
        SetBy {
            actor: self.caller.actor.clone(),
            sender: Some(self.sender.clone()),
        }
    }
}

fn shown(policy: EffectivePolicy) -> ExecShown {
    let EffectivePolicy {
        host,
        security,
        ask,
        node,
        ..
    } = policy;
    ExecShown {
        host: value_of(host),
        security: value_of(security),
        ask: value_of(ask),
        node: node.map(value_of),
    }
}

fn value_of<T, S>(resolved: Resolved<T, S>) -> Shown<T> {
    Shown {
        value: resolved.value,
        source: resolved.source,
    }
}
