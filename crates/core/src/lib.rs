#![doc = include_str!("../README.md")]

pub mod algorithm;
mod client_ip;
mod decision;
mod ip_limiter;
mod key;
mod limit;
mod limiter;
pub mod rules;
mod sharing;
mod sip;
mod start_error;
pub mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod verdict;

pub use client_ip::{AddressError, ClientIp, Ipv6Prefix, Ipv6PrefixError};
pub use decision::Decision;
pub use ip_limiter::IpLimiter;
pub use key::Entry;
pub use limit::{Limit, LimitError, Period, Rate};
pub use limiter::{Limiter, LimiterOptions};
pub use rules::{Budget, Descriptor, Matcher, Rule, RuleError, Rules};
pub use sharing::{Consistency, OnUnreachable, Sharing};
pub use start_error::StartError;
pub use time::{Clock, ManualClock, MonotonicClock, SystemClock, Timestamp};
pub use verdict::Cost;
