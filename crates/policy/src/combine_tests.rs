//! Who wins when several speak.

use proptest::prelude::*;

use countersign_domain::{
    Ask::{self, Always, Off, OnMiss},
    Security::{self, Allowlist, Deny, Full},
};

use super::{
    combine::{DocumentPolicy, Effective, PolicyLayers, Wanted, combine},
    layers::{Layer, Spoken},
};

fn global<T>(key: &str, value: T) -> Spoken<T> {
    Spoken::new(Layer::Global, key, value)
}

fn security_of(layers: &[(Layer, Security)]) -> Vec<Spoken<Security>> {
    let layers = layers.iter();
    layers
        .map(|(layer, value)| Spoken::new(*layer, layer.as_str(), *value))
        .collect()
}

/// Security and its source, after combining these.
fn combined(
    configured: &[(Layer, Security)],
    session: Option<Security>,
    call: Option<Security>,
    document: &[(Layer, Security)],
) -> Effective {
    combine(PolicyLayers {
        security: &security_of(configured),
        ask: &[],
        session: Wanted {
            security: session,
            ask: None,
        },
        elevated: Wanted::default(),
        call: Wanted {
            security: call,
            ask: None,
        },
        document: &DocumentPolicy {
            security: security_of(document),
            ..DocumentPolicy::silent()
        },
    })
}

#[test]
fn nothing_said_is_deny_and_asked_on_a_miss() {
    let effective = combine(PolicyLayers {
        security: &[],
        ask: &[],
        session: Wanted::default(),
        elevated: Wanted::default(),
        call: Wanted::default(),
        document: &DocumentPolicy::silent(),
    });
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Deny, "default")
    );
    assert_eq!(
        (effective.ask.value, effective.ask.source.as_str()),
        (OnMiss, "default")
    );
    assert_eq!(effective.ask_fallback.value, Deny);
    assert!(!effective.auto_allow_skills.value);
    assert!(!effective.document_refused);
}

#[test]
fn each_layer_that_counts_names_its_source_and_is_the_last() {
    use Layer::{Agent, Call, Default, DocumentAgent, DocumentDefaults, Global, Session};
    let configured = [(Default, Deny), (Global, Full), (Agent, Allowlist)];
    let layers = |effective: &Effective| -> Vec<Layer> {
        effective.security.layers.iter().map(|said| said.layer).collect()
    };

    let effective = combined(&configured, None, None, &[(DocumentDefaults, Full)]);
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Allowlist, "agent")
    );
    assert_eq!(layers(&effective), [DocumentDefaults, Default, Global, Agent]);

    let effective = combined(
        &configured,
        Some(Full),
        None,
        &[(DocumentDefaults, Full), (DocumentAgent, Deny)],
    );
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Deny, "document-agent")
    );
    assert_eq!(
        layers(&effective),
        [Default, Global, Agent, Session, DocumentDefaults, DocumentAgent]
    );

    let effective = combined(&configured, Some(Full), Some(Deny), &[]);
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Deny, "call")
    );
    assert_eq!(layers(&effective), [Default, Global, Agent, Session, Call]);

    let effective = combined(&configured, None, Some(Full), &[]);
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Allowlist, "agent")
    );
    assert_eq!(layers(&effective), [Default, Global, Call, Agent]);
}

#[test]
fn the_document_never_loosens_and_the_agent_part_outranks_the_rest() {
    use Layer::{DocumentAgent, DocumentDefaults, DocumentWildcard, Global};
    let spoken = [
        (DocumentDefaults, Deny),
        (DocumentWildcard, Deny),
        (DocumentAgent, Full),
    ];
    assert_eq!(
        combined(&[(Global, Full)], None, None, &spoken).security.value,
        Full
    );
    assert_eq!(
        combined(&[(Global, Allowlist)], None, None, &spoken)
            .security
            .value,
        Allowlist
    );
}

#[test]
fn the_fallback_is_clamped_to_security() {
    let effective = combine(PolicyLayers {
        security: &[global("tools.exec.security", Allowlist)],
        ask: &[],
        session: Wanted::default(),
        elevated: Wanted::default(),
        call: Wanted::default(),
        document: &DocumentPolicy {
            ask_fallback: vec![Spoken::new(Layer::DocumentAgent, "document", Full)],
            ..DocumentPolicy::silent()
        },
    });
    assert_eq!(effective.ask_fallback.value, Allowlist);
    assert_eq!(
        effective.ask_fallback.layers,
        [
            Spoken::new(Layer::DocumentAgent, "document", Full),
            Spoken::new(Layer::Clamp, "tools.exec.security", Allowlist)
        ]
    );
}

#[test]
fn a_refused_document_denies_keeps_ask_and_is_named_only_when_it_is_the_cause() {
    let refused = |security| {
        combine(PolicyLayers {
            security: &[global("tools.exec.security", security)],
            ask: &[global("tools.exec.ask", Always)],
            session: Wanted::default(),
            elevated: Wanted::default(),
            call: Wanted::default(),
            document: &DocumentPolicy::refused(),
        })
    };
    let effective = refused(Full);
    assert_eq!(
        (effective.security.value, effective.security.source.as_str()),
        (Deny, "exec-approvals.json")
    );
    assert_eq!(
        (effective.ask.value, effective.ask.source.as_str()),
        (Always, "tools.exec.ask")
    );
    assert_eq!(effective.ask_fallback.value, Deny);
    assert!(effective.document_refused);
    assert!(!refused(Deny).document_refused);
}

fn any_security() -> impl Strategy<Value = Security> {
    prop::sample::select(Security::ALL)
}

fn any_ask() -> impl Strategy<Value = Ask> {
    prop::sample::select(Ask::ALL)
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (prop::option::of(any_security()), prop::option::of(any_ask()))
        .prop_map(|(security, ask)| Wanted { security, ask })
}

fn spoken<T: Clone + std::fmt::Debug>(
    values: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Spoken<T>>> {
    let layers = [
        Layer::DocumentDefaults,
        Layer::DocumentWildcard,
        Layer::DocumentAgent,
    ];
    prop::collection::vec(values, 0..=3).prop_map(move |values| {
        let values = values.into_iter().zip(layers);
        values
            .map(|(value, layer)| Spoken::new(layer, layer.as_str(), value))
            .collect()
    })
}

fn document() -> impl Strategy<Value = DocumentPolicy> {
    (
        spoken(any_security()),
        spoken(any_ask()),
        spoken(any_security()),
        any::<bool>(),
    )
        .prop_map(|(security, ask, ask_fallback, refused)| {
            if refused {
                DocumentPolicy::refused()
            } else {
                DocumentPolicy {
                    security,
                    ask,
                    ask_fallback,
                    ..DocumentPolicy::silent()
                }
            }
        })
}

proptest! {
    #[test]
    fn a_call_only_tightens(
        security in any_security(), ask in any_ask(), session in wanted(), elevated in wanted(),
        call in wanted(), document in document()
    ) {
        let configured = [global("s", security)];
        let configured_ask = [global("a", ask)];
        let layers = PolicyLayers {
            security: &configured, ask: &configured_ask, session, elevated, call, document: &document,
        };
        let with = combine(layers);
        let without = combine(PolicyLayers { call: Wanted::default(), ..layers });
        prop_assert!(with.security.value <= without.security.value);
        prop_assert!(with.ask.value >= without.ask.value);
        prop_assert!(with.ask_fallback.value <= without.ask_fallback.value);
    }

    #[test]
    fn a_document_only_tightens(
        security in any_security(), ask in any_ask(), session in wanted(), elevated in wanted(),
        call in wanted(), document in document()
    ) {
        let configured = [global("s", security)];
        let configured_ask = [global("a", ask)];
        let layers = PolicyLayers {
            security: &configured, ask: &configured_ask, session, elevated, call, document: &document,
        };
        let with = combine(layers);
        let without = combine(PolicyLayers { document: &DocumentPolicy::silent(), ..layers });
        prop_assert!(with.security.value <= without.security.value);
        prop_assert!(with.ask.value >= without.ask.value);
        prop_assert!(with.ask_fallback.value <= with.security.value);
    }

    #[test]
    fn the_last_layer_is_the_one_that_counts(
        security in any_security(), ask in any_ask(), session in wanted(), elevated in wanted(),
        call in wanted(), document in document()
    ) {
        let configured = [global("s", security)];
        let configured_ask = [global("a", ask)];
        let effective = combine(PolicyLayers {
            security: &configured, ask: &configured_ask, session, elevated, call, document: &document,
        });
        let last = effective.security.layers.last().unwrap();
        prop_assert_eq!((last.value, &last.source), (effective.security.value, &effective.security.source));
        let last = effective.ask.layers.last().unwrap();
        prop_assert_eq!((last.value, &last.source), (effective.ask.value, &effective.ask.source));
        let last = effective.ask_fallback.layers.last().unwrap();
        prop_assert_eq!((last.value, &last.source), (effective.ask_fallback.value, &effective.ask_fallback.source));
    }
}

#[test]
fn ask_takes_the_more_insistent_of_both() {
    let ask = |configured: Ask, document: Ask| {
        let configured = [global("tools.exec.ask", configured)];
        let document = DocumentPolicy {
            ask: vec![Spoken::new(Layer::DocumentDefaults, "document", document)],
            ..DocumentPolicy::silent()
        };
        let layers = PolicyLayers {
            security: &[],
            ask: &configured,
            session: Wanted::default(),
            elevated: Wanted::default(),
            call: Wanted::default(),
            document: &document,
        };
        combine(layers).ask.value
    };
    for (configured, document, expected) in [
        (Off, Off, Off),
        (Off, OnMiss, OnMiss),
        (OnMiss, Off, OnMiss),
        (Always, Off, Always),
        (Off, Always, Always),
    ] {
        assert_eq!(ask(configured, document), expected);
    }
}
