//! `openclaw.json`: every key of `docs/spec/settings.md#3-openclawjson-the-keys-we-read` in one table, and one level
//! (global, or one agent) read by it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use countersign_domain::{Ask, ConfineFallback, HostChoice, Isolation, Leftovers, OnMiss, Security};

use super::{
    Effect, ElevatedLevel, ExecMode, Problem, SafeBinProfile, SandboxMode, SandboxScope, WorkspaceAccess,
    kinds::{
        AbsolutePath, Flag, Kind, List, Maybe, Members, Millis, Mismatch, SameUser, Script, Seconds, Span,
        Text, Whole, Word, ZeroIsNone, read_present,
    },
    kinds_policy::{AnyObject, Profile, Providers, Variables},
    kinds_sandbox::{Bind, BindMount, Bytes, Limit, Processors, SwapBytes, Ulimits},
    policy_tree,
    values::Places,
};

/// What is known of a key before any value.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyKey {
    pub(super) global: &'static str,
    /// Its path within an agent's object, when an agent may have it.
    pub(super) agent: Option<&'static str>,
    default: fn() -> Value,
    /// Checks a value that the file gives.
    pub(super) check: fn(&Value, &Places) -> Result<(), Mismatch>,
    /// Whether it does something in this version.
    pub(super) effect: Effect,
}

impl PolicyKey {
    /// The default, which the file can override; `null` for unset.
    pub(super) fn default(&self, places: &Places) -> Value {
        default_value((self.default)(), places)
    }

    /// Its path at a level.
    pub(super) const fn path(&self, scope: &Scope) -> Option<&'static str> {
        match scope {
            Scope::Global => Some(self.global),
            Scope::Agent(_) => self.agent,
        }
    }

    /// Whether it only spells another key differently; then that one is listed.
    pub(super) fn is_alias(&self) -> bool {
        ALIASES.iter().any(|alias| alias.old == self.global)
    }

    /// The other spelling of it, if it has one.
    fn alias(&self) -> Option<&'static Alias> {
        ALIASES.iter().find(|alias| alias.of == self.global)
    }
}

/// A key that has another spelling.
struct Alias {
    old: &'static str,
    of: &'static str,
    /// What a value of the old spelling is in the new one.
    translate: fn(&Value) -> Value,
}

const ALIASES: [Alias; 2] = [
    Alias {
        old: "tools.exec.timeoutSeconds",
        of: "tools.exec.timeoutSec",
        translate: Value::clone,
    },
    Alias {
        old: "agents.defaults.sandbox.perSession",
        of: "agents.defaults.sandbox.scope",
        translate: |per_session| {
            let scope = SandboxScope::of_per_session(per_session == &Value::Bool(true));
            Value::from(scope.as_str())
        },
    },
];

/// The key that an old spelling stands for; any other key stands for itself.
pub(super) fn canonical(global: &str) -> &str {
    ALIASES
        .iter()
        .find(|alias| alias.old == global)
        .map_or(global, |alias| alias.of)
}

/// Defaults below the state directory are written `{state}/…`.
fn default_value(value: Value, places: &Places) -> Value {
    match value.as_str().and_then(|text| text.strip_prefix("{state}/")) {
        Some(below) => Value::from(places.state.join(below).to_string_lossy()),
        None => value,
    }
}

/// Which level of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// `tools`, `agents.defaults` and so on.
    Global,
    /// One agent's object, with its path.
    Agent(String),
}

impl Scope {
    /// The full path of something at this level.
    pub(super) fn name(&self, path: &str) -> String {
        match self {
            Self::Global => path.to_owned(),
            Self::Agent(at) if path.is_empty() => at.clone(),
            Self::Agent(at) => format!("{at}.{path}"),
        }
    }
}

/// A value with the full path of the key that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said<T> {
    pub(super) value: T,
    pub(super) source: String,
}

/// One level of the file.
#[derive(Debug)]
pub(super) struct LevelTree<'a> {
    pub(super) scope: Scope,
    /// Its object: the root of the file, or the agent's.
    pub(super) object: &'a Value,
    /// What paths are relative to.
    pub(super) places: &'a Places,
}

impl LevelTree<'_> {
    /// What this level says of a key.
    pub(super) fn find(&self, key: &PolicyKey) -> Result<Option<&Value>, (String, Problem)> {
        let Some(path) = key.path(&self.scope) else {
            return Ok(None);
        };
        policy_tree::find(self.object, path).map_err(|(at, problem)| (self.scope.name(&at), problem))
    }

    /// What this level says of a key in either spelling.
    pub(super) fn given(&self, key: &PolicyKey) -> Option<Value> {
        let said = |key: &PolicyKey| self.find(key).ok().flatten();
        if let Some(value) = said(key) {
            return Some(value.clone());
        }
        let alias = key.alias()?;
        let old = KEYS.iter().find(|key| key.global == alias.old)?;
        said(old).map(alias.translate)
    }

    /// The path and the value of an agent's id, where its object says one.
    pub(super) fn id(&self) -> Option<(String, &Value)> {
        match self.scope {
            Scope::Global => None,
            Scope::Agent(_) => Some((self.scope.name(AGENT_ID), self.object.get(AGENT_ID)?)),
        }
    }

    /// A typed value. The caller has checked the level, so what does not read is not there.
    fn said<K: Kind>(&self, global: &'static str, agent: &'static str) -> Option<Said<K::Value>> {
        let path = match self.scope {
            Scope::Global => global,
            Scope::Agent(_) if agent.is_empty() => return None,
            Scope::Agent(_) => agent,
        };
        let value = policy_tree::find(self.object, path).ok().flatten()?;
        let value = read_present::<K>(value, self.places).ok()?;
        Some(Said {
            value,
            source: self.scope.name(path),
        })
    }
}

fn default_of<K: Kind>(value: Value, places: &Places) -> Option<Said<K::Value>> {
    let value = Maybe::<K>::read(&default_value(value, places), places).ok()??;
    Some(Said {
        value,
        source: "default".to_owned(),
    })
}

/// Rows: field and type (where the code reads it), path, path within an agent or "", kind, default, whether it works now.
macro_rules! policy_settings {
    (
        typed { $( $field:ident: $type:ty, $global:literal, $agent:literal as $kind:ty = $default:tt, $effect:ident; )+ }
        checked { $( $checked_global:literal, $checked_agent:literal as $checked_kind:ty = $checked_default:tt; )+ }
    ) => {
        /// What one level says; `None` is silence.
        #[derive(Debug)]
        pub(super) struct Level {
            $( pub(super) $field: Option<Said<$type>>, )+
        }

        impl Level {
            /// Reads a level that was checked.
            pub(super) fn read(tree: &LevelTree<'_>) -> Self {
                Self { $( $field: tree.said::<$kind>($global, $agent), )+ }
            }

            /// What is built in.
            pub(super) fn defaults(places: &Places) -> Self {
                Self { $( $field: default_of::<$kind>(json!($default), places), )+ }
            }
        }

        pub(super) const KEYS: &[PolicyKey] = &[
            $( policy_settings!(@key $global, $agent, $kind, $default, $effect), )+
            $( policy_settings!(@key $checked_global, $checked_agent, $checked_kind, $checked_default, Later), )+
        ];
    };
    (@key $global:literal, $agent:literal, $kind:ty, $default:tt, $effect:ident) => {
        PolicyKey {
            global: $global,
            agent: if $agent.is_empty() { None } else { Some($agent) },
            default: || json!($default),
            check: |value, places| read_present::<$kind>(value, places).map(|_value| ()),
            effect: Effect::$effect,
        }
    };
}

policy_settings! {
    typed {
        host: HostChoice, "tools.exec.host", "tools.exec.host" as Word<HostChoice> = "sandbox", Now;
        security: Security, "tools.exec.security", "tools.exec.security" as Word<Security> = "deny", Now;
        ask: Ask, "tools.exec.ask", "tools.exec.ask" as Word<Ask> = "on-miss", Now;
        mode: ExecMode, "tools.exec.mode", "tools.exec.mode" as Word<ExecMode> = null, Now;
        node: String, "tools.exec.node", "tools.exec.node" as Text = null, Now;
        timeout: Option<Duration>, "tools.exec.timeoutSec", "tools.exec.timeoutSec" as ZeroIsNone<Seconds> = 1800, Now;
        timeout_alias: Option<Duration>, "tools.exec.timeoutSeconds", "tools.exec.timeoutSeconds" as ZeroIsNone<Seconds> = null, Now;
        background_after: Duration, "tools.exec.backgroundMs", "tools.exec.backgroundMs" as Millis<0> = 10000, Now;
        cleanup: Duration, "tools.exec.cleanupMs", "tools.exec.cleanupMs" as Span<1, 60_000, 10_800_000> = 1_800_000, Now;
        notify_on_exit: bool, "tools.exec.notifyOnExit", "tools.exec.notifyOnExit" as Flag = true, Now;
        notify_on_exit_empty_success: bool, "tools.exec.notifyOnExitEmptySuccess", "tools.exec.notifyOnExitEmptySuccess" as Flag = false, Now;
        approval_running_notice: Option<Duration>, "tools.exec.approvalRunningNoticeMs", "tools.exec.approvalRunningNoticeMs" as ZeroIsNone<Millis<0>> = 10000, Now;
        strict_inline_eval: bool, "tools.exec.strictInlineEval", "tools.exec.strictInlineEval" as Flag = false, Now;
        strict_delegation: bool, "tools.exec.strictDelegation", "tools.exec.strictDelegation" as Flag = true, Now;
        null_redirections: bool, "tools.exec.reads.nullRedirections", "tools.exec.reads.nullRedirections" as Flag = false, Now;
        confine_fallback: ConfineFallback, "tools.exec.confineFallback", "tools.exec.confineFallback" as Word<ConfineFallback> = "refuse", Now;
        here_documents: bool, "tools.exec.reads.hereDocuments", "tools.exec.reads.hereDocuments" as Flag = false, Now;
        file_redirections: bool, "tools.exec.reads.fileRedirections", "tools.exec.reads.fileRedirections" as Flag = false, Now;
        file_patterns: bool, "tools.exec.reads.filePatterns", "tools.exec.reads.filePatterns" as Flag = false, Now;
        observe: bool, "tools.exec.observe", "tools.exec.observe" as Flag = false, Now;
        temporary_files: bool, "tools.exec.reads.temporaryFiles", "tools.exec.reads.temporaryFiles" as Flag = false, Now;
        found_files: bool, "tools.exec.reads.foundFiles", "tools.exec.reads.foundFiles" as Flag = false, Now;
        document_operands: bool, "tools.exec.reads.documentOperands", "tools.exec.reads.documentOperands" as Flag = false, Now;
        variables: bool, "tools.exec.reads.variables", "tools.exec.reads.variables" as Flag = false, Now;
        substitutions: bool, "tools.exec.reads.substitutions", "tools.exec.reads.substitutions" as Flag = false, Now;
        braces: bool, "tools.exec.reads.braces", "tools.exec.reads.braces" as Flag = false, Now;
        compound_commands: bool, "tools.exec.reads.compoundCommands", "tools.exec.reads.compoundCommands" as Flag = false, Now;
        loops: bool, "tools.exec.reads.loops", "tools.exec.reads.loops" as Flag = false, Now;
        later_values: bool, "tools.exec.reads.laterValues", "tools.exec.reads.laterValues" as Flag = false, Now;
        background_commands: bool, "tools.exec.reads.backgroundCommands", "tools.exec.reads.backgroundCommands" as Flag = false, Now;
        project_runners: bool, "tools.exec.reads.projectRunners", "tools.exec.reads.projectRunners" as Flag = false, Now;
        leftovers: Leftovers, "tools.exec.leftovers", "tools.exec.leftovers" as Word<Leftovers> = "kill", Now;
        isolation: Isolation, "tools.exec.isolation", "tools.exec.isolation" as SameUser = null, Now;
        on_miss: OnMiss, "tools.exec.onMiss", "tools.exec.onMiss" as Word<OnMiss> = "ask", Now;
        held_programs: Vec<String>, "tools.exec.heldPrograms", "tools.exec.heldPrograms" as List<Text> = [], Now;
        path_prepend: Vec<PathBuf>, "tools.exec.pathPrepend", "tools.exec.pathPrepend" as List<AbsolutePath> = [], Now;
        safe_bins: Vec<String>, "tools.exec.safeBins", "tools.exec.safeBins" as List<Text> = ["cut", "uniq", "head", "tail", "tr", "wc"], Now;
        safe_bin_trusted_dirs: Vec<PathBuf>, "tools.exec.safeBinTrustedDirs", "tools.exec.safeBinTrustedDirs" as List<AbsolutePath> = [], Now;
        safe_bin_profiles: BTreeMap<String, SafeBinProfile>, "tools.exec.safeBinProfiles", "tools.exec.safeBinProfiles" as Members<Profile> = {}, Now;
        apply_patch_enabled: bool, "tools.exec.applyPatch.enabled", "tools.exec.applyPatch.enabled" as Flag = true, Now;
        apply_patch_workspace_only: bool, "tools.exec.applyPatch.workspaceOnly", "tools.exec.applyPatch.workspaceOnly" as Flag = true, Now;
        apply_patch_allow_models: Vec<String>, "tools.exec.applyPatch.allowModels", "tools.exec.applyPatch.allowModels" as List<Text> = [], Now;
        tools_allow: Vec<String>, "tools.allow", "tools.allow" as List<Text> = null, Now;
        tools_deny: Vec<String>, "tools.deny", "tools.deny" as List<Text> = null, Now;
        elevated_enabled: bool, "tools.elevated.enabled", "tools.elevated.enabled" as Flag = true, Now;
        elevated_allow_from: BTreeMap<String, Vec<String>>, "tools.elevated.allowFrom", "tools.elevated.allowFrom" as Providers = {}, Now;
        elevated_default: ElevatedLevel, "agents.defaults.elevatedDefault", "elevatedDefault" as Word<ElevatedLevel> = "on", Now;
        use_access_groups: bool, "commands.useAccessGroups", "" as Flag = true, Now;
        commands_allow_from: BTreeMap<String, Vec<String>>, "commands.allowFrom", "" as Providers = {}, Now;
        workspace: PathBuf, "agents.defaults.workspace", "workspace" as AbsolutePath = "{state}/workspace", Now;
        sandbox_mode: SandboxMode, "agents.defaults.sandbox.mode", "sandbox.mode" as Word<SandboxMode> = null, Now;
        sandbox_scope: SandboxScope, "agents.defaults.sandbox.scope", "sandbox.scope" as Word<SandboxScope> = "agent", Now;
        sandbox_per_session: bool, "agents.defaults.sandbox.perSession", "sandbox.perSession" as Flag = null, Now;
        sandbox_workspace_access: WorkspaceAccess, "agents.defaults.sandbox.workspaceAccess", "sandbox.workspaceAccess" as Word<WorkspaceAccess> = "none", Now;
        sandbox_workspace_root: PathBuf, "agents.defaults.sandbox.workspaceRoot", "sandbox.workspaceRoot" as AbsolutePath = "{state}/countersign/sandboxes", Now;
        sandbox_docker_image: String, "agents.defaults.sandbox.docker.image", "sandbox.docker.image" as Text = "openclaw-sandbox:bookworm-slim", Now;
        sandbox_docker_container_prefix: String, "agents.defaults.sandbox.docker.containerPrefix", "sandbox.docker.containerPrefix" as Text = "countersign-sbx-", Now;
        sandbox_docker_workdir: PathBuf, "agents.defaults.sandbox.docker.workdir", "sandbox.docker.workdir" as AbsolutePath = "/workspace", Now;
        sandbox_docker_read_only_root: bool, "agents.defaults.sandbox.docker.readOnlyRoot", "sandbox.docker.readOnlyRoot" as Flag = true, Now;
        sandbox_docker_network: String, "agents.defaults.sandbox.docker.network", "sandbox.docker.network" as Text = "none", Now;
        sandbox_docker_tmpfs: Vec<String>, "agents.defaults.sandbox.docker.tmpfs", "sandbox.docker.tmpfs" as List<Text> = ["/tmp", "/var/tmp", "/run"], Now;
        sandbox_docker_cap_drop: Vec<String>, "agents.defaults.sandbox.docker.capDrop", "sandbox.docker.capDrop" as List<Text> = ["ALL"], Now;
        sandbox_docker_user: String, "agents.defaults.sandbox.docker.user", "sandbox.docker.user" as Text = null, Now;
        sandbox_docker_setup_command: String, "agents.defaults.sandbox.docker.setupCommand", "sandbox.docker.setupCommand" as Script = null, Now;
        sandbox_docker_pids_limit: u64, "agents.defaults.sandbox.docker.pidsLimit", "sandbox.docker.pidsLimit" as Whole<0, 1_000_000_000> = null, Now;
        sandbox_docker_memory: u64, "agents.defaults.sandbox.docker.memory", "sandbox.docker.memory" as Bytes = null, Now;
        sandbox_docker_memory_swap: i64, "agents.defaults.sandbox.docker.memorySwap", "sandbox.docker.memorySwap" as SwapBytes = null, Now;
        sandbox_docker_cpus: u64, "agents.defaults.sandbox.docker.cpus", "sandbox.docker.cpus" as Processors = null, Now;
        sandbox_docker_ulimits: BTreeMap<String, Limit>, "agents.defaults.sandbox.docker.ulimits", "sandbox.docker.ulimits" as Ulimits = null, Now;
        sandbox_docker_seccomp_profile: String, "agents.defaults.sandbox.docker.seccompProfile", "sandbox.docker.seccompProfile" as Text = null, Now;
        sandbox_docker_apparmor_profile: String, "agents.defaults.sandbox.docker.apparmorProfile", "sandbox.docker.apparmorProfile" as Text = null, Now;
        sandbox_docker_dns: Vec<String>, "agents.defaults.sandbox.docker.dns", "sandbox.docker.dns" as List<Text> = null, Now;
        sandbox_docker_extra_hosts: Vec<String>, "agents.defaults.sandbox.docker.extraHosts", "sandbox.docker.extraHosts" as List<Text> = null, Now;
        sandbox_docker_env: BTreeMap<String, String>, "agents.defaults.sandbox.docker.env", "sandbox.docker.env" as Variables = { "LANG": "C.UTF-8" }, Now;
        sandbox_docker_binds: Vec<BindMount>, "agents.defaults.sandbox.docker.binds", "sandbox.docker.binds" as List<Bind> = [], Now;
        sandbox_prune_idle_hours: u64, "agents.defaults.sandbox.prune.idleHours", "sandbox.prune.idleHours" as Whole<0, 1_000_000> = 24, Now;
        sandbox_prune_max_age_days: u64, "agents.defaults.sandbox.prune.maxAgeDays", "sandbox.prune.maxAgeDays" as Whole<0, 1_000_000> = 7, Now;
    }
    checked {
        "approvals.exec.enabled", "" as Flag = false;
        "approvals.exec.mode", "" as Text = null;
        "approvals.exec.agentFilter", "" as List<Text> = null;
        "approvals.exec.sessionFilter", "" as List<Text> = null;
        "approvals.exec.targets", "" as List<AnyObject> = null;
        "gateway.nodes.pairing.autoApproveLocal", "" as Flag = null;
    }
}

/// The member of an agent's object in a list that says whose it is.
pub(super) const AGENT_ID: &str = "id";

/// The key that is known and deliberately not followed: nodes are never paired silently.
pub(super) const AUTO_APPROVE_LOCAL: &str = "gateway.nodes.pairing.autoApproveLocal";

/// Members of the strict parts that belong to the product alone.
pub(super) const LEFT_ALONE: &[&str] = &[
    "tools.exec.commandHighlighting",
    "tools.exec.reviewer",
    "agents.defaults.sandbox.browser",
    "agents.defaults.sandbox.ssh",
    "agents.defaults.sandbox.podman",
    "sandbox.browser",
    "sandbox.ssh",
    "sandbox.podman",
];
