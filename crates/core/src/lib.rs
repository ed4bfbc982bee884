#![doc = include_str!("../README.md")]

pub mod algorithm;
mod key;
mod limit;
mod sip;
mod store;
mod sync;
mod time;
mod verdict;

pub use key::{Entry, Key, KeySeed, Parts};
pub use limit::{Limit, LimitError, Period, Rate, TokenBucket, Window};
pub use store::{
    Charge, Context, LocalStore, MemoryStore, Mode, Occupancy, OnRefusal, Op, Store, StoreError, StoreOptions,
};
pub use time::{Clock, ManualClock, STEP_BACK, SystemClock, Timestamp};
pub use verdict::{Cost, Outcome, Verdict, Verdicts};
