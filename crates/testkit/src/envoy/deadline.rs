//! Waiting for something to happen, and for no longer than it may take.

use hivemind_core::{Clock, SystemClock};
use std::time::Duration;

/// For whatever has to happen at all. A machine that needs longer has failed the test.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Asks until there is an answer. Each question is to ask another process, so it yields to it.
pub fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let from = SystemClock.now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(SystemClock.now().since(from) < DEADLINE, "waited in vain: {what}");
        std::thread::yield_now();
    }
}
