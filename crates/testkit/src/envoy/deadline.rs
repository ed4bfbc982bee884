//! Polling with a deadline, for tests without a runtime.

use hivemind_core::{Clock, SystemClock};
use std::time::Duration;

/// The limit for every wait. An event that takes longer has failed the test.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls until there is a value. Each poll is a request to another process, which yields the processor to it.
pub fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let from = SystemClock.now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(SystemClock.now().since(from) < DEADLINE, "waited too long: {what}");
        std::thread::yield_now();
    }
}
