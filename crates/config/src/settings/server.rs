//! `countersign.toml`: every key of `docs/spec/settings.md#2-countersigntoml` in one table. The typed [`Server`], the
//! reading of the file, of variables and of flags, and doctor's list all come from it.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use countersign_domain::{AgentId, DirectStarts, Secret};
use countersign_policy::{approval_rules::ApprovalRule, pattern::ExecutablePattern};

use super::{
    BackgroundRuns, DatabaseUrl, Durability, Effect, IpRange, IpcRole, IsolationChoice, LogFormat, PathCase,
    SandboxBackend, WebUrl, Widening,
    kinds::{
        AbsolutePath, AnyPath, AutoOr, Count, Days, EmptyIsOff, Flag, Hours, Kind, List, Maybe, Millis,
        Mismatch, SecretText, Text, Whole, Word, ZeroIsNone, member, only_members, read_present,
    },
    kinds_net::{Address, DatabaseAddress, HostName, Origin, Range, Url},
    tightening,
    values::Places,
};

/// Whether a change of the file takes effect at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReloadMode {
    /// At once (R in the table of `docs/spec/settings.md#2-countersigntoml`).
    Live,
    /// At once if the function says of the value before and the later one that the change only tightens; after a restart
    /// otherwise. So a program that can write the file while the server runs takes no guard away.
    Tighten(fn(&Value, &Value) -> bool),
    Restart,
}

/// What is known of a key before any value.
#[derive(Debug)]
pub(super) struct ServerKey {
    pub(super) name: &'static str,
    /// The default, which a file, a variable or a flag can override; `null` for unset.
    pub(super) default: fn() -> Value,
    /// Checks a value that a file, a variable or a flag gave.
    pub(super) check: fn(&Value, &Places) -> Result<(), Mismatch>,
    /// The value that the text of a variable stands for.
    pub(super) from_text: fn(&str) -> Option<Value>,
    /// Whether a change takes effect at once.
    pub(super) reload: ReloadMode,
    /// Whether it does something in this version.
    pub(super) effect: Effect,
    /// Whether its value must not be shown.
    pub(super) secret: bool,
}

impl ServerKey {
    pub(super) fn variable(&self) -> String {
        format!(
            "COUNTERSIGN_{}",
            self.name.replacen('.', "__", 1).to_ascii_uppercase()
        )
    }

    /// The key of a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// A table of sections. A row: field, its type, key, kind, default, whether a change is live, whether it works now.
macro_rules! server_settings {
    ($(
        #[doc = $section_doc:literal]
        $section:ident: $Section:ident {
            $( #[doc = $doc:literal] $field:ident: $type:ty, $key:literal as $kind:ty = $default:tt, $reload:ident $(($tightens:path))?, $effect:ident; )+
        }
    )+) => {
        /// The settings of the server process. Fields are named as their keys, without a unit where the type has one.
        #[derive(Debug, Clone)]
        pub struct Server {
            $( #[doc = $section_doc] pub $section: $Section, )+
        }

        $(
            #[doc = $section_doc]
            #[derive(Debug, Clone)]
            pub struct $Section {
                $( #[doc = $doc] pub $field: $type, )+
            }
        )+

        pub(super) const KEYS: &[ServerKey] = &[
            $( $( ServerKey {
                name: concat!(stringify!($section), ".", $key),
                default: || json!($default),
                check: |value, places| read_present::<$kind>(value, places).map(|_value| ()),
                from_text: <$kind as Kind>::from_text,
                reload: ReloadMode::$reload $(($tightens))?,
                effect: Effect::$effect,
                secret: <$kind as Kind>::SECRET,
            }, )+ )+
        ];

        impl Server {
            /// Builds the typed settings from the values that count, by key.
            pub(super) fn from_values(
                values: &BTreeMap<&'static str, Value>,
                places: &Places,
            ) -> Result<Self, (&'static str, Mismatch)> {
                Ok(Self {
                    $( $section: $Section {
                        $( $field: {
                            let name = concat!(stringify!($section), ".", $key);
                            let value = values.get(name).unwrap_or(&Value::Null);
                            <$kind as Kind>::read(value, places).map_err(|mismatch| (name, mismatch))?
                        }, )+
                    }, )+
                })
            }
        }
    };
}

/// More of anything than one machine holds.
const MANY: u64 = 1_000_000_000;
/// 2^53, the largest size that every reader of JSON keeps exactly.
const HUGE: u64 = 9_007_199_254_740_992;

server_settings! {
    #[doc = "`[http]`: where and for whom the API answers."]
    http: Http {
        #[doc = "Address of the API, the page and the Bridge; port 0 picks one."]
        listen: SocketAddr, "listen" as Address = "127.0.0.1:18790", Restart, Now;
        #[doc = "Also listen here, relative to `countersign/`; `None` is off."]
        unix_socket: Option<PathBuf>, "unix_socket" as EmptyIsOff<AnyPath> = "api.sock", Restart, Now;
        #[doc = "Allow an address that is not loopback without TLS."]
        insecure_bind: bool, "insecure_bind" as Flag = false, Restart, Now;
        #[doc = "What links and `Location` use; its host counts as allowed."]
        public_url: Option<WebUrl>, "public_url" as Maybe<Url> = null, Restart, Now;
        #[doc = "Further accepted `Host` names, in lower case."]
        allowed_hosts: Vec<String>, "allowed_hosts" as List<HostName> = [], Live, Now;
        #[doc = "Exact origins; empty is closed."]
        cors_origins: Vec<String>, "cors_origins" as List<Origin> = [], Live, Now;
        #[doc = "Whose `X-Forwarded-For` is believed."]
        trusted_proxies: Vec<IpRange>, "trusted_proxies" as List<Range> = [], Restart, Now;
    }
    #[doc = "`[tls]`: certificates."]
    tls: Tls {
        #[doc = "Certificate chain, PEM; relative to `countersign/`, as the other two."]
        cert: Option<PathBuf>, "cert" as Maybe<AnyPath> = null, Restart, Now;
        #[doc = "Its key, PEM."]
        key: Option<PathBuf>, "key" as Maybe<AnyPath> = null, Restart, Now;
        #[doc = "Require client certificates of this authority."]
        client_ca: Option<PathBuf>, "client_ca" as Maybe<AnyPath> = null, Restart, Now;
    }
    #[doc = "`[auth]`: credentials and browser sessions."]
    auth: Auth {
        #[doc = "Wrong credentials per address and minute before 429."]
        failures_per_minute: u64, "failures_per_minute" as Whole<1, MANY> = 10, Live, Now;
        #[doc = "Life of a browser session."]
        session: Duration, "session_hours" as Hours<1> = 12, Live, Now;
        #[doc = "Life of a one-time link."]
        login_link_ttl: Duration, "login_link_ttl_ms" as Millis<1000> = 600_000, Live, Now;
    }
    #[doc = "`[database]`: the ledger."]
    database: Database {
        #[doc = "Which database."]
        url: DatabaseUrl, "url" as DatabaseAddress = "sqlite:countersign.db", Restart, Now;
        #[doc = "Connections at once."]
        max_connections: usize, "max_connections" as Count<1, 1000> = 8, Restart, Now;
        #[doc = "How durable a launch is."]
        durability: Durability, "durability" as Word<Durability> = "normal", Live, Now;
        #[doc = "How long runs are kept; `None` is for ever."]
        keep_runs: Option<Duration>, "keep_runs_days" as ZeroIsNone<Days<0>> = 90, Live, Now;
        #[doc = "How long audit records are kept; `None` is for ever."]
        keep_audit: Option<Duration>, "keep_audit_days" as ZeroIsNone<Days<0>> = 0, Live, Now;
    }
    #[doc = "`[events]`: the retained event log; whichever is reached first."]
    events: Events {
        #[doc = "How many events are kept."]
        keep_count: u64, "keep_count" as Whole<1, MANY> = 100_000, Live, Now;
        #[doc = "How long events are kept."]
        keep: Duration, "keep_days" as Days<1> = 7, Live, Now;
    }
    #[doc = "`[bridge]`: nodes."]
    bridge: Bridge {
        #[doc = "Whether nodes may connect."]
        enabled: bool, "enabled" as Flag = true, Restart, Now;
        #[doc = "Overrides `countersign/bridge.token`."]
        token: Option<Secret>, "token" as Maybe<SecretText> = null, Restart, Now;
        #[doc = "Heartbeat, advertised and sent."]
        tick: Duration, "tick_ms" as Millis<100> = 30_000, Restart, Now;
        #[doc = "Until hello must have come."]
        handshake_timeout: Duration, "handshake_timeout_ms" as Millis<1> = 15_000, Restart, Now;
        #[doc = "For calls other than `system.run`."]
        invoke_timeout: Duration, "invoke_timeout_ms" as Millis<1> = 30_000, Live, Now;
        #[doc = "Largest frame after hello."]
        max_frame_bytes: usize, "max_frame_bytes" as Count<65_536, HUGE> = 26_214_400, Restart, Now;
        #[doc = "Send buffer of one connection."]
        max_buffer_bytes: usize, "max_buffer_bytes" as Count<65_536, HUGE> = 52_428_800, Restart, Now;
        #[doc = "Connections at once."]
        max_nodes: usize, "max_nodes" as Count<1, MANY> = 2000, Restart, Now;
        #[doc = "Commands added to the platform's list."]
        allow_commands: Vec<String>, "allow_commands" as List<Text> = [], Live, Now;
        #[doc = "Commands taken from the platform's list."]
        deny_commands: Vec<String>, "deny_commands" as List<Text> = [], Live, Now;
    }
    #[doc = "`[ipc]`: the approvals socket."]
    ipc: Ipc {
        #[doc = "Who hosts it."]
        role: IpcRole, "role" as Word<IpcRole> = "auto", Restart, Now;
        #[doc = "Refuse the plain form."]
        require_v2: bool, "require_v2" as Flag = false, Live, Now;
        #[doc = "Believe an attached decision that no approval of ours backs."]
        trust_attached: bool, "trust_attached" as Flag = false, Live, Now;
        #[doc = "New connections per second and peer; 0 switches both limits off."]
        rate_limit: u64, "rate_limit" as Whole<0, MANY> = 50, Live, Now;
        #[doc = "How many of them at once."]
        rate_burst: u64, "rate_burst" as Whole<0, MANY> = 200, Live, Now;
        #[doc = "Connections at once; 0 is off."]
        max_connections: usize, "max_connections" as Count<0, MANY> = 64, Live, Now;
        #[doc = "Prompts of one session at once; 0 is off."]
        max_prompts_per_session: usize, "max_prompts_per_session" as Count<0, MANY> = 8, Live, Now;
    }
    #[doc = "`[approvals]`: asking people."]
    approvals: Approvals {
        #[doc = "Another approvals document."]
        path: Option<PathBuf>, "path" as Maybe<AbsolutePath> = null, Restart, Now;
        #[doc = "Until a pending approval expires."]
        timeout: Duration, "timeout_ms" as Millis<1000, 86_400_000> = 1_800_000, Live, Now;
        #[doc = "A run must start within this time of its approval."]
        start_by: Duration, "start_by_ms" as Millis<1> = 600_000, Live, Now;
        #[doc = "Count an approver as reachable although none is connected."]
        always_reachable: bool, "always_reachable" as Flag = false, Live, Now;
        #[doc = "Whether `askFallback` applies to a timeout too; else a timeout denies."]
        fallback_after_timeout: bool, "fallback_after_timeout" as Flag = true, Live, Now;
        #[doc = "Pending approvals at once."]
        max_pending: usize, "max_pending" as Count<1, MANY> = 200_000, Live, Now;
        #[doc = "Pending approvals of one agent at once, for each token that asks; 0 is off."]
        max_pending_per_agent: u64, "max_pending_per_agent" as Whole<0, MANY> = 50, Live, Now;
        #[doc = "Pending approvals of one token at once; 0 is off."]
        max_pending_per_token: u64, "max_pending_per_token" as Whole<0, MANY> = 2000, Live, Now;
        #[doc = "New questions per minute and token; 0 is off."]
        questions_per_minute_per_token: u64, "questions_per_minute_per_token" as Whole<0, MANY> = 600, Live, Now;
        #[doc = "How many of them at once; 0 is off."]
        question_burst_per_token: u64, "question_burst_per_token" as Whole<0, MANY> = 2500, Live, Now;
        #[doc = "What a policy change that widens needs."]
        widening: Widening, "widening" as Word<Widening> = "apply", Tighten(tightening::demands_more), Now;
        #[doc = "How many approvers, from which groups; the first rule that matches counts."]
        rules: Vec<ApprovalRule>, "rules" as List<Rule> = [], Tighten(tightening::adds_rules), Now;
    }
    #[doc = "`[policy]`: how policy compares and what it offers."]
    policy: PathPolicy {
        #[doc = "How path and name patterns compare."]
        path_case: PathCase, "path_case" as Word<PathCase> = "auto", Live, Now;
        #[doc = "False switches rule D1 off for all agents."]
        delegation_table: bool, "delegation_table" as Flag = true, Live, Now;
        #[doc = "Offer a grant of the exact text where nothing else covers it."]
        exact_text_grants: bool, "exact_text_grants" as Flag = false, Live, Now;
        #[doc = "The skill table."]
        skill_bins: Vec<SkillBin>, "skill_bins" as List<Skill> = [], Tighten(tightening::takes_away), Now;
    }
    #[doc = "`[exec]`: how commands run."]
    exec: Exec {
        #[doc = "Host shell; `None` is chosen from the environment."]
        shell: Option<PathBuf>, "shell" as AutoOr<AbsolutePath> = "auto", Restart, Now;
        #[doc = "Start a program without the shell where that does nothing but find it."]
        direct: DirectStarts, "direct" as Word<DirectStarts> = "auto", Live, Now;
        #[doc = "Keep what is typed at a terminal with its recording, while the terminal shows it."]
        record_input: bool, "record_input" as Flag = false, Live, Now;
        #[doc = "Commands run as this account."]
        run_as: Option<String>, "run_as" as Maybe<Text> = null, Restart, Now;
        #[doc = "Socket of the runner's unit of that account, for a server that is not root; `None` is `/run/countersign/runner-ACCOUNT.sock`."]
        runner_socket: Option<PathBuf>, "runner_socket" as AutoOr<AbsolutePath> = "auto", Restart, Now;
        #[doc = "The least level accepted."]
        isolation: IsolationChoice, "isolation" as Word<IsolationChoice> = "auto", Restart, Now;
        #[doc = "Ask the login shell for its PATH."]
        login_path: bool, "login_path" as Flag = true, Restart, Now;
        #[doc = "How long that may take."]
        login_path_timeout: Duration, "login_path_timeout_ms" as Millis<1> = 5000, Restart, Now;
    }
    #[doc = "`[sandbox]`: what makes sandboxes."]
    sandbox: Sandbox {
        #[doc = "Which backend."]
        backend: SandboxBackend, "backend" as Word<SandboxBackend> = "auto", Restart, Now;
        #[doc = "Docker's socket."]
        docker_socket: Option<PathBuf>, "docker_socket" as Maybe<AbsolutePath> = null, Restart, Now;
        #[doc = "Until a sandbox must be there."]
        start_timeout: Duration, "start_timeout_ms" as Millis<1> = 60_000, Restart, Now;
    }
    #[doc = "`[limits]`: how much at once."]
    limits: Limits {
        #[doc = "Request body, then 413."]
        body_bytes: usize, "body_bytes" as Count<1024, HUGE> = 2_097_152, Restart, Now;
        #[doc = "Until a request's headers must have come."]
        header_timeout: Duration, "header_timeout_ms" as Millis<1> = 10_000, Restart, Now;
        #[doc = "Requests per second and token; 0 is off."]
        requests_per_second: u64, "requests_per_second" as Whole<0, MANY> = 5000, Live, Now;
        #[doc = "How many of them at once; 0 is off."]
        request_burst: u64, "request_burst" as Whole<0, MANY> = 10_000, Live, Now;
        #[doc = "Requests per second and address without a valid token; 0 is off."]
        anonymous_per_second: u64, "anonymous_per_second" as Whole<0, MANY> = 50, Live, Now;
        #[doc = "How many of them at once; 0 is off."]
        anonymous_burst: u64, "anonymous_burst" as Whole<0, MANY> = 500, Live, Now;
        #[doc = "Connections at once."]
        max_connections: usize, "max_connections" as Count<1, MANY> = 8192, Restart, Now;
        #[doc = "Processes at once; 0 is off."]
        max_running: usize, "max_running" as Count<0, MANY> = 1024, Tighten(tightening::lowers), Now;
        #[doc = "Processes of one agent at once; 0 is off."]
        max_running_per_agent: usize, "max_running_per_agent" as Count<0, MANY> = 512, Live, Now;
        #[doc = "Execs that wait for a slot."]
        max_queued: usize, "max_queued" as Count<0, MANY> = 1024, Live, Now;
        #[doc = "How long they wait."]
        queue_timeout: Duration, "queue_timeout_ms" as Millis<0> = 30_000, Live, Now;
        #[doc = "Event streams at once."]
        max_sse_clients: usize, "max_sse_clients" as Count<1, MANY> = 4096, Restart, Now;
        #[doc = "Sessions with state in memory."]
        max_sessions: usize, "max_sessions" as Count<1, MANY> = 10_000, Restart, Now;
        #[doc = "Memory of one gateway run; 0 is off."]
        run_memory_bytes: u64, "run_memory_bytes" as Whole<0, HUGE> = 0, Live, Now;
        #[doc = "Processor share of one gateway run; 0 is off."]
        run_cpu_percent: u64, "run_cpu_percent" as Whole<0, 1_000_000> = 0, Live, Now;
        #[doc = "Processes of one gateway run; 0 is off."]
        run_pids: u64, "run_pids" as Whole<0, MANY> = 0, Live, Now;
    }
    #[doc = "`[output]`: what is kept of output."]
    output: Output {
        #[doc = "Cap of combined text in answers."]
        max_chars: usize, "max_chars" as Count<1, MANY> = 200_000, Restart, Now;
        #[doc = "Tail in events."]
        tail_chars: usize, "tail_chars" as Count<0, MANY> = 20_000, Restart, Now;
        #[doc = "Spooled per run; more is counted, not kept."]
        max_run_bytes: u64, "max_run_bytes" as Whole<0, HUGE> = 2_147_483_648_u64, Restart, Now;
        #[doc = "All spools together."]
        quota_bytes: u64, "quota_bytes" as Whole<0, HUGE> = 10_737_418_240_u64, Live, Now;
        #[doc = "How long spools are kept."]
        keep: Duration, "keep_days" as Days<1> = 30, Live, Now;
    }
    #[doc = "`[shutdown]`: stopping."]
    shutdown: Shutdown {
        #[doc = "For foreground runs after SIGTERM."]
        grace: Duration, "grace_ms" as Millis<0> = 10_000, Restart, Now;
        #[doc = "What becomes of background runs."]
        background_runs: BackgroundRuns, "background_runs" as Word<BackgroundRuns> = "keep", Restart, Now;
    }
    #[doc = "`[telemetry]`: logs, metrics, traces."]
    telemetry: Telemetry {
        #[doc = "Form of log lines on stderr."]
        log_format: LogFormat, "log_format" as Word<LogFormat> = "text", Restart, Now;
        #[doc = "Which log lines."]
        log_filter: String, "log_filter" as LogFilter = "info", Live, Now;
        #[doc = "A listener for metrics without a token."]
        metrics_listen: Option<SocketAddr>, "metrics_listen" as Maybe<Address> = null, Restart, Now;
        #[doc = "Where traces go."]
        otlp_endpoint: Option<WebUrl>, "otlp_endpoint" as Maybe<Url> = null, Restart, Later;
    }
}

/// One of `[[approvals.rules]]`. A rule that could never match is a mistake, not a rule.
struct Rule;

impl Kind for Rule {
    type Value = ApprovalRule;

    fn read(value: &Value, places: &Places) -> Result<ApprovalRule, Mismatch> {
        const MEMBERS: &[&str] = &[
            "agents",
            "hosts",
            "patterns",
            "approvals_required",
            "groups",
            "decide_by_ms",
            "start_by_ms",
            "start_delay_ms",
        ];
        only_members(value, MEMBERS)?;
        Ok(ApprovalRule {
            agents: member::<List<Agent>>(value, "agents", places)?.unwrap_or_default(),
            hosts: member::<List<Word<_>>>(value, "hosts", places)?.unwrap_or_default(),
            patterns: member::<List<Program>>(value, "patterns", places)?.unwrap_or_default(),
            approvals_required: member::<Whole<1, 100>>(value, "approvals_required", places)?.unwrap_or(1),
            groups: member::<List<Text>>(value, "groups", places)?.unwrap_or_default(),
            decide_by: member::<Millis<1000, 86_400_000>>(value, "decide_by_ms", places)?,
            start_by: member::<Millis<1>>(value, "start_by_ms", places)?,
            start_delay: member::<Millis<0, 600_000>>(value, "start_delay_ms", places)?.unwrap_or_default(),
        })
    }

    fn from_text(_text: &str) -> Option<Value> {
        None
    }
}

struct Agent;

impl Kind for Agent {
    type Value = AgentId;

    fn read(value: &Value, places: &Places) -> Result<AgentId, Mismatch> {
        AgentId::parse(Text::read(value, places)?)
            .map_err(|_invalid| Mismatch::expected("the id of an agent; leave agents out for all"))
    }
}

/// A pattern of programs.
struct Program;

impl Kind for Program {
    type Value = String;

    fn read(value: &Value, places: &Places) -> Result<String, Mismatch> {
        let text = Text::read(value, places)?;
        let home = places.home.as_ref().map(|home| home.to_string_lossy());
        match ExecutablePattern::parse(&text, home.as_deref().unwrap_or("/")) {
            Ok(_) => Ok(text),
            Err(inert) => Err(Mismatch::expected(format_args!("a pattern of programs: {inert}"))),
        }
    }
}

/// One row of `[[policy.skill_bins]]`: a program that rule K1 lets run without an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillBin {
    /// The bare name that a command must use.
    pub name: String,
    /// The real path that this name must lead to, absolute.
    pub path: PathBuf,
}

struct Skill;

impl Kind for Skill {
    type Value = SkillBin;

    fn read(value: &Value, places: &Places) -> Result<SkillBin, Mismatch> {
        only_members(value, &["name", "path"])?;
        let missing = |name| Mismatch::expected("a name and a path").in_member(name);
        Ok(SkillBin {
            name: member::<Text>(value, "name", places)?.ok_or_else(|| missing("name"))?,
            path: member::<AbsolutePath>(value, "path", places)?.ok_or_else(|| missing("path"))?,
        })
    }

    fn from_text(_text: &str) -> Option<Value> {
        None
    }
}

struct LogFilter;

impl Kind for LogFilter {
    type Value = String;

    fn read(value: &Value, places: &Places) -> Result<String, Mismatch> {
        Text::read(value, places)
            .ok()
            .filter(|filter| EnvFilter::try_new(filter).is_ok())
            .ok_or_else(|| Mismatch::expected("a log filter such as info or countersign=debug"))
    }
}
