//! The document's file: read when it changed, written under the lock, replaced whole.
//!
//! A document that is refused is never overwritten, except by [`DocumentStore::force_replace`], which keeps a
//! copy. Reading never writes. All calls are synchronous; [`DocumentStore::update`] may wait for other writers
//! for a few seconds and belongs on a blocking thread.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwapOption;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use countersign_domain::{Precondition, Secret, hex};
use countersign_sys::{
    clock::{Clock, Ids},
    fs::{self as sys_fs, PRIVATE_FILE, Staged},
};

use super::{
    document::{Document, Incoming, Refusal, RefusalReason},
    file::{self, FileContent, Found, Glance},
    lock::{self, FileLock, LockError, Turns},
};

pub use super::{
    lock::{LeftLock, StaleLock},
    snapshot::{DocumentStatus, Snapshot},
};

/// How often a change is made again because a writer that ignores the lock came in between.
const ATTEMPTS: usize = 5;
/// Random bytes of a socket token, as in the product.
const TOKEN_BYTES: usize = 24;

/// Which content a change was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base<'a> {
    /// Any content: the change adds to it.
    Any,
    /// The content with this hash, as [`Snapshot::has_hash`] compares it.
    Hash(&'a str),
    /// The client named none, which is fine only while there is no file.
    Absent,
    /// What the client's precondition allows.
    If(&'a Precondition),
}

/// A document that is about to take the place of the one before it.
#[derive(Debug, Clone, Copy)]
pub struct Pending<'a> {
    /// The document that is replaced, as it was read under the lock.
    pub before: &'a Arc<Snapshot>,
    /// The hash that its file will have.
    pub hash: &'a str,
    /// The text of its file, the socket's token included.
    pub text: &'a str,
    /// Whether that token was drawn for it.
    pub drew_token: bool,
}

/// What a document is written over.
#[derive(Debug, Clone, Copy)]
struct Replaced<'a> {
    seen: Glance,
    before: &'a Arc<Snapshot>,
    drew_token: bool,
}

/// The document was not changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is refused, and so never overwritten.
    #[error("the approvals document is refused and stays as it is")]
    Refused {
        /// Why it is refused.
        #[source]
        refusal: Refusal,
        /// Its hash, with which it can be replaced by force.
        hash: String,
    },
    /// It is not the content that the change was made for.
    #[error("the approvals document changed since it was loaded")]
    BaseHashMismatch {
        /// The hash of what is there.
        current: String,
    },
    /// There is a document, and the client did not say which one it saw.
    #[error("a base hash is required")]
    BaseHashRequired {
        /// The hash of what is there.
        current: String,
    },
    /// The agent cannot be written about: what stands under its name is read as that of `main`.
    #[error("in the approvals document that name is the old one of main")]
    OldNameOfMain,
    /// Another writer holds the lock; trying again later may help.
    #[error("another writer holds the lock of the approvals document")]
    Locked,
    /// The lock was left behind by a process that died; an operator has to remove it.
    #[error("the lock of the approvals document was left behind")]
    LockStale {
        /// The dead process, where the lock names one.
        pid: Option<u32>,
    },
    /// The changed document would itself be refused.
    #[error("the changed approvals document would be refused")]
    Invalid(#[source] Refusal),
    /// The directory cannot be made.
    #[error("the directory of the approvals document cannot be prepared")]
    Directory(#[source] sys_fs::PrivateDirError),
    /// A file operation failed.
    #[error("{path} cannot be written")]
    Io {
        /// The approvals document, also when its lock or its temporary file failed.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// [`DocumentStore::update`] did not change the document.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError<E> {
    /// Because of the file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Because the change itself said so.
    #[error("the change was given up")]
    Edit(E),
}

/// The one approvals document of this host.
#[derive(Debug)]
pub struct DocumentStore {
    path: PathBuf,
    home: PathBuf,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    cached: ArcSwapOption<Cached>,
    /// Held while reading, so that a change is read once and not by every waiting gate.
    reading: Mutex<()>,
    turns: Turns,
}

/// The last look at the file.
#[derive(Debug)]
struct Cached {
    glance: Glance,
    /// Whether an equal stamp proves that nothing changed.
    stable: bool,
    /// What was read, to notice that a new stamp means nothing new.
    bytes: Option<Vec<u8>>,
    loose: bool,
    snapshot: Arc<Snapshot>,
}

impl DocumentStore {
    /// A store for the document at `path`, absolute. Links among its parents below `home` are refused. Touches
    /// nothing yet.
    pub fn open(path: PathBuf, home: PathBuf, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            path,
            home,
            clock,
            ids,
            cached: ArcSwapOption::empty(),
            reading: Mutex::new(()),
            turns: Turns::default(),
        }
    }

    /// Where the document is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The document as it is now. A few `lstat` calls when nothing changed, so that every gate can ask.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let glance = file::glance(&self.path, &self.home);
        if let Some(cached) = &*self.cached.load()
            && cached.stable
            && cached.glance == glance
        {
            return Arc::clone(&cached.snapshot);
        }
        Arc::clone(&self.reload().snapshot)
    }

    /// Changes the document under the lock, as far as `edit` changes it, and returns what `edit` returned.
    ///
    /// Nothing is written when nothing changed; the mode is put right all the same. `edit` is called again when a
    /// writer that ignores the lock came in between. The first write makes the file, with a socket token.
    ///
    /// # Errors
    /// [`UpdateError::Edit`] with what `edit` said, else [`StoreError`]; the file is as it was in both cases.
    pub fn update<T, E>(
        &self,
        base: Base<'_>,
        edit: impl FnMut(&mut Document) -> Result<T, E>,
    ) -> Result<(T, Arc<Snapshot>), UpdateError<E>> {
        self.update_noted(base, edit, |_value, _pending| Ok(()))
    }

    /// As [`DocumentStore::update`], telling `note` of a change when its text is safely on disk beside the document
    /// and before it takes its place. What `note` refuses does not happen. It is called again, with another hash,
    /// when a writer that ignores the lock came in between.
    ///
    /// # Errors
    /// [`UpdateError::Edit`] with what `edit` or `note` said, else [`StoreError`]; the file is as it was in both
    /// cases.
    pub fn update_noted<T, E>(
        &self,
        base: Base<'_>,
        mut edit: impl FnMut(&mut Document) -> Result<T, E>,
        mut note: impl FnMut(&T, &Pending<'_>) -> Result<(), E>,
    ) -> Result<(T, Arc<Snapshot>), UpdateError<E>> {
        let _held = self.hold_lock()?;
        for _ in 0..ATTEMPTS {
            let read = self.reload();
            let before = &read.snapshot;
            check_base(before, base)?;
            let Some(document) = before.document() else {
                return Err(refused_error(before).into());
            };
            let mut changed = document.clone();
            let value = edit(&mut changed).map_err(UpdateError::Edit)?;
            if changed == *document {
                self.repair_mode();
                return Ok((value, self.snapshot()));
            }
            let drew_token = before.status == DocumentStatus::Missing && self.complete_new(&mut changed);
            let replaced = Replaced {
                seen: read.glance,
                before,
                drew_token,
            };
            if self.write(&changed, replaced, |pending| note(&value, pending))? {
                return Ok((value, Arc::clone(&self.reload().snapshot)));
            }
        }
        Err(StoreError::Locked.into())
    }

    /// Replaces the whole document by one that a client sent
    /// (`docs/spec/approvals-store.md#9-snapshot-hash-compare-and-swap`).
    ///
    /// # Errors
    /// [`StoreError`]; the file is as it was.
    pub fn replace(
        &self,
        base: Base<'_>,
        new: &Document,
        incoming: Incoming,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let replaced = self.update(base, |document| {
            document.replace(new.clone(), incoming);
            Ok::<_, std::convert::Infallible>(())
        });
        match replaced {
            Ok(((), snapshot)) => Ok(snapshot),
            Err(UpdateError::Store(error)) => Err(error),
            Err(UpdateError::Edit(never)) => match never {},
        }
    }

    /// Replaces a refused document by a new one, keeping the old file beside it under the returned path. `note` is
    /// told of it as by [`DocumentStore::update_noted`]. `None`, and nothing was done, when the document is not
    /// refused (any more).
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the path is a link, no regular file or not ours: an operator has to look at
    /// that. Else as for [`DocumentStore::update_noted`].
    pub fn force_replace<E>(
        &self,
        base: Base<'_>,
        new: &Document,
        note: impl FnOnce(&Pending<'_>) -> Result<(), E>,
    ) -> Result<Option<(Arc<Snapshot>, PathBuf)>, UpdateError<E>> {
        let before = self.snapshot();
        match &before.status {
            DocumentStatus::Refused(refusal) if can_be_forced(refusal.reason) => {}
            DocumentStatus::Refused(_) => return Err(refused_error(&before).into()),
            DocumentStatus::Missing | DocumentStatus::Ok => return Ok(None),
        }
        let _held = self.take_lock()?;
        let read = self.reload();
        match &read.snapshot.status {
            DocumentStatus::Refused(refusal) if can_be_forced(refusal.reason) => {}
            DocumentStatus::Refused(_) => return Err(refused_error(&read.snapshot).into()),
            DocumentStatus::Missing | DocumentStatus::Ok => return Ok(None),
        }
        check_base(&read.snapshot, base)?;
        let mut new = new.clone();
        let drew_token = self.complete_new(&mut new);
        let kept = self.keep_copy().map_err(|source| self.io_error(source))?;
        // The second name changed the stamp, but neither which file it is nor what is in it.
        let seen = file::glance(&self.path, &self.home);
        let written = if read.glance.is_same_content(seen) {
            let replaced = Replaced {
                seen,
                before: &read.snapshot,
                drew_token,
            };
            self.write(&new, replaced, note)
        } else {
            Ok(false)
        };
        match written {
            Ok(true) => Ok(Some((Arc::clone(&self.reload().snapshot), kept))),
            Ok(false) => {
                remove_copy(&kept);
                let current = self.snapshot().hash.clone();
                Err(StoreError::BaseHashMismatch { current }.into())
            }
            Err(error) => {
                remove_copy(&kept);
                Err(error)
            }
        }
    }

    /// The socket's token, made and stored when there is none yet.
    ///
    /// # Errors
    /// [`StoreError`] when a new one cannot be stored.
    pub fn socket_token(&self) -> Result<Secret, StoreError> {
        let snapshot = self.snapshot();
        if let Some(token) = snapshot.document().and_then(Document::socket_token) {
            return Ok(token.clone());
        }
        let made = self.update(Base::Any, |document| {
            let token = document
                .socket_token()
                .cloned()
                .unwrap_or_else(|| self.new_token());
            document.set_socket_token(token.clone());
            Ok::<_, std::convert::Infallible>(token)
        });
        match made {
            Ok((token, _snapshot)) => Ok(token),
            Err(UpdateError::Store(error)) => Err(error),
            Err(UpdateError::Edit(never)) => match never {},
        }
    }

    /// The lock that keeps everybody from writing although its holder is gone.
    ///
    /// # Errors
    /// What reading the lock file says.
    pub fn left_lock(&self) -> io::Result<Option<LeftLock>> {
        lock::left(&self.path, &*self.clock)
    }

    /// Removes a lock that was left behind by a process that died since the machine was started. Only ever on an
    /// operator's command.
    ///
    /// # Errors
    /// What reading or removing the lock file says.
    pub fn remove_stale_lock(&self) -> io::Result<StaleLock> {
        lock::remove_stale(&self.path, &*self.clock)
    }

    fn reload(&self) -> Arc<Cached> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall().get();
        let previous = self.cached.load_full();
        let cached = match file::read(&self.path, &self.home) {
            Found::Missing => Cached {
                glance: Glance::Missing,
                stable: true,
                bytes: None,
                loose: false,
                snapshot: Arc::new(Snapshot::missing()),
            },
            Found::Refused { reason, stamp } => Cached {
                glance: match stamp {
                    Some(stamp) if matches!(reason, RefusalReason::TooLarge | RefusalReason::Io) => {
                        Glance::File(stamp)
                    }
                    stamp => Glance::Refused(reason, stamp),
                },
                // What kept us from reading may end without a trace in the stamp.
                stable: false,
                bytes: None,
                loose: false,
                snapshot: Arc::new(Snapshot::unreadable(reason, stamp)),
            },
            Found::File(content) => Self::cache(content, previous.as_deref(), now),
        };
        let cached = Arc::new(cached);
        self.cached.store(Some(Arc::clone(&cached)));
        cached
    }

    fn cache(content: FileContent, previous: Option<&Cached>, now: i64) -> Cached {
        let FileContent {
            bytes,
            stamp,
            refused,
            loose,
        } = content;
        let unchanged = previous.filter(|previous| {
            let unsafe_before = matches!(
                &previous.snapshot.status,
                DocumentStatus::Refused(refusal) if refusal.reason == RefusalReason::UnsafeMode
            );
            previous.bytes.as_deref() == Some(bytes.as_slice())
                && previous.loose == loose
                && unsafe_before == refused.is_some()
        });
        let snapshot = unchanged.map_or_else(
            || Arc::new(Snapshot::of_content(&bytes, refused, loose)),
            |previous| Arc::clone(&previous.snapshot),
        );
        Cached {
            glance: Glance::File(stamp),
            stable: stamp.is_stable(now),
            bytes: Some(bytes),
            loose,
            snapshot,
        }
    }

    fn hold_lock(&self) -> Result<(FileLock, lock::Turn<'_>), StoreError> {
        // A refused path is not even given a lock file: its directory may be another one than the settings name.
        let before = self.snapshot();
        if before.document().is_none() {
            return Err(refused_error(&before));
        }
        if before.status == DocumentStatus::Missing
            && let Some(directory) = self.path.parent()
            && !directory.is_dir()
        {
            sys_fs::ensure_private_dir(directory).map_err(StoreError::Directory)?;
        }
        self.take_lock()
    }

    fn take_lock(&self) -> Result<(FileLock, lock::Turn<'_>), StoreError> {
        let error = |error| match error {
            LockError::Locked => StoreError::Locked,
            LockError::Stale { pid } => StoreError::LockStale { pid },
            LockError::Io(source) => self.io_error(source),
        };
        let turn = self.turns.wait().map_err(error)?;
        let lock = FileLock::acquire(&self.path, &*self.clock, &*self.ids).map_err(error)?;
        // Dropped in this order: the file goes first, then the next thread has its turn.
        Ok((lock, turn))
    }

    /// Writes the document over the file that was `seen`; `false` when another one is there by now.
    fn write<E>(
        &self,
        document: &Document,
        replaced: Replaced<'_>,
        note: impl FnOnce(&Pending<'_>) -> Result<(), E>,
    ) -> Result<bool, UpdateError<E>> {
        let Replaced {
            seen,
            before,
            drew_token,
        } = replaced;
        let text = document.print();
        // What we could not read back must not get onto the disk: it would deny everything.
        Document::parse(text.as_bytes()).map_err(StoreError::Invalid)?;
        let temporary = format!(".exec-approvals.{}.{}.tmp", std::process::id(), self.ids.random());
        let staged = Staged::create(&self.path, temporary.as_ref(), text.as_bytes(), PRIVATE_FILE)
            .map_err(|source| self.io_error(source))?;
        let is_unchanged = || file::glance(&self.path, &self.home) == seen;
        if !is_unchanged() {
            return Ok(false);
        }
        let pending = Pending {
            before,
            hash: &hex(&Sha256::digest(&text)),
            text: &text,
            drew_token,
        };
        note(&pending).map_err(UpdateError::Edit)?;
        if !is_unchanged() {
            return Ok(false);
        }
        staged.commit().map_err(|source| self.io_error(source))?;
        Ok(true)
    }

    /// A new file has what keeps the product's writers from rewriting it, and the token that its readers expect. Says
    /// whether that was drawn here.
    fn complete_new(&self, document: &mut Document) -> bool {
        let draws = document.socket_token().is_none();
        if draws {
            document.set_socket_token(self.new_token());
        }
        document.defaults.get_or_insert_default();
        document.agents.get_or_insert_default();
        draws
    }

    /// A token that nobody knows yet.
    pub fn new_token(&self) -> Secret {
        let mut bytes = [0; TOKEN_BYTES];
        self.ids.secret_bytes(&mut bytes);
        Secret::new(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Best effort: another account's file keeps its mode.
    fn repair_mode(&self) {
        if let Ok(file) = sys_fs::open_regular(&self.path)
            && let Ok(metadata) = file.metadata()
            && metadata.mode() & 0o7777 != PRIVATE_FILE
            && let Err(error) = file.set_permissions(fs::Permissions::from_mode(PRIVATE_FILE))
        {
            tracing::warn!(
                document.path = %self.path.display(),
                error = &error as &dyn std::error::Error,
                "the mode of the approvals document could not be put right"
            );
        }
    }

    /// Gives the file a second name, which the rename that follows leaves alone.
    fn keep_copy(&self) -> io::Result<PathBuf> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(
            ".refused-{}-{}",
            self.clock.now().get(),
            self.ids.random()
        ));
        let kept = self.path.with_file_name(name);
        fs::hard_link(&self.path, &kept)?;
        fs::set_permissions(&kept, fs::Permissions::from_mode(PRIVATE_FILE))?;
        Ok(kept)
    }

    fn io_error(&self, source: io::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

fn check_base(before: &Snapshot, base: Base<'_>) -> Result<(), StoreError> {
    let current = || before.hash.clone();
    match base {
        Base::Any => Ok(()),
        Base::Hash(hash) if before.has_hash(hash) => Ok(()),
        // A refused document has no representation that a client could have seen, so `*` does not name it.
        Base::If(Precondition::Any) if before.document().is_some() => Ok(()),
        Base::If(Precondition::OneOf(hashes)) if hashes.iter().any(|hash| before.has_hash(hash)) => Ok(()),
        Base::Hash(_) | Base::If(_) => Err(StoreError::BaseHashMismatch { current: current() }),
        Base::Absent if before.status == DocumentStatus::Missing => Ok(()),
        Base::Absent => Err(StoreError::BaseHashRequired { current: current() }),
    }
}

/// The copy of a document that was not replaced after all.
fn remove_copy(kept: &Path) {
    if let Err(error) = fs::remove_file(kept) {
        tracing::debug!(
            file.path = %kept.display(),
            error = &error as &dyn std::error::Error,
            "a second name of the approvals document was left behind"
        );
    }
}

/// Whether replacing the name by rename does what an operator means by force.
fn can_be_forced(reason: RefusalReason) -> bool {
    match reason {
        RefusalReason::Empty
        | RefusalReason::Bom
        | RefusalReason::NotUtf8
        | RefusalReason::Json
        | RefusalReason::DuplicateKey
        | RefusalReason::NumberRange
        | RefusalReason::NotObject
        | RefusalReason::Version
        | RefusalReason::Type
        | RefusalReason::Value
        | RefusalReason::MissingPattern
        | RefusalReason::BlankPattern
        | RefusalReason::TooLarge
        | RefusalReason::UnsafeMode => true,
        RefusalReason::Symlink
        | RefusalReason::SymlinkParent
        | RefusalReason::NotRegularFile
        | RefusalReason::WrongOwner
        | RefusalReason::Io => false,
    }
}

fn refused_error(snapshot: &Snapshot) -> StoreError {
    let refusal = match &snapshot.status {
        DocumentStatus::Refused(refusal) => refusal.clone(),
        DocumentStatus::Missing | DocumentStatus::Ok => Refusal::whole(RefusalReason::Io),
    };
    StoreError::Refused {
        refusal,
        hash: snapshot.hash.clone(),
    }
}
