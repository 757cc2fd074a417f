//! From a request to what the policy says of it, and why.
//!
//! [`Evaluator::evaluate`] is the one way, for every entry point: a call that is to run, an explanation, what another
//! gateway delivers, the plan that such a gateway asks for, and what a person is only asked about. They differ in their [`Mode`] and in nothing else, so
//! what is explained is what happens. What has no machine to run on, a policy that is only tried, begins at
//! [`Weighed`](judge::Weighed), the step that asks layers, analysis and gate.
//!
//! Nothing here starts, asks or records anything.

pub(crate) mod analyse;
pub(crate) mod asked;
pub(crate) mod bind;
mod bound;
pub(crate) mod call;
mod elsewhere;
pub(crate) mod entry_indexes;
pub(crate) mod held_text;
pub(crate) mod judge;
pub(crate) mod judgement;
pub(crate) mod keeping;
mod on_node;
pub(crate) mod outcome;
mod patches;
pub(crate) mod place;
pub(crate) mod policy_now;
mod preflight;
pub(crate) mod sandbox_availability;
pub(crate) mod sandboxed;
pub(crate) mod script_hold;
mod script_scope;
mod shown;
pub(crate) mod ways_out;

use std::sync::Arc;

use countersign_domain::{EntryId, EnvOverrides, ExecRequest, Host, Principal};
use countersign_ledger::Ledger;
use countersign_policy::{allowlist::Analysis, command::env_policy, gate::Verdict, host::ResolvedHost};

pub(crate) use on_node::Purpose;
pub(crate) use shown::Rejection;

use self::{
    analyse::Analyst,
    asked::Asked,
    bind::Binder,
    call::{Call, Requested},
    held_text::Holding,
    judgement::Judgement,
    place::{Destination, Making, Place, Places},
    policy_now::PolicyNow,
    sandboxed::Diversion,
};
use crate::{
    delivery_terms::{Answers, Delivery},
    node::NodePeers,
    question_terms::AskRequest,
    reply::ExecError,
    session::SessionState,
    turns::Turns,
    watch::PolicySource,
};

/// What an evaluation may do, and what it needs. A difference between two modes that is not here is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode<'a> {
    /// Whether directories and containers that are missing are made; what runs is ready then.
    pub(crate) making: Making,
    pub(crate) place: PlaceRule,
    pub(crate) shown: Shown,
    /// Scripts are bound also where nothing that the policy says depends on them.
    pub(crate) pins_scripts: bool,
    /// Grants that have no use left, as far as that was found out.
    pub(crate) spent: &'a [EntryId],
    /// Whether the uses of grants are counted now, since no launch will find out.
    pub(crate) counts_grants: bool,
    /// What a node is asked for.
    pub(crate) purpose: Purpose,
    /// On which terms it was delivered.
    pub(crate) delivery: Option<&'a Delivery>,
    /// Who starts it, where that is not this server.
    pub(crate) asker: Option<&'a Arc<AskRequest>>,
}

/// Where a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceRule {
    /// Where settings, session and call lead.
    Resolved,
    /// On this machine, no matter what the settings say about hosts.
    ThisMachine,
    /// Where its asker says: they start it.
    Elsewhere,
}

/// How much is looked at only to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing; a request that is no call is an error.
    Nothing,
    /// The analysis, as far as the caller may see it; a request that is no call is explained.
    ToCaller,
    /// The whole analysis; a request that is no call is an error.
    Everything,
}

impl<'a> Mode<'a> {
    /// A call that is to run. `spent` are grants found to have no use left.
    pub(crate) const fn execute(spent: &'a [EntryId]) -> Self {
        Self {
            making: Making::Everything,
            place: PlaceRule::Resolved,
            shown: Shown::Nothing,
            pins_scripts: false,
            spent,
            counts_grants: false,
            purpose: Purpose::Call,
            delivery: None,
            asker: None,
        }
    }

    /// A caller wants to know what a call would come to.
    pub(crate) const fn explain() -> Self {
        Self {
            making: Making::Nothing,
            shown: Shown::ToCaller,
            counts_grants: true,
            purpose: Purpose::Explanation,
            ..Self::execute(&[])
        }
    }

    /// Another gateway delivers a call to this machine.
    pub(crate) fn deliver(delivery: &'a Delivery, spent: &'a [EntryId]) -> Self {
        let planned = delivery.planned.as_ref();
        Self {
            place: PlaceRule::ThisMachine,
            pins_scripts: planned.is_some_and(|planned| planned.script.is_some()),
            delivery: Some(delivery),
            ..Self::execute(spent)
        }
    }

    /// Another gateway asks for a plan of what it would deliver. A plan names its script under every policy.
    pub(crate) const fn plan() -> Self {
        Self {
            place: PlaceRule::ThisMachine,
            shown: Shown::Everything,
            pins_scripts: true,
            ..Self::execute(&[])
        }
    }

    /// A person is asked about a command that its asker starts. Nothing of it is looked at, and it is always asked about.
    pub(crate) fn ask_only(asker: &'a Arc<AskRequest>) -> Self {
        Self {
            making: Making::Nothing,
            place: PlaceRule::Elsewhere,
            asker: Some(asker),
            ..Self::execute(&[])
        }
    }
}

/// Everything that one evaluation found.
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// The policy that it was evaluated under.
    pub(crate) policy: PolicyNow,
    pub(crate) host: ResolvedHost,
    /// The other hosts that the call could name; looked for where it is shown.
    pub(crate) alternatives: Vec<Host>,
    pub(crate) call: Call,
    /// What the policy says, or why it was not asked.
    pub(crate) judged: Result<Judgement, Rejection>,
    /// What its words say, where that is shown.
    pub(crate) analysis: Option<Analysis>,
    /// What the policy said of a miss that runs in the sandbox instead: `call` and `judged` are of the sandbox.
    pub(crate) diverted: Option<(Call, Judgement)>,
    /// Why a miss is asked about although it might have run in the sandbox.
    pub(crate) not_diverted: Option<String>,
    /// Why a text is asked about although it might have run held.
    pub(crate) not_held: Option<String>,
}

/// Asks the policy about calls, and changes nothing.
#[derive(Debug)]
pub(crate) struct Evaluator {
    pub(crate) policy: Arc<PolicySource>,
    pub(crate) sessions: Arc<SessionState>,
    pub(crate) analyst: Arc<Analyst>,
    pub(crate) binder: Binder,
    pub(crate) places: Arc<Places>,
    pub(crate) nodes: Arc<NodePeers>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) ledger: Ledger,
}

impl Evaluator {
    /// From a request to what the policy of this moment says of it.
    ///
    /// # Errors
    /// [`ExecError`] says why there is no answer: where it would run cannot be settled, or cannot be looked at.
    pub(crate) async fn evaluate(
        &self,
        caller: &Principal,
        request: ExecRequest,
        mode: &Mode<'_>,
    ) -> Result<Evaluation, ExecError> {
        let policy = self.policy.now();
        let asked = self
            .sessions
            .asked_by_call(caller, &request, &policy, mode.place)?;
        let place = self
            .places
            .place_of(caller, &request, &asked, &policy, mode)
            .await?;
        let alternatives = mode.alternatives(&request, &asked, &place, &policy);
        let (requested, rejection) = accept(caller, request, asked, &place);
        if let Some(rejection) = rejection.clone().filter(|_| mode.shown != Shown::ToCaller) {
            return Err(rejection.into());
        }
        let call = self.settle(requested, &place, &policy, mode)?;
        let mut evaluation = if let Some(rejection) = rejection {
            let analysis = self.shown_rejected(caller, &call, &policy, &rejection).await?;
            Evaluation::new(policy, place.host, call, Err(rejection), Some(analysis))
        } else {
            let (policy, call, judged) = self.judge_where_it_runs(call, policy, mode).await?;
            let analysis = self.shown(caller, &call, &policy, &judged, mode).await?;
            Evaluation::new(policy, place.host, call, Ok(mode.held_to_plan(judged)), analysis)
        };
        evaluation.alternatives = alternatives;
        match self.divert(&evaluation, mode).await {
            Diversion::Unwanted => {}
            Diversion::Impossible(why) => evaluation.not_diverted = Some(why),
            Diversion::Into(call) => {
                let inside = self.judge_in_turn(&call, &evaluation.policy, mode.spent).await?;
                evaluation.move_inside(*call, inside);
            }
        }
        // Rarely wanted, and large.
        match Box::pin(self.hold(&evaluation, mode)).await {
            Holding::Unwanted => {}
            Holding::Impossible(why) => evaluation.not_held = Some(why),
            Holding::Into(bound) => evaluation.judged = evaluation.judged.map(|judged| judged.held(*bound)),
        }
        // Last: what runs without a question does so.
        let mute = evaluation.policy.mute(&evaluation.call.agent, self.analyst.now());
        evaluation.judged = evaluation.judged.map(|judged| judged.muted(mute));
        if mode.making == Making::Everything && evaluation.runs() {
            self.places.make_ready(&evaluation.call).await?;
        }
        Ok(evaluation)
    }

    /// Settles everything about a call that is not a question of permission.
    fn settle(
        &self,
        requested: Requested<'_>,
        place: &Place,
        policy: &PolicyNow,
        mode: &Mode<'_>,
    ) -> Result<Call, ExecError> {
        if let Some(asker) = mode.asker {
            return Ok(Call::elsewhere(asker));
        }
        let settings = policy.settings();
        let call = match (place.host.value, place.backend()) {
            (_, Some(backend)) => self
                .places
                .settle_in_sandbox(requested, backend, mode.making, settings)?,
            (Host::Node, None) => self.settle_on_node(requested, policy)?,
            (Host::Gateway | Host::Sandbox, None) => {
                self.places.settle_on_gateway(requested, mode.making, settings)?
            }
        };
        Ok(match mode.place {
            PlaceRule::Resolved | PlaceRule::Elsewhere => call,
            PlaceRule::ThisMachine => Call {
                answers: mode
                    .delivery
                    .map_or(Answers::Refused, |delivery| delivery.answers),
                named: None,
                pins_scripts: mode.pins_scripts,
                ..call
            },
        })
    }
}

/// A request with the overrides that are accepted where it goes, and why it is no call.
fn accept<'a>(
    caller: &'a Principal,
    request: ExecRequest,
    asked: Asked,
    place: &Place,
) -> (Requested<'a>, Option<Rejection>) {
    let checked = match place.backend() {
        Some(_) => env_policy::check_inside_overrides(&request.env),
        None => env_policy::check_overrides(&request.env),
    };
    let (env, blocked) = match checked {
        Ok(env) => (env, Vec::new()),
        Err(blocked) => (EnvOverrides::default(), blocked.names),
    };
    let rejection = Rejection::of(&request.command, blocked);
    let requested = Requested {
        caller,
        request,
        asked,
        env,
    };
    (requested, rejection)
}

impl Mode<'_> {
    fn alternatives(
        &self,
        request: &ExecRequest,
        asked: &Asked,
        place: &Place,
        policy: &PolicyNow,
    ) -> Vec<Host> {
        match self.shown {
            Shown::ToCaller => {
                let destination = Destination::of(request, asked);
                destination.alternatives(place.host.value, policy.settings(), &place.availability)
            }
            Shown::Nothing | Shown::Everything => Vec::new(),
        }
    }

    /// What is left of a judgement by the plan that was approved.
    fn held_to_plan(&self, judged: Judgement) -> Judgement {
        match self.delivery {
            Some(delivery) => delivery.hold_to_plan(judged),
            None => judged,
        }
    }
}

impl Evaluation {
    fn new(
        policy: PolicyNow,
        host: ResolvedHost,
        call: Call,
        judged: Result<Judgement, Rejection>,
        analysis: Option<Analysis>,
    ) -> Self {
        Self {
            policy,
            host,
            alternatives: Vec::new(),
            call,
            judged,
            analysis,
            diverted: None,
            not_diverted: None,
            not_held: None,
        }
    }

    /// Whether it is to run without a question.
    pub(crate) fn runs(&self) -> bool {
        self.judged
            .as_ref()
            .is_ok_and(|judged| judged.verdict == Verdict::Run)
    }

    /// It runs in the sandbox instead.
    fn move_inside(&mut self, call: Call, judged: Judgement) {
        let call = std::mem::replace(&mut self.call, call);
        let judged = std::mem::replace(&mut self.judged, Ok(judged));
        self.diverted = judged.ok().map(|judged| (call, judged));
    }
}
