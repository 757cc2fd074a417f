//! What the clients of containers and clusters may be told, as grammars: docker, kubectl and helm.
//!
//! Left out on purpose: what starts a program that the call names (`run`, `exec`), another configuration, and plug-ins.

use super::grammar::{Call, Grammar, Reader, any_call};

const BUILD: &str = "--add-host: --build-arg: --cache-from: --compress -f: --file: --force-rm --iidfile:o --label: -m: \
     --memory: --network: --cache --platform: --pull -q --quiet --rm --shm-size: --squash -t: --tag: --target: --ulimit: \
     --progress: --load --push";
const LIST: &str =
    "-a --all -f: --filter: --format: -n: --last: -l --latest --trunc -q --quiet -s --size --digests --tree";
const LOGS: &str =
    "--details -f --follow --since: -n: --tail: -t --timestamps --until: --color --log-prefix --index:";
const REMOVE: &str = "-f --force -l --link -v --volumes --prune";
const PRUNE: &str = "-a --all -f --force --filter: --volumes";
const STOP: &str = "-s: --signal: -t: --timeout: --time:";
const COMPOSE_UP: &str = "-d --detach --build --force-recreate --recreate --deps --remove-orphans --scale: --wait \
     --wait-timeout: -t: --timeout: --pull: --start --abort-on-container-exit --exit-code-from: --quiet-pull -V \
     --renew-anon-volumes --attach: --log-prefix --color --always-recreate-deps --menu";
const COMPOSE_DOWN: &str = "-v --volumes --remove-orphans --rmi: -t: --timeout:";
const COMPOSE_BUILD: &str =
    "--cache --pull -q --quiet --build-arg: --progress: --parallel --push -m: --memory: --with-dependencies";
const COMPOSE_SHOW: &str = "-a --all -q --quiet --format: --services --images --volumes --filter: --status: --profiles --hash: \
     --resolve-image-digests --interpolate --json --dry-run --since: --until: --orphans --trunc";
const COMPOSE_ACT: &str = "-q --quiet --ignore-pull-failures --include-deps --ignore-buildable --policy: -t: --timeout: -s: \
     --signal: --deps -f --force --stop -v --volumes --pull: --build";

const CONTAINERS: &[(&str, &[&str])] = &[
    ("build,image build,buildx build,builder build", &[BUILD]),
    ("commit", &["-a: --author: -m:t --message:t -p --pause"]),
    ("compose up,compose create", &[COMPOSE_UP]),
    ("compose down", &[COMPOSE_DOWN]),
    ("compose build", &[COMPOSE_BUILD]),
    ("compose logs", &[LOGS]),
    (
        "compose ps,compose ls,compose images,compose top,compose config,compose version,compose events,compose port",
        &[COMPOSE_SHOW],
    ),
    (
        "compose start,compose stop,compose restart,compose pull,compose push,compose kill,compose rm,compose pause,\
      compose unpause",
        &[COMPOSE_ACT],
    ),
    ("context ls,context show", &["--format: -q --quiet"]),
    (
        "buildx ls,buildx inspect,buildx du,buildx version,manifest inspect",
        &["--format: --verbose --builder:"],
    ),
    ("buildx imagetools", &["=inspect --format: --raw"]),
    (
        "update,container update",
        &["-m: --memory: --memory-swap: -c: --cpu-shares: --cpus: --cpuset-cpus: --pids-limit: --restart:"],
    ),
    ("cp,container cp", &["> -a --archive -L --follow-link -q --quiet"]),
    (
        "diff,container diff,port,container port,top,container top,rename,container rename,tag,image tag,search",
        &["--filter: --format: --limit: --trunc"],
    ),
    (
        "events,system events",
        &["-f: --filter: --format: --since: --until:"],
    ),
    (
        "export,container export,save,image save",
        &["-o:o --output:o --platform:"],
    ),
    (
        "history,image history",
        &["--format: -H --human --trunc -q --quiet"],
    ),
    ("images,image ls,image list", &[LIST]),
    (
        "info,version,system info,system df",
        &["-f: --format: -v --verbose"],
    ),
    (
        "inspect,container inspect,image inspect,volume inspect,network inspect",
        &["-f: --format: -s --size --type: -v"],
    ),
    (
        "kill,container kill,stop,container stop,restart,container restart",
        &[STOP],
    ),
    (
        "load,image load,import,image import",
        &["-i: --input: -q --quiet -m:t --message:t --platform:"],
    ),
    (
        "login,logout",
        &["-u: --username: -p: --password: --password-stdin"],
    ),
    ("logs,container logs", &[LOGS]),
    (
        "network ls,network list,network rm,network prune,network connect,network disconnect,network create",
        &[
            PRUNE,
            "--format: --trunc -q --quiet -d: --driver: --subnet: --gateway: --alias: --ip: --internal --label:",
        ],
    ),
    (
        "pause,unpause,wait,container pause,container unpause,container wait",
        &[""],
    ),
    ("ps,container ls,container list,container ps", &[LIST]),
    (
        "pull,push,image pull,image push",
        &["-a --all-tags --disable-content-trust --platform: -q --quiet"],
    ),
    ("rm,container rm,rmi,image rm", &[REMOVE]),
    ("start,container start", &["-a --attach -i --interactive"]),
    ("stats,container stats", &["-a --all --format: --stream --trunc"]),
    (
        "system prune,image prune,container prune,volume prune,builder prune,buildx prune",
        &[PRUNE, "--keep-storage:"],
    ),
    // Its options can make a directory of the host a volume.
    (
        "volume ls,volume list,volume rm,volume create",
        &["-f: --filter: --format: -q --quiet --label: --force"],
    ),
];

pub(super) const DOCKER: Grammar = Grammar {
    programs: &["docker"],
    reader: Reader::Anywhere,
    options: &["-D --debug -l: --log-level: -v --version --help"],
    commands: CONTAINERS,
    check: any_call,
};

/// Behind its subcommands `-v` may be a directory of the host.
pub(super) const PODMAN: Grammar = Grammar {
    programs: &["podman"],
    options: &["--log-level: --version --help"],
    check: keeps_images_in_places,
    ..DOCKER
};

/// What is pushed may be written to a directory or a file.
fn keeps_images_in_places(call: &Call<'_>) -> bool {
    const HERE: &[&str] = &[
        "dir:",
        "docker-archive:",
        "oci:",
        "oci-archive:",
        "ostree:",
        "sif:",
    ];
    let is_push = matches!(call.command, "push" | "image push");
    !is_push
        || !call
            .operands
            .iter()
            .any(|word| HERE.iter().any(|place| word.starts_with(place)))
}

pub(super) const COMPOSE: Grammar = Grammar {
    programs: &["docker-compose", "podman-compose"],
    reader: Reader::Anywhere,
    options: &["-v --version --help --ansi: --progress: --verbose"],
    commands: &[
        ("up,create", &[COMPOSE_UP]),
        ("down", &[COMPOSE_DOWN]),
        ("build", &[COMPOSE_BUILD]),
        ("logs", &[LOGS]),
        ("ps,ls,images,top,config,version,events,port", &[COMPOSE_SHOW]),
        (
            "start,stop,restart,pull,push,kill,rm,pause,unpause",
            &[COMPOSE_ACT],
        ),
    ],
    check: any_call,
};

const KUBE_OBJECTS: &str = "-A --all-namespaces -l: --selector: --field-selector: -o: --output: -f: --filename: -R \
     --recursive -k: --kustomize: --dry-run? --show-labels --show-kind --no-headers --headers --sort-by: -L: \
     --label-columns: -w --watch --watch-only --chunk-size: --ignore-not-found --template: --all --overwrite \
     --field-manager: --server-side --force-conflicts --validate? --force --grace-period: --wait --timeout: --cascade? --now \
     --prune --raw: --resource-version: --show-events --show-managed-fields --subresource: --record --list --local --save-config";

pub(super) const KUBECTL: Grammar = Grammar {
    programs: &["kubectl", "oc"],
    reader: Reader::Anywhere,
    options: &[
        "-n: --namespace: --context: --cluster: --user: --request-timeout: -v: --v: --as: --as-group: \
                --insecure-skip-tls-verify --match-server-version --warnings-as-errors -h --help",
    ],
    commands: &[
        (
            "api-resources,api-versions",
            &["--api-group: --namespaced --verbs: -o: --output: --sort-by: --headers --cached"],
        ),
        (
            "apply,get,describe,delete,diff,label,annotate,replace",
            &[KUBE_OBJECTS],
        ),
        (
            "auth can-i,auth whoami",
            &["-A --all-namespaces --list -q --quiet --subresource: -o: --output: --headers"],
        ),
        (
            "autoscale,expose,scale",
            &[
                KUBE_OBJECTS,
                "--min: --max: --cpu-percent: --name: --port: --target-port: --type: --protocol: --replicas: \
             --current-replicas: --external-ip: --cluster-ip:",
            ],
        ),
        ("cluster-info", &["."]),
        (
            "config view,config current-context,config get-contexts,config get-clusters,config get-users,config use-context,\
             config set-context",
            &["--minify --flatten -o: --output: --headers --raw --current"],
        ),
        (
            "cordon,uncordon,drain,taint",
            &[
                KUBE_OBJECTS,
                "--ignore-daemonsets --delete-emptydir-data --disable-eviction --pod-selector: --skip-wait-for-delete-timeout:",
            ],
        ),
        ("create", &[".", KUBE_OBJECTS]),
        (
            "create namespace,create ns,create configmap,create cm,create serviceaccount,create sa",
            &[
                KUBE_OBJECTS,
                "--from-literal: --from-file: --from-env-file: --append-hash",
            ],
        ),
        (
            "create secret",
            &[
                KUBE_OBJECTS,
                "=generic,docker-registry,tls --from-literal: --from-file: --from-env-file: --append-hash --type: --cert: --key: \
             --docker-server: --docker-username: --docker-password: --docker-email:",
            ],
        ),
        (
            "create deployment,create deploy,create job,create cronjob",
            &[
                KUBE_OBJECTS,
                "--image: --replicas: --port: --from: --schedule: --restart:",
            ],
        ),
        (
            "create role,create clusterrole,create rolebinding,create clusterrolebinding,create quota,create ingress",
            &[
                KUBE_OBJECTS,
                "--verb: --resource: --resource-name: --role: --clusterrole: --serviceaccount: --group: --hard: --rule: --class:",
            ],
        ),
        ("kustomize", &["-o:o --output:o"]),
        ("events", &[KUBE_OBJECTS, "--for: --types:"]),
        ("explain", &["--recursive --api-version: -o: --output:"]),
        (
            "logs",
            &[
                "--all-containers -c: --container: -f --follow --tail: --since: --since-time: -p --previous --timestamps -l: \
             --selector: --prefix --limit-bytes: --ignore-errors --max-log-requests: --all-pods --pod-running-timeout:",
            ],
        ),
        (
            "patch,set image,set env,set resources",
            &[
                KUBE_OBJECTS,
                "-p: --patch: --type: --patch-file: --limits: --requests: -c: --containers: -e: --env: --from: --keys: --prefix:",
            ],
        ),
        ("port-forward", &["--address: --pod-running-timeout:"]),
        (
            "rollout status,rollout history,rollout restart,rollout undo,rollout pause,rollout resume",
            &[KUBE_OBJECTS, "--revision: --to-revision:"],
        ),
        (
            "top node,top nodes,top pod,top pods",
            &[
                "-A --all-namespaces -l: --selector: --containers --headers --sort-by: --sum --field-selector:",
            ],
        ),
        ("version", &["--client --short -o: --output:"]),
        ("wait", &[KUBE_OBJECTS, "--for:"]),
    ],
    check: builds_here,
};

/// What is built may be the address of a repository, whose parts git would be started with.
fn builds_here(call: &Call<'_>) -> bool {
    let is_directory = |path: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let first = path.split('/').next().unwrap_or_default();
        let is_here = matches!(first, "" | "." | "..") || !first.contains('.');
        is_here
            && path.bytes().all(is_plain)
            && !["//", ".git", "_git"].iter().any(|part| path.contains(part))
    };
    let mut operands = call.operands.iter();
    call.values(&["k", "kustomize"]).all(is_directory)
        && (call.command != "kustomize" || operands.all(|path| is_directory(path)))
}

const HELM_CHART: &str = "-f: --values: --set: --set-string: --set-file: --set-json: --set-literal: --version: --wait \
     --wait-for-jobs --timeout: --atomic --create-namespace --dry-run? -i --install --description:t --devel -g \
     --generate-name --name-template: --hooks --skip-crds --skip-tests --reuse-values --reset-values \
     --reset-then-reuse-values --history-max: --repo: --verify --cleanup-on-fail --force --dependency-update -o: --output: \
     --replace --render-subchart-notes --enable-dns --username: --password: --labels: -l: --take-ownership";

pub(super) const HELM: Grammar = Grammar {
    programs: &["helm"],
    reader: Reader::Anywhere,
    options: &["-n: --namespace: --kube-context: --debug -h --help"],
    commands: &[
        ("create", &["> "]),
        (
            "dependency build,dependency list,dependency update,dep build,dep list,dep update,dep up",
            &["--skip-refresh --verify --max-col-width:"],
        ),
        ("env,version,verify", &["--short --template: -c --client"]),
        (
            "get all,get values,get manifest,get hooks,get notes,get metadata",
            &["-a --all -o: --output: --revision: --template:"],
        ),
        (
            "history,status,rollback,uninstall,delete,del,un,test",
            &[
                "--max: -o: --output: --revision: --show-resources --show-desc --wait --timeout: --force --hooks --keep-history \
             --cascade: --ignore-not-found --dry-run --description:t --cleanup-on-fail --recreate-pods --logs --filter:",
            ],
        ),
        ("install,upgrade", &[HELM_CHART]),
        (
            "lint",
            &[HELM_CHART, "--strict --quiet --with-subcharts --kube-version:"],
        ),
        (
            "list,ls",
            &[
                "-a --all -A --all-namespaces -q --short -o: --output: -f: --filter: -d --date -r --reverse -m: --max: --offset: \
             --deployed --failed --pending --uninstalled --superseded --uninstalling -l: --selector: --time-format:",
            ],
        ),
        (
            "package",
            &["-d:o --destination:o --version: --app-version: -u --dependency-update"],
        ),
        (
            "pull,fetch,show all,show chart,show values,show readme,show crds",
            &[
                HELM_CHART,
                "--untar --untardir:o -d:o --destination:o --jsonpath: --prov",
            ],
        ),
        (
            "repo add,repo list,repo ls,repo update,repo up,repo remove,repo rm",
            &[
                "--force-update --username: --password: --pass-credentials -o: --output: --fail-on-repo-update-fail",
            ],
        ),
        (
            "registry login,registry logout",
            &["-u: --username: -p: --password: --password-stdin --insecure"],
        ),
        ("push", &["--username: --password:"]),
        ("plugin list,plugin ls", &[""]),
        (
            "search repo,search hub",
            &["-l --versions --version: --devel -o: --output: -r --regexp --max-col-width:"],
        ),
        (
            "template",
            &[
                HELM_CHART,
                "-s: --show-only: --output-dir:o --validate --include-crds -a: --api-versions: --kube-version: \
             --release-name --is-upgrade",
            ],
        ),
    ],
    check: names_its_charts,
};

/// A chart from an address is written to a file of the name that the address ends in.
fn names_its_charts(call: &Call<'_>) -> bool {
    let is_plain = |chart: &&str| {
        let name = chart.rsplit('/').next().unwrap_or_default();
        !chart.contains("://") || !(name.starts_with('.') || name.contains(['%', '?']))
    };
    !matches!(call.command, "pull" | "fetch") || call.operands.iter().all(is_plain)
}
