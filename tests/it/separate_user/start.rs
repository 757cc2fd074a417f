//! What a start refuses, and what it makes of a state directory.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
};

use serde_json::json;

use crate::support::{ServerBuilder, TestServer, assert_says, write_file_mode};

use super::{AccountsFixture, BAD_SETTINGS, field, possible, printed};

async fn is_refused(builder: ServerBuilder, because: &str) {
    let server = builder.prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    assert!(
        server.log().contains(because),
        "wanted {because:?}: {}",
        server.log()
    );
}

#[tokio::test]
async fn accounts_that_commands_must_not_have_are_refused() {
    let accounts = or_skip!(AccountsFixture::new());
    for (account, because) in [
        ("no-such-account", "there is no account no-such-account"),
        ("root", "root is root"),
        ("0", "0 is root"),
        ("0:1", "0:1 is root"),
        (&accounts.server.to_string(), "whom commands run as"),
    ] {
        is_refused(accounts.as_account(account), because).await;
    }
}

#[tokio::test]
async fn the_level_needs_an_account_and_an_account_needs_root() {
    let accounts = TestServer::full().env("COUNTERSIGN_EXEC__ISOLATION", "separate-user");
    is_refused(accounts, "exec.isolation: does nothing without exec.run_as").await;
    or_skip!(possible());
    let ordinary = TestServer::full()
        .run_as(1)
        .argument("--run-as")
        .argument("games");
    is_refused(ordinary, "only root can start commands under another account").await;
    let accounts = or_skip!(AccountsFixture::new());
    let demanding = accounts
        .builder()
        .env("COUNTERSIGN_EXEC__ISOLATION", "separate-user")
        .start()
        .await;
    assert_eq!(
        printed(&demanding, "id -u").await,
        format!("{}\n", accounts.commands)
    );
}

#[tokio::test]
async fn a_state_directory_that_somebody_else_has_a_hand_in_is_refused() {
    let account = |accounts: &AccountsFixture| Some(accounts.commands);
    // A file of the account.
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().prepare();
    chown(accounts.state().join("openclaw.json"), account(&accounts), None).unwrap();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS));
    assert_says(server.log(), "openclaw.json belongs to");

    // A spool of the account's making.
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().prepare();
    fs::create_dir(accounts.state().join("countersign/output")).unwrap();
    let planted = accounts.state().join("countersign/output/planted");
    write_file_mode(&planted, "", 0o600);
    chown(&planted, account(&accounts), None).unwrap();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS));
    assert!(server.log().contains("planted belongs to"), "{}", server.log());

    // A link, which leads to a directory that would be fine.
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().prepare();
    let moved = accounts.scratch.join("moved");
    fs::rename(accounts.state(), &moved).unwrap();
    symlink(&moved, accounts.state()).unwrap();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS));
    assert!(server.log().contains("state is a link"), "{}", server.log());

    // One that the account can move away.
    let accounts = or_skip!(AccountsFixture::new());
    let above = accounts.scratch.join("above");
    fs::create_dir(&above).unwrap();
    chown(&above, account(&accounts), None).unwrap();
    is_refused(
        accounts.builder().state_dir(&above.join("state")),
        "above can be replaced",
    )
    .await;
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
    chown(&above, Some(0), None).unwrap();
    is_refused(
        accounts.builder().state_dir(&above.join("state")),
        "above can be replaced",
    )
    .await;
}

#[tokio::test]
async fn a_second_name_of_a_file_is_not_given_away() {
    let accounts = or_skip!(AccountsFixture::new());
    let secret = accounts.scratch.join("of-root");
    write_file_mode(&secret, "hush", 0o600);
    let server = accounts.builder().prepare();
    fs::hard_link(&secret, accounts.state().join("countersign/trap")).unwrap();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS));
    assert!(server.log().contains("trap is a link"), "{}", server.log());
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
}

#[tokio::test]
async fn a_directory_of_roots_becomes_the_servers() {
    let accounts = or_skip!(AccountsFixture::new());
    let secret = accounts.scratch.join("of-root");
    write_file_mode(&secret, "hush", 0o600);
    let mut server = accounts.builder().prepare();
    // As if root had worked in it: files of root's, a mode that is too wide, a link.
    let own = accounts.state().join("countersign");
    for file in ["openclaw.json", "countersign/countersign.toml"] {
        chown(accounts.state().join(file), Some(0), Some(0)).unwrap();
    }
    fs::set_permissions(accounts.state(), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&secret, own.join("link")).unwrap();
    server.start().await;
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
    let metadata = fs::metadata(accounts.state()).unwrap();
    assert_eq!(
        (metadata.uid(), metadata.mode() & 0o777),
        (accounts.server, 0o700)
    );
    assert_eq!(
        fs::metadata(accounts.state().join("openclaw.json"))
            .unwrap()
            .uid(),
        accounts.server
    );
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
async fn without_an_account_for_the_server_it_stays_root_and_says_so() {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let is_named = passwd.lines().any(|line| line.starts_with("countersign:"));
    or_skip!(!is_named, "this machine has an account for the server");
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().owned_by(0).start().await;
    assert!(server.log().contains("useradd --system"), "{}", server.log());
    assert_eq!(field(server.pid(), "Uid"), "0 0 0 0");
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
    let report = server.cli(&["doctor", "--json"]).await.stdout;
    assert!(report.contains("server-is-root"), "{report}");
}

#[tokio::test]
async fn the_account_can_be_set_in_the_file() {
    let accounts = or_skip!(AccountsFixture::new());
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let toml = format!("[exec]\nlogin_path = false\nrun_as = \"{}\"\n", accounts.commands);
    let server = accounts.with_exec(&exec).without_toml().toml(&toml).start().await;
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
}
