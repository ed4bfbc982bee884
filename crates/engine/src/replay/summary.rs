//! Summary of a replay: totals, the most limited keys, and a chart over time.

use super::chart::{self, Bar};
use super::engine::ReplayDecision;
use super::most_limited::MostLimited;
use super::recorded_request::RecordedRequest;
use super::timeline::Timeline;
use hivemind_telemetry::redact;
use hivemind_tls::escape::escape_line;
use std::fmt::{self, Write};

const SHOWN: usize = 10;

/// Results of a replay.
#[derive(Debug, Default)]
pub struct Summary {
    requests: u64,
    limited: u64,
    unlimited: u64,
    top: MostLimited,
    /// Admitted and limited requests.
    timeline: Timeline<2>,
}

impl Summary {
    pub fn add(&mut self, recorded: &RecordedRequest<'_>, taken: &ReplayDecision) {
        self.requests += 1;
        self.limited += u64::from(!taken.allow);
        self.unlimited += u64::from(taken.remaining.is_none());
        self.timeline.add(recorded.t_ms, [u64::from(taken.allow), u64::from(!taken.allow)]);
        if !taken.allow {
            let entries = recorded.entries();
            let entries: Vec<_> = entries.iter().map(|(key, value)| (*key, redact(key, value).0)).collect();
            self.top.add(&name_of(&recorded.domain, entries.iter().map(|(key, value)| (*key, &**value))));
        }
    }
}

/// The request's key on one escaped line of at most 80 characters.
pub(super) fn name_of<'e>(domain: &str, entries: impl Iterator<Item = (&'e str, &'e str)>) -> String {
    let mut name = domain.to_owned();
    for (key, value) in entries {
        let _ = write!(name, " {key}={value}"); // Writing to a string cannot fail.
    }
    escape_line(&name, 80)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.requests - self.limited;
        writeln!(f, "{:>10} requests", self.requests)?;
        writeln!(
            f,
            "{allowed:>10} allowed ({}), {} of them without a limit",
            percent_of_rest(self.limited, self.requests),
            self.unlimited
        )?;
        writeln!(f, "{:>10} limited ({})", self.limited, percent(self.limited, self.requests))?;
        let first = self.top.first(SHOWN);
        if !first.is_empty() {
            writeln!(f, "\n   limited  who")?;
        }
        for (name, tally) in first {
            let doubt = if tally.error == 0 {
                String::new()
            } else {
                format!("  (overcounted by at most {})", tally.error)
            };
            writeln!(f, "{:>10}  {name}{doubt}", tally.limited)?;
        }
        if self.requests == 0 {
            return Ok(());
        }
        let columns = self.timeline.columns().iter();
        let bars: Vec<Bar> =
            columns.map(|[allowed, limited]| Bar { allowed: *allowed, limited: *limited }).collect();
        chart::write(f, "Over time", &bars, self.timeline.width_ms())
    }
}

/// Percentage, rounded to a tenth.
pub(super) fn percent(part: u64, whole: u64) -> String {
    shown(tenths(part, whole))
}

/// The remainder to 100 %. If both were rounded separately, their sum could differ from 100 %.
pub(super) fn percent_of_rest(part: u64, whole: u64) -> String {
    shown(if whole == 0 { 0 } else { 1_000_u128.saturating_sub(tenths(part, whole)) })
}

fn tenths(part: u64, whole: u64) -> u128 {
    let whole = u128::from(whole.max(1));
    (u128::from(part) * 1_000 + whole / 2) / whole
}

fn shown(tenths: u128) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{RecordedRequest, ReplayDecision, Summary};

    // Seen failing on: both rounded down (50.1 % and 49.8 %).
    #[test]
    fn percentages_of_allowed_and_limited_sum_to_100() {
        for (limited, requests, expected) in [
            (1_u64, 3_u64, ["66.7 %", "33.3 %"]),
            (2, 3, ["33.3 %", "66.7 %"]),
            (1, 16, ["93.7 %", "6.3 %"]),
            (15, 16, ["6.2 %", "93.8 %"]),
            (0, 7, ["100.0 %", "0.0 %"]),
            (7, 7, ["0.0 %", "100.0 %"]),
            (0, 0, ["0.0 %", "0.0 %"]),
        ] {
            let shown = Summary { requests, limited, ..Summary::default() }.to_string();
            let [allowed, over] = expected.map(|share| format!("({share})"));
            assert!(
                shown.contains(&format!("allowed {allowed}")) && shown.contains(&format!("limited {over}")),
                "{limited} of {requests}: {shown}"
            );
        }
    }

    // Seen failing on: the recorded values in clear.
    #[test]
    fn summary_replaces_credentials_by_hashes() {
        let mut summary = Summary::default();
        let line = r#"{"t_ms": 0, "domain": "d", "entries": [["user", "ada"], ["api_key", "opens-it"], ["path", "/a?sid=opens-it"]]}"#;
        let recorded = RecordedRequest::from_json(line).unwrap();
        summary.add(&recorded, &ReplayDecision { allow: false, remaining: Some(0), retry_after_ms: None });
        let shown = summary.to_string();
        assert!(shown.contains("d user=ada api_key=sha256:") && !shown.contains("opens-it"), "{shown}");
    }
}
