//! What is counted of the mesh, as Prometheus reads it. The first names are those of the design that the
//! mesh comes from, with `_` for its dots; a peer's label is its name, and there are as many as `max_peers`.

use super::exposition::{escaped, head};
use crate::mesh::{BUCKETS_US, MeshFigures, PeerFigures};
use std::fmt::{self, Write};

/// How a peer can be, and how it can be reached: every pair is on the page, so that one that was never there is 0.
const ALIVE: &str = "alive";
const STATES: [&str; 4] = [ALIVE, "suspect", "dead", "quarantined"];
const TRANSPORTS: [&str; 3] = ["quic", "tcp", "none"];

type OfPeer = fn(&PeerFigures) -> Option<String>;

const BY_PEER: [(&str, &str, &str, OfPeer); 5] = [
    ("ratelimit_mesh_bytes_sent_total", "counter", "Bytes sent to a peer.", |peer| {
        Some(peer.bytes_sent.to_string())
    }),
    ("ratelimit_mesh_bytes_received_total", "counter", "Bytes received from a peer.", |peer| {
        Some(peer.bytes_received.to_string())
    }),
    ("hivemind_mesh_frames_lost_total", "counter", "Frames to a peer for which there was no room.", |peer| {
        Some(peer.frames_lost.to_string())
    }),
    ("hivemind_mesh_round_trip_seconds", "gauge", "How long a packet takes to a peer and back.", |peer| {
        peer.round_trip_us.map(|micros| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))
    }),
    (
        "hivemind_mesh_clock_offset_seconds",
        "gauge",
        "How far a peer's clock is ahead of this node's.",
        |peer| {
            let seconds = |micros: i64| {
                let (whole, part) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
                format!("{}{whole}.{part:06}", if micros < 0 { "-" } else { "" })
            };
            peer.clock_offset_us.map(seconds)
        },
    ),
];

fn millis(micros: u64) -> String {
    let text = format!("{}.{:03}", micros / 1_000, micros % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl MeshFigures {
    pub(super) fn write(&self, page: &mut String) -> fmt::Result {
        let active = self.peers.iter().filter(|peer| peer.state == ALIVE).count() as u64;
        for (name, kind, help, value) in [
            ("ratelimit_mesh_peers_active", "gauge", "Peers that are alive.", active),
            (
                "hivemind_mesh_members",
                "gauge",
                "Members of the newest view, this node included.",
                self.members,
            ),
            ("hivemind_mesh_keys", "gauge", "Counters that are shared.", self.keys),
            (
                "hivemind_mesh_overadmission_total",
                "counter",
                "Admitted above a limit, reckoned from merged counters when its window was over.",
                self.overadmission,
            ),
            (
                "hivemind_mesh_beyond_rights_total",
                "counter",
                "Admitted past the rights held, because an owner could not be reached.",
                self.beyond_rights,
            ),
            ("hivemind_mesh_asks_total", "counter", "Asks sent to owners of counters.", self.asks),
            (
                "hivemind_mesh_waited_total",
                "counter",
                "Decisions that waited for an owner, or for rights that were recalled.",
                self.waited,
            ),
            (
                "hivemind_mesh_overlaps_total",
                "counter",
                "Times that two views were found for the same windows.",
                self.overlaps,
            ),
            (
                "hivemind_mesh_unshared_total",
                "counter",
                "Decisions made alone because too many counters were shared.",
                self.unshared,
            ),
            ("hivemind_mesh_unreadable_total", "counter", "Frames that could not be read.", self.unreadable),
            (
                "hivemind_mesh_callers_refused_total",
                "counter",
                "Calls at the mesh port that came to nothing.",
                self.callers_refused,
            ),
        ] {
            head(page, name, kind, help)?;
            writeln!(page, "{name} {value}")?;
        }
        for (name, kind, help, value) in BY_PEER {
            head(page, name, kind, help)?;
            for peer in &self.peers {
                if let Some(value) = value(peer) {
                    writeln!(page, "{name}{{peer_id=\"{}\"}} {value}", escaped(&peer.name))?;
                }
            }
        }
        self.write_states(page)?;
        self.write_messages(page)?;
        self.write_latencies(page)?;
        self.write_expiries(page)
    }

    fn write_expiries(&self, page: &mut String) -> fmt::Result {
        for (expiry, help, moment) in [
            (
                "hivemind_mesh_certificate_expiry_seconds",
                "When this node's certificate ends.",
                self.certificate_expiry,
            ),
            ("hivemind_mesh_ca_expiry_seconds", "When the CA of the mesh ends.", self.ca_expiry),
        ] {
            head(page, expiry, "gauge", help)?;
            moment.map_or(Ok(()), |moment| writeln!(page, "{expiry} {moment}"))?;
        }
        Ok(())
    }

    fn write_states(&self, page: &mut String) -> fmt::Result {
        let name = "hivemind_mesh_peers";
        head(page, name, "gauge", "Peers by how they are and how they are reached.")?;
        for state in STATES {
            for transport in TRANSPORTS {
                let is_so = |peer: &&PeerFigures| peer.state == state && peer.transport == transport;
                let count = self.peers.iter().filter(is_so).count();
                writeln!(page, "{name}{{state=\"{state}\",transport=\"{transport}\"}} {count}")?;
            }
        }
        Ok(())
    }

    fn write_messages(&self, page: &mut String) -> fmt::Result {
        let name = "ratelimit_mesh_state_updates_total";
        head(page, name, "counter", "Messages to and from a peer, signs of life among them.")?;
        for peer in &self.peers {
            for (operation, count) in [("send", peer.messages_sent), ("receive", peer.messages_received)] {
                let peer_id = escaped(&peer.name);
                writeln!(page, "{name}{{operation=\"{operation}\",peer_id=\"{peer_id}\"}} {count}")?;
            }
        }
        Ok(())
    }

    fn write_latencies(&self, page: &mut String) -> fmt::Result {
        let name = "ratelimit_mesh_sync_latency";
        head(page, name, "histogram", "Round trips to a peer, looked at once a second, in milliseconds.")?;
        for peer in &self.peers {
            let labels = format!("operation=\"round_trip\",peer_id=\"{}\"", escaped(&peer.name));
            let mut so_far = 0;
            for (edge, count) in BUCKETS_US.iter().zip(peer.latencies.buckets) {
                so_far += count;
                writeln!(page, "{name}_bucket{{{labels},le=\"{}\"}} {so_far}", millis(*edge))?;
            }
            let count = peer.latencies.count;
            writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
            writeln!(page, "{name}_sum{{{labels}}} {}", millis(peer.latencies.sum_us))?;
            writeln!(page, "{name}_count{{{labels}}} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
