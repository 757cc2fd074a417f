//! Tampering with the chain, of every kind.

use serde_json::{Map, Value};

use super::*;
use crate::{
    Page,
    audit::{
        AuditAction, AuditFilter, AuditOutcome, Entry, ProblemKind, Target, Verification, read_witness,
        verify, verify_with_witness,
    },
};

/// A ledger with ten sealed records, at rest.
async fn sealed() -> TempDir {
    let opened = Opened::new();
    for _ in 0..5 {
        let permit = opened.launched().await;
        opened.ledger.finish(finish(permit.run_id())).await.unwrap();
    }
    assert!(opened.is_chain_whole().await);
    opened.stop()
}

fn verified(dir: &TempDir) -> Verification {
    let config = config(dir.path());
    verify(&config.path, &config.audit_key, &config.audit_head).unwrap()
}

fn tamper(dir: &TempDir, sql: &str) {
    rusqlite::Connection::open(config(dir.path()).path)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

#[track_caller]
fn expect(dir: &TempDir, kind: ProblemKind, seq: i64) {
    let problem = verified(dir).problem.expect("a problem");
    assert_eq!((problem.kind, problem.seq), (kind, seq));
}

#[tokio::test]
async fn a_whole_chain_is_whole() {
    let dir = sealed().await;
    let verified = verified(&dir);
    assert_eq!(verified.problem, None);
    assert_eq!(
        (verified.records, verified.first_seq, verified.last_seq),
        (10, Some(1), Some(10))
    );
    assert_eq!(verified.head.map(|head| head.seq), Some(10));
}

#[tokio::test]
async fn an_edited_record_is_found() {
    let dir = sealed().await;
    tamper(
        &dir,
        "UPDATE audit SET body = replace(body, 'echo hello', 'echo other') WHERE seq = 3",
    );
    expect(&dir, ProblemKind::Edited, 3);
}

#[tokio::test]
async fn a_record_of_another_form_is_found() {
    let dir = sealed().await;
    tamper(&dir, "UPDATE audit SET body = ' ' || body WHERE seq = 4");
    expect(&dir, ProblemKind::Edited, 4);
}

#[tokio::test]
async fn an_edit_with_a_new_hash_lacks_the_key() {
    let dir = sealed().await;
    let connection = rusqlite::Connection::open(config(dir.path()).path).unwrap();
    let body: String = connection
        .query_row("SELECT body FROM audit WHERE seq = 10", (), |row| row.get(0))
        .unwrap();
    let body = body.replace("completed", "cancelled");
    let hash = countersign_domain::hex(&<sha2::Sha256 as sha2::Digest>::digest(body.as_bytes()));
    connection
        .execute(
            "UPDATE audit SET body = ?1, hash = ?2 WHERE seq = 10",
            (body, hash),
        )
        .unwrap();
    expect(&dir, ProblemKind::Forged, 10);
}

#[tokio::test]
async fn a_missing_record_is_found() {
    let dir = sealed().await;
    tamper(&dir, "DELETE FROM audit WHERE seq = 5");
    expect(&dir, ProblemKind::Missing, 5);
}

#[tokio::test]
async fn a_missing_first_record_is_found() {
    let dir = sealed().await;
    tamper(&dir, "DELETE FROM audit WHERE seq = 1");
    expect(&dir, ProblemKind::Missing, 1);
}

#[tokio::test]
async fn swapped_records_are_found() {
    let dir = sealed().await;
    tamper(
        &dir,
        "UPDATE audit SET seq = -1 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = 5; \
         UPDATE audit SET seq = 5 WHERE seq = -1",
    );
    expect(&dir, ProblemKind::Reordered, 4);
}

#[tokio::test]
async fn cut_off_records_are_found_even_after_more_were_written() {
    let dir = sealed().await;
    tamper(&dir, "DELETE FROM audit WHERE seq > 8");
    expect(&dir, ProblemKind::Truncated, 9);

    let opened = Opened::in_dir(
        dir,
        Arc::new(SeededIds::starting_at(1000)),
        Tuning::default(),
        "boot-1",
    )
    .unwrap();
    opened.launch_one().await;
    let dir = opened.stop();
    expect(&dir, ProblemKind::Missing, 9);
}

#[tokio::test]
async fn an_emptied_chain_is_found() {
    let dir = sealed().await;
    tamper(&dir, "DELETE FROM audit");
    expect(&dir, ProblemKind::Truncated, 1);
}

#[tokio::test]
async fn a_removed_head_is_found() {
    let dir = sealed().await;
    std::fs::remove_file(config(dir.path()).audit_head).unwrap();
    expect(&dir, ProblemKind::Missing, 10);
}

#[tokio::test]
async fn a_forged_head_is_found() {
    let dir = sealed().await;
    let path = config(dir.path()).audit_head;
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace("\"seq\":10", "\"seq\":9");
    std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::io::Write::write_all(
        &mut std::fs::OpenOptions::new().write(true).open(&path).unwrap(),
        text.as_bytes(),
    )
    .unwrap();
    expect(&dir, ProblemKind::Forged, 9);
}

#[tokio::test]
async fn records_after_the_sealed_head_are_fine_when_they_chain() {
    let dir = sealed().await;
    let head = std::fs::read(config(dir.path()).audit_head).unwrap();
    let opened = Opened::in_dir(
        dir,
        Arc::new(SeededIds::starting_at(1000)),
        Tuning::default(),
        "boot-1",
    )
    .unwrap();
    opened.launch_one().await;
    let dir = opened.stop();
    // As after a crash before the second sealing.
    let path = config(dir.path()).audit_head;
    std::fs::remove_file(&path).unwrap();
    std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), &head).unwrap();
    let verified = verified(&dir);
    assert_eq!((verified.problem, verified.last_seq), (None, Some(11)));
    assert_eq!(verified.head.map(|head| head.seq), Some(10));
}

#[tokio::test]
async fn a_tail_that_was_rewritten_with_the_key_is_found_by_a_witness_only() {
    let dir = sealed().await;
    let config = config(dir.path());
    let connection = rusqlite::Connection::open(&config.path).unwrap();
    let hash_of = |seq: i64| -> String {
        connection
            .query_row("SELECT hash FROM audit WHERE seq = ?1", (seq,), |row| row.get(0))
            .unwrap()
    };
    let log: Vec<String> = [3, 7, 10]
        .map(|seq| format!("host countersign[1]: audit head {seq} {}", hash_of(seq)))
        .to_vec();
    let compare = |lines: &[String]| {
        let heads = read_witness(lines.join("\n").as_bytes()).unwrap();
        verify_with_witness(&config.path, &config.audit_key, &config.audit_head, &heads).unwrap()
    };
    let (verification, witnessed) = compare(&log);
    assert!(verification.is_ok());
    assert_eq!((witnessed.confirmed, witnessed.problem), (3, None));

    // An attacker with the key makes every record from the fifth on anew, and seals the head.
    let keys = crate::keys::Keys::load(&config.audit_key).unwrap();
    let mut prev = hash_of(4);
    for seq in 5..=10 {
        let body: String = connection
            .query_row("SELECT body FROM audit WHERE seq = ?1", (seq,), |row| row.get(0))
            .unwrap();
        let mut members: Map<String, Value> = serde_json::from_str(&body).unwrap();
        members["prevHash"] = prev.into();
        // Who asked for a run stands in its row as well.
        if members["action"] != "exec.requested" {
            members["actor"]["name"] = "nobody".into();
        }
        let body = serde_json::to_string(&members).unwrap();
        let hash = countersign_domain::hex(&<sha2::Sha256 as sha2::Digest>::digest(body.as_bytes()));
        connection
            .execute(
                "UPDATE audit SET body = ?1, hash = ?2, mac = ?3 WHERE seq = ?4",
                (&body, &hash, keys.mac(&hash), seq),
            )
            .unwrap();
        prev = hash;
    }
    let head = crate::audit::chain::ChainHead { seq: 10, hash: prev };
    crate::audit::head::HeadFile::at(config.audit_head.clone())
        .seal(&head, UnixMillis::new(1), &keys)
        .unwrap();
    assert!(verified(&dir).is_ok(), "the key makes any history whole");
    let (verification, witnessed) = compare(&log);
    assert!(verification.is_ok());
    assert_eq!(witnessed.confirmed, 1);
    let problem = witnessed.problem.expect("a problem");
    assert_eq!((problem.kind, problem.seq), (ProblemKind::Forged, 7));
    // One that is shorter is found too.
    let (_whole, witnessed) = compare(&[format!("11 {}", hash_of(10))]);
    let problem = witnessed.problem.expect("a problem");
    assert_eq!((problem.kind, problem.seq), (ProblemKind::Truncated, 11));
}

#[tokio::test]
async fn an_older_history_in_its_place_is_found() {
    let opened = Opened::new();
    opened.launch_one().await;
    let older = opened.after_kill("boot-1");
    opened.launch_one().await;
    let dir = opened.stop();
    older.launch_one().await;
    older.launch_one().await;
    let older = older.stop();
    // The same key, the same numbers, another past.
    std::fs::copy(config(older.path()).path, config(dir.path()).path).unwrap();
    let problem = verified(&dir).problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::Forged);
}

#[tokio::test]
async fn records_are_listed_by_actor_and_action() {
    let opened = Opened::new();
    opened.launch_one().await;
    let entry = Entry {
        actor: approver(),
        address: Some("127.0.0.1".to_owned()),
        action: AuditAction::LoginFailed,
        target: Target {
            kind: "session".to_owned(),
            id: "s-1".to_owned(),
        },
        outcome: AuditOutcome::Failed,
        detail: Map::from_iter([("tries".to_owned(), Value::from(3))]),
    };
    opened.ledger.append_audit(entry.clone()).await.unwrap();
    let action = Some("login.failed".to_owned());
    let filter = AuditFilter {
        action,
        ..AuditFilter::default()
    };
    let listed = opened.ledger.audit(filter, Page::first(10)).await.unwrap().items;
    let [record] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(
        (record.seq, record.actor.address.as_deref()),
        (2, Some("127.0.0.1"))
    );
    assert_eq!(
        (&record.detail, record.outcome),
        (&entry.detail, AuditOutcome::Failed)
    );
    let actor = Some("t-asker".to_owned());
    let filter = AuditFilter {
        actor,
        after_seq: Some(0),
        ..AuditFilter::default()
    };
    let listed = opened.ledger.audit(filter, Page::first(10)).await.unwrap().items;
    assert_eq!(
        listed
            .iter()
            .map(|record| record.action.as_str())
            .collect::<Vec<_>>(),
        ["exec.requested"]
    );
}
