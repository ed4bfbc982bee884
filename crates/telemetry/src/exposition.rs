//! The metrics as Prometheus reads them.

use super::family::{Family, Series, Spread, Value};
use std::fmt::{self, Write};

/// The whole page.
pub fn exposition(families: &[Family]) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = families.iter().try_for_each(|family| write_family(&mut page, family));
    page
}

fn write_family(page: &mut String, family: &Family) -> fmt::Result {
    let name = family.name.replace('.', "_");
    writeln!(page, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind.name())?;
    for series in &family.series {
        match &series.value {
            Value::Count(count) => writeln!(page, "{name}{} {count}", labels(series, None))?,
            Value::Level(level) => writeln!(page, "{name}{} {level}", labels(series, None))?,
            Value::Spread(spread) => write_spread(page, &name, series, spread)?,
        }
    }
    Ok(())
}

fn write_spread(page: &mut String, name: &str, series: &Series, spread: &Spread) -> fmt::Result {
    let mut so_far = 0;
    for (edge, count) in spread.edges.iter().zip(&spread.buckets) {
        so_far += count;
        writeln!(page, "{name}_bucket{} {so_far}", labels(series, Some(&edge.to_string())))?;
    }
    let count = spread.count();
    writeln!(page, "{name}_bucket{} {count}", labels(series, Some("+Inf")))?;
    writeln!(page, "{name}_sum{} {}", labels(series, None), spread.sum)?;
    writeln!(page, "{name}_count{} {count}", labels(series, None))
}

/// The labels in their brackets, with the edge of a bucket among them.
fn labels(series: &Series, edge: Option<&str>) -> String {
    let of_series = series.labels.iter().map(|(name, text)| (*name, text.as_str()));
    let all: Vec<String> = of_series
        .chain(edge.map(|edge| ("le", edge)))
        .map(|(name, text)| format!("{name}=\"{}\"", escaped(text)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
