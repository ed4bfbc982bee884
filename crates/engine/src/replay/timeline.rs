//! Counts over the time of a recording, in constant memory: when the recording outgrows
//! the columns, each two are merged into one.

const COLUMNS: usize = 60;

/// Counts per column of recorded time.
#[derive(Debug)]
pub struct Timeline<const N: usize> {
    /// Start time of the first column.
    start_ms: u64,
    width_ms: u64,
    columns: Vec<[u64; N]>,
}

impl<const N: usize> Default for Timeline<N> {
    fn default() -> Self {
        Self { start_ms: 0, width_ms: 1, columns: Vec::new() }
    }
}

impl<const N: usize> Timeline<N> {
    pub(super) fn add(&mut self, t_ms: u64, counts: [u64; N]) {
        if self.columns.is_empty() {
            self.start_ms = t_ms;
        }
        // A line earlier than the first counts in the first column: logs are not strictly ordered.
        let offset = t_ms.saturating_sub(self.start_ms);
        while offset / self.width_ms >= COLUMNS as u64 {
            self.halve();
        }
        let index = usize::try_from(offset / self.width_ms).unwrap_or(COLUMNS - 1);
        if self.columns.len() <= index {
            self.columns.resize(index + 1, [0; N]);
        }
        if let Some(column) = self.columns.get_mut(index) {
            column.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    fn halve(&mut self) {
        let pairs = self.columns.chunks(2).map(|pair| {
            pair.iter().fold([0; N], |mut sums, column| {
                sums.iter_mut().zip(column).for_each(|(sum, count)| *sum += count);
                sums
            })
        });
        self.columns = pairs.collect();
        self.width_ms = self.width_ms.saturating_mul(2);
    }

    pub fn columns(&self) -> &[[u64; N]] {
        &self.columns
    }

    /// Start time of the first column.
    pub fn start_ms(&self) -> u64 {
        self.start_ms
    }

    pub fn width_ms(&self) -> u64 {
        self.width_ms
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Timeline};

    #[test]
    fn timeline_keeps_all_counts_of_any_length() {
        for step_ms in [0, 1, 7, 1_000, 86_400_000, u64::MAX / 2_000_000] {
            let mut timeline = Timeline::default();
            for i in 0..1_000 {
                timeline.add(5 + i * step_ms, if i % 3 == 0 { [1, 0] } else { [0, 1] });
            }
            assert!(timeline.columns().len() <= COLUMNS);
            let sum = |of: usize| timeline.columns().iter().map(|counts| counts[of]).sum::<u64>();
            assert_eq!((sum(0), sum(1)), (334, 666), "{step_ms}");
        }
    }
}
