//! What some tools of daily use may be told, as grammars: man and roff, editors, systemctl, rustup, the compilers of Rust and
//! Java, keys of ssh, and xcrun.
//!
//! Left out on purpose: devices, libraries, servers and sources of configuration that the call would choose.

use super::grammar::{Call, Grammar, Reader, any_call};

/// Whether a value is a name, which leads to no file.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte))
}

pub(super) const MAN: Grammar = Grammar {
    programs: &["man"],
    reader: Reader::Anywhere,
    options: &[
        "-a --all -f --whatis -k --apropos -K --global-apropos -w --where --path --location -W --where-cat --location-cat -i \
         --ignore-case -I --match-case -s: -S: --sections: -l --local-file -d --debug -D --default -V --version -? --help \
         --usage -u --update -e: --extension: -7 --ascii --names-only --regex --wildcard -T? --troff-device?",
    ],
    commands: &[],
    check: names_its_device,
};

/// Without `-U`, what a text says starts nothing.
pub(super) const ROFF: Grammar = Grammar {
    programs: &["groff", "nroff", "troff", "gtroff", "psroff"],
    reader: Reader::Anywhere,
    options: &[
        "-a -b -c -C -e -E -g -G -h -i -k -N -p -R -s -S -t -v -V -w: -W: -z -Z -m: -T: -K: -n: -o: -r: -d: --help --version",
    ],
    commands: &[],
    check: names_its_device,
};

/// A device is a directory whose files say what is started, and its name may be a path.
fn names_its_device(call: &Call<'_>) -> bool {
    let mut values = call.values(&["T", "troff-device", "m", "K"]);
    values.all(|value| value.is_empty() || is_name(value))
}

pub(super) const VI: Grammar = Grammar {
    programs: &[
        "vi", "vim", "nvim", "view", "vimdiff", "gvim", "gview", "rvim", "rview", "evim",
    ],
    reader: Reader::Anywhere,
    options: &[
        "-A -b -d -f -g -h -H -m -M -n -N -o? -O? -p? -R -y -Z --clean --noplugin --nofork --not-a-term --ttyfail --literal \
         --help --version",
    ],
    commands: &[],
    check: edits_files,
};

/// An address is opened by a program that it may have words for. Behind the number of windows go more options.
fn edits_files(call: &Call<'_>) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut files = call.operands.iter();
    files.all(|file| !file.contains("://") && !file.contains('`'))
        && call.values(&["o", "O", "p"]).all(is_number)
}

pub(super) const EMACS: Grammar = Grammar {
    programs: &["emacs", "emacs-gtk", "emacs-lucid", "emacs-nox", "emacs-pgtk"],
    reader: Reader::Names,
    options: &[
        "-nw -no-window-system -Q -quick -q -no-init-file -no-site-file -no-splash -D -basic-display -version -help",
    ],
    commands: &[],
    check: edits_files_here,
};

pub(super) const EMACSCLIENT: Grammar = Grammar {
    programs: &["emacsclient"],
    reader: Reader::Names,
    options: &[
        "-n -no-wait -c -create-frame -t -nw -tty -q -quiet -u -suppress-output -r -reuse-frame -V -version -H -help",
    ],
    commands: &[],
    check: edits_files_here,
};

/// `/ssh:host:/file` is opened by a program.
fn edits_files_here(call: &Call<'_>) -> bool {
    call.operands.iter().all(|file| !file.contains(':'))
}

const UNITS: &str = "--user --system -a --all -l --full -n: --lines: -o: --output: --pager --legend -q --quiet --now -t: --type: \
     --state: -p: --property: --value --block -f --force --failed -s: --signal: --kill-who: --plain --reverse --before \
     --after --wait --ask-password --runtime --recursive --show-types --with-dependencies";

pub(super) const SYSTEMCTL: Grammar = Grammar {
    programs: &["systemctl"],
    reader: Reader::Anywhere,
    options: &[UNITS, "-h --help --version"],
    commands: &[(
        "status,start,stop,restart,reload,try-restart,reload-or-restart,try-reload-or-restart,enable,disable,reenable,preset,\
         is-active,is-enabled,is-failed,is-system-running,list-units,list-unit-files,list-timers,list-sockets,list-paths,\
         list-dependencies,list-jobs,list-automounts,show,cat,daemon-reload,daemon-reexec,reset-failed,mask,unmask,kill,\
         get-default,show-environment,cancel,isolate,poweroff,reboot,suspend,hibernate",
        &[""],
    )],
    check: names_units,
};

/// A path is a unit of the call's own.
fn names_units(call: &Call<'_>) -> bool {
    call.operands.iter().all(|unit| !unit.contains('/'))
}

/// `run` starts what it is told, and a toolchain that is linked is a directory of programs.
pub(super) const RUSTUP: Grammar = Grammar {
    programs: &["rustup"],
    reader: Reader::Anywhere,
    options: &["-v --verbose -q --quiet -V --version -h --help"],
    commands: &[(
        "check,show,show active-toolchain,show home,update,upgrade,which,default,install,target list,target add,target remove,\
         target install,target uninstall,component list,component add,component remove,toolchain list,toolchain install,\
         toolchain add,toolchain uninstall,toolchain remove,override list,override set,override unset,self update",
        &[
            "--profile: -c: --component: -t: --target: --toolchain: --self-update --force --allow-downgrade --force-non-host \
             --installed",
        ],
    )],
    check: names_toolchains,
};

fn names_toolchains(call: &Call<'_>) -> bool {
    let mut values = call.options.iter().filter_map(|(_, value)| *value);
    let is_no_path = |word: &str| !word.contains('/');
    call.operands.iter().all(|word| is_no_path(word)) && values.all(is_no_path)
}

pub(super) const RUSTC: Grammar = Grammar {
    programs: &["rustc"],
    reader: Reader::Anywhere,
    options: &[
        "-O -g -v -V -h --test --crate-type: --crate-name: --edition: -o:o --out-dir:o --emit: --print: --target: --cfg: \
         --check-cfg: --cap-lints: -A: -W: -D: -F: --allow: --warn: --deny: --forbid: -C: --codegen: --verbose --version \
         --explain: --error-format: --color: --help --json:",
    ],
    commands: &[],
    check: compiles_plainly,
};

const RUSTC_CODEGEN: &[&str] = &[
    "codegen-units",
    "debug-assertions",
    "debuginfo",
    "embed-bitcode",
    "extra-filename",
    "lto",
    "metadata",
    "opt-level",
    "overflow-checks",
    "panic",
    "prefer-dynamic",
    "strip",
    "target-cpu",
    "target-feature",
];

/// No linker, no file of further words, no description of a target in a file, and no output that stands in a value.
fn compiles_plainly(call: &Call<'_>) -> bool {
    let is_plain_codegen = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, "on"));
        RUSTC_CODEGEN.contains(&name) && is_name(value.trim_start_matches(['+', '-']))
    };
    let mut operands = call.operands.iter();
    call.values(&["C", "codegen"]).all(is_plain_codegen)
        && call.values(&["emit", "print"]).all(|value| !value.contains('='))
        && call
            .values(&["target"])
            .all(|value| is_name(value) && !value.ends_with("json"))
        && operands.all(|operand| !operand.starts_with('@'))
}

pub(super) const JAVAC: Grammar = Grammar {
    programs: &["javac"],
    reader: Reader::Names,
    options: &[
        "-d:o -h:o -s:o -cp: -classpath: -class-path: -sourcepath: -source-path: -source: -target: -release: -encoding: -g \
         -g:none -nowarn -Xlint -Xlint:all -Xlint:none -Xlint:unchecked -Xlint:deprecation -verbose -version -help -Werror \
         -deprecation -parameters -proc:none -implicit:none -implicit:class -enable-preview",
    ],
    commands: &[],
    check: processes_nothing,
};

/// What is on a class path may have processors, which the compiler runs.
fn processes_nothing(call: &Call<'_>) -> bool {
    let has_path = call.values(&["cp", "classpath", "class-path"]).next().is_some();
    let is_without = call.options.iter().any(|(name, _)| *name == "proc:none");
    let mut operands = call.operands.iter();
    (is_without || !has_path) && operands.all(|operand| !operand.starts_with('@'))
}

/// Other options name a library.
pub(super) const SSH_KEYGEN: Grammar = Grammar {
    programs: &["ssh-keygen"],
    reader: Reader::Anywhere,
    options: &[
        "-q -t: -N:t -f:o -C:t -b: -l -y -B -F: -R: -H -E: -v -p -P:t -m: -e -i -c -a: -L -Y: -n: -I:t -r:",
    ],
    commands: &[],
    check: any_call,
};

pub(super) const SSH_ADD: Grammar = Grammar {
    programs: &["ssh-add"],
    reader: Reader::Anywhere,
    options: &["-l -L -d -D -x -X -t: -q -v -c -k -A -K -T -E:"],
    commands: &[],
    check: any_call,
};

/// It runs its operand.
pub(super) const XCRUN: Grammar = Grammar {
    programs: &["xcrun"],
    reader: Reader::Names,
    options: &[
        ". -sdk: -toolchain: -find: -show-sdk-path -show-sdk-version -show-sdk-build-version -show-sdk-platform-path \
         -show-sdk-platform-version -show-toolchain-path -version -kill-cache -help -no-cache -log -verbose",
    ],
    commands: &[],
    check: any_call,
};

/// Options that name no file, and how many seconds or bytes some of them take.
const SOCAT_OPTIONS: &str = "-d -dd -ddd -v -x -u -U -s -h -hh -V -4 -6";
const SOCAT_ADDRESSES: &str = "- stdio stdin stdout tcp tcp4 tcp6 tcp-connect tcp4-connect tcp6-connect tcp-listen tcp-l \
     tcp4-listen tcp6-listen udp udp4 udp6 udp-connect udp-listen udp-l udp4-listen udp-recv udp-recvfrom udp-sendto \
     unix unix-connect unix-client unix-listen unix-l abstract abstract-connect abstract-listen openssl ssl openssl-listen vsock";
const SOCAT_SETTINGS: &str = "fork reuseaddr reuseport crlf cr verify raw rawer nodelay keepalive pf bind sp sourceport \
     connect-timeout interval retry forever ignoreeof shut-none shut-down echo range max-children backlog broadcast";

/// Addresses that are no program and no file, with settings that name none.
pub(super) fn is_plain_socat(words: &[&str]) -> bool {
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
    let is_address = |word: &str| {
        let word = word.to_ascii_lowercase();
        let mut parts = word.split(',');
        let keyword = parts.next().and_then(|address| address.split(':').next());
        keyword.is_some_and(|keyword| is_in(SOCAT_ADDRESSES, keyword))
            && parts.all(|setting| is_in(SOCAT_SETTINGS, setting.split('=').next().unwrap_or_default()))
    };
    let is_amount = |word: &str| {
        let amount = ["-t", "-T", "-b"]
            .iter()
            .find_map(|option| word.strip_prefix(option));
        amount.is_some_and(|amount| amount.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    words.iter().all(|word| {
        is_in(SOCAT_OPTIONS, word)
            || is_amount(word)
            || is_address(word)
            || word.bytes().all(|byte| byte.is_ascii_digit())
    })
}
