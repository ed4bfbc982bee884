//! Everything that is counted, read at once.

use super::family::Family;
use super::shared_store_metrics::SharedStoreMetrics;
use super::stats::Stats;
use crate::mesh_metrics::MeshMetrics;
use hivemind_core::store::Occupancy;
use std::sync::Arc;

/// What is counted by those who keep the counters, read at once.
#[derive(Debug)]
pub struct BackendMetrics {
    pub occupancy: Occupancy,
    pub store: SharedStoreMetrics,
    pub mesh: MeshMetrics,
}

/// Everything that is counted.
#[derive(Clone)]
pub struct Instruments {
    pub stats: Arc<Stats>,
    /// Reads what the storage and the mesh count.
    pub backend: Arc<dyn Fn() -> BackendMetrics + Send + Sync>,
}

impl Instruments {
    /// As it is now.
    pub fn families(&self) -> Vec<Family> {
        let BackendMetrics { occupancy, store, mesh } = (self.backend)();
        families(&self.stats, occupancy, &store, &mesh)
    }
}

fn families(
    stats: &Stats,
    occupancy: Occupancy,
    store: &SharedStoreMetrics,
    mesh: &MeshMetrics,
) -> Vec<Family> {
    let mut families = stats.families(occupancy);
    families.extend(store.families());
    families.extend(mesh.families());
    families
}

#[cfg(test)]
mod tests {
    use super::{Family, MeshMetrics, SharedStoreMetrics, Stats, families};
    use crate::mesh_metrics::PeerMetrics;
    use crate::rule_stats::StatName;
    use hivemind_core::store::{MemoryStore, StoreOptions};
    use hivemind_core::{Period, Timestamp};
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;

    const PAGE: &str = include_str!("../../../docs/reference/metrics.md");

    /// Every family, each with a series of every name that its labels can have.
    fn all() -> Vec<Family> {
        let stats = Stats::default();
        let keys = vec!["tenant".to_owned(), "path".to_owned()];
        let rule = stats.rules.of_rule(&StatName::new("d", keys));
        stats.rules.domain_not_found("nobody's");
        let now = Timestamp::from_millis(1);
        let domain = stats.series.domain("d", now);
        let key = stats.series.key("d", ["path"].into_iter(), now);
        let level = stats.series.level("d", ["path"].into_iter(), Period::MINUTE);
        level.as_ref().unwrap().set(1);
        stats.certificate_expiry.store(1, Ordering::Relaxed);
        let (round_trip_us, clock_offset_us) = (Some(1), Some(1));
        let peer = PeerMetrics { round_trip_us, clock_offset_us, ..PeerMetrics::default() };
        let (certificate_expiry, ca_expiry) = (Some(1), Some(1));
        let mesh = MeshMetrics { peers: vec![peer], certificate_expiry, ca_expiry, ..MeshMetrics::default() };
        let occupancy = MemoryStore::new(StoreOptions::default()).occupancy();
        let families = families(&stats, occupancy, &SharedStoreMetrics::default(), &mesh);
        drop((rule, domain, key, level));
        families
    }

    /// Name, type and labels as a row of the page has them. A label that only some series have comes after the others.
    fn row(family: &Family) -> String {
        let mut labels: Vec<&str> = Vec::new();
        for (name, _) in family.series.iter().flat_map(|series| &series.labels) {
            if !labels.contains(name) {
                labels.push(name);
            }
        }
        let labels: Vec<String> = labels.iter().map(|name| format!("`{name}`")).collect();
        format!("| `{}` | {} | {}", family.name.replace('.', "_"), family.kind.name(), labels.join(", "))
            .trim_end()
            .to_owned()
    }

    // Seen failing on: a row left out, one of a metric that is not there, `gauge` for a counter, `peer` for `peer_id`, two
    // labels in another order, and a label of a metric that has none.
    #[test]
    fn every_metric_is_on_the_operators_page_with_its_type_and_labels_and_no_other() {
        let all = all();
        let lacking: Vec<&str> =
            all.iter().filter(|family| family.series.is_empty()).map(|family| family.name.as_str()).collect();
        assert!(lacking.is_empty(), "these have no series, so their labels are not known: {lacking:?}");
        let code: BTreeSet<String> = all.iter().map(row).collect();
        let rows =
            PAGE.lines().filter(|line| line.starts_with("| `ratelimit_") || line.starts_with("| `hivemind_"));
        // A cell without labels is `| |`.
        let cells = rows.map(|line| line.replace("| | ", "|  | "));
        let page: Vec<String> = cells
            .map(|line| line.splitn(4, " | ").take(3).collect::<Vec<_>>().join(" | ").trim_end().to_owned())
            .collect();
        let unique: BTreeSet<String> = page.iter().cloned().collect();
        assert_eq!(unique.difference(&code).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the code");
        assert_eq!(code.difference(&unique).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
        assert_eq!(page.len(), all.len(), "a metric is there twice");
    }
}
