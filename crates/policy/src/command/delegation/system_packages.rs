//! What managers of the system's packages may be told, as grammars: dpkg, apt and aptitude.
//!
//! Left out on purpose: packages in files of the call, whose scripts are started, other databases, which have scripts as
//! well, and other programs to plan with. What is installed by its name comes from the sources that are configured.

use super::grammar::{Call, Grammar, Reader, any_call};

/// What it shows, and what it unpacks without starting anything.
pub(super) const DPKG: Grammar = Grammar {
    programs: &["dpkg"],
    reader: Reader::Anywhere,
    options: &[
        "> -l --list -L --listfiles -s --status -S --search -p --print-avail --get-selections --print-architecture \
         --print-foreign-architectures --compare-versions -c --contents -I --info -f --field -V --verify -C --audit \
         --yet-to-unpack --assert-multi-arch --validate-version --pager --version --help -? --force-help --debug-help \
         -x --extract -X --vextract -e --control --fsys-tarfile",
    ],
    commands: &[],
    check: any_call,
};

const APT_ACTIONS: &str = "-y --yes --assume-yes --assume-no -s --simulate --just-print --dry-run --recon --no-act -d \
     --download-only -f --fix-broken -m --ignore-missing --fix-missing -V --verbose-versions --install-recommends \
     --install-suggests --purge --reinstall --only-upgrade --allow-downgrades --allow-remove-essential \
     --allow-change-held-packages --allow-unauthenticated --auto-remove --autoremove --show-upgraded -u --show-progress \
     --upgrade --remove --print-uris --list-cleanup --trivial-only -t: --target-release: --default-release: --update";
const APT_SHOWS: &str = "-n --names-only --full --installed --upgradable --manual-installed --all-versions --important \
     --recurse -i --implicit --pre-depends --depends --recommends --suggests";

pub(super) const APT: Grammar = Grammar {
    programs: &["apt", "apt-get", "apt-cache"],
    reader: Reader::Anywhere,
    options: &["-q? --quiet? -h --help -v --version --color --pager"],
    commands: &[
        (
            "install,reinstall,remove,purge,autoremove,auto-remove,autopurge,update,upgrade,dist-upgrade,full-upgrade,build-dep,\
             check,clean,autoclean,auto-clean,distclean,download,changelog",
            &[APT_ACTIONS],
        ),
        (
            "list,search,show,showsrc,showpkg,info,policy,depends,rdepends,madison,pkgnames,stats,dump,unmet,help,moo",
            &[APT_SHOWS],
        ),
    ],
    check: names_packages,
};

pub(super) const APTITUDE: Grammar = Grammar {
    programs: &["aptitude"],
    reader: Reader::Anywhere,
    options: &[
        "-q? --quiet? -y --assume-yes -s --simulate -d --download-only -P --prompt -f --purge-unused -V --show-versions \
         --with-recommends -r --without-recommends -R -t: --target-release: -v --verbose --disable-columns -h --help --version",
    ],
    commands: &[(
        "install,reinstall,remove,purge,update,upgrade,safe-upgrade,full-upgrade,dist-upgrade,search,show,versions,why,why-not,\
         clean,autoclean,download,changelog,hold,unhold,markauto,unmarkauto,keep-all",
        &[""],
    )],
    check: names_packages,
};

/// A word with a slash may be a file, whose scripts would be started.
fn names_packages(call: &Call<'_>) -> bool {
    let is_search = matches!(call.command, "search");
    let mut targets = call.values(&["t", "target-release", "default-release"]);
    (is_search || !call.operands.iter().any(|word| word.contains('/')))
        && !targets.any(|name| name.contains('/'))
}
