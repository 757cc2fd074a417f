//! The pictures of README: `COUNTERSIGN_TEST_SHOTS=docs/pictures` writes them anew.

use std::{fs, path::Path};

use serde_json::json;

use super::{ask_body, complains_of_nothing, id, opened, signed_in, steady};
use crate::support::{Screen, TestServer};

/// A picture of README loads on a phone.
const MAX_BYTES: usize = 200_000;

const PICTURES: [(&str, Screen); 2] = [("page-question", Screen::DESK), ("page-phone", Screen::PHONE)];

#[tokio::test]
async fn a_question_as_readme_shows_it() {
    for (name, screen) in PICTURES {
        let server = TestServer::asking().start().await;
        let browser = or_skip!(signed_in(&server, screen).await);
        let body = json!({ "command": "git add -A && git push origin main", "workdir": "/srv" });
        let approval = id(&ask_body(&server, body).await, "approvalId");
        opened(&browser, &approval).await;
        // With what the record says of it.
        browser.shown("[data-fact=first]").await;
        browser.shown(&steady(&approval)).await;
        assert_eq!(
            browser.text(".command").await,
            "git add -A && git push origin main"
        );
        browser.shoot(name).await;
        complains_of_nothing(&browser).await;
    }
}

#[test]
fn the_pictures_of_readme_are_there() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(checkout.join("README.md")).expect("README.md");
    for (name, screen) in PICTURES {
        let path = format!("docs/pictures/{name}.png");
        assert!(readme.contains(&path), "README.md does not show {path}");
        let png = fs::read(checkout.join(&path)).expect(&path);
        assert!(png.starts_with(b"\x89PNG") && png.len() < MAX_BYTES, "{path}");
        let width = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
        // Less the bar at the side.
        assert!(
            (screen.width - 20..=screen.width).contains(&width),
            "{path}: {width}"
        );
    }
}
