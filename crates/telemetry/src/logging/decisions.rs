//! Decision log: one line for each decision that passes the filter, the sampling and the limit per second.
//!
//! Values of descriptors may be personal data, so a line contains only the keys, and the values of the keys that the
//! configuration lists. Text of clients is truncated. If no decision is logged, it costs one branch.

use super::line_budget::LineBudget;
use crate::redact;
use crate::settings::log::{DecisionFilter, DecisionLogSettings};
use arc_swap::ArcSwap;
use hivemind_core::store::Op;
use hivemind_core::{Clock, Descriptor, Limit, SystemClock, Timestamp};
use hivemind_tower::Decision;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Target of the lines, to filter them.
pub(super) const TARGET: &str = "hivemind::decisions";
/// Interval at which the number of omitted lines is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The most of one key or value, and of all of them in a line, in bytes.
const LONGEST_WORD: usize = 64;
const LONGEST_LIST: usize = 512;
/// Key of a gateway's client in `log_decisions_values`.
const CLIENT: &str = "client";

/// The logged parts of a decision on descriptors.
pub struct LoggedDecision<'a> {
    pub domain: &'a str,
    pub descriptors: &'a [Descriptor<'a>],
    /// Arrival of the request.
    pub now: Timestamp,
    pub is_denied: bool,
    pub is_blocked: bool,
    /// The status of the request, and the index of the descriptor that caused it.
    pub tightest: Option<(usize, LoggedStatus<'a>)>,
}

/// The logged parts of a descriptor's status.
pub struct LoggedStatus<'a> {
    /// The limit and its name.
    pub limit: Option<(Limit, &'a str)>,
    pub remaining: u32,
}

/// The filter of decisions, and their counts.
#[derive(Debug)]
pub struct DecisionLog {
    is_on: AtomicBool,
    lines: ArcSwap<DecisionLogSettings>,
    asked: AtomicU64,
    room: LineBudget,
}

impl Default for DecisionLog {
    fn default() -> Self {
        Self::new(&DecisionLogSettings::default())
    }
}

impl DecisionLog {
    pub(super) fn new(lines: &DecisionLogSettings) -> Self {
        Self {
            is_on: AtomicBool::new(lines.filter != DecisionFilter::None),
            lines: ArcSwap::from_pointee(lines.clone()),
            asked: AtomicU64::new(0),
            room: LineBudget::default(),
        }
    }

    pub(super) fn set_settings(&self, lines: &DecisionLogSettings) {
        self.lines.store(lines.clone().into());
        self.is_on.store(lines.filter != DecisionFilter::None, Ordering::Relaxed);
    }

    /// Logs a decision on descriptors.
    #[inline]
    pub fn log<'a>(&self, decision: impl FnOnce() -> LoggedDecision<'a>) {
        if self.is_on.load(Ordering::Relaxed) {
            self.write(&decision());
        }
    }

    /// Logs a decision of the gateway.
    #[inline]
    pub fn log_gateway(&self, decision: Option<&Decision>) {
        if self.is_on.load(Ordering::Relaxed)
            && let Some(decision) = decision
        {
            self.write_of_gateway(decision);
        }
    }

    /// Logs the number of omitted lines each second, forever.
    pub async fn report_omitted(&self) {
        let mut ticks = tokio::time::interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.log_omitted();
        }
    }

    /// Logs the number of omitted lines, if any.
    pub fn log_omitted(&self) {
        let omitted = self.room.take_omitted();
        if omitted > 0 {
            tracing::info!(
                target: TARGET,
                left_out = omitted,
                "decisions left out: more than `observability.log_decisions_per_second`"
            );
        }
    }

    /// Returns the configuration if the decision gets a line.
    fn line(&self, is_denied: bool) -> Option<arc_swap::Guard<std::sync::Arc<DecisionLogSettings>>> {
        let lines = self.lines.load();
        let is_selected =
            lines.filter == DecisionFilter::All || (lines.filter == DecisionFilter::Denied && is_denied);
        let is_sampled =
            is_selected && is_sampled(self.asked.fetch_add(1, Ordering::Relaxed), lines.sample_rate);
        (is_sampled && self.room.take(lines.per_second, SystemClock.now())).then_some(lines)
    }

    #[cold]
    fn write(&self, decision: &LoggedDecision<'_>) {
        let is_denied = decision.is_denied;
        let Some(lines) = self.line(is_denied) else { return };
        let (at, status) = decision.tightest.as_ref().map(|(at, status)| (*at, status)).unzip();
        let current = status.and_then(|status| status.limit.as_ref());
        let descriptor = decision.descriptors.get(at.unwrap_or_default());
        let mut domain = String::new();
        push_cut(&mut domain, decision.domain);
        tracing::info!(
            target: TARGET,
            domain,
            descriptors = shown(decision.descriptors, &lines),
            code = if is_denied { "OVER_LIMIT" } else { "OK" },
            reason = decision.is_blocked.then_some("blocked"),
            hits = descriptor.map_or(0, hits),
            limit_name = current.map(|(_, name)| *name).filter(|name| !name.is_empty()),
            limit = current.map(|(limit, _)| limit.to_string()),
            remaining = status.map(|status| status.remaining),
            micros = u64::try_from(SystemClock.now().since(decision.now).as_micros()).unwrap_or(u64::MAX),
            "decided"
        );
    }

    #[cold]
    fn write_of_gateway(&self, decision: &Decision) {
        let Some(lines) = self.line(!decision.is_allowed()) else { return };
        let name = decision.client().name();
        // `ip`, `session`, `bearer` or `apikey`: the kind of the client's identity, not its value.
        let kind = name.split_once(':').map_or(name, |(kind, _)| kind);
        tracing::info!(
            target: TARGET,
            service = decision.service(),
            endpoint = decision.endpoint(),
            client = if lines.values.contains(CLIENT) { name } else { kind },
            code = if decision.is_allowed() { "OK" } else { "OVER_LIMIT" },
            hits = 1,
            limit_name = decision.kind().name(),
            limit = decision.limit().to_string(),
            remaining = decision.remaining(),
            delay_ms = u64::try_from(decision.delay().as_millis()).unwrap_or(u64::MAX),
            is_dry_run = decision.is_dry_run_refusal(),
            "decided"
        );
    }
}

/// Whether the decision with this number is sampled. The finalizer of `MurmurHash3` makes consecutive numbers
/// pseudorandom.
fn is_sampled(number: u64, share: f64) -> bool {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let upper = u32::try_from((mixed ^ (mixed >> 33)) >> 32).unwrap_or_default();
    f64::from(upper) < share * (f64::from(u32::MAX) + 1.0)
}

/// Negative for a refund, 0 for a peek.
pub fn hits(descriptor: &Descriptor<'_>) -> i64 {
    let hits = i64::try_from(descriptor.cost.get()).unwrap_or(i64::MAX);
    match descriptor.op {
        Op::Refund => -hits,
        Op::Peek => 0,
        _ => hits,
    }
}

/// The keys of all descriptors with the configured values: `user,path=/login | remote_address`.
fn shown(descriptors: &[Descriptor<'_>], lines: &DecisionLogSettings) -> String {
    let mut text = String::new();
    for (number, descriptor) in descriptors.iter().enumerate() {
        for (place, (key, value)) in descriptor.entries.iter().enumerate() {
            if text.len() > LONGEST_LIST {
                text.push_str("...");
                return text;
            }
            text.push_str(match (number, place) {
                (0, 0) => "",
                (_, 0) => " | ",
                _ => ",",
            });
            push_cut(&mut text, key);
            if lines.values.contains(*key) {
                text.push('=');
                push_cut(&mut text, &redact(key, value).0);
            }
        }
    }
    text
}

/// Appends text of a client, truncated and without control characters.
fn push_cut(text: &mut String, word: &str) {
    let end = text.len() + LONGEST_WORD;
    for letter in word.chars() {
        if text.len() >= end {
            text.push_str("...");
            return;
        }
        if letter.is_control() {
            text.extend(letter.escape_default());
        } else {
            text.push(letter);
        }
    }
}
