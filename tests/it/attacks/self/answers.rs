//! Rows of "Nobody answers himself" that are about the edges of the server and no other file shows: see [`super::rows`].

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _, chown},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, NOBODY, TestServer, is_root, skip};

/// The same caller by way of the socket of the API.
fn by_socket(server: &TestServer, caller: &Api) -> Api {
    let socket = server.state().join("countersign/api.sock");
    let client = reqwest::Client::builder()
        .unix_socket(socket)
        .tls_certs_only([])
        .build()
        .unwrap();
    caller.by_way_of(client)
}

async fn asked(server: &TestServer) -> String {
    let call = json!({ "argv": ["/bin/true"] });
    let pending = server.accepted(call).await;
    pending.text("approvalId").to_owned()
}

/// A call of an MCP tool that stands for itself.
async fn tool(caller: &Api, name: &str, arguments: Value) -> Answer {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "by hand", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let request = caller
        .request(reqwest::Method::POST, "/mcp")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", name);
    caller.send(request.json(&message)).await
}

#[tokio::test]
async fn a_token_that_asks_decides_by_no_edge() {
    let server = TestServer::asking().start().await;
    let (_, watcher) = server
        .token_with(json!({ "name": "watcher", "scopes": ["exec", "read"] }))
        .await;
    let id = asked(&server).await;
    let decision = json!({ "decision": "allow-once" });
    let path = format!("/v1/approvals/{id}/decision");
    for caller in [server.agent(), watcher] {
        for caller in [caller.clone(), by_socket(&server, &caller)] {
            let refused = caller.post(&path, decision.clone()).await;
            assert_eq!(refused.problem(403, "forbidden")["requiredScope"], "approve");
            for (path, body) in [
                ("/v1/policy/document/accept", json!({ "hash": "0" })),
                ("/v1/policy/document/reject", json!({ "hash": "0" })),
                ("/v1/policy/preset", json!({ "preset": "yolo" })),
                ("/v1/agents/main/allowlist", json!({ "pattern": "/bin/true" })),
                ("/v1/tokens", json!({ "name": "x", "scopes": ["approve"] })),
                ("/v1/login-links", json!({})),
            ] {
                caller.post(path, body).await.problem(403, "forbidden");
            }
        }
        let shown = caller.token().unwrap();
        let done = server
            .cli(&["approvals", "resolve", &id, "allow-once", "--token", shown])
            .await;
        assert_ne!(done.code, Some(0), "{done:?}");
        for name in ["decide", "approvals_resolve", "approve", "login-link"] {
            let arguments = json!({ "id": id, "approvalId": id, "decision": "allow-once" });
            let answer = tool(&caller, name, arguments).await;
            assert!(!answer.text().contains("\"result\""), "{name}: {}", answer.text());
        }
        // Nor by words in what it asks for.
        let call = json!({ "argv": ["/bin/true"], "decision": "allow-once", "approvalId": id });
        caller.exec(call).await.problem(400, "invalid-request");
        let answer = tool(
            &caller,
            "exec",
            json!({ "argv": ["/bin/true"], "decision": "allow-once" }),
        )
        .await;
        assert!(!answer.text().contains("\"exitCode\""), "{}", answer.text());
    }
    let still = server.operator().approval(&id).await;
    assert_eq!(still["status"], "pending");

    // Each of these edges takes the answer of a token that may answer.
    server.operator().posted(&path, decision.clone()).await;
    let other = asked(&server).await;
    let path = format!("/v1/approvals/{other}/decision");
    by_socket(&server, &server.operator())
        .posted(&path, decision)
        .await;
    let third = asked(&server).await;
    let shown = server.operator_token();
    let done = server
        .cli(&["approvals", "resolve", &third, "allow-once", "--token", &shown])
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let explained = tool(&server.agent(), "exec_explain", json!({ "argv": ["/bin/true"] })).await;
    assert!(explained.text().contains("\"result\""), "{}", explained.text());
}

#[tokio::test]
async fn a_token_that_asks_reads_its_own_runs_and_no_others() {
    let server = TestServer::full().start().await;
    let exec_token = |name: &str| json!({ "name": name, "scopes": ["exec"] });
    let (_, other) = server.token_with(exec_token("other")).await;
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["exec", "read"] }))
        .await;
    let call = json!({ "argv": ["/bin/echo", "pineapple"], "sessionKey": "pineapple" });
    let answer = server.ran(call).await;
    let run = answer.text("runId");
    let paths = [
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/output"),
        "/v1/runs".to_owned(),
    ];
    for path in &paths {
        let mine = server.agent().get(path).await;
        assert!(
            mine.status == 200 && mine.text().contains("pineapple"),
            "{path}: {}",
            mine.text()
        );
        let theirs = other.get(path).await;
        assert!(!theirs.text().contains("pineapple"), "{path}: {}", theirs.text());
        let read = reader.get(path).await;
        assert!(
            read.status == 200 && read.text().contains("pineapple"),
            "{path}: {}",
            read.text()
        );
    }
    other.get(&paths[0]).await.problem(404, "not-found");
    other.get(&paths[1]).await.problem(404, "not-found");
    let cancel = format!("/v1/runs/{run}/cancel");
    other.post(&cancel, json!({})).await.problem(404, "not-found");
    for path in ["/v1/approvals", "/v1/audit", "/v1/policy/document", "/v1/config"] {
        server.agent().get(path).await.problem(403, "forbidden");
    }
}

/// Every socket in a directory.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_socket() {
                found.push(entry.path());
            }
        }
    }
    found
}

#[tokio::test]
async fn what_is_not_there_yet_opens_nothing() {
    let scratch = crate::support::Scratch::new();
    let named = scratch.join("approvals.sock");
    let server = TestServer::asking()
        .document(&json!({ "version": 1, "socket": { "path": named, "token": "shared" } }))
        .start()
        .await;
    let id = asked(&server).await;
    let decision = format!("/v1/approvals/{id}/decision");
    let state = server.state().join("countersign");
    let bridge = fs::read_to_string(state.join("bridge.token")).unwrap();
    // The secret of the nodes, and the one of the socket, are no tokens of the API, by whatever name they come.
    for secret in [bridge.trim(), "shared"] {
        let nobody = server.operator().with_token(Some(secret));
        // Whoever tries more than a few in a minute is told nothing at all.
        nobody.get("/v1/approvals").await.problem(401, "unauthorized");
        for caller in [nobody.clone(), by_socket(&server, &nobody)] {
            caller
                .post(&decision, json!({ "decision": "allow-once" }))
                .await
                .problem(401, "unauthorized");
        }
        let anonymous = server.anonymous();
        let login = anonymous.post("/auth/login", json!({ "token": secret })).await;
        login.problem(401, "unauthorized");
    }
    // Chat takes more than a token that may relay, and more than one that may answer; nodes have no edge.
    let (_, relay) = server
        .token_with(json!({ "name": "chat", "scopes": ["relay"] }))
        .await;
    let message =
        json!({ "text": format!("/approve {id} allow-once"), "sender": { "provider": "x", "id": "1" } });
    let path = "/v1/sessions/main/commands";
    for caller in [server.agent(), relay] {
        caller.post(path, message.clone()).await.problem(403, "forbidden");
        caller.get("/bridge").await.problem(400, "invalid-request");
    }
    let unnamed = server.operator().posted(path, message).await;
    assert_eq!(unnamed["handled"], false);
    assert_eq!(sockets(server.state()), [state.join("api.sock")]);
    assert!(!named.exists());
    let pending = server.operator().pending().await;
    assert_has!(pending[0], { "id": id });
}

/// Answers one client and returns what it said.
fn overheard<S: io::Read + io::Write>(mut stream: S) -> String {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => heard.extend_from_slice(&buffer[..read]),
        }
    }
    drop(stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    String::from_utf8(heard).unwrap()
}

fn nobody_came<S>(accepted: io::Result<S>) -> bool {
    accepted.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn whoever_took_the_port_or_the_socket_is_sent_no_token() {
    let mut server = TestServer::full().start().await;
    let address = server.operator().base().trim_start_matches("http://").to_owned();
    let secret = server.operator_token();
    let socket = server.state().join("countersign/api.sock");
    // It leaves behind where it was to be found.
    server.kill();
    assert!(socket.exists());
    let squatter = TcpListener::bind(&address).unwrap();
    squatter.set_nonblocking(true).unwrap();
    let done = server.cli(&["approvals", "list"]).await;
    assert_ne!(done.code, Some(0), "{done:?}");
    assert!(nobody_came(squatter.accept()));

    // The squatter is one: whoever is told to talk to it does.
    squatter.set_nonblocking(false).unwrap();
    let hears = thread::spawn(move || overheard(squatter.accept().unwrap().0));
    let url = format!("http://{address}");
    server
        .cli(&["approvals", "list", "--url", &url, "--token", "shown"])
        .await;
    assert!(hears.join().unwrap().to_lowercase().contains("bearer shown"));

    // In the place of the socket.
    fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let of_others = |mode: u32, owner: u32| {
        fs::set_permissions(&socket, fs::Permissions::from_mode(mode)).unwrap();
        if is_root() {
            chown(&socket, Some(owner), None).unwrap();
        } else if owner != rustix::process::geteuid().as_raw() {
            skip("giving a socket away needs root");
        }
    };
    let own = rustix::process::geteuid().as_raw();
    listener.set_nonblocking(true).unwrap();
    for (mode, owner) in [(0o600, NOBODY), (0o666, own), (0o660, own)] {
        of_others(mode, owner);
        let done = server.cli(&["approvals", "list"]).await;
        let is_told = done.stderr.contains("does not belong to you alone");
        assert!(
            is_told || !is_root() && owner != own,
            "{mode:o} {owner}: {done:?}"
        );
        if is_told {
            assert!(nobody_came(listener.accept()), "{mode:o} {owner}");
        }
    }
    of_others(0o600, own);
    listener.set_nonblocking(false).unwrap();
    let hears = thread::spawn(move || overheard(listener.accept().unwrap().0));
    server.cli(&["approvals", "list"]).await;
    assert!(hears.join().unwrap().contains(&secret));
}
