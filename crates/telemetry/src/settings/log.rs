//! `observability.log_*`: levels, format and decisions of the log.

use crate::secret_name::is_secret;
use hivemind_config::form::Form;
use hivemind_config::reader::Section;
use hivemind_config::spelling::{is_falsy, is_truthy};
use hivemind_config::value_kind::{AMOUNT, RATIO, ValueKind};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// Settings of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    pub format: LogFormat,
    pub levels: LogLevels,
    pub decisions: DecisionLogSettings,
}

impl LogSettings {
    /// Settings that apply on reload.
    pub const RELOADABLE: [&str; 6] = [
        "observability.log_level",
        "observability.log_levels",
        "observability.log_decisions",
        "observability.log_decisions_sample_rate",
        "observability.log_decisions_per_second",
        "observability.log_decisions_values",
    ];
}

/// Levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLevels {
    pub level: LogLevel,
    /// Levels of modules and their submodules that differ from the default.
    pub modules: BTreeMap<String, LogLevel>,
}

impl LogLevels {
    /// Most modules with their own level.
    pub const MOST_MODULES: usize = 64;
}

/// Minimum level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub fn parse(word: &str) -> Option<Self> {
        LEVELS.iter().find(|(name, _)| *name == word).map(|(_, level)| *level)
    }

    pub fn as_str(self) -> &'static str {
        LEVELS.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Json,
    Text,
}

/// Which decisions are logged.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionLogSettings {
    pub filter: DecisionFilter,
    /// Sampled share.
    pub sample_rate: f64,
    /// Maximum of lines per second.
    pub per_second: NonZeroU32,
    /// Descriptor keys whose values are logged. Other values may be personal data.
    pub values: BTreeSet<String>,
}

impl Default for DecisionLogSettings {
    fn default() -> Self {
        let per_second = NonZeroU32::MIN.saturating_add(99);
        Self { filter: DecisionFilter::None, sample_rate: 1.0, per_second, values: BTreeSet::new() }
    }
}

/// Filter of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionFilter {
    None,
    Denied,
    All,
}

impl DecisionFilter {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "denied" => Some(Self::Denied),
            word if is_truthy(word) => Some(Self::All),
            word => is_falsy(word).then_some(Self::None),
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "false",
            Self::Denied => "denied",
            Self::All => "true",
        }
    }
}

const LEVELS: &[(&str, LogLevel)] = &[
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
const FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
const MODULE: ValueKind<(String, LogLevel)> = ValueKind::text(
    "a module and its level (off, error, warn, info, debug or trace)",
    "hivemind_mesh=debug",
    |text| {
        let (module, level) = text.split_once('=')?;
        Some((module_name(module.trim())?.to_owned(), LogLevel::parse(level.trim())?))
    },
)
.written(Form::Pattern("^ *[A-Za-z0-9_:.-]{1,128} *= *(off|error|warn|info|debug|trace) *$"))
.called("module and level", "them");
const FILTER: ValueKind<DecisionFilter> =
    ValueKind::text("true, false or denied", "denied", DecisionFilter::parse).written(Form::FlagOr("denied"));
const LOGGED_KEY: ValueKind<String> =
    ValueKind::text("the key of a descriptor whose values are not secret", "path", |text| {
        let is_sound = !text.is_empty() && text.len() <= 256 && !is_secret(text);
        is_sound.then(|| text.to_owned())
    })
    .called("key", "keys");

/// The name of a module in the log, such as `hivemind::front::gateway`.
pub fn module_name(text: &str) -> Option<&str> {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:-.".contains(&byte);
    (!text.is_empty() && text.len() <= 128 && text.bytes().all(is_in_name)).then_some(text)
}

pub fn read(section: &mut Section<'_, '_>) -> LogSettings {
    let level = section.choice("log_level", LEVELS).unwrap_or_default();
    let modules = section.one_or_list("log_levels", &MODULE);
    if modules.len() > LogLevels::MOST_MODULES {
        let cause = format!("`observability.log_levels` has more than {} modules", LogLevels::MOST_MODULES);
        section.refuse("log_levels", cause, "name the crate in the place of its modules");
    }
    let usual = DecisionLogSettings::default();
    LogSettings {
        format: section.choice("log_format", FORMATS).unwrap_or(LogFormat::Auto),
        levels: LogLevels { level, modules: modules.into_iter().collect() },
        decisions: DecisionLogSettings {
            filter: section.read("log_decisions", &FILTER).unwrap_or(usual.filter),
            sample_rate: section.read("log_decisions_sample_rate", &RATIO).unwrap_or(usual.sample_rate),
            per_second: section.read("log_decisions_per_second", &AMOUNT).unwrap_or(usual.per_second),
            values: section.one_or_list("log_decisions_values", &LOGGED_KEY).into_iter().collect(),
        },
    }
}
