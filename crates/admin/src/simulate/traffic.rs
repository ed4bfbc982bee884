//! Requests of a simulation: recorded decisions, or an uploaded log.

use super::rule_values::RuleValues;
use super::time_limit::TimeLimit;
use hivemind_core::store::Op;
use hivemind_core::{Cost, Descriptor, Entry, Rules};
use hivemind_engine::replay::{AccessLogReader, Comparison, InputLines, LineError, RecordedRequest};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::ring::{DecisionRecord, DescriptorRecord, RecordRef, Snapshot, Truncation};
use serde::Deserialize;
use std::collections::VecDeque;
use std::time::Duration;

/// The file name in error places.
const LOG: &str = "log";
/// The clocks of two threads may differ by 20 µs (see `SystemClock`), plus the time from the clock read to the
/// decision. The order of closer decisions is unknown.
const SAME_MOMENT: Duration = Duration::from_micros(30);
/// More than are decided in such a moment, unless a clock stops.
const MOST_NEAR: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSource {
    recent: Option<bool>,
    log: Option<String>,
    format: Option<LogFormat>,
    domain: Option<String>,
    entries: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum LogFormat {
    Combined,
    Jsonl,
}

pub(super) enum TrafficSource {
    Recent,
    UploadedLog(UploadedLog),
}

pub(super) struct UploadedLog {
    text: String,
    /// `None` for our own format.
    access_log: Option<AccessLogReader>,
}

impl TrafficSource {
    /// The requested source, or what to send instead.
    pub(super) fn new(raw: RawSource, rules: &Rules) -> Result<Self, String> {
        let RawSource { recent, log, format, domain, entries } = raw;
        let has_more = format.is_some() || domain.is_some() || entries.is_some();
        match (recent, log, format) {
            (Some(true), None, None) if !has_more => Ok(Self::Recent),
            (None, Some(text), Some(LogFormat::Jsonl)) if entries.is_none() && domain.is_none() => {
                Ok(Self::UploadedLog(UploadedLog { text, access_log: None }))
            }
            (None, Some(text), Some(LogFormat::Combined)) => {
                let entries = entries.unwrap_or_else(|| vec!["remote_address".to_owned()]);
                if entries.is_empty() {
                    return Err(
                        "`entries` is empty; name at least one, or omit it for `remote_address`.".to_owned()
                    );
                }
                let domain = domain.map_or_else(|| only_domain(rules), Ok)?;
                let access_log =
                    AccessLogReader::new(domain, &entries).map_err(|error| format!("`entries`: {error}."))?;
                Ok(Self::UploadedLog(UploadedLog { text, access_log: Some(access_log) }))
            }
            (None, Some(_), None) => Err("`format` of a log must be `combined` or `jsonl`.".to_owned()),
            (None, Some(_), Some(LogFormat::Jsonl)) => {
                Err("A line of `jsonl` has its own domain and entries; omit `domain` and `entries`."
                    .to_owned())
            }
            _ => Err("`source` must be {\"recent\": true}, or have a `log` and its `format`.".to_owned()),
        }
    }
}

fn only_domain(rules: &Rules) -> Result<String, String> {
    let mut domains = rules.domains();
    match (domains.next(), domains.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        _ => Err("The rules have several domains, or none; set `domain`.".to_owned()),
    }
}

impl UploadedLog {
    /// Decides all lines, and returns notes on omissions. A malformed line is an error with its place.
    pub(super) fn decide(
        &self,
        comparison: &mut Comparison,
        mut time_limit: TimeLimit,
    ) -> Result<Vec<String>, String> {
        let mut lines = InputLines::new(self.text.as_bytes());
        while let Some(line) = lines.next_line().map_err(|error| format!("{LOG}: {error}."))? {
            let number = line.number;
            let recorded = line.text.and_then(|text| self.read(text));
            let recorded = recorded.map_err(|malformed| refused(number, &malformed))?;
            let entries = recorded.entries();
            comparison.decide(recorded.at(), &recorded.domain, &[recorded.descriptor(&entries)]);
            if time_limit.count_request() {
                return Ok(vec![time_limit.note()]);
            }
        }
        Ok(Vec::new())
    }

    fn read<'a>(&'a self, line: &'a str) -> Result<RecordedRequest<'a>, LineError> {
        match &self.access_log {
            None => RecordedRequest::from_json(line),
            Some(log) => log.read(line),
        }
    }
}

fn refused(line: u64, malformed: &LineError) -> String {
    let why: String = malformed.to_string().chars().take(300).collect();
    format!("{LOG}:{line}: {why}.")
}

/// Decides the recorded decisions, oldest first, and returns notes on omissions.
pub(super) fn recent(
    ring: &Snapshot,
    named: &RuleValues,
    comparison: &mut Comparison,
    mut time_limit: TimeLimit,
) -> Vec<String> {
    let [mut of_gateway, mut with_limits, mut lacking, mut cut, mut hashed, mut concurrent] = [0_u64; 6];
    let mut near: VecDeque<(RecordRef<'_>, DecisionRecord<'_>)> = VecDeque::new();
    let mut notes = Vec::new();
    let since = ring.whole_since();
    let all = ring.newest_first();
    for mark in all.iter().rev().filter(|mark| mark.at >= since) {
        let Some(decision) = mark.read() else { continue };
        if decision.frontend == Frontend::Gateway {
            of_gateway += 1;
            continue;
        }
        if decision.parts.iter().any(|part| part.has_own_limit) {
            with_limits += 1;
            continue;
        }
        match decision.truncation {
            Truncation::Entries => {
                lacking += 1;
                continue;
            }
            Truncation::Values => cut += 1,
            Truncation::None => {}
        }
        let may_be_missed =
            |part: &DescriptorRecord<'_>| part.entries.iter().any(|entry| named.may_miss(*entry));
        hashed += u64::from(decision.is_hashed && decision.parts.iter().any(may_be_missed));
        decide(&decision, named, comparison);
        near.retain(|(earlier, _)| mark.at.since(earlier.at) <= SAME_MOMENT);
        let is_in_doubt = |(earlier, other): &(RecordRef<'_>, DecisionRecord<'_>)| {
            earlier.shard != mark.shard && is_of_one_client(other, &decision)
        };
        concurrent += u64::from(near.iter().any(is_in_doubt));
        near.truncate(MOST_NEAR);
        near.push_front((*mark, decision));
        if time_limit.count_request() {
            notes.push(time_limit.note());
            break;
        }
    }
    let counted = [
        (of_gateway, "gateway requests are omitted: these rules do not apply to them."),
        (with_limits, "requests are omitted, because they carried their own limits."),
        (lacking, "requests are omitted, because they have more descriptors or entries than are recorded."),
        (
            cut,
            "requests have truncated texts: some may stand for several clients, and a rule for the full text does not match them.",
        ),
        (
            hashed,
            "requests have a credential that is recorded as a hash: a pattern rule (`*`) may have matched them, but does not here.",
        ),
        (
            concurrent,
            "requests arrived at the same moment as another of the same client, on two threads: their order is unknown.",
        ),
        (
            ring.missed,
            "decisions since startup were not recorded, because another thread held the ring at that moment.",
        ),
    ];
    notes.extend(
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
    );
    notes
}

fn is_of_one_client(one: &DecisionRecord<'_>, other: &DecisionRecord<'_>) -> bool {
    let is_other = |part: &DescriptorRecord<'_>| other.parts.iter().any(|its| its.entries == part.entries);
    one.domain == other.domain && one.parts.iter().any(is_other)
}

fn decide(decision: &DecisionRecord<'_>, named: &RuleValues, comparison: &mut Comparison) {
    // Most have no hash, and stay unchanged.
    let hashed = if decision.is_hashed { decision.parts.as_slice() } else { &[] };
    let found: Vec<Vec<Entry<'_>>> =
        hashed.iter().map(|part| part.entries.iter().map(|entry| named.entry(*entry)).collect()).collect();
    let descriptors: Vec<Descriptor<'_>> = decision
        .parts
        .iter()
        .enumerate()
        .map(|(number, part)| {
            let entries = found.get(number).unwrap_or(&part.entries);
            let op = if part.hits < 0 { Op::Refund } else { Op::Spend };
            Descriptor { cost: Cost::new(part.hits.unsigned_abs()), op, ..Descriptor::new(entries) }
        })
        .collect();
    comparison.decide(decision.at, decision.domain, &descriptors);
}
