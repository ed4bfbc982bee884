//! Logging to standard error, as text or JSON. The configuration file and the admin port can change the levels and
//! the logged decisions at run time; the latest change applies.

mod decisions;
mod line_budget;

pub use decisions::{DecisionLog, LoggedDecision, LoggedStatus, hits};
pub use line_budget::LineBudget;

use crate::settings::log::{
    DecisionFilter, DecisionLogSettings, LogFormat, LogLevel, LogLevels, LogSettings,
};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

/// Target of the audit lines of the admin API.
pub const AUDIT: &str = "hivemind::audit";

/// `logs_refusals`: whether refusals of HTTP requests are logged here and not in a separate log.
pub fn start(log: &LogSettings, logs_refusals: bool) -> Arc<RunningLog> {
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    // A line that cannot be written is lost. Reporting the error would write to standard error with a macro that
    // panics after the reader has closed it, and the process would end with the reader of its log.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    let (filter, handle) = reload::Layer::new(sources(&log.levels, logs_refusals));
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry.with(lines.json()).init();
    } else {
        registry.with(lines).init();
    }
    // A panic ends a call or a task and not the process, so it must be in the log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let levels = Mutex::new(Reloadable { file: log.levels.clone(), active: log.levels.clone() });
    let lines = Mutex::new(Reloadable { file: log.decisions.clone(), active: log.decisions.clone() });
    let decisions = Arc::new(DecisionLog::new(&log.decisions));
    Arc::new(RunningLog { handle, logs_refusals, levels, lines, decisions })
}

/// The active log.
pub struct RunningLog {
    handle: Handle<Targets, Registry>,
    logs_refusals: bool,
    levels: Mutex<Reloadable<LogLevels>>,
    lines: Mutex<Reloadable<DecisionLogSettings>>,
    decisions: Arc<DecisionLog>,
}

/// A setting that the file and the admin port can change.
struct Reloadable<T> {
    /// The value in the file when it was last read.
    file: T,
    /// The value of the latest change.
    active: T,
}

impl<T: Clone + PartialEq> Reloadable<T> {
    /// Returns the value of a reloaded file if the file changed it.
    fn follow(&mut self, file: &T) -> Option<T> {
        if self.file == *file {
            return None;
        }
        self.file = file.clone();
        self.active = file.clone();
        Some(file.clone())
    }
}

/// A change by the admin port; `None`: no change.
#[derive(Debug, Default, PartialEq)]
pub struct LogChange {
    pub level: Option<LogLevel>,
    pub modules: Option<std::collections::BTreeMap<String, LogLevel>>,
    pub decisions: Option<DecisionFilter>,
    pub sample_rate: Option<f64>,
    pub per_second: Option<std::num::NonZeroU32>,
}

/// Format of the audit line.
impl std::fmt::Display for LogChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let modules = self.modules.iter().flatten();
        let modules: Vec<String> =
            modules.map(|(module, level)| format!("{module}:{}", level.as_str())).collect();
        let members = [
            self.level.map(|level| format!("level={}", level.as_str())),
            self.modules.as_ref().map(|_| format!("levels={}", modules.join(","))),
            self.decisions.map(|filter| format!("decisions={}", filter.as_str())),
            self.sample_rate.map(|rate| format!("sample_rate={rate}")),
            self.per_second.map(|most| format!("per_second={most}")),
        ];
        f.write_str(&members.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl RunningLog {
    /// The active settings.
    pub fn now(&self) -> (LogLevels, DecisionLogSettings) {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        (levels.active.clone(), lines.active.clone())
    }

    pub fn decisions(&self) -> &Arc<DecisionLog> {
        &self.decisions
    }

    /// Applies the settings that a reloaded file changed.
    pub fn reload(&self, file: &LogSettings) {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner).follow(&file.levels);
        if let Some(levels) = levels {
            self.filter(&levels);
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner).follow(&file.decisions);
        if let Some(lines) = lines {
            self.decisions.set_settings(&lines);
        }
    }

    /// Applies a change by the admin port, until the file changes or the process ends.
    pub fn change(&self, change: LogChange) {
        // Logged before it applies, so that a change that silences the log is in it.
        tracing::warn!(
            ?change,
            "the log is changed by the admin port, until the configuration's file changes these keys or a restart"
        );
        let levels = {
            let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
            let LogLevels { level, modules } = &mut levels.active;
            *level = change.level.unwrap_or(*level);
            *modules = change.modules.unwrap_or_else(|| std::mem::take(modules));
            levels.active.clone()
        };
        self.filter(&levels);
        let lines = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let DecisionLogSettings { filter, sample_rate, per_second, .. } = &mut lines.active;
            *filter = change.decisions.unwrap_or(*filter);
            *sample_rate = change.sample_rate.unwrap_or(*sample_rate);
            *per_second = change.per_second.unwrap_or(*per_second);
            lines.active.clone()
        };
        self.decisions.set_settings(&lines);
    }

    fn filter(&self, levels: &LogLevels) {
        // Fails only after the subscriber was dropped.
        let _ = self.handle.reload(sources(levels, self.logs_refusals));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Levels by module. The configured level of a module overrides the defaults.
fn sources(levels: &LogLevels, logs_refusals: bool) -> Targets {
    let level = filter(levels.level);
    // h2 logs a warning for each invalid frame, so any client could fill the log and block the service behind a slow
    // reader. Operators who look for such clients set a level for h2.
    let of_h2 = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let of_refusals = if logs_refusals { level } else { LevelFilter::OFF };
    // Configured decisions are logged even if the level is high.
    let of_decisions = if level == LevelFilter::OFF { level } else { level.max(LevelFilter::INFO) };
    Targets::new()
        .with_default(level)
        .with_target("h2", of_h2)
        .with_target(hivemind_tower::RefusalLog::TARGET, of_refusals)
        .with_target(decisions::TARGET, of_decisions)
        .with_targets(levels.modules.iter().map(|(module, level)| (module.clone(), filter(*level))))
        // Last, so that no level disables audit lines: the change that silences the log is itself audited.
        .with_target(AUDIT, LevelFilter::INFO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn levels(level: LogLevel, modules: &[(&str, LogLevel)]) -> LogLevels {
        let modules = modules.iter().map(|(module, level)| ((*module).to_owned(), *level)).collect();
        LogLevels { level, modules }
    }

    #[test]
    fn module_level_overrides_default_and_h2_is_quieter() {
        let usual = sources(&levels(LogLevel::Info, &[]), true);
        assert!(
            usual.would_enable("hivemind", &Level::INFO) && !usual.would_enable("hivemind", &Level::DEBUG)
        );
        assert!(usual.would_enable("h2::proto", &Level::ERROR) && !usual.would_enable("h2", &Level::WARN));
        let modules =
            [("hivemind_mesh", LogLevel::Trace), ("h2", LogLevel::Warn), ("hivemind::reload", LogLevel::Off)];
        let configured = sources(&levels(LogLevel::Error, &modules), true);
        assert!(configured.would_enable("hivemind_mesh_net::session", &Level::TRACE));
        assert!(
            configured.would_enable("h2::proto", &Level::WARN)
                && !configured.would_enable("h2", &Level::INFO)
        );
        assert!(!configured.would_enable("hivemind::reload", &Level::ERROR));
        assert!(!configured.would_enable("hivemind::app", &Level::WARN));
        let loud = sources(&levels(LogLevel::Trace, &[]), true);
        assert!(loud.would_enable("h2", &Level::TRACE));
    }

    #[test]
    fn decisions_are_logged_at_every_level_except_off() {
        for (level, is_logged) in [(LogLevel::Error, true), (LogLevel::Trace, true), (LogLevel::Off, false)] {
            assert_eq!(
                sources(&levels(level, &[]), true).would_enable(decisions::TARGET, &Level::INFO),
                is_logged
            );
        }
        let refusals = hivemind_tower::RefusalLog::TARGET;
        for logs_refusals in [true, false] {
            let sources = sources(&levels(LogLevel::Info, &[]), logs_refusals);
            assert_eq!(sources.would_enable(refusals, &Level::INFO), logs_refusals);
        }
    }

    // Fails when audit lines have a normal target, which `warn`, `off` and a module level silence.
    #[test]
    fn audit_lines_are_logged_at_every_level() {
        for modules in [&[][..], &[(AUDIT, LogLevel::Off)], &[("hivemind", LogLevel::Error)]] {
            let sources = sources(&levels(LogLevel::Off, modules), true);
            assert!(sources.would_enable(AUDIT, &Level::INFO), "{modules:?}");
            assert!(!sources.would_enable("hivemind", &Level::WARN), "{modules:?}");
        }
    }

    #[test]
    fn reloaded_file_applies_only_what_it_changed() {
        let mut spoken = Reloadable { file: 1, active: 7 };
        assert_eq!((spoken.follow(&1), spoken.active), (None, 7));
        assert_eq!((spoken.follow(&2), spoken.active), (Some(2), 2));
    }
}
