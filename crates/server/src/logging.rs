//! The log: on standard error, text for people and JSON for machines.

use crate::config::{LogFormat, LogLevel, Observability};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// `tells_refusals` says whether refusals of HTTP requests are told here, and not in a log of their own.
pub(crate) fn start(observability: &Observability, tells_refusals: bool) {
    let level = match observability.log_level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let json = match observability.log_format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    // A line that cannot be written is lost. To say so it would be written to standard error, by a macro
    // that panics where nobody reads that any more: the process would end with its log's reader.
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    if json {
        log.json().finish().with(sources(level, tells_refusals)).init();
    } else {
        log.finish().with(sources(level, tells_refusals)).init();
    }
    // A panic ends a call or a task, and not the process: whoever reads the log has to find it there.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// Who may say how much.
fn sources(level: LevelFilter, tells_refusals: bool) -> Targets {
    // h2 warns of each frame that nobody should send, so that any client could fill the log and,
    // where nobody reads it fast enough, stop the service. Whoever looks for such clients asks for more.
    let of_h2 = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let of_refusals = if tells_refusals { level } else { LevelFilter::OFF };
    Targets::new()
        .with_default(level)
        .with_target("h2", of_h2)
        .with_target(hivemind_tower::RefusalLog::TARGET, of_refusals)
}
