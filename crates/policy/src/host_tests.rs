//! Who decides where a command runs.

use proptest::prelude::*;

use countersign_domain::{Host, HostChoice};

use super::{
    host::{Elevation, HostLayers, HostRefusal, Sandbox, resolve_host},
    layers::{Layer, Spoken},
};

fn global(value: HostChoice) -> Spoken<HostChoice> {
    Spoken::new(Layer::Global, "tools.exec.host", value)
}

#[track_caller]
fn host(
    configured: HostChoice,
    call: Option<HostChoice>,
    sandbox: Sandbox,
    expected: &Result<Host, HostRefusal>,
) {
    let configured = [global(configured)];
    let resolved = resolve_host(HostLayers {
        configured: &configured,
        session: None,
        call,
        sandbox,
        elevation: Elevation::None,
    });
    assert_eq!(
        resolved.map(|resolved| resolved.value),
        *expected,
        "{configured:?} {call:?} {sandbox:?}"
    );
}

#[test]
fn every_pair_of_configured_and_requested_host() {
    use HostChoice::{Auto, Gateway, Node, Sandbox as Box};
    use Sandbox::{Active, Inactive};
    let not_allowed = |requested, configured| {
        Err(HostRefusal::NotAllowed {
            requested,
            configured,
            key: "tools.exec.host".to_owned(),
        })
    };
    let unavailable = |key: &str| Err(HostRefusal::SandboxUnavailable { key: key.to_owned() });
    host(Auto, None, Active, &Ok(Host::Sandbox));
    host(Auto, None, Inactive, &Ok(Host::Gateway));
    host(Auto, Some(Auto), Active, &Ok(Host::Sandbox));
    host(Auto, Some(Node), Active, &Ok(Host::Node));
    host(Auto, Some(Box), Active, &Ok(Host::Sandbox));
    host(Auto, Some(Box), Inactive, &unavailable("call"));
    host(Auto, Some(Gateway), Inactive, &Ok(Host::Gateway));
    host(Auto, Some(Gateway), Active, &not_allowed(Gateway, Auto));
    host(Box, None, Active, &Ok(Host::Sandbox));
    host(Box, None, Inactive, &unavailable("tools.exec.host"));
    host(Gateway, None, Active, &Ok(Host::Gateway));
    host(Node, None, Inactive, &Ok(Host::Node));
    for sandbox in [Active, Inactive] {
        for configured in [Box, Gateway, Node] {
            for requested in [Auto, Box, Gateway, Node] {
                if requested != configured {
                    host(
                        configured,
                        Some(requested),
                        sandbox,
                        &not_allowed(requested, configured),
                    );
                }
            }
        }
    }
}

#[test]
fn elevation_leaves_the_sandbox_and_stays_on_a_node() {
    use HostChoice::{Auto, Gateway, Node, Sandbox as Box};
    let elevated = |configured, session, call| {
        let configured = [global(configured)];
        resolve_host(HostLayers {
            configured: &configured,
            session,
            call,
            sandbox: Sandbox::Active,
            elevation: Elevation::Granted,
        })
        .unwrap()
        .value
    };
    assert_eq!(elevated(Box, None, None), Host::Gateway);
    assert_eq!(elevated(Auto, None, None), Host::Gateway);
    assert_eq!(elevated(Auto, None, Some(Auto)), Host::Gateway);
    assert_eq!(elevated(Node, None, None), Host::Node);
    assert_eq!(elevated(Box, Some(Node), None), Host::Node);
    assert_eq!(elevated(Box, None, Some(Gateway)), Host::Gateway);
    assert_eq!(elevated(Box, None, Some(Node)), Host::Node);
}

#[test]
fn a_session_override_is_what_a_call_is_measured_against() {
    let configured = [global(HostChoice::Sandbox)];
    let layers = HostLayers {
        configured: &configured,
        session: Some(HostChoice::Gateway),
        call: Some(HostChoice::Node),
        sandbox: Sandbox::Active,
        elevation: Elevation::None,
    };
    assert_eq!(
        resolve_host(layers),
        Err(HostRefusal::NotAllowed {
            requested: HostChoice::Node,
            configured: HostChoice::Gateway,
            key: "session".to_owned()
        })
    );
    let resolved = resolve_host(HostLayers { call: None, ..layers }).unwrap();
    assert_eq!(
        (resolved.value, resolved.source.as_str()),
        (Host::Gateway, "session")
    );
    assert_eq!(resolved.layers.len(), 2);
}

#[test]
fn layers_are_as_they_were_said() {
    let configured = [global(HostChoice::Auto)];
    let layers = HostLayers {
        configured: &configured,
        session: None,
        call: None,
        sandbox: Sandbox::Active,
        elevation: Elevation::None,
    };
    let mut resolved = resolve_host(layers).unwrap();
    assert_eq!(
        (resolved.value, &*resolved.layers),
        (Host::Sandbox, &configured[..])
    );
    resolved.put_on_top(Spoken::new(Layer::Clamp, "tools.exec.onMiss", Host::Sandbox));
    let last = resolved.layers.last().map(|said| (said.layer, said.value));
    assert_eq!(last, Some((Layer::Clamp, HostChoice::Sandbox)));
}

proptest! {
    #[test]
    fn an_ordinary_call_never_reaches_the_gateway_from_a_sandbox(
        configured in prop::sample::select(HostChoice::ALL),
        call in prop::option::of(prop::sample::select(HostChoice::ALL)),
    ) {
        let spoken = [global(configured)];
        let resolved = resolve_host(HostLayers {
            configured: &spoken, session: None, call, sandbox: Sandbox::Active, elevation: Elevation::None,
        });
        if configured != HostChoice::Gateway {
            prop_assert_ne!(resolved.map(|resolved| resolved.value), Ok(Host::Gateway));
        }
    }
}
