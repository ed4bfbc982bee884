//! All instruments of the service, read as one snapshot.

use super::family::Family;
use super::shared_store_metrics::SharedStoreMetrics;
use super::stats::Stats;
use crate::mesh_metrics::MeshMetrics;
use hivemind_core::store::Occupancy;
use std::sync::Arc;

/// A snapshot of the counters that other components own.
#[derive(Debug)]
pub struct BackendMetrics {
    pub occupancy: Occupancy,
    pub store: SharedStoreMetrics,
    pub mesh: MeshMetrics,
}

/// All instruments.
#[derive(Clone)]
pub struct Instruments {
    pub stats: Arc<Stats>,
    /// Reads the counters of the storage and the mesh.
    pub backend: Arc<dyn Fn() -> BackendMetrics + Send + Sync>,
}

impl Instruments {
    /// The present values.
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

    /// Every family, with a series for each label name.
    fn all() -> Vec<Family> {
        let stats = Stats::default();
        let keys = vec!["tenant".to_owned(), "path".to_owned()];
        let rule = stats.rules.of_rule(&StatName::new("d", keys));
        stats.rules.domain_not_found("unknown");
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

    /// Name, type and labels as in a row of the page. Labels of only some series come last.
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

    // Fails when a row is missing or describes an unknown metric, when a counter is a `gauge`, for `peer` instead of
    // `peer_id`, for labels in another order, and for a label of a metric without labels.
    #[test]
    fn metrics_page_lists_each_metric_with_type_and_labels() {
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
