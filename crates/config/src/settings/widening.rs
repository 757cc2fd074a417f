//! What an edit of `openclaw.json` would newly allow (`docs/decisions/0010-who-may-answer.md`). Pure. What cannot be
//! compared counts.

use countersign_domain::{AgentId, Ask, ConfineFallback, HostChoice, Leftovers, OnMiss, Security};
use countersign_policy::{
    command::syntax::Grammar,
    layers::Spoken,
    pending_change::{Allowances, quoted},
};

use super::{
    ExecSettings, PolicyConfig, Tool,
    policy_config::{AgentPolicy, CommandSettings},
};

impl PolicyConfig {
    /// What `later` allows that this does not, in words; nothing when it only takes away or changes nothing.
    pub fn newly_allowed_by(&self, later: &Self) -> Vec<String> {
        let mut found = Allowances::default();
        let mut agents: Vec<&AgentId> = self.named().chain(later.named()).collect();
        agents.sort_unstable();
        agents.dedup();
        compare(
            self.everybody_else(),
            later.everybody_else(),
            "every agent",
            &mut found,
        );
        for agent in agents {
            let who = format!("agent {}", quoted(agent.as_str()));
            compare(self.of(agent), later.of(agent), &who, &mut found);
        }
        let CommandSettings {
            use_access_groups,
            allow_from,
        } = self.commands();
        if *use_access_groups && !later.commands().use_access_groups
            || *allow_from != later.commands().allow_from
        {
            found.add("other senders may use directives (commands)".to_owned());
        }
        found.into_lines()
    }
}

fn compare(before: &AgentPolicy, later: &AgentPolicy, who: &str, found: &mut Allowances) {
    let AgentPolicy {
        host,
        security,
        ask,
        node,
        exec,
        workspace,
        // Nobody gains from the words alone: the directory counts.
        is_workspace_named: _,
        sandbox,
        tools,
        elevated,
    } = before;
    let (was, is) = (last(host), last(&later.host));
    if was != is && is != Some(HostChoice::Sandbox) {
        let is = is.map_or("the default", HostChoice::as_str);
        found.add(format!("{who}: commands run on another host ({is})"));
    }
    let (was, is) = (last(security), last(&later.security));
    if is.unwrap_or(Security::Deny) > was.unwrap_or(Security::Deny) {
        let is = is.unwrap_or(Security::Deny);
        found.add(format!("{who}: tools.exec.security becomes {is}"));
    }
    let (was, is) = (last(ask), last(&later.ask));
    if is.unwrap_or(Ask::OnMiss) < was.unwrap_or(Ask::OnMiss) {
        let is = is.unwrap_or(Ask::OnMiss);
        found.add(format!("{who}: tools.exec.ask becomes {is}"));
    }
    let node_of = |node: &[Spoken<String>]| node.last().map(|said| said.value.clone());
    if node_of(&later.node).is_some_and(|is| Some(is) != node_of(node)) {
        found.add(format!("{who}: commands go to another node"));
    }
    if *workspace != later.workspace {
        found.add(format!("{who}: another workspace"));
    }
    if *sandbox != later.sandbox {
        found.add(format!("{who}: another sandbox"));
    }
    for (tool, name) in [
        (Tool::Exec, "exec"),
        (Tool::Process, "process"),
        (Tool::ApplyPatch, "apply_patch"),
    ] {
        if tools.denied_by(tool).is_some() && later.tools.denied_by(tool).is_none() {
            found.add(format!("{who}: the tool {name} is no longer denied"));
        }
    }
    if *elevated != later.elevated {
        found.add(format!("{who}: tools.elevated changes"));
    }
    compare_exec(exec, &later.exec, who, found);
}

fn compare_exec(before: &ExecSettings, later: &ExecSettings, who: &str, found: &mut Allowances) {
    let ExecSettings {
        // How long and how loudly something runs is no permission.
        timeout: _,
        background_after: _,
        cleanup: _,
        notify_on_exit: _,
        notify_on_exit_empty_success: _,
        approval_running_notice: _,
        strict_inline_eval,
        strict_delegation,
        grammar:
            Grammar {
                null_redirections,
                here_documents,
                file_redirections,
                file_patterns,
                temporary_files,
                found_files,
                document_operands,
                variables,
                substitutions,
                braces,
                compound_commands,
                loops,
                later_values,
                background_commands,
                project_runners,
            },
        confine_fallback,
        // It is told, and decides nothing.
        observe: _,
        leftovers,
        isolation,
        on_miss,
        held_programs,
        path_prepend,
        safe_bins,
        safe_bin_trusted_dirs,
        safe_bin_profiles,
        apply_patch,
    } = before;
    if strict_inline_eval.value && !later.strict_inline_eval.value {
        found.add(format!("{who}: inline code no longer needs a person"));
    }
    if strict_delegation.value && !later.strict_delegation.value {
        found.add(format!("{who}: delegation is no longer judged strictly"));
    }
    if !null_redirections && later.grammar.null_redirections {
        found.add(format!("{who}: redirections from and to /dev/null are read"));
    }
    if !here_documents && later.grammar.here_documents {
        found.add(format!("{who}: here-documents are read"));
    }
    if !file_redirections && later.grammar.file_redirections {
        found.add(format!(
            "{who}: redirections from and to files of the workspace are read"
        ));
    }
    if !file_patterns && later.grammar.file_patterns {
        found.add(format!("{who}: patterns of file names are read"));
    }
    if !temporary_files && later.grammar.temporary_files {
        found.add(format!(
            "{who}: redirections to new files of the temporary directory are read"
        ));
    }
    if !found_files && later.grammar.found_files {
        found.add(format!("{who}: commands that find runs are read"));
    }
    if !document_operands && later.grammar.document_operands {
        found.add(format!("{who}: here-documents among operands are read"));
    }
    if !variables && later.grammar.variables {
        found.add(format!("{who}: variables of a literal value are read"));
    }
    if !substitutions && later.grammar.substitutions {
        found.add(format!(
            "{who}: exit codes and output of commands in words that are text are read"
        ));
    }
    if !braces && later.grammar.braces {
        found.add(format!("{who}: lists in braces are read"));
    }
    if !compound_commands && later.grammar.compound_commands {
        found.add(format!("{who}: compound commands are read"));
    }
    if !loops && later.grammar.loops {
        found.add(format!("{who}: loops are read"));
    }
    if !later_values && later.grammar.later_values {
        found.add(format!(
            "{who}: values that are known only when a command runs are read"
        ));
    }
    if !background_commands && later.grammar.background_commands {
        found.add(format!("{who}: commands in the background are read"));
    }
    if !project_runners && later.grammar.project_runners {
        found.add(format!(
            "{who}: runners of a project are covered where its interpreter may run anything"
        ));
    }
    if *confine_fallback != later.confine_fallback && later.confine_fallback == ConfineFallback::Text {
        found.add(format!(
            "{who}: entries cover what they confine where that cannot be kept"
        ));
    }
    if *leftovers != later.leftovers && later.leftovers == Leftovers::Keep {
        found.add(format!("{who}: what a command leaves running is kept"));
    }
    if later.isolation.is_some() && *isolation != later.isolation {
        found.add(format!("{who}: commands run less isolated"));
    }
    if on_miss.value != later.on_miss.value && later.on_miss.value != OnMiss::Ask {
        let how = match later.on_miss.value {
            OnMiss::Held => "a text that cannot be taken apart runs held",
            OnMiss::Ask | OnMiss::Sandbox => "a miss runs in the sandbox",
        };
        found.add(format!("{who}: {how} without being asked"));
    }
    for program in &later.held_programs {
        if !held_programs.contains(program) {
            let program = quoted(program);
            found.add(format!("{who}: held texts start {program} with any arguments"));
        }
    }
    if *path_prepend != later.path_prepend {
        found.add(format!(
            "{who}: programs are looked for in other directories (pathPrepend)"
        ));
    }
    for bin in later.safe_bins.iter().filter(|bin| !safe_bins.contains(bin)) {
        found.add(format!("{who}: {} counts as a safe bin", quoted(bin)));
    }
    for directory in &later.safe_bin_trusted_dirs {
        if !safe_bin_trusted_dirs.contains(directory) {
            let directory = quoted(&directory.to_string_lossy());
            found.add(format!("{who}: safe bins may lie in {directory}"));
        }
    }
    if *safe_bin_profiles != later.safe_bin_profiles {
        found.add(format!("{who}: safe bins take other arguments (safeBinProfiles)"));
    }
    if *apply_patch != later.apply_patch && later.apply_patch.enabled {
        found.add(format!("{who}: patches are applied under other rules"));
    }
}

fn last<T: Copy>(spoken: &[Spoken<T>]) -> Option<T> {
    spoken.last().map(|said| said.value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{policy_config, values::Places};

    fn policy(text: &str) -> super::PolicyConfig {
        let places = Places {
            home: None,
            state: "/state".into(),
        };
        policy_config::parse(Some(text), Path::new("openclaw.json"), &places)
            .expect("a configuration")
            .config
    }

    #[test]
    fn what_widens_is_told_and_the_way_back_is_not() {
        let check = |before: &str, later: &str, expected: &str| {
            let (before, later) = (policy(before), policy(later));
            let there = before.newly_allowed_by(&later).join("; ");
            assert!(there.contains(expected), "{there} lacks {expected}");
            assert_eq!(later.newly_allowed_by(&before), Vec::<String>::new());
        };
        let exec = |members: &str| format!("{{tools: {{exec: {{{members}}}}}}}");
        check(
            &exec("security: 'allowlist'"),
            &exec("security: 'full'"),
            "becomes full",
        );
        check("{}", &exec("mode: 'allowlist'"), "becomes allowlist");
        check(
            &exec("ask: 'always'"),
            &exec("ask: 'on-miss'"),
            "ask becomes on-miss",
        );
        check(&exec("strictInlineEval: true"), "{}", "inline code");
        check("{}", &exec("strictDelegation: false"), "delegation");
        check("{}", &exec("reads: { nullRedirections: true }"), "/dev/null");
        check("{}", &exec("reads: { hereDocuments: true }"), "here-documents");
        check(
            "{}",
            &exec("reads: { fileRedirections: true }"),
            "files of the workspace",
        );
        check(
            "{}",
            &exec("reads: { filePatterns: true }"),
            "patterns of file names",
        );
        check(
            "{}",
            &exec("reads: { temporaryFiles: true }"),
            "the temporary directory",
        );
        check("{}", &exec("reads: { foundFiles: true }"), "that find runs");
        check(
            "{}",
            &exec("reads: { documentOperands: true }"),
            "among operands are read",
        );
        check("{}", &exec("reads: { variables: true }"), "of a literal value");
        check(
            "{}",
            &exec("reads: { substitutions: true }"),
            "in words that are text",
        );
        check("{}", &exec("reads: { braces: true }"), "lists in braces");
        check(
            "{}",
            &exec("reads: { compoundCommands: true }"),
            "compound commands",
        );
        check("{}", &exec("reads: { loops: true }"), "loops are read");
        check(
            "{}",
            &exec("reads: { laterValues: true }"),
            "only when a command runs",
        );
        check(
            "{}",
            &exec("reads: { backgroundCommands: true }"),
            "in the background",
        );
        check("{}", &exec("confineFallback: 'text'"), "cannot be kept");
        check("{}", &exec("leftovers: 'keep'"), "kept");
        check("{}", &exec("isolation: 'same-user'"), "less isolated");
        check(
            "{}",
            &exec("safeBins: ['cut','uniq','head','tail','tr','wc','sed']"),
            "\"sed\"",
        );
        check("{}", &exec("safeBinTrustedDirs: ['/opt']"), "\"/opt\"");
        check(
            &exec("heldPrograms: ['awk']"),
            &exec("heldPrograms: ['awk', 'sed']"),
            "held texts start \"sed\"",
        );
        check("{tools: {deny: ['exec']}}", "{}", "exec is no longer denied");
        check(
            "{}",
            "{agents: {entries: {build: {tools: {exec: {security: 'full'}}}}}}",
            "agent \"build\": tools.exec.security becomes full",
        );
    }

    #[test]
    fn what_cannot_be_compared_widens_both_ways() {
        let exec = |members: &str| format!("{{tools: {{exec: {{{members}}}}}}}");
        for (one, other) in [
            (exec("pathPrepend: ['/a']"), exec("pathPrepend: ['/b']")),
            (
                exec("safeBinProfiles: {x: {maxPositional: 1}}"),
                exec("safeBinProfiles: {}"),
            ),
            (exec("host: 'gateway'"), exec("host: 'node'")),
            (
                "{agents: {defaults: {workspace: '/a'}}}".to_owned(),
                "{}".to_owned(),
            ),
            (
                "{commands: {allowFrom: {chat: ['x']}}}".to_owned(),
                "{}".to_owned(),
            ),
        ] {
            let (one, other) = (policy(&one), policy(&other));
            assert!(!one.newly_allowed_by(&other).is_empty());
            assert!(!other.newly_allowed_by(&one).is_empty());
        }
    }

    #[test]
    fn times_and_spellings_allow_nothing() {
        let before = policy("{tools: {exec: {security: 'full', timeoutSec: 5}}}");
        let later = policy("{tools: {exec: {mode: 'full', timeoutSec: 500}}}");
        // `mode: full` is full and off; off asks less than the default.
        assert_eq!(before.newly_allowed_by(&later).len(), 1);
        let later = policy("{tools: {exec: {security: 'full', timeoutSec: 500}}}");
        assert_eq!(before.newly_allowed_by(&later), Vec::<String>::new());
    }
}
