//! What an approval is bound to: what starts, from which files, in which directory, and how firmly that is held.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    AgentId, Command, CommandInput, Confinement, FileIdentity, FileRedirection, Host, SessionKey, vocabulary,
};

vocabulary! {
    /// What an approval pins, and how a run starts because of it. From the most to the least of the programs.
    pub enum Pinning("exact, path, text or held") {
        /// The arguments, and every program by its identity: each is started from the descriptor that was checked, and its
    /// stamp is compared with what was judged by the last system call before its execution.
        Exact = "exact",
        /// An analysed command of which something is found by its path once more after it was checked: a script by
        /// its interpreter, a program by its wrapper or a shell.
        Path = "path",
        /// A text and the shell that reads it, not the programs that it finds.
        Text = "text",
        /// A text, the shell that reads it, and the only files that can be executed, each by its identity.
        Held = "held",
    }
}

vocabulary! {
    /// Whether the scripts of a run are read as they were judged, and if not, why.
    pub enum ScriptHold("held, or not held: and why") {
        /// Interpreters that open one of them to read get the content that was judged.
        Held = "held",
        /// A program of the command is set-uid, set-gid or has capabilities, and the level lets it use them: it must not be
        /// stopped in its calls.
        GainsPrivileges = "not held: gains privileges",
        /// A script is started as a program by another program: the kernel reads its first line at its path.
        StartedByAnother = "not held: started by another program",
        /// Its first line names no program that could be started in its place.
        NoInterpreter = "not held: its first line names no program",
        /// The text was not understood, so that its interpreters are not known.
        NotUnderstood = "not held: the text could not be taken apart",
        /// The command changes to a directory that is found while it runs.
        ChangesDirectory = "not held: changes directory",
        /// A program of the command starts others where other files are: in a mount namespace, a root, a container.
        SeesOtherFiles = "not held: sees other files",
        /// `make` chooses its file when it starts, and may make it anew.
        MakeChooses = "not held: make may read another file",
        /// The files are too large to be read before the start.
        TooLarge = "not held: too large",
        /// The kernel cannot answer an open with another file, or does not let us.
        Unsupported = "not held: the kernel cannot",
    }
}

vocabulary! {
    /// What stands between a step of a plan and the one before.
    pub enum StepJoin("|, &&, || or ;") {
        /// It reads what the one before writes.
        Pipe = "|",
        /// It starts if what is before succeeded.
        And = "&&",
        /// It starts if what is before failed.
        Or = "||",
        /// It starts in any case.
        Sequence = ";",
    }
}

/// Where standard input, output or error of one program goes, in place of where they went before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redirection {
    /// `</dev/null`.
    InputFromNull,
    /// `>/dev/null`.
    OutputToNull,
    /// `2>/dev/null`.
    ErrorsToNull,
    /// `2>&1`: to where standard output goes at that moment.
    ErrorsToOutput,
    /// `>&2`: to where standard error goes at that moment.
    OutputToErrors,
    /// `<<`: this text, which is empty or ends with a newline.
    InputFromText(String),
    /// A file of the workspace, which the supervisor opens.
    File(FileRedirection),
    /// A file of the temporary directory, which the supervisor opens: to be written one that the run itself made, to be read
    /// one of its own account.
    Temporary(FileRedirection),
}

impl Redirection {
    /// As every POSIX shell reads it; of a text the operator alone, since the text follows its line, and of a file as well.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::InputFromNull => "</dev/null",
            Self::InputFromText(_) => "<<",
            Self::OutputToNull => ">/dev/null",
            Self::ErrorsToNull => "2>/dev/null",
            Self::ErrorsToOutput => "2>&1",
            Self::OutputToErrors => ">&2",
            Self::File(file) | Self::Temporary(file) => file.used_as.as_str(),
        }
    }

    /// The descriptor that it changes.
    pub const fn descriptor(&self) -> u8 {
        match self {
            Self::InputFromNull | Self::InputFromText(_) => 0,
            Self::OutputToNull | Self::OutputToErrors => 1,
            Self::ErrorsToNull | Self::ErrorsToOutput => 2,
            Self::File(file) | Self::Temporary(file) => file.used_as.descriptor(),
        }
    }

    /// The file of the workspace, or of the temporary directory, that it opens.
    pub const fn file(&self) -> Option<&FileRedirection> {
        match self {
            Self::File(file) | Self::Temporary(file) => Some(file),
            Self::InputFromNull
            | Self::OutputToNull
            | Self::ErrorsToNull
            | Self::ErrorsToOutput
            | Self::OutputToErrors
            | Self::InputFromText(_) => None,
        }
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundStep {
    /// `None` for the first.
    pub join: Option<StepJoin>,
    /// What it does.
    pub action: BoundAction,
}

/// A part of an argument that is replaced when its program begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundFill {
    /// Which of the arguments, `argv[0]` included.
    pub argument: usize,
    /// The first byte of it that is replaced.
    pub from: usize,
    /// The first byte behind those.
    pub to: usize,
    /// By what.
    pub with: BoundFilling,
}

/// What a part of an argument is replaced by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum BoundFilling {
    /// The exit code of the pipeline before.
    Status,
    /// The process ID of the steps that began last in the background.
    Background,
    /// What these steps write to standard output, without the newlines at its end.
    Output {
        /// In the order of the command text. What they change of the directory ends with them.
        steps: Vec<BoundStep>,
    },
    /// What a variable has that the run gave a value before.
    Variable {
        /// Its name.
        name: String,
    },
}

/// What decides about each turn of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum BoundCondition {
    /// There is another line of standard input, which a variable gets (`while read`).
    Line {
        /// The variable.
        variable: String,
        /// Whether it gets the line without blanks at both ends.
        trims: bool,
        /// Whether a backslash is a character like others (`-r`).
        raw: bool,
    },
    /// The exit code of these steps is 0 (`while`).
    While {
        /// In the order of the command text.
        steps: Vec<BoundStep>,
    },
    /// It is another one (`until`).
    Until {
        /// In the order of the command text.
        steps: Vec<BoundStep>,
    },
}

impl BoundCondition {
    /// Its steps.
    pub const fn steps(&self) -> Option<&Vec<BoundStep>> {
        match self {
            Self::Line { .. } => None,
            Self::While { steps } | Self::Until { steps } => Some(steps),
        }
    }
}

/// The lists of steps whose output is put into something.
fn outputs(fills: &[BoundFill]) -> Vec<&[BoundStep]> {
    fills
        .iter()
        .filter_map(|fill| match &fill.with {
            BoundFilling::Status | BoundFilling::Background | BoundFilling::Variable { .. } => None,
            BoundFilling::Output { steps } => Some(steps.as_slice()),
        })
        .collect()
}

impl BoundStep {
    /// Each step in the order in which it is prepared: those whose output is put into a program, before that program.
    pub fn all(steps: &[Self]) -> Vec<&Self> {
        let mut found = Vec::new();
        for step in steps {
            for inner in step.action.inner() {
                found.extend(Self::all(inner));
            }
            found.push(step);
        }
        found
    }
}

impl BoundAction {
    /// The lists of steps inside of it, in the order in which they are prepared.
    fn inner(&self) -> Vec<&[BoundStep]> {
        match self {
            Self::Program { fills, .. } | Self::Set { fills, .. } => outputs(fills),
            Self::Turns { condition, steps } => {
                let condition = condition.steps().map(Vec::as_slice);
                condition.into_iter().chain([steps.as_slice()]).collect()
            }
            Self::All { steps, apart: _ } | Self::Not { steps } | Self::Background { steps } => vec![steps],
            Self::Choice {
                condition,
                then,
                otherwise,
            } => vec![condition, then, otherwise],
            Self::ChangeDirectory { .. } | Self::PrintDirectory { .. } | Self::Settle { .. } | Self::Wait => {
                Vec::new()
            }
        }
    }
}

/// What a step of a plan does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "does")]
pub enum BoundAction {
    /// Starts one program from the file that was judged, without a shell.
    Program {
        /// Absolute path of the executable.
        path: String,
        /// All arguments, `argv[0]` included.
        argv: Vec<String>,
        /// Variables that it alone gets.
        assignments: Vec<(String, String)>,
        /// The file that was judged.
        identity: FileIdentity,
        /// In this order, after the pipes of the pipeline. Older records have none.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        redirections: Vec<Redirection>,
        /// What is put into its arguments when it begins, in their order. Older records have none.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        fills: Vec<BoundFill>,
    },
    /// Changes the directory of all later steps.
    ChangeDirectory {
        /// Absolute, or relative to the directory before, without a look at `CDPATH`.
        operand: String,
        /// Device and inode, where it was there when it was judged and nothing of the run can have made it anew.
        pinned: Option<(u64, u64)>,
        /// Whether nothing is said where it fails (`2>/dev/null`). Older records do not have it.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        quiet: bool,
    },
    /// Prints the directory (`pwd`).
    PrintDirectory {
        /// Without the links that led to it (`-P`).
        physical: bool,
    },
    /// Does nothing well (`true`, `:`) or badly (`false`).
    Settle {
        /// Whether its exit code is 0; else it is 1.
        succeeds: bool,
    },
    /// Does these steps, which have one exit code: `{ …; }`, `( … )`, and a loop over known words.
    All {
        /// In the order of the command text.
        steps: Vec<BoundStep>,
        /// Whether what they change of the directory ends with them.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        apart: bool,
    },
    /// Does one pipeline, and succeeds if it fails (`!`).
    Not {
        /// The pipeline.
        steps: Vec<BoundStep>,
    },
    /// `if`: does the first steps, and by their exit code the second or the third.
    Choice {
        /// What chooses.
        condition: Vec<BoundStep>,
        /// Where that succeeds.
        then: Vec<BoundStep>,
        /// Where it fails; without any, it succeeds then.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        otherwise: Vec<BoundStep>,
    },
    /// Does steps again and again: `while` and `until`.
    Turns {
        /// Looked at before each turn.
        condition: BoundCondition,
        /// A turn.
        steps: Vec<BoundStep>,
    },
    /// Gives a variable of the run a value that is known only then. No program gets the variable.
    Set {
        /// The variable.
        variable: String,
        /// Its value as it is written.
        value: String,
        /// What is put into that, in its order.
        fills: Vec<BoundFill>,
    },
    /// Begins steps and does not wait for them (`&`). They read nothing, and end with the run.
    Background {
        /// What runs beside the steps that follow.
        steps: Vec<BoundStep>,
    },
    /// Waits for all of those (`wait`).
    Wait,
}

/// A file that an interpreter reads, by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundScript {
    /// Its path, as the interpreter gets it.
    pub path: String,
    /// SHA-256 of its content as lower-case hex; of one that is too large to read, of what tells it from others.
    pub sha256: String,
    /// What its first line names, where it is started as a program itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interpreter: Option<BoundInterpreter>,
}

/// The program that a `#!` line names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundInterpreter {
    /// Absolute path as it stands there.
    pub path: String,
    /// The one argument that may follow it.
    pub argument: Option<String>,
    /// The file that was judged.
    pub identity: FileIdentity,
}

/// What is started, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Bound {
    /// The program at `path` with `argv`, no shell.
    Exec {
        /// Absolute path of the executable.
        path: String,
        /// All arguments, `argv[0]` included.
        argv: Vec<String>,
        /// The file that was judged; records of before do not have it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        identity: Option<FileIdentity>,
    },
    /// An analysed command, whose steps are started without a shell.
    ///
    /// A covered command starts from its plan: each program from the file that was judged, without a shell.
    /// (`docs/spec/command-analysis.md#x1`)
    Plan {
        /// In the order of the command text.
        steps: Vec<BoundStep>,
    },
    /// A canonical rendering of an analysed command, run by a fixed `/bin/sh -c` (`docs/spec/command-analysis.md#x1`).
    Rendered {
        /// The argument of `-c`.
        script: String,
    },
    /// Text exactly as it was sent, run by the host shell.
    ///
    /// A text that was not understood, and one that runs under `full`, runs as it was sent, by the host shell.
    /// (`docs/spec/command-analysis.md#x2`)
    Text {
        /// Absolute path of the shell.
        shell: String,
        /// Byte for byte as sent.
        text: String,
    },
    /// Text exactly as it was sent, run by the host shell where nothing but these programs can be executed, nothing but
    /// the workspace written, and no network reached.
    Held {
        /// Absolute path of the shell.
        shell: String,
        /// The file of the shell.
        shell_file: FileIdentity,
        /// Byte for byte as sent.
        text: String,
        /// Real path of the agent's workspace.
        workspace: String,
        /// Every other file that can be executed, in the order of their paths: programs of the allowlist.
        programs: Vec<FileIdentity>,
        /// What loads the libraries of these programs. The kernel executes it for each of them.
        loaders: Vec<FileIdentity>,
    },
    /// The command as sent, in a sandbox, which finds the programs itself.
    Inside {
        /// Lower-case hex SHA-256 of what the sandbox is: who shares it, what it sees and may use, what makes it.
        sandbox: String,
        /// What comes before the `PATH` of the sandbox.
        path_prepend: Option<String>,
    },
    /// The command on a node, which finds the programs itself.
    OnNode {
        /// What the node is to start, as it is asked.
        argv: Vec<String>,
        /// What the node made of that, as JSON text exactly as it came; `None` for a node that says nothing beforehand.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        plan: Option<String>,
    },
    /// A patch of files below the working directory. The leader of the run applies it.
    Patch {
        /// Exactly as it was sent.
        text: String,
        /// It stays in the workspace.
        workspace_only: bool,
        /// The server's own files, which it does not change.
        off_limits: Vec<String>,
        /// What lies in there and may be changed nevertheless.
        spared: Vec<String>,
    },
    /// Nothing here: the asker starts it, and only the answer was wanted. No host of this server starts one.
    Elsewhere {
        /// Whose answer it is: the entry point, a colon, and who came through it. Records of before do not have it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        asked_by: Option<String>,
    },
}

/// Everything an approval covers. Two requests with equal digests would do the same thing.
///
/// An approval binds what was shown, and anything that differs at the start is refused.
/// (`docs/spec/command-analysis.md#t1`)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The host that was chosen for the call.
    pub host: Host,
    /// Node, for `host` node.
    pub node_id: Option<String>,
    /// The agent that the call acts for.
    pub agent: AgentId,
    /// The session of the call.
    pub session: SessionKey,
    /// The command as sent.
    pub command: Command,
    /// What `host` starts for `command`.
    pub bound: Bound,
    /// Canonical path of the working directory.
    pub cwd: String,
    /// Its device and inode, so that another directory of the same name is noticed.
    pub cwd_dev: u64,
    /// Inode of the working directory; 0 where this server does not see the directory.
    pub cwd_ino: u64,
    /// SHA-256 of the accepted environment overrides
    /// (`docs/spec/approvals-store.md#12-binding-an-approval-to-what-runs`), `None` without any.
    pub env_hash: Option<String>,
    /// Every executable that the plan names, by identity.
    pub executables: Vec<FileIdentity>,
    /// SHA-256 of the first executable's content, when it was taken.
    pub executable_sha256: Option<String>,
    /// The first script: its path and the SHA-256 of its content, or over all of them where there are several.
    pub script: Option<(String, String)>,
    /// Every script by itself: programs that begin with `#!`, and operands of shells and interpreters.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scripts: Vec<BoundScript>,
    /// Whether they are read as they were judged. `None` without any, and in older records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<ScriptHold>,
    /// What the kernel keeps of the programs that it starts. Older records do not have it: nothing was kept.
    #[serde(skip_serializing_if = "Confinement::is_open", default)]
    pub confinement: Confinement,
    /// Patterns of programs that none of its programs can start or read, at the level `confined`: those of deny rules with
    /// `children`, `~/` put in, sorted. Older records have none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denied_children: Vec<String>,
    /// Whether it has a pseudo-terminal.
    pub pty: bool,
    /// Whether more can be written to it once it runs. Records of before do not have it: nobody was told of it then.
    #[serde(skip_serializing_if = "CommandInput::is_closed", default)]
    pub input: CommandInput,
    /// Time limit in milliseconds, 0 for none.
    pub timeout_ms: u64,
}

impl Binding {
    /// SHA-256 over the canonical record, lower-case hex. Fields are framed by JSON, so no two
    /// different bindings share a text.
    ///
    /// # Panics
    /// Never: the record has only strings, numbers and lists.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a binding is plain data");
        hex(&Sha256::digest(&text))
    }
}

/// Lower-case hex, two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    // Formatting byte by byte costs more than hashing a short text.
    let digit = |value: u8| {
        char::from(if value < 10 {
            b'0' + value
        } else {
            b'a' - 10 + value
        })
    };
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileUse, PinnedDirectory};

    #[test]
    fn what_is_bound_is_read_back_and_so_are_older_records() {
        for mtime_ns in [
            0,
            -5,
            1_700_000_000_123_456_789,
            i128::from(i64::MAX) * 1_000_000_000,
        ] {
            let identity = FileIdentity {
                path: "/usr/bin/x".to_owned(),
                dev: u64::MAX,
                ino: 2,
                size: 3,
                mtime_ns,
                ctime_ns: 1,
            };
            let program = BoundAction::Program {
                path: "/usr/bin/x".to_owned(),
                argv: vec!["x".to_owned()],
                assignments: vec![("TZ".to_owned(), "UTC".to_owned())],
                identity: identity.clone(),
                redirections: vec![
                    Redirection::ErrorsToOutput,
                    Redirection::InputFromText("a\n".to_owned()),
                    Redirection::File(FileRedirection {
                        used_as: FileUse::OutputAppended,
                        workspace: PinnedDirectory {
                            path: "/srv".to_owned(),
                            dev: 1,
                            ino: u64::MAX,
                        },
                        path: "a/b".to_owned().try_into().unwrap(),
                    }),
                ],
                fills: vec![
                    BoundFill {
                        argument: 1,
                        from: 0,
                        to: 2,
                        with: BoundFilling::Status,
                    },
                    BoundFill {
                        argument: 1,
                        from: 3,
                        to: 9,
                        with: BoundFilling::Output {
                            steps: vec![BoundStep {
                                join: None,
                                action: BoundAction::Settle { succeeds: true },
                            }],
                        },
                    },
                    BoundFill {
                        argument: 2,
                        from: 0,
                        to: 2,
                        with: BoundFilling::Background,
                    },
                ],
            };
            let settled = || BoundStep {
                join: None,
                action: BoundAction::Settle { succeeds: false },
            };
            for bound in [
                Bound::Plan {
                    steps: vec![
                        BoundStep {
                            join: None,
                            action: BoundAction::All {
                                steps: vec![settled()],
                                apart: true,
                            },
                        },
                        BoundStep {
                            join: Some(StepJoin::And),
                            action: BoundAction::Not {
                                steps: vec![settled()],
                            },
                        },
                        BoundStep {
                            join: Some(StepJoin::Sequence),
                            action: BoundAction::Choice {
                                condition: vec![settled()],
                                then: vec![settled()],
                                otherwise: vec![],
                            },
                        },
                    ],
                },
                Bound::Exec {
                    path: "/usr/bin/x".to_owned(),
                    argv: vec!["x".to_owned()],
                    identity: Some(identity.clone()),
                },
                Bound::Plan {
                    steps: vec![BoundStep {
                        join: None,
                        action: program,
                    }],
                },
            ] {
                let text = serde_json::to_string(&bound).unwrap();
                assert_eq!(serde_json::from_str::<Bound>(&text).unwrap(), bound, "{text}");
            }
        }
        let old = r#"{"kind":"exec","path":"/bin/x","argv":["x"]}"#;
        assert!(matches!(
            serde_json::from_str(old).unwrap(),
            Bound::Exec { identity: None, .. }
        ));
        assert_eq!(
            serde_json::to_string(&serde_json::from_str::<Bound>(old).unwrap()).unwrap(),
            old
        );
        let old =
            r#"{"path":"/bin/x","dev":1,"ino":2,"size":3,"mtime_ns":1700000000123456789,"ctime_ns":-1}"#;
        let read: FileIdentity = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
