//! What builds and installs software, from what lies on this machine.

use crate::{
    confined::{FREE, PROGRAMS, builder, machine::Machine, run},
    support::TestServer,
};

use super::{in_fresh_directory, possible_with, works};

/// Runs a script as both agents; it must work for both.
async fn works_for_both(server: &TestServer, script: &str) {
    for agent in [FREE, "main"] {
        let answer = run(server, agent, &in_fresh_directory(server, script)).await;
        assert_eq!(answer["exitCode"], 0, "{agent}: {script}\n{answer:#}");
    }
}

#[tokio::test]
async fn cargo_builds_tests_and_runs_a_crate() {
    or_skip!(possible_with(&["cc"]));
    let mut machine = Machine::new();
    let toolchain = machine.put_toolchain();
    let path = format!("{}/bin:{PROGRAMS}", toolchain.display());
    let server = machine.with(builder().env("PATH", &path)).start().await;
    let script = "export CARGO_HOME=$d/cargo && cargo init -q --vcs none small && cd small && \
        printf 'fn main() { println!(\"{}\", small()); }\\nfn small() -> u8 { 7 }\\n#[test]\\nfn is_small() { assert_eq!(small(), 7); }\\n' > src/main.rs && \
        printf 'fn main() { println!(\"cargo::rustc-env=SEEN=1\"); }\\n' > build.rs && \
        cargo build -q --offline && ./target/debug/small | grep -x 7 && cargo test -q --offline && touch src/main.rs && \
        cargo run -q --offline | grep -x 7 && cargo clean -q && test ! -e target/debug/small";
    works_for_both(&server, script).await;
}

#[tokio::test]
async fn npm_installs_from_folders_and_tarballs() {
    or_skip!(possible_with(&["npm", "node"]));
    let server = builder().start().await;
    let script = "mkdir -p dep/bin app && cd dep && \
        printf '{\"name\":\"dep\",\"version\":\"1.0.0\",\"main\":\"index.js\",\"bin\":{\"dep\":\"bin/dep.js\"},\"scripts\":{\"postinstall\":\"id -u > ran\"}}' > package.json && \
        echo 'module.exports = 7' > index.js && printf '#!/usr/bin/env node\\nconsole.log(require(\"..\"))\\n' > bin/dep.js && \
        npm pack --offline --silent && cd ../app && printf '{\"name\":\"app\",\"version\":\"1.0.0\"}' > package.json && \
        npm install --offline --no-audit --no-fund --silent ../dep/dep-1.0.0.tgz && \
        node -e 'if (require(\"dep\") !== 7) process.exit(1)' && npm exec --offline -- dep | grep -x 7 && \
        test $(cat node_modules/dep/ran) = $(id -u) && test $(stat -c %u node_modules/dep/index.js) = $(id -u) && \
        npm uninstall --offline --silent dep && npm install --offline --no-audit --no-fund --silent ../dep && test -L node_modules/dep && \
        npm install --offline --no-audit --no-fund --silent -g --prefix $d/global ../dep && $d/global/bin/dep | grep -x 7";
    works_for_both(&server, script).await;
}

/// A wheel is an archive with three files of metadata; the source package brings the few lines that build one.
const BACKEND: &str = "import os, zipfile\\n\
    def build_wheel(directory, config_settings=None, metadata_directory=None):\\n\
    \\040   name = \"small-1.0-py3-none-any.whl\"\\n\
    \\040   with zipfile.ZipFile(os.path.join(directory, name), \"w\") as wheel:\\n\
    \\040       wheel.writestr(\"small.py\", \"VALUE = 7\\\\n\")\\n\
    \\040       info = \"small-1.0.dist-info/\"\\n\
    \\040       wheel.writestr(info + \"METADATA\", \"Metadata-Version: 2.1\\\\nName: small\\\\nVersion: 1.0\\\\n\")\\n\
    \\040       wheel.writestr(info + \"WHEEL\", \"Wheel-Version: 1.0\\\\nGenerator: x\\\\nRoot-Is-Purelib: true\\\\nTag: py3-none-any\\\\n\")\\n\
    \\040       wheel.writestr(info + \"RECORD\", \"\")\\n\
    \\040   return name\\n";

#[tokio::test]
async fn pip_installs_wheels_and_sources_into_an_environment() {
    or_skip!(possible_with(&["python3"]));
    let server = builder().start().await;
    let script = format!(
        "mkdir src && printf '{BACKEND}' > src/backend.py && \
         printf '[build-system]\\nrequires = []\\nbuild-backend = \"backend\"\\nbackend-path = [\".\"]\\n' > src/pyproject.toml && \
         python3 -m venv v && v/bin/pip install -q --no-index --disable-pip-version-check ./src && \
         v/bin/python -c 'import small; assert small.VALUE == 7' && \
         v/bin/pip uninstall -q -y small && ! v/bin/python -c 'import small' 2> none && \
         (cd src && python3 -c 'import backend; backend.build_wheel(\"..\")') && \
         v/bin/pip install -q --no-index --disable-pip-version-check small-1.0-py3-none-any.whl && \
         v/bin/python -c 'import small; assert small.VALUE == 7' && tar cf small-1.0.tar -C src . && mkdir t && tar xf small-1.0.tar -C t && \
         v/bin/pip install -q --no-index --disable-pip-version-check --force-reinstall ./t && v/bin/pip check"
    );
    works(&server, &["python3"], &script).await;
}

#[tokio::test]
async fn make_builds_with_a_compiler_and_with_many_processes() {
    or_skip!(possible_with(&["make", "cc", "ar"]));
    let server = builder().start().await;
    let script = "printf 'int seven(void){return 7;}\\n' > l.c && printf 'int seven(void);int main(void){return seven()-7;}\\n' > a.c && \
        printf 'all: a check\\nl.a: l.o\\n\\tar rcs $@ $^\\na: a.o l.a\\n\\t$(CC) -o $@ a.o l.a\\ncheck: a\\n\\t./a\\ninstall: a\\n\\tinstall -D -m 755 a $(DESTDIR)/bin/a\\n' > Makefile && \
        make -s -j4 && make -s install DESTDIR=$d/root && root/bin/a && test $(stat -c %a root/bin/a) = 755 && make -s -q all; test $? -le 1";
    works_for_both(&server, script).await;
    // Two hundred processes at once: each waits at a pipe until all of them are there.
    let script = "mkfifo gate && printf 'all:' > Makefile && for n in $(seq 200); do printf ' p%s' $n >> Makefile; done && \
        printf '\\np%%:\\n\\t@echo here >> count; read line < gate || true\\n' >> Makefile && touch count && (make -s -j200 &) && \
        while [ $(wc -l < count) -lt 200 ]; do sleep 0.05; done && exec 3> gate && exec 3>&- && test $(wc -l < count) = 200";
    works_for_both(&server, script).await;
}
