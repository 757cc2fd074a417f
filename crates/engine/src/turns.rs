//! Whose big commands are looked through, and when: one at a time of each asker, and no more at once than the machine has
//! processors. So an asker who sends nothing but large commands waits for itself, and not the others for it.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use countersign_domain::{Actor, Command};
use countersign_sys::hooks;

/// Commands up to this size are looked through as they come: even the worst take about a millisecond, since each word may
/// have to be looked for in every directory of the PATH.
const SMALL_BYTES: usize = 256;
const SMALL_WORDS: usize = 16;

/// How much lower than the server's own the priority of looking through big commands is: a tenth of a processor that others
/// want too.
const NICE: i32 = 10;

/// Big commands of one asker that are looked through or wait for it; more are refused. A gateway may send those of many
/// agents at once, of which most take well below a millisecond.
pub(super) const MOST_OF_ONE: usize = 256;

/// Whether looking through a command may take long.
pub(super) fn is_big(command: &Command) -> bool {
    match command {
        Command::Shell(text) | Command::Patch(text) => text.len() > SMALL_BYTES,
        Command::Argv(words) => {
            words.len() > SMALL_WORDS || words.iter().map(String::len).sum::<usize>() > SMALL_BYTES
        }
    }
}

/// Runs the analysis of a command; that of a big one where no task of the runtime waits behind it, and behind what else the machine has
/// to do.
pub(super) fn run_analysis<T: Send>(command: &Command, analysis: impl Fn() -> T + Sync) -> T {
    if !is_big(command) {
        return analysis();
    }
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| {
            hooks::pause("engine.looking");
            in_background(analysis)
        }),
        // A thread of its own already, or a runtime of one thread.
        Ok(_) | Err(_) => analysis(),
    }
}

/// Does something on a thread of a lower priority: one that was lowered cannot be raised again without privileges. Where no
/// thread can be made, here.
fn in_background<T: Send>(work: impl Fn() -> T + Sync) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("analysis".to_owned());
        let lowered = || {
            // Where that is refused, it costs the others their share and nothing else.
            let _priority = rustix::process::nice(NICE);
            work()
        };
        match thread.spawn_scoped(scope, lowered) {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_no_thread) => work(),
        }
    })
}

/// An asker's turn did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTurn {
    /// Too many of its big commands wait already.
    #[error(
        "{MOST_OF_ONE} large commands of this caller are looked through or wait for it, which are all that may"
    )]
    Full,
    /// It waited as long as a call may.
    #[error("the other large commands of this caller were not looked through within {waited_ms} ms")]
    TooLong {
        /// How long it waited.
        waited_ms: u128,
    },
}

/// Queues for large work, one for each asker: none of them takes all of the machine.
#[derive(Debug)]
pub struct Turns {
    askers: Mutex<HashMap<Asker, Share>>,
    machine: Arc<Semaphore>,
}

/// A token with the browsers that stand for it; otherwise the entry point and the name there.
type Asker = (&'static str, String);

#[derive(Debug)]
struct Share {
    own: Arc<Semaphore>,
    /// How many are at work or wait.
    present: usize,
}

impl Default for Turns {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // One asker alone never has all of it.
        Self::among(processors.max(2))
    }
}

impl Turns {
    /// Turns of which no more than so many are taken at once, by all askers together.
    pub fn among(at_once: usize) -> Self {
        Self {
            askers: Mutex::default(),
            machine: Arc::new(Semaphore::new(at_once)),
        }
    }

    /// Waits for the turn of an asker. Those of one asker are served in the order in which they came, and so are the
    /// askers, each of whom has one at most that waits for the machine.
    ///
    /// # Errors
    /// [`NoTurn`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the position.
    #[crate::compiled_once]
    pub async fn wait<'a>(self: &'a Arc<Self>, asker: &'a Actor, timeout: Duration) -> Result<Turn, NoTurn> {
        let (position, own) = self.enter(asker).ok_or(NoTurn::Full)?;
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            let machine = Arc::clone(&self.machine).acquire_owned().await.ok()?;
            Some((machine, own))
        };
        match tokio::time::timeout(timeout, both).await {
            Ok(Some((machine, own))) => Ok(Turn {
                _machine: machine,
                _own: own,
                _position: position,
            }),
            // Nothing closes them.
            Ok(None) | Err(_) => Err(NoTurn::TooLong {
                waited_ms: timeout.as_millis(),
            }),
        }
    }

    fn enter(self: &Arc<Self>, asker: &Actor) -> Option<(QueuePosition, Arc<Semaphore>)> {
        let asker = match asker.token() {
            Some(token) => ("token", token.as_str().to_owned()),
            None => (asker.kind.as_str(), asker.id.clone()),
        };
        let mut askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        let share = askers.entry(asker.clone()).or_insert_with(|| Share {
            own: Arc::new(Semaphore::new(1)),
            present: 0,
        });
        if share.present >= MOST_OF_ONE {
            return None;
        }
        share.present += 1;
        let own = Arc::clone(&share.own);
        drop(askers);
        let turns = Arc::clone(self);
        Some((QueuePosition { turns, asker }, own))
    }
}

/// The right to have one big thing done; dropping it gives it on.
#[derive(Debug)]
#[must_use]
pub struct Turn {
    _machine: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _position: QueuePosition,
}

/// One of the positions in the queue of an asker.
#[derive(Debug)]
struct QueuePosition {
    turns: Arc<Turns>,
    asker: Asker,
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        let mut askers = self.turns.askers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = askers.get_mut(&self.asker) {
            share.present -= 1;
            if share.present == 0 {
                askers.remove(&self.asker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use countersign_domain::ActorKind;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn token(id: &str) -> Actor {
        Actor {
            kind: ActorKind::Token,
            id: id.to_owned(),
            name: "n".to_owned(),
            owner: None,
        }
    }

    #[test]
    fn short_commands_are_small() {
        let argv = |words: usize, bytes: usize| Command::Argv(vec!["x".repeat(bytes); words]);
        assert!(!is_big(&argv(SMALL_WORDS, 8)));
        assert!(is_big(&argv(SMALL_WORDS + 1, 1)));
        assert!(is_big(&argv(1, SMALL_BYTES + 1)));
        assert!(!is_big(&Command::Shell("x".repeat(SMALL_BYTES))));
        assert!(is_big(&Command::Shell("x".repeat(SMALL_BYTES + 1))));
    }

    #[tokio::test(start_paused = true)]
    async fn one_asker_has_one_turn_and_the_others_have_theirs() {
        let turns = Arc::new(Turns::among(2));
        let [a, b, c] = ["a", "b", "c"].map(token);
        let first = turns.wait(&a, TIMEOUT).await.unwrap();
        let mut second = Box::pin(turns.wait(&a, TIMEOUT));
        assert!(second.as_mut().now_or_never().is_none());
        let other = turns.wait(&b, TIMEOUT).await.unwrap();
        let mut third = Box::pin(turns.wait(&c, TIMEOUT));
        assert!(third.as_mut().now_or_never().is_none(), "the machine has no more");
        drop(other);
        let third = third.await.unwrap();
        drop(first);
        drop(second.await.unwrap());
        drop(third);
        assert!(turns.askers.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_of_one_asker_are_refused_and_waiting_ends() {
        let turns = Arc::new(Turns::among(1));
        let a = token("a");
        let held = turns.wait(&a, TIMEOUT).await.unwrap();
        let mut waiting: Vec<_> = (1..MOST_OF_ONE)
            .map(|_| Box::pin(turns.wait(&a, TIMEOUT)))
            .collect();
        for one in &mut waiting {
            assert!(one.as_mut().now_or_never().is_none());
        }
        assert_eq!(turns.wait(&a, TIMEOUT).await.unwrap_err(), NoTurn::Full);
        let ended = waiting.remove(0).await;
        assert_eq!(ended.unwrap_err(), NoTurn::TooLong { waited_ms: 30_000 });
        drop((waiting, held));
        assert!(turns.askers.lock().unwrap().is_empty());
    }
}
