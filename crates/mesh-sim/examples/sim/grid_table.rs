//! Runs the grid and stores the result of each cell in a file, so that an interrupted run can be resumed.

use crate::value;
use hivemind_mesh_sim::{GridCell, GridResult, grid};
use std::collections::BTreeMap;
use std::io::Write;

/// Options to compare with the default.
const VARIANTS: [&str; 4] = ["default", "no-recall", "no-early", "neither"];

const HEADING: &str = "variant,seed,seconds,limit,nodes,shape,load,over,under,waited,bytes";

/// The cells selected by the arguments.
pub(crate) fn choose_cells(arguments: &[String]) -> Vec<GridCell> {
    let nodes: Option<usize> = value(arguments, "--nodes");
    let limit: Option<u32> = value(arguments, "--limit");
    let seconds: Option<u32> = value(arguments, "--seconds");
    let load: Option<f64> = value(arguments, "--load");
    let shape: Option<String> = value(arguments, "--shape");
    let matches = |cell: &GridCell| {
        nodes.is_none_or(|nodes| nodes == cell.nodes)
            && limit.is_none_or(|limit| limit == cell.limit)
            && seconds.is_none_or(|seconds| seconds == cell.seconds)
            && load.is_none_or(|load| (load - cell.load).abs() < 1e-9)
            && shape.as_ref().is_none_or(|name| format!("{:?}", cell.shape).eq_ignore_ascii_case(name))
    };
    let every = value(arguments, "--every").unwrap_or(1);
    let first = value(arguments, "--first").unwrap_or(0);
    let variant = variant(arguments);
    let set = |mut cell: GridCell| {
        cell.options.recall = !matches!(variant, "no-recall" | "neither");
        if matches!(variant, "no-early" | "neither") {
            cell.options.early = std::time::Duration::ZERO;
        }
        cell
    };
    grid().into_iter().filter(matches).skip(first).step_by(every).map(set).collect()
}

fn variant(arguments: &[String]) -> &'static str {
    let name: Option<String> = value(arguments, "--variant");
    VARIANTS.into_iter().find(|known| Some(*known) == name.as_deref()).unwrap_or("default")
}

/// The parameters of a row.
fn name_of(cell: &GridCell, variant: &str, seed: u64) -> String {
    let GridCell { nodes, limit, seconds, load, shape, .. } = cell;
    format!("{variant},{seed},{seconds},{limit},{nodes},{shape:?},{load}")
}

fn parse_row(row: &str) -> Option<(String, GridResult)> {
    let mut parts: Vec<&str> = row.rsplitn(5, ',').collect();
    parts.reverse();
    let [name, over, under, waited, bytes] = parts.as_slice() else { return None };
    let outcome = GridResult {
        over: over.parse().ok()?,
        under: under.parse().ok()?,
        waited: waited.parse().ok()?,
        bytes: bytes.parse().ok()?,
    };
    Some(((*name).to_owned(), outcome))
}

/// Runs the cells selected by the arguments, except those already in the file, and prints a summary.
pub(crate) fn run(arguments: &[String], seed: u64) -> std::io::Result<()> {
    let quiet = arguments.iter().any(|argument| argument == "--quiet");
    let variant = variant(arguments);
    let file: Option<String> = value(arguments, "--out");
    let known = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let mut known: BTreeMap<String, GridResult> = known.lines().filter_map(parse_row).collect();
    let mut out = match &file {
        Some(file) => Some(std::fs::OpenOptions::new().create(true).append(true).open(file)?),
        None => None,
    };
    if let Some(out) = out.as_mut().filter(|_| known.is_empty()) {
        writeln!(out, "{HEADING}")?;
    }
    let cells = choose_cells(arguments);
    let mut table = Table::default();
    for (index, cell) in cells.iter().enumerate() {
        let name = name_of(cell, variant, seed);
        let outcome = if let Some(outcome) = known.remove(&name) {
            outcome
        } else {
            let outcome = cell.run(seed);
            let GridResult { over, under, waited, bytes } = outcome;
            if let Some(out) = &mut out {
                writeln!(out, "{name},{over},{under:.6},{waited:.4},{bytes:.0}")?;
            }
            if !quiet || under > 0.01 || over > 0 {
                println!(
                    "{} of {}: {name}: over {over}, under {:.2} %, waited {waited:.3}, {bytes:.0} B/s",
                    index + 1,
                    cells.len(),
                    100.0 * under
                );
            }
            outcome
        };
        table.add(cell, &outcome);
    }
    table.print();
    Ok(())
}

/// One row of the table: a limit, or all limits.
#[derive(Default)]
struct TableRow {
    cells: u32,
    over: u64,
    under: f64,
    worst: f64,
    above_1: u32,
    above_10: u32,
    waited: f64,
    bytes: f64,
}

#[derive(Default)]
struct Table(BTreeMap<(u32, u32), TableRow>);

impl Table {
    fn add(&mut self, cell: &GridCell, outcome: &GridResult) {
        for name in [(cell.seconds, cell.limit), (u32::MAX, u32::MAX)] {
            let line = self.0.entry(name).or_default();
            line.cells += 1;
            line.over = line.over.max(outcome.over);
            line.under += outcome.under;
            line.worst = line.worst.max(outcome.under);
            line.above_1 += u32::from(outcome.under > 0.01);
            line.above_10 += u32::from(outcome.under > 0.1);
            line.waited += outcome.waited;
            line.bytes += outcome.bytes;
        }
    }

    fn print(&self) {
        println!(
            "| limit | cells | over | under, %: mean / worst | above 1 % | above 10 % | requests that waited | B/s a node |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for ((seconds, limit), line) in &self.0 {
            let cells = f64::from(line.cells.max(1));
            let name = if *limit == u32::MAX { "all".to_owned() } else { format!("{limit} in {seconds} s") };
            println!(
                "| {name} | {} | {} | {:.3} / {:.2} | {} | {} | {:.2} | {:.0} |",
                line.cells,
                line.over,
                100.0 * line.under / cells,
                100.0 * line.worst,
                line.above_1,
                line.above_10,
                line.waited / cells,
                line.bytes / cells
            );
        }
    }
}
