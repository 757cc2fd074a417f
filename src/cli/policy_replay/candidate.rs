//! The files of a candidate, read as the server reads those in force.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_config::{
    approvals::store::{DocumentStatus, Snapshot},
    settings::{SettingsProblem, SettingsStore, StartOptions},
};
use countersign_engine::candidate::{Candidate, CandidateParts};

use crate::{
    app,
    cli::{context::Context, exit::ExitStatus, failure::Failure, init::InitPreset, value},
};

/// Both files are written by people; this is far above any.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The approvals document, where no setting names another.
const DOCUMENT: &str = "exec-approvals.json";

/// Which policy is tried.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CandidateArgs {
    /// The approvals document to try (default: the one of the state directory)
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// The openclaw.json to try (default: the one of the state directory)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CandidateArgs {
    /// Whether it is nothing but the files that are there.
    pub(super) fn is_present_policy(&self) -> bool {
        self.document.is_none() && self.config.is_none()
    }

    /// Reads the files. What is not named is as it stands in the state directory, a held edit included.
    pub(super) fn load(&self, context: &Context) -> Result<Candidate, Failure> {
        let config = match self.config.as_deref() {
            None => None,
            Some(path) => {
                let text = String::from_utf8(read(path)?);
                let text = text.map_err(|error| unusable(path, &format_args!("is not UTF-8: {error}")))?;
                Some((path, text))
            }
        };
        let document = self.document.as_deref().map(named_document).transpose()?;
        join(context, config, document)
    }
}

/// A candidate of texts: a configuration with the name that it has in errors, and a document. What is not given is as it
/// stands in the state directory.
fn join(
    context: &Context,
    config: Option<(&Path, String)>,
    document: Option<Snapshot>,
) -> Result<Candidate, Failure> {
    let state_dir = context.state_dir()?;
    let environment = Arc::clone(&context.environment);
    let store = SettingsStore::load(state_dir.clone(), &StartOptions::default(), environment)
        .map_err(|problems| Failure::new("settings", in_words(&problems)).exit(ExitStatus::CONFIG))?;
    let current = store.current();
    let settings = match config {
        None => current,
        Some((path, text)) => {
            let policy = store
                .policy_of(Some(&text))
                .map_err(|problems| unusable(path, &in_words(&problems)))?;
            Arc::new(current.with_policy(policy))
        }
    };
    let document = match document {
        None => present_document(&state_dir.document(&settings.server))?,
        Some(document) => document,
    };
    let environment = app::host_environment(&settings.server, context.environment.as_ref())
        .map_err(|error| Failure::new("environment", error.to_string()))?;
    Ok(Candidate::new(CandidateParts {
        clock: Arc::clone(&context.clock),
        state_dir,
        settings,
        document,
        environment: Arc::new(environment),
        own_binary: std::env::current_exe().ok(),
    }))
}

/// What `countersign init` would set up with a preset, whatever stands in the state directory.
pub(super) fn of_preset(context: &Context, preset: InitPreset) -> Result<Candidate, Failure> {
    let config = preset.config().to_string();
    let document = snapshot(Some(preset.document().to_string().as_bytes()));
    join(
        context,
        Some((Path::new(preset.as_str()), config)),
        Some(document),
    )
}

/// Whether the state directory has a policy at all.
pub(super) fn has_policy(context: &Context) -> Result<bool, Failure> {
    let state_dir = context.state_dir()?;
    let document = state_dir.root().join(DOCUMENT);
    Ok([state_dir.config(), document]
        .iter()
        .any(|path| fs::symlink_metadata(path).is_ok()))
}

/// A document that was named must be usable: nothing could be learned from one that denies everything.
fn named_document(path: &Path) -> Result<Snapshot, Failure> {
    let document = snapshot(Some(&read(path)?));
    match &document.status {
        DocumentStatus::Missing | DocumentStatus::Ok => Ok(document),
        DocumentStatus::Refused(refusal) => Err(unusable(
            path,
            &format_args!("is no approvals document: {refusal}"),
        )),
    }
}

fn present_document(path: &Path) -> Result<Snapshot, Failure> {
    match read_bounded(path) {
        Ok(text) => Ok(snapshot(Some(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(snapshot(None)),
        Err(error) => Err(unusable(path, &format_args!("cannot be read: {error}"))),
    }
}

fn snapshot(text: Option<&[u8]>) -> Snapshot {
    // Its name for what is kept of it in memory; there is only this one.
    Snapshot::of_accepted(text, "candidate".to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path).map_err(|error| unusable(path, &format_args!("cannot be read: {error}")))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = fs::File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut text)?;
    // A file that was cut could mean anything.
    if read as u64 > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{} {why}", path.display()))
}

fn in_words(problems: &[SettingsProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    value::visible(&lines.join("; "))
}
