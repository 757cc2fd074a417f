//! The environment of a command: which overrides are refused, which need a question, what is inherited (E1 to E3).
//!
//! Pure: the inherited environment is a parameter, and this module must never read the one of the process. A refusal
//! names variables and must never contain their values. Entry points: [`check_overrides`] (E1), [`unknown_overrides`]
//! (E2), [`harmless_only`] (E3) and [`sanitise_inherited`]. The lists of names are in `names.rs`.

mod names;
mod rules;

pub use rules::{
    BlockedEnv, check_inside_overrides, check_overrides, check_overrides_under, harmless_only, is_harmless,
    is_well_formed, refusal, sanitise_inherited, unknown_overrides,
};
pub(crate) use rules::{is_blocked, is_harmless_under, unknown_overrides_under};
