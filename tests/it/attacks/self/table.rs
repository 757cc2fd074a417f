//! The attacks.
//!
//! A script ends with code 0 when the attack got through. It finds, besides what every run has:
//!
//! | | |
//! | --- | --- |
//! | `$S` | the state directory |
//! | `$W` | a directory that the command may write |
//! | `$PROBE` | `probe.c` |
//! | `$SERVER`, `$RUNNER`, `$SUPERVISOR` | their process ids |
//! | `$OTHER` | an ordinary process of the server's account outside: a person's shell |
//! | `$PORT` | the TCP port of the API |
//! | `$COUNTERSIGN` | the program |
//! | `$NAME` | a word that nothing else on the machine has in its name |
//! | … | see `Scene` for sockets, a control group and a terminal |

use super::{scene::Level, steps::Step};

/// What becomes of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    KeptOut,
    GetsThrough,
}

use Outcome::{GetsThrough, KeptOut};

/// How an attack goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    /// One command.
    Script(&'static str),
    /// More than a command.
    Steps(Step),
}

/// Where an attack gets through, so that it is known to be one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Control {
    /// At the level `same-user`.
    SameUser,
    /// At a level with protections of a test build left away.
    Without(Level, &'static str),
    /// Another form of it, against what is not protected, at the level `same-user`.
    Variant(How),
}

/// What has to be there for an attack to mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// The second version of control groups, with root allowed to make one.
    ControlGroups,
    /// Landlock with scopes.
    Scopes,
    /// A kernel that opens handles of files for the root of a user namespace.
    Handles,
    /// No Yama that forbids tracing altogether.
    Tracing,
    /// Terminals that take pushed keys.
    PushedKeys,
    /// A file system with set-uid programs.
    SetUid,
}

/// One attack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attack {
    pub(super) id: &'static str,
    /// The row of the table that it belongs to. Attacks of one row follow each other; the row says that they are kept out
    /// if all of them are.
    pub(super) row: &'static str,
    pub(super) how: How,
    pub(super) control: Control,
    pub(super) need: Need,
    /// At `separate-user`, `confined` and `same-user`.
    expected: [Outcome; 3],
}

impl Attack {
    pub(super) fn expected(&self, level: Level) -> Outcome {
        let [separate_user, confined, same_user] = self.expected;
        match level {
            Level::SeparateUser => separate_user,
            Level::Confined => confined,
            Level::SameUser => same_user,
        }
    }

    pub(super) fn is_controlled_without(&self, protection: &str) -> bool {
        matches!(self.control, Control::Without(_, off) if off == protection)
    }

    const fn needs(self, need: Need) -> Self {
        Self { need, ..self }
    }

    const fn with(self, control: Control) -> Self {
        Self { control, ..self }
    }

    const fn at(self, expected: [Outcome; 3]) -> Self {
        Self { expected, ..self }
    }
}

/// Kept out where there is a boundary.
const fn attack(row: &'static str, id: &'static str, script: &'static str) -> Attack {
    steps(row, id, How::Script(script))
}

/// [`attack`] on a line of the table.
macro_rules! attack {
    ($row:ident $id:literal: $script:literal) => {
        attack($row, $id, $script)
    };
}

const fn steps(row: &'static str, id: &'static str, how: How) -> Attack {
    Attack {
        id,
        row,
        how,
        control: Control::SameUser,
        need: Need::Nothing,
        expected: [KeptOut, KeptOut, GetsThrough],
    }
}

/// Kept out at every level: what protects is not the level.
const fn never(row: &'static str, id: &'static str, script: &'static str, control: Control) -> Attack {
    attack(row, id, script).at([KeptOut; 3]).with(control)
}

/// [`never`] on a line of the table.
macro_rules! never {
    ($row:ident $id:literal: $script:literal, $control:expr) => {
        never($row, $id, $script, $control)
    };
}

const DUMPABLE: Control = Control::Without(Level::SameUser, "dumpable");

const SECRETS: &str = "read a token, the audit key or the settings";
const RECORD: &str = "open the ledger, a run file or a spool";
const POLICY: &str = "change the approvals document, the settings or a token";
const AROUND: &str = "reach the state directory by links, `..` or `/proc/self`";
const MOVED: &str = "move the state directory, or one above it, and put another in its place";
const RACE: &str = "read while files and directories are replaced outside";
const API: &str = "call the API with what can be found";
const ANSWER: &str = "answer its own question";
const CLI: &str = "use the operator's command line without the mark of a run";
const MARKED: &str = "use the operator's command line inside a run";
const HELD: &str = "have its edit of the approvals document count";
const SERVER: &str = "look into the server: environment, memory, descriptors, root";
const RUNNER: &str = "look into the runner or its supervisor";
const OTHERS: &str = "look into other processes of the server's account";
const SIGNALS: &str = "send signals to the server";
const RUNNER_SIGNALS: &str = "send signals to the runner or its supervisor";
const LIMITS: &str = "change the resource limits of the server";
const ENGINES: &str = "connect to a container engine in `/run`";
const BUSES: &str = "connect to the system bus, the session bus or systemd of the account";
const TERMINALS: &str = "connect to a terminal multiplexer of the account";
const AGENTS: &str = "connect to an ssh agent of the account";
const ABSTRACT: &str = "connect to an abstract socket of another process";
const NAMESPACES: &str = "uncover by namespaces and mounts of its own";
const ENTER: &str = "enter the namespaces of another process";
const HANDLES: &str = "open a covered directory by its file handle";
const COVERS: &str = "take a cover away";
const DESCRIPTORS: &str = "find inherited descriptors";
const GROUPS: &str = "change control groups of the account";
const KEYRING: &str = "read the session keyring of the server";
const PUSH: &str = "push keys into a terminal of the account";
const WRITE_TERMINAL: &str = "write to a terminal of the account";
const SET_UID: &str = "gain rights by a set-uid program";
const STAYS: &str = "stay behind when the run ends";
const LATER: &str = "try again from a process that was allowed to stay behind";
const PLANT: &str = "leave something in the home directory that runs outside later";

/// All of them, in the order of the table.
pub(super) const ATTACKS: &[Attack] = &[
    attack!(SECRETS "operator-token": "grep -q . $S/countersign/operator.token"),
    attack!(SECRETS "gateway-token": "grep -q . $S/countersign/gateway.token"),
    attack!(SECRETS "bridge-token": "grep -q . $S/countersign/bridge.token"),
    attack!(SECRETS "audit-key":
        "test -s $S/countersign/audit.key && head -c 1 $S/countersign/audit.key | grep -qa ."),
    attack!(SECRETS "address": "grep -q http $S/countersign/server.json"),
    attack!(SECRETS "server-settings": "grep -q exec $S/countersign/countersign.toml"),
    attack!(SECRETS "configuration": "grep -q tools $S/openclaw.json"),
    attack!(SECRETS "list": "ls $S/countersign | grep -q token"),
    attack!(RECORD "ledger-read": "head -c 15 $S/countersign/countersign.db | grep -q SQLite"),
    attack!(RECORD "ledger-write": ": >> $S/countersign/countersign.db"),
    attack!(RECORD "run-file":
        "for f in $S/countersign/runs/*; do test -f $f && : >> $f && exit 0; done; exit 1"),
    attack!(RECORD "spools":
        "ls -d $S/countersign/output/. && touch $S/countersign/output/$NAME && rm \
         $S/countersign/output/$NAME"),
    attack!(POLICY "document":
        "cp -p $S/exec-approvals.json $S/$NAME && mv $S/$NAME $S/exec-approvals.json"),
    attack!(POLICY "document-in-place": ": >> $S/exec-approvals.json"),
    attack!(POLICY "accepted-document": "touch $S/countersign/$NAME && rm $S/countersign/$NAME"),
    attack!(POLICY "configuration-write": "cp -p $S/openclaw.json $S/$NAME && mv $S/$NAME $S/openclaw.json"),
    attack!(POLICY "settings-write": ": >> $S/countersign/countersign.toml"),
    attack!(POLICY "token-write":
        "cp -p $S/countersign/operator.token $S/countersign/$NAME && mv $S/countersign/$NAME \
         $S/countersign/operator.token"),
    attack!(AROUND "dots":
        "mkdir -p $S/workspace; cd $S/workspace && grep -q . ../countersign/operator.token"),
    attack!(AROUND "symbolic-link": "ln -sfn $S/countersign $W/link && grep -q . $W/link/operator.token"),
    attack!(AROUND "link-in-workspace":
        "mkdir -p $S/workspace; rm -f $S/workspace/l; ln -s ../countersign $S/workspace/l; \
         grep -q . $S/workspace/l/operator.token"),
    attack!(AROUND "hard-link":
        "rm -f $W/hard; ln $S/countersign/operator.token $W/hard && grep -q . $W/hard"),
    attack!(AROUND "own-root": "grep -q . /proc/self/root$S/countersign/operator.token"),
    attack!(AROUND "own-directory":
        "mkdir -p $S/workspace; cd $S/workspace && grep -q . \
         /proc/self/cwd/../countersign/operator.token"),
    attack!(AROUND "thread": "grep -q . /proc/thread-self/root$S/countersign/operator.token"),
    attack!(MOVED "move-state": "mv $S $S.$NAME && mv $S.$NAME $S"),
    attack!(MOVED "move-above": "A=${S%/*}; mv $A $A.$NAME && mv $A.$NAME $A"),
    attack!(MOVED "move-above-pinned": "A=${S%/*}; mv $A $A.$NAME && mv $A.$NAME $A")
        .with(Control::Without(Level::Confined, "pins")),
    attack!(MOVED "remove-sandboxes":
        "D=$S/countersign/sandboxes; mkdir -p $D; rmdir $D && mkdir -m 700 $D"),
    steps(RACE, "race", How::Steps(Step::Race)),
    steps(RACE, "exchange", How::Steps(Step::Exchange)),
    attack!(API "socket": "$PROBE connect $S/countersign/api.sock"),
    attack!(API "socket-with-token":
        "curl -sf -m 5 --unix-socket $S/countersign/api.sock -H \"Authorization: Bearer \
         $(cat $S/countersign/operator.token)\" http://localhost/v1/approvals"),
    attack!(API "port-with-token":
        "for f in $S/countersign/*.token; do curl -sf -m 5 -H \"Authorization: Bearer $(cat \
         $f)\" http://127.0.0.1:$PORT/v1/approvals && exit 0; done; exit 1"),
    never(
        API,
        "port-with-environment",
        "for f in /proc/$SERVER/environ /proc/$RUNNER/environ /proc/$SUPERVISOR/environ \
         /proc/self/environ; do for t in $(tr '\\0' '\\n' < $f | sed 's/^[^=]*=//'); do curl \
         -sf -m 5 -H \"Authorization: Bearer $t\" http://127.0.0.1:$PORT/v1/runs && exit 0; \
         done; done; exit 1",
        Control::Variant(How::Script(
            "for f in /proc/self/environ; do for t in $(cat $S/countersign/gateway.token; tr \
         '\\0' '\\n' < $f | sed 's/^[^=]*=//'); do curl -sf -m 5 -H \"Authorization: Bearer \
         $t\" http://127.0.0.1:$PORT/v1/runs && exit 0; done; done; exit 1",
        )),
    ),
    never!(API "port-bare": "curl -sf -m 5 http://127.0.0.1:$PORT/v1/approvals",
        Control::Variant(How::Script("curl -sf -m 5 http://127.0.0.1:$PORT/healthz"))),
    steps(ANSWER, "answer", How::Steps(Step::Answer)),
    attack!(CLI "command-line": "env -u OPENCLAW_SHELL OPENCLAW_STATE_DIR=$S $COUNTERSIGN approvals list"),
    never!(MARKED "command-line-marked": "OPENCLAW_STATE_DIR=$S $COUNTERSIGN approvals list",
        Control::Variant(How::Script("env -u OPENCLAW_SHELL OPENCLAW_STATE_DIR=$S $COUNTERSIGN approvals list"))),
    steps(HELD, "held-edit", How::Steps(Step::WidenPolicy))
        .at([KeptOut; 3])
        .with(Control::Variant(How::Steps(Step::WidenPolicyAndAccept))),
    never!(SERVER "server-environment": "head -c 1 /proc/$SERVER/environ | grep -qa .", DUMPABLE),
    never!(SERVER "server-memory": "exec 3< /proc/$SERVER/mem", DUMPABLE),
    never!(SERVER "server-maps": "head -c 1 /proc/$SERVER/maps | grep -q .", DUMPABLE),
    never!(SERVER "server-descriptors": "ls /proc/$SERVER/fd/ | grep -q .", DUMPABLE),
    never!(SERVER "server-root": "ls /proc/$SERVER/root/ | grep -q .", DUMPABLE),
    never!(SERVER "server-directory": "ls -d /proc/$SERVER/cwd/", DUMPABLE),
    never!(SERVER "server-trace": "$PROBE trace $SERVER", DUMPABLE).needs(Need::Tracing),
    never!(SERVER "server-read-memory": "$PROBE read-memory $SERVER", DUMPABLE),
    never!(SERVER "server-take-descriptor": "$PROBE take-descriptor $SERVER", DUMPABLE).needs(Need::Tracing),
    never!(RUNNER "runner-environment": "head -c 1 /proc/$RUNNER/environ | grep -qa .", DUMPABLE),
    never!(RUNNER "runner-memory": "exec 3< /proc/$RUNNER/mem", DUMPABLE),
    never!(RUNNER "runner-descriptors": "ls /proc/$RUNNER/fd/ | grep -q .", DUMPABLE),
    never!(RUNNER "runner-root": "ls /proc/$RUNNER/root/ | grep -q .", DUMPABLE),
    never!(RUNNER "runner-trace": "$PROBE trace $RUNNER", DUMPABLE).needs(Need::Tracing),
    never!(RUNNER "runner-read-memory": "$PROBE read-memory $RUNNER", DUMPABLE),
    never!(RUNNER "runner-take-descriptor": "$PROBE take-descriptor $RUNNER", DUMPABLE).needs(Need::Tracing),
    never!(RUNNER "supervisor-memory": "exec 3< /proc/$SUPERVISOR/mem", DUMPABLE),
    never!(RUNNER "supervisor-descriptors": "ls /proc/$SUPERVISOR/fd/ | grep -q .", DUMPABLE),
    never!(RUNNER "supervisor-root": "ls /proc/$SUPERVISOR/root/ | grep -q .", DUMPABLE),
    never!(RUNNER "supervisor-trace": "$PROBE trace $SUPERVISOR", DUMPABLE).needs(Need::Tracing),
    never!(RUNNER "supervisor-read-memory": "$PROBE read-memory $SUPERVISOR", DUMPABLE),
    never!(RUNNER "supervisor-take-descriptor": "$PROBE take-descriptor $SUPERVISOR", DUMPABLE)
        .needs(Need::Tracing),
    attack!(OTHERS "other-environment": "head -c 1 /proc/$OTHER/environ | grep -qa ."),
    attack!(OTHERS "other-root": "grep -q . /proc/$OTHER/root$S/countersign/operator.token"),
    attack!(OTHERS "other-memory": "exec 3< /proc/$OTHER/mem"),
    attack!(OTHERS "other-trace": "$PROBE trace $OTHER").needs(Need::Tracing),
    attack!(OTHERS "other-take-descriptor": "$PROBE take-descriptor $OTHER").needs(Need::Tracing),
    attack!(SIGNALS "server-signal": "kill -0 $SERVER").needs(Need::Scopes),
    attack!(SIGNALS "other-signal": "kill -0 $OTHER").needs(Need::Scopes),
    attack!(SIGNALS "signal-scope": "kill -0 $OTHER")
        .needs(Need::Scopes)
        .with(Control::Without(Level::Confined, "landlock-scopes")),
    attack!(SIGNALS "signal-by-input": "$PROBE signal-by-input $VICTIM").needs(Need::Scopes),
    attack!(RUNNER_SIGNALS "runner-signal": "kill -0 $RUNNER")
        .needs(Need::Scopes)
        .at([GetsThrough, KeptOut, GetsThrough]),
    attack!(RUNNER_SIGNALS "supervisor-signal": "kill -0 $SUPERVISOR")
        .needs(Need::Scopes)
        .at([GetsThrough, KeptOut, GetsThrough]),
    attack!(LIMITS "server-limits": "$PROBE change-limits $SERVER").at([KeptOut, GetsThrough, GetsThrough]),
    attack!(ENGINES "engine": "$PROBE connect $ENGINE"),
    attack!(ENGINES "late-engine": "$PROBE connect $LATE_ENGINE"),
    attack!(BUSES "system-bus": "$PROBE connect $SYSTEM_BUS"),
    attack!(BUSES "session-bus": "$PROBE connect $SESSION_BUS"),
    attack!(BUSES "systemd": "$PROBE connect $SYSTEMD"),
    attack!(BUSES "variables": "env | grep -E '^(SSH_AUTH_SOCK|DOCKER_HOST|DBUS_SESSION_BUS_ADDRESS)='"),
    attack!(TERMINALS "multiplexer": "$PROBE connect $MULTIPLEXER"),
    attack!(AGENTS "agent": "$PROBE connect $AGENT"),
    attack!(ABSTRACT "abstract": "$PROBE connect-abstract $NAME")
        .needs(Need::Scopes)
        .at([GetsThrough, KeptOut, GetsThrough]),
    attack!(NAMESPACES "as-before": "unshare -Urm grep -q . $S/countersign/operator.token"),
    attack!(NAMESPACES "unmount":
        "unshare -Urm sh -c \"umount $S; umount -l $S; umount -R $S; grep -q . \
         $S/countersign/operator.token\""),
    attack!(NAMESPACES "bind":
        "mkdir -p $W/b && unshare -Urm sh -c \"mount --bind ${S%/*} $W/b; umount -l \
         $W/b/state; grep -q . $W/b/state/countersign/operator.token\""),
    attack!(NAMESPACES "recursive-bind":
        "mkdir -p $W/r && unshare -Urm sh -c \"mount --rbind / $W/r; mount --make-rprivate \
         $W/r; umount -l $W/r$S; grep -q . $W/r$S/countersign/operator.token\""),
    attack!(NAMESPACES "overlay":
        "mkdir -p $W/o/u $W/o/w $W/o/m && unshare -Urm sh -c \"mount -t overlay x -o \
         lowerdir=${S%/*},upperdir=$W/o/u,workdir=$W/o/w $W/o/m; grep -q . \
         $W/o/m/state/countersign/operator.token $S/countersign/operator.token\""),
    attack!(NAMESPACES "move":
        "mkdir -p $W/m && unshare -Urm sh -c \"mount --move $S $W/m; grep -q . \
         $S/countersign/operator.token\""),
    attack!(NAMESPACES "remount":
        "unshare -Urm sh -c \"mount -o remount,rw $S; mount -o remount,rw,bind $S; touch \
         $S/$NAME && rm $S/$NAME\""),
    attack!(NAMESPACES "pivot":
        "mkdir -p $W/p && unshare -Urm sh -c \"mount --rbind / $W/p; cd $W/p; pivot_root . \
         tmp; umount -l $S; umount -l /tmp; grep -q . $S/countersign/operator.token\" || \
         unshare -Urm grep -q . $S/countersign/operator.token"),
    attack!(NAMESPACES "own-proc":
        "unshare -Urmpf sh -c \"mount -t proc proc /proc; grep -q . \
         /proc/1/root$S/countersign/operator.token\""),
    attack!(NAMESPACES "twice":
        "unshare -Urm unshare -Urm sh -c \"umount -l $S; grep -q . \
         $S/countersign/operator.token\""),
    attack!(ENTER "enter-server": "$PROBE enter $SERVER grep -q . $S/countersign/operator.token"),
    attack!(ENTER "enter-other": "$PROBE enter $OTHER grep -q . $S/countersign/operator.token"),
    attack!(ENTER "enter-first": "$PROBE enter 1 grep -q . $S/countersign/operator.token"),
    attack!(ENTER "enter-from-own":
        "unshare -Urm $PROBE enter $OTHER grep -q . $S/countersign/operator.token"),
    attack!(HANDLES "handle": "unshare -Urm $PROBE open-by-handle ${S%/*} $HANDLE operator.token")
        .needs(Need::Handles),
    attack!(HANDLES "handle-from-workspace":
        "unshare -Urm sh -c \"$PROBE open-by-handle $S/workspace $HANDLE operator.token || \
         $PROBE open-by-handle $W $HANDLE operator.token || $PROBE open-by-handle ${S%/*} \
         $HANDLE operator.token\"")
    .needs(Need::Handles),
    attack!(COVERS "uncover": "$PROBE uncover $S grep -q . $S/countersign/operator.token"),
    attack!(COVERS "covered-at-all": "grep -q . $S/countersign/operator.token")
        .with(Control::Without(Level::Confined, "masks")),
    never!(DESCRIPTORS "descriptors": "$PROBE find-descriptors",
        Control::Without(Level::SameUser, "descriptors")),
    never!(DESCRIPTORS "descriptors-inside": "$PROBE find-descriptors",
        Control::Without(Level::Confined, "descriptors")),
    never(
        DESCRIPTORS,
        "descriptor-paths",
        "for f in /proc/self/fd/*; do for p in countersign/operator.token ../operator.token \
         ../countersign/operator.token; do grep -q . $f/$p && exit 0; done; done; exit 1",
        Control::Variant(How::Script(
            "exec 5< $S; for f in /proc/self/fd/*; do for p in countersign/operator.token; do \
         grep -q . $f/$p && exit 0; done; done; exit 1",
        )),
    ),
    attack!(GROUPS "groups": "mkdir $GROUP/x && rmdir $GROUP/x").needs(Need::ControlGroups),
    attack!(KEYRING "keyring": "$PROBE read-key $NAME"),
    never!(PUSH "push-keys": "$PROBE push-key $TERMINAL",
        Control::Variant(How::Script("script -qec \"$PROBE push-key /dev/tty\" /dev/null")))
    .needs(Need::PushedKeys),
    attack!(WRITE_TERMINAL "write-terminal": "exec 3> $TERMINAL").at([KeptOut, GetsThrough, GetsThrough]),
    attack!(SET_UID "set-uid": "$SET_UID_PROBE is-root")
        .needs(Need::SetUid)
        .at([GetsThrough, KeptOut, GetsThrough]),
    steps(STAYS, "stay", How::Steps(Step::Stay))
        .at([KeptOut; 3])
        .with(Control::Variant(How::Steps(Step::StayAllowed))),
    steps(LATER, "stay-and-read", How::Steps(Step::StayAndRead)),
    steps(PLANT, "plant", How::Steps(Step::Plant)).at([KeptOut, GetsThrough, GetsThrough]),
];
