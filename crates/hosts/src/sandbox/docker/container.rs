//! What a container is made of: an enclosure in the engine's words, its labels, and the hash of all of it.

use std::{collections::HashMap, path::Path, time::Duration};

use sha2::{Digest as _, Sha256};

use countersign_config::settings::DockerSettings;
use countersign_docker::{
    ContainerCreateBody, HostConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    ResourcesUlimits, as_json,
};
use countersign_domain::hex;
use countersign_sys::fs::read_bounded;

use super::{
    super::{Enclosure, Unusable},
    mounts::{Forbidden, check_inside, check_workspace},
    seccomp,
    supervision::{self, text_of},
};

/// Whose containers these are.
pub(super) const OWNER: &str = "countersign.owner";
const SCOPE: &str = "countersign.scope";
/// What it was made of.
const CONFIGURATION: &str = "countersign.configuration";
/// Milliseconds without use after which it is removed.
const IDLE: &str = "countersign.prune-idle-ms";
/// Milliseconds of age after which it is removed.
const AGE: &str = "countersign.prune-age-ms";

/// Most bytes of a seccomp profile.
const MAX_PROFILE: usize = 1 << 20;

/// What tells of the machine or of its keys, and would do so to everybody. Naming some of it to an engine replaces
/// what the engine itself would hide, so this has that as well.
const HIDDEN: [&str; 15] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Which processors a machine may have, and the most bytes that say so.
const PROCESSORS: (&str, usize) = ("/sys/devices/system/cpu/possible", 1 << 10);

/// When containers that nobody needs are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneLimits {
    /// After so much time without use; `None` is never.
    pub idle: Option<Duration>,
    /// At this age; `None` is never.
    pub age: Option<Duration>,
}

/// A container that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) body: ContainerCreateBody,
    /// Tells whether one that exists is the same.
    pub(super) configuration: String,
}

impl Wanted {
    /// Describes the container of an enclosure.
    pub(super) fn of(
        enclosure: &Enclosure,
        owner: &str,
        limits: PruneLimits,
        forbidden: &Forbidden,
    ) -> Result<Self, Unusable> {
        let settings = &enclosure.settings;
        let workspace = check_workspace(&enclosure.workspace)?;
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => owner_of(&workspace)?,
        };
        let mut body = ContainerCreateBody {
            image: Some(settings.image.clone()),
            // This is started in place of anything that the image starts by itself.
            entrypoint: Some(supervision::idle_process()),
            cmd: Some(Vec::new()),
            user: Some(user),
            working_dir: Some(text_of(settings.workdir())),
            env: Some(
                settings
                    .env
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
            ),
            network_disabled: Some(settings.network == "none"),
            host_config: Some(host_config(enclosure, &workspace, forbidden)?),
            ..ContainerCreateBody::default()
        };
        let described =
            as_json(&body).map_err(|_unwritable| Unusable("the container cannot be described".to_owned()))?;
        let mut described = serde_json::json!([described, settings.setup_command]);
        // Maps of the library have another order each time.
        described.sort_all_objects();
        let configuration = hex(&Sha256::digest(described.to_string()));
        let mut labels = HashMap::from([
            (OWNER.to_owned(), owner.to_owned()),
            (SCOPE.to_owned(), enclosure.scope_key.clone()),
            (CONFIGURATION.to_owned(), configuration.clone()),
        ]);
        for (name, limit) in [(IDLE, limits.idle), (AGE, limits.age)] {
            if let Some(limit) = limit {
                labels.insert(name.to_owned(), limit.as_millis().to_string());
            }
        }
        body.labels = Some(labels);
        Ok(Self { body, configuration })
    }
}

/// What the labels of an existing container say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) owner: String,
    pub(super) scope: String,
    pub(super) configuration: String,
    pub(super) limits: PruneLimits,
}

impl Labels {
    pub(super) fn read(labels: &HashMap<String, String>) -> Self {
        let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let limit = |name: &str| Some(Duration::from_millis(labels.get(name)?.parse().ok()?));
        Self {
            owner: text(OWNER),
            scope: text(SCOPE),
            configuration: text(CONFIGURATION),
            limits: PruneLimits {
                idle: limit(IDLE),
                age: limit(AGE),
            },
        }
    }
}

/// Who can write to a workspace when capabilities are dropped, root inside included.
fn owner_of(workspace: &Path) -> Result<String, Unusable> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(workspace).map_err(|error| {
        Unusable(format!(
            "the workspace {} cannot be looked at: {error}",
            workspace.display()
        ))
    })?;
    Ok(format!("{}:{}", found.uid(), found.gid()))
}

fn host_config(
    enclosure: &Enclosure,
    workspace: &Path,
    forbidden: &Forbidden,
) -> Result<HostConfig, Unusable> {
    let settings = &enclosure.settings;
    let network = &settings.network;
    if network == "host" || network.starts_with("container:") {
        return Err(Unusable(format!(
            "a sandbox cannot use the network `{network}`, which is not its own; set sandbox.docker.network to another"
        )));
    }
    let signed = |number: Option<u64>| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let ulimits = settings.ulimits.iter().map(|(name, limit)| ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(limit.soft),
        hard: Some(limit.hard),
    });
    Ok(HostConfig {
        network_mode: Some(network.clone()),
        readonly_rootfs: Some(settings.read_only_root),
        cap_drop: Some(settings.cap_drop.clone()),
        privileged: Some(false),
        security_opt: Some(security(settings)?),
        init: Some(true),
        ipc_mode: Some("private".to_owned()),
        pids_limit: signed(settings.pids_limit),
        memory: signed(settings.memory_bytes),
        memory_swap: settings.memory_swap_bytes,
        nano_cpus: signed(settings.nano_cpus),
        ulimits: Some(ulimits.collect()),
        masked_paths: Some(hidden()),
        tmpfs: Some(tmpfs(settings)?),
        mounts: Some(mounts(enclosure, workspace, forbidden)?),
        dns: Some(settings.dns.clone()),
        extra_hosts: Some(settings.extra_hosts.clone()),
        ..HostConfig::default()
    })
}

fn security(settings: &DockerSettings) -> Result<Vec<String>, Unusable> {
    let mut security = vec!["no-new-privileges".to_owned()];
    match settings.seccomp_profile.as_deref() {
        None => security.push(format!("seccomp={}", seccomp::profile())),
        // Older engines do not know a word for their own, and use it when nothing is said.
        Some("builtin") => {}
        Some("unconfined") => security.push("seccomp=unconfined".to_owned()),
        Some(path) => {
            // The engine wants the content: a path would be one of its own machine.
            let profile = read_bounded(Path::new(path), MAX_PROFILE)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
                .ok_or_else(|| {
                    Unusable(format!(
                        "the seccomp profile {path} (sandbox.docker.seccompProfile) cannot be read as JSON"
                    ))
                })?;
            security.push(format!("seccomp={profile}"));
        }
    }
    if let Some(profile) = &settings.apparmor_profile {
        security.push(format!("apparmor={profile}"));
    }
    Ok(security)
}

/// How warm single processors are is hidden as well where it is told: it tells what else the machine does.
fn hidden() -> Vec<String> {
    let (path, max) = PROCESSORS;
    let processors = read_bounded(Path::new(path), max).unwrap_or_default();
    let last = String::from_utf8_lossy(&processors);
    let last = last.trim().rsplit([',', '-']).next();
    let count = last
        .and_then(|last| last.parse::<u16>().ok())
        .map_or(0, |last| u32::from(last) + 1);
    let warmth = (0..count)
        .map(|processor| format!("/sys/devices/system/cpu/cpu{processor}/thermal_throttle"))
        .filter(|path| Path::new(path).exists());
    HIDDEN.map(str::to_owned).into_iter().chain(warmth).collect()
}

fn tmpfs(settings: &DockerSettings) -> Result<HashMap<String, String>, Unusable> {
    let entries = settings.tmpfs.iter().map(|entry| {
        let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
        check_inside(Path::new(path))
            .map_err(|why| Unusable(format!("sandbox.docker.tmpfs {path}: {why}")))?;
        Ok((path.to_owned(), options.to_owned()))
    });
    entries.collect()
}

fn mounts(enclosure: &Enclosure, workspace: &Path, forbidden: &Forbidden) -> Result<Vec<Mount>, Unusable> {
    let workdir = enclosure.settings.workdir();
    check_inside(workdir)
        .map_err(|why| Unusable(format!("sandbox.docker.workdir {}: {why}", workdir.display())))?;
    let mut mounts = vec![mount(workspace, workdir, enclosure.workspace_writable)];
    if let Some(agent) = &enclosure.agent_workspace {
        mounts.push(mount(&check_workspace(&agent.host)?, &agent.inside, false));
    }
    for bind in &enclosure.settings.binds {
        let bind = forbidden.check(bind)?;
        mounts.push(mount(&bind.host, &bind.inside, bind.writable));
    }
    Ok(mounts)
}

fn mount(host: &Path, inside: &Path, is_writable: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(text_of(host)),
        target: Some(text_of(inside)),
        read_only: Some(!is_writable),
        bind_options: Some(MountBindOptions {
            // What is mounted on the host later does not appear inside.
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files of the tests themselves")]

    use std::{collections::BTreeMap, path::PathBuf};

    use serde_json::{Value, json};

    use super::*;
    use countersign_config::settings::Limit;

    use crate::sandbox::AgentWorkspace;

    fn settings() -> DockerSettings {
        DockerSettings {
            image: "image:1".to_owned(),
            container_prefix: "prefix-".to_owned(),
            workdir: PathBuf::from("/workspace"),
            read_only_root: true,
            network: "none".to_owned(),
            tmpfs: ["/tmp", "/run:size=1m", "/var/tmp", "/a", "/b"]
                .map(str::to_owned)
                .to_vec(),
            cap_drop: vec!["ALL".to_owned()],
            user: Some("1000:1000".to_owned()),
            setup_command: None,
            pids_limit: Some(50),
            memory_bytes: Some(64 << 20),
            memory_swap_bytes: Some(-1),
            nano_cpus: Some(500_000_000),
            ulimits: BTreeMap::from([("nofile".to_owned(), Limit { soft: 64, hard: 128 })]),
            seccomp_profile: None,
            apparmor_profile: Some("docker-default".to_owned()),
            dns: vec![],
            extra_hosts: vec![],
            env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
            binds: vec![],
        }
    }

    fn enclosure(folder: &Path) -> Enclosure {
        Enclosure {
            scope_key: "agent:main".to_owned(),
            name: "prefix-main".to_owned(),
            workspace: folder.to_owned(),
            workspace_writable: false,
            agent_workspace: Some(AgentWorkspace {
                host: folder.to_owned(),
                inside: PathBuf::from("/agent"),
            }),
            settings: settings(),
        }
    }

    fn wanted(enclosure: &Enclosure) -> Result<Wanted, Unusable> {
        let limits = PruneLimits {
            idle: Some(Duration::from_secs(1)),
            age: None,
        };
        Wanted::of(enclosure, "owner", limits, &Forbidden::default())
    }

    #[test]
    fn every_setting_reaches_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = wanted(&enclosure(folder.path())).unwrap();
        let body = serde_json::to_value(&wanted.body).unwrap();
        let host = &body["HostConfig"];
        let expected = json!({
            "NetworkMode": "none", "ReadonlyRootfs": true, "CapDrop": ["ALL"], "Privileged": false, "Init": true,
            "SecurityOpt": [
                "no-new-privileges", format!("seccomp={}", seccomp::profile()), "apparmor=docker-default",
            ],
            "MaskedPaths": hidden(), "PidsLimit": 50, "Memory": 64 << 20,
            "MemorySwap": -1, "NanoCpus": 500_000_000, "IpcMode": "private",
            "Ulimits": [{"Name": "nofile", "Soft": 64, "Hard": 128}],
            "Tmpfs": {"/tmp": "", "/run": "size=1m", "/var/tmp": "", "/a": "", "/b": ""},
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&host[name], value, "{name}");
        }
        let mounts: Vec<[&Value; 2]> = host["Mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| [&mount["Target"], &mount["ReadOnly"]])
            .collect();
        assert_eq!(json!(mounts), json!([["/workspace", true], ["/agent", true]]));
        assert_eq!(body["User"], "1000:1000");
        assert_eq!(body["Env"], json!(["LANG=C.UTF-8"]));
        let labels = Labels::read(wanted.body.labels.as_ref().unwrap());
        let limits = PruneLimits {
            idle: Some(Duration::from_secs(1)),
            age: None,
        };
        let (owner, scope) = ("owner".to_owned(), "agent:main".to_owned());
        let configuration = wanted.configuration;
        assert_eq!(
            labels,
            Labels {
                owner,
                scope,
                configuration,
                limits
            }
        );
    }

    #[test]
    fn the_hash_changes_with_the_settings_and_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let first = enclosure(folder.path());
        let hash = |enclosure: &Enclosure| wanted(enclosure).unwrap().configuration;
        assert_eq!(hash(&first), hash(&first));
        let changes: [fn(&mut Enclosure); 6] = [
            |changed| changed.workspace_writable = true,
            |changed| changed.settings.seccomp_profile = Some("builtin".to_owned()),
            |changed| changed.settings.seccomp_profile = Some("unconfined".to_owned()),
            |changed| changed.settings.setup_command = Some("true".to_owned()),
            |changed| changed.settings.tmpfs.truncate(1),
            |changed| changed.settings.pids_limit = None,
        ];
        for change in changes {
            let mut changed = first.clone();
            change(&mut changed);
            assert_ne!(hash(&changed), hash(&first), "{changed:?}");
        }
    }

    #[test]
    fn a_profile_of_system_calls_is_ours_unless_another_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        std::fs::write(&path, "{ \"defaultAction\": \"SCMP_ACT_ALLOW\" }").unwrap();
        let ours = format!("seccomp={}", seccomp::profile());
        for (named, expected) in [
            (None, Some(ours.as_str())),
            (Some("builtin"), None),
            (Some("unconfined"), Some("seccomp=unconfined")),
            (
                path.to_str(),
                Some("seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\"}"),
            ),
        ] {
            let named = named.map(str::to_owned);
            let told = security(&DockerSettings {
                seccomp_profile: named,
                apparmor_profile: None,
                ..settings()
            });
            let told = told.unwrap();
            assert_eq!(told.first().map(String::as_str), Some("no-new-privileges"));
            assert_eq!(told.get(1).map(String::as_str), expected, "{told:?}");
        }
    }

    #[test]
    fn what_would_leave_the_container_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let changes: [fn(&mut DockerSettings); 5] = [
            |settings| settings.network = "host".to_owned(),
            |settings| settings.network = "container:other".to_owned(),
            |settings| settings.workdir = PathBuf::from("/"),
            |settings| settings.tmpfs = vec!["/proc".to_owned()],
            |settings| settings.seccomp_profile = Some("/nonexistent".to_owned()),
        ];
        for change in changes {
            let mut enclosure = enclosure(folder.path());
            change(&mut enclosure.settings);
            assert!(wanted(&enclosure).is_err(), "{enclosure:?}");
        }
    }
}
