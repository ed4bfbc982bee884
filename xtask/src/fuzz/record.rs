//! Record of a target: the time it had, and what it reached; kept between runs.

use super::status::Status;
use anyhow::{Context, bail};
use std::fmt;

/// What a target had and reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Seconds in the current round; a round ends when each target has had its time.
    pub(super) round_seconds: u64,
    /// Seconds of all rounds.
    pub(super) seconds: u64,
    pub(super) executions: u64,
    pub(super) edges: u64,
    /// Inputs in the corpus, as `files/bytes`.
    pub(super) corpus: String,
}

impl Record {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut record = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(" = ").context("a line is not `name = value`")?;
            let number = || value.parse::<u64>().with_context(|| format!("`{name}` is not a number"));
            match name {
                "round_seconds" => record.round_seconds = number()?,
                "seconds" => record.seconds = number()?,
                "executions" => record.executions = number()?,
                "edges" => record.edges = number()?,
                "corpus" => value.clone_into(&mut record.corpus),
                _ => bail!("unknown name `{name}`"),
            }
        }
        Ok(record)
    }

    /// Adds a slice with its last status. A slice too short for a status line adds only time.
    pub(super) fn add(&mut self, seconds: u64, status: &Status) {
        self.round_seconds += seconds;
        self.seconds += seconds;
        self.executions += status.executions;
        // An interrupted slice may end before it has read the corpus again.
        if status.edges >= self.edges {
            self.edges = status.edges;
            self.corpus.clone_from(&status.corpus);
        }
    }

    pub(super) fn progress(&self, round: u64) -> String {
        let clock = |seconds: u64| format!("{}:{:02}", seconds / 60, seconds % 60);
        let Self { executions, edges, corpus, .. } = self;
        let (now, all) = (clock(self.round_seconds), clock(round));
        format!("{now} of {all}, {executions} executions, {edges} edges, corpus {corpus}")
    }

    pub(super) fn table_row(&self) -> String {
        let Self { seconds, executions, edges, corpus, .. } = self;
        format!("| {} | {executions} | {edges} | {corpus} |", seconds / 60)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round_seconds, seconds, executions, edges, corpus } = self;
        writeln!(f, "round_seconds = {round_seconds}\nseconds = {seconds}\nexecutions = {executions}")?;
        writeln!(f, "edges = {edges}\ncorpus = {corpus}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(executions: u64, edges: u64) -> Status {
        Status { executions, edges, corpus: format!("{edges}/1Kb") }
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        let mut record = Record::default();
        record.add(60, &status(1_000, 20));
        assert_eq!(Record::parse(&record.to_string()).unwrap(), record);
        assert_eq!(Record::parse("").unwrap(), Record::default());
        for invalid in ["seconds", "seconds = many", "hours = 1"] {
            assert!(Record::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn slices_add_time_and_executions_and_keep_coverage() {
        let mut record = Record::default();
        record.add(60, &status(1_000, 20));
        record.add(60, &status(500, 25));
        record.add(30, &Status::default());
        assert_eq!(record.table_row(), "| 2 | 1500 | 25 | 25/1Kb |");
        assert_eq!(record.progress(300), "2:30 of 5:00, 1500 executions, 25 edges, corpus 25/1Kb");
    }
}
