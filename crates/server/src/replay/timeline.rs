//! How many passed and how many did not, over the time of the recording, in
//! constant memory: when the recording outgrows the columns, two become one.

const COLUMNS: usize = 60;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) allowed: u64,
    pub(super) limited: u64,
}

/// The counts of each span of the recording.
#[derive(Debug)]
pub(super) struct Timeline {
    /// The time at which the first column begins.
    start_ms: u64,
    width_ms: u64,
    columns: Vec<Column>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { start_ms: 0, width_ms: 1, columns: Vec::new() }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, t_ms: u64, allow: bool) {
        if self.columns.is_empty() {
            self.start_ms = t_ms;
        }
        // A line that is earlier than the first counts with it: logs are not strictly ordered.
        let offset = t_ms.saturating_sub(self.start_ms);
        while offset / self.width_ms >= COLUMNS as u64 {
            self.halve();
        }
        let index = usize::try_from(offset / self.width_ms).unwrap_or(COLUMNS - 1);
        if self.columns.len() <= index {
            self.columns.resize(index + 1, Column::default());
        }
        if let Some(column) = self.columns.get_mut(index) {
            column.allowed += u64::from(allow);
            column.limited += u64::from(!allow);
        }
    }

    fn halve(&mut self) {
        let pairs = self.columns.chunks(2).map(|pair| {
            pair.iter().fold(Column::default(), |sum, column| Column {
                allowed: sum.allowed + column.allowed,
                limited: sum.limited + column.limited,
            })
        });
        self.columns = pairs.collect();
        self.width_ms = self.width_ms.saturating_mul(2);
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn width_ms(&self) -> u64 {
        self.width_ms
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Column, Timeline};

    #[test]
    fn a_recording_of_any_length_fits_and_nothing_is_lost() {
        for step_ms in [0, 1, 7, 1_000, 86_400_000, u64::MAX / 2_000_000] {
            let mut timeline = Timeline::default();
            for i in 0..1_000 {
                timeline.add(5 + i * step_ms, i % 3 == 0);
            }
            assert!(timeline.columns().len() <= COLUMNS);
            let sum = |count: fn(&Column) -> u64| timeline.columns().iter().map(count).sum::<u64>();
            assert_eq!((sum(|c| c.allowed), sum(|c| c.limited)), (334, 666), "{step_ms}");
        }
    }
}
