//! The resident memory of the service, from the kernel.

use hivemind_testkit::Server;

/// Far above what a debug build needs for a thousand calls, and far below what a flood would take.
const MOST_GROWTH_KIB: u64 = 48 << 10;

/// The memory of a service before a test of bounded memory.
pub(crate) struct Memory<'a> {
    server: &'a Server,
    before: u64,
}

impl<'a> Memory<'a> {
    pub(crate) fn of(server: &'a Server) -> Self {
        Self { server, before: resident_kib(server) }
    }

    pub(crate) fn assert_bounded(&self, what: &str) {
        self.assert_grown_by_less(MOST_GROWTH_KIB, what);
    }

    pub(crate) fn assert_grown_by_less(&self, most_kib: u64, what: &str) {
        let (before, after) = (self.before, resident_kib(self.server));
        assert!(after < before + most_kib, "{what}: {before} KiB before, {after} KiB after");
    }
}

fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
