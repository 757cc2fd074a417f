//! What clients of services and data may be told, as grammars: gh, aws, psql, sqlite3, openssl and gpg.

use super::grammar::{Call, Grammar, Reader};

const GH_LIST: &str = "-L: --limit: -q: --jq: -t: --template: --json: -w --web -R: --repo: -s: --state: -S: --search: -A: \
     --author: -a: --assignee: -l: --label: -B: --base: -H: --head: -d --draft --app: --mention: -m: --milestone:";
const GH_VIEW: &str = "-q: --jq: -t: --template: --json: -w --web -R: --repo: -c --comments";
const GH_WRITE: &str = "-t:t --title:t -b:t --body:t -F: --body-file: -a: --assignee: -l: --label: -m: --milestone: -p: \
     --project: -R: --repo: -w --web";
const GH_EDIT: &str = "-t:t --title:t -b:t --body:t -F: --body-file: --add-assignee: --remove-assignee: --add-label: \
     --remove-label: --add-project: --remove-project: --add-reviewer: --remove-reviewer: -m: --milestone: \
     --remove-milestone -B: --base: -R: --repo:";

/// An alias may start anything, and so may an extension: both are unknown here.
pub(super) const GH: Grammar = Grammar {
    programs: &["gh"],
    reader: Reader::Anywhere,
    options: &["--version --help -h"],
    commands: &[
        (
            "api",
            &[
                "-X: --method: -f:t --raw-field:t -F:t --field:t -H: --header: -i --include --input: -q: --jq: --paginate \
             --slurp --silent -t: --template: --cache: --hostname: -p: --preview: --verbose",
            ],
        ),
        (
            "auth status,auth token,auth logout,auth switch",
            &["-h: --hostname: -t --show-token -u: --user: -a --active"],
        ),
        (
            "browse",
            &[
                "-n --browser -b: --branch: -c? --commit? -p --projects -r --releases -s --settings -w --wiki -R: --repo:",
            ],
        ),
        ("config get,config list", &["-h: --host:"]),
        (
            "gist list,gist view",
            &["-L: --limit: -f: --filename: --files -r --raw --public --secret"],
        ),
        ("issue list", &[GH_LIST]),
        ("issue view,pr view", &[GH_VIEW]),
        ("issue create", &[GH_WRITE]),
        ("issue edit,pr edit", &[GH_EDIT]),
        (
            "issue close,issue reopen,pr close,pr reopen",
            &["-c:t --comment:t -r: --reason: -d --delete-branch -R: --repo:"],
        ),
        (
            "issue comment,pr comment",
            &["-b:t --body:t -F: --body-file: -R: --repo: --edit-last"],
        ),
        ("issue status,pr status", &[GH_VIEW]),
        (
            "label list,label create,label edit,label delete,label clone",
            &[
                "-L: --limit: -S: --search: -q: --jq: --json: -c: --color: -d:t --description:t -n: --name: -f --force -R: --repo: \
             --yes",
            ],
        ),
        ("pr list", &[GH_LIST]),
        (
            "pr create",
            &[
                GH_WRITE,
                "-B: --base: -H: --head: -d --draft -f --fill --fill-first --fill-verbose -r: --reviewer: --dry-run \
             --maintainer-edit -T: --template:",
            ],
        ),
        (
            "pr checkout,pr co",
            &["-b: --branch: --detach -f --force --recurse-submodules -R: --repo:"],
        ),
        (
            "pr checks",
            &[
                "--required --watch --fail-fast -i: --interval: -q: --jq: --json: -t: --template: -w --web -R: --repo:",
            ],
        ),
        ("pr diff", &["--color: --name-only --patch -w --web -R: --repo:"]),
        (
            "pr merge",
            &[
                "-m --merge -s --squash -r --rebase -d --delete-branch --auto --disable-auto --admin -t:t --subject:t -b:t \
             --body:t -F: --body-file: --match-head-commit: -R: --repo:",
            ],
        ),
        (
            "pr ready,pr update-branch,pr lock,pr unlock",
            &["--undo --rebase -r: --reason: -R: --repo:"],
        ),
        (
            "pr review",
            &["-a --approve -r --request-changes -c --comment -b:t --body:t -F: --body-file: -R: --repo:"],
        ),
        (
            "release list,release view",
            &[
                GH_VIEW,
                "-L: --limit: --exclude-drafts --exclude-pre-releases -O: --order:",
            ],
        ),
        (
            "release create,release edit,release delete,release upload",
            &[
                "-t:t --title:t -n:t --notes:t -F: --notes-file: --generate-notes -d --draft -p --prerelease --latest? --target: \
             --verify-tag --tag: --clobber -y --yes --cleanup-tag --notes-start-tag: --discussion-category: -R: --repo:",
            ],
        ),
        (
            "release download,run download",
            &[
                "-p: --pattern: -D:o --dir:o -O:o --output:o -A: --archive: --clobber --skip-existing -n: --name: -R: --repo:",
            ],
        ),
        (
            "repo view",
            &["-q: --jq: -t: --template: --json: -w --web -b: --branch:"],
        ),
        (
            "repo list",
            &[
                "-L: --limit: -q: --jq: -t: --template: --json: -l: --language: --topic: --visibility: --fork --source \
             --archived --no-archived",
            ],
        ),
        ("repo clone", &["> -u: --upstream-remote-name: --no-upstream"]),
        (
            "repo create",
            &[
                "--public --private --internal -s: --source: -r: --remote: --push -d:t --description:t -h: --homepage: -c \
             --clone -g: --gitignore: -l: --license: -p: --template: -t: --team: --add-readme --disable-wiki --disable-issues",
            ],
        ),
        (
            "repo fork",
            &["--clone --remote --remote-name: --org: --fork-name: --default-branch-only"],
        ),
        (
            "repo sync,repo set-default,repo rename,repo edit,repo delete,repo archive",
            &[
                "-b: --branch: -s: --source: --force -v --view -u --unset -y --yes -R: --repo: -d:t --description:t --homepage: \
             --visibility: --add-topic: --remove-topic: --default-branch: --accept-visibility-change-consequences",
            ],
        ),
        (
            "run list",
            &[
                "-L: --limit: -q: --jq: -t: --template: --json: -b: --branch: -w: --workflow: -s: --status: -u: --user: -e: \
             --event: -c: --commit: -a --all --created: -R: --repo:",
            ],
        ),
        (
            "run view",
            &[
                "--log --log-failed -j: --job: -a: --attempt: -v --verbose --exit-status -q: --jq: --json: -t: --template: -w \
             --web -R: --repo:",
            ],
        ),
        (
            "run watch,run rerun,run cancel,run delete",
            &["--exit-status -i: --interval: --compact --failed -j: --job: -d --debug -R: --repo:"],
        ),
        (
            "search issues,search prs,search repos,search code,search commits",
            &[
                "-L: --limit: -q: --jq: -t: --template: --json: -w --web --owner: -R: --repo: --state: --author: --assignee: \
             --label: --sort: --order: --language: --filename: --extension: --match: --created: --updated: --closed: \
             --merged: --stars: --topic: --visibility: --involves: --mentions: --commenter:",
            ],
        ),
        (
            "project list,ruleset list,org list,ssh-key list,gpg-key list,extension list,alias list,codespace list,issue pin,\
             issue unpin",
            &[
                "-L: --limit: -q: --jq: -t: --template: --json: --owner: --closed -o: --org: -w --web -R: --repo:",
            ],
        ),
        ("issue develop", &["-l --list -R: --repo:"]),
        (
            "secret list,variable list,variable get,cache list",
            &["-e: --env: -o: --org: -a: --app: -q: --jq: --json: -L: --limit: -R: --repo: -u --user"],
        ),
        ("status", &["-e: --exclude: -o: --org:"]),
        (
            "workflow list,workflow view,workflow run,workflow enable,workflow disable",
            &[
                "-a --all -L: --limit: -r: --ref: -y --yaml -w --web -q: --jq: --json: -f:t --raw-field:t -F:t --field:t -R: --repo:",
            ],
        ),
    ],
    check: hands_git_nothing,
};

/// Behind the dashes of `gh repo clone` and `gh repo fork` are options for git.
fn hands_git_nothing(call: &Call<'_>) -> bool {
    !matches!(call.command, "repo clone" | "repo fork") || call.behind_dashes().is_empty()
}

/// Services of `aws`. A name that is none may be an alias, which may be text for a shell.
const AWS_SERVICES: &[&str] = &[
    "acm",
    "amplify",
    "apigateway",
    "apigatewayv2",
    "appconfig",
    "application-autoscaling",
    "appsync",
    "athena",
    "autoscaling",
    "backup",
    "batch",
    "bedrock",
    "bedrock-runtime",
    "ce",
    "cloudformation",
    "cloudfront",
    "cloudtrail",
    "cloudwatch",
    "codebuild",
    "codepipeline",
    "cognito-idp",
    "cognito-identity",
    "config",
    "dynamodb",
    "ec2",
    "ecr",
    "ecr-public",
    "ecs",
    "efs",
    "eks",
    "elasticache",
    "elasticbeanstalk",
    "elb",
    "elbv2",
    "emr-serverless",
    "es",
    "events",
    "firehose",
    "fsx",
    "glue",
    "guardduty",
    "iam",
    "imagebuilder",
    "inspector2",
    "iot",
    "kafka",
    "kinesis",
    "kms",
    "lakeformation",
    "lambda",
    "lightsail",
    "logs",
    "memorydb",
    "mq",
    "neptune",
    "opensearch",
    "organizations",
    "pipes",
    "pricing",
    "ram",
    "rds",
    "rds-data",
    "redshift",
    "redshift-data",
    "resource-groups",
    "resourcegroupstaggingapi",
    "route53",
    "route53domains",
    "s3",
    "s3api",
    "s3control",
    "sagemaker",
    "scheduler",
    "secretsmanager",
    "securityhub",
    "service-quotas",
    "servicecatalog",
    "servicediscovery",
    "ses",
    "sesv2",
    "sns",
    "sqs",
    "ssm",
    "sso-admin",
    "stepfunctions",
    "sts",
    "support",
    "tagging",
    "textract",
    "transcribe",
    "transfer",
    "translate",
    "wafv2",
    "xray",
];

/// Operations that start a program here, or write what others start.
const AWS_OPERATIONS: &[&str] = &[
    "execute-command",
    "start-session",
    "update-kubeconfig",
    "get-login",
    "ssh",
    "socks",
];

/// Whether a word may be an option, whose names may be shortened.
fn may_be(word: &str, option: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    word.starts_with(option) || (name.len() > 2 && option.starts_with(name))
}

/// Options of `aws` itself that take a value. Those of an operation are members of a request.
const AWS_VALUES: &[&str] = &[
    "--region",
    "--output",
    "--query",
    "--color",
    "--cli-read-timeout",
    "--cli-connect-timeout",
];
const AWS_FLAGS: &[&str] = &[
    "--debug",
    "--no-paginate",
    "--no-sign-request",
    "--no-cli-pager",
    "--version",
];

pub(super) fn reads_as_plain_aws<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        if AWS_FLAGS.contains(word) {
            at += 1;
        } else if AWS_VALUES.contains(&name) {
            at += if name == *word { 2 } else { 1 };
        } else {
            return None;
        }
    }
    let Some(service) = words.get(at) else {
        return Some(Vec::new());
    };
    if let ["help"] | ["configure", "list" | "list-profiles"] = words.get(at..).unwrap_or_default() {
        return Some(Vec::new());
    }
    let behind = words.get(at + 1..).unwrap_or_default();
    let is_plain = AWS_SERVICES.contains(service)
        && !behind.iter().any(|word| {
            AWS_OPERATIONS.contains(word) || may_be(word, "--endpoint-url") || may_be(word, "--profile")
        });
    // Some operations write what they fetch to an operand.
    is_plain.then(|| {
        behind
            .iter()
            .filter_map(|word| match word.split_once('=') {
                Some((name, value)) if name.starts_with('-') => Some(value),
                _ => Some(*word).filter(|word| !word.starts_with('-')),
            })
            .collect()
    })
}

pub(super) const PSQL: Grammar = Grammar {
    programs: &["psql"],
    reader: Reader::Anywhere,
    options: &[
        "-c:t --command:t -d: --dbname: -h: --host: -p: --port: -U: --username: -w --no-password -W --password -t \
         --tuples-only -A --no-align -q --quiet -x --expanded -X --no-psqlrc -l --list -F: --field-separator: -R: \
         --record-separator: -z -0 -1 --single-transaction --csv -H --html -V --version -? --help? -a --echo-all -b \
         --echo-errors -e --echo-queries -E --echo-hidden -n -S -v: --set: --variable: -P: --pset:",
    ],
    commands: &[],
    check: is_plain_psql,
};

/// First words of statements of psql. `DO`, `LOAD` and code in another language make the server start programs.
const PSQL_WORDS: &str = "select with explain show insert update delete values table begin commit rollback start end savepoint \
     release set reset truncate vacuum analyze reindex refresh grant revoke comment discard lock copy create alter drop";
/// What may be created, changed and dropped.
const SQL_OBJECTS: &str =
    "table temp temporary unlogged index unique view materialized schema sequence type trigger";

/// A backslash at the beginning is a command of `psql`. What stands for a database may be a list of settings.
fn is_plain_psql(call: &Call<'_>) -> bool {
    let is_text = |text: &str| looks_only(text) || is_plain_postgres(text);
    // Variables of `psql` itself have capitals.
    let is_variable = |text: &str| {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        matches!(text, "ON_ERROR_STOP=1" | "ON_ERROR_STOP=on" | "ON_ERROR_STOP")
            || text
                .split_once('=')
                .is_some_and(|(name, value)| name.chars().all(is_name) && is_word(value))
    };
    call.values(&["c", "command"]).all(is_text)
        && call.values(&["v", "set", "variable"]).all(is_variable)
        && call.values(&["d", "dbname"]).all(is_database)
        && call.operands.iter().all(|word| is_database(word))
}

/// Whether a backslash may begin a command: one before a sign is part of a pattern.
fn has_command(text: &str) -> bool {
    let mut behind = text.split('\\').skip(1);
    text.trim_start().starts_with('\\')
        || behind.any(|rest| rest.starts_with(|c: char| c == '!' || c.is_alphanumeric()))
}

fn is_plain_postgres(text: &str) -> bool {
    let copies_here = |statement: &str| {
        let is_stream = contains_word(statement, "stdin") || contains_word(statement, "stdout");
        is_stream && !contains_word(statement, "program") && !statement.contains(['\'', '$'])
    };
    let may_write = ["lo_export", "lo_import", "pg_file_write"];
    !has_command(text)
        && !may_write.iter().any(|name| contains_word(text, name))
        && are_statements(text, PSQL_WORDS, |word, statement| {
            word != "copy" || copies_here(statement)
        })
}

/// Whether each statement of a text begins with a word that is known, and creates, changes or drops what is data. What a
/// string holds behind a semicolon is taken for a statement too.
fn are_statements(text: &str, words: &str, is_plain: impl Fn(&str, &str) -> bool) -> bool {
    let text = text.to_ascii_lowercase();
    text.split(';').all(|statement| {
        let statement = statement.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let mut tokens = statement.split_whitespace();
        let Some(first) = tokens.next() else {
            return true;
        };
        let end = first
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(first.len());
        let word = first.get(..end).unwrap_or_default();
        let is_known = words.split_whitespace().any(|known| known == word);
        let is_data = !matches!(word, "create" | "alter" | "drop")
            || (word == first
                && tokens.next().is_some_and(|object| {
                    SQL_OBJECTS.split(' ').any(|known| known == object)
                        || (object == "database" && word != "alter")
                }));
        is_known && is_data && is_plain(word, statement)
    })
}

/// A word without anything that a program could take for more.
fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Settings of a connection that name no file and no library.
const CONNECTION: &[&str] = &[
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "password",
    "port",
    "sslmode",
    "user",
];

/// A name, an address, or a list of settings that are known.
fn is_database(text: &str) -> bool {
    let is_setting = |setting: &str| {
        setting
            .split_once('=')
            .is_some_and(|(name, value)| CONNECTION.contains(&name) && !value.contains(['\'', '\\', '%']))
    };
    match text.split_once('?') {
        Some((address, settings)) => !address.contains('=') && settings.split('&').all(is_setting),
        None => !text.contains('=') || text.split_whitespace().all(is_setting),
    }
}

/// `\dt public.*` and `\l`: what there is.
fn looks_only(text: &str) -> bool {
    let Some(command) = text.trim().strip_prefix('\\') else {
        return false;
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._*+\"".contains(c);
    let name = command.split(' ').next().unwrap_or_default();
    command.chars().all(is_plain)
        && (name.starts_with('d')
            || matches!(name, "l" | "l+" | "list" | "conninfo" | "x" | "timing" | "pset"))
}

pub(super) const SQLITE: Grammar = Grammar {
    programs: &["sqlite3", "sqlite"],
    reader: Reader::Names,
    options: &[
        "-append -ascii -bail -batch -box -column -csv -echo -header -noheader -help -html -interactive -json -line -list \
         -markdown -memtrace -cmd:t -newline: -nofollow -nullvalue: -quote -readonly -safe -separator: -stats -table -tabs -version",
    ],
    commands: &[],
    check: is_plain_sqlite,
};

/// Commands of `sqlite3` that only look, or change how things look. Beginnings of others are unknown.
const SQLITE_COMMANDS: &[&str] = &[
    ".databases",
    ".dbinfo",
    ".dump",
    ".exit",
    ".fullschema",
    ".headers",
    ".header",
    ".indexes",
    ".indices",
    ".mode",
    ".nullvalue",
    ".quit",
    ".schema",
    ".separator",
    ".show",
    ".stats",
    ".tables",
    ".timeout",
    ".timer",
    ".version",
    ".width",
];

const SQLITE_WORDS: &str = "select with explain insert update delete replace values begin commit rollback end savepoint \
     release analyze reindex vacuum pragma create alter drop";
/// What is asked or set. `writable_schema` makes a view of any text, with calls that are put together.
const SQLITE_PRAGMAS: &str = "application_id auto_vacuum busy_timeout cache_size compile_options database_list encoding \
     foreign_key_check foreign_key_list foreign_keys freelist_count index_info index_list integrity_check journal_mode \
     mmap_size optimize page_count page_size quick_check synchronous table_info table_list table_xinfo temp_store user_version \
     wal_checkpoint";

/// A text is commands with a dot, or SQL. An address may have settings and another spelling of a file.
fn is_plain_sqlite(call: &Call<'_>) -> bool {
    let is_database = |name: &&str| !name.starts_with("file:");
    let mut texts = call.operands.iter().skip(1).copied().chain(call.values(&["cmd"]));
    call.before_dashes.is_none()
        && call.operands.first().is_none_or(is_database)
        && texts.all(|text| are_dot_commands(text) || is_plain_sqlite_text(text))
}

fn are_dot_commands(text: &str) -> bool {
    text.lines().all(|line| {
        let first = line.split_whitespace().next();
        first.is_none_or(|word| SQLITE_COMMANDS.contains(&word))
    })
}

fn is_plain_sqlite_text(text: &str) -> bool {
    // These load a library, start an editor, write a file, and write what a database is made of.
    let reaches_out = [
        "load_extension",
        "edit",
        "writefile",
        "writable_schema",
        "sqlite_dbpage",
    ];
    let is_pragma = |statement: &str| {
        let name = statement
            .split(|c: char| c.is_whitespace() || c == '=' || c == '(')
            .nth(1);
        name.is_some_and(|name| SQLITE_PRAGMAS.split_whitespace().any(|known| known == name))
    };
    !text.lines().any(|line| line.trim_start().starts_with('.'))
        && !reaches_out.iter().any(|name| contains_word(text, name))
        && are_statements(text, SQLITE_WORDS, |word, statement| match word {
            "pragma" => is_pragma(statement),
            // With `INTO` it writes a file.
            "vacuum" => statement.trim() == "vacuum",
            _ => true,
        })
}

pub(super) const MYSQL: Grammar = Grammar {
    programs: &["mysql", "mariadb"],
    reader: Reader::Anywhere,
    options: &[
        "-e:t --execute:t -h: --host: -P: --port: -u: --user: -p? --password? -D: --database: -N --skip-column-names -s --silent \
         -B --batch -t --table -v --verbose -V --version -? --help -H --html -X --xml -r --raw -E --vertical -q --quick \
         --protocol: -S: --socket: -A --auto-rehash --connect-timeout: --default-character-set: -C --compress -w --wait -f \
         --force --column-names --ssl-mode:",
    ],
    commands: &[],
    check: is_plain_mysql,
};

const MYSQL_WORDS: &str = "select with explain show describe desc insert update delete replace values table use begin start \
     commit rollback set truncate analyze optimize check lock unlock rename grant revoke create alter drop";

/// A backslash begins a command of the client, and so does a word that is none of SQL.
fn is_plain_mysql(call: &Call<'_>) -> bool {
    let reaches_out = ["outfile", "dumpfile", "soname", "global", "persist"];
    call.values(&["e", "execute"]).all(|text| {
        let text = text.replace("\\G", ";");
        !text.contains('\\')
            && !reaches_out.iter().any(|name| contains_word(&text, name))
            && are_statements(&text, MYSQL_WORDS, |word, statement| {
                // The client takes it by line, and the next line may be a command.
                word != "use" || !statement.trim().contains('\n')
            })
    })
}

/// Whether a text has a word, without case, that is no part of a longer one.
fn contains_word(text: &str, word: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let is_part = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let behind = text.get(at + word.len()..).and_then(|text| text.chars().next());
        !is_part(before) && !is_part(behind)
    })
}

/// Subcommands of `openssl`; those that read a configuration by themselves read the installed one.
const OPENSSL_COMMANDS: &[&str] = &[
    "asn1parse",
    "base64",
    "ciphers",
    "cms",
    "crl",
    "crl2pkcs7",
    "dgst",
    "dhparam",
    "dsa",
    "ec",
    "ecparam",
    "enc",
    "errstr",
    "genpkey",
    "genrsa",
    "help",
    "info",
    "kdf",
    "list",
    "mac",
    "md5",
    "nseq",
    "passwd",
    "pkcs12",
    "pkcs7",
    "pkcs8",
    "pkey",
    "pkeyparam",
    "pkeyutl",
    "prime",
    "rand",
    "req",
    "rsa",
    "rsautl",
    "s_client",
    "s_time",
    "sess_id",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "smime",
    "speed",
    "spkac",
    "storeutl",
    "verify",
    "version",
    "x509",
];

/// Options of its subcommands that name no engine, provider, configuration or library. Every word with a dash has to be
/// one, so that it does not matter which of them take a value.
const OPENSSL_OPTIONS: &str = "-a -A -addext -algorithm -digest-algorithms \
     -cipher-algorithms -public-key-algorithms -digest-commands -cipher-commands -commands -aes128 -aes256 -aes-128-cbc -aes-256-cbc -aes-256-gcm -alpn -attime -base64 -batch \
     -binary -bits -brief -CA -CAcreateserial -CAfile -CAkey -CApath -CAserial -CAstore -c -cert -certfile -certopt -certs \
     -check -check_ss_sig -checkend -checkhost -checkip -chain -cipher -ciphersuites -clcerts -cacerts -clrext -connect \
     -conv_form -copy_extensions -crl_check -crl_check_all -crl_download -crlf -crlfile -curves -d -dates -days -debug -decrypt \
     -derive -des3 -digest -dump -e -elapsed -email -encrypt -enddate -ec_paramgen_curve -export -ext -fingerprint \
     -genkey -hash -help -hex -hexdump -hmac -i -in -inkey -inserial -issuer -issuer_hash -iter -ign_eof -init -k -K -key -keyout -keypbe \
     -keysig -legacy_renegotiation -list_curves -mac -macalg -macopt -macsaltlen -md -md5 -modulus -msg -multi -multivalue-rdn \
     -MAC -name -nameopt -new -newcert -newkey -nextprotoneg -no-CAfile -no-CApath -no_check_time -nocerts -nodes -noenc \
     -nokeys -noout -nomac -nosalt -noservername -nosigs -not_after -not_before -n -nameopt -O -ocsp_uri -outform_text -param_enc -paramfile -parse -partial_chain \
     -passin -passout -password -pass -pbkdf2 -pkcs7 -pkeyopt -policy -policy_check -prexit -print_certs -propq -proxy -prime -prverify -pubcheck -pubin \
     -pubkey -pubout -purpose -quiet -r -rand -raw -rawin -rev -reconnect -reqexts -S -salt -saltlen -seconds -servername -serial \
     -set_serial -servername -sess_in -sess_out -sha1 -sha224 -sha256 -sha384 -sha512 -showcerts -show_chain -sigalgs -sign -signature -sigopt -signer -skeyfile -startdate -starttls \
     -state -status -strparse -subj -subject -subject_hash -ssl3 -strict -tbs -text -text_pub -timeout -tls1 -tls1_1 -tls1_2 -tls1_3 -tlsextdebug -to -topk8 -trace -trusted \
     -twopass -untrusted -utf8 -V -v -verbose -verify -verify_depth -verify_hostname -verify_ip -verify_return_error -verify_quiet -writerand -x509 \
     -x509_strict -x509toreq -x -y -z -1 -5 -6 -apr1 -stdin -reverse -table -noverify -out -in -req -keyform -inform -outform -certform -CAform -CAkeyform -passargs";
const OPENSSL_OUTPUTS: &[&str] = &[
    "-out",
    "-keyout",
    "-writerand",
    "-sess_out",
    "-CAserial",
    "-signer",
];
const OPENSSL_FORMS: &[&str] = &[
    "pem", "der", "p12", "pkcs12", "smime", "http", "msblob", "pvk", "b64", "text",
];

pub(super) fn reads_as_plain_openssl<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let (command, behind) = words.split_first()?;
    let is_known = |word: &str| {
        let name = openssl_name(word);
        !word.starts_with('-') || word == "-" || OPENSSL_OPTIONS.split_whitespace().any(|known| known == name)
    };
    // A name of a key may be one of an engine, which is a library then.
    let names_engine = |word: &&str| {
        let word = word.to_ascii_lowercase();
        word.contains("engine:") || word.contains("org.openssl")
    };
    let mut is_plain = OPENSSL_COMMANDS.contains(command);
    let mut outputs = Vec::new();
    for (at, word) in behind.iter().enumerate() {
        let next = behind.get(at + 1).copied();
        let option = openssl_name(word);
        let value = word.split_once('=').map(|(_, value)| value).or(next);
        if option.starts_with('-') && option.to_ascii_lowercase().ends_with("form") && option != "-conv_form"
        {
            is_plain &= value.is_some_and(|form| OPENSSL_FORMS.contains(&form.to_ascii_lowercase().as_str()));
        }
        if OPENSSL_OUTPUTS.contains(&option) {
            outputs.extend(value);
        }
        is_plain &= is_known(word) && !names_engine(word);
    }
    is_plain.then_some(outputs)
}

/// The name of an option with one dash, without its value.
fn openssl_name(word: &str) -> &str {
    let word = word.get(1..).filter(|word| word.starts_with('-')).unwrap_or(word);
    word.split_once('=').map_or(word, |(name, _)| name)
}

pub(super) const GPG: Grammar = Grammar {
    programs: &["gpg", "gpgv"],
    reader: Reader::Anywhere,
    options: &[
        "-a --armor --armour --always-trust -b --detach-sign --detach-sig --batch -c --symmetric --cipher-algo: --check-sigs \
         --check-signatures --clear-sign --clearsign --comment:t --compress-algo: -d --decrypt --dearmor --dearmour \
         --default-key: --delete-keys --delete-key --delete-secret-keys --digest-algo: --dry-run -n -e --encrypt --enarmor \
         --export --export-ownertrust --export-secret-keys --fingerprint --full-generate-key --gen-key --gen-random \
         --generate-key --hidden-recipient: --import --import-ownertrust --import-options: --export-options: -k -K \
         --keyid-format: --list-keys --list-key --list-only --list-options: --list-packets --list-public-keys \
         --list-secret-keys --list-sigs --list-signatures -u: --local-user: --no-default-keyring --no-keyring --no-tty -o:o \
         --output:o --passphrase: --passphrase-fd: --passphrase-repeat: --pinentry-mode: --print-md --quick-gen-key \
         --quick-generate-key --quick-add-key --quick-set-expire --quick-sign-key -q --quiet -r: --recipient: --recv-keys \
         --receive-keys --locate-keys --refresh-keys --search-keys --send-keys -s --sign --show-keys --status-fd: --textmode \
         -t --trust-model: --trusted-key: -v --verbose --verify --version --help -h --warranty --weak-digest: --with-colons \
         --with-fingerprint --with-keygrip --with-subkey-fingerprint --with-subkey-fingerprints --yes --no -z: \
         --compress-level: --check-trustdb --update-trustdb --change-passphrase --passwd --throw-keyids",
    ],
    commands: &[],
    check: is_plain_gpg,
};

/// Options of gpg that only say how. With no others it decrypts a file beside itself, under its name without an ending.
const GPG_MANNERS: &[&str] = &[
    "a",
    "always-trust",
    "armor",
    "armour",
    "batch",
    "dry-run",
    "list-only",
    "n",
    "no",
    "q",
    "quiet",
    "t",
    "textmode",
    "throw-keyids",
    "v",
    "verbose",
    "with-colons",
    "with-fingerprint",
    "with-keygrip",
    "with-subkey-fingerprint",
    "with-subkey-fingerprints",
    "yes",
];

fn is_plain_gpg(call: &Call<'_>) -> bool {
    let is_command = |(name, value): &(&str, Option<&str>)| {
        value.is_none() && !name.starts_with("no-") && !GPG_MANNERS.contains(name)
    };
    let names_what_to_do = call.operands.is_empty() || call.options.iter().any(is_command);
    names_what_to_do && makes_no_key_from_file(call)
}

/// A description of keys says where they are written.
fn makes_no_key_from_file(call: &Call<'_>) -> bool {
    let has = |names: &[&str]| call.options.iter().any(|(name, _)| names.contains(name));
    !has(&["gen-key", "generate-key", "full-generate-key"]) || (!has(&["batch"]) && call.operands.is_empty())
}
