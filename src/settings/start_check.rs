//! What would be less safe to ignore than to refuse: combinations that must not serve, and keys of parts that this
//! version does not have yet.

use super::{
    DatabaseUrl, IsolationChoice, Problem, Server, SettingsProblem, Widening, server_sources::ServerValues,
};

/// Every reason not to serve with these settings.
pub(super) fn check(server: &Server, values: &ServerValues) -> Vec<SettingsProblem> {
    let faults = [
        listening(server),
        certificates(server),
        database(server),
        isolation(server),
        account(server),
    ];
    let faults = faults
        .into_iter()
        .chain([second_person(server), approval_rules(server)]);
    faults
        .flatten()
        .map(|(key, problem)| SettingsProblem::at(values.source(key), key, problem))
        .collect()
}

type Fault = Option<(&'static str, Problem)>;

fn listening(server: &Server) -> Fault {
    let is_open = !server.http.listen.ip().to_canonical().is_loopback();
    (is_open && !server.http.insecure_bind).then_some(("http.listen", Problem::OpenWithoutTls))
}

fn certificates(server: &Server) -> Fault {
    let tls = &server.tls;
    let named = [
        ("tls.cert", &tls.cert),
        ("tls.key", &tls.key),
        ("tls.client_ca", &tls.client_ca),
    ];
    let (key, _path) = named.into_iter().find(|(_key, path)| path.is_some())?;
    Some((
        key,
        Problem::NotYet("this version cannot serve TLS, and will not serve plain HTTP instead"),
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

fn isolation(server: &Server) -> Fault {
    match server.exec.isolation {
        IsolationChoice::Auto | IsolationChoice::SameUser => None,
        IsolationChoice::Confined | IsolationChoice::SeparateUser => Some((
            "exec.isolation",
            Problem::NotYet("this version reaches the level same-user only, which is less than demanded"),
        )),
    }
}

fn account(server: &Server) -> Fault {
    server.exec.run_as.as_ref()?;
    Some((
        "exec.run_as",
        Problem::NotYet("this version runs commands as its own account only"),
    ))
}

fn second_person(server: &Server) -> Fault {
    match server.approvals.widening {
        Widening::Apply => None,
        Widening::Ask => Some((
            "approvals.widening",
            Problem::NotYet("this version cannot make a policy change wait for a second person"),
        )),
    }
}

fn approval_rules(server: &Server) -> Fault {
    let has_rules = !server.approvals.rules.is_empty();
    let problem =
        Problem::NotYet("this version asks one approver of any group and would not follow these rules");
    has_rules.then_some(("approvals.rules", problem))
}
