//! Hivemind counters in Redis or Valkey, shared exactly by any number of nodes. Terms: `docs/GLOSSARY.md`.
//!
//! One call of a script decides the whole batch of a request, in one round trip, all or
//! nothing. Its arithmetic equals that of the algorithms of `hivemind-core` to the last bit
//! (docs/decisions/011). The modules, in the order of a decision:
//!
//! | module | content |
//! |---|---|
//! | `store` | [`RedisStore`]: decides batches and returns the verdicts |
//! | `local_decisions`, `over_cache`, `lease` | decisions without a call: counters known to be over, and leases |
//! | `client` | sends the calls with their time limits and judges errors |
//! | `script`, `state` | the encoding of calls, responses and states; `scripts/decide.lua` |
//! | `key_name` | the readable name of a counter, without collisions |
//! | `wait` | the time limit of a request, for all its commands together |
//! | `connections`, `server` | one connection per runtime; one server, sentinels or a cluster |
//! | `slots` | a batch that spans slots of a cluster: two steps, never over the limit |
//! | `breaker`, `monitor` | no calls while Redis is down; reconnection in the background |
//!
//! ```
//! use hivemind_core::Period;
//! use hivemind_core::store::Parts;
//! use hivemind_redis::{CounterSubject, KeyName, CounterKind, Prefix};
//!
//! let entries = [("remote_address", "203.0.113.7"), ("path", "/login")];
//! let counted = CounterSubject::Descriptor(Parts { domain: "shop", entries: &entries });
//! let name = KeyName::new(&Prefix::default(), counted, CounterKind::FixedWindow(Period::MINUTE), 0);
//! assert_eq!(
//!     name.as_str(),
//!     "hivemind:ratelimit:rls:{shop}:remote_address=203.0.113.7,path=/login:fixed-60s"
//! );
//! ```

mod breaker;
mod client;
mod connections;
mod counter_cache;
mod key_name;
mod lease;
mod local_decisions;
mod metrics;
mod monitor;
mod options;
mod over_cache;
mod script;
mod server;
mod slots;
mod state;
mod store;
mod wait;

pub use breaker::Availability;
pub use key_name::{CounterKind, CounterSubject, KeyName, Prefix, PrefixError};
pub use metrics::StoreMetrics;
pub use options::{ClockSource, LeaseOptions, OptionsError, Password, RedisOptions, TlsOptions, Topology};
pub use store::RedisStore;
