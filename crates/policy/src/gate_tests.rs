//! Every cell of the decision table (`docs/spec/approvals-store.md#7-the-decision-table`), the cases that need a person
//! (`docs/spec/exec-tool.md#3-whether-it-runs`), and what must hold for any input.

use proptest::prelude::*;

use countersign_domain::{
    Ask::{self, Always, Off, OnMiss},
    Reason,
    Security::{self, Allowlist, Deny, Full},
};

use super::gate::{
    AfterTimeout, AskSpec, AskWhy, Coverage, FallbackVerdict, GateInput, Unanswered, Verdict, fallback, gate,
};

const TIMEOUT: Unanswered = Unanswered::Timeout(AfterTimeout::Fallback);
const RUNS: FallbackVerdict = FallbackVerdict::Run;
const MISS: FallbackVerdict = FallbackVerdict::Deny(Reason::AllowlistMiss);
const NOBODY: FallbackVerdict = FallbackVerdict::Deny(Reason::ApprovalTimeout);

const fn input(security: Security, ask: Ask, matches: bool) -> GateInput {
    GateInput {
        security,
        ask,
        ask_fallback: Deny,
        coverage: Coverage {
            satisfied: matches,
            analysis_ok: true,
            durable: false,
        },
        denylisted: false,
        needs_person: false,
        document_refused: false,
        tool_denied: false,
    }
}

const fn ask(why: AskWhy, allow_always_offered: bool) -> Verdict {
    Verdict::Ask(AskSpec {
        why,
        allow_always_offered,
    })
}

/// A row that never asks.
#[track_caller]
fn decided(security: Security, ask: Ask, matches: bool, expected: Verdict) {
    for ask_fallback in [Deny, Allowlist, Full] {
        let input = GateInput {
            ask_fallback,
            ..input(security, ask, matches)
        };
        assert_eq!(gate(&input), expected, "{input:?}");
    }
}

/// A row that asks, with what happens under fallback deny, allowlist and full when nobody answers.
#[track_caller]
fn asked(security: Security, ask: Ask, matches: bool, expected: Verdict, unanswered: [FallbackVerdict; 3]) {
    for (ask_fallback, expected_fallback) in [Deny, Allowlist, Full].into_iter().zip(unanswered) {
        let input = GateInput {
            ask_fallback,
            ..input(security, ask, matches)
        };
        assert_eq!(gate(&input), expected, "{input:?}");
        assert_eq!(fallback(&input, TIMEOUT), expected_fallback, "{input:?}");
        let without_route = if expected_fallback == NOBODY {
            FallbackVerdict::Deny(Reason::NoApprover)
        } else {
            expected_fallback
        };
        assert_eq!(fallback(&input, Unanswered::NoRoute), without_route, "{input:?}");
        for never in [Unanswered::Timeout(AfterTimeout::Deny), Unanswered::FoundExpired] {
            assert_eq!(fallback(&input, never), NOBODY, "{input:?}");
        }
    }
}

#[test]
fn security_deny_denies_whatever_is_asked_or_matches() {
    for ask in [Off, OnMiss, Always] {
        for matches in [true, false] {
            decided(Deny, ask, matches, Verdict::Deny(Reason::SecurityDeny));
        }
    }
}

#[test]
fn every_row_of_security_allowlist() {
    let miss = ask(AskWhy::AllowlistMiss, true);
    let always = ask(AskWhy::AskAlways, false);
    decided(Allowlist, Off, true, Verdict::Run);
    decided(Allowlist, Off, false, Verdict::Deny(Reason::AllowlistMiss));
    decided(Allowlist, OnMiss, true, Verdict::Run);
    asked(Allowlist, OnMiss, false, miss, [NOBODY, MISS, MISS]);
    asked(Allowlist, Always, true, always, [NOBODY, RUNS, RUNS]);
    asked(Allowlist, Always, false, always, [NOBODY, MISS, MISS]);
}

#[test]
fn every_row_of_security_full() {
    let always = ask(AskWhy::AskAlways, false);
    for matches in [true, false] {
        decided(Full, Off, matches, Verdict::Run);
        decided(Full, OnMiss, matches, Verdict::Run);
    }
    asked(Full, Always, true, always, [NOBODY, RUNS, RUNS]);
    asked(Full, Always, false, always, [NOBODY, MISS, RUNS]);
}

#[test]
fn a_failed_analysis_is_no_match_whatever_it_claims() {
    let mut failed = input(Allowlist, OnMiss, true);
    failed.coverage.analysis_ok = false;
    assert_eq!(gate(&failed), ask(AskWhy::AllowlistMiss, true));
    failed.ask_fallback = Allowlist;
    assert_eq!(fallback(&failed, TIMEOUT), MISS);
    failed.ask = Off;
    assert_eq!(gate(&failed), Verdict::Deny(Reason::AllowlistMiss));
}

#[test]
fn durable_trust_covers_a_miss_but_never_ask_always_nor_a_person() {
    let durable = |ask| {
        let mut input = input(Allowlist, ask, false);
        input.coverage.durable = true;
        input
    };
    assert_eq!(gate(&durable(OnMiss)), Verdict::Run);
    assert_eq!(gate(&durable(Off)), Verdict::Run);
    assert_eq!(gate(&durable(Always)), ask(AskWhy::AskAlways, false));
    let by_person = GateInput {
        needs_person: true,
        ..durable(OnMiss)
    };
    assert_eq!(gate(&by_person), ask(AskWhy::NeedsPerson, false));
}

#[test]
fn what_needs_a_person_is_asked_even_under_full_and_off() {
    let by_person = |security, ask| GateInput {
        needs_person: true,
        ask_fallback: Full,
        ..input(security, ask, true)
    };
    let asked = ask(AskWhy::NeedsPerson, false);
    assert_eq!(gate(&by_person(Full, Off)), asked);
    assert_eq!(gate(&by_person(Full, OnMiss)), asked);
    assert_eq!(gate(&by_person(Allowlist, OnMiss)), asked);
    assert_eq!(gate(&by_person(Full, Always)), ask(AskWhy::AskAlways, false));
    assert_eq!(
        gate(&by_person(Allowlist, Off)),
        Verdict::Deny(Reason::AllowlistMiss)
    );
    assert_eq!(fallback(&by_person(Full, Off), TIMEOUT), NOBODY);
    assert_eq!(
        fallback(&by_person(Full, Off), Unanswered::NoRoute),
        FallbackVerdict::Deny(Reason::NoApprover)
    );
    assert_eq!(fallback(&by_person(Allowlist, OnMiss), TIMEOUT), MISS);
}

#[test]
fn denials_outrank_each_other_in_one_order() {
    let everything = GateInput {
        denylisted: true,
        tool_denied: true,
        document_refused: true,
        needs_person: true,
        ..input(Deny, Always, false)
    };
    let order = [
        (everything, Reason::Denylist),
        (
            GateInput {
                denylisted: false,
                ..everything
            },
            Reason::ToolDenied,
        ),
        (
            GateInput {
                denylisted: false,
                tool_denied: false,
                ..everything
            },
            Reason::DocumentRefused,
        ),
        (
            GateInput {
                denylisted: false,
                tool_denied: false,
                document_refused: false,
                ..everything
            },
            Reason::SecurityDeny,
        ),
    ];
    for (input, reason) in order {
        assert_eq!(gate(&input), Verdict::Deny(reason));
        assert_eq!(fallback(&input, TIMEOUT), FallbackVerdict::Deny(reason));
    }
}

#[test]
fn a_deny_rule_wins_in_every_security_mode() {
    for security in [Deny, Allowlist, Full] {
        for ask in [Off, OnMiss, Always] {
            let input = GateInput {
                denylisted: true,
                ..input(security, ask, true)
            };
            assert_eq!(gate(&input), Verdict::Deny(Reason::Denylist));
        }
    }
}

fn any_input() -> impl Strategy<Value = GateInput> {
    let bools = any::<[bool; 7]>();
    (
        prop::sample::select(Security::ALL),
        prop::sample::select(Ask::ALL),
        prop::sample::select(Security::ALL),
        bools,
    )
        .prop_map(|(security, ask, ask_fallback, bools)| {
            let [
                satisfied,
                analysis_ok,
                durable,
                denylisted,
                needs_person,
                document_refused,
                tool_denied,
            ] = bools;
            GateInput {
                security,
                ask,
                ask_fallback,
                coverage: Coverage {
                    satisfied,
                    analysis_ok,
                    durable,
                },
                denylisted,
                needs_person,
                document_refused,
                tool_denied,
            }
        })
}

/// From strictest to loosest by what it takes until the command runs.
const fn freedom(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny(_) => 0,
        Verdict::Ask(_) => 1,
        Verdict::Run => 2,
    }
}

/// Whether the command can run with nobody answering.
fn runs_alone(input: &GateInput) -> bool {
    match gate(input) {
        Verdict::Run => true,
        Verdict::Ask(_) => fallback(input, TIMEOUT) == RUNS,
        Verdict::Deny(_) => false,
    }
}

proptest! {
    #[test]
    fn stricter_security_never_frees(input in any_input(), security in prop::sample::select(Security::ALL)) {
        let stricter = GateInput { security: security.min(input.security), ..input };
        prop_assert!(!runs_alone(&stricter) || runs_alone(&input), "{:?} {:?}", stricter, input);
        if input.ask != Off {
            prop_assert!(freedom(gate(&stricter)) <= freedom(gate(&input)));
        }
    }

    #[test]
    fn more_insistent_asking_never_lets_run_what_was_asked(input in any_input(), ask in prop::sample::select(Ask::ALL)) {
        let stricter = GateInput { ask: ask.max(input.ask), ..input };
        if gate(&stricter) == Verdict::Run {
            prop_assert_eq!(gate(&input), Verdict::Run);
        }
    }

    #[test]
    fn a_stricter_fallback_never_frees(input in any_input(), ask_fallback in prop::sample::select(Security::ALL)) {
        let stricter = GateInput { ask_fallback: ask_fallback.min(input.ask_fallback), ..input };
        if fallback(&stricter, TIMEOUT) == RUNS {
            prop_assert_eq!(fallback(&input, TIMEOUT), RUNS);
        }
    }

    #[test]
    fn findings_against_a_command_never_free_it(input in any_input()) {
        for worse in [
            GateInput { denylisted: true, ..input },
            GateInput { tool_denied: true, ..input },
            GateInput { needs_person: true, ..input },
            GateInput { coverage: Coverage { satisfied: false, analysis_ok: false, durable: false }, ..input },
        ] {
            prop_assert!(!runs_alone(&worse) || runs_alone(&input), "{:?} {:?}", worse, input);
        }
    }

    #[test]
    fn two_policies_together_let_nothing_run_that_either_would_not(one in any_input(), other in any_input()) {
        let both = one.strictest(other);
        prop_assert_eq!(both, other.strictest(one));
        if gate(&both) == Verdict::Run {
            prop_assert_eq!((gate(&one), gate(&other)), (Verdict::Run, Verdict::Run));
        }
        for unanswered in [TIMEOUT, Unanswered::NoRoute] {
            if fallback(&both, unanswered) == RUNS {
                prop_assert_eq!((fallback(&one, unanswered), fallback(&other, unanswered)), (RUNS, RUNS));
            }
        }
    }

    #[test]
    fn what_no_person_saw_is_remembered_only_when_asked_on_a_miss(input in any_input()) {
        if let Verdict::Ask(AskSpec { allow_always_offered: true, .. }) = gate(&input) {
            prop_assert_eq!((input.security, input.ask, input.needs_person), (Allowlist, OnMiss, false));
        }
    }
}
