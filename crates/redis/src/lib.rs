//! Hivemind's counters in Redis or Valkey. This crate will hold the store that
//! decides in a script, with one round trip for the whole batch.
//!
//! There is one part of it yet: [`KeyName`], what a counter is called there, so that
//! an operator can read it and no two counters meet. Scripts and connections are not there.
//!
//! ```
//! use hivemind_core::Period;
//! use hivemind_core::store::Parts;
//! use hivemind_redis::{Counted, KeyName, Kind, Prefix};
//!
//! let entries = [("remote_address", "203.0.113.7"), ("path", "/login")];
//! let counted = Counted::Descriptor(Parts { domain: "shop", entries: &entries });
//! let name = KeyName::new(&Prefix::default(), counted, Kind::FixedWindow(Period::MINUTE), 0);
//! assert_eq!(
//!     name.as_str(),
//!     "hivemind:ratelimit:rls:{shop}:remote_address=203.0.113.7,path=/login:fixed-60s"
//! );
//! ```

mod key_name;

pub use key_name::{Counted, KeyName, Kind, Prefix, PrefixError};
