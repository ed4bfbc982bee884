//! Text chart of admitted and limited requests over time.

use std::fmt;

const HEIGHT: u64 = 8;

/// One column of the chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) allowed: u64,
    pub(super) limited: u64,
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, what: &str, bars: &[Bar], width_ms: u64) -> fmt::Result {
    let tallest = bars.iter().map(|bar| bar.allowed + bar.limited).max().unwrap_or(0).max(1);
    writeln!(f, "\n{what}: # allowed, x limited; a column is {}", span(width_ms))?;
    for row in (0..HEIGHT).rev() {
        let label = if row == HEIGHT - 1 { tallest.to_string() } else { String::new() };
        let line: String = bars.iter().map(|bar| cell(*bar, row, tallest)).collect();
        writeln!(f, "{label:>10} |{}", line.trim_end())?;
    }
    writeln!(f, "{:>10} +{}", 0, "-".repeat(bars.len()))
}

/// The character of one cell. Limited requests are on top, and visible even if there are few.
fn cell(bar: Bar, row: u64, tallest: u64) -> char {
    let height = |count: u64| (u128::from(count) * u128::from(HEIGHT)).div_ceil(u128::from(tallest));
    let (whole, allowed) = (height(bar.allowed + bar.limited), height(bar.allowed));
    let allowed = if bar.limited > 0 { allowed.min(whole.saturating_sub(1)) } else { allowed };
    match u128::from(row) {
        row if row < allowed => '#',
        row if row < whole => 'x',
        _ => ' ',
    }
}

fn span(millis: u64) -> String {
    match millis {
        0..10_000 => format!("{millis} ms"),
        10_000..600_000 => format!("{} s", millis / 1_000),
        600_000..36_000_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}
