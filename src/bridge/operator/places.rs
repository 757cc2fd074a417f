//! How many operators are connected, in all and with each token: no token takes the connections of the server away from
//! everybody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{domain::TokenId, protocol::bridge::Refusal};

/// Most operators at once.
const MOST: usize = 256;
/// Most of them with one token.
const MOST_OF_TOKEN: usize = 32;

/// The places of operators.
#[derive(Debug)]
pub(in crate::bridge) struct OperatorPlaces {
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
pub(super) struct OperatorPlace {
    places: Arc<OperatorPlaces>,
    token: TokenId,
}

impl OperatorPlaces {
    /// Places for operators where a listener has so many connections: half of them are never theirs, and half of theirs
    /// never one token's.
    pub(in crate::bridge) fn among(connections: usize) -> Arc<Self> {
        let most = MOST.min((connections / 2).max(1));
        Arc::new(Self {
            most,
            most_of_token: MOST_OF_TOKEN.min((most / 2).max(1)),
            taken: Mutex::default(),
        })
    }

    /// A place for somebody with this token.
    ///
    /// # Errors
    /// [`Refusal::Full`] when all of them are taken, or all that this token may have.
    pub(super) fn take(self: &Arc<Self>, token: &TokenId) -> Result<OperatorPlace, Refusal> {
        let mut taken = self.taken();
        if taken
            .of_token
            .get(token)
            .is_some_and(|own| *own >= self.most_of_token)
        {
            return Err(Refusal::Full {
                what: "operators are connected with this token",
            });
        }
        if taken.all >= self.most {
            return Err(Refusal::Full {
                what: "operators are connected",
            });
        }
        taken.all += 1;
        *taken.of_token.entry(token.clone()).or_default() += 1;
        drop(taken);
        Ok(OperatorPlace {
            places: Arc::clone(self),
            token: token.clone(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OperatorPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.of_token.get_mut(&self.token) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.of_token.remove(&self.token);
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
        let places = OperatorPlaces::among(8192);
        let mut held: Vec<OperatorPlace> = (0..MOST_OF_TOKEN)
            .map(|_| places.take(&token("a")).unwrap())
            .collect();
        let refused = places.take(&token("a")).unwrap_err();
        assert_eq!(
            refused.error().message,
            "too many operators are connected with this token; retry later"
        );
        drop(places.take(&token("b")).unwrap());
        held.pop();
        held.push(places.take(&token("a")).unwrap());
        held.clear();
        assert!(places.taken().of_token.is_empty());
        assert_eq!(places.taken().all, 0);
    }

    #[test]
    fn all_tokens_together_leave_half_of_the_connections() {
        let places = OperatorPlaces::among(100);
        let mut held = Vec::new();
        for name in ["a", "b"] {
            for _ in 0..25 {
                held.push(places.take(&token(name)).unwrap());
            }
        }
        let refused = places.take(&token("c")).unwrap_err();
        assert_eq!(
            refused.error().message,
            "too many operators are connected; retry later"
        );
        drop(held);
        drop(places.take(&token("c")).unwrap());
        // One is always let in.
        let few = OperatorPlaces::among(1);
        let _one = few.take(&token("a")).unwrap();
        assert!(few.take(&token("b")).is_err());
    }
}
