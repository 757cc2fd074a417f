//! Rate limits of the admission: wrong credentials per address, requests per token, requests per anonymous address.
//!
//! All three are leaky buckets in memory; a restart empties them. Sizes are bounded: buckets that are full
//! again are dropped as requests come.

use std::{
    fmt,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};

/// How many requests pass before buckets that have filled up again are dropped.
const SWEEP_EVERY: u32 = 4096;

/// A steady rate with a burst; `None` in [`ThrottleRates`] switches a limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second in the long run.
    pub per_second: NonZeroU32,
    /// Requests that pass at once before `per_second` slows them.
    pub burst: NonZeroU32,
}

impl Rate {
    /// A rate from two settings, `None` when either is 0 (off).
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        Some(Self {
            per_second: NonZeroU32::new(per_second)?,
            burst: NonZeroU32::new(burst)?,
        })
    }

    fn quota(self) -> Quota {
        Quota::per_second(self.per_second).allow_burst(self.burst)
    }
}

/// The limits of a [`Throttle`]; `None` switches one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleRates {
    /// `[auth] failures_per_minute`: wrong credentials per address, an IPv6 /64 being one address.
    pub failures_per_minute: Option<NonZeroU32>,
    /// `[limits] requests_per_second` and `request_burst`.
    pub token: Option<Rate>,
    /// `[limits] anonymous_per_second` and `anonymous_burst`.
    pub anonymous: Option<Rate>,
}

/// One limit, as the `RateLimit` headers tell of it: `quota` requests at once, and that many again `window`
/// later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `credentials`, `token` or `address`.
    pub name: &'static str,
    /// Requests that pass at once after a pause.
    pub quota: u32,
    /// Until all of them are free again, in whole seconds.
    pub window: u64,
}

/// How a caller stands with a limit after a request that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateStatus {
    /// The limit that this request was counted against.
    pub policy: Policy,
    /// Requests that would pass now.
    pub remaining: u32,
    /// Until all of them are free again, in whole seconds.
    pub reset: u64,
}

/// A caller is over a limit; the API answers 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many requests")]
pub struct Limited {
    /// When the next one would pass.
    pub retry_after: Duration,
    /// Which limit it was.
    pub policy: Policy,
}

/// The buckets of all callers.
#[derive(Debug)]
pub struct Throttle {
    buckets: ArcSwap<Buckets>,
}

impl Throttle {
    /// Empty buckets with these limits.
    pub fn new(rates: ThrottleRates) -> Self {
        Self {
            buckets: ArcSwap::from_pointee(Buckets::new(rates)),
        }
    }

    /// Takes on changed limits; counts begin anew then, and only then.
    pub fn set_rates(&self, rates: ThrottleRates) {
        if self.buckets.load().rates != rates {
            self.buckets.store(Arc::new(Buckets::new(rates)));
        }
    }

    /// Counts a wrong credential from an address.
    ///
    /// # Errors
    /// [`Limited`] when this address has guessed too often; the answer must not say whether this one was wrong.
    pub fn count_failure(&self, address: IpAddr) -> Result<(), Limited> {
        let buckets = self.buckets.load();
        check(buckets.failures.as_ref(), &network(address)).map(|_standing| ())
    }

    /// Counts a request of a token, named by its [`crate::auth::Key::number`]. `None` when nothing limits it.
    ///
    /// # Errors
    /// [`Limited`] when it is over its rate.
    pub fn count_token(&self, number: u64) -> Result<Option<RateStatus>, Limited> {
        let buckets = self.buckets.load();
        check(buckets.tokens.as_ref(), &number)
    }

    /// Counts a request without a valid token. `None` when nothing limits it.
    ///
    /// # Errors
    /// [`Limited`] when its address is over its rate.
    pub fn count_anonymous(&self, address: IpAddr) -> Result<Option<RateStatus>, Limited> {
        let buckets = self.buckets.load();
        check(buckets.anonymous.as_ref(), &network(address))
    }
}

struct Buckets {
    rates: ThrottleRates,
    failures: Option<Bucket<IpAddr>>,
    tokens: Option<Bucket<u64>>,
    anonymous: Option<Bucket<IpAddr>>,
}

impl Buckets {
    fn new(rates: ThrottleRates) -> Self {
        let ThrottleRates {
            failures_per_minute,
            token,
            anonymous,
        } = rates;
        Self {
            rates,
            failures: failures_per_minute.map(|number| Bucket::new("credentials", Quota::per_minute(number))),
            tokens: token.map(|rate| Bucket::new("token", rate.quota())),
            anonymous: anonymous.map(|rate| Bucket::new("address", rate.quota())),
        }
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets")
            .field("rates", &self.rates)
            .finish_non_exhaustive()
    }
}

struct Bucket<K: Hash + Eq + Clone> {
    policy: Policy,
    /// Nanoseconds after which one more request is free.
    one_more: u64,
    limiter: Limiter<K>,
    passed: AtomicU32,
}

type Limiter<K> = RateLimiter<K, DashMapStateStore<K>, DefaultClock, StateInformationMiddleware>;

impl<K: Hash + Eq + Clone> Bucket<K> {
    fn new(name: &'static str, quota: Quota) -> Self {
        let one_more = quota.replenish_interval();
        let policy = Policy {
            name,
            quota: quota.burst_size().get(),
            window: whole_seconds(one_more.saturating_mul(quota.burst_size().get())),
        };
        Self {
            policy,
            one_more: u64::try_from(one_more.as_nanos()).unwrap_or(u64::MAX),
            limiter: RateLimiter::dashmap(quota).with_middleware(),
            passed: AtomicU32::new(0),
        }
    }
}

fn check<K: Hash + Eq + Clone>(bucket: Option<&Bucket<K>>, key: &K) -> Result<Option<RateStatus>, Limited> {
    let Some(bucket) = bucket else { return Ok(None) };
    if bucket.passed.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
        bucket.limiter.retain_recent();
        bucket.limiter.shrink_to_fit();
    }
    let policy = bucket.policy;
    match bucket.limiter.check_key(key) {
        Ok(after) => {
            let remaining = after.remaining_burst_capacity();
            let taken = u64::from(policy.quota.saturating_sub(remaining));
            Ok(Some(RateStatus {
                policy,
                remaining,
                reset: bucket.one_more.saturating_mul(taken).div_ceil(1_000_000_000),
            }))
        }
        Err(until) => Err(Limited {
            retry_after: until.wait_time_from(DefaultClock::default().now()),
            policy,
        }),
    }
}

/// Never less than one: a header that says "at once" would be asked again at once.
fn whole_seconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
        .max(1)
}

/// One subscriber has a whole IPv6 /64, so single addresses in it are no separate callers.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(
            || {
                let [a, b, c, d, ..] = v6.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            },
            IpAddr::V4,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn throttle() -> Throttle {
        Throttle::new(ThrottleRates {
            failures_per_minute: NonZeroU32::new(10),
            token: Rate::new(1, 3),
            anonymous: Rate::new(1, 2),
        })
    }

    #[test]
    fn the_eleventh_wrong_credential_of_a_minute_is_limited_and_only_for_its_address() {
        let throttle = throttle();
        for _ in 0..10 {
            assert_eq!(throttle.count_failure(HOME), Ok(()));
        }
        let limited = throttle.count_failure(HOME).unwrap_err();
        assert!(limited.retry_after > Duration::ZERO && limited.retry_after <= Duration::from_secs(6));
        assert_eq!(throttle.count_failure("192.0.2.7".parse().unwrap()), Ok(()));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let throttle = throttle();
        for host in 0..10 {
            throttle
                .count_failure(format!("2001:db8::{host}").parse().unwrap())
                .unwrap();
        }
        assert!(throttle.count_failure("2001:db8::ffff".parse().unwrap()).is_err());
        assert!(throttle.count_failure("2001:db8:0:1::1".parse().unwrap()).is_ok());
    }

    #[test]
    fn tokens_and_anonymous_callers_have_their_own_buckets() {
        let throttle = throttle();
        for _ in 0..3 {
            throttle.count_token(1).unwrap();
        }
        assert_eq!(throttle.count_token(1).unwrap_err().policy.name, "token");
        assert!(throttle.count_token(2).is_ok());
        throttle.count_anonymous(HOME).unwrap();
        throttle.count_anonymous(HOME).unwrap();
        assert_eq!(throttle.count_anonymous(HOME).unwrap_err().policy.name, "address");
    }

    #[test]
    fn a_caller_learns_how_they_stand() {
        let throttle = throttle();
        let policy = Policy {
            name: "token",
            quota: 3,
            window: 3,
        };
        let statuses = [2, 1, 0].map(|remaining| RateStatus {
            policy,
            remaining,
            reset: u64::from(3 - remaining),
        });
        for rate_status in statuses {
            assert_eq!(throttle.count_token(1), Ok(Some(rate_status)));
        }
        assert_eq!(Throttle::new(ThrottleRates::default()).count_token(1), Ok(None));
    }

    #[test]
    fn buckets_that_are_full_again_are_dropped() {
        let throttle = Throttle::new(ThrottleRates {
            anonymous: Rate::new(1_000_000_000, 1),
            ..ThrottleRates::default()
        });
        for number in 0..4 * SWEEP_EVERY {
            throttle
                .count_anonymous(std::net::Ipv4Addr::from(number).into())
                .unwrap();
        }
        let buckets = throttle.buckets.load();
        let kept = buckets.anonymous.as_ref().map(|bucket| bucket.limiter.len());
        assert!(kept.is_some_and(|kept| kept < 100), "{kept:?}");
    }

    #[test]
    fn zero_switches_a_limit_off_and_unchanged_rates_keep_the_counts() {
        let throttle = Throttle::new(ThrottleRates::default());
        for _ in 0..50 {
            throttle.count_failure(HOME).unwrap();
            throttle.count_anonymous(HOME).unwrap();
        }
        let one = ThrottleRates {
            anonymous: Rate::new(1, 1),
            ..ThrottleRates::default()
        };
        throttle.set_rates(one);
        throttle.count_anonymous(HOME).unwrap();
        throttle.set_rates(one);
        assert!(throttle.count_anonymous(HOME).is_err());
        assert_eq!(Rate::new(0, 5), None);
    }
}
