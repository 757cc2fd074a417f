//! What builders and managers of packages may be told, as grammars: pixi, nix, mvn, gradle, cmake, pnpm, yarn, bundle, poetry
//! and uv.
//!
//! Left out on purpose: what starts a program that the call names, other directories and files to build from, and settings.

use super::{
    grammar::{Call, Grammar, Reader, any_call},
    tools::is_name,
};

pub(super) const PIXI: Grammar = Grammar {
    programs: &["pixi"],
    reader: Reader::Anywhere,
    options: &["-v --verbose -q --quiet --color: --progress -V --version -h --help"],
    commands: &[(
        "install,i,add,remove,rm,list,ls,info,lock,tree,t,update,upgrade,search,init,clean,task list,config list",
        &[
            "--locked --frozen -e: --environment: -a --all --json -p: --platform: --pypi -f: --feature: --check -n --dry-run \
             --explicit -x --limit: -l:",
        ],
    )],
    check: names_its_packages,
};

/// A package of Python may be a directory, whose code builds it.
fn names_its_packages(call: &Call<'_>) -> bool {
    call.command == "init" || !call.operands.iter().any(|word| word.contains(['/', '@']))
}

pub(super) const NIX: Grammar = Grammar {
    programs: &["nix"],
    reader: Reader::Anywhere,
    options: &[
        "--version --help -v --verbose --quiet -L --print-build-logs --json --show-trace --offline --refresh -j: --max-jobs: \
         --cores: -k --keep-going --extra-experimental-features:",
    ],
    commands: &[
        (
            "build",
            &["-o:o --out-link:o --link --print-out-paths --dry-run --rebuild"],
        ),
        ("eval", &["--raw"]),
        (
            "search,log,path-info,why-depends,derivation show,hash path,hash file,flake show,flake metadata,flake info,\
             flake check,flake update,flake lock,profile list,registry list,show-config,config show,store info,store ping,\
             store gc",
            &["-r --recursive -s --size -S --closure-size -h --human-readable --all-systems --build"],
        ),
    ],
    check: any_call,
};

pub(super) const NIX_BUILD: Grammar = Grammar {
    programs: &["nix-build"],
    reader: Reader::Anywhere,
    options: &[
        "-A: --attr: -o:o --out-link:o -j: --max-jobs: --cores: -k --keep-going -K --keep-failed -Q --dry-run \
         --show-trace -v --version --help",
    ],
    commands: &[],
    check: any_call,
};

const MVN_FLAGS: &str = "-q -o -B -U -e -X -V -v -h -am -amd -N -fae -ff -fn -nsu -ntp -C -c --quiet --offline --batch-mode \
     --update-snapshots --errors --debug --show-version --version --help --also-make --also-make-dependents --non-recursive \
     --fail-at-end --fail-fast --fail-never --no-snapshot-updates --no-transfer-progress";
const MVN_VALUES: &str = "-pl --projects -rf --resume-from -T --threads -P --activate-profiles";
/// Phases, and goals of plug-ins that build, test or look.
const MVN_GOALS: &str = "validate initialize generate-sources process-sources generate-resources process-resources compile \
     process-classes generate-test-sources test-compile process-test-classes test prepare-package package \
     pre-integration-test integration-test post-integration-test verify install deploy pre-clean clean site \
     clean:clean compiler:compile compiler:testCompile resources:resources surefire:test failsafe:verify jar:jar \
     install:install dependency:tree dependency:list dependency:resolve dependency:analyze dependency:go-offline \
     help:effective-pom versions:display-dependency-updates versions:display-plugin-updates spotless:apply spotless:check \
     checkstyle:check jacoco:report spring-boot:run quarkus:dev";
const MVN_PROPERTIES: &str = "skipTests skipITs test it.test maven.test.skip maven.javadoc.skip failIfNoTests \
     surefire.failIfNoSpecifiedTests checkstyle.skip spotless.check.skip revision changelist style.color \
     maven.compiler.source maven.compiler.target maven.compiler.release";

/// What may stand alone: names of profiles, modules and tests.
fn is_maven_name(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.,:+#*!".contains(&byte))
}

pub(super) fn is_plain_mvn(words: &[&str]) -> bool {
    let is_in = |list: &str, word: &str| list.split(' ').any(|known| known == word);
    let is_property = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        is_in(MVN_PROPERTIES, name) && is_maven_name(value)
    };
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let is_known = if is_in(MVN_VALUES, word) {
            words
                .next()
                .is_some_and(|value| !value.starts_with('-') && value.split('/').all(is_maven_name))
        } else if is_in(MVN_FLAGS, word) || is_in(MVN_GOALS, word) {
            true
        } else if let Some(property) = word.strip_prefix("-D") {
            is_property(property)
        } else {
            let glued = word.strip_prefix("-P").or_else(|| word.strip_prefix("-T"));
            glued.is_some_and(is_maven_name)
        };
        if !is_known {
            return false;
        }
    }
    true
}

pub(super) const GRADLE: Grammar = Grammar {
    programs: &["gradle", "gradlew"],
    reader: Reader::Anywhere,
    options: &[
        "-i --info -d --debug -q --quiet -w --warn -s --stacktrace -S --full-stacktrace --daemon --offline --continue --parallel \
         --build-cache --configuration-cache -m --dry-run --rerun-tasks --rerun --refresh-dependencies --scan -v --version \
         -h -? --help --stop --status --console: --warning-mode: --max-workers: -x: --exclude-task: --tests:t -P:t \
         --project-prop:t -a --no-rebuild --profile --watch-fs -t --configure-on-demand",
    ],
    commands: &[],
    check: runs_tasks,
};

fn runs_tasks(call: &Call<'_>) -> bool {
    let is_task = |task: &&str| {
        task.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    let is_property = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, "on"));
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && is_name(value)
    };
    call.operands.iter().all(is_task) && call.values(&["P", "project-prop"]).all(is_property)
}

pub(super) const CMAKE: Grammar = Grammar {
    programs: &["cmake"],
    reader: Reader::Anywhere,
    options: &[
        "-S: -B:o -G: -D:t -W? -L -A -H -N -j? -t: -v --build: --target: --config: --parallel? --clean-first --verbose --fresh \
         --install: --prefix:o --component: --strip --preset: --list-presets? --log-level: --version --help --workflow",
    ],
    commands: &[],
    check: configures_plainly,
};

/// What may stand in the name of a variable whose value is a file, a directory or a program, which may be called `ON`.
const CMAKE_FILES: &[&str] = &[
    "DIR",
    "ROOT",
    "PATH",
    "FILE",
    "INCLUDE",
    "CMAKE",
    "COMPILER",
    "COMMAND",
    "EXECUTABLE",
    "LAUNCHER",
    "PROGRAM",
    "SOURCE",
];

/// Switches, and the number of jobs for the builder.
fn configures_plainly(call: &Call<'_>) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_switch =
        |value: &str| matches!(value, "ON" | "OFF" | "TRUE" | "FALSE" | "YES" | "NO") || is_digits(value);
    let is_plain = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match name.split_once(':').map_or(name, |(name, _)| name) {
            "CMAKE_BUILD_TYPE" => is_name(value),
            "CMAKE_INSTALL_PREFIX" => true,
            "CMAKE_EXPORT_COMPILE_COMMANDS"
            | "CMAKE_VERBOSE_MAKEFILE"
            | "CMAKE_CXX_STANDARD"
            | "CMAKE_C_STANDARD"
            | "CMAKE_POSITION_INDEPENDENT_CODE" => is_switch(value),
            name => {
                is_switch(value)
                    && !CMAKE_FILES
                        .iter()
                        .any(|part| name.to_ascii_uppercase().contains(part))
            }
        }
    };
    let mut for_builder = call.behind_dashes().iter();
    // What builds may take a target for a variable.
    let mut targets = call.operands.iter().copied().chain(call.values(&["target", "t"]));
    call.values(&["D"]).all(is_plain)
        && targets.all(|target| !target.contains('='))
        && for_builder.all(|word| word.strip_prefix("-j").is_some_and(is_digits) || is_digits(word))
}

const JS: &str = "-v --version -h --help -s --silent --verbose --json -r --recursive --filter: -F: -w --workspace-root --color? \
     --reporter: --stream --parallel --aggregate-output --if-present --loglevel: --offline --prefer-offline --ignore-scripts \
     --non-interactive";
const JS_INSTALL: &str = "-D --save-dev -P --save-prod --production --prod -O --save-optional -E --save-exact --peer --save-peer \
     --dev --optional --exact --frozen-lockfile --prefer-frozen-lockfile --immutable --immutable-cache --check-cache \
     --lockfile-only --fix-lockfile --force -f --ignore-engines --ignore-optional --network-timeout: --pure-lockfile --latest \
     -L --mode: --strict-peer-dependencies --shamefully-hoist --depth: --lockfile";
const JS_SHOW: &str = "--depth: --prod -P --dev -D --long --audit-level: --level: --pattern: -a --all";
const JS_PUBLISH: &str = "--tag: --access: --dry-run --git-checks --otp: --pack-destination:o --new-version:";

pub(super) const PNPM: Grammar = Grammar {
    programs: &["pnpm"],
    reader: Reader::Anywhere,
    options: &[JS],
    commands: &[
        (
            "install,i,add,remove,rm,uninstall,un,update,up,upgrade,dedupe,prune,rebuild,rb,fetch,import",
            &[JS_INSTALL, "--check"],
        ),
        (
            "list,ls,la,ll,why,outdated,audit,view,info,show,licenses list,licenses ls,store path,store prune,store status,\
             root,bin,config list,config get",
            &[JS_SHOW],
        ),
        // A script that is not there may be a program of that name.
        (
            "run,run-script,test,t,tst,start,build,dev,lint,format,typecheck,preview",
            &["+"],
        ),
        ("publish,pack", &[JS_PUBLISH]),
        ("init", &["."]),
    ],
    check: any_call,
};

/// Scripts that have their usual name as a subcommand, behind which are words of their own.
const YARN_SCRIPTS: &[&str] = &[
    "test",
    "start",
    "build",
    "dev",
    "lint",
    "format",
    "typecheck",
    "check",
    "preview",
];

/// The words of yarn with the name of a script behind `run`, and what it does in another workspace as if it were here.
pub(super) fn yarn_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let own = match words {
        ["workspace", name, own @ ..] if !name.starts_with('-') && !own.is_empty() => own,
        _ => words,
    };
    let is_script = own.first().is_some_and(|word| YARN_SCRIPTS.contains(word));
    let run = is_script.then_some("run");
    run.into_iter().chain(own.iter().copied()).collect()
}

pub(super) const YARN: Grammar = Grammar {
    programs: &["yarn", "yarnpkg"],
    reader: Reader::Anywhere,
    options: &[JS, JS_INSTALL],
    commands: &[
        ("install,add,remove,up,upgrade,dedupe", &["--check"]),
        (
            "list,why,info,outdated,audit,licenses list,workspaces list,workspaces info,config list,config get,cache dir,\
             cache list,cache clean,bin,versions",
            &[JS_SHOW],
        ),
        ("run", &["+"]),
        ("publish,pack", &[JS_PUBLISH]),
        ("init", &[". -y -p --private"]),
    ],
    check: any_call,
};

pub(super) const BUNDLE: Grammar = Grammar {
    programs: &["bundle", "bundler"],
    reader: Reader::Anywhere,
    options: &["-v --version -h --help --verbose --quiet --color -j: --jobs: --retry:"],
    commands: &[(
        "install,i,update,check,outdated,list,show,info,add,remove,lock,clean,cache,package,pack,platform,licenses,doctor,\
         config list,config get",
        &[
            "--local --deployment --full-index --prefer-local --redownload --all --conservative --patch --minor --major \
             --strict --pre --group: --parseable --porcelain --name-only --paths --dry-run --force --skip-install \
             --add-platform: --remove-platform: -g: --version: --update",
        ],
    )],
    check: any_call,
};

pub(super) const POETRY: Grammar = Grammar {
    programs: &["poetry"],
    reader: Reader::Anywhere,
    options: &["-q --quiet -v --verbose -n --no-interaction --ansi --no-ansi --cache -V --version -h --help"],
    commands: &[
        (
            "install,sync,update,add,remove,lock,show,check,version,env info,env list,search,publish,about,self show",
            &[
                "--root --with: --without: --only: --only-root --sync -E: --extras: --all-extras --all-groups -G: --group: -D \
                 --dev --dry-run -l --latest -o --outdated -t --tree -a --all -T --top-level -s --short --update --regenerate \
                 --lock --strict -p --path",
            ],
        ),
        (
            "build,export",
            &[
                "-o:o --output:o -f: --format: --with: --without: --only: --all-extras -E: --extras: --without-hashes",
            ],
        ),
    ],
    check: any_call,
};

pub(super) const UV: Grammar = Grammar {
    programs: &["uv"],
    reader: Reader::Anywhere,
    options: &[
        "-q --quiet -v --verbose --offline --progress --color: -n --no-cache -V --version -h --help --native-tls -p: --python:",
    ],
    commands: &[
        (
            "sync,lock,add,remove,tree,export,version,init,build",
            &[
                "--frozen --locked --dev --all-extras --extra: --group: --only-group: --all-groups --only-dev --install-project \
                 --upgrade -U -P: --upgrade-package: --optional: --package: --all-packages --check --dry-run --depth: --invert \
                 --outdated --hashes --format: -o:o --output-file:o --out-dir:o --wheel --sdist --lib --app --name: --bump: \
                 --short --inexact --exact --active --prerelease: --resolution:",
            ],
        ),
        ("venv", &["> --seed --clear --system-site-packages --prompt:"]),
        (
            "pip install,pip list,pip freeze,pip show,pip check,pip compile,pip sync,pip tree,pip uninstall",
            &[
                "-r: --requirements: --requirement: -c: --constraints: --constraint: -e: --editable: --system -U --upgrade -P: \
                 --upgrade-package: -o:o --output-file:o --format: --deps --extra: --all-extras --generate-hashes --strict \
                 --dry-run --outdated --prerelease: --resolution: --reinstall --user --exclude-editable --annotate --header",
            ],
        ),
        (
            "python list,python install,python uninstall,python find,python dir,python pin",
            &["--only-installed --all-versions --reinstall"],
        ),
        ("cache dir,cache clean,cache prune,self version", &[""]),
    ],
    check: names_its_python,
};

/// A Python that is no version is a program that is started to ask for it. What is installed has a name, or lies here.
fn names_its_python(call: &Call<'_>) -> bool {
    let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_package = |text: &str| !text.contains(['/', '@']);
    let mut operands = call.operands.iter();
    let are_operands = match call.command {
        command if command.starts_with("python ") => operands.all(|text| is_version(text)),
        "venv" | "init" | "cache clean" => true,
        "pip compile" | "pip sync" => operands.all(|file| !file.contains("://")),
        _ => operands.all(|text| is_package(text)),
    };
    are_operands
        && call.values(&["p", "python"]).all(is_version)
        && call.values(&["e", "editable"]).all(is_package)
}
