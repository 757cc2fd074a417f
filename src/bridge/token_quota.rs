//! Places that are counted, in all and for each token: no token takes all of them away from everybody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::TokenId;

/// Places of one kind.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    most_of_token: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_token: HashMap<TokenId, usize>,
}

/// One place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    token: Option<TokenId>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All of them are taken.
    Full,
    /// The token has as many as it may.
    OfToken,
}

impl Places {
    /// So many places, and so many of them for one token.
    pub(super) fn new(most: usize, most_of_token: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_token,
            taken: Mutex::default(),
        })
    }

    /// A place for the holder of this token; `None` is this server itself, which has no share that it could exceed.
    ///
    /// # Errors
    /// [`NoPlace`] when all of them are taken, or all that this token may have.
    pub(super) fn take(self: &Arc<Self>, token: Option<&TokenId>) -> Result<Place, NoPlace> {
        let mut taken = self.taken();
        let own = token.and_then(|token| taken.of_token.get(token));
        if own.is_some_and(|own| *own >= self.most_of_token) {
            return Err(NoPlace::OfToken);
        }
        if taken.all >= self.most {
            return Err(NoPlace::Full);
        }
        taken.all += 1;
        if let Some(token) = token {
            *taken.of_token.entry(token.clone()).or_default() += 1;
        }
        drop(taken);
        Ok(Place {
            places: Arc::clone(self),
            token: token.cloned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        let Some(token) = &self.token else { return };
        if let Some(own) = taken.of_token.get_mut(token) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.of_token.remove(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> TokenId {
        TokenId::parse(name).unwrap()
    }

    #[test]
    fn no_token_takes_the_places_of_others() {
        let places = Places::new(5, 2);
        let (a, b) = (token("a"), token("b"));
        let mut held = vec![places.take(Some(&a)).unwrap(), places.take(Some(&a)).unwrap()];
        assert_eq!(places.take(Some(&a)).unwrap_err(), NoPlace::OfToken);
        drop(places.take(Some(&b)).unwrap());
        held.pop();
        held.push(places.take(Some(&a)).unwrap());
        held.clear();
        assert!(places.taken().of_token.is_empty());
        assert_eq!(places.taken().all, 0);
    }

    #[test]
    fn this_server_has_no_share_and_still_no_more_than_there_is() {
        let places = Places::new(3, 1);
        let mut held: Vec<Place> = (0..3).map(|_| places.take(None).unwrap()).collect();
        assert_eq!(places.take(None).unwrap_err(), NoPlace::Full);
        assert_eq!(places.take(Some(&token("a"))).unwrap_err(), NoPlace::Full);
        held.pop();
        drop(places.take(Some(&token("a"))).unwrap());
        held.clear();
        assert_eq!(places.taken().all, 0);
    }
}
