//! The metrics as Prometheus reads them.

use super::family::{Family, Histogram, MetricValue, Series};
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
            MetricValue::Count(count) => writeln!(page, "{name}{} {count}", labels(series, None))?,
            MetricValue::Level(level) => writeln!(page, "{name}{} {level}", labels(series, None))?,
            MetricValue::Histogram(histogram) => write_histogram(page, &name, series, histogram)?,
        }
    }
    Ok(())
}

fn write_histogram(page: &mut String, name: &str, series: &Series, histogram: &Histogram) -> fmt::Result {
    let mut so_far = 0;
    for (edge, count) in histogram.edges.iter().zip(&histogram.buckets) {
        so_far += count;
        writeln!(page, "{name}_bucket{} {so_far}", labels(series, Some(&edge.to_string())))?;
    }
    let count = histogram.count();
    writeln!(page, "{name}_bucket{} {count}", labels(series, Some("+Inf")))?;
    writeln!(page, "{name}_sum{} {}", labels(series, None), histogram.sum)?;
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
