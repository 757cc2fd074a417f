//! `countersign policy backtest` and `shadow`: what a policy would say to past commands, and to new ones as they come.
//!
//! Both read runs from the server and judge them here, under the files of a candidate. They must never change anything
//! or run a command. A run that cannot be judged anew is counted, never guessed. They differ only in where the runs come
//! from. Entry points: [`backtest()`] and [`shadow()`]. Read on: [`Candidate`] gives the verdict,
//! [`countersign_trials::record`] counts the changes.

mod backtest;
mod shadow;

mod candidate;

use countersign_engine::candidate::Candidate;

use super::{context::Context, failure::Failure, init::InitPreset};

pub(crate) use backtest::{BacktestArgs, run as backtest};
pub(crate) use shadow::{ShadowArgs, run as shadow};

/// The policy that commands are forecast under: that of the state directory, or, where it has none, what a preset of
/// `init` would set up. With a preset it is that one. Says whether it is the present one.
pub(super) fn forecast_policy(
    context: &Context,
    preset: Option<InitPreset>,
) -> Result<(Candidate, Option<InitPreset>), Failure> {
    if preset.is_none() && candidate::has_policy(context)? {
        return Ok((present_policy(context)?, None));
    }
    let preset = preset.unwrap_or(InitPreset::Cautious);
    Ok((candidate::of_preset(context, preset)?, Some(preset)))
}

/// The policy of the state directory as it stands, a held edit included.
pub(super) fn present_policy(context: &Context) -> Result<Candidate, Failure> {
    candidate::CandidateArgs::default().load(context)
}
