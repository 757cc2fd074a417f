//! The configuration for new connections, which follows its files.

use std::sync::{Arc, Mutex, TryLockError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::{TlsFiles, TlsProblem};
use crate::settings::Stamp;

/// What new connections are served with. When the files change it follows them; while they cannot be used, the
/// last ones that could stay.
#[derive(Debug)]
pub struct LiveTls {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    watched: Mutex<Watched>,
}

#[derive(Debug)]
struct Watched {
    stamps: Vec<Stamp>,
    stable: bool,
    /// Of the content in use.
    digest: [u8; 32],
    /// What was last complained about.
    problem: Option<String>,
}

impl LiveTls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// What is wrong with them; then nothing may be served.
    pub fn load(files: TlsFiles) -> Result<Self, TlsProblem> {
        // The stamps come first: a change while we read differs from them and is seen the next time.
        let stamps = stamps(&files);
        let material = files.read()?;
        let config = files.configure(&material)?;
        let watched = Watched {
            stable: stamps.iter().all(Stamp::is_stable),
            stamps,
            digest: material.digest(),
            problem: None,
        };
        Ok(Self {
            files,
            config: ArcSwap::from_pointee(config),
            watched: Mutex::new(watched),
        })
    }

    /// The configuration for a connection that begins now. Looks at the files again: a `stat` call for each when
    /// nothing changed.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.look();
        self.config.load_full()
    }

    /// Looks at the files again and takes what they say, if it can be used.
    pub fn look(&self) {
        match self.watched.try_lock() {
            Ok(mut watched) => self.follow(&mut watched),
            Err(TryLockError::Poisoned(poisoned)) => self.follow(&mut poisoned.into_inner()),
            // Another thread is looking.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn follow(&self, watched: &mut Watched) {
        let stamps = stamps(&self.files);
        if watched.stable && stamps == watched.stamps {
            return;
        }
        watched.stable = stamps.iter().all(Stamp::is_stable);
        watched.stamps = stamps;
        match self.reload(watched.digest) {
            Ok(reloaded) => {
                if let Some((digest, config)) = reloaded {
                    watched.digest = digest;
                    self.config.store(Arc::new(config));
                    tracing::info!("the TLS certificate changed; new connections get the new one");
                } else if watched.problem.is_some() {
                    tracing::info!("the TLS files are again those in use");
                }
                watched.problem = None;
            }
            Err(problem) => {
                let problem = problem.line();
                if watched.problem.as_ref() != Some(&problem) {
                    tracing::warn!(
                        problem,
                        "the TLS files changed and cannot be used; the last good ones stay in use"
                    );
                }
                watched.problem = Some(problem);
            }
        }
    }

    /// The configuration that the files ask for now, unless their content is the one in use.
    fn reload(&self, in_use: [u8; 32]) -> Result<Option<([u8; 32], ServerConfig)>, TlsProblem> {
        let material = self.files.read()?;
        let digest = material.digest();
        if digest == in_use {
            return Ok(None);
        }
        Ok(Some((digest, self.files.configure(&material)?)))
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    files.named().map(|(_key, path)| Stamp::of(path)).collect()
}
