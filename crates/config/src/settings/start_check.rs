//! What would be less safe to ignore than to refuse: combinations that must not serve, and keys of parts that this
//! version does not have yet.

use std::net::SocketAddr;

use super::{DatabaseUrl, IsolationChoice, Problem, Server, SettingsProblem, server_sources::ServerValues};

/// Every reason not to serve with these settings.
pub(super) fn check(server: &Server, values: &ServerValues) -> Vec<SettingsProblem> {
    let faults = [
        listening(server),
        certificates(server),
        database(server),
        isolation(server),
    ];
    let faults = faults
        .into_iter()
        .chain([runner_socket(server), metrics(server), client_authority(server)]);
    faults
        .flatten()
        .map(|(key, problem)| SettingsProblem::at(values.source(key), key, problem))
        .collect()
}

type Fault = Option<(&'static str, Problem)>;

fn listening(server: &Server) -> Fault {
    let is_refused =
        is_open_address(server.http.listen) && server.tls.cert.is_none() && !server.http.insecure_bind;
    is_refused.then_some(("http.listen", Problem::OpenWithoutTls))
}

/// Its listener asks for no token and speaks no TLS, no matter what the API does.
fn metrics(server: &Server) -> Fault {
    let address = server.telemetry.metrics_listen?;
    let is_refused = is_open_address(address) && !server.http.insecure_bind;
    is_refused.then_some(("telemetry.metrics_listen", Problem::OpenMetrics))
}

/// Whether other machines may reach a listener there. An IPv4 address in IPv6 clothes is judged as what it is.
pub fn is_open_address(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

fn certificates(server: &Server) -> Fault {
    match (&server.tls.cert, &server.tls.key) {
        (Some(_), None) => Some(("tls.cert", Problem::Needs { other: "tls.key" })),
        (None, Some(_)) => Some(("tls.key", Problem::Needs { other: "tls.cert" })),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// Without TLS nobody would be asked for a certificate.
fn client_authority(server: &Server) -> Fault {
    let is_alone = server.tls.client_ca.is_some() && server.tls.cert.is_none() && server.tls.key.is_none();
    is_alone.then_some((
        "tls.client_ca",
        Problem::Needs {
            other: "tls.cert and tls.key",
        },
    ))
}

fn database(server: &Server) -> Fault {
    match server.database.url {
        DatabaseUrl::Sqlite(_) => None,
        DatabaseUrl::Postgres => Some((
            "database.url",
            Problem::NotYet("this version keeps its ledger in SQLite only"),
        )),
    }
}

/// Whether an account that is named can be had is found out by who starts the server.
fn isolation(server: &Server) -> Fault {
    let is_alone = server.exec.isolation == IsolationChoice::SeparateUser && server.exec.run_as.is_none();
    is_alone.then_some((
        "exec.isolation",
        Problem::Needs {
            other: "exec.run_as or --run-as",
        },
    ))
}

fn runner_socket(server: &Server) -> Fault {
    let is_alone = server.exec.runner_socket.is_some() && server.exec.run_as.is_none();
    is_alone.then_some((
        "exec.runner_socket",
        Problem::Needs {
            other: "exec.run_as or --run-as",
        },
    ))
}
