//! What a sandbox has inside. Pure: settings to a description.

use std::{
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use countersign_config::settings::DockerSettings;
use countersign_runner::enclose::{Enclosed, INSIDE, Piece, ProcessLimit, Source};

use crate::sandbox::{Inside, InsideCommand, Unusable};

/// Who commands of a server of root are, as the machine sees them: nobody.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// The name of the one account inside.
const ACCOUNT_NAME: &str = "sandbox";

/// The name of the machine, inside.
const HOST_NAME: &str = "sandbox";

/// Where programs are, unless the settings say something else.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Carries the front of the PATH past the login profile.
const PREPEND: &str = "COUNTERSIGN_PATH_PREPEND";

/// What programs need of the machine, and everybody may read anyway.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];

/// The same of `/etc`, which has much else. Neither accounts, nor keys, nor what other programs are configured by.
pub(crate) const CONFIGURATION: [&str; 32] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "environment.d",
    "fonts",
    "gai.conf",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "magic.mime",
    "mime.types",
    "mke2fs.conf",
    "os-release",
    "perl",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Places that the sandbox itself makes.
const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Most processes where the settings say nothing: enough for any build, and no trouble for the machine.
const PROCESSES: u64 = 4096;

/// Most bytes and files of a directory in memory where the settings say nothing.
const MEMORY_BYTES: u64 = 256 << 20;
const MEMORY_FILES: u64 = 65_536;

/// What is known of the places of the machine that go in.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) settings: &'a DockerSettings,
    /// Whether the workspace can be written.
    pub(crate) workspace_writable: bool,
    /// Further directories and files: where they are, without a link on the way, and where they are seen.
    pub(crate) binds: Vec<Bound>,
}

#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) host: PathBuf,
    pub(crate) inside: PathBuf,
    pub(crate) writable: bool,
}

impl Layout<'_> {
    /// The description for a supervisor.
    pub(crate) fn describe(&self) -> Result<Enclosed, Unusable> {
        let Self {
            settings,
            workspace_writable,
            binds,
        } = self;
        let mut pieces = Vec::with_capacity(64);
        for path in SYSTEM {
            pieces.push(Piece::Mirror(text(path)?));
        }
        for name in CONFIGURATION {
            pieces.push(Piece::Mirror(text(format!("/etc/{name}"))?));
        }
        for (name, content) in own_files(settings.workdir()) {
            pieces.push(Piece::File {
                inside: text(format!("/etc/{name}"))?,
                content: content.into_bytes(),
            });
        }
        for entry in &settings.tmpfs {
            pieces.push(memory(entry)?);
        }
        let mut bound = vec![(settings.workdir(), Source::Workspace, *workspace_writable)];
        for bind in binds {
            bound.push((&bind.inside, Source::Path(text(&bind.host)?), bind.writable));
        }
        // What lies in another one comes after it.
        bound.sort_by_key(|(inside, _, _)| inside.components().count());
        for (inside, source, writable) in bound {
            pieces.push(Piece::Bind {
                source,
                inside: text(place(inside)?)?,
                writable,
                executable: true,
            });
        }
        Ok(Enclosed {
            host_name: text(HOST_NAME)?,
            nobody: NOBODY,
            pieces,
            writable_root: !settings.read_only_root,
            limits: limits(settings)?,
            held: None,
        })
    }
}

fn text(text: impl AsRef<OsStr>) -> Result<CString, Unusable> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_nul| Unusable(format!("{} holds a NUL", text.display())))
}

/// A path inside, if something of the machine may be there.
fn place(path: &Path) -> Result<&Path, Unusable> {
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_own = OWN.iter().any(|own| path.starts_with(own));
    if path.is_absolute() && is_plain && !is_own && path.parent().is_some() {
        Ok(path)
    } else {
        Err(Unusable(format!(
            "nothing can be at {} inside the built-in sandbox; choose another path for it in sandbox.docker",
            path.display()
        )))
    }
}

fn own_files(home: &Path) -> [(&'static str, String); 6] {
    let (uid, gid) = INSIDE;
    [
        (
            "passwd",
            format!(
                "{ACCOUNT_NAME}:x:{uid}:{gid}::{}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
                home.display()
            ),
        ),
        ("group", format!("{ACCOUNT_NAME}:x:{gid}:\nnogroup:x:65534:\n")),
        (
            "hosts",
            format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost {HOST_NAME}\n"),
        ),
        ("hostname", format!("{HOST_NAME}\n")),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n".to_owned(),
        ),
        ("resolv.conf", String::new()),
    ]
}

/// `PATH[:OPTIONS]`, of which size, number of files, mode and `noexec` count.
fn memory(entry: &str) -> Result<Piece, Unusable> {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    let inside = text(place(Path::new(path))?)?;
    let (mut bytes, mut files, mut mode, mut executable) = (MEMORY_BYTES, MEMORY_FILES, 0o1777, true);
    for option in options.split(',').map(str::trim) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let invalid = || Unusable(format!("sandbox.docker.tmpfs: {option} of {path} is no option"));
        match name {
            "size" => bytes = amount(value).filter(|bytes| *bytes > 0).ok_or_else(invalid)?,
            "nr_inodes" => files = amount(value).filter(|files| *files > 0).ok_or_else(invalid)?,
            "mode" => {
                mode = u32::from_str_radix(value, 8)
                    .ok()
                    .filter(|mode| *mode <= 0o1777)
                    .ok_or_else(invalid)?;
            }
            "exec" => executable = true,
            "noexec" => executable = false,
            // Nothing inside has another account, and less than this is not to be had.
            _ => {}
        }
    }
    Ok(Piece::Memory {
        inside,
        bytes,
        files,
        mode,
        executable,
    })
}

/// A number, perhaps with `k`, `m` or `g` behind it, as the kernel reads it.
fn amount(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The kernel's numbers of limits by their names.
const LIMITS: [(&str, u8); 15] = [
    ("cpu", 0),
    ("fsize", 1),
    ("data", 2),
    ("stack", 3),
    ("core", CORE),
    ("rss", 5),
    ("nproc", PROCESS_COUNT),
    ("nofile", 7),
    ("memlock", 8),
    ("as", 9),
    ("locks", 10),
    ("sigpending", 11),
    ("msgqueue", 12),
    ("nice", 13),
    ("rtprio", 14),
];

const DATA: u8 = 2;
const CORE: u8 = 4;
const PROCESS_COUNT: u8 = 6;

fn limits(settings: &DockerSettings) -> Result<Vec<ProcessLimit>, Unusable> {
    let both = |resource, number| ProcessLimit {
        resource,
        soft: number,
        hard: number,
    };
    // The kernel starts the machine's handler of crashes, as root, with any limit but this one.
    let mut limits = vec![both(CORE, 1)];
    // The first process inside counts, too.
    let processes = settings.pids_limit.unwrap_or(PROCESSES).saturating_add(1);
    limits.push(both(PROCESS_COUNT, processes));
    if let Some(bytes) = settings.memory_bytes {
        limits.push(both(DATA, bytes));
    }
    for (name, limit) in &settings.ulimits {
        let known = LIMITS.iter().find(|(known, _)| known == name);
        let (_, resource) = known
            .ok_or_else(|| Unusable(format!("sandbox.docker.ulimits.{name}: there is no such limit")))?;
        // -1 is no limit.
        let number = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
        let limit = ProcessLimit {
            resource: *resource,
            soft: number(limit.soft),
            hard: number(limit.hard),
        };
        // Of two that say something, the lower one counts.
        match limits.iter_mut().find(|other| other.resource == limit.resource) {
            Some(other) if limit.resource != CORE => {
                other.hard = other.hard.min(limit.hard);
                other.soft = other.soft.min(limit.soft);
            }
            Some(_) => {}
            None => limits.push(limit),
        }
    }
    Ok(limits)
}

/// The whole environment of a command. What comes later counts.
pub(crate) fn environment(settings: &DockerSettings, inside: &Inside) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(&str, OsString)> = vec![
        ("HOME", settings.workdir().into()),
        ("LOGNAME", ACCOUNT_NAME.into()),
        ("PATH", PATH.into()),
        ("USER", ACCOUNT_NAME.into()),
    ];
    all.extend(
        settings
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.into())),
    );
    let own = inside.env.iter().filter(|(name, _)| name != "PATH");
    all.extend(own.map(|(name, value)| (name.as_str(), value.into())));
    if let Some(prepend) = &inside.path_prepend {
        match &inside.command {
            InsideCommand::Shell(_) => all.push((PREPEND, prepend.into())),
            InsideCommand::Argv(_) => {
                let path = all.iter().rev().find(|(name, _)| *name == "PATH");
                let mut whole = OsString::from(prepend);
                if let Some((_, path)) = path {
                    whole.push(":");
                    whole.push(path);
                }
                all.push(("PATH", whole));
            }
        }
    }
    all.push(("OPENCLAW_SHELL", "exec".into()));
    let mut environment: Vec<(OsString, OsString)> = Vec::with_capacity(all.len());
    for (name, value) in all {
        environment.retain(|(other, _)| other != name);
        environment.push((name.into(), value));
    }
    environment
}

/// The program that is started, as it is named inside, with its arguments.
pub(crate) fn program(inside: &Inside) -> (String, Vec<String>) {
    match &inside.command {
        InsideCommand::Argv(argv) => (argv.first().cloned().unwrap_or_default(), argv.clone()),
        InsideCommand::Shell(text) => {
            let mut arguments = vec!["sh".to_owned(), "-lc".to_owned()];
            if inside.path_prepend.is_some() {
                // The profile has set the PATH by then. The value is no part of the text.
                arguments.push(format!(
                    "PATH=\"${PREPEND}${{PATH:+:$PATH}}\"; export PATH; unset {PREPEND}\n{text}"
                ));
            } else {
                // Shells go on reading options there.
                if text.starts_with(['-', '+']) {
                    arguments.push("--".to_owned());
                }
                arguments.push(text.clone());
            }
            ("/bin/sh".to_owned(), arguments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_memory_is_read_with_its_options() {
        let of = |entry: &str| match memory(entry) {
            Ok(Piece::Memory {
                inside,
                bytes,
                files,
                mode,
                executable,
            }) => Some((inside.into_string().unwrap(), bytes, files, mode, executable)),
            Ok(_) | Err(_) => None,
        };
        let all = |path: &str, bytes, files, mode, executable| {
            Some((path.to_owned(), bytes, files, mode, executable))
        };
        for (entry, expected) in [
            ("/tmp", all("/tmp", MEMORY_BYTES, MEMORY_FILES, 0o1777, true)),
            ("/tmp:", all("/tmp", MEMORY_BYTES, MEMORY_FILES, 0o1777, true)),
            (
                "/a/b:rw,noexec,nosuid,size=64k,mode=0700,uid=0",
                all("/a/b", 64 << 10, MEMORY_FILES, 0o700, false),
            ),
            (
                "/t:size=2G,nr_inodes=1k",
                all("/t", 2 << 30, 1 << 10, 0o1777, true),
            ),
            ("/t:size=0", None),
            ("/t:size=50%", None),
            ("/t:mode=7777", None),
            ("/t:size=99999999999999999999", None),
            ("tmp", None),
            ("/", None),
            ("/dev/shm", None),
            ("/a/../proc", None),
        ] {
            assert_eq!(of(entry), expected, "{entry}");
        }
    }

    #[test]
    fn only_names_below_the_root_are_places() {
        for (path, is_place) in [
            ("/workspace", true),
            ("/process", true),
            ("/", false),
            ("", false),
            ("a", false),
            ("/proc", false),
            ("/proc/1", false),
            ("/sys/x", false),
            ("/dev", false),
            ("/a/..", false),
        ] {
            assert_eq!(place(Path::new(path)).is_ok(), is_place, "{path}");
        }
    }
}
