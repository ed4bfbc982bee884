//! Metric families of the mesh. The `peer_id` label is the peer's name, so there are at most `max_peers` values.

use super::{BUCKETS_US, Latencies, MeshMetrics, PeerMetrics};
use crate::family::{Family, Histogram, MetricValue, as_level};

/// States and transports of a peer. Every pair has a series, so that a pair that never occurred is 0 rather than absent.
const ALIVE: &str = "alive";
const STATES: [&str; 4] = [ALIVE, "suspect", "dead", "quarantined"];
const TRANSPORTS: [&str; 3] = ["quic", "tcp", "none"];

/// Converts microseconds to a larger unit.
fn in_units(micros: u64, micros_per_unit: f64) -> f64 {
    as_level(micros) / micros_per_unit
}

const MILLIS: f64 = 1_000.0;
const SECONDS: f64 = 1_000_000.0;

impl MeshMetrics {
    pub fn families(&self) -> Vec<Family> {
        let active = self.peers.iter().filter(|peer| peer.state == ALIVE).count() as u64;
        let mut families = vec![
            Family::gauge("ratelimit.mesh.peers.active", "Peers that are alive.").plain(active),
            Family::gauge("hivemind_mesh_members", "Members of the newest view, this node included.")
                .plain(self.members),
            Family::gauge("hivemind_mesh_keys", "Counters that are shared.").plain(self.keys),
        ];
        families.extend(self.counters().map(|(name, help, value)| {
            Family::counter(format!("hivemind_mesh_{name}_total"), help).plain(value)
        }));
        families.extend(self.of_peers());
        families.push(self.states());
        families.push(self.messages());
        families.push(self.latencies());
        for (name, help, moment) in [
            (
                "hivemind_mesh_certificate_expiry_seconds",
                "When this node's certificate ends, in Unix time.",
                self.certificate_expiry,
            ),
            (
                "hivemind_mesh_ca_expiry_seconds",
                "When the CA of the mesh ends, in Unix time.",
                self.ca_expiry,
            ),
        ] {
            let expiry = Family::gauge(name, help).unit("s");
            families.push(match moment {
                Some(moment) => expiry.plain(moment),
                None => expiry,
            });
        }
        families
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 11] {
        [
            (
                "overadmission",
                "Admitted above a limit, computed from merged counters when its window was over.",
                self.overadmission,
            ),
            (
                "beyond_rights",
                "Admitted past the rights held, because an owner could not be reached.",
                self.beyond_rights,
            ),
            ("asks", "Asks sent to owners of counters.", self.asks),
            ("waited", "Decisions that waited for an owner, or for rights that were recalled.", self.waited),
            ("overlaps", "Times that two views were found for the same windows.", self.overlaps),
            ("unshared", "Decisions made alone because too many counters were shared.", self.unshared),
            ("unreadable", "Frames that could not be read.", self.unreadable),
            ("callers_refused", "Calls at the mesh port that came to nothing.", self.callers_refused),
            (
                "notes_dropped",
                "Blocks that ended early, because peers said more than there is room for.",
                self.notes_dropped,
            ),
            (
                "notes_unbelieved",
                "Blocks of peers that were dated ahead or for too long.",
                self.notes_unbelieved,
            ),
            ("notes_unheard", "Blocks of peers that announced too many in a second.", self.notes_unheard),
        ]
    }

    /// A family with a series for each peer that has a value.
    fn by_peer(&self, family: Family, value: impl Fn(&PeerMetrics) -> Option<MetricValue>) -> Family {
        self.peers.iter().fold(family, |mut family, peer| {
            if let Some(value) = value(peer) {
                family.add([("peer_id", peer.name.as_str())], value, None);
            }
            family
        })
    }

    fn of_peers(&self) -> [Family; 5] {
        let sent = Family::counter("ratelimit.mesh.bytes_sent.total", "Bytes sent to a peer.");
        let received = Family::counter("ratelimit.mesh.bytes_received.total", "Bytes received from a peer.");
        let lost = Family::counter(
            "hivemind_mesh_frames_lost_total",
            "Frames to a peer for which there was no room.",
        );
        let round_trip =
            Family::gauge("hivemind_mesh_round_trip_seconds", "How long a packet takes to a peer and back.");
        let offset = Family::gauge(
            "hivemind_mesh_clock_offset_seconds",
            "How far a peer's clock is ahead of this node's.",
        );
        let ahead = |micros: i64| {
            let seconds = in_units(micros.unsigned_abs(), SECONDS);
            if micros < 0 { -seconds } else { seconds }
        };
        [
            self.by_peer(sent.unit("By"), |peer| Some(MetricValue::Count(peer.bytes_sent))),
            self.by_peer(received.unit("By"), |peer| Some(MetricValue::Count(peer.bytes_received))),
            self.by_peer(lost, |peer| Some(MetricValue::Count(peer.frames_lost))),
            self.by_peer(round_trip.unit("s"), |peer| {
                peer.round_trip_us.map(|micros| MetricValue::Level(in_units(micros, SECONDS)))
            }),
            self.by_peer(offset.unit("s"), |peer| {
                peer.clock_offset_us.map(|micros| MetricValue::Level(ahead(micros)))
            }),
        ]
    }

    fn states(&self) -> Family {
        let mut family =
            Family::gauge("hivemind_mesh_peers", "Peers by how they are and how they are reached.");
        for state in STATES {
            for transport in TRANSPORTS {
                let is_so = |peer: &&PeerMetrics| peer.state == state && peer.transport == transport;
                let count = self.peers.iter().filter(is_so).count() as u64;
                family = family.with([("state", state), ("transport", transport)], count);
            }
        }
        family
    }

    fn messages(&self) -> Family {
        let mut family = Family::counter(
            "ratelimit.mesh.state_updates.total",
            "Messages to and from a peer, signs of life among them.",
        );
        for peer in &self.peers {
            for (operation, count) in [("send", peer.messages_sent), ("receive", peer.messages_received)] {
                let labels = [("operation", operation), ("peer_id", peer.name.as_str())];
                family.add(labels, MetricValue::Count(count), None);
            }
        }
        family
    }

    fn latencies(&self) -> Family {
        let mut family = Family::histogram(
            "ratelimit.mesh.sync.latency",
            "Round trips to a peer, looked at once a second, in milliseconds.",
        )
        .unit("ms");
        for peer in &self.peers {
            let Latencies { buckets, count, sum_us } = peer.latencies;
            let beyond = count.saturating_sub(buckets.iter().sum());
            let histogram = Histogram {
                edges: BUCKETS_US.iter().map(|edge| in_units(*edge, MILLIS)).collect(),
                buckets: buckets.into_iter().chain([beyond]).collect(),
                sum: in_units(sum_us, MILLIS),
            };
            let labels = [("operation", "round_trip"), ("peer_id", peer.name.as_str())];
            family.add(labels, MetricValue::Histogram(histogram), None);
        }
        family
    }
}
