//! `limit_req`: selects the one limit of a place among all that apply.

use super::context::InheritedDirectives;
use super::key::ZoneIdentity;
use super::report::ImportReport;
use super::tree::Directive;
use super::zone::{Zone, Zones};

/// A limit of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedLimit {
    pub(super) zone: String,
    pub(super) requests: u32,
    pub(super) seconds: u32,
    pub(super) burst: u32,
    /// `None` if requests over the rate are not delayed.
    pub(super) delay_after: Option<u32>,
    pub(super) dry_run: bool,
}

/// State that all limits share.
pub(super) struct LimitImporter<'d> {
    pub(super) zones: Zones<'d>,
    /// The identity of the first converted limit; the gateway has one identity for all.
    pub(super) identity: Option<ZoneIdentity>,
}

impl LimitImporter<'_> {
    /// The limit of a place; `None` if it has none.
    pub(super) fn of(
        &mut self,
        context: &InheritedDirectives<'_>,
        report: &mut ImportReport,
    ) -> Option<ImportedLimit> {
        let mut found: Vec<(&Directive, ImportedLimit)> = Vec::new();
        for directive in context.limit_req.iter().copied() {
            found.extend(self.one(directive, context, report).map(|limit| (directive, limit)));
        }
        // In the long run the slowest limit determines the rate.
        let slowest = |(_, limit): &(&Directive, ImportedLimit)| {
            u64::from(limit.requests) * 60 / u64::from(limit.seconds)
        };
        found.sort_by_key(slowest);
        let mut found = found.into_iter();
        let (_, limit) = found.next()?;
        for (directive, other) in found {
            let text = format!(
                "the gateway has one limit per request, and `{}` is the slowest of the limits here; `{}` was omitted",
                limit.zone, other.zone
            );
            report.lose(directive, text);
        }
        note_status(context, report);
        Some(limit)
    }

    fn one(
        &mut self,
        directive: &Directive,
        context: &InheritedDirectives<'_>,
        report: &mut ImportReport,
    ) -> Option<ImportedLimit> {
        let arg = |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name));
        let name = arg("zone=").unwrap_or_default();
        let Some(zone) = self.zones.get(name) else {
            report.lose(directive, format!("unknown zone `{name}`; include the file that defines it"));
            return None;
        };
        let Some(Zone { identity, requests, seconds, .. }) = zone else {
            report.lose(directive, format!("the zone `{name}` was not converted, so this is not limited"));
            return None;
        };
        if self.identity.get_or_insert_with(|| identity.clone()) != identity {
            let text = format!(
                "the gateway identifies clients in one way for all limits, and `{name}` uses another; the limit was omitted"
            );
            report.lose(directive, text);
            return None;
        }
        let number = |name: &str| arg(name).and_then(|text| text.parse::<u32>().ok());
        let burst = number("burst=").unwrap_or(0);
        let nodelay = directive.args.iter().any(|arg| arg == "nodelay");
        let delay_after = match number("delay=") {
            _ if nodelay || burst == 0 => None,
            Some(after) if after >= burst => None,
            after => Some(after.unwrap_or(0)),
        };
        Some(ImportedLimit {
            zone: name.to_owned(),
            requests: *requests,
            seconds: *seconds,
            // nginx does not count the first request.
            burst: burst.saturating_add(1),
            delay_after,
            dry_run: context.limit_req_dry_run.is_some_and(|directive| directive.arg(0) == "on"),
        })
    }
}

fn note_status(context: &InheritedDirectives<'_>, report: &mut ImportReport) {
    match context.limit_req_status {
        Some(status) if status.arg(0) != "429" => {
            report.note(status, "the gateway always refuses with 429 and Retry-After");
        }
        Some(_) => {}
        None => {
            if let Some(directive) = context.limit_req.first() {
                report.note(
                    directive,
                    "nginx refuses with 503 unless `limit_req_status` is set; the gateway refuses with 429",
                );
            }
        }
    }
    if let Some(level) = context.limit_req_log_level {
        report.note(level, "refusals are written to `gateway.refusal_log`, without a level");
    }
}
