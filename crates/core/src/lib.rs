#![doc = include_str!("../README.md")]

pub mod algorithm;
mod client_ip;
mod decision;
mod ip_limiter;
mod key;
mod limit;
mod limiter;
mod rules;
mod sip;
mod store;
mod sweeper;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod verdict;

pub use client_ip::{AddressError, ClientIp};
pub use decision::Decision;
pub use ip_limiter::IpLimiter;
pub use key::{Entry, Key, KeySeed, Parts};
pub use limit::{Limit, LimitError, Period, Rate, TokenBucket, Window};
pub use limiter::{Limiter, LimiterOptions, StartError};
pub use rules::{Budget, Descriptor, Matcher, Resolved, Rule, RuleError, Rules};
pub use store::{
    Charge, Context, LocalStore, MemoryStore, Mode, Occupancy, OnRefusal, Op, Store, StoreError, StoreOptions,
};
pub use time::{Clock, ManualClock, STEP_BACK, SystemClock, Timestamp};
pub use verdict::{Cost, Outcome, Verdict, Verdicts};
