//! Reader of a descriptor's limits: `rate_limit` or `rate_limits`.

use super::bounds::MOST_REPLACED;
use super::reader::{Fields, RuleFileReader};
use crate::storage::OnError;
use hivemind_config::document::SpannedValue;
use hivemind_core::{Budget, Consistency, Limit, LimitError, OnUnreachable, Period, Rate, Rule, Sharing};

pub(super) const LIMIT_KEYS: &[&str] = &[
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "algorithm",
    "burst",
    "unit_multiplier",
    "consistency",
    "on_error",
    "on_unreachable",
];
pub(super) const REPLACES_KEYS: &[&str] = &["name"];
pub(super) const UNITS: [(&str, Period); 7] = [
    ("second", Period::SECOND),
    ("minute", Period::MINUTE),
    ("hour", Period::HOUR),
    ("day", Period::DAY),
    ("week", Period::WEEK),
    ("month", Period::MONTH),
    ("year", Period::YEAR),
];

#[derive(Clone, Copy)]
pub(super) enum AlgorithmKind {
    FixedWindow,
    SlidingWindow,
    TokenBucket,
}

pub(super) const ALGORITHMS: [(&str, AlgorithmKind); 3] = [
    ("fixed_window", AlgorithmKind::FixedWindow),
    ("sliding_window", AlgorithmKind::SlidingWindow),
    ("token_bucket", AlgorithmKind::TokenBucket),
];

/// Combines the limits into one rule. Also returns its `on_error`, which applies when the store is unavailable.
pub(super) fn rule(
    reader: &mut RuleFileReader<'_>,
    nodes: &[SpannedValue],
) -> Option<(Rule, Option<OnError>)> {
    let mut rule: Option<Rule> = None;
    let (mut policy, mut sharing) = (None, Sharing::default());
    let mut sound = true;
    for node in nodes {
        let Some(fields) = reader.fields(node, "a rate limit", LIMIT_KEYS) else {
            sound = false;
            continue;
        };
        sound &= shared(reader, &fields, "consistency", &Consistency::NAMED, &mut sharing.consistency);
        sound &=
            shared(reader, &fields, "on_unreachable", &OnUnreachable::NAMED, &mut sharing.on_unreachable);
        sound &= on_error(reader, &fields, &mut policy);
        let names = names(reader, &fields);
        let Some(budget) = budget(reader, node, &fields) else {
            sound = false;
            continue;
        };
        let whole = rule.get_or_insert_with(|| Rule::new(Budget::Limits(Vec::new())));
        let Some((name, replaces)) = names else {
            sound = false;
            continue;
        };
        whole.name = whole.name.take().or(name);
        whole.replaces.extend(replaces);
        match (&mut whole.budget, budget) {
            (Budget::Limits(limits), Budget::Limits(more)) => limits.extend(more),
            (whole, Budget::Unlimited) if nodes.len() == 1 => *whole = Budget::Unlimited,
            _ => {
                let cause = "`unlimited` cannot be combined with other limits";
                reader.problem(Some(node.span), cause, "remove it, or remove the other limits");
                sound = false;
            }
        }
    }
    let mut rule = rule.filter(|_| sound)?;
    rule.sharing = sharing;
    Some((rule, policy))
}

/// Reads the limit's `on_error` into the policy of its rule; returns false if it is invalid.
fn on_error(reader: &mut RuleFileReader<'_>, fields: &Fields<'_>, policy: &mut Option<OnError>) -> bool {
    let Some(node) = fields.get("on_error") else { return true };
    let Some(text) = reader.text(node, "on_error") else { return false };
    let Some((_, chosen)) = OnError::CHOICES.iter().find(|(name, _)| *name == text) else {
        let names: Vec<&str> = OnError::CHOICES.iter().map(|(name, _)| *name).collect();
        let cause = format!("`on_error` cannot be `{text}`");
        reader.problem(Some(node.span), cause, format!("one of: {}", names.join(", ")));
        return false;
    };
    // All limits of a descriptor are decided in one step, so they fail together.
    if policy.is_some_and(|earlier| earlier != *chosen) {
        let cause = "the limits of one descriptor have different `on_error`";
        reader.problem(Some(node.span), cause, "write it once, or the same in each");
        return false;
    }
    *policy = Some(*chosen);
    true
}

/// Reads a mesh option of the limit into `whole`, the value of its rule; returns false if it is invalid.
fn shared<T: Copy + PartialEq>(
    reader: &mut RuleFileReader<'_>,
    fields: &Fields<'_>,
    key: &str,
    choices: &[(&str, T)],
    whole: &mut Option<T>,
) -> bool {
    let Some(node) = fields.get(key) else { return true };
    let Some(text) = reader.text(node, key) else { return false };
    let Some((_, chosen)) = choices.iter().find(|(name, _)| *name == text) else {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let cause = format!("`{key}` cannot be `{text}`");
        reader.problem(Some(node.span), cause, format!("one of: {}", names.join(", ")));
        return false;
    };
    if whole.is_some_and(|earlier| earlier != *chosen) {
        let cause = format!("the limits of one descriptor have different `{key}`");
        reader.problem(Some(node.span), cause, "write it once, or the same in each");
        return false;
    }
    *whole = Some(*chosen);
    true
}

fn names(reader: &mut RuleFileReader<'_>, fields: &Fields<'_>) -> Option<(Option<String>, Vec<String>)> {
    let name = Some(reader.optional_text(fields, "name")?).filter(|name| !name.is_empty());
    let mut others = Vec::new();
    let items = fields.get("replaces").map_or(&[][..], |node| reader.items(node, "replaces"));
    if items.len() > MOST_REPLACED {
        let cause = format!("`replaces` has more than {MOST_REPLACED} items");
        let remedy = "give limits that are replaced together one name: several limits may have it";
        reader.problem(fields.get("replaces").map(|node| node.span), cause, remedy);
        return None;
    }
    for item in items {
        let fields = reader.fields(item, "an item of `replaces`", REPLACES_KEYS)?;
        let replaced = reader.optional_text(&fields, "name")?;
        if replaced.is_empty() {
            let remedy = "write the name of the limit it replaces, as in `- name: basic`";
            reader.problem(Some(item.span), "an item of `replaces` has no name", remedy);
            return None;
        }
        if name.as_ref() == Some(&replaced) {
            let remedy = "leave this item out, or give one of the two limits another name";
            reader.problem(Some(item.span), "a limit cannot replace itself", remedy);
            return None;
        }
        others.push(replaced);
    }
    Some((name, others))
}

fn budget(reader: &mut RuleFileReader<'_>, node: &SpannedValue, fields: &Fields<'_>) -> Option<Budget> {
    if reader.flag(fields, "unlimited") {
        if let Some(unit) = fields.get("unit") {
            let cause = "an unlimited rule has no unit";
            reader.problem(Some(unit.span), cause, "leave `unit` out, or `unlimited`");
            return None;
        }
        return Some(Budget::Unlimited);
    }
    // Reads all keys before it returns, so that every mistake is reported.
    let unit = unit(reader, node, fields);
    let requests = match fields.get("requests_per_unit") {
        Some(node) => reader.number(node, "requests_per_unit"),
        None => Some(0),
    };
    let multiplier = match fields.get("unit_multiplier") {
        Some(node) => reader.number(node, "unit_multiplier"),
        None => Some(1),
    };
    let burst = match fields.get("burst") {
        Some(node) => reader.number(node, "burst").map(Some),
        None => Some(None),
    };
    let algorithm = algorithm(reader, fields);
    let (unit, requests, multiplier, burst, algorithm) = (unit?, requests?, multiplier?, burst?, algorithm?);
    let place = |key: &str| fields.get(key).unwrap_or(node).span;
    let period = match unit.times(multiplier) {
        Ok(period) => period,
        Err(error) => {
            let (cause, remedy) = multiplied(error);
            reader.problem(Some(place("unit_multiplier")), cause, remedy);
            return None;
        }
    };
    let limit = match algorithm {
        AlgorithmKind::TokenBucket => {
            Rate::new(requests, period).map_err(|error| ("requests_per_unit", error)).and_then(|rate| {
                Limit::token_bucket(rate, burst.unwrap_or(requests)).map_err(|error| ("burst", error))
            })
        }
        AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindow if burst.is_some() => {
            let cause = "`burst` is for `algorithm: token_bucket`, and this limit is a window";
            let remedy = "leave `burst` out, or add `algorithm: token_bucket`";
            reader.problem(Some(place("burst")), cause, remedy);
            return None;
        }
        AlgorithmKind::FixedWindow => Ok(Limit::fixed_window(requests, period)),
        AlgorithmKind::SlidingWindow => Ok(Limit::sliding_window(requests, period)),
    };
    match limit {
        Ok(limit) => Some(Budget::Limits(vec![limit])),
        Err((key, error)) => {
            let text = error.to_string();
            let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "choose a different number"));
            reader.problem(Some(place(key)), cause, remedy);
            None
        }
    }
}

fn multiplied(error: LimitError) -> (String, &'static str) {
    match error {
        LimitError::ZeroPeriod => ("`unit_multiplier` must be at least 1".into(), "write 5 for five minutes"),
        _ => ("unit and multiplier exceed 100 years".into(), "choose a smaller multiplier"),
    }
}

fn unit(reader: &mut RuleFileReader<'_>, node: &SpannedValue, fields: &Fields<'_>) -> Option<Period> {
    let remedy = format!("one of: {}", UNITS.map(|(name, _)| name).join(", "));
    let Some(unit) = fields.get("unit") else {
        reader.problem(Some(node.span), "the limit has no `unit`", remedy);
        return None;
    };
    let text = reader.text(unit, "unit")?;
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text));
    if known.is_none() {
        reader.problem(Some(unit.span), format!("unknown unit `{text}`"), remedy);
    }
    known.map(|(_, period)| *period)
}

/// An unknown algorithm is an error; it never falls back: docs/decisions/004.
fn algorithm(reader: &mut RuleFileReader<'_>, fields: &Fields<'_>) -> Option<AlgorithmKind> {
    let Some(node) = fields.get("algorithm") else { return Some(AlgorithmKind::FixedWindow) };
    let text = reader.text(node, "algorithm")?;
    let known = ALGORITHMS.iter().find(|(name, _)| *name == text);
    if known.is_none() {
        let remedy = format!("one of: {}", ALGORITHMS.map(|(name, _)| name).join(", "));
        reader.problem(Some(node.span), format!("unknown algorithm `{text}`"), remedy);
    }
    known.map(|(_, algorithm)| *algorithm)
}
