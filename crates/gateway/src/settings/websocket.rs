//! `websocket` of the platform or of a service.

use super::kinds::{ON_LIMIT, PATTERN};
use super::{WebSocketLimit, WebSocketSettings, limit};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{AMOUNT, FLAG};

pub(super) fn read(mut section: Section<'_, '_>) -> WebSocketSettings {
    let mut of = |key: &str| {
        let mut section = section.section(key);
        WebSocketLimit { enabled: section.read("enabled", &FLAG), limit: limit::read(&mut section) }
    };
    let connections = of("connections");
    let messages = of("messages");
    WebSocketSettings {
        paths: section.one_or_list("paths", &PATTERN),
        connections,
        messages,
        max_open: section.read("max_open", &AMOUNT),
        pings_per_second: section.read("pings_per_second", &AMOUNT),
        on_limit: section.choice("on_limit", ON_LIMIT),
    }
}
