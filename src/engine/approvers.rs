//! Which people a question is for: `[[approvals.rules]]` held against what would run.

use crate::{
    command::PathLookup as _,
    domain::{AgentId, Command, Host},
    engine::{Engine, analyse, judge::Judgement},
    policy::approval_rules::{self, Demand, Matcher, Programs, Question},
    settings::Settings,
};

impl Engine {
    /// What a question about a call takes.
    pub(super) fn demand_of_call(&self, judged: &Judgement, settings: &Settings) -> Demand {
        let binding = &judged.binding;
        self.demand(&binding.agent, binding.host, settings, |real| {
            match &binding.command {
                // It starts no program.
                Command::Patch(_) => Programs::Known(Vec::new()),
                Command::Shell(_) | Command::Argv(_) => Programs::of(judged.analysis.as_ref(), real),
            }
        })
    }

    /// What a question takes about a command that somebody else starts: nobody here sees what that runs.
    pub(super) fn demand_of_other(&self, agent: &AgentId, host: Host, settings: &Settings) -> Demand {
        self.demand(agent, host, settings, |_real| Programs::Unknown)
    }

    fn demand(
        &self,
        agent: &AgentId,
        host: Host,
        settings: &Settings,
        programs: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Programs,
    ) -> Demand {
        let rules = &settings.server.approvals.rules;
        if rules.is_empty() {
            return Demand::default();
        }
        let lookup = self.path_lookup(agent, settings);
        // The links and the home directory of this machine say nothing about another one.
        let real = |path: &str| (host != Host::Node).then(|| lookup.real(path)).flatten();
        let programs = programs(&real);
        let demand = |programs: &Programs| {
            let question = Question {
                agent,
                host,
                programs,
            };
            let matcher = Matcher {
                home: (host != Host::Node).then(|| lookup.home()),
                case: analyse::path_case(settings.server.policy.path_case),
                cache: &self.patterns,
                real: &real,
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
