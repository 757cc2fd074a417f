//! What package managers and build tools may be told, as grammars: cargo, npm, go, make and pip.
//!
//! They run the workspace's own code (build scripts, tests, `scripts` of a package), as a bare entry for them says. What
//! they may not be told is which program, configuration or toolchain they work with.

use super::grammar::{Call, Grammar, Reader};
use crate::command::inline_eval::is_input;

const BUILD: &str = "-p: --package: --workspace --exclude: --all --lib --bins --bin: --examples --example: --tests --test: \
     --benches --bench: --all-targets -F: --features: --all-features --default-features -r --release --profile: -j: --jobs: \
     --keep-going --target: --target-dir:o --manifest-path: --message-format: --ignore-rust-version \
     --future-incompat-report --timings? --unit-graph --artifact-dir:o";
const NEXTEST: &str = "-E: --filterset: --filter-expr: --capture --nocapture --test-threads: --retries: --fail-fast \
     --run-ignored: -P: --cargo-profile: --status-level: --final-status-level: --failure-output: --success-output: \
     --partition: --tests-behavior: --no-tests: --hide-progress-bar";

pub(super) const CARGO: Grammar = Grammar {
    programs: &["cargo"],
    reader: Reader::Anywhere,
    options: &[
        "-V --version --list --explain: -v --verbose -q --quiet --color: --locked --offline --frozen -h --help -C:d",
    ],
    commands: &[
        (
            "add,remove,rm",
            &[
                "-p: --package: --dev --build --optional --default-features --rename: -F: --features: --path: --git: \
               --branch: --tag: --rev: --target: --manifest-path: --dry-run -n",
            ],
        ),
        (
            "audit,deny,machete,outdated,udeps,sort",
            &["=check,list -w --workspace --json --depth: --check"],
        ),
        (
            "bench,b,build,c,check,d,doc,t,test",
            &[
                BUILD,
                "--no-run --no-fail-fast --doc --deps --document-private-items",
            ],
        ),
        ("clean", &[BUILD, "--doc -n --dry-run"]),
        (
            "clippy,fix",
            &[
                BUILD,
                "--fix --allow-dirty --allow-staged --allow-no-vcs --deps --edition --broken-code",
            ],
        ),
        (
            "fetch,generate-lockfile,read-manifest,verify-project",
            &["--target: --manifest-path:"],
        ),
        (
            "fmt",
            &["--all --check -p: --package: --manifest-path: --message-format:"],
        ),
        (
            "hack check,hack build,hack test",
            &[
                BUILD,
                "--feature-powerset --each-feature --depth: --skip: --exclude-features: --include-features: --optional-deps? \
                 --no-default-features --exclude-no-default-features --exclude-all-features --clean-per-run --no-fail-fast",
            ],
        ),
        ("help,version,info,search", &["--limit:"]),
        ("init,new", &["> --lib --bin --name: --edition: --vcs:"]),
        (
            "install",
            &[
                "--path: --version: --vers: -f --force --bin: --bins --example: --examples --default-features -F: \
               --features: --all-features --debug --list --profile: --root:o --track -j: --jobs: --target:",
            ],
        ),
        (
            "llvm-cov",
            &[
                BUILD,
                "=report,clean,test --html --lcov --json --text --summary-only --output-path:o --output-dir:o",
            ],
        ),
        (
            "locate-project,pkgid",
            &["--workspace --message-format: --manifest-path: -p: --package:"],
        ),
        (
            "metadata",
            &[BUILD, "--format-version: --deps --filter-platform:"],
        ),
        ("nextest run,nextest list", &[BUILD, NEXTEST]),
        (
            "package,publish",
            &[BUILD, "--dry-run -n --allow-dirty --verify --metadata -l --list"],
        ),
        ("run,r", &["+", BUILD]),
        (
            "tree",
            &[
                BUILD,
                "-i? --invert? -e: --edges: --depth: --prune: --dedupe -d --duplicates --charset: -f: --format: \
                           --prefix:",
            ],
        ),
        ("uninstall", &["-p: --package: --bin: --root:"]),
        (
            "update",
            &["-p: --package: --precise: --recursive --aggressive --dry-run -w --workspace --manifest-path:"],
        ),
        (
            "vendor",
            &["> --versioned-dirs --respect-source-config --manifest-path: -s: --sync:"],
        ),
    ],
    check: is_plain_cargo,
};

/// A target may be a file that names a linker, and what stands behind the dashes is for a compiler here and there.
fn is_plain_cargo(call: &Call<'_>) -> bool {
    let is_triple = |target: &str| !target.contains('/') && !target.to_ascii_lowercase().ends_with(".json");
    let behind = call.behind_dashes();
    let is_behind_fine = match call.command {
        "clippy" => are_lints(behind),
        "fmt" => behind
            .iter()
            .all(|word| matches!(*word, "--check" | "-l" | "-v" | "-q")),
        "fix" => behind.is_empty(),
        _ => true,
    };
    is_behind_fine && call.values(&["target"]).all(is_triple)
}

/// `-D warnings -Aclippy::all`, as `rustc` takes them.
fn are_lints(words: &[&str]) -> bool {
    let is_lint = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-:".contains(&byte))
            && !name.starts_with('-')
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = ["-D", "-W", "-A", "-F"]
            .iter()
            .find_map(|level| word.strip_prefix(level));
        let name = match name {
            Some("") => words.next().copied(),
            name => name,
        };
        if !name.is_some_and(is_lint) {
            return false;
        }
    }
    true
}

const NPM_INSTALL: &str = "-S --save -P --save-prod -D --save-dev -O --save-optional -B --save-bundle -E --save-exact -g \
     --global --production --omit: --include: --only: --legacy-peer-deps --strict-peer-deps --force -f --ignore-scripts \
     --audit --fund --prefer-offline --prefer-online --offline --package-lock --package-lock-only --dry-run --link \
     --install-strategy: --cache:o --foreground-scripts --bin-links --save-peer --prefer-dedupe --engine-strict --depth:";

/// Settings that `npm config set` may write: they say how npm talks, and name no program and no place.
const NPM_SETTINGS: &[&str] = &[
    "audit",
    "color",
    "engine-strict",
    "fund",
    "legacy-peer-deps",
    "loglevel",
    "package-lock",
    "progress",
    "save-exact",
    "save-prefix",
    "update-notifier",
];

/// Keys of a package that `npm pkg set` may write: they describe it, and name nothing that is started or loaded.
const NPM_DESCRIPTIONS: &[&str] = &[
    "author",
    "description",
    "homepage",
    "license",
    "name",
    "private",
    "type",
    "version",
];

pub(super) const NPM: Grammar = Grammar {
    programs: &["npm"],
    reader: Reader::Anywhere,
    options: &[
        "-v --version -h --help -l --long -s --silent -q --quiet -d -dd -ddd --verbose --loglevel: --json --parseable -p \
         --color? --progress --prefix:d -C:d -w: --workspace: --workspaces --ws --include-workspace-root --if-present \
         --ignore-scripts --yes -y --update-notifier --timing --unicode --foreground-scripts --offline --prefer-offline",
    ],
    commands: &[
        (
            "access,ping,whoami,team,org,profile,doctor,root,bin,prefix",
            &["-g --global"],
        ),
        ("audit", &[NPM_INSTALL, "=fix,signatures --audit-level:"]),
        ("cache", &["=clean,verify,ls,add --force -f"]),
        (
            "ci,clean-install,install-clean,i,in,ins,inst,insta,instal,install,add,isntall,it,install-test,cit,\
             install-ci-test,update,up,upgrade,udpate,uninstall,unlink,remove,rm,r,un,link,ln,dedupe,ddp,prune,rebuild,rb",
            &[NPM_INSTALL],
        ),
        (
            "config list,config ls,config get,c ls,c get,c list,get",
            &["-g --global"],
        ),
        ("config set,set,c set", &["-g --global -L: --location:"]),
        ("config delete,config rm", &["-g --global -L: --location:"]),
        (
            "diff,outdated,fund,query,sbom",
            &["-g --global -a --all --depth: --omit: --sbom-format: --diff:"],
        ),
        (
            "dist-tag,dist-tags,owner,deprecate,token list,search,find,s",
            &["--long --searchlimit: --description"],
        ),
        ("explain,why,help", &[""]),
        // `npm init NAME` runs the package `create-NAME`.
        (
            "init",
            &[". --scope: --init-license: --init-version: --init-author-name: --init-type:"],
        ),
        (
            "ls,list,la,ll",
            &["-g --global -a --all --depth: --omit: --include: --link --package-lock-only"],
        ),
        (
            "pack,publish",
            &["--access: --tag: --dry-run --otp: --provenance --pack-destination:o"],
        ),
        ("pkg get,pkg fix", &[""]),
        ("pkg set", &[""]),
        ("run,run-script,rum,urn,start,stop,restart,test,t,tst", &[""]),
        (
            "version",
            &["-m:t --message:t --git-tag-version --preid: --allow-same-version --sign-git-tag --force -f"],
        ),
        ("view,info,show,v", &[""]),
    ],
    check: is_plain_npm,
};

fn is_plain_npm(call: &Call<'_>) -> bool {
    let is_harmless = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        NPM_SETTINGS.contains(&name)
    };
    match call.command {
        "config set" | "c set" | "set" => {
            // `set NAME VALUE`, or `set NAME=VALUE` as often as one likes.
            let mut named = call.operands.iter().filter(|word| word.contains('='));
            let is_pair = call.operands.len() == 2 && !call.operands.iter().any(|word| word.contains('='));
            if is_pair {
                call.operands.first().is_some_and(&is_harmless)
            } else {
                named.clone().count() == call.operands.len() && named.all(is_harmless)
            }
        }
        "pkg set" => call.operands.iter().all(|word| {
            let name = word.split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| NPM_DESCRIPTIONS.contains(&name))
        }),
        _ => true,
    }
}

const GO_BUILD: &str = "-C:d -a -n -p: -race -msan -asan -cover -covermode: -coverpkg: -v -work -x -buildmode: -buildvcs: \
     -gcflags:t -json -ldflags:t -mod: -tags: -trimpath -linkshared";

pub(super) const GO: Grammar = Grammar {
    programs: &["go"],
    reader: Reader::Names,
    options: &["-h -help -C:d"],
    commands: &[
        ("build,install", &["+", GO_BUILD, "-o:o"]),
        ("clean", &["-n -x -i -r -cache -testcache -modcache -fuzzcache"]),
        ("doc,help,version", &["-all -c -cmd -short -src -u -m -v"]),
        ("env", &["-json -changed"]),
        ("fmt,generate", &["+ -n -x -v -run: -skip: -mod:"]),
        ("get", &["-t -u? -v -d -x -tool"]),
        (
            "list",
            &[
                GO_BUILD,
                "-f:t -m -u -versions -retracted -deps -test -e -export -find -compiled -reuse:",
            ],
        ),
        (
            "mod download,mod graph,mod init,mod tidy,mod vendor,mod verify,mod why",
            &["-x -v -e -json -m -vendor -go: -compat: -diff"],
        ),
        ("mod edit", &["-json -print -fmt -require: -droprequire: -go:"]),
        ("run", &["+", GO_BUILD]),
        (
            "test",
            &[
                GO_BUILD,
                "-o:o -c -i -run:t -skip:t -bench:t -benchmem -benchtime: -count: -cpu: -short -timeout: -failfast \
                 -parallel: -shuffle: -list:t -fullpath -coverprofile:o -cpuprofile:o -memprofile:o -memprofilerate: \
                 -blockprofile:o -blockprofilerate: -mutexprofile:o -mutexprofilefraction: -trace:o -outputdir:o -fuzz:t \
                 -fuzztime: -fuzzminimizetime: -vet: -args",
            ],
        ),
        ("tool", &["."]),
        ("tool cover", &["-func: -html: -mode: -o:o"]),
        ("vet", &["+", GO_BUILD, "-c:"]),
        ("work use,work sync,work init,work vendor", &["-r -v"]),
    ],
    check: is_plain_go,
};

/// The linker's options may name another linker, the compiler's may name files that it writes, and `go run NAME@VERSION`
/// fetches the program that it runs.
fn is_plain_go(call: &Call<'_>) -> bool {
    let is_fetched = |word: &&str| word.contains('@');
    let runs_fetched = call.command == "run" && call.operands.first().is_some_and(is_fetched);
    !runs_fetched
        && call.values(&["ldflags"]).all(are_linker_flags)
        && call.values(&["gcflags"]).all(are_compiler_flags)
}

/// What a person turns off to debug, or has explained: `-N -l`, `all=-m=2`.
fn are_compiler_flags(flags: &str) -> bool {
    const KNOWN: &[&str] = &["-B", "-N", "-S", "-e", "-l", "-live", "-m"];
    let flags = flags.strip_prefix("all=").unwrap_or(flags);
    let mut words = flags
        .split_whitespace()
        .map(|word| word.trim_matches(['\'', '"']));
    words.all(|word| {
        let (name, level) = word.split_once('=').unwrap_or((word, ""));
        KNOWN.contains(&name) && level.chars().all(|digit| digit.is_ascii_digit())
    })
}

/// `-s -w -X name=value`.
fn are_linker_flags(flags: &str) -> bool {
    let flags = flags.strip_prefix("all=").unwrap_or(flags);
    let mut words = flags
        .split_whitespace()
        .map(|word| word.trim_matches(['\'', '"']));
    while let Some(word) = words.next() {
        let is_known = match word {
            "-s" | "-w" | "-s=true" | "-w=true" | "-buildid=" => true,
            "-X" => words
                .next()
                .is_some_and(|value| value.contains('=') && !value.starts_with('-')),
            word => word.strip_prefix("-X=").is_some_and(|value| value.contains('=')),
        };
        if !is_known {
            return false;
        }
    }
    true
}

/// Targets and variables, as a person types them. Another file with rules (`-f`, `-I`) is left out.
pub(super) const MAKE: Grammar = Grammar {
    programs: &["make", "gmake", "bmake", "pmake", "remake"],
    reader: Reader::Anywhere,
    options: &[
        "> -b -B --always-make -C:d --directory:d -d --debug? -h --help -i --ignore-errors -j? --jobs? -k --keep-going -S \
         --stop -l? --load-average? -L --check-symlink-times -m -n --just-print --dry-run --recon -O? --output-sync? -p \
         --print-data-base -q --question -r --no-builtin-rules -R --no-builtin-variables -s --silent --quiet -t --touch \
         --trace -v --version -w --print-directory --warn-undefined-variables --shuffle?",
    ],
    commands: &[],
    check: is_plain_make,
};

/// Variables that makefiles use for places and things. Others may be programs, so that they get no path.
const MAKE_PLACES: &[&str] = &[
    "BINDIR",
    "BUILDDIR",
    "BUILD_DIR",
    "D",
    "DATADIR",
    "DESTDIR",
    "DIR",
    "DOCDIR",
    "FILE",
    "FILES",
    "HOST",
    "IMAGE",
    "INCLUDEDIR",
    "LIBDIR",
    "MANDIR",
    "O",
    "OUT",
    "OUTDIR",
    "OUTPUT",
    "OUT_DIR",
    "PACKAGE",
    "PKG",
    "PREFIX",
    "REGISTRY",
    "SYSCONFDIR",
    "TARGET",
    "TEST",
    "TESTS",
    "URL",
];

/// Variables whose value is a program, of make's own rules and by custom.
const MAKE_PROGRAMS: &[&str] = &[
    "AR",
    "AS",
    "BASH",
    "BROWSER",
    "CARGO",
    "CC",
    "CHECKER",
    "CMAKE",
    "CO",
    "CPP",
    "CROSS_COMPILE",
    "CTANGLE",
    "CWEAVE",
    "CXX",
    "DOCKER",
    "EDITOR",
    "ENV",
    "F77",
    "FC",
    "GET",
    "GIT",
    "GO",
    "HOSTCC",
    "HOSTCXX",
    "INSTALL",
    "LD",
    "LEX",
    "LINT",
    "LN",
    "M2C",
    "MKDIR",
    "MV",
    "NODE",
    "NPM",
    "NPX",
    "OBJC",
    "OBJCOPY",
    "PAGER",
    "PC",
    "PIP",
    "PYTEST",
    "PYTHON",
    "PYTHON3",
    "RANLIB",
    "RM",
    "RUBY",
    "RUN",
    "RUNNER",
    "RUSTC",
    "SH",
    "SHELL",
    "STRIP",
    "SUDO",
    "TANGLE",
    "TEX",
    "TEXI2DVI",
    "WEAVE",
    "WRAPPER",
    "YACC",
];

/// Compilers that may take each other's place.
const MAKE_COMPILERS: &[&str] = &["c++", "cc", "clang", "clang++", "g++", "gcc"];

fn is_plain_make(call: &Call<'_>) -> bool {
    let consists_of = |text: &str, marks: &[u8]| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
    };
    call.operands.iter().all(|word| match word.split_once('=') {
        None => consists_of(word, b"_./%+@,:~-") && *word != "-",
        Some((name, value)) => {
            let upper = name.to_ascii_uppercase();
            let is_name = !name.is_empty() && consists_of(name, b"_");
            let is_program = MAKE_PROGRAMS.contains(&upper.as_str())
                || upper.starts_with("MAKE")
                || ["FLAGS", "MAKE", "SHELL", "_CMD", "_BIN"]
                    .iter()
                    .any(|ending| upper.ends_with(ending));
            let is_compiler = matches!(name, "CC" | "CXX") && MAKE_COMPILERS.contains(&value);
            // Compilers and linkers read more words in `@FILE`.
            let is_option = value.starts_with(['-', '@']);
            let is_word = consists_of(value, b"_.:,+@-");
            let is_place = MAKE_PLACES.contains(&upper.as_str()) && consists_of(value, b"_./:,+@~-");
            is_compiler || (is_name && !is_program && !is_option && (is_word || is_place))
        }
    })
}

const PIP_INSTALL: &str = "-r: --requirement: -c: --constraint: -e: --editable: -U --upgrade --upgrade-strategy: --user --pre --deps \
     --force-reinstall -I --ignore-installed --ignore-requires-python --build-isolation --use-pep517 --compile \
     --warn-script-location --warn-conflicts --break-system-packages --no-binary: --only-binary: --prefer-binary \
     --require-hashes --dry-run --clean --root-user-action: --platform: --python-version: --implementation: --abi:";

/// What installs runs its own code, from the index that is configured. Another interpreter, place, index or address is
/// left out.
pub(super) const PIP: Grammar = Grammar {
    programs: &["pip"],
    reader: Reader::Anywhere,
    options: &[
        "-h --help -V --version -v --verbose -q --quiet --isolated --require-virtualenv --no-input --no-color \
         --disable-pip-version-check --no-cache-dir --cache-dir:o --timeout: --retries: --exists-action: \
         --no-python-version-warning --progress-bar:",
    ],
    commands: &[
        ("install", &[PIP_INSTALL]),
        ("download", &[PIP_INSTALL, "-d:o --dest:o"]),
        ("wheel", &[PIP_INSTALL, "-w:o --wheel-dir:o"]),
        (
            "uninstall",
            &["-y --yes -r: --requirement: --break-system-packages"],
        ),
        (
            "list",
            &[
                "-o --outdated -u --uptodate -e --editable -l --local --user --pre --format: --not-required --exclude: \
                 --include-editable --exclude-editable",
            ],
        ),
        ("show", &["-f --files"]),
        (
            "freeze",
            &["-r: --requirement: -l --local --user --all --exclude: --exclude-editable"],
        ),
        ("index versions", &["--pre --json"]),
        ("hash", &["-a: --algorithm:"]),
        (
            "check,help,inspect,debug,config list,config get,config debug,cache dir,cache info,cache list,cache remove,cache purge",
            &["--user --site --global --local --format:"],
        ),
    ],
    check: is_plain_pip,
};

fn is_plain_pip(call: &Call<'_>) -> bool {
    let is_file = |file: &str| !file.contains("://") && !is_input(file);
    let mut lists = call.values(&["r", "requirement", "c", "constraint"]);
    let mut own = call.values(&["e", "editable"]);
    let takes_names = matches!(call.command, "install" | "download" | "wheel");
    lists.all(is_file)
        && own.all(is_own_package)
        && (!takes_names
            || call
                .operands
                .iter()
                .all(|word| is_own_package(word) || is_package(word)))
}

fn is_own_package(word: &str) -> bool {
    word.strip_prefix('.').is_some_and(|extras| {
        extras.is_empty() || (extras.starts_with('[') && is_package(&format!("x{extras}")))
    })
}

/// `NAME[extra]>=1,<2`, and neither a path, an address nor an archive.
fn is_package(word: &str) -> bool {
    const ARCHIVES: &[&str] = &[".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz"];
    word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.,[]=<>!~*+".contains(&byte))
        && !ARCHIVES
            .iter()
            .any(|ending| word.to_ascii_lowercase().ends_with(ending))
}
