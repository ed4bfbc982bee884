//! `gateway.platform`: defaults of all services.

use super::{IpGuard, Platform, limit, websocket};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{AMOUNT, FLAG};
use std::num::NonZeroU32;

pub(super) fn read(mut section: Section<'_, '_>) -> Platform {
    let (is_off, mut guard) = section.section_or_off("ip_guard");
    let guarded = guard.is_there();
    let guard = limit::read(&mut guard);
    let ip_guard = match (is_off, guarded) {
        (true, _) => IpGuard::Off,
        (false, true) => IpGuard::Limit(guard),
        (false, false) => IpGuard::Usual,
    };
    Platform {
        enabled: section.read("enabled", &FLAG).unwrap_or(true),
        limit: limit::read(&mut section),
        max_requests: section.read("max_requests", &AMOUNT).map(NonZeroU32::get),
        max_burst: section.read("max_burst", &AMOUNT).map(NonZeroU32::get),
        is_global: section.choice("scope", &[("service", false), ("global", true)]).unwrap_or(false),
        ip_guard,
        websocket: websocket::read(section.section("websocket")),
    }
}
