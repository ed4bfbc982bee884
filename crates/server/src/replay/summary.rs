//! Who would have been limited: a table, and a chart over time.

use super::engine::Taken;
use super::recorded::Recorded;
use super::timeline::{Column, Timeline};
use super::top::Top;
use crate::harmless::harmless;
use std::fmt::{self, Write};

const SHOWN: usize = 10;
const BAR_HEIGHT: u64 = 8;

/// What a replay came to.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    requests: u64,
    limited: u64,
    unlimited: u64,
    top: Top,
    timeline: Timeline,
}

impl Summary {
    pub(crate) fn add(&mut self, recorded: &Recorded<'_>, taken: &Taken) {
        self.requests += 1;
        self.limited += u64::from(!taken.allow);
        self.unlimited += u64::from(taken.remaining.is_none());
        self.timeline.add(recorded.t_ms, taken.allow);
        if !taken.allow {
            self.top.add(&name(recorded));
        }
    }
}

/// Whom a request names, on one line whatever it contains, and no longer than a terminal is wide.
fn name(recorded: &Recorded<'_>) -> String {
    let mut name = recorded.domain.to_string();
    for (key, value) in &recorded.entries {
        let _ = write!(name, " {key}={value}"); // Writing to a string cannot fail.
    }
    harmless(&name, 80)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.requests - self.limited;
        writeln!(f, "{:>10} requests", self.requests)?;
        writeln!(
            f,
            "{allowed:>10} allowed ({}), of these {} under no limit",
            percent(allowed, self.requests),
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
                format!("  (at most {} too many)", tally.error)
            };
            writeln!(f, "{:>10}  {name}{doubt}", tally.limited)?;
        }
        if self.requests > 0 { self.chart(f) } else { Ok(()) }
    }
}

impl Summary {
    fn chart(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.timeline.columns();
        let tallest = columns.iter().map(|column| column.allowed + column.limited).max().unwrap_or(0).max(1);
        writeln!(f, "\nOver time: # allowed, x limited; a column is {}", span(self.timeline.width_ms()))?;
        for row in (0..BAR_HEIGHT).rev() {
            let label = if row == BAR_HEIGHT - 1 { tallest.to_string() } else { String::new() };
            let bar: String = columns.iter().map(|column| cell(*column, row, tallest)).collect();
            writeln!(f, "{label:>10} |{}", bar.trim_end())?;
        }
        writeln!(f, "{:>10} +{}", 0, "-".repeat(columns.len()))
    }
}

/// What stands in one place of the chart. What was limited stands on top, and is seen however little it is.
fn cell(column: Column, row: u64, tallest: u64) -> char {
    let height = |count: u64| (u128::from(count) * u128::from(BAR_HEIGHT)).div_ceil(u128::from(tallest));
    let (whole, allowed) = (height(column.allowed + column.limited), height(column.allowed));
    let allowed = if column.limited > 0 { allowed.min(whole.saturating_sub(1)) } else { allowed };
    match u128::from(row) {
        row if row < allowed => '#',
        row if row < whole => 'x',
        _ => ' ',
    }
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn span(millis: u64) -> String {
    match millis {
        0..10_000 => format!("{millis} ms"),
        10_000..600_000 => format!("{} s", millis / 1_000),
        600_000..36_000_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}
