//! `limit_req_zone`: keys and rates.

use super::key::{self, ZoneIdentity};
use super::report::ImportReport;
use super::tree::Directive;
use std::collections::BTreeMap;

/// A zone that can be converted.
#[derive(Clone, Debug)]
pub(super) struct Zone<'d> {
    pub(super) directive: &'d Directive,
    pub(super) identity: ZoneIdentity,
    pub(super) requests: u32,
    pub(super) seconds: u32,
}

/// All zones by name; `None` for zones that cannot be converted.
pub(super) type Zones<'d> = BTreeMap<String, Option<Zone<'d>>>;

pub(super) fn read<'d>(directives: &'d [Directive], report: &mut ImportReport) -> Zones<'d> {
    let mut zones = Zones::new();
    for directive in directives.iter().filter(|directive| directive.name == "limit_req_zone") {
        let named = directive.args.iter().find_map(|arg| arg.strip_prefix("zone="));
        let Some(name) = named.map(|named| named.split(':').next().unwrap_or(named)) else {
            report.note(directive, "missing `zone=`; run `nginx -t` for details");
            continue;
        };
        zones.insert(name.to_owned(), zone(directive, report));
    }
    zones
}

fn zone<'d>(directive: &'d Directive, report: &mut ImportReport) -> Option<Zone<'d>> {
    let rate = directive.args.iter().find_map(|arg| arg.strip_prefix("rate=")).and_then(rate);
    let Some((requests, seconds)) = rate else {
        report.note(directive, "the rate is not in the form `10r/s` or `600r/m`; the limit was omitted");
        return None;
    };
    if directive.args.iter().any(|arg| arg == "sync") {
        report.note(directive, "`sync` shares the zone between nodes; use `storage` for that");
    }
    match key::identity(directive.arg(0)) {
        Ok(identity) => {
            if identity == ZoneIdentity::Bearer {
                report.note(
                    directive,
                    "nginx counts by the whole header; the gateway counts by the token of `Bearer`, and clients with \
                     another scheme, such as `Basic`, by their address",
                );
            }
            Some(Zone { directive, identity, requests, seconds })
        }
        Err(why) => {
            report.note(directive, why);
            None
        }
    }
}

/// Parses `10r/s` or `5r/m`; nginx itself drops fractions of a thousandth of a request per second.
fn rate(text: &str) -> Option<(u32, u32)> {
    let (number, seconds) = match text.split_once("r/")? {
        (number, "s") => (number, 1),
        (number, "m") => (number, 60),
        _ => return None,
    };
    Some((number.parse().ok().filter(|requests| *requests > 0)?, seconds))
}
