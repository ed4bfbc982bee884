//! The simulator from the shell: `cargo run --release -p hivemind-mesh --example sim -- --help`.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use hivemind_mesh::sim::{Cell, Shape, grid};

fn value<T: std::str::FromStr>(arguments: &[String], name: &str) -> Option<T> {
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1)?.parse().ok()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seed = value(&arguments, "--seed").unwrap_or(1);
    let nodes: Option<usize> = value(&arguments, "--nodes");
    let limit: Option<u32> = value(&arguments, "--limit");
    let seconds: Option<u32> = value(&arguments, "--seconds");
    let load: Option<f64> = value(&arguments, "--load");
    let shape: Option<String> = value(&arguments, "--shape");
    let every: usize = value(&arguments, "--every").unwrap_or(1);
    let first: usize = value(&arguments, "--first").unwrap_or(0);
    let quiet = arguments.iter().any(|argument| argument == "--quiet");
    let chosen = |cell: &Cell| {
        nodes.is_none_or(|n| n == cell.nodes)
            && limit.is_none_or(|l| l == cell.limit)
            && seconds.is_none_or(|s| s == cell.seconds)
            && load.is_none_or(|l| (l - cell.load).abs() < 1e-9)
            && shape.as_ref().is_none_or(|name| format!("{:?}", cell.shape).eq_ignore_ascii_case(name))
    };
    let (mut cells, mut good, mut worst, mut over, mut sum) = (0_u32, 0_u32, 0.0_f64, 0_u64, 0.0);
    for cell in grid().into_iter().filter(chosen).skip(first).step_by(every) {
        let outcome = cell.run(seed);
        cells += 1;
        good += u32::from(outcome.under <= 0.01 && outcome.over == 0);
        worst = worst.max(outcome.under);
        sum += outcome.under;
        over = over.max(outcome.over);
        if !quiet || outcome.under > 0.01 || outcome.over > 0 {
            let Cell { nodes, limit, seconds, load, shape, .. } = &cell;
            println!(
                "{limit}/{seconds}s n={nodes} {shape:?} load={load}: over {} under {:.2}% waited {:.3} {:.0} B/s",
                outcome.over,
                100.0 * outcome.under,
                outcome.waited,
                outcome.bytes
            );
        }
    }
    println!(
        "cells {cells} good {good} ({:.1}%) under mean {:.2}% worst {:.2}% over {over}",
        100.0 * f64::from(good) / f64::from(cells.max(1)),
        100.0 * sum / f64::from(cells.max(1)),
        100.0 * worst
    );
    let _ = Shape::ALL;
}
