//! Hivemind's counters in Redis or Valkey: every node that shares one is exact.
//!
//! A request's whole batch is decided by one call of a script, in one round trip, all or
//! nothing, by the same arithmetic as the algorithms of `hivemind-core`, to the last bit
//! (docs/decisions/011). What the crate is made of, in the order of a decision:
//!
//! | | |
//! |---|---|
//! | `store` | [`RedisStore`]: asks, waits no longer than it may, and tells the verdicts |
//! | `script` | charges as the script reads them, its answer; `scripts/decide.lua` |
//! | `state` | 17 bytes of state, in limbs that Lua's numbers hold exactly |
//! | `key_name` | what a counter is called: readable, and no two meet |
//! | `wait` | how long a request waits, for all its commands together |
//! | `lines`, `server` | a connection for each runtime that asks; one server, sentinels, a cluster |
//! | `over_cache`, `lease`, `locally` | what is decided without asking: what is known to be over, and what was leased |
//! | `slots` | a batch that spans slots of a cluster: in two steps, never too much |
//! | `breaker`, `keeper` | a dead Redis costs nothing, and is found again in the background |
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
mod keeper;
mod key_name;
mod lease;
mod lines;
mod locally;
mod metrics;
mod options;
mod over_cache;
mod script;
mod server;
mod slots;
mod state;
mod store;
mod table;
mod wait;

pub use breaker::Availability;
pub use key_name::{CounterKind, CounterSubject, KeyName, Prefix, PrefixError};
pub use metrics::StoreMetrics;
pub use options::{ClockSource, LeaseOptions, OptionsError, Password, RedisOptions, TlsOptions, Topology};
pub use store::RedisStore;
