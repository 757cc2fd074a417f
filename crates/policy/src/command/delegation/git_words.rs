//! What git may be told without starting anything that the call chooses, as a grammar.
//!
//! Left out on purpose: options that name a program, a hook, a configuration or another repository's own directory, and
//! the subcommands of [`super::git`] that start something. An alias is unknown here as well. A directory of git can have
//! any name, so that none is made by the name of the call (`--bare`, `--mirror`), and text of the call goes into no file
//! (`--output` of `log`, `--prefix` of `checkout-index`, `--suffix` of `format-patch`).

use super::grammar::{Grammar, Reader, any_call};

const DIFF: &str = "-p -u -s --patch -U: --unified: --raw --patch-with-raw --patch-with-stat --numstat --shortstat -X? \
     --dirstat? --cumulative --dirstat-by-file? --check --summary --name-only --name-status --stat? --stat-width: \
     --stat-name-width: --stat-graph-width: --stat-count: --compact-summary --binary --full-index --color? \
     --ws-error-highlight: -z --abbrev? --src-prefix: --dst-prefix: --line-prefix: --prefix --default-prefix \
     --inter-hunk-context: -B? --break-rewrites? -M? --find-renames? -D --irreversible-delete -C? --find-copies? \
     --find-copies-harder --renames --rename-empty --follow -l: --minimal -w --ignore-all-space -b \
     --ignore-space-change --ignore-space-at-eol --ignore-cr-at-eol --ignore-blank-lines -I:t \
     --ignore-matching-lines:t --indent-heuristic --patience --histogram --diff-algorithm: --anchored: --word-diff? \
     --word-diff-regex:t --color-words? --color-moved? --color-moved-ws: --relative? -a --text -R --exit-code --quiet \
     --ignore-submodules? --submodule? --ita-invisible-in-index --ita-visible-in-index -S:t -G:t --pickaxe-all \
     --pickaxe-regex -O: --rotate-to: --skip-to: --find-object: --diff-filter: -W --function-context \
     --output-indicator-new: --output-indicator-old: --output-indicator-context: --no-ext-diff --no-textconv \
     --combined-all-paths -t -r -c --cc -m --dd --diff-merges:";
const LOG: &str = "-# -n: --max-count: --skip: --since: --after: --until: --before: --author:t --committer:t --grep:t \
     --grep-reflog:t --all-match --invert-grep -i --regexp-ignore-case --basic-regexp -E --extended-regexp -F \
     --fixed-strings -P --perl-regexp --remove-empty --merges --min-parents: --max-parents: --first-parent --not --all \
     --branches? --tags? --remotes? --glob: --exclude: --reflog --single-worktree --ignore-missing --boundary \
     --simplify-by-decoration --full-history --dense --sparse --simplify-merges --ancestry-path? --date-order \
     --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? --format: --oneline --abbrev-commit \
     --encoding: --notes? --show-notes? --relative-date --date: --parents --children --left-right --left-only \
     --right-only --cherry --cherry-pick --cherry-mark --graph --show-linear-break? --count --decorate? \
     --decorate-refs: --decorate-refs-exclude: --source --use-mailmap --mailmap --full-diff --log-size -L:t -g \
     --walk-reflogs --clear-decorations --since-as-filter: --remerge-diff --expand-tabs? --bisect --objects --unpacked \
     --in-commit-order --disk-usage? --commit-header --show-signature -q --no-commit-id --root --always --stdin -v";
const PATHSPECS: &str = "--pathspec-from-file: --pathspec-file-nul";
/// A name that git does not know is one of a program, with a path too.
const STRATEGY: &str = "--strategy:ort,recursive,resolve,octopus,ours,subtree";
const STRATEGY_LETTER: &str = "-s:ort,recursive,resolve,octopus,ours,subtree";
const MERGE: &str = "--stat --summary --log? --squash --commit -e --edit --cleanup: --ff --ff-only --rerere-autoupdate \
     --verify-signatures -X: --strategy-option: -v --verbose -q --quiet --allow-unrelated-histories \
     --progress -S? --gpg-sign? --autostash --overwrite-ignore --signoff --verify";
const FETCH: &str = "-v --verbose -q --quiet --all --set-upstream -a --append --atomic -f --force -t --tags -j: --jobs: \
     --prefetch -p --prune -P --prune-tags --recurse-submodules? --dry-run --porcelain --write-fetch-head -k --keep \
     --progress --depth: --shallow-since: --shallow-exclude: --deepen: --unshallow --refetch --update-shallow --refmap: \
     -o: --server-option: -4 -6 --ipv4 --ipv6 --negotiation-tip: --negotiate-only --filter: --auto-maintenance \
     --auto-gc --show-forced-updates --write-commit-graph";
const SEQUENCE: &str = "--continue --abort --quit --skip --commit -n -e --edit -s --signoff --cleanup: --mainline: \
     --rerere-autoupdate -X: --strategy-option: -S? --gpg-sign? --ff --allow-empty --allow-empty-message \
     --keep-redundant-commits --empty: -x --reference";
const CHECKOUT: &str = "--guess --overlay -q --quiet --recurse-submodules? --progress -m --merge --conflict: -d --detach \
     -t? --track? -f --force --orphan: --overwrite-ignore --ignore-other-worktrees -2 --ours -3 --theirs -p --patch \
     --ignore-skip-worktree-bits";
const STASH: &str =
    "-p --patch -S --staged -k --keep-index -q --quiet -u --include-untracked -a --all -m:t --message:t";
const LISTED: &str = "--contains? --no-contains? --merged? --no-merged? --column? --sort: --points-at: -i --ignore-case \
     --format: --color? --omit-empty --abbrev?";
const CONFIG: &str = "--global --system --local --worktree -f:o --file:o --blob: --get --get-all --get-regexp --get-urlmatch \
     --replace-all --add --append --unset --unset-all --remove-section -l --list --show-names --name-only -z --null \
     --show-origin --show-scope --type: --bool --int --bool-or-int --bool-or-str --path --expiry-date --default: \
     --includes --fixed-value --all --value: --regexp --url:";

pub(super) const GIT: Grammar = Grammar {
    programs: &["git"],
    reader: Reader::Git,
    // `-c` is looked at by itself.
    options: &[
        "-C:d -c:t -p --paginate --pager -P --no-replace-objects --literal-pathspecs --glob-pathspecs \
                --noglob-pathspecs --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --version -v \
                --help -h --exec-path --html-path --man-path --info-path",
    ],
    commands: &[
        (
            "add,stage",
            &[
                "-n --dry-run -v --verbose -i --interactive -p --patch -f --force -u --update --renormalize -N \
               --intent-to-add -A --all --ignore-removal --refresh --ignore-errors --ignore-missing --sparse --chmod:",
                PATHSPECS,
            ],
        ),
        (
            "am",
            &[
                "-n --verify -3 --3way -q --quiet -s --signoff -u --utf8 -k --keep --keep-non-patch -m --message-id \
                --keep-cr -c --scissors --whitespace: --ignore-space-change --ignore-whitespace --exclude: --include: -C: \
                -p: --patch-format: --reject --continue -r --resolved --skip --abort --quit --retry --allow-empty \
                --committer-date-is-author-date --ignore-date --empty: --show-current-patch? -S? --gpg-sign?",
            ],
        ),
        (
            "apply",
            &[
                "--exclude: --include: --stat --numstat --summary --check --index -N --intent-to-add --cached -3 \
                   --3way --ours --theirs --union --whitespace: --ignore-space-change --ignore-whitespace -R --reverse \
                   --unidiff-zero --reject --allow-overlap -v --verbose -q --quiet --inaccurate-eof --recount \
                   --directory:o --allow-empty -p: -C: -z --binary --apply",
            ],
        ),
        (
            "archive",
            &["-# --format: --prefix: -o:o --output:o --worktree-attributes -v --verbose -l --list --mtime:"],
        ),
        (
            "bisect start",
            &["--checkout --first-parent --term-new: --term-old: --term-good: --term-bad:"],
        ),
        (
            "bisect good,bisect bad,bisect new,bisect old,bisect skip,bisect reset,bisect log,bisect next,bisect terms",
            &["--term-good --term-bad --term-old --term-new"],
        ),
        (
            "blame,annotate",
            &[
                "--incremental -b --root --show-stats --progress -f --show-name -n --show-number -p --porcelain \
                 --line-porcelain -c -t -l -s -e --show-email -w --ignore-rev: --ignore-revs-file: --color-lines \
                 --color-by-age --minimal --contents: -C? -M? -L:t --abbrev? --date: --since: --first-parent --reverse",
            ],
        ),
        (
            "branch",
            &[
                "-v --verbose -q --quiet -t? --track? -u: --set-upstream-to: --unset-upstream -r --remotes -a --all -d \
                 --delete -D -m --move -M -c --copy -C -l --list --show-current --create-reflog -f --force \
                 --recurse-submodules",
                LISTED,
            ],
        ),
        ("bundle verify,bundle list-heads", &["-q --quiet"]),
        (
            "bundle create",
            &["> -q --quiet --progress --all --branches --tags"],
        ),
        (
            "cat-file",
            &[
                "-e -p -t -s --use-mailmap --mailmap --batch? --batch-check? --batch-command? --batch-all-objects \
                 --buffer --follow-symlinks --unordered -Z -z",
            ],
        ),
        ("check-attr", &["-a --all --cached --stdin -z --source:"]),
        (
            "check-ignore",
            &["-q --quiet -v --verbose --stdin -z -n --non-matching --index"],
        ),
        (
            "check-ref-format",
            &["--branch --normalize --allow-onelevel --refspec-pattern"],
        ),
        ("checkout", &["-b: -B: -l", CHECKOUT, PATHSPECS]),
        (
            "checkout-index",
            &["-a --all -f --force -n -q --quiet -u --index --stdin -z --temp --stage:"],
        ),
        ("cherry", &["-v --verbose --abbrev?"]),
        ("cherry-pick,revert", &["-m:", SEQUENCE, STRATEGY]),
        (
            "clean",
            &["-q --quiet -n --dry-run -f --force -i --interactive -d -e: --exclude: -x -X"],
        ),
        (
            "clone",
            &[
                "> -v --verbose -q --quiet --progress --reject-shallow -n --checkout -l --local --hardlinks \
               -s --shared --recurse-submodules? --recursive? -j: --jobs: --reference: --dissociate -o: --origin: -b: \
               --branch: --depth: --shallow-since: --shallow-exclude: --single-branch --tags --shallow-submodules \
               --filter: --also-filter-submodules --remote-submodules --sparse -4 -6 --ipv4 --ipv6",
            ],
        ),
        (
            "commit",
            &[
                "-q --quiet -v --verbose -F: --file: --author:t --date: -m:t --message:t -c: --reedit-message: -C: \
                 --reuse-message: --fixup: --squash: --reset-author --trailer: -s --signoff -t: --template: -e --edit \
                 --cleanup: --status -S? --gpg-sign? -a --all -i --include --interactive -p --patch -o --only -n --verify \
                 --dry-run --short --branch --ahead-behind --porcelain --long -z --null --amend --post-rewrite -u? \
                 --untracked-files? --allow-empty --allow-empty-message",
                PATHSPECS,
            ],
        ),
        ("commit-tree", &["-p: -m:t -F: -S?"]),
        ("config", &[CONFIG]),
        ("count-objects", &["-v --verbose -H --human-readable"]),
        (
            "describe",
            &[
                "--contains --debug --all --tags --long --first-parent --abbrev? --exact-match --candidates: --match: \
                 --exclude: --always --dirty? --broken?",
            ],
        ),
        (
            "diff",
            &[
                DIFF,
                "-# --index --cached --staged --merge-base -q --base --ours --theirs",
            ],
        ),
        (
            "diff-files,diff-index,diff-tree",
            &[LOG, DIFF, "--cached --merge-base"],
        ),
        ("fetch", &["-m --multiple -n -u --update-head-ok --stdin", FETCH]),
        (
            "for-each-ref",
            &[
                "-s --shell -p --perl --python --tcl --count: --stdin --exclude: --include-root-refs",
                LISTED,
            ],
        ),
        (
            "format-patch",
            &[
                "-N --numbered --signoff --stdout --cover-letter --numbered-files --start-number: -v: \
                 --reroll-count: --filename-max-length: --rfc? --cover-from-description: --description-file: \
                 --subject-prefix: -o:o --output-directory:o -k --keep-subject --zero-commit --ignore-if-in-upstream \
                 --add-header:t --to: --cc: --from? --in-reply-to: --attach? --inline? --thread? --signature: --base: \
                 --progress --interdiff: --range-diff: --creation-factor:",
                DIFF,
                LOG,
            ],
        ),
        (
            "fsck",
            &[
                "-v --verbose --unreachable --dangling --tags --root --cache --reflogs --full --connectivity-only \
                 --strict --lost-found --progress --name-objects",
            ],
        ),
        (
            "gc",
            &[
                "-q --quiet --prune? --cruft --max-cruft-size: --aggressive --auto --detach --force --keep-largest-pack",
            ],
        ),
        (
            "grep",
            &[
                "-# --cached --index --untracked --exclude-standard --recurse-submodules -v --invert-match -i \
                 --ignore-case -w --word-regexp -a --text -I -r --recursive --max-depth: -E --extended-regexp -G \
                 --basic-regexp -F --fixed-strings -P --perl-regexp -n --line-number --column -h -H --full-name -l \
                 --files-with-matches --name-only -L --files-without-match -z --null -o --only-matching -c --count \
                 --color? --break --heading -C: --context: -B: --before-context: -A: --after-context: --threads: -p \
                 --show-function -W --function-context -f: -e:t --and --or --not -q --quiet --all-match -m: --max-count:",
            ],
        ),
        (
            "hash-object",
            &["-w -t: --stdin --stdin-paths --no-filters --path: --literally"],
        ),
        (
            "help",
            &["-a --all -g --guides -c --config -m --man -v --verbose"],
        ),
        (
            "init,init-db",
            &["> -q --quiet -b: --initial-branch: --object-format: --ref-format: --shared?"],
        ),
        (
            "interpret-trailers",
            &["--parse --only-trailers --only-input --unfold --trim-empty --trailer:t --divider"],
        ),
        (
            "lfs pull,lfs push,lfs fetch,lfs checkout,lfs track,lfs untrack,lfs status,lfs ls-files,lfs version",
            &[
                "-l --long -s --size -n --name-only -a --all --dry-run --porcelain --json -I: --include: -X: --exclude:",
            ],
        ),
        ("log,show,whatchanged,rev-list,range-diff", &[LOG, DIFF]),
        (
            "ls-files",
            &[
                "-z -t -v -f -c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -k --killed \
                 --directory --eol --empty-directory -u --unmerged --resolve-undo -x: --exclude: -X: --exclude-from: \
                 --exclude-per-directory: --exclude-standard --full-name --recurse-submodules --error-unmatch \
                 --with-tree: --abbrev? --debug --deduplicate --sparse --format:",
            ],
        ),
        (
            "ls-remote",
            &[
                "-q --quiet -t --tags -b --branches -h --heads --refs --get-url --sort: --exit-code --symref -o: \
                 --server-option:",
            ],
        ),
        (
            "ls-tree",
            &[
                "-d -r -t -z -l --long --name-only --name-status --object-only --full-name --full-tree --format: --abbrev?",
            ],
        ),
        (
            "merge",
            &[
                "-n -m:t --message:t -F: --file: --into-name: --abort --quit --continue",
                MERGE,
                STRATEGY,
                STRATEGY_LETTER,
            ],
        ),
        (
            "merge-base",
            &["-a --all --octopus --independent --is-ancestor --fork-point"],
        ),
        (
            "merge-file",
            &[
                "> -p --stdout -q --quiet -L: --ours --theirs --union --diff3 --zdiff3 --marker-size: --object-id",
            ],
        ),
        (
            "merge-tree",
            &[
                "--write-tree --trivial-merge -z --name-only --messages --allow-unrelated-histories --merge-base: \
                 --stdin -X: --strategy-option:",
            ],
        ),
        ("mv", &["> -v --verbose -n --dry-run -f --force -k --sparse"]),
        (
            "name-rev",
            &["--name-only --tags --refs: --exclude: --all --annotate-stdin --undefined --always"],
        ),
        (
            "notes add,notes append,notes copy,notes show,notes list,notes remove,notes prune",
            &[
                "-f --force -m:t --message:t -F: --file: -C: --reuse-message: --allow-empty --ignore-missing --stdin -v",
            ],
        ),
        ("patch-id", &["--stable --unstable --verbatim"]),
        (
            "prune,prune-packed",
            &["-n --dry-run -v --verbose --progress --expire: -q --quiet"],
        ),
        (
            "pull",
            &["-n -r? --rebase?", MERGE, STRATEGY, STRATEGY_LETTER, FETCH],
        ),
        (
            "push",
            &[
                "-v --verbose -q --quiet --repo: --all --branches --mirror -d --delete --tags -n --dry-run --porcelain \
                 -f --force --force-with-lease? --force-if-includes --recurse-submodules: --thin -u --set-upstream \
                 --progress --prune --verify --follow-tags --signed? --atomic -o: --push-option: -4 -6 --ipv4 --ipv6",
            ],
        ),
        (
            "rebase",
            &[
                "--onto: --keep-base --verify -q --quiet -v --verbose -n --stat --signoff \
                 --committer-date-is-author-date --ignore-date --reset-author-date -C: --ignore-whitespace --whitespace: \
                 -f --force-rebase --ff --continue --skip --abort --quit --edit-todo --show-current-patch --apply -m \
                 --merge -i --interactive --rerere-autoupdate --empty: --autosquash --update-refs -S? --gpg-sign? \
                 --autostash -r? --rebase-merges? --fork-point -X: --strategy-option: --root --reapply-cherry-picks --keep-empty",
                STRATEGY,
                STRATEGY_LETTER,
            ],
        ),
        (
            "reflog",
            &[
                "--expire: --expire-unreachable: --rewrite --updateref --stale-fix --dry-run --verbose",
                LOG,
                DIFF,
            ],
        ),
        ("remote", &[". -v --verbose"]),
        (
            "remote show,remote prune,remote update",
            &["-n --dry-run -p --prune"],
        ),
        ("remote add", &["-t: -m: -f --fetch --tags --mirror?"]),
        (
            "remote rename,remote remove,remote rm,remote get-url,remote set-url,remote set-head,remote set-branches",
            &["--progress --push --all --add --delete -a --auto -d"],
        ),
        (
            "repack",
            &["-a -A -d -f -F -l -n -q --quiet -k -b --window: --depth: --threads: --max-pack-size:"],
        ),
        ("replace", &["-l --list -d --delete -f --force --raw --format:"]),
        ("rerere", &["=clear,forget,diff,remaining,status,gc"]),
        (
            "reset",
            &[
                "-q --quiet --refresh --mixed --soft --hard --merge --keep --recurse-submodules? -p --patch -N \
                 --intent-to-add",
                PATHSPECS,
            ],
        ),
        (
            "restore",
            &[
                "-s: --source: -S --staged -W --worktree --ignore-unmerged",
                CHECKOUT,
                PATHSPECS,
            ],
        ),
        (
            "rev-parse",
            &[
                "--verify -q --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all --branches? --tags? \
                 --remotes? --glob: --exclude: --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir \
                 --absolute-git-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository \
                 --is-shallow-repository --show-superproject-working-tree --git-path: --default: --path-format: --not \
                 --flags --revs-only --revs --show-object-format? --show-ref-format --local-env-vars --disambiguate:",
            ],
        ),
        (
            "rm",
            &[
                "-n --dry-run -q --quiet --cached -f --force -r --ignore-unmatch --sparse",
                PATHSPECS,
            ],
        ),
        (
            "shortlog",
            &[
                "-s --summary -n --numbered -e --email -w? --group: -c --committer",
                LOG,
            ],
        ),
        (
            "show-branch",
            &[
                "-a --all -r --remotes --color? --more? --list --name --current --sha1-name --merge-base --independent \
                 --topo-order --topics --sparse --date-order -g? --reflog?",
            ],
        ),
        (
            "show-ref",
            &[
                "--tags --branches --heads --exists --verify --head -d --dereference -s? --hash? --abbrev? -q --quiet \
                 --exclude-existing?",
            ],
        ),
        (
            "sparse-checkout list,sparse-checkout set,sparse-checkout add,sparse-checkout init,sparse-checkout reapply,\
             sparse-checkout disable",
            &["--cone --sparse-index --stdin --skip-checks"],
        ),
        ("stash", &[".", STASH]),
        ("stash push,stash save", &[STASH, PATHSPECS]),
        ("stash pop,stash apply", &["--index -q --quiet"]),
        ("stash list", &[LOG, DIFF]),
        ("stash show", &["-u --include-untracked --only-untracked", DIFF]),
        (
            "stash drop,stash branch,stash clear,stash create",
            &["-q --quiet"],
        ),
        (
            "status",
            &[
                "-v --verbose -s --short -b --branch --show-stash --ahead-behind --porcelain? --long -z --null -u? \
                 --untracked-files? --ignored? --ignore-submodules? --column? --renames -M? --find-renames?",
            ],
        ),
        ("submodule", &[". --quiet --cached"]),
        (
            "submodule status,submodule init,submodule update,submodule sync,submodule deinit,submodule summary,\
             submodule set-branch,submodule absorbgitdirs",
            &[
                "-q --quiet --cached --recursive --init --remote -N --no-fetch -f --force --checkout --merge --rebase \
                 --recommend-shallow --depth: -j: --jobs: --single-branch --filter: --progress --all -b: --branch: -d \
                 --default --files -n: --summary-limit:",
            ],
        ),
        (
            "submodule add,submodule set-url",
            &["> -q --quiet -b: --branch: -f --force --name: --depth: --progress"],
        ),
        (
            "switch",
            &["-c: --create: -C: --force-create: --discard-changes", CHECKOUT],
        ),
        ("symbolic-ref", &["-q --quiet -d --delete --short --recurse -m:t"]),
        (
            "tag",
            &[
                "-l --list -n? -d --delete -v --verify -a --annotate -m:t --message:t -F: --file: --trailer: -e --edit -s \
                 --sign --cleanup: -u: --local-user: -f --force --create-reflog",
                LISTED,
            ],
        ),
        (
            "update-index",
            &[
                "--add --remove --refresh --really-refresh -q --chmod: --assume-unchanged --skip-worktree --cacheinfo: \
                 --ignore-missing -z --stdin --unmerged --force-remove",
            ],
        ),
        ("update-ref", &["-d -m:t --deref --create-reflog --stdin -z"]),
        ("var", &["-l"]),
        ("verify-commit,verify-tag", &["-v --verbose --raw"]),
        ("version", &["--build-options"]),
        (
            "worktree add",
            &[
                "> -f --force -b: -B: -d --detach --checkout --guess-remote --track --lock --reason: -q --quiet --orphan",
            ],
        ),
        (
            "worktree list,worktree lock,worktree prune,worktree remove,worktree repair,worktree unlock",
            &["-v --verbose --porcelain -z -f --force -n --dry-run --expire: --reason:"],
        ),
        ("worktree move", &["> -f --force"]),
        ("write-tree", &["--missing-ok --prefix:"]),
    ],
    check: any_call,
};
