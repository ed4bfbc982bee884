//! Output of the demonstration: on a terminal a table that is redrawn each second, elsewhere one line per second.

use super::child::Child;
use super::load::{RequestCounts, Second};
use std::io::{self, Write};

pub(super) struct DemoTable {
    pub(super) limit: u32,
    pub(super) is_terminal: bool,
}

impl DemoTable {
    pub(super) fn begin(&self, rate: u32) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "Three nodes, one limit of {} requests per second, {rate} per second sent.",
            self.limit
        )?;
        writeln!(out, "Starting them, each as a process with its own certificate ...")?;
        out.flush()
    }

    pub(super) fn found(nodes: &[Child]) -> io::Result<()> {
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

    fn verdict(&self, together: RequestCounts) -> &'static str {
        if together.passed <= u64::from(self.limit) { "held" } else { "EXCEEDED" }
    }

    fn drawn(&self, second: &Second, is_first: bool) -> String {
        let rows = second.nodes.len() + 3;
        // Moves the cursor up to the start of the table.
        let up = if is_first { String::new() } else { format!("\x1b[{rows}A") };
        let row = |[name, asked, passed, refused]: [&str; 4]| {
            format!("\x1b[2K{name:<12}{asked:>8}{passed:>8}{refused:>9}\n")
        };
        let counted = |name: &str, counted: RequestCounts| {
            let [asked, passed, refused] = numbers(counted);
            row([name, &asked, &passed, &refused])
        };
        let each = second.nodes.iter().enumerate();
        let each: String = each.map(|(index, node)| counted(&super::child::name(index), *node)).collect();
        let together = second.together();
        let (head, sum) = (row([&time(second), "sent", "passed", "refused"]), counted("together", together));
        let verdict = self.verdict(together);
        format!("{up}{head}{each}{sum}\x1b[2Klimit {}: {verdict}. Stop with Ctrl-C.\n", self.limit)
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

fn numbers(counted: RequestCounts) -> [String; 3] {
    [counted.asked, counted.passed, counted.asked.saturating_sub(counted.passed)]
        .map(|number| number.to_string())
}

fn time(second: &Second) -> String {
    let of_day = second.at.as_nanos() / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}
