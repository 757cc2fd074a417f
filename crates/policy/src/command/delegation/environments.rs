//! What managers of environments and tools may be told, as grammars: pipenv, conda and mise.
//!
//! Left out on purpose: what starts a program that the call names, another interpreter, place, channel or index, files of the
//! call that say what is installed, and settings. A word of `mise` that is no subcommand is a task.

use super::{
    grammar::{Call, Grammar, Reader},
    tools::is_name,
};

pub(super) const PIPENV: Grammar = Grammar {
    programs: &["pipenv"],
    reader: Reader::Anywhere,
    options: &["-q --quiet -v --verbose --bare --version -h --help --venv --where --py --rm --clear"],
    commands: &[(
        "install,sync,lock,update,upgrade,uninstall,graph,check,clean,verify,requirements,outdated",
        &[
            "-d --dev --deploy --skip-lock --system --ignore-pipfile --pre --all --all-dev --json --json-tree --reverse --keep-outdated \
           --dev-only --hash --outdated --dry-run",
        ],
    )],
    check: names_what_is_installed,
};

const CONDA_INSTALL: &str = "-y --yes -n: --name: -q --quiet -v --verbose --json -d --dry-run --force-reinstall --freeze-installed \
     --update-deps --update-all --all --only-deps --deps --no-pin --pin --offline --download-only --show-channel-urls --copy \
     --strict-channel-priority --override-channels -S";

pub(super) const CONDA: Grammar = Grammar {
    programs: &["conda", "mamba", "micromamba"],
    reader: Reader::Anywhere,
    options: &["-V --version -h --help"],
    commands: &[
        ("create,install,update,upgrade,remove,uninstall", &[CONDA_INSTALL]),
        (
            "list,info,search,env list,clean,compare,config get,notices",
            &[
                "-n: --name: --json -e --envs -s --system -a --all -f --full-name -y --yes -q --quiet -v --verbose --export --revisions \
               --tarballs --packages --index-cache --info -d --dry-run",
            ],
        ),
    ],
    check: names_what_is_installed,
};

pub(super) const MISE: Grammar = Grammar {
    programs: &["mise"],
    reader: Reader::Anywhere,
    options: &["-q --quiet -v --verbose --silent -y --yes -j: --jobs: -h --help -V --version"],
    commands: &[(
        "ls,list,ls-remote,list-all,current,where,which,outdated,doctor,dr,version,v,latest,install,i,use,u,upgrade,up,uninstall,\
         prune,plugins ls,plugins list,settings ls,settings list,settings get,tasks ls,tasks list,config ls,config list,alias ls",
        &[
            "-c --current -g --global -i --installed -m --missing -f --force -n --dry-run --json -J --all --bump -l --local --prunable",
        ],
    )],
    check: names_what_is_installed,
};

/// `NAME`, `NAME==1.2`, `NAME@20`, and no path, address or channel.
fn names_what_is_installed(call: &Call<'_>) -> bool {
    const ARCHIVES: &[&str] = &[
        ".conda", ".tar.bz2", ".whl", ".zip", ".gz", ".txt", ".yml", ".yaml",
    ];
    let is_plain = |word: &&str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,[]=<>!~*+@".contains(&byte);
        word.starts_with(|first: char| first.is_ascii_alphanumeric())
            && word.bytes().all(is_part)
            && !ARCHIVES
                .iter()
                .any(|ending| word.to_ascii_lowercase().ends_with(ending))
    };
    call.operands.iter().all(is_plain) && call.values(&["n", "name"]).all(is_name)
}
