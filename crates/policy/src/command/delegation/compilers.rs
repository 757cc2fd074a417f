//! What compilers and binutils may be told: gcc, clang and their kin, ld, ar, nm and the like.
//!
//! Left out on purpose: plug-ins, wrappers, spec files, other directories to find their own parts in, linker scripts, and
//! files of further arguments (`@FILE`), which nobody has looked at.

use super::grammar::{Call, Grammar, Reader};

/// Names of compilers; a target may stand before them (`x86_64-linux-gnu-gcc`).
pub(super) const COMPILERS: &[&str] = &[
    "c89", "c89-gcc", "c99", "c99-gcc", "gcc", "g++", "cc", "c++", "clang", "clang++", "gfortran",
];

/// Their preprocessors, which write to their second operand.
pub(super) const PREPROCESSORS: &[&str] = &["cpp", "gcc-cpp"];

/// Options that are whole words.
const WORDS: &str = "-c -S -E -C -P -CC -H -Q -v -w -s -r -pipe -pthread -shared -static -static-pie -static-libgcc \
     -static-libstdc++ -pie -no-pie -rdynamic -nostdlib -nostdinc -nostdinc++ -nodefaultlibs -nostartfiles -nolibc -ansi \
     -pedantic -pedantic-errors -dumpversion -dumpfullversion -dumpmachine -dM -dD -dI -dN -M -MM -MD -MMD -MP -MG -undef \
     -trigraphs -save-temps -time -p -pg -symbolic -remap -xc -xc++ -x- --version --help -### -print-search-dirs \
     -print-multi-lib -print-multi-directory -print-sysroot -print-libgcc-file-name -no-canonical-prefixes -# \
     -Qunused-arguments -static-libasan -static-libubsan --coverage";
/// Options with a value, glued or behind.
const WITH_VALUE: &[&str] = &[
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-D",
    "-U",
    "-I",
    "-L",
    "-l",
    "-u",
    "-framework",
    "-isysroot",
    "-e",
];
/// Options with a value that is the file to be written.
const WITH_OUTPUT: &[&str] = &["-o", "-MF", "-MJ"];
/// Options with a value that says nothing of files.
const WITH_TEXT: &[&str] = &["-MT", "-MQ", "-z"];
/// Options with a value that is a name: that of a target is part of the names of programs.
const WITH_NAME: &[&str] = &["-arch", "-target", "-x"];
/// Beginnings whose rest is a word without anything to be read or started.
const BEGINNINGS: &[&str] = &[
    "-O",
    "-std=",
    "--std=",
    "-print-file-name=",
    "-print-prog-name=",
    "--param=",
    "-stdlib=",
    "--target=",
    "--help=",
    "-rtlib=",
];
/// What `-g` may begin with, besides a number.
const DEBUGGING: &[&str] = &[
    "gdb",
    "dwarf",
    "line-tables-only",
    "split-dwarf",
    "strict-dwarf",
    "column-info",
    "record-gcc-switches",
    "no-",
    "z",
];
/// `-fNAME=…` that may be given.
const F_WITH_VALUE: &[&str] = &[
    "abi-version",
    "cf-protection",
    "color-diagnostics",
    "constexpr-depth",
    "constexpr-loop-limit",
    "constexpr-ops-limit",
    "debug-prefix-map",
    "diagnostics-color",
    "diagnostics-format",
    "excess-precision",
    "ffp-contract",
    "file-prefix-map",
    "fp-contract",
    "inline-limit",
    "instrument-functions-exclude-function-list",
    "lto",
    "macro-prefix-map",
    "max-errors",
    "message-length",
    "no-sanitize",
    "patchable-function-entry",
    "sanitize",
    "sanitize-recover",
    "stack-limit-register",
    "strict-flex-arrays",
    "template-backtrace-limit",
    "template-depth",
    "tls-model",
    "trivial-auto-var-init",
    "use-ld",
    "vect-cost-model",
    "visibility",
    "zero-call-used-regs",
    "error-limit",
    "sanitize-trap",
];
const LINKERS: &[&str] = &["bfd", "gold", "lld", "mold"];
/// What may stand behind `-Wl,`.
const LINKER_WORDS: &[&str] = &[
    "--as-needed",
    "--no-as-needed",
    "--gc-sections",
    "--no-undefined",
    "--export-dynamic",
    "-E",
    "--whole-archive",
    "--no-whole-archive",
    "--start-group",
    "--end-group",
    "-Bstatic",
    "-Bdynamic",
    "-Bsymbolic",
    "-s",
    "-S",
    "--strip-all",
    "--strip-debug",
    "--build-id",
    "--enable-new-dtags",
    "--disable-new-dtags",
    "--fatal-warnings",
    "--warn-common",
    "--allow-multiple-definition",
    "--icf=all",
    "--icf=safe",
    "-dead_strip",
    "--no-keep-memory",
    "--relax",
    "-O1",
    "-O2",
    "-x",
    "-X",
];
const LINKER_WITH_VALUE: &[&str] = &[
    "-rpath",
    "--rpath",
    "-rpath-link",
    "-soname",
    "--soname",
    "-h",
    "-z",
    "-u",
    "--hash-style",
    "--build-id",
    "-install_name",
    "-L",
    "--defsym",
    "-Map",
    "-e",
    "--entry",
    "--version-script",
];

pub(super) fn reads_as_plain_compiler<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let (outputs, operands) = read_compiler(words)?;
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let names_output = words.iter().any(|word| word.starts_with("-o"));
    let stops_before = has(&["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"]);
    let may_be_script =
        operands.iter().any(|file| !is_source(file)) || words.iter().any(|word| word.starts_with("-L"));
    (names_output || stops_before || !may_be_script).then_some(outputs)
}

/// Endings of what a compiler translates. All else goes to the linker, which may take a text for a script.
const SOURCES: &[&str] = &[
    "c", "C", "cc", "cp", "cpp", "cxx", "c++", "CPP", "h", "hh", "hpp", "i", "ii", "s", "S", "m", "mm", "f",
    "for", "F", "f90", "f95", "f03", "F90",
];

fn is_source(file: &str) -> bool {
    file == "-"
        || file
            .rsplit_once('.')
            .is_some_and(|(_, ending)| SOURCES.contains(&ending))
}

pub(super) fn reads_as_plain_preprocessor<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let (mut outputs, operands) = read_compiler(words)?;
    outputs.extend(operands.get(1));
    (operands.len() < 3).then_some(outputs)
}

/// The files that it writes, and its operands.
fn read_compiler<'a>(words: &[&'a str]) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let mut outputs = Vec::new();
    let mut operands = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if word == "-" || !word.starts_with(['-', '@']) {
            operands.push(word);
            continue;
        }
        if WORDS.split_whitespace().any(|known| known == word) {
            continue;
        }
        if let Some((_, rest)) = glued(word, WITH_OUTPUT) {
            let output = if rest.is_empty() {
                words.next().filter(|word| !word.starts_with('-'))?
            } else {
                rest
            };
            outputs.push(output);
        } else if let Some((_, rest)) = glued(word, WITH_NAME) {
            let name = if rest.is_empty() { words.next()? } else { rest };
            if name.starts_with('-') || !is_name(name) {
                return None;
            }
        } else if let Some((_, rest)) = glued(word, WITH_VALUE).or_else(|| glued(word, WITH_TEXT)) {
            if rest.is_empty() {
                words.next().filter(|word| !word.starts_with(['-', '@']))?;
            }
        } else if !is_plain_option(word, &mut outputs) {
            return None;
        }
    }
    Some((outputs, operands))
}

/// The longest of the options that a word begins with, and its rest.
fn glued<'a>(word: &'a str, options: &[&'static str]) -> Option<(&'static str, &'a str)> {
    let longest = options
        .iter()
        .filter(|option| word.starts_with(**option))
        .max_by_key(|option| option.len())?;
    // `-include x` has its value in a word of its own, and `-imacros` is no `-i macros`.
    let rest = word.strip_prefix(longest)?;
    (longest.len() == 2 || rest.is_empty()).then_some((*longest, rest))
}

fn is_name(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte))
}

fn is_plain_option<'a>(word: &'a str, outputs: &mut Vec<&'a str>) -> bool {
    let is_value = |text: &str| {
        is_name(text)
            || text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'|' && byte != b'@')
    };
    if let Some(for_linker) = word.strip_prefix("-Wl,") {
        return are_plain_linker_words(for_linker, outputs);
    }
    if word.starts_with("-Wa,") || word.starts_with("-Wp,") {
        return false;
    }
    if BEGINNINGS
        .iter()
        .any(|beginning| word.strip_prefix(beginning).is_some_and(is_name))
    {
        return true;
    }
    let Some((kind, rest)) = word.get(..2).zip(word.get(2..)) else {
        return false;
    };
    let (name, value) = rest
        .split_once('=')
        .map_or((rest, None), |(name, value)| (name, Some(value)));
    match kind {
        "-g" => {
            let is_known = name.bytes().all(|byte| byte.is_ascii_digit())
                || DEBUGGING.iter().any(|beginning| name.starts_with(beginning));
            is_known && is_name(name) && value.is_none_or(is_name)
        }
        "-W" => is_name(name) && value.is_none_or(is_name),
        // `-mllvm` hands the next word on.
        "-m" => !name.starts_with("llvm") && is_name(name) && value.is_none_or(is_name),
        "-f" if name.contains("plugin") || name.contains("module-mapper") => false,
        "-f" => match value {
            None => is_name(name),
            Some(value) if name == "use-ld" => LINKERS.contains(&value),
            Some(value) => F_WITH_VALUE.contains(&name) && is_value(value),
        },
        _ => false,
    }
}

fn are_plain_linker_words<'a>(text: &'a str, outputs: &mut Vec<&'a str>) -> bool {
    let mut words = text.split(',');
    while let Some(word) = words.next() {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        if LINKER_WORDS.contains(&word) {
            continue;
        }
        if !LINKER_WITH_VALUE.contains(&name) {
            return false;
        }
        // The value may stand in the next word, behind a comma or in the next option: that is no option of the linker.
        let value = value
            .or_else(|| words.next())
            .filter(|value| !value.starts_with(['-', '@']));
        let Some(value) = value else { return false };
        if name == "-Map" {
            outputs.push(value);
        }
    }
    true
}

/// Names of binutils; a target may stand before them, and `gcc-` before some.
pub(super) const BINUTILS: &[&str] = &[
    "addr2line",
    "ar",
    "as",
    "c++filt",
    "ld",
    "ld.bfd",
    "ld.gold",
    "ld.lld",
    "lld",
    "mold",
    "nm",
    "objcopy",
    "objdump",
    "ranlib",
    "readelf",
    "size",
    "strings",
    "strip",
    "gcc-ar",
    "gcc-nm",
    "gcc-ranlib",
    "llvm-ar",
    "llvm-nm",
    "llvm-ranlib",
];

const DEMANGLE: &str =
    "-C? --demangle? --no-demangle --recurse-limit -h --help -V --version -H -v --target: --unicode: -U:";

/// Those that only look, whose letters do not contradict one another where a value is taken.
pub(super) const LOOKERS: Grammar = Grammar {
    programs: &[
        "nm",
        "gcc-nm",
        "llvm-nm",
        "llvm-objdump",
        "llvm-readelf",
        "objdump",
        "readelf",
        "size",
        "strings",
        "addr2line",
        "c++filt",
    ],
    reader: Reader::Anywhere,
    options: &[
        "-a -A -B -c -d -D -e -f -F -g -G -h -i -I -l -L -n -o -p -P -r -R -s -S -t -T -u -w? -W? -x -X -z -1 -# --debug-syms \
         --print-file-name --dynamic --format: --extern-only --ifunc-chars: --just-symbols --line-numbers --numeric-sort \
         --no-sort --portability --reverse-sort --print-size --print-armap --quiet --size-sort --special-syms --synthetic \
         --radix: --undefined-only --defined-only --no-weak --with-symbol-versions --archive-headers --file-headers \
         --private-headers --headers --section-headers --all-headers --disassemble? --disassemble-all --source \
         --source-comment? --full-contents --debugging --dwarf? --syms --dynamic-syms --reloc --dynamic-reloc --info \
         --architecture: --section: -j: -b: -m: -M: --disassembler-options: --endian: --file-start-context --file-offsets --wide \
         --disassemble-zeroes --start-address: --stop-address: --addresses --prefix-addresses --show-raw-insn --insn-width: \
         --adjust-vma: --show-all-symbols --inlines --prefix: --prefix-strip: --dwarf-depth: --dwarf-start: \
         --visualize-jumps? --disassembler-color: --all --file-header --program-headers --segments --sections \
         --section-groups --section-details --symbols --dyn-syms --lto-syms --notes --relocs --unwind --version-info \
         --arch-specific --archive-index --use-dynamic --hex-dump: --string-dump: --relocated-dump: --decompress \
         --debug-dump? --histogram --silent-truncation --data --bytes: --include-all-whitespace --encoding: \
         --output-separator: --totals --common --addresses --exe: --pretty-print --basenames --functions --strip-underscore \
         --types --no-params",
        DEMANGLE,
    ],
    commands: &[],
    check: has_no_file_of_arguments,
};

/// Those that write their operands, or what `-o` names.
pub(super) const WRITERS: Grammar = Grammar {
    programs: &[
        "ranlib",
        "strip",
        "objcopy",
        "gcc-ranlib",
        "llvm-ranlib",
        "llvm-strip",
        "llvm-objcopy",
    ],
    reader: Reader::Anywhere,
    options: &[
        "> -o:o -p --preserve-dates -D --enable-deterministic-archives --disable-deterministic-archives -R: --remove-section: \
         --remove-relocations: -s -S -g -d --strip-all --strip-debug --strip-dwo --strip-unneeded --only-keep-debug -N: \
         --strip-symbol: --keep-section: -K: --keep-symbol: --keep-section-symbols --keep-file-symbols -w --wildcard -x \
         --discard-all -X --discard-locals -v --verbose -V --version -h --help --info -M --merge-notes -t -I: --input-target: \
         -O: --output-target: -B: --binary-architecture: -F: --target: -j: --only-section: --add-gnu-debuglink: --extract-dwo \
         --extract-symbol --localize-hidden -L: --localize-symbol: --globalize-symbol: -G: --keep-global-symbol: -W: \
         --weaken-symbol: --weaken --gap-fill: --pad-to: --set-start: --set-section-flags: --set-section-alignment: \
         --add-section: --update-section: --rename-section: --redefine-sym: --prefix-symbols: \
         --compress-debug-sections? --decompress-debug-sections",
    ],
    commands: &[],
    check: has_no_file_of_arguments,
};

pub(super) const ASSEMBLER: Grammar = Grammar {
    programs: &["as"],
    reader: Reader::Anywhere,
    options: &[
        "-o:o -g --gen-debug -I: -W -w --warn --no-warn --fatal-warnings --32 --64 --x32 --defsym: -R -D -f -k -q -s -n -v \
         --version --help --noexecstack --execstack --gdwarf-2 --gdwarf-3 --gdwarf-4 --gdwarf-5 --compress-debug-sections? \
         --strip-local-absolute -L --keep-locals --divide",
    ],
    commands: &[],
    check: has_no_file_of_arguments,
};

/// `ld` takes whole names behind one dash or two.
pub(super) const LINKER: Grammar = Grammar {
    programs: &["ld", "ld.bfd", "ld.gold", "ld.lld", "lld", "mold"],
    reader: Reader::Names,
    options: &[
        "-o:o -output:o -L: -library-path: -l: -library: -e: -entry: -m: -r -relocatable -shared -Bshareable -static -Bstatic \
         -Bdynamic -Bsymbolic -s -S -strip-all -strip-debug -z: -rpath: -rpath-link: -soname: -h: -u: -undefined: -x -X \
         -as-needed -no-as-needed -gc-sections -whole-archive -no-whole-archive -start-group -end-group -build-id? \
         -dynamic-linker: -I: -pie -no-pie -E -export-dynamic -no-undefined -defsym: -Map:o -M -v -V -version -help \
         -hash-style: -N -n -nostdlib -q -emit-relocs -Ttext: -Tdata: -Tbss: -b: -format: -oformat: -eh-frame-hdr -EL -EB",
    ],
    commands: &[],
    check: links_plainly,
};

/// A file that is no object is a script, which says what is written where nothing else does.
fn links_plainly(call: &Call<'_>) -> bool {
    let names_output = call.values(&["o", "output"]).next().is_some();
    has_no_file_of_arguments(call) && (names_output || call.operands.is_empty())
}

/// `ar` takes letters first, then the archive.
pub(super) fn reads_as_plain_ar<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let is_fine = |word: &&str| {
        let is_operation = word
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
            && !word.starts_with("--");
        !word.starts_with('@')
            && (!word.starts_with('-') || is_operation || matches!(*word, "--thin" | "--version" | "--help"))
    };
    // `-M` reads a script, and a word of letters may hold it.
    let reads_script = words.iter().enumerate().any(|(at, word)| {
        let may_be_letters = at < 2 || (word.starts_with('-') && !word.starts_with("--"));
        may_be_letters && word.contains('M') && !word.contains(['.', '/'])
    });
    (words.iter().all(is_fine) && !reads_script).then(|| words.to_vec())
}

/// Whether nothing stands for a file with further arguments.
pub(super) fn has_no_file_of_arguments(call: &Call<'_>) -> bool {
    let mut values = call.options.iter().filter_map(|(_, value)| *value);
    !call.operands.iter().any(|word| word.starts_with('@')) && !values.any(|value| value.starts_with('@'))
}

/// A name without the target that stands before it, if it is one of these tools.
pub(super) fn without_target(name: &str) -> &str {
    let tools = COMPILERS.iter().chain(PREPROCESSORS).chain(BINUTILS);
    let behind = tools.filter(|tool| {
        name.strip_suffix(**tool).is_some_and(|target| {
            target.len() > 4 && target.ends_with('-') && target.matches('-').count() > 1
        })
    });
    behind.max_by_key(|tool| tool.len()).copied().unwrap_or(name)
}
