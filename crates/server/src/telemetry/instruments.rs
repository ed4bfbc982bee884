//! Everything that is counted, read at once.

use super::family::Family;
use super::stats::Stats;
use super::store_figures::StoreFigures;
use crate::mesh::{MeshFigures, RunningMesh};
use crate::storage::{self, Storage};
use hivemind_core::store::Occupancy;
use std::sync::Arc;

/// Everything that is counted.
#[derive(Clone)]
pub(crate) struct Instruments {
    pub(crate) stats: Arc<Stats>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) mesh: Option<Arc<RunningMesh>>,
}

impl Instruments {
    /// As it is now.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mesh = self.mesh.as_ref().map(|mesh| mesh.figures()).unwrap_or_default();
        let occupancy = self.storage.memory().occupancy();
        families(&self.stats, occupancy, &storage::figures(&self.storage), &mesh)
    }
}

fn families(stats: &Stats, occupancy: Occupancy, store: &StoreFigures, mesh: &MeshFigures) -> Vec<Family> {
    let mut families = stats.families(occupancy);
    families.extend(store.families());
    families.extend(mesh.families());
    families
}

#[cfg(test)]
mod tests {
    use super::{MeshFigures, Stats, StoreFigures, families};
    use crate::telemetry::exposition;
    use hivemind_core::store::{MemoryStore, StoreOptions};
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

    // Seen failing on: a row left out, and one of a metric that is not there.
    #[test]
    fn every_metric_is_on_the_operators_page_with_its_type_and_no_other() {
        let occupancy = MemoryStore::new(StoreOptions::default()).occupancy();
        let (store, mesh) = (StoreFigures::default(), MeshFigures::default());
        let exposed = exposition(&families(&Stats::default(), occupancy, &store, &mesh));
        let types = exposed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let exposed: BTreeSet<String> = types.map(str::to_owned).collect();
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| row.replace('`', ""));
        let of_page = rows.filter(|row| row.starts_with("ratelimit_") || row.starts_with("hivemind_"));
        let of_page: BTreeSet<String> =
            of_page.map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(exposed, of_page);
    }
}
