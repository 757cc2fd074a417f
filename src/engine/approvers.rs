//! Which people a question is for: `[[approvals.rules]]` held against what would run.

use crate::{
    command::PathLookup,
    domain::{AgentId, Command, Host},
    engine::{Engine, analyse, judge::Judgement},
    policy::approval_rules::{self, Demand, Matcher, Programs, Question},
    settings::Settings,
};

impl Engine {
    /// What a question about a call takes.
    pub(super) fn demand_of_call(&self, judged: &Judgement, settings: &Settings) -> Demand {
        let binding = &judged.binding;
        self.demand(&binding.agent, binding.host, settings, |lookup| {
            match &binding.command {
                // It starts no program.
                Command::Patch(_) => Programs::Known(Vec::new()),
                Command::Shell(_) | Command::Argv(_) => Programs::of(judged.analysis.as_ref(), lookup),
            }
        })
    }

    /// What a question takes about a command that somebody else starts: nobody here sees what that runs.
    pub(super) fn demand_of_other(&self, agent: &AgentId, host: Host, settings: &Settings) -> Demand {
        self.demand(agent, host, settings, |_lookup| Programs::Unknown)
    }

    fn demand(
        &self,
        agent: &AgentId,
        host: Host,
        settings: &Settings,
        programs: impl FnOnce(Option<&dyn PathLookup>) -> Programs,
    ) -> Demand {
        let rules = &settings.server.approvals.rules;
        if rules.is_empty() {
            return Demand::default();
        }
        let lookup = self.path_lookup(agent, settings);
        // The files and the home directory of this machine say nothing about another one.
        let seen: Option<&dyn PathLookup> = match host {
            Host::Gateway | Host::Sandbox => Some(&lookup),
            Host::Node => None,
        };
        let programs = programs(seen);
        let demand = |programs: &Programs| {
            let question = Question {
                agent,
                host,
                programs,
            };
            let matcher = Matcher {
                lookup: seen,
                case: analyse::path_case(settings.server.policy.path_case),
                cache: &self.patterns,
            };
            approval_rules::demand(rules, question, matcher)
        };
        let found = demand(&programs);
        if lookup.check().is_ok() {
            found
        } else {
            // A link that could not be followed may hide the program that a rule is for.
            demand(&Programs::Unknown)
        }
    }
}
