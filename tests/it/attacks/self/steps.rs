//! Attacks that need more than one command, or something that happens outside meanwhile.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    scene::{ASKER, KEEPER, STRICT, Scene},
    table::Outcome,
};
use crate::support::{Members, ProcessHandle, is_alive, kill_hard, lines, soon, write_file, write_file_mode};

/// Such an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads over and over while files and directories of the server are replaced.
    Race,
    /// Finds a directory made anew that was covered when the server started.
    Exchange,
    /// Decides its own question with any token that can be found.
    Answer,
    /// Writes itself a policy and relies on it.
    WidenPolicy,
    /// The same with an admin who accepts it.
    WidenPolicyAndAccept,
    /// Leaves a process of another session behind.
    Stay,
    /// The same where the settings allow it.
    StayAllowed,
    /// Waits, where that is allowed, until the run has ended, and reads then.
    StayAndRead,
    /// Writes something into the home directory that a person's shell runs.
    Plant,
}

impl Step {
    /// Takes the step.
    pub(super) async fn take(self, scene: &Scene) -> Outcome {
        match self {
            Self::Race => race(scene).await,
            Self::Exchange => exchange(scene).await,
            Self::Answer => answer(scene).await,
            Self::WidenPolicy => widen_policy(scene, Admin::Absent).await,
            Self::WidenPolicyAndAccept => widen_policy(scene, Admin::Accepts).await,
            Self::Stay => stay(scene, "main").await,
            Self::StayAllowed => stay(scene, KEEPER).await,
            Self::StayAndRead => stay_and_read(scene).await,
            Self::Plant => plant(scene).await,
        }
    }
}

const fn through(is_through: bool) -> Outcome {
    if is_through {
        Outcome::GetsThrough
    } else {
        Outcome::KeptOut
    }
}

async fn race(scene: &Scene) -> Outcome {
    // Without a process per look, so that there are many. It looks until something was replaced, however long that takes.
    let script = "\
        i=0\n\
        : > $W/looking\n\
        while [ $i -lt 4000 ] || [ ! -e $W/replaced ]; do\n\
          for f in $S $S.moved; do\n\
            for t in $f/countersign/operator.token $f/countersign/new/secret $f/openclaw.json; do\n\
              { read -r x < $t; } 2> /dev/null && exit 0\n\
            done\n\
          done\n\
          i=$((i + 1))\n\
        done\n\
        exit 1";
    let attack = scene.tries("main", script);
    tokio::pin!(attack);
    let mut rounds = 0;
    loop {
        tokio::select! {
            outcome = &mut attack => {
                assert!(outcome == Outcome::GetsThrough || rounds > 0, "nothing was replaced meanwhile");
                return outcome;
            }
            () = tokio::task::yield_now() => {
                if scene.work().join("looking").exists() {
                    replace_everything(scene);
                    if rounds == 0 {
                        write_file_mode(&scene.work().join("replaced"), "", 0o644);
                    }
                    rounds += 1;
                }
            }
        }
    }
}

/// As an editor, a restore or a move of the person whose server it is would.
fn replace_everything(scene: &Scene) {
    let state = scene.server.state();
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        fs::copy(path, &other).unwrap();
        let meta = fs::metadata(path).unwrap();
        let (uid, gid) = (
            std::os::unix::fs::MetadataExt::uid(&meta),
            std::os::unix::fs::MetadataExt::gid(&meta),
        );
        std::os::unix::fs::chown(&other, Some(uid), Some(gid)).unwrap();
        fs::rename(&other, path).unwrap();
    };
    replace(&state.join("openclaw.json"));
    replace(&state.join("countersign/operator.token"));
    let new = state.join("countersign/new");
    fs::create_dir(&new).unwrap();
    write_file(&new.join("secret"), "x\n");
    let moved = state.with_extension("moved");
    fs::rename(state, &moved).unwrap();
    fs::rename(&moved, state).unwrap();
    fs::remove_dir_all(&new).unwrap();
}

/// Where the new one would not be covered, nothing runs.
async fn exchange(scene: &Scene) -> Outcome {
    let listener = scene.exchange_agent();
    let answer = scene.calls("main", "$PROBE connect $AGENT").await;
    drop(listener);
    scene.put_agent_back();
    let run = answer.text("runId");
    let record = scene.server.agent().run(run).await;
    if record["reason"] == "spawn-failed" {
        assert!(record.text("detail").contains("restart"), "{record:#}");
        assert_eq!(scene.run("main", "true").await["exitCode"], 0);
    } else {
        assert!([json!(0), json!(1)].contains(&answer["exitCode"]), "{answer:#}");
    }
    through(answer["exitCode"] == 0)
}

async fn answer(scene: &Scene) -> Outcome {
    let asked = scene
        .server
        .accepted(json!({ "argv": ["/bin/true"], "agentId": ASKER }))
        .await;
    let id = asked.text("approvalId");
    // By the API with every secret there is, by the command line, and by the ledger.
    let script = format!(
        "P=/v1/approvals/{id}/decision\n\
         B='{{\"decision\": \"allow-once\"}}'\n\
         for t in $(cat $S/countersign/*.token) $(env | sed 's/^[^=]*=//') none; do\n\
           for a in http://127.0.0.1:$PORT \"--unix-socket $S/countersign/api.sock http://localhost\"; do\n\
             curl -sf -m 5 -H \"Authorization: Bearer $t\" -H 'Content-Type: application/json' -d \"$B\" $a$P\n\
           done\n\
         done\n\
         env -u OPENCLAW_SHELL OPENCLAW_STATE_DIR=$S $COUNTERSIGN approvals resolve {id} allow-once\n\
         true"
    );
    scene.run("main", &script).await;
    let operator = scene.server.operator();
    let approval = operator.approval(id).await;
    let is_decided = approval["status"] != "pending";
    if !is_decided {
        operator.decided(id, "deny").await;
    }
    through(is_decided)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admin {
    Absent,
    Accepts,
}

async fn widen_policy(scene: &Scene, admin: Admin) -> Outcome {
    let before = fs::read_to_string(scene.server.document_path()).unwrap();
    let wider = json!({ "version": 1, "agents": { STRICT: { "allowlist": [{ "pattern": "/**" }] } } });
    let script =
        format!("umask 077; printf '%s' '{wider}' > $S/$NAME && mv $S/$NAME $S/exec-approvals.json\ntrue");
    scene.run("main", &script).await;
    let operator = scene.server.operator();
    if admin == Admin::Accepts {
        let effective = operator.read("/v1/policy/effective").await;
        let hash = &effective["document"]["held"]["hash"];
        let accept = operator.post("/v1/policy/document/accept", json!({ "hash": hash }));
        accept.await.expect(200);
    }
    let call = json!({ "argv": ["/bin/true"], "agentId": STRICT });
    let outcome = scene.server.agent().exec(call).await;
    scene.server.edit_document(&before);
    std::os::unix::fs::chown(scene.server.document_path(), Some(1), Some(1)).unwrap();
    if outcome.status == 200 {
        return Outcome::GetsThrough;
    }
    outcome.problem(403, "exec-denied");
    Outcome::KeptOut
}

/// A process that has left the session and the parents of its command.
const BEHIND: &str = "( setsid sh -c 'echo $$ > '$W/behind'; exec sleep 300' > /dev/null 2>&1 < /dev/null & )\n\
                      while [ ! -s $W/behind ]; do sleep 0.02; done";

async fn stay(scene: &Scene, agent: &str) -> Outcome {
    let behind = scene.work().join("behind");
    write_file(&behind, "");
    fs::set_permissions(&behind, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    scene.run(agent, BEHIND).await;
    let pid: i32 = lines(&behind).first().unwrap().parse().unwrap();
    let is_there = is_alive(pid);
    kill_hard(pid);
    through(is_there)
}

async fn stay_and_read(scene: &Scene) -> Outcome {
    let work = scene.work();
    let script = "( setsid sh -c 'echo $$ > '$W/waiting'; while [ ! -e '$W/gate' ]; do sleep 0.05; done; \
                  cat '$S/countersign/operator.token' > '$W/read'; mv '$W/read' '$W/tried > /dev/null 2>&1 < /dev/null & )\n\
                  while [ ! -s $W/waiting ]; do sleep 0.02; done";
    scene.run(KEEPER, script).await;
    let pid: i32 = lines(&work.join("waiting")).first().unwrap().parse().unwrap();
    let process = ProcessHandle::open(pid).expect("what was left behind is there");
    assert!(!process.has_ended(), "what was left behind is there");
    write_file(&work.join("gate"), "");
    let tried = work.join("tried");
    soon("tried", || tried.exists(), |tried| *tried).await;
    through(!lines(&tried).is_empty())
}

async fn plant(scene: &Scene) -> Outcome {
    let script = "echo \"cat $S/countersign/operator.token > $W/planted\" >> $HOME/.profile; echo $HOME";
    let answer = scene.run("main", script).await;
    let home = answer.text("stdout").trim();
    assert!(home.starts_with('/'), "{answer:#}");
    scene.outside(". $HOME/.profile", home);
    through(!lines(&scene.work().join("planted")).is_empty())
}
