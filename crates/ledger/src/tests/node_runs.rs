//! What a launch on a node writes, and which runs a node is asked about later.

use countersign_domain::Reason;

use super::*;

use crate::{NodeLaunch, NodeRun};

fn kept(fenced: bool) -> NodeRun {
    NodeRun {
        node_id: "n-1".to_owned(),
        connection: 7,
        fenced,
    }
}

fn node(fenced: bool) -> NodeLaunch {
    NodeLaunch {
        kept: kept(fenced),
        document_known: !fenced,
    }
}

async fn launched(opened: &Opened, fenced: bool) -> RunId {
    let run = NewRun {
        host: Host::Node,
        node_id: Some("n-1".to_owned()),
        ..opened.run()
    };
    let run_id = run.id.clone();
    let terms = LaunchTerms {
        node: Some(node(fenced)),
        ..terms()
    };
    let launch = DirectLaunch {
        run,
        key: None,
        terms,
    };
    let admitted = opened.ledger.admit_and_launch(launch).await.unwrap();
    let Admission::New(LaunchOutcome::Launched(permit)) = admitted else {
        panic!("not launched");
    };
    assert_eq!(permit.into_parts().node, Some(node(fenced)));
    run_id
}

#[tokio::test]
async fn a_launch_on_a_node_is_known_with_its_connection_before_anything_can_be_sent() {
    let opened = Opened::new();
    for fenced in [true, false] {
        let run_id = launched(&opened, fenced).await;
        let found = opened.ledger.node_launch(&run_id).await.unwrap();
        assert_eq!(found, Some(kept(fenced)));
        // A server that dies now leaves it to the next one.
        let again = opened.after_kill("boot-1");
        assert_eq!(
            again.ledger.node_launch(&run_id).await.unwrap(),
            Some(kept(fenced))
        );
    }
    let here = opened.launched().await;
    assert_eq!(opened.ledger.node_launch(here.run_id()).await.unwrap(), None);
}

#[tokio::test]
async fn a_node_is_asked_only_about_its_own_lost_runs_that_it_keeps_a_fence_for() {
    let opened = Opened::new();
    let mut lost_runs = Vec::new();
    for (fenced, is_lost) in [(true, true), (false, true), (true, false)] {
        let run_id = launched(&opened, fenced).await;
        if is_lost {
            let mut lost = finish(&run_id);
            lost.end.status = RunStatus::Lost;
            lost.end.reason = Some(Reason::NodeDisconnected);
            opened.ledger.finish(lost).await.unwrap();
        }
        lost_runs.push(run_id);
    }
    let asked = opened.ledger.lost_on_node("n-1".to_owned()).await.unwrap();
    let asked: Vec<RunId> = asked.into_iter().map(|run| run.id).collect();
    assert_eq!(asked, lost_runs.into_iter().take(1).collect::<Vec<_>>());
    assert!(
        opened
            .ledger
            .lost_on_node("n-2".to_owned())
            .await
            .unwrap()
            .is_empty()
    );
}
