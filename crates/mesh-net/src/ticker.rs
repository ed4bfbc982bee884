//! Periodic tasks of a node: ticks of the state machine, and gossip of the peer table.

use super::context::{NodeContext, every};
use super::lock;
use super::tick_report::next_report;
use hivemind_mesh::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Interval of ticks while the state machine waits for something, and how many times longer it is otherwise.
pub(super) const TICK: Duration = Duration::from_millis(5);
const IDLE_FACTOR: u32 = 2;
/// Interval of gossip, and after how many rounds it contains the whole peer table.
const GOSSIP_INTERVAL: Duration = Duration::from_secs(1);
const FULL_GOSSIP_EVERY: u64 = 30;

impl NodeContext {
    /// Ticks the state machine until shutdown.
    pub(super) async fn run_ticks(self: Arc<Self>) {
        loop {
            let began = self.clock.now();
            let sent = self.store.on_tick(began);
            if sent.peers > 0 {
                let mut reports = lock(&self.tick_reports);
                reports.sync = next_report(reports.sync, (began, self.clock.now()), (sent.peers, sent.bytes));
            }
            self.send_map_updates();
            let waits = self.store.with(|node| node.has_waiting());
            let pause = if waits { TICK } else { TICK * IDLE_FACTOR };
            let _ = timeout(pause, std::future::pending::<()>()).await;
        }
    }

    /// Sends changes of the peer table to all peers, and removes expired entries, until shutdown.
    pub(super) async fn run_gossip(self: Arc<Self>) {
        let mut ticks = every(GOSSIP_INTERVAL);
        // Spreads the full rounds of nodes that start together.
        let mut round = self.clock.now().as_nanos() / 1_000 % FULL_GOSSIP_EVERY;
        loop {
            ticks.tick().await;
            round += 1;
            self.report_dns_members();
            let now = self.clock.now();
            let members = self.store.with(|node| node.view().map(|view| view.members().to_vec()));
            let is_member = |name: &NodeId| {
                members.as_ref().is_some_and(|list| list.iter().any(|known| known.id == *name))
            };
            let (links, update) = {
                let mut peer_table = lock(&self.peer_table);
                let links = self.links.list();
                for link in &links {
                    peer_table.record_connection(&link.peer.member, link.peer.address, now);
                }
                peer_table.remove_expired(now, is_member);
                self.links.retain_traffic(|name| peer_table.contains(name));
                let changes = peer_table.write_changes(now);
                let is_full = round.is_multiple_of(FULL_GOSSIP_EVERY);
                (links, if is_full { Some(peer_table.write(now)) } else { changes })
            };
            let Some(message) = self.append_map_digest(update, now) else { continue };
            for link in &links {
                link.send_gossip(&message);
            }
            let mut reports = lock(&self.tick_reports);
            let sent = (links.len(), links.len() * message.len());
            reports.gossip = next_report(reports.gossip, (now, self.clock.now()), sent);
        }
    }
}
