//! What is shown: on a terminal a table that is written anew each second, elsewhere a line for each.

use super::child::Child;
use super::load::{Counted, Second};
use std::io::{self, Write};

pub(super) struct Table {
    pub(super) limit: u32,
    pub(super) is_terminal: bool,
}

impl Table {
    pub(super) fn begin(&self, rate: u32) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "Three nodes, one limit of {} requests a second, {rate} a second asked for.",
            self.limit
        )?;
        writeln!(out, "Starting them, each a process with a certificate of its own ...")?;
        out.flush()
    }

    pub(super) fn found(&self, nodes: &[Child]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for node in nodes {
            writeln!(out, "  {}  mesh {}  admin http://{}", node.name, node.mesh, node.admin)?;
        }
        writeln!(out, "They have found each other.\n")?;
        out.flush()
    }

    pub(super) fn add(&self, second: &Second, is_first: bool) -> io::Result<()> {
        let text = if self.is_terminal { self.drawn(second, is_first) } else { self.line(second) };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    pub(super) fn end(&self, is_held: bool, seconds: u32) -> io::Result<()> {
        let verdict = if is_held { "never exceeded" } else { "EXCEEDED" };
        let mut out = io::stdout().lock();
        writeln!(out, "\nThe limit of {} was {verdict} in {seconds} seconds.", self.limit)?;
        out.flush()
    }

    fn verdict(&self, together: Counted) -> &'static str {
        if together.passed <= u64::from(self.limit) { "held" } else { "EXCEEDED" }
    }

    fn drawn(&self, second: &Second, is_first: bool) -> String {
        let rows = second.nodes.len() + 3;
        // Up to where the table began.
        let mut text = if is_first { String::new() } else { format!("\x1b[{rows}A") };
        let mut row = |cells: [&str; 4]| {
            let [name, asked, passed, refused] = cells;
            text.push_str(&format!("\x1b[2K{name:<12}{asked:>8}{passed:>8}{refused:>9}\n"));
        };
        row([&time(second), "asked", "passed", "refused"]);
        for (index, counted) in second.nodes.iter().enumerate() {
            let [asked, passed, refused] = numbers(*counted);
            row([&super::child::name(index), &asked, &passed, &refused]);
        }
        let together = second.together();
        let [asked, passed, refused] = numbers(together);
        row(["together", &asked, &passed, &refused]);
        text.push_str(&format!(
            "\x1b[2Klimit {}: {}. End it with Ctrl-C.\n",
            self.limit,
            self.verdict(together)
        ));
        text
    }

    fn line(&self, second: &Second) -> String {
        let each = second.nodes.iter().enumerate();
        let each: Vec<String> = each
            .map(|(index, node)| format!("{} {}/{}", super::child::name(index), node.passed, node.asked))
            .collect();
        let together = second.together();
        let (passed, asked) = (together.passed, together.asked);
        let verdict = self.verdict(together);
        let time = time(second);
        format!("{time}  {}  together {passed}/{asked}  limit {}: {verdict}\n", each.join("  "), self.limit)
    }
}

fn numbers(counted: Counted) -> [String; 3] {
    [counted.asked, counted.passed, counted.asked.saturating_sub(counted.passed)]
        .map(|number| number.to_string())
}

fn time(second: &Second) -> String {
    let of_day = second.at.as_nanos() / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}
