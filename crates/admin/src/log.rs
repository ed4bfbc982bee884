//! Log settings in the API. The values of descriptors that are logged can only be set in the file: they may identify
//! people, and the file's owner is accountable for that.

use super::object::Object;
use super::reply::{ok, problem, read};
use super::whole::few;
use axum::http::StatusCode;
use axum::response::Response;
use hivemind_telemetry::logging::{LogChange, RunningLog};
use hivemind_telemetry::settings::log::{
    DecisionFilter, DecisionLogSettings, LogLevel, LogLevels, module_name,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

const LEVELS: &str = "off, error, warn, info, debug or trace";

#[derive(Deserialize)]
// A misspelled key must not be ignored.
#[serde(deny_unknown_fields, expecting = "an object with `level`, `levels` or `decisions`")]
struct RawLog {
    level: Option<String>,
    levels: Option<BTreeMap<String, String>>,
    decisions: Option<Object<RawDecisions>>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "`decisions` as an object with `log`, `sample_rate` or `per_second`"
)]
struct RawDecisions {
    log: Option<Value>,
    sample_rate: Option<f64>,
    #[serde(default, deserialize_with = "few")]
    per_second: Option<NonZeroU32>,
}

/// The active settings.
pub(super) fn shown(log: &RunningLog) -> Response {
    let (LogLevels { level, modules }, DecisionLogSettings { filter, sample_rate, per_second, values }) =
        log.now();
    let modules: BTreeMap<&str, &str> =
        modules.iter().map(|(module, level)| (module.as_str(), level.as_str())).collect();
    let log = match filter {
        DecisionFilter::None => json!(false),
        DecisionFilter::All => json!(true),
        DecisionFilter::Denied => json!(filter.as_str()),
    };
    let decisions =
        json!({"log": log, "sample_rate": sample_rate, "per_second": per_second, "values": values});
    let body = json!({"level": level.as_str(), "levels": modules, "decisions": decisions});
    ok(&body)
}

/// Reads the requested change.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn asked(body: &[u8]) -> Result<LogChange, Response> {
    change(read(body)?).map_err(|detail| refused(&detail))
}

fn change(raw: RawLog) -> Result<LogChange, String> {
    let level = raw.level.map(|word| level(&word)).transpose()?;
    let modules = raw.levels.map(modules).transpose()?;
    let mut change = LogChange { level, modules, ..LogChange::default() };
    if let Some(Object(RawDecisions { log, sample_rate, per_second })) = raw.decisions {
        change.decisions = log.map(decision_filter).transpose()?;
        if sample_rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
            return Err("`decisions.sample_rate` must be a number from 0 to 1.".to_owned());
        }
        (change.sample_rate, change.per_second) = (sample_rate, per_second);
    }
    if change == LogChange::default() {
        return Err("The body changes nothing: send `level`, `levels` or `decisions`.".to_owned());
    }
    Ok(change)
}

fn level(word: &str) -> Result<LogLevel, String> {
    LogLevel::parse(word).ok_or_else(|| format!("A level must be {LEVELS}."))
}

fn modules(raw: BTreeMap<String, String>) -> Result<BTreeMap<String, LogLevel>, String> {
    if raw.len() > LogLevels::MOST_MODULES {
        return Err(format!("`levels` may have at most {} modules.", LogLevels::MOST_MODULES));
    }
    let one = |(module, word): (String, String)| {
        let name = module_name(&module).ok_or("A module name must look like `hivemind_mesh`.")?;
        Ok((name.to_owned(), level(&word)?))
    };
    raw.into_iter().map(one).collect()
}

fn decision_filter(value: Value) -> Result<DecisionFilter, String> {
    let filter = match value {
        Value::Bool(true) => Some(DecisionFilter::All),
        Value::Bool(false) => Some(DecisionFilter::None),
        Value::String(word) => DecisionFilter::parse(&word),
        _ => None,
    };
    filter.ok_or_else(|| "`decisions.log` must be true, false or \"denied\".".to_owned())
}

fn refused(detail: &str) -> Response {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let title = "Invalid log settings";
    problem(status, title, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_change_is_parsed_and_invalid_ones_rejected() {
        let whole = br#"{"level": "debug", "levels": {"h2": "off"}, "decisions": {"log": "denied", "sample_rate": 0.5, "per_second": 7}}"#;
        let whole = asked(whole).unwrap();
        assert_eq!((whole.level, whole.decisions), (Some(LogLevel::Debug), Some(DecisionFilter::Denied)));
        assert_eq!((whole.sample_rate, whole.per_second), (Some(0.5), NonZeroU32::new(7)));
        assert_eq!(whole.modules, Some([("h2".to_owned(), LogLevel::Off)].into()));
        assert_eq!(
            whole.to_string(),
            "level=debug levels=h2:off decisions=denied sample_rate=0.5 per_second=7"
        );
        let some = asked(br#"{"decisions": {"log": true}}"#).unwrap();
        assert_eq!(some.to_string(), "decisions=true");
        assert_eq!(some, LogChange { decisions: Some(DecisionFilter::All), ..LogChange::default() });
        for same in ["7", "7.0"] {
            let read = asked(format!(r#"{{"decisions": {{"per_second": {same}}}}}"#).as_bytes()).unwrap();
            assert_eq!(read.per_second, NonZeroU32::new(7), "to JSON both are the same");
        }
        // Fails when invalid JSON returns 422.
        for (wrong, code) in [
            ("", 400),
            ("[]", 400),
            ("{}", 422),
            (r#"{"level": "loud"}"#, 422),
            (r#"{"lvl": "info"}"#, 400),
            (r#"{"levels": {"a b": "info"}}"#, 422),
            (r#"{"levels": {"h2": 3}}"#, 400),
            (r#"{"decisions": {"log": "some"}}"#, 422),
            (r#"{"decisions": {"sample_rate": 2}}"#, 422),
            (r#"{"decisions": {"per_second": 0}}"#, 400),
            (r#"{"decisions": {"per_second": 7.5}}"#, 400),
            (r#"{"decisions": {"per_second": 4294967296}}"#, 400),
            (r#"{"decisions": {"values": ["user"]}}"#, 400),
            (r#"{"level": "debug", "decisions": [null, null]}"#, 400),
        ] {
            assert_eq!(asked(wrong.as_bytes()).unwrap_err().status().as_u16(), code, "{wrong}");
        }
    }
}
