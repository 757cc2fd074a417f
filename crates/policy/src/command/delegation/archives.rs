//! What find and tar may be told, as grammars.

use super::grammar::{Call, Grammar, Reader, any_call};

pub(super) const FIND: Grammar = Grammar {
    programs: &["find", "gfind"],
    reader: Reader::Predicates,
    options: &[
        "-H -L -P -O0 -O1 -O2 -O3 -D: -E -X -d -s -f: -daystart -follow -nowarn -warn -regextype: -depth -maxdepth:t -mindepth:t \
         -mount -noleaf -xdev -x -ignore_readdir_race -noignore_readdir_race -amin:t -anewer: -atime:t -cmin:t -cnewer: \
         -context: -ctime:t -empty -false -fstype: -gid:t -group: -ilname:t -iname:t -inum:t -iwholename:t -ipath:t -iregex:t \
         -links:t -lname:t -mmin:t -mtime:t -name:t -newer: -nouser -nogroup -path:t -perm:t -regex:t -readable -writable \
         -executable -wholename:t -size:t -true -type: -uid:t -used:t -user: -xtype: -delete -print0 -printf:t -print -ls -prune \
         -quit -a -and -o -or -not -help --help -version --version -newerat:t -newerct:t -newermt:t -newerBt:t -neweraa: \
         -newerac: -neweram: -newerca: -newercc: -newercm: -newerma: -newermc: -newermm: -newerBB: -newerBm: -samefile: -flags:t \
         -Bmin:t -Btime:t -Bnewer: -acl -xattr -xattrname:t",
    ],
    commands: &[],
    check: any_call,
};

/// The next volume is asked for, and an answer starts a shell. A new name for what is unpacked is a file to be written.
pub(super) const TAR: Grammar = Grammar {
    programs: &["tar", "gtar"],
    reader: Reader::Anywhere,
    options: &[
        "-A --catenate --concatenate -c --create --delete -d --diff --compare -r --append -t --list -u --update -x --extract \
         --get -g:o --listed-incremental:o -G --incremental --hole-detection: --ignore-failed-read --level: --check-device \
         --seek -n --occurrence? --sparse-version: -S --sparse --add-file: -C:o --directory:o --exclude: --exclude-backups \
         --exclude-caches --exclude-caches-all --exclude-caches-under --exclude-ignore: --exclude-ignore-recursive: \
         --exclude-tag: --exclude-tag-all: --exclude-tag-under: --exclude-vcs --exclude-vcs-ignores --null --recursion \
         --unquote -X: --exclude-from: --anchored --ignore-case --wildcards --wildcards-match-slash \
         --keep-directory-symlink --keep-newer-files -k --keep-old-files --overwrite-dir --overwrite \
         --recursive-unlink --remove-files --skip-old-files -U --unlink-first -W --verify --ignore-command-error -O \
         --to-stdout --atime-preserve? --clamp-mtime --delay-directory-restore --group: --group-map: --mode: --mtime: -m \
         --touch --same-owner --same-permissions --numeric-owner --owner: --owner-map: -p --preserve-permissions --sort: -s \
         --preserve-order --same-order --acls --selinux --xattrs --xattrs-exclude: --xattrs-include: -f:o --file:o -b: --blocking-factor: -B --read-full-records -i --ignore-zeros \
         --record-size: -H: --format: --old-archive --portability --pax-option: --posix -V: --label: -a --auto-compress -j \
         --bzip2 -J --xz --lzip --lzma --lzop --zstd -z --gzip --gunzip --ungzip -Z --compress --uncompress --backup? \
         --hard-dereference -h --dereference -K: --starting-file: --newer-mtime: -N: --newer: --after-date: \
         --one-file-system --one-top-level -P --absolute-names --strip-components: --checkpoint? --full-time --index-file:o -l \
         --check-links --quote-chars: --quoting-style: -R --block-number --show-defaults --show-omitted-dirs \
         --show-transformed-names --show-stored-names --totals? --utc -v --verbose --warning: -o -? --help --restrict --usage --version",
    ],
    commands: &[],
    check: is_local,
};

/// Its `-s` gives what is unpacked new names, and behind its `-W` stands any long option without its dashes.
pub(super) const BSDTAR: Grammar = Grammar {
    programs: &["bsdtar"],
    reader: Reader::Anywhere,
    options: &[
        "-c --create -r --append -t --list -u --update -x --extract --get -a --auto-compress -B --read-full-blocks -b: \
         --block-size: -C:o --cd:o --directory:o --exclude: --exclude-vcs --fast-read -q -f:o --file:o --format: -h \
         --dereference --gid: --gname: --group: --ignore-zeros --include: -J --xz -j -y --bzip --bzip2 --bunzip2 -k \
         --keep-old-files --keep-newer-files -l --check-links --lz4 --lzma --lzop --lrzip --grzip --zstd -Z --compress \
         --uncompress -z --gzip --gunzip -m --modification-time -n --norecurse --recursion --newer: --newer-mtime: --nodump \
         --null --numeric-owner -O --to-stdout -o --one-file-system -P --absolute-paths -p --preserve-permissions \
         --same-permissions --same-owner --acls --fflags --xattrs --mac-metadata --strip-components: -S --totals --uid: \
         --uname: --owner: -U --unlink --unlink-first -v --verbose --version --help -X: --exclude-from:",
    ],
    commands: &[],
    check: is_local,
};

/// An archive with a colon in its name lies on another machine, which `tar` starts a program to reach.
fn is_local(call: &Call<'_>) -> bool {
    let is_here = |file: &str| {
        let host = file.split_once(':').map(|(host, _)| host);
        host.is_none_or(|host| host.contains('/'))
    };
    let takes_archives = call
        .options
        .iter()
        .any(|(name, _)| matches!(*name, "A" | "catenate" | "concatenate"));
    call.values(&["f", "file"]).all(is_here)
        && (!takes_archives || call.operands.iter().all(|file| is_here(file)))
}

/// Letters of an old-style first word that say the same to every tar.
pub(super) fn are_letters_of_both(letters: &[String]) -> bool {
    letters.iter().all(|letter| {
        letter.ends_with([
            'c', 'f', 'h', 'J', 'j', 'k', 'm', 'O', 'p', 'r', 't', 'u', 'v', 'x', 'z',
        ])
    })
}

/// The words of old-style tar with dashes: behind a first word of letters alone, the values of these letters follow in
/// their order.
pub(super) fn with_dashes<'a>(words: &[&'a str], letters: &'a [String]) -> Vec<&'a str> {
    let mut dashed = Vec::new();
    let mut values = words.iter().skip(1);
    for letter in letters {
        dashed.push(letter.as_str());
        if letter.ends_with(['b', 'C', 'f', 'F', 'g', 'H', 'I', 'K', 'L', 'N', 'T', 'V', 'X']) {
            dashed.extend(values.next());
        }
    }
    dashed.extend(values);
    dashed
}

/// The letters of an old-style first word as options.
pub(super) fn old_letters(words: &[&str]) -> Option<Vec<String>> {
    let first = words
        .first()
        .filter(|word| !word.starts_with('-') && !word.is_empty())?;
    Some(first.chars().map(|letter| format!("-{letter}")).collect())
}
